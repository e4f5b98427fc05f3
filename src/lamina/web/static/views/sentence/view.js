// @ts-check
// The workbench of a sentence: its words by layers, the links, neighbours and path of the word that is pointed at, the
// card of a head that can be switched off, and answers about spans that are marked.
/** @import { Belief, Intervention, NearestWords, SentenceReading, SentenceView, WordNeighbours } from "../../shared/api_types.js" */
import { asInReport } from "../../shared/analyses.js";
import { post } from "../../shared/api.js";
import { byId, el, inside, message, replace, say } from "../../shared/dom.js";
import { button, onDone } from "../../shared/jobs.js";
import { follow, pickLayer, setLayers, unfollow } from "../../shared/layer.js";
import { ready } from "../../shared/page.js";
import * as state from "../../shared/state.js";
import { annotate, chosenSpan } from "../../shared/strip.js";
import { load, wait } from "../../shared/waiting.js";
import { changes } from "../../panels/switch.js";
import { asTable, explained, turns } from "./beliefs.js";
import { showHead } from "./card.js";
import { beliefsOf, bench, leader, partnersOf } from "./grid.js";
import { attended } from "./heads.js";
import { openMarks, readMarks, showAsking, showMarked, showPicked } from "./marks.js";
import { near } from "./near.js";
import { path } from "./path.js";

const CLOSE = 12; // words to either side whose neighbours are asked for together

const about = await ready;
/** @type {SentenceView | null} */
let seen = null; // the answer that is shown; null while another is awaited
/** @type {SentenceReading | null} */
let reading = null;
/** @type {ReturnType<typeof bench> | null} */
let grid = null;
/** @type {Map<number, Belief>} */
let beliefMap = new Map();
/** @type {Map<number, { answer: NearestWords, neighbour: WordNeighbours }>} */
let known = new Map(); // neighbours, by word
/** @type {number | null} */
let pointed = null; // the word under the pointer, or with the focus
let first = true;

const request = () => ({ model: state.get("model"), sentence: state.get("sentence") });
const boxes = ["path", "near", "attended"].map((id) => inside(byId(id), ".box"));
const [pathBox, nearBox, attendedBox] = boxes;
const open = (/** @type {string} */ head) => state.set({ head });

// Everything, from model and sentence. Until the answer is there, nothing of an older one is shown.
async function look() {
  [seen, reading, grid, pointed] = [null, null, null, null];
  known = new Map();
  for (const name of ["notes", "path", "near"]) unfollow(name);
  annotate([]);
  replace(byId("turns"));
  replace(byId("token-title"), "The word");
  for (const box of boxes) wait(box, { lines: 8 });
  byId("asking").hidden = true;
  /** @type {SentenceView | undefined} */
  let reply;
  const filled = await load(byId("words"), async (signal) => {
    let answer = await withMarks(signal);
    if (first && !state.get("mark") && request().sentence === about.sentence) answer = await withExamples(answer, signal);
    if (signal.aborted) return;
    first = false;
    seen = reply = answer;
    beliefMap = beliefsOf(answer);
    setLayers(answer.layers);
    const box = el("div");
    grid = bench(box, answer, { choose: (word) => state.set({ word }), point: pointAt });
    return beliefMap.size ? [box, ...explained(answer, beliefMap), asTable(answer, beliefMap)] : [box, ...noProbes(answer)];
  }, { lines: 10 });
  if (!filled || !reply) return leave();
  const answer = reply;
  follow("notes", (layer) => annotate(answer.words.map((_, index) => noteOf(index, layer))));
  showSpans(answer);
  chooseWord(answer);
  showCard();
  await readAll(answer);
}

/** @param {number} word @param {number} layer */
function noteOf(word, layer) {
  const belief = beliefMap.get(word);
  return belief ? leader(belief, layer).label : null;
}

// The sentence cannot be read: the boxes below wait for nothing.
function leave() {
  if (byId("words").getAttribute("aria-busy")) return; // a newer question is under way
  for (const box of boxes) {
    box.removeAttribute("aria-busy");
    replace(box);
  }
}

/**
 * All words at every layer and who looks where: once for the sentence, so that every word is shown at once.
 * @param {SentenceView} answer
 */
async function readAll(answer) {
  const wanted = request();
  const filled = await load(pathBox, async (signal) => {
    const got = await post("/lens/reading", wanted, signal);
    if (signal.aborted || seen !== answer) return;
    reading = got;
    return path(got, answer.words, current(answer));
  }, { lines: 8 });
  if (seen !== answer) return;
  if (!filled) return replace(attendedBox);
  attendedBox.removeAttribute("aria-busy");
  light();
  await nearby(answer);
}

/** The word that everything is about: the one that is pointed at, or else the chosen one. @param {SentenceView} answer */
const current = (answer) => pointed ?? chosenWord(answer);

/** @param {number | null} word */
function pointAt(word) {
  if (word === pointed || !seen || (word !== null && word >= seen.words.length)) return;
  pointed = word;
  light();
}

