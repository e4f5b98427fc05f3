// @ts-check
// What the probes of single words believe, in words and as a table.
/** @import { Belief, SentenceView } from "../../shared/api_types.js" */
import { el, table } from "../../shared/dom.js";
import { short } from "../../shared/scales.js";
import { leader, paint } from "./grid.js";

/**
 * Where a word becomes what: each label that leads, from which probe on.
 * @param {Belief} belief
 */
function turnsOf(belief) {
  /** @type {{ label: string, from: number, probability: number }[]} */
  const turns = [];
  for (let layer = 0; layer < belief.leads.length; layer++) {
    const { label, probability } = leader(belief, layer);
    if (label !== turns.at(-1)?.label) turns.push({ label, from: layer, probability });
  }
  return turns;
}

/**
 * Where the label of a word turns, and from where on it is decided, in one sentence.
 * @param {string} word
 * @param {Belief} belief
 * @param {number} margin
 */
export function turns(word, belief, margin) {
  const [start, ...later] = turnsOf(belief);
  const final = leader(belief, belief.leads.length - 1);
  const second = Math.max(0, ...belief.labels.filter(({ label }) => label !== final.label).map(({ probabilities }) => probabilities.at(-1) ?? 0));
  const close = `${short(final.probability)} against ${short(second)} in the end`;
  const way = later.length ? ["starts as ", el("b", {}, start.label), ...later.flatMap(({ label, from }) => [", becomes ", el("b", {}, label), ` at layer ${from}`])] : ["is ", el("b", {}, start.label), " at every layer"];
  const decided = belief.decided === null ? `; never decided: no label leads by ${short(margin)} (${close}).` : `; decided at layer ${belief.decided} (${close}).`;
  return [el("q", {}, word), " ", ...way, decided];
}

/** @param {SentenceView} seen @param {Map<number, Belief>} beliefs */
export function explained(seen, beliefs) {
  const labels = new Map();
  for (const belief of beliefs.values()) for (let layer = 0; layer < belief.leads.length; layer++) labels.set(leader(belief, layer).label, (labels.get(leader(belief, layer).label) ?? 0) + 1);
  const keys = [...labels].sort((one, other) => other[1] - one[1]).map(([label]) => {
    const { fill, text } = paint(label, 1);
    return el("span", { class: "label-key", style: `background: ${fill}; color: ${text}` }, label);
  });
  const probes = seen.seeds > 1 ? `, the mean of ${seen.seeds} probes` : "";
  return [
    el("div", { class: "legend", "aria-label": "Labels" }, keys),
    el(
      "p",
      { class: "soft" },
      `Each cell is the label that leads under the probe P(l), which sees layers 0 to l${probes}; the fainter, the less probable. Outlined: another label led at the layer before. ` +
        `Decided at: the first layer from which on the label stays and leads by at least ${short(seen.margin)}. ${seen.words.length} words, ${seen.tokens} tokens.`,
    ),
  ];
}

/**
 * @param {SentenceView} seen
 * @param {Map<number, Belief>} beliefs
 */
export function asTable(seen, beliefs) {
  const layers = Array.from({ length: seen.layers }, (_, layer) => `P(${layer})`);
  const rows = [...beliefs].flatMap(([index, { labels }]) => labels.map(({ label, probabilities }) => [seen.words[index], label, ...probabilities.map((value) => value.toFixed(3))]));
  return el("details", { id: "beliefs-table" }, el("summary", {}, "The same as a table"), table(["word", "label", ...layers], rows, { caption: "Probability of part-of-speech labels, layer by layer" }));
}
