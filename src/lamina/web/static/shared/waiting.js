// @ts-check
// Waiting is visible: a box that is being filled says so and shows its shape, never an answer to an older question.
import { read } from "./api.js";
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
  keepHeight(box);
  replace(box, saying ? el("p", { class: "soft" }, saying) : null, skeleton(lines));
}

const SLOW = 3000; // milliseconds of silence

/**
 * Says in a box that is still empty how many requests the server has, and how long an answer may take.
 * @param {Element} box
 */
async function tellQueue(box) {
  const { models, answer_seconds } = await read("/queue");
  const busy = models.map(({ model, waiting }) => `${model} has ${waiting} ${waiting === 1 ? "request" : "requests"}`);
  if (box.getAttribute("aria-busy") && !box.querySelector(".queue")) box.prepend(el("p", { class: "soft queue" }, `Still waiting${busy.length ? `: ${busy.join(", ")}` : ""}. An answer may take ${answer_seconds} seconds; then it is given up.`));
}

/** @param {Element} box */
export function done(box) {
  box.removeAttribute("aria-busy");
  if (box instanceof HTMLElement) box.style.minHeight = "";
}

/** While a box is filled again, what is below it stays where it is. @param {Element} box */
function keepHeight(box) {
  if (box instanceof HTMLElement && box.offsetHeight) box.style.minHeight = `${box.offsetHeight}px`;
}

/**
 * Once a box can be seen: what is drawn to the width of its place has to have one.
 * @param {Element} box
 * @returns {Promise<void>}
 */
export const placed = (box) =>
  new Promise((seen) => {
    if (box.clientWidth) return seen();
    const observer = new ResizeObserver(() => {
      if (!box.clientWidth) return;
      observer.disconnect();
      seen();
    });
    observer.observe(box);
  });

const ARRIVING = '[aria-busy="true"]:not(.estimate, [data-slow], figure .box)';

/**
 * A page appears from its top to its bottom: a part is there when those above it have what they wait for, so that
 * nothing that a reader looks at moves. What has appeared stays.
 */
export function beginArrival() {
  const main = document.getElementById("main");
  if (!main) return;
  const parts = [...main.children].flatMap((part) => (part.classList.contains("heads") ? [...part.children] : [part]));
  const footer = document.querySelector("footer");
  if (footer) parts.push(footer);
  for (const part of parts) if (!part.matches("h1, .about, .status, #trouble")) part.toggleAttribute("data-later", true);
  document.body.classList.remove("arriving");
  const show = () => {
    for (const part of parts) {
      part.removeAttribute("data-later");
      if (part.matches(ARRIVING) || part.querySelector(ARRIVING)) return;
    }
    observer.disconnect();
  };
  const observer = new MutationObserver(show);
  observer.observe(main, { subtree: true, childList: true, attributeFilter: ["aria-busy"] });
  show();
}

/**
 * Fills a box with what `work` gives. A newer call on the same box aborts this one and wins; errors are shown in
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
  const patience = setTimeout(() => tellQueue(box).catch(() => {}), SLOW);
  try {
    const answer = await work(control.signal);
    if (control.signal.aborted) return false;
    if (answer !== undefined) replace(box, answer);
    done(box);
    return true;
  } catch (error) {
    if (control.signal.aborted) return false;
    const again = el("button", { type: "button", onclick: () => load(box, work, how) }, "Try again");
    replace(box, el("p", { class: "wrong", role: "alert" }, message(error), " ", again));
    done(box);
    return false;
  } finally {
    clearTimeout(patience);
  }
}
