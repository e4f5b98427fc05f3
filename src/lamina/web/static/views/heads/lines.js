// @ts-check
// Lines of attention: words that attend on the left, words attended to on the right, one panel for all heads or each its own.
/** @import { Focus, Links } from "./canvas.js" */
import { el, replace } from "../../shared/dom.js";
import { short } from "../../shared/scales.js";
import { onScheme } from "../../shared/theme.js";
import { drawLines } from "./canvas.js";

/**
 * @typedef {{ name: string, links: Links, stroke: { colour: string, dash: number[] } }} Head
 * @typedef {Head & { colour: string, dash: number[] }} StrokedHead
 * @typedef {{ tokens: string[], sinks: boolean[], heads: Head[], withSinks: boolean, least: number, side: boolean, pinned: Focus | null }} Shown
 */

const ROW = 24; // pixels per word
/** @type {Record<string, [number, number]>} */
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
const SAID = 6; // links named in words
const ARROWS = { from: "→", to: "←" };

/**
 * The strongest links of one word: [other word, weight, head].
 * @param {Head[]} heads
 * @param {Focus} focus
 * @param {number[]} rows
 */
function linksOf(heads, { side, unit }, rows) {
  /** @type {[number, number, string][]} */
  const pairs = [];
  for (const { name, links } of heads) {
    for (let index = 0; index < links.weight.length; index++) {
      const [end, other] = side === "from" ? [links.from[index], links.to[index]] : [links.to[index], links.from[index]];
      if (end === unit && rows[other] >= 0) pairs.push([other, links.weight[index], name]);
    }
  }
  return pairs.sort((one, other) => other[1] - one[1]).slice(0, SAID);
}

/**
 * @param {string[]} tokens
 * @param {Head[]} heads
 * @param {Focus | null} focus
 * @param {number[]} rows
 */
function inWords(tokens, heads, focus, rows) {
  if (!focus) return "";
  const several = heads.length > 1;
  const partners = linksOf(heads, focus, rows).map(([other, weight, name]) => `${tokens[other]} ${short(weight)}${several ? ` (${name})` : ""}`);
  return `${tokens[focus.unit]} ${ARROWS[focus.side]} ${partners.join(", ") || "nothing over the floor"}`;
}

/**
 * `onFocus` gets a description in words of where the word under the pointer attends.
 * @param {StrokedHead[]} strokes
 * @param {{ tokens: string[], rows: number[], least: number, label: string, pinned: Focus | null, onFocus: (words: string) => void }} options
 */
function panel(strokes, { tokens, rows, least, label, pinned, onFocus }) {
  const order = [...tokens.keys()].filter((unit) => rows[unit] >= 0);
  const words = { from: order.map((unit) => word("from", unit)), to: order.map((unit) => word("to", unit)) };
  const canvas = el("canvas", { "aria-hidden": "true" });
  const inner = el("div", { class: "inner", style: `height: ${order.length * ROW}px` }, column("from"), canvas, column("to"));
  const box = el("div", { class: "lines", role: "group", "aria-label": label }, inner);
  /** @type {Focus | null} */
  let pointed = null;
  let waiting = false;
  words.from[0].tabIndex = 0;
  press();

  /**
   * @param {Focus["side"]} side
   * @param {number} unit
   */
  function word(side, unit) {
    return el("button", { type: "button", tabindex: "-1", "data-side": side, "data-unit": unit, "aria-pressed": "false", title: tokens[unit] }, tokens[unit]);
  }

  /** @param {Focus["side"]} side */
  function column(side) {
    return el("div", { class: `side ${side}`, role: "group", "aria-label": side === "from" ? "words that attend" : "words attended to" }, words[side]);
  }

  function draw() {
    waiting = false;
    canvas.style.height = `${box.clientHeight}px`;
    drawLines(canvas, { heads: strokes, rows, rowHeight: ROW, top: box.scrollTop, least, focus: pointed ?? pinned });
  }

  // However many reasons there are to draw, once a frame is enough.
  function redraw() {
    if (!waiting) requestAnimationFrame(draw);
    waiting = true;
  }

  const same = (/** @type {Focus | null} */ one, /** @type {Focus | null} */ other) => one?.side === other?.side && one?.unit === other?.unit;

  /** @param {Focus | null} next */
  function point(next) {
    if (same(next, pointed)) return;
    pointed = next;
    onFocus(inWords(tokens, strokes, pointed ?? pinned, rows));
    redraw();
  }

  /**
   * @param {Event} event
   * @returns {Focus | null}
   */
  const focusAt = ({ target }) => {
    const focus = target instanceof Element ? target.closest("[data-unit]") : null;
    if (!(focus instanceof HTMLElement)) return null;
    return { side: focus.dataset.side === "from" ? "from" : "to", unit: Number(focus.dataset.unit) };
  };

  /** @param {Event} event */
  function pin(event) {
    const focus = focusAt(event);
    if (!focus) return;
    pinned = same(focus, pinned) ? null : focus;
    press();
    redraw();
  }

  function press() {
    for (const button of [...words.from, ...words.to]) {
      button.setAttribute("aria-pressed", String(button.dataset.side === pinned?.side && Number(button.dataset.unit) === pinned?.unit));
    }
  }

  /** The word that is pinned, and what is linked to it, in the middle of what is seen. */
  function reveal() {
    if (!pinned) return;
    box.scrollTop = (rows[pinned.unit] + 0.5) * ROW - box.clientHeight / 2;
    onFocus(inWords(tokens, strokes, pinned, rows));
  }

  /** @param {KeyboardEvent} event */
  function move(event) {
    const now = focusAt(event);
    if (!now || !(event.key in STEPS)) return;
    event.preventDefault();
    const [down, across] = STEPS[event.key];
    const side = across ? (across > 0 ? "to" : "from") : now.side;
    const next = words[side][rows[now.unit] + down];
    if (!next) return;
    words[now.side][rows[now.unit]].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }

  inner.addEventListener("mouseover", (event) => point(focusAt(event)));
  inner.addEventListener("mouseleave", () => point(null));
  inner.addEventListener("focusin", (event) => event.target instanceof Element && event.target.matches(":focus-visible") && point(focusAt(event)));
  inner.addEventListener("focusout", () => point(null));
  inner.addEventListener("click", pin);
  inner.addEventListener("keydown", move);
  box.addEventListener("scroll", redraw, { passive: true });
  const resized = new ResizeObserver(redraw);
  resized.observe(box);

  return {
    box,
    redraw,
    reveal,
    /** @param {number} weight */
    setLeast(weight) {
      least = weight;
      redraw();
    },
    forget: () => resized.disconnect(),
  };
}

