// @ts-check
// The heads of one word: the strongest as buttons that open their card, all of them as dots.
/** @import { SentenceReading } from "../../shared/api_types.js" */
/** @import { Partner } from "./grid.js" */
import { el, svg } from "../../shared/dom.js";
import { partnersOf } from "./grid.js";

const ROOM = 300; // the grid's height, where a model is deep
const LARGEST = 20; // side of a cell
const LEFT = 22;
const STRONGEST = 6;

/** @param {number} share */
const percent = (share) => `${Math.round(100 * share)} %`;

/**
 * @param {SentenceReading} reading
 * @param {string[]} words
 * @param {number} word
 * @param {(head: string) => void} open
 */
export function attended(reading, words, word, open) {
  const { attention } = reading;
  if (!attention) return el("p", { class: "soft" }, "There are no attention maps: the model has no heads, or the text is longer than it takes at once.");
  const { incoming, outgoing } = partnersOf(reading, word);
  return [
    el("p", { class: "soft sinks" }, leftOut(attention, words, word)),
    direction("incoming", `Who looks at “${words[word]}”`, incoming, words, attention.blocks, attention.heads, open),
    direction("outgoing", `Where “${words[word]}” looks`, outgoing, words, attention.blocks, attention.heads, open),
    el("p", { class: "soft" }, "A head's largest weight between this word and another one; a dot's area is the weight."),
  ];
}

/**
 * What is not drawn: sinks get much attention whatever the text.
 * @param {NonNullable<SentenceReading["attention"]>} attention
 * @param {string[]} words
 * @param {number} word
 */
function leftOut({ sinks, to_sinks: shares }, words, word) {
  const who = sinks.length ? `“${words[sinks[0]]}”, the first word (a sink of decoders),` : "special tokens such as [CLS] and [SEP] (sinks)";
  const share = `${percent(shares[word])} of its attention goes to ${who} and is left out.`;
  return sinks.includes(word) ? "The first word of a decoder is a sink: it is looked at whatever the text, and those links are left out." : share;
}

/**
 * @param {"incoming" | "outgoing"} kind
 * @param {string} title
 * @param {Partner[]} heads
 * @param {string[]} words
 * @param {number} blocks
 * @param {number} count
 * @param {(head: string) => void} open
 */
function direction(kind, title, heads, words, blocks, count, open) {
  const arrow = kind === "incoming" ? "←" : "→";
  const strongest = heads.slice(0, STRONGEST);
  return el(
    "div",
    { class: "direction", "data-direction": kind },
    el("h4", {}, title),
    el(
      "ol",
      { class: "strongest" },
      strongest.map(({ head, word, weight }) =>
        el("li", { "data-layer": head.split("-")[0] }, el("button", { type: "button", "data-head": head, "aria-label": `Open the card of head ${head}`, onclick: () => open(head) }, head), ` ${arrow} ${words[word]} `, el("small", {}, weight.toFixed(2))),
      ),
    ),
    heads.length ? grid(title, heads, words, arrow, blocks, count, open) : el("p", { class: "soft" }, "There is no other word."),
  );
}

/**
 * @param {string} title
 * @param {Partner[]} heads
 * @param {string[]} words
 * @param {string} arrow
 * @param {number} layers
 * @param {number} count
 * @param {(head: string) => void} open
 */
function grid(title, heads, words, arrow, layers, count, open) {
  const cell = Math.min(LARGEST, ROOM / layers);
  const [width, height] = [Math.max(180, LEFT + count * cell), layers * cell + 14];
  const rows = Array.from({ length: layers }, (_, index) => {
    const layer = index + 1;
    const y = index * cell;
    return svg(
      "g",
      { "data-layer": layer, class: "row" },
      svg("rect", { class: "slot", x: 0, y, width, height: cell }),
      layers <= 16 || layer % 2 ? svg("text", { x: LEFT - 6, y: y + cell / 2 + 4 }, String(layer)) : null,
      heads.filter(({ head }) => head.startsWith(`${layer}-`)).map((link) => dot(link, y, cell, words, arrow, open)),
    );
  });
  const [best] = heads;
  const label = `${title}, all heads by layer and number: the strongest is head ${best.head} with ${best.weight.toFixed(2)}.`;
  return svg("svg", { class: "grid", viewBox: `0 0 ${width} ${height}`, width, role: "img", "aria-label": label }, rows, svg("text", { x: LEFT, y: height - 2 }, `head 1 to ${count}; rows are layers`));
}

/**
 * @param {Partner} link
 * @param {number} y
 * @param {number} cell
 * @param {string[]} words
 * @param {string} arrow
 * @param {(head: string) => void} open
 */
function dot({ head, word, weight }, y, cell, words, arrow, open) {
  const [cx, cy, r] = [LEFT + (Number(head.split("-")[1]) - 0.5) * cell, y + cell / 2, Math.max(0.8, Math.sqrt(weight) * (cell / 2 - 1))];
  return svg(
    "g",
    { class: "pick", "aria-hidden": "true", onclick: () => open(head) },
    svg("rect", { class: "hit", x: cx - cell / 2, y, width: cell, height: cell }),
    svg("circle", { cx, cy, r }),
    svg("title", {}, `head ${head} ${arrow} ${words[word]} ${weight.toFixed(2)}`),
  );
}
