// @ts-check
// The tab Sentence: beliefs of all words, three linked views of one, and answers about spans that are marked.
/** @import { LabelBelief, SentenceView, WordView } from "../../shared/api_types.js" */
import { asInReport } from "../../shared/analyses.js";
import { post } from "../../shared/api.js";
import { byId, el, inside, message, replace, say } from "../../shared/dom.js";
import { button, onDone } from "../../shared/jobs.js";
import { follow, pickLayer, unfollow } from "../../shared/layer.js";
import { ready } from "../../shared/page.js";
import * as state from "../../shared/state.js";
import { annotate, chosenSpan } from "../../shared/strip.js";
import { load, wait } from "../../shared/waiting.js";
import { leading, toldOf, turnsOf, wordCards } from "./beliefs.js";
import { attended } from "./heads.js";
import { openMarks, readMarks, showAsking, showMarked, showPicked } from "./marks.js";
import { near } from "./near.js";
import { path } from "./path.js";

const about = await ready;
/** @type {SentenceView | null} */
let seen = null; // the answer that is shown; null while another is awaited
/** @type {Map<number, LabelBelief[]>} */
let told = new Map();
let first = true;

const asked = () => ({ model: state.get("model"), sentence: state.get("sentence") });
const boxes = ["path", "near", "attended"].map((id) => inside(byId(id), ".box"));
const [pathBox, nearBox, attendedBox] = boxes;

// Everything, from model and sentence. Until the answer is there, nothing of an older one is shown.
async function look() {
  seen = null;
  for (const name of ["notes", "path", "near"]) unfollow(name);
  annotate([]);
  replace(byId("turns"));
  replace(byId("token-title"), "The word");
  for (const box of boxes) wait(box);
  byId("asking").hidden = true;
  /** @type {SentenceView | undefined} */
  let found;
  const filled = await load(byId("words"), async (signal) => {
    let answer = await withMarks(signal);
    if (first && !state.get("mark") && asked().sentence === about.sentence) answer = await withExamples(answer, signal);
    if (signal.aborted) return;
    first = false;
    seen = found = answer;
    told = toldOf(answer);
    return told.size ? wordCards(answer, told, (word) => state.set({ word })) : noProbes(answer);
  }, { lines: 4 });
  if (!filled || !found) return leave();
  const answer = found;
  follow("notes", (layer) => annotate(answer.words.map((_, at) => leading(told.get(at) ?? [], layer))));
  showSpans(answer);
  await showWord(answer);
}

// The sentence cannot be read: the boxes below wait for nothing.
function leave() {
  if (byId("words").getAttribute("aria-busy")) return; // a newer question is under way
  for (const box of boxes) {
    box.removeAttribute("aria-busy");
    replace(box);
  }
}

/** @param {AbortSignal} signal */
const askAll = (signal) => post("/lens", { ...asked(), marked: readMarks() }, signal);

/**
 * Marks of another model or sentence must not keep the sentence from being shown.
 * @param {AbortSignal} signal
 */
async function withMarks(signal) {
  try {
    return await askAll(signal);
  } catch (error) {
    if (signal.aborted || !state.get("mark")) throw error;
    state.set({ mark: "" }, { quiet: true });
    const answer = await askAll(signal);
    say(message(error), { wrong: true });
    return answer;
  }
}

/**
 * A first visit has something in the last part of the page too.
 * @param {SentenceView} answer
 * @param {AbortSignal} signal
 */
async function withExamples(answer, signal) {
  const marks = openMarks(answer);
  if (!marks.length || signal.aborted) return answer;
  state.set({ mark: marks }, { quiet: true });
  return askAll(signal);
}

/** @param {SentenceView} answer */
function noProbes(answer) {
  return [
    el("p", {}, `No saved probes fit ${state.get("model")} here, so what its layers believe cannot be shown. ${answer.words.length} words, ${answer.tokens} tokens.`),
    button("Train probes", () => asInReport("probe", { model: state.get("model") })),
  ];
}

/** @param {SentenceView} answer */
function showSpans(answer) {
  showAsking(answer, (marks) => state.set({ mark: marks }));
  showMarked(answer, (mark) => state.set({ mark: state.getAll("mark").filter((each) => each !== mark) }));
}

// Only the marks changed: the words stay.
async function askMarked() {
  const before = seen;
  if (!before) return;
  await load(byId("marked"), async (signal) => {
    const answer = await askAll(signal);
    if (signal.aborted) return;
    seen = answer;
    showMarked(answer, (mark) => state.set({ mark: state.getAll("mark").filter((each) => each !== mark) }));
    pickLayer();
  });
}

/** @param {SentenceView} answer */
function chosenWord(answer) {
  return chosenSpan("word", answer.words.length)?.[0] ?? answer.interesting;
}

/**
 * Where its label turns, in one sentence.
 * @param {string} name
 * @param {LabelBelief[]} labels
 */
function turns(name, labels) {
  const found = turnsOf(labels);
  if (!found.length) return null;
  const [start, ...later] = found;
  if (!later.length) return [el("q", {}, name), " is ", el("b", {}, start.label), " from P(0) on."];
  return [el("q", {}, name), " starts as ", el("b", {}, start.label), later.map(({ label, from }) => [" and becomes ", el("b", {}, label), ` at layer ${from}`]).flat(), "."].flat();
}

/** @param {SentenceView} answer */
async function showWord(answer) {
  const span = chosenSpan("word", answer.words.length);
  const word = chosenWord(answer);
  if (!span) state.set({ word }, { quiet: true });
  const name = answer.words[word];
  for (const each of /** @type {NodeListOf<HTMLElement>} */ (byId("words").querySelectorAll("button.word"))) {
    each.setAttribute("aria-pressed", String(Number(each.dataset.word) === word));
  }
  for (const option of byId("strip").querySelectorAll("[role=option]")) {
    if (!span) option.setAttribute("aria-selected", String(option.getAttribute("data-word") === String(word)));
  }
  const several = span && span[1] > span[0];
  replace(byId("token-title"), "The word ", el("q", {}, name), several ? el("span", { class: "soft" }, ` (the first of the span ${answer.words.slice(span[0], span[1] + 1).join(" ")})`) : null);
  replace(byId("turns"), turns(name, told.get(word) ?? []) ?? []);
  showPicked(answer.words);
  const wanted = { ...asked(), word };
  /** @type {Promise<WordView>} */
  let found;
  const filled = await load(pathBox, async (signal) => {
    found = post("/lens/word", wanted, signal);
    // Filled together, by one answer; what goes wrong is said in the first box.
    load(attendedBox, async () => attended((await found.catch(() => null))?.attended ?? null, answer.words, word));
    return path(await found, answer.words, word);
  }, { lines: 8 });
  // After everything else: the first time, the corpus has to be read.
  const saying = "Looking through the corpus; the first time for a model this takes up to a minute …";
  if (filled) {
    pickLayer();
    if (await load(nearBox, async (signal) => near(await post("/lens/neighbours", wanted, signal)), { lines: 6, saying })) pickLayer();
  }
}

state.onChange((changed) => {
  if ("model" in changed || "sentence" in changed) look();
  else {
    if ("mark" in changed) askMarked();
    if (seen && "word" in changed) showWord(seen);
    else if (seen && "word2" in changed) showPicked(seen.words);
  }
});
onDone(look);
await look();