/**
 * @param {Head[]} heads
 * @returns {StrokedHead[]}
 */
function stroked(heads) {
  const style = getComputedStyle(document.documentElement);
  return heads.map((head) => ({ ...head, colour: style.getPropertyValue(head.stroke.colour).trim(), dash: head.stroke.dash }));
}

/**
 * Where each unit stands, from the top; -1 where it is hidden.
 * @param {boolean[]} sinks
 * @param {boolean} withSinks
 */
function placed(sinks, withSinks) {
  let next = 0;
  return sinks.map((hidden) => (hidden && !withSinks ? -1 : next++));
}

/**
 * @param {HTMLElement} box
 * @param {{ onFocus: (words: string) => void }} listeners
 */
export function makeLines(box, { onFocus }) {
  /** @type {ReturnType<typeof panel>[]} */
  let panels = [];
  let again = () => {};

  /** @param {Shown} options */
  function show({ tokens, sinks, heads, withSinks, least, side, pinned }) {
    again = () => show({ tokens, sinks, heads, withSinks, least, side, pinned });
    for (const view of panels) view.forget();
    const rows = placed(sinks, withSinks);
    const groups = side ? stroked(heads).map((head) => [head]) : [stroked(heads)];
    panels = groups.map((group) => {
      const names = group.map((head) => head.name).join(", ");
      return panel(group, { tokens, rows, least, label: `Attention of ${names}: lines from words that attend to words attended to`, pinned: pinned && rows[pinned.unit] >= 0 ? pinned : null, onFocus });
    });
    replace(box, panels.map((view, index) => el("div", { class: "panel" }, side ? el("h3", {}, heads[index].name) : null, view.box)));
    onFocus("");
    for (const view of panels) {
      view.reveal();
      view.redraw();
    }
  }

  onScheme(() => again());
  return { show, setLeast: (/** @type {number} */ least) => panels.forEach((view) => view.setLeast(least)) };
}

/**
 * The strongest links over all shown heads, for a table.
 * @param {Shown} options
 */
export function strongest({ tokens, sinks, heads, withSinks, least }, most = 50) {
  /** @type {[string, string, string, number][]} */
  const segments = [];
  for (const { name, links } of heads) {
    for (let index = 0; index < links.weight.length && links.weight[index] >= least; index++) {
      const [from, to] = [links.from[index], links.to[index]];
      if (withSinks || !(sinks[from] || sinks[to])) segments.push([name, `${from}: ${tokens[from]}`, `${to}: ${tokens[to]}`, links.weight[index]]);
    }
  }
  segments.sort((one, other) => other[3] - one[3]);
  return segments.slice(0, most).map(([head, from, to, weight]) => [head, from, to, weight.toFixed(3)]);
}
