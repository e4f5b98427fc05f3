// @ts-check
// What a language model makes of typed text: the likelier of two sentences, and a word for a gap.
/** @import { ClozeAnswer, PairVerdict, SentenceScore } from "../shared/api_types.js" */
import { post } from "../shared/api.js";
import { el, table } from "../shared/dom.js";
import { diverging, farthest } from "../shared/scales.js";
import * as state from "../shared/state.js";
import { load } from "../shared/waiting.js";

const GOOD = "The keys to the cabinet are on the table.";
const BAD = "The keys to the cabinet is on the table.";
const GAP = "The keys to the cabinet ___ on the table.";

/**
 * @param {string} id
 * @param {string} label
 * @param {string} value
 */
function field(id, label, value) {
  const input = el("input", { id, value, spellcheck: "false", required: true, maxlength: "2000" });
  return { input, labelled: el("label", { class: "wide" }, label, " ", input) };
}

const nats = (/** @type {number | null} */ value) => (value === null ? "–" : value.toFixed(2));

/**
 * Words with their log-probability, the darker the less likely than in the other sentence.
 * @param {SentenceScore} sentence
 * @param {SentenceScore} other
 * @param {number} most
 */
function words(sentence, other, most) {
  return el("p", { class: "likely" }, sentence.words.map(({ word, logprob }, index) => {
    const apart = sentence.words.length === other.words.length && logprob !== null && other.words[index].logprob !== null ? logprob - /** @type {number} */ (other.words[index].logprob) : 0;
    const { fill, text } = diverging(apart / (most || 1));
    return [el("span", { class: "apart", style: `background: ${fill}; color: ${text}`, title: `${nats(logprob)} nats` }, word, el("span", { class: "range" }, nats(logprob))), " "];
  }).flat());
}

/** @param {PairVerdict} verdict */
function judged({ good, bad, right, margin }) {
  const alike = good.words.length === bad.words.length;
  const most = alike ? farthest(good.words.map(({ logprob }, index) => (logprob ?? 0) - (bad.words[index].logprob ?? 0))) : 0;
  const verdict = right === 1 ? "The first is the likelier one" : right === 0 ? "The second is the likelier one" : "Both are equally likely";
  return [
    el("p", {}, `${verdict}: ${Math.abs(margin).toFixed(2)} nats apart (${nats(good.logprob)} and ${nats(bad.logprob)}).`),
    words(good, bad, most),
    words(bad, good, most),
    el("p", { class: "soft" }, alike ? "Log-probability of each word, in nats; orange: likelier here than in the other sentence, blue: less likely." : "Log-probability of each word, in nats."),
  ];
}

/** @param {ClozeAnswer} answer */
function filled({ top, candidates, sees_after: after }) {
  const rows = top.map(({ piece, probability }, index) => [index + 1, piece, `${(100 * probability).toFixed(1)} %`]);
  const rated = candidates.map(({ word, logprob, rank }) => [word, logprob.toFixed(2), rank.toLocaleString("en")]);
  return [
    el("p", { class: "soft" }, after ? "It sees what follows the gap." : "It does not see what follows the gap."),
    el("div", { class: "columns" }, table(["rank", "piece", "probability"], rows, { caption: "What it says" }), rated.length ? table(["candidate", "log-probability, nats", "rank in the vocabulary"], rated, { caption: "Candidates" }) : null),
  ];
}

/**
 * @param {string} label
 * @param {(HTMLElement | string)[]} fields
 * @param {(signal: AbortSignal) => Promise<(Node | string | null)[]>} work
 */
function form(label, fields, work) {
  const box = el("div");
  const element = el("form", { class: "asking", autocomplete: "off" }, fields, el("button", { type: "submit" }, label));
  element.addEventListener("submit", (event) => {
    event.preventDefault();
    load(box, work);
  });
  return el("div", {}, element, box);
}

export function typing() {
  const [good, bad] = [field("pair-good", "A sentence", GOOD), field("pair-bad", "and another", BAD)];
  const [gap, words_] = [field("cloze-text", "A text with one gap, written ___", GAP), field("cloze-words", "Candidates, with commas between them", "are, is, were")];
  words_.input.required = false;
  const models = () => [state.get("model")];
  return el(
    "div",
    { class: "columns" },
    el("section", { "aria-labelledby": "pair-title" }, el("h3", { id: "pair-title" }, "Which of two sentences is likelier?"), form("Compare the two", [good.labelled, bad.labelled], async (signal) => judged((await post("/behaviour/pairs", { models: models(), good: good.input.value, bad: bad.input.value }, signal))[0]))),
    el("section", { "aria-labelledby": "cloze-title" }, el("h3", { id: "cloze-title" }, "What goes into the gap?"), form("Fill the gap", [gap.labelled, words_.labelled], async (signal) => filled((await post("/behaviour/cloze", { models: models(), text: gap.input.value, candidates: words_.input.value.split(",").map((item) => item.trim()).filter(Boolean) }, signal))[0]))),
  );
}
