// @ts-check
// Sentences of the corpus in which a head does what it is asked for most clearly, and those in which it fails.
/** @import { Child } from "../../shared/dom.js" */
/** @import { ExamplesOfHead, HeadExampleCard, HeadMissCard } from "../../shared/api_types.js" */
/** @import { Drawn } from "./pane.js" */
import { el } from "../../shared/dom.js";
import { short } from "../../shared/scales.js";

/**
 * The sentence with some of its words marked: by place, how.
 * @param {string[]} words
 * @param {Record<number, string>} marks
 */
export const marked = (words, marks) => words.flatMap((word, index) => [index in marks ? el("mark", { class: marks[index] }, word) : word, " "]);

const counted = (/** @type {number} */ count, /** @type {string} */ what) => `${count} ${what}${count === 1 ? "" : "s"}`;

/**
 * @param {string} name
 * @param {() => void} onShow
 */
const drawing = (name, onShow) => el("button", { type: "button", "aria-label": `Draw the lines of ${name}`, onclick: onShow }, "Draw");

/**
 * @param {ExamplesOfHead} card
 * @param {(drawn: Drawn) => void} onShow
 */
function best(card, onShow) {
  const about = `Links ${card.sought}, the strongest of each sentence, in ${counted(card.sentences, "sentence")} of ${card.corpus} (dev): ${card.limits}. Left out, as sinks (special tokens, the first word of a decoder): ${Math.round(100 * card.to_sinks)} % of its attention.`;
  if (!card.examples.length) return [el("p", { class: "soft" }, about), el("p", {}, "None of these sentences has such a link.")];
  const item = (/** @type {HeadExampleCard} */ sample, /** @type {number} */ index) => {
    const { words, source, target, relation, weight } = sample;
    const between = `${words[source]} → ${words[target]}${relation ? ` (${relation})` : ""}`;
    const show = drawing(`example ${index + 1}`, () => onShow({ words, of: `example ${index + 1}, ${card.corpus}`, focus: { side: "from", word: source } }));
    return el("li", {}, el("p", { class: "example" }, marked(words, { [source]: "from", [target]: "to" })), el("p", { class: "soft" }, `${between}: ${short(weight)} of its attention `, show));
  };
  return [el("p", { class: "soft" }, about, " ", el("mark", { class: "from" }, "attends"), " to ", el("mark", { class: "to" }, "attended to"), "."), el("ol", { class: "examples" }, card.examples.map(item))];
}

/**
 * How often it is wrong, and what was chosen of that.
 * @param {ExamplesOfHead} card
 */
function summary({ targets, hits, misses, relation }) {
  const what = relation ? `${relation} ${targets === 1 ? "dependency" : "dependencies"}` : targets === 1 ? "word" : "words";
  const counts = `In these sentences it finds ${hits} of ${targets} ${what}`;
  if (targets === hits) return `${counts}: it fails at none of them.`;
  const wrong = targets - hits;
  const rest = misses.length === wrong ? "" : `; ${misses.length === 1 ? "the one" : `the ${misses.length}`} with the largest weight on a wrong word, at most one per sentence`;
  return `${counts}, and misses ${wrong}${rest}.`;
}

/**
 * @param {ExamplesOfHead} card
 * @param {(drawn: Drawn) => void} onShow
 * @returns {Child[]}
 */
function failing(card, onShow) {
  if (!card.targets) {
    if (card.relation) return [];
    return [el("h3", {}, "Where it fails"), el("p", {}, "It is known for no relation, so that no link is right or wrong. Colour the atlas by a relation (“finds the head of …”), and see how this head does at it.")];
  }
  const item = (/** @type {HeadMissCard} */ example, /** @type {number} */ index) => {
    const { words, word, chosen, right, relation, weight, right_weight: beside } = example;
    const arrow = card.attends ? "→" : "←";
    const show = drawing(`miss ${index + 1}`, () => onShow({ words, of: `miss ${index + 1}, ${card.corpus}`, focus: { side: card.attends ? "from" : "to", word } }));
    return el(
      "li",
      {},
      el("p", { class: "example" }, marked(words, { [word]: "from", [right]: "to", [chosen]: "wrongly" })),
      el("p", { class: "soft" }, `${words[word]} ${arrow} ${words[chosen]} (word ${chosen + 1}), ${short(weight)}; right: ${words[right]} (word ${right + 1}), ${short(beside)}${relation ? ` (${relation})` : ""} `, show),
    );
  };
  const key = [el("mark", { class: "from" }, "asked about"), ", ", el("mark", { class: "wrongly" }, "chosen"), ", ", el("mark", { class: "to" }, "right"), "."];
  return [el("h3", {}, "Where it fails"), el("p", { class: "soft" }, summary(card), " ", card.misses.length ? key : null), el("ol", { class: "misses" }, card.misses.map(item))];
}

/**
 * @param {ExamplesOfHead} card
 * @param {(drawn: Drawn) => void} onShow
 * @returns {Child[]}
 */
export function examples(card, onShow) {
  return [...best(card, onShow), ...failing(card, onShow)];
}
