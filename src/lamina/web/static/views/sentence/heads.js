// @ts-check
// The heads of one word: all of them as dots, the strongest as links to their own page.
/** @import { WordHead, WordHeads } from "../../shared/api_types.js" */
import { el, svg } from "../../shared/dom.js";
import * as state from "../../shared/state.js";

const ROOM = 360; // the grid's height, where a model is deep
const LARGEST = 20; // side of a cell
const LEFT = 22;
const STRONGEST = 6;

/**
 * @param {WordHeads | null} found
 * @param {string[]} words
 * @param {number} word
 */
export function attended(found, words, word) {
  if (!found) return el("p", { class: "soft" }, "There are no attention maps: the model has no heads, or the text is longer than it takes at once.");
  return [
    direction("incoming", `Who looks at “${words[word]}”`, found.incoming, words),
    direction("outgoing", `Where “${words[word]}” looks`, found.outgoing, words),
    el("p", { class: "soft" }, "A dot's area is the head's largest weight between this word and another one, special tokens left out."),
  ];
}

/** @param {WordHead} head */
const target = ({ layer, head }) => state.address("/heads", { head: `${layer}-${head}` });

/**
 * @param {"incoming" | "outgoing"} kind
 * @param {string} title
 * @param {WordHead[]} heads
 * @param {string[]} words
 */
function direction(kind, title, heads, words) {
  const arrow = kind === "incoming" ? "←" : "→";
  const strongest = heads.slice(0, STRONGEST);
  return el(
    "div",
    { class: "direction", "data-direction": kind },
    el("h4", {}, title),
    el(
      "ol",
      { class: "strongest" },
      strongest.map((each) =>
        el("li", { "data-layer": each.layer }, el("a", { href: target(each) }, `${each.layer}-${each.head}`), ` ${arrow} ${words[each.word]} `, el("small", {}, each.weight.toFixed(2))),
      ),
    ),
    heads.length ? grid(title, heads, words, arrow) : el("p", { class: "soft" }, "There is no other word."),
  );
}

/**
 * @param {string} title
 * @param {WordHead[]} heads
 * @param {string[]} words
 * @param {string} arrow
 */
function grid(title, heads, words, arrow) {
  const [layers, count] = [Math.max(...heads.map((each) => each.layer)), Math.max(...heads.map((each) => each.head))];
  const cell = Math.min(LARGEST, ROOM / layers);
  const [width, height] = [Math.max(180, LEFT + count * cell), layers * cell + 14];
  const rows = Array.from({ length: layers }, (_, at) => {
    const layer = at + 1;
    // The first layer stands at the bottom, as in the atlas of heads.
    const y = (layers - layer) * cell;
    const own = heads.filter((each) => each.layer === layer);
    return svg(
      "g",
      { "data-layer": layer, class: "row" },
      svg("rect", { class: "slot", x: 0, y, width, height: cell }),
      svg("text", { x: LEFT - 6, y: y + cell / 2 + 4 }, String(layer)),
      own.map((each) => dot(each, y, cell, words, arrow)),
    );
  });
  const best = heads[0];
  const said = `${title}, all heads by layer and number: the strongest is head ${best.head} of layer ${best.layer} with ${best.weight.toFixed(2)}.`;
  return svg("svg", { class: "grid", viewBox: `0 0 ${width} ${height}`, width, role: "group", "aria-label": said }, rows, svg("text", { x: LEFT, y: height - 2 }, `head 1 to ${count}; rows are layers`));
}

/**
 * @param {WordHead} each
 * @param {number} y
 * @param {number} cell
 * @param {string[]} words
 * @param {string} arrow
 */
function dot(each, y, cell, words, arrow) {
  const [cx, cy, r] = [LEFT + (each.head - 0.5) * cell, y + cell / 2, Math.max(0.8, Math.sqrt(each.weight) * (cell / 2 - 1))];
  return svg(
    "a",
    { href: target(each), tabindex: "-1", "aria-hidden": "true" },
    svg("rect", { class: "hit", x: cx - cell / 2, y, width: cell, height: cell }),
    svg("circle", { cx, cy, r }),
    svg("title", {}, `head ${each.layer}-${each.head} ${arrow} ${words[each.word]} ${each.weight.toFixed(2)}`),
  );
}
