// @ts-check
// Spans that the user marks, and what the probes say of them. In the address as `lamina trace --mark` writes them.
/** @import { Belief, LabelBelief, MarkedSpan, SentenceView, TaskCard } from "../../shared/api_types.js" */
import { byId, el, replace, select } from "../../shared/dom.js";
import { bars, inWords } from "./bars.js";
import * as state from "../../shared/state.js";
import { chosenSpan, pickInto, writtenSpan } from "../../shared/strip.js";

/** @import { Slot, Span } from "../../shared/strip.js" */

const SHOWN = 4; // labels of an answer that are seen at once,
const LIKELY = 0.2; // and those that are as probable as this at some layer: several may hold
const MOST = 32; // marks at one time
/** @type {Record<string, [string, string]>} */
const SPANS = {
  dep: ["dependent", "head"],
  srl: ["predicate", "argument"],
  spr: ["predicate", "argument"],
  rel: ["first entity", "second entity"],
};
// What a first visit asks about, if the sentence has the words.
const OPENING = [
  ["dep", "boats", "man"],
  ["dep", "keys", "are"],
  ["supersense", "table"],
];
const last = (/** @type {number[]} */ ends) => ends[ends.length - 1];

/** @param {string} task */
const bare = (task) => task.split(" (")[0];

/** @type {Slot[]} */
const SLOTS = ["word", "word2"];

/**
 * @param {string} mark
 * @returns {MarkedSpan | null}
 */
function parsed(mark) {
  const [task, ...spans] = mark.split(":");
  const ends = spans.map((span) => span.split("-").map(Number));
  const whole = ends.length >= 1 && ends.length <= 2 && ends.flat().every((end) => Number.isInteger(end) && end >= 0 && end < 512);
  if (!whole) return null;
  const [one, two] = ends;
  return { task, first: one[0], last: last(one), ...(two ? { first2: two[0], last2: last(two) } : {}) };
}

// What cannot be read in an address is left out.
export const readMarks = () => state.getAll("mark").map(parsed).filter((mark) => mark !== null).slice(0, MOST);

/** @param {SentenceView} seen */
export function openMarks(seen) {
  return OPENING.flatMap(([task, ...words]) => {
    const places = words.map((word) => seen.words.indexOf(word));
    const known = seen.tasks.some((candidate) => candidate.name === task && candidate.arity === words.length);
    return known && !places.includes(-1) ? [[task, ...places].join(":")] : [];
  });
}

/**
 * @param {SentenceView} seen
 * @param {(marks: string[]) => void} ask
 */
export function showAsking(seen, ask) {
  const tasks = seen.tasks.filter((task) => !task.unasked);
  byId("asking").hidden = tasks.length === 0;
  if (!tasks.length) return;
  const choice = select("task");
  const before = choice.value;
  replace(choice, tasks.map((task) => el("option", { value: task.name }, task.title)));
  if (tasks.some((task) => task.name === before)) choice.value = before;
  const current = () => tasks.find((task) => task.name === choice.value) ?? tasks[0];
  choice.onchange = () => showSlots(current());
  byId("mark").onsubmit = (event) => {
    event.preventDefault();
    const names = SLOTS.slice(0, current().arity);
    const spans = names.map((slot) => chosenSpan(slot, seen.words.length));
    const missing = spans.indexOf(null);
    byId("mark-said").textContent = missing < 0 ? "" : `Choose ${names.length > 1 ? `span ${missing + 1}` : "a span"} in the strip first.`;
    if (missing >= 0) return;
    const mark = [choice.value, ...spans.map((span) => writtenSpan(/** @type {Span} */ (span)))].join(":");
    ask([...new Set([mark, ...state.getAll("mark")])].slice(0, MOST));
  };
  showSlots(current());
  showPicked(seen.words);
}

/**
 * Which of a task's spans the strip chooses.
 * @param {TaskCard} task
 */
function showSlots(task) {
  byId("task-about").textContent = `${task.about}; ${task.labels} labels`;
  const names = task.arity === 1 ? ["Span"] : (SPANS[bare(task.name)] ?? ["first span", "second span"]).map((name, index) => `Span ${index + 1}: the ${name}`);
  const radios = names.map((name, index) =>
    el("label", {}, el("input", { type: "radio", name: "slot", value: SLOTS[index], checked: index === 0, onchange: () => pickInto(SLOTS[index]) }), ` ${name}: `, el("b", { "data-slot": SLOTS[index] })),
  );
  pickInto("word");
  replace(byId("spans"), el("legend", {}, "What the strip chooses"), radios);
}

/**
 * The words of the spans that are chosen.
 * @param {string[]} words
 */
export function showPicked(words) {
  for (const box of /** @type {NodeListOf<HTMLElement>} */ (byId("spans").querySelectorAll("[data-slot]"))) {
    const span = chosenSpan(/** @type {Slot} */ (box.dataset.slot), words.length);
    box.textContent = span ? words.slice(span[0], span[1] + 1).join(" ") : "none yet";
  }
}

/**
 * @param {SentenceView} seen
 * @param {(mark: string) => void} remove
 */
export function showMarked(seen, remove) {
  const unasked = new Set(seen.tasks.filter((task) => task.unasked).map((task) => task.name));
  const titles = new Map(seen.tasks.map((task) => [task.name, task.title]));
  const marks = state.getAll("mark");
  const order = new Map(marks.map((mark, index) => [mark, index]));
  const items = seen.beliefs
    .map((belief) => ({ belief, mark: [belief.task, ...belief.spans.map(([start, end]) => writtenSpan([start, end - 1]))].join(":") }))
    .filter(({ belief }) => !unasked.has(belief.task))
    .sort((one, other) => (order.get(one.mark) ?? 0) - (order.get(other.mark) ?? 0));
  replace(byId("marked"), items.map(({ belief, mark }) => answer(belief, mark, seen.words, titles.get(belief.task) ?? belief.task, remove)));
}

/**
 * @param {Belief} belief
 * @param {string} mark
 * @param {string[]} words
 * @param {string} title
 * @param {(mark: string) => void} remove
 */
function answer(belief, mark, words, title, remove) {
  const spans = belief.spans.map(([start, end]) => words.slice(start, end).join(" ")).join(" + ");
  const away = el("button", { type: "button", "aria-label": `Remove ${title} of ${spans}` }, "×");
  away.addEventListener("click", () => remove(mark));
  const line = (/** @type {LabelBelief} */ label, /** @type {number} */ order) => el("li", { "aria-label": inWords(label) }, bars(label, order));
  const likely = belief.labels.filter(({ probabilities }, index) => index < SHOWN || Math.max(...probabilities) >= LIKELY);
  const rest = belief.labels.filter((label) => !likely.includes(label));
  return el(
    "article",
    { class: "answer", "data-mark": mark },
    el("h3", {}, `${title}: ${spans} `, away),
    el("ul", {}, likely.map(line)),
    rest.length ? el("details", {}, el("summary", {}, `${rest.length} more labels`), el("ul", {}, rest.map((label) => line(label, 2)))) : null,
  );
}
