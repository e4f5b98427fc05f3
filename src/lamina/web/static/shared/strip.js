// @ts-check
// The sentence strip: where words and spans are chosen, by mouse (click, drag, Shift), touch (tap, drag, the button
// Span) and keyboard (arrows, Enter, Shift and arrows). What is chosen is in the address: `word=3` or `word=3-5`.
import { ask } from "./api.js";
import { byId, el, message, replace } from "./dom.js";
import * as state from "./state.js";
import { done, skeleton, wait } from "./waiting.js";

/** @typedef {[first: number, last: number]} Span both included */
/** @typedef {"word" | "word2"} Slot the second span is for tasks of pairs */

/** @type {string[]} */
let words = [];
/** @type {Slot} */
let slot = "word";
/** @type {number | null} */
let anchor = null; // where a drag began
/** @type {Span | null} */
let trying = null; // what a drag would choose
let current = 0; // the word that the keyboard is at
let notes = /** @type {(string | null)[]} */ ([]);

/**
 * What is chosen; null for nothing, or for what the sentence does not have.
 * @param {Slot} name
 * @returns {Span | null}
 */
export function chosenSpan(name = "word", length = words.length) {
  const parts = /^(\d+)(?:-(\d+))?$/.exec(state.get(name));
  if (!parts) return null;
  const [first, last] = [Number(parts[1]), Number(parts[2] ?? parts[1])];
  return first <= last && last < length ? [first, last] : null;
}

/** @param {Span} span */
export const writtenSpan = ([first, last]) => (first === last ? `${first}` : `${first}-${last}`);

/**
 * Which span the strip chooses from now on.
 * @param {Slot} name
 */
export function pickInto(name) {
  slot = name;
  mark();
}

/**
 * A note under every word, such as its label at the layer that is looked at.
 * @param {(string | null)[]} texts
 */
export function annotate(texts) {
  notes = texts;
  for (const [index, option] of options().entries()) {
    const note = option.querySelector(".note");
    if (note) note.textContent = texts[index] ?? "";
    option.classList.toggle("noted", Boolean(texts[index]));
  }
}

/** @returns {HTMLElement[]} */
const options = () => [.../** @type {NodeListOf<HTMLElement>} */ (byId("strip").querySelectorAll("[role=option]"))];

/**
 * @param {Span} span
 * @param {boolean} replace whether it changes a choice that was just made
 */
function choose([one, other], replace = false) {
  const span = writtenSpan([Math.min(one, other), Math.max(one, other)]);
  byId("extend").setAttribute("aria-pressed", "false");
  trying = null;
  state.set({ [slot]: span }, { replace });
  mark();
}

function mark() {
  const [first, second] = [slot === "word" ? (trying ?? chosenSpan()) : chosenSpan(), slot === "word2" ? (trying ?? chosenSpan("word2")) : chosenSpan("word2")];
  const within = (/** @type {number} */ index, /** @type {Span | null} */ span) => span !== null && index >= span[0] && index <= span[1];
  for (const [index, option] of options().entries()) {
    option.setAttribute("aria-selected", String(within(index, first) || within(index, second)));
    option.classList.toggle("second", within(index, second) && !within(index, first));
    option.tabIndex = index === current ? 0 : -1;
  }
}

/** @param {number} index */
function focus(index) {
  current = Math.min(words.length - 1, Math.max(0, index));
  mark();
  options()[current]?.focus();
}

const extending = () => byId("extend").getAttribute("aria-pressed") === "true";

/** The end of the chosen span that stays while the keyboard moves the other. */
const fixedEnd = () => {
  const span = chosenSpan(slot);
  if (!span) return current;
  return current === span[0] && span[0] !== span[1] ? span[1] : span[0];
};

/**
 * The end of the chosen span that stays when it is extended to a word: the one farther from it.
 * @param {number} index
 */
const endOppositeTo = (index) => {
  const span = chosenSpan(slot) ?? [index, index];
  return index < span[0] ? span[1] : span[0];
};