/** Everything about one word, of what is there already: nothing is asked for. */
function light() {
  if (!seen) return;
  const word = current(seen);
  const name = seen.words[word];
  grid?.light(word, chosenWord(seen));
  const span = chosenSpan("word", seen.words.length);
  const several = pointed === null && span && span[1] > span[0];
  replace(byId("token-title"), "The word ", el("q", {}, name), several ? el("span", { class: "soft" }, ` (the first of the span ${seen.words.slice(span[0], span[1] + 1).join(" ")})`) : null);
  const belief = beliefMap.get(word);
  replace(byId("turns"), belief ? turns(name, belief, seen.margin) : []);
  if (reading) {
    replace(pathBox, path(reading, seen.words, word));
    replace(attendedBox, attended(reading, seen.words, word, open));
    grid?.draw(word, partnersOf(reading, word), linksOf(reading, activeHead()));
  }
  const near_ = known.get(word);
  if (near_) replace(nearBox, near(near_.answer, near_.neighbour));
  pickLayer();
}

/**
 * Of the head that is looked at, the strongest link of every word.
 * @param {SentenceReading} read
 * @param {string} head
 */
function linksOf({ attention }, head) {
  const [layer, place] = head.split("-").map(Number);
  if (!attention || !(layer >= 1 && layer <= attention.blocks && place >= 1 && place <= attention.heads)) return [];
  const position = (layer - 1) * attention.heads + place - 1;
  const { weight, word } = attention.outgoing;
  return weight.flatMap((row, from) => (word[from][position] >= 0 && row[position] >= 0.05 ? [{ from, to: word[from][position], weight: row[position] }] : []));
}

/**
 * The neighbours of the chosen word and of those around it; the first time, the corpus has to be read.
 * @param {SentenceView} answer
 */
async function nearby(answer) {
  const word = chosenWord(answer);
  if (known.has(word)) return light();
  const [from, to] = [Math.max(0, word - CLOSE), Math.min(answer.words.length, word + CLOSE + 1)];
  const words = Array.from({ length: to - from }, (_, index) => from + index);
  const saying = "Looking through the corpus; the first time for a model this takes up to a minute …";
  await load(nearBox, async (signal) => {
    const got = await post("/lens/neighbours", { ...request(), words }, signal);
    if (signal.aborted || seen !== answer) return;
    for (const neighbour of got.neighbours) known.set(neighbour.word, { answer: got, neighbour });
    const nearest = known.get(current(answer));
    return nearest ? near(nearest.answer, nearest.neighbour) : [];
  }, { lines: 6, saying });
  if (seen === answer) pickLayer();
}

/** Of the heads in the address, the one chosen last. */
const activeHead = () => state.getAll("head").findLast((head) => /^\d+-\d+$/.test(head)) ?? "";

/** The card of the head in the address, and what is different where it is switched off. */
function showCard() {
  const head = activeHead();
  showHead(head, (comparison) => grid?.compare(comparison ? besideOf(comparison, head) : null));
  light();
}

/** @param {Intervention} comparison @param {string} head */
function besideOf(comparison, head) {
  const by = new Map(changes(comparison).map((change) => [change.word, change]));
  const labels = comparison.words.map((_, index) => {
    const change = by.get(index);
    const after = comparison.after.beliefs.find(({ spans }) => spans.length === 1 && spans[0][0] === index && spans[0][1] === index + 1);
    return change && after ? { ...leader(after, after.leads.length - 1), changed: change.before !== change.after } : null;
  });
  return { title: `without ${head}`, labels };
}

/** @param {AbortSignal} signal */
const askAll = (signal) => post("/lens", { ...request(), marked: readMarks() }, signal);

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
  showMarked(answer, (mark) => state.set({ mark: state.getAll("mark").filter((other) => other !== mark) }));
}

// Only the marks changed: the words stay.
async function askMarked() {
  const before = seen;
  if (!before) return;
  await load(byId("marked"), async (signal) => {
    const answer = await askAll(signal);
    if (signal.aborted) return;
    seen = answer;
    showMarked(answer, (mark) => state.set({ mark: state.getAll("mark").filter((other) => other !== mark) }));
    pickLayer();
  });
}

/** @param {SentenceView} answer */
function chosenWord(answer) {
  return chosenSpan("word", answer.words.length)?.[0] ?? answer.interesting;
}

/** Takes over what the address says of the word. @param {SentenceView} answer */
function chooseWord(answer) {
  const span = chosenSpan("word", answer.words.length);
  const word = chosenWord(answer);
  if (!span) state.set({ word }, { quiet: true });
  for (const option of byId("strip").querySelectorAll("[role=option]")) {
    if (!span) option.setAttribute("aria-selected", String(option.getAttribute("data-word") === String(word)));
  }
  showPicked(answer.words);
  grid?.reveal(word);
  light();
}

for (const [kind, on] of /** @type {const} */ ([["pointerover", true], ["focusin", true], ["pointerleave", false], ["focusout", false]])) {
  byId("strip").addEventListener(kind, (event) => {
    if (event instanceof PointerEvent && event.pointerType === "touch") return;
    const word = on && event.target instanceof Element ? event.target.closest("[data-word]")?.getAttribute("data-word") : null;
    pointAt(word ? Number(word) : null);
  });
}
state.onChange((changed) => {
  if ("model" in changed || "sentence" in changed) return look();
  if ("mark" in changed) askMarked();
  if (seen && "word" in changed) {
    chooseWord(seen);
    if (reading) nearby(seen);
  } else if (seen && "word2" in changed) showPicked(seen.words);
  if ("head" in changed) showCard();
});
onDone(look);
await look();
