// @ts-check
// Waiting is visible: a box that is being filled says so and shows its shape, never an answer to an older question.
import { el, message, replace } from "./dom.js";

/** @import { Child } from "./dom.js" */

/** @type {WeakMap<Element, AbortController>} */
const working = new WeakMap();

/**
 * Grey lines in place of what is coming; a screen reader hears only that the box is busy.
 * @param {number} lines
 */
export const skeleton = (lines = 3) => el("div", { class: "skeleton", "aria-hidden": "true" }, Array.from({ length: lines }, () => el("span")));

/**
 * Empties a box and marks it as busy, until it is filled or left.
 * @param {Element} box
 */
export function wait(box, { lines = 3, saying = "" } = {}) {
  box.setAttribute("aria-busy", "true");
  replace(box, saying ? el("p", { class: "soft" }, saying) : null, skeleton(lines));
}

/** @param {Element} box */
export const done = (box) => box.removeAttribute("aria-busy");

/**
 * Fills a box with what `work` gives. A newer call on the same box aborts this one and wins; what goes wrong is said in
 * the box, with a button that tries again. True where this call filled it.
 * @param {Element} box
 * @param {(signal: AbortSignal) => Promise<Child | Child[] | void>} work nothing, if it filled the box itself
 * @param {{ lines?: number, saying?: string }} how
 * @returns {Promise<boolean>}
 */
export async function load(box, work, how = {}) {
  working.get(box)?.abort();
  const control = new AbortController();
  working.set(box, control);
  wait(box, how);
  try {
    const made = await work(control.signal);
    if (control.signal.aborted) return false;
    if (made !== undefined) replace(box, made);
    done(box);
    return true;
  } catch (error) {
    if (control.signal.aborted) return false;
    const again = el("button", { type: "button", onclick: () => load(box, work, how) }, "Try again");
    replace(box, el("p", { class: "wrong", role: "alert" }, message(error), " ", again));
    done(box);
    return false;
  }
}
