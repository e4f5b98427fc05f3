// @ts-check
// The words of the sentence as buttons, each with what the probes of single words believe.
/** @import { LabelBelief, SentenceView } from "../../shared/api_types.js" */
import { el, table } from "../../shared/dom.js";
import { bars, inWords } from "./bars.js";

/**
 * Of each word, the labels of the task that is answered unasked.
 * @param {SentenceView} seen
 */
export function toldOf(seen) {
  const unasked = new Set(seen.tasks.filter((task) => task.unasked).map((task) => task.name));
  /** @type {Map<number, LabelBelief[]>} */
  const told = new Map();
  for (const belief of seen.beliefs) {
    const [start, end] = belief.spans[0];
    if (unasked.has(belief.task) && end === start + 1 && !told.has(start)) told.set(start, belief.labels);
  }
  return told;
}

/**
 * @param {SentenceView} seen
 * @param {Map<number, LabelBelief[]>} told
 * @param {(word: number) => void} choose
 */
export function wordCards(seen, told, choose) {
  return [
    el("p", { class: "soft" }, explained(seen, told.size > 0)),
    told.size ? el("div", { class: "lens-words", role: "group", "aria-label": "Every word with its bars" }, seen.words.map((word, at) => card(word, at, told.get(at) ?? [], choose))) : null,
    told.size ? asTable(seen, told) : null,
  ];
}

/**
 * The label that leads at a layer.
 * @param {LabelBelief[]} labels
 * @param {number} layer
 */
export function leading(labels, layer) {
  const at = (/** @type {LabelBelief} */ { probabilities }) => probabilities[Math.min(layer, probabilities.length - 1)];
  return labels.toSorted((one, other) => at(other) - at(one))[0]?.label ?? null;
}

/**
 * Where a word becomes what: each label that leads, from which probe on.
 * @param {LabelBelief[]} labels
 */
export function turnsOf(labels) {
  const count = labels[0]?.probabilities.length ?? 0;
  /** @type {{ label: string, from: number }[]} */
  const turns = [];
  for (let layer = 0; layer < count; layer++) {
    const label = leading(labels, layer);
    if (label && label !== turns.at(-1)?.label) turns.push({ label, from: layer });
  }
  return turns;
}

/**
 * @param {SentenceView} seen
 * @param {boolean} some probes told something
 */
function explained(seen, some) {
  if (!some) return `${seen.words.length} words, ${seen.tokens} tokens, ${seen.layers} layers. Choose a word in the strip above.`;
  const probes = seen.seeds > 1 ? `, the mean of ${seen.seeds} probes` : "";
  return (
    `Bars are a label's probability under the probes P(0) to P(${seen.layers - 1}), in this order${probes}; P(l) sees layers 0 to l. ` +
    `The number is that of the last probe. ${seen.words.length} words, ${seen.tokens} tokens. Choose a word to look closer.`
  );
}

/**
 * @param {string} word
 * @param {number} at
 * @param {LabelBelief[]} labels
 * @param {(word: number) => void} choose
 */
function card(word, at, labels, choose) {
  const name = labels.length ? `${word}: ${labels.map(inWords).join(", ")}` : word;
  return el(
    "button",
    { type: "button", class: "word", "data-word": at, "aria-label": name, "aria-pressed": "false", onclick: () => choose(at) },
    el("span", { class: "name" }, word),
    labels.slice(0, 2).map((label, order) => bars(label, order)),
  );
}

/**
 * @param {SentenceView} seen
 * @param {Map<number, LabelBelief[]>} told
 */
function asTable(seen, told) {
  const layers = Array.from({ length: seen.layers }, (_, layer) => `P(${layer})`);
  const rows = [...told].flatMap(([at, labels]) =>
    labels.map(({ label, probabilities }) => [seen.words[at], label, ...probabilities.map((value) => value.toFixed(3))]),
  );
  return el("details", { id: "beliefs-table" }, el("summary", {}, "The same as a table"), table(["word", "label", ...layers], rows, { caption: "Probability of part-of-speech labels, layer by layer" }));
}