/** @type {Record<string, (at: number) => number>} */
const STEPS = { ArrowLeft: (index) => index - 1, ArrowRight: (index) => index + 1, Home: () => 0, End: () => words.length - 1 };

/** @param {KeyboardEvent} event */
function key(event) {
  const step = STEPS[event.key];
  if (step) {
    event.preventDefault();
    const fixed = fixedEnd();
    focus(step(current));
    if (event.shiftKey) choose([fixed, current], true);
  } else if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    choose(extending() ? [endOppositeTo(current), current] : [current, current]);
  }
}

/** @param {PointerEvent} event */
function wordAt(event) {
  // A finger that moves stays with the word where it began: what lies under it counts.
  const option = document.elementFromPoint(event.clientX, event.clientY)?.closest("#strip [data-word]");
  return option instanceof HTMLElement ? Number(option.dataset.word) : null;
}

/** @param {PointerEvent} event */
function press(event) {
  const index = wordAt(event);
  if (index === null || event.button !== 0) return;
  anchor = event.shiftKey || extending() ? endOppositeTo(index) : index;
  trying = [Math.min(anchor, index), Math.max(anchor, index)];
  mark();
}

/** @param {PointerEvent} event */
function drag(event) {
  const index = anchor === null ? null : wordAt(event);
  if (anchor === null || index === null) return;
  trying = [Math.min(anchor, index), Math.max(anchor, index)];
  mark();
}

/** @param {PointerEvent} event */
function release(event) {
  if (anchor === null) return;
  const index = wordAt(event) ?? trying?.[1] ?? anchor;
  const from = anchor;
  anchor = null;
  current = index;
  choose([from, index]);
  options()[index]?.focus({ preventScroll: true });
}

function cancel() {
  anchor = trying = null;
  mark();
}

// Within the strip, which is too low for all words of a long sentence; the page stays where it is.
function bringIntoSight() {
  const [box, option] = [byId("strip"), options()[current]];
  if (option && box.scrollWidth > box.clientWidth) box.scrollLeft = option.offsetLeft - box.offsetLeft - box.clientWidth / 2 + option.offsetWidth / 2;
  if (option && box.scrollHeight > box.clientHeight) box.scrollTop = option.offsetTop - box.offsetTop - box.clientHeight / 2 + option.offsetHeight / 2;
}

/** Shows the words of the sentence in the address. */
async function show() {
  const box = byId("strip");
  wait(box, { lines: 0 });
  box.append(skeleton(1));
  try {
    const answer = await ask("/lens/words", { sentence: state.get("sentence") }, "strip");
    if (!answer) return;
    words = answer.words;
    notes = [];
    current = chosenSpan()?.[0] ?? 0;
    replace(box, words.map((word, index) => el("span", { role: "option", "data-word": index, "aria-selected": "false", tabindex: "-1" }, el("span", { class: "name" }, word), el("span", { class: "note" }))));
    annotate(notes);
    mark();
    bringIntoSight();
  } catch (error) {
    words = [];
    replace(box, el("span", { class: "wrong" }, message(error)));
  }
  done(box);
}

/** Begins to listen; the words come from the sentence in the address. */
export function beginStrip() {
  const box = byId("strip");
  box.addEventListener("keydown", key);
  box.addEventListener("pointerdown", press);
  box.addEventListener("pointermove", drag);
  addEventListener("pointerup", release);
  addEventListener("pointercancel", cancel);
  byId("extend").addEventListener("click", () => byId("extend").setAttribute("aria-pressed", String(!extending())));
  state.onChange((changed) => {
    if ("sentence" in changed) show();
    else if ("word" in changed || "word2" in changed) {
      const span = chosenSpan(slot);
      if (span && (current < span[0] || current > span[1])) current = span[0]; // by Back, or chosen elsewhere
      mark();
      bringIntoSight();
    }
  });
  show();
}
