// @ts-check
// The atlas: layers x heads, one measure at a time. One stop for Tab, arrow keys inside.
/** @import { Measure } from "../../shared/api_types.js" */
import { el, replace } from "../../shared/dom.js";
import { behaviour, behaviourColours, scaled, short } from "./style.js";

/** @type {Record<string, [number, number]>} */
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

const nameOf = (/** @type {number} */ layer, /** @type {number} */ head) => `${layer + 1}-${head + 1}`;

/**
 * Where a value stands among all heads: 1 has the most.
 * @param {Measure} measure
 * @param {number} value
 */
export function ranked(measure, value) {
  const all = measure.values.flat().filter((each) => each !== null);
  return `${1 + all.filter((each) => each > value).length} of ${all.length}`;
}

/**
 * @param {Measure} measure
 * @param {string} head
 */
export function described(measure, head) {
  const [layer, place] = head.split("-").map((part) => Number(part) - 1);
  const value = measure.values[layer]?.[place] ?? null;
  if (value === null) return `${head}: no number`;
  if (measure.names.length) return `${head}: ${measure.names[value]}`;
  return `${head}: ${value.toFixed(3)} (${measure.unit}), rank ${ranked(measure, value)}`;
}

/**
 * @param {HTMLElement} cell
 * @param {Measure} measure
 * @param {number | null} value
 */
function paint(cell, measure, value) {
  const kind = measure.names.length && value !== null ? measure.names[value] : null;
  const [low, high] = [measure.low ?? 0, measure.high ?? 0];
  if (value === null) {
    cell.style.background = "transparent";
    cell.style.color = "";
  } else {
    const { fill, text } = kind === null ? scaled((value - low) / (high - low || 1)) : behaviourColours(kind);
    cell.style.background = fill;
    cell.style.color = text;
  }
  cell.textContent = kind === null ? short(value) : behaviour(kind).short;
  cell.setAttribute("aria-label", described(measure, headOf(cell)));
}

/** @param {HTMLElement} cell */
const headOf = (cell) => cell.dataset.head ?? "";

/**
 * `onChoose` when a head is clicked or Enter is pressed on it; `onLook` when it is pointed at.
 * @param {HTMLElement} box
 * @param {{ onChoose: (head: string, add: boolean) => void, onLook: (head: string) => void }} listeners
 */
export function makeAtlas(box, { onChoose, onLook }) {
  /** @type {HTMLButtonElement[]} */
  let cells = [];
  let size = [0, 0];

  const at = (/** @type {number} */ layer, /** @type {number} */ head) => cells[layer * size[1] + head];

  /** @param {HTMLElement} cell */
  function focusable(cell) {
    for (const each of cells) each.tabIndex = each === cell ? 0 : -1;
  }

  /** @param {KeyboardEvent} event */
  function move(event) {
    const index = cells.findIndex((cell) => cell === event.target);
    if (index < 0) return;
    const [layer, head] = [Math.floor(index / size[1]), index % size[1]];
    let [to, place] = [layer, head];
    if (event.key in STEPS) [to, place] = [layer + STEPS[event.key][0], head + STEPS[event.key][1]];
    else if (event.key === "Home") place = 0;
    else if (event.key === "End") place = size[1] - 1;
    else return;
    event.preventDefault();
    const next = to >= 0 && to < size[0] && place >= 0 && place < size[1] ? at(to, place) : null;
    if (!next) return;
    focusable(next);
    next.focus();
  }

  /**
   * @param {number} layers
   * @param {number} heads
   */
  function build(layers, heads) {
    size = [layers, heads];
    cells = [];
    const top = el("tr", {}, el("td", {}), Array.from({ length: heads }, (_, head) => el("th", { scope: "col" }, String(head + 1))));
    const rows = Array.from({ length: layers }, (_, layer) =>
      el(
        "tr",
        {},
        el("th", { scope: "row" }, String(layer + 1)),
        Array.from({ length: heads }, (_unused, head) => {
          const cell = el("button", { type: "button", "data-head": nameOf(layer, head), tabindex: "-1", "aria-pressed": "false" });
          cells.push(cell);
          return el("td", {}, cell);
        }),
      ),
    );
    const caption = el("caption", {}, "Rows are layers, columns are heads.");
    replace(box, el("table", { style: `--heads: ${heads}` }, caption, el("thead", {}, top), el("tbody", {}, rows)));
    cells[0].tabIndex = 0;
  }

  box.addEventListener("keydown", move);
  box.addEventListener("click", (event) => {
    const cell = cellAt(event);
    if (!cell) return;
    focusable(cell);
    onChoose(headOf(cell), event.shiftKey || event.ctrlKey || event.metaKey);
  });
  for (const kind of ["mouseover", "focusin"]) {
    box.addEventListener(kind, (event) => {
      const cell = cellAt(event);
      if (cell) onLook(headOf(cell));
    });
  }

  return {
    /**
     * @param {Measure} measure
     * @param {number} layers
     * @param {number} heads
     */
    show(measure, layers, heads) {
      if (size[0] !== layers || size[1] !== heads) build(layers, heads);
      cells.forEach((cell, index) => paint(cell, measure, measure.values[Math.floor(index / heads)][index % heads]));
    },
    /** @param {string[]} chosen */
    mark(chosen) {
      for (const cell of cells) cell.setAttribute("aria-pressed", String(chosen.includes(headOf(cell))));
      if (chosen.length) focusable(cells.find((cell) => headOf(cell) === chosen.at(-1)) ?? cells[0]);
    },
  };
}

/**
 * @param {Event} event
 * @returns {HTMLElement | null}
 */
const cellAt = ({ target }) => (target instanceof Element ? target.closest("[data-head]") : null);

/**
 * @param {HTMLElement} box
 * @param {Measure} measure
 */
export function legend(box, measure) {
  if (measure.names.length) {
    const present = new Set(measure.values.flat());
    const kinds = measure.names.filter((_, at) => present.has(at));
    replace(box, kinds.map((name) => el("span", { class: "kind" }, swatch(name), behaviour(name).short === name ? name : `${name} (${behaviour(name).short})`)));
    return;
  }
  const known = measure.low !== null;
  const baseline = measure.baseline === null ? "" : `; ${measure.rule}: ${short(measure.baseline)}`;
  replace(
    box,
    el("span", {}, known ? short(measure.low) : "–"),
    el("span", { class: "scale" }),
    el("span", {}, known ? short(measure.high) : "–"),
    el("span", { class: "soft" }, known ? `${measure.unit}${baseline}` : "nothing to measure here: this sentence or model has no such token"),
  );
}

/** @param {string} name */
function swatch(name) {
  return el("span", { class: "swatch", style: `background: ${behaviour(name).colour}` });
}

/**
 * The highest head of a measure, or null where it is a kind or has no numbers.
 * @param {Measure} measure
 */
export function highest(measure) {
  if (measure.names.length || measure.high === null) return null;
  for (const [layer, row] of measure.values.entries()) {
    const head = row.indexOf(measure.high);
    if (head >= 0) return nameOf(layer, head);
  }
  return null;
}
