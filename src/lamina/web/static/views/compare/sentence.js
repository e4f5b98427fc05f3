// @ts-check
// One sentence through two models: beliefs word by word, heads cell by cell.
/** @import { Atlas, Belief, Label, Lens, Measure } from "../../shared/api_types.js" */
import { el, replace } from "../../shared/dom.js";
import { legend, makeAtlas } from "../heads/atlas.js";
import { bars } from "../sentence/bars.js";

const SENTENCE = "sentence"; // the source of measures that are of the sentence itself

const atLast = (/** @type {Label} */ { probabilities }) => probabilities[probabilities.length - 1];

const strongest = (/** @type {Belief} */ belief) => belief.labels.toSorted((a, b) => atLast(b) - atLast(a))[0];

/**
 * Word -> its strongest label.
 * @param {Lens} lens
 */
function ofWords(lens) {
  /** @type {Map<number, Label>} */
  const found = new Map();
  for (const belief of lens.beliefs) if (belief.spans.length === 1) found.set(belief.spans[0][0], strongest(belief));
  return found;
}

const cell = (/** @type {Label | undefined} */ label) => el("td", {}, label ? bars(label, 0) : "–");

/**
 * @param {HTMLElement} box
 * @param {string[]} names
 * @param {Lens[]} lenses
 */
export function showBeliefs(box, names, lenses) {
  const without = names.filter((_, side) => !lenses[side].beliefs.length);
  if (without.length) {
    replace(box, el("p", {}, `There are no trained probes of ${without.join(" and ")} among the results; train them on the page Results (probe).`));
    return;
  }
  const [first, second] = lenses.map(ofWords);
  const differing = lenses[0].words.filter((_, at) => first.get(at)?.label !== second.get(at)?.label).length;
  const rows = lenses[0].words.map((word, at) => {
    const differs = first.get(at)?.label !== second.get(at)?.label;
    return el("tr", { class: differs ? "differs" : null }, el("th", { scope: "row" }, word), cell(first.get(at)), cell(second.get(at)), el("td", {}, differs ? "differ" : ""));
  });
  replace(
    box,
    el("p", { class: "finding" }, `The models differ on ${differing} of ${rows.length} words.`),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Beliefs of both models" },
      el("table", {}, el("thead", {}, el("tr", {}, ["word", ...names, ""].map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, rows))),
  );
}

/**
 * a - b, cell by cell, as a measure of its own.
 * @param {Measure} a
 * @param {Measure} b
 * @returns {Measure}
 */
function difference(a, b) {
  const minus = (/** @type {number | null} */ one, /** @type {number | null} */ other) => (one === null || other === null ? null : one - other);
  const values = a.values.map((row, layer) => row.map((value, head) => minus(value, b.values[layer][head])));
  const most = Math.max(...values.flat().map((value) => Math.abs(value ?? 0)));
  return { ...a, values, baseline: null, low: -most, high: most }; // no difference is the middle of the scale
}

/**
 * @param {string} title
 * @param {Measure} measure
 * @param {Atlas} atlas
 */
function panel(title, measure, { layers, heads }) {
  const [grid, scale] = [el("div", { class: "grid" }), el("div", { class: "legend" })];
  makeAtlas(grid, { onChoose: () => null, onLook: () => null }).show(measure, layers, heads);
  legend(scale, measure);
  return el("div", {}, el("h3", {}, title), grid, scale);
}

/**
 * @param {HTMLElement} box
 * @param {HTMLSelectElement} select
 * @param {string[]} names
 * @param {Atlas[]} atlases
 */
export function showHeads(box, select, names, atlases) {
  const [first, second] = atlases;
  const shared = first.measures.filter((measure) => measure.source === SENTENCE && second.measures.some(({ name }) => name === measure.name));
  const before = select.value;
  replace(select, shared.map(({ name, title }) => el("option", { value: name }, title)));
  if (shared.some(({ name }) => name === before)) select.value = before;

  function redraw() {
    const [a, b] = atlases.map((atlas) => atlas.measures.find(({ name, source }) => name === select.value && source === SENTENCE));
    if (!a || !b) return;
    const alike = first.layers === second.layers && first.heads === second.heads;
    const third = alike ? panel(`${names[0]} minus ${names[1]}`, difference(a, b), first) : el("p", {}, "The models have different numbers of layers or heads: there is no difference cell by cell.");
    replace(box, panel(names[0], a, first), panel(names[1], b, second), third);
  }

  select.onchange = redraw;
  redraw();
}
