// @ts-check
// The sentence lens: beliefs of all words, three linked views of one, and answers about spans that are marked.
/** @import { Lens } from "../../shared/api_types.js" */
import { asInReport } from "../../shared/analyses.js";
import { ask } from "../../shared/api.js";
import { attempt, byId, el, inside, message, replace, say } from "../../shared/dom.js";
import { button, onDone } from "../../shared/jobs.js";
import { showWords } from "./beliefs.js";
import { forgetLayers, pickLayer, setLayers } from "./layer.js";
import { openMarks, readMarks, showAsking, showMarked } from "./marks.js";
import { showAttended } from "./heads.js";
import { showNear } from "./near.js";
import { showPath } from "./path.js";
import { ready } from "../../shared/page.js";
import * as state from "../../shared/state.js";

const about = await ready;
/** @type {Lens | null} */
let seen = null; // the answer that is shown
/** @type {string | null} */
let shown = null; // the sentence that it is about

const asked = () => ({ model: state.get("model"), sentence: state.get("sentence") });

// Everything, from model and sentence.
async function look() {
  const { sentence } = asked();
  // Words and spans are of one sentence; another model may be asked about the same.
  if (shown !== null && sentence !== shown) state.set({ word: "", mark: "" }, { quiet: true });
  const first = shown === null && !state.get("mark") && sentence === about.sentence;
  shown = sentence;
  await attempt("Reading the sentence …", async () => {
    let answer = await askAll().catch(withoutMarks);
    if (answer && first) answer = await withExamples(answer);
    if (!answer) return;
    seen = answer;
    forgetLayers();
    setLayers(seen.layers);
    showSentence(seen);
    await showWord(seen, chosenWord(seen));
  });
}

const askAll = () => ask("/lens", { ...asked(), marked: readMarks() });

/**
 * Marks of another model or sentence must not keep the sentence from being shown.
 * @param {unknown} error
 */
async function withoutMarks(error) {
  if (!state.get("mark")) {
    clear();
    throw error;
  }
  state.set({ mark: "" }, { quiet: true });
  const answer = await askAll();
  say(message(error), { wrong: true });
  return answer;
}

// What was shown of another sentence would be taken for this one's.
function clear() {
  seen = null;
  for (const id of ["token", "asking", "beliefs-table"]) byId(id).hidden = true;
  for (const id of ["words", "beliefs-about"]) replace(byId(id));
}

/**
 * A first visit has something in the last part of the page too.
 * @param {Lens} answer
 */
async function withExamples(answer) {
  const marks = openMarks(answer);
  if (!marks.length) return answer;
  state.set({ mark: marks }, { quiet: true });
  return askAll();
}

/** @param {Lens} seen */
function chosenWord(seen) {
  const word = Number(state.get("word", "-1"));
  return Number.isInteger(word) && word >= 0 && word < seen.words.length ? word : seen.interesting;
}

/** @param {Lens} seen */
function showSentence(seen) {
  showWords(seen, (word) => {
    state.set({ word }, { quiet: true });
    attempt("Looking at the word …", () => showWord(seen, word));
  });
  if (!seen.tasks.length) offerProbes();
  showAsking(seen, (marks) => {
    state.set({ mark: marks }, { quiet: true });
    attempt("Asking the probes …", askMarked);
  });
  showMarked(seen, removeMark);
}

async function askMarked() {
  const answer = await askAll();
  if (!answer) return;
  seen = answer;
  showMarked(seen, removeMark);
  pickLayer();
}

/** @param {string} mark */
function removeMark(mark) {
  state.set({ mark: state.getAll("mark").filter((each) => each !== mark) }, { quiet: true });
  attempt("Asking the probes …", askMarked);
}

function offerProbes() {
  replace(
    byId("beliefs-about"),
    `No saved probes fit ${state.get("model")} here, so what its layers believe cannot be shown. `,
    button("Train probes (about 3 minutes)", () => asInReport("probe", { model: state.get("model") })),
  );
}

/**
 * @param {Lens} seen
 * @param {number} word
 */
async function showWord(seen, word) {
  const name = seen.words[word];
  const wanted = { ...asked(), word };
  for (const each of byId("words").querySelectorAll("button")) {
    each.setAttribute("aria-pressed", String(Number(each.dataset.word) === word));
    each.tabIndex = Number(each.dataset.word) === word ? 0 : -1;
  }
  byId("token").hidden = false;
  replace(byId("token-title"), "The word ", el("q", {}, name));
  const answer = await ask("/lens/word", wanted);
  if (!answer) return;
  showPath(answer, seen.words, word);
  showAttended(answer.attended, seen.words, word);
  pickLayer();
  showNeighbours(wanted);
}

/**
 * Asked after everything else: the first time, the corpus has to be read.
 * @param {{ model: string, sentence: string, word: number }} wanted
 */
async function showNeighbours(wanted) {
  const box = inside(byId("near"), ".box");
  replace(box, el("p", { class: "soft" }, "Looking through the corpus; the first time for a model this takes up to a minute …"));
  try {
    const answer = await ask("/lens/neighbours", wanted);
    if (!answer) return;
    showNear(answer);
    pickLayer();
  } catch (error) {
    const again = el("button", { type: "button", onclick: () => showNeighbours(wanted) }, "Try again");
    replace(box, el("p", { class: "wrong" }, message(error)), again);
  }
}

state.onChange(look);
onDone(look);
await look();
