// @ts-check
// Heads of several models: absolute values on one scale; differences only where heads are at the same places.
/** @import { HeadAtlas, HeadMeasure, ModelComparison } from "../../shared/api_types.js" */
import { byId, el, replace } from "../../shared/dom.js";
import { farthest, shared } from "../../shared/scales.js";
import * as state from "../../shared/state.js";
import { makeAtlas } from "../heads/atlas.js";
import { described, legend } from "../heads/measures.js";

/** @import { Scale } from "../heads/measures.js" */

const SENTENCE = "sentence"; // the source of measures that are of the sentence itself
const keyOf = (/** @type {HeadMeasure} */ { source, name }) => `${source}.${name}`;

/**
 * Measures that all models have: of the sentence, and of saved results that are alike. Roles are no numbers.
 * @param {HeadAtlas[]} atlases
 * @param {string[]} alike
 */
function common([first, ...others], alike) {
  const fits = (/** @type {HeadMeasure} */ measure) => !measure.names.length && (measure.source === SENTENCE || alike.includes(measure.source));
  return first.measures.filter((measure) => fits(measure) && others.every((atlas) => atlas.measures.some((other) => keyOf(other) === keyOf(measure))));
}

/**
 * a - b, head by head.
 * @param {HeadMeasure} a
 * @param {HeadMeasure} b
 * @returns {HeadMeasure}
 */
function minus(a, b) {
  const less = (/** @type {number | null} */ one, /** @type {number | null} */ other) => (one === null || other === null ? null : one - other);
  return { ...a, values: a.values.map((row, layer) => row.map((value, head) => less(value, b.values[layer][head]))), baseline: null };
}

/**
 * @param {string} title
 * @param {HeadMeasure} measure
 * @param {Scale} scale
 */
function panel(title, measure, scale) {
  const [grid, note] = [el("div", { class: "atlas-box" }), el("p", { class: "soft" })];
  // In the page before it is drawn: a canvas has to know its width.
  queueMicrotask(() => makeAtlas(grid, { label: `${title}, ${measure.title}`, onLook: (head) => replace(note, described(measure, head, scale)) }).show(measure, scale));
  return el("div", { "data-panel": title }, el("h3", {}, title), grid, note);
}

/**
 * @param {string[]} models
 * @param {HeadAtlas[]} atlases
 * @param {ModelComparison} differences
 */
export function showHeads(models, atlases, differences) {
  const select = byId("measure", HTMLSelectElement);
  const offered = common(atlases, differences.heads_of);
  replace(select, offered.map((measure) => el("option", { value: keyOf(measure) }, measure.source === SENTENCE ? `${measure.title} (this sentence)` : measure.title)));
  const wanted = state.get("measure");
  select.value = offered.some((measure) => keyOf(measure) === wanted) ? wanted : offered.length ? keyOf(offered[0]) : "";
  select.onchange = () => state.set({ measure: select.value });
  const measures = atlases.flatMap((atlas) => atlas.measures.filter((measure) => keyOf(measure) === select.value));
  if (measures.length < models.length) {
    replace(byId("atlases"), el("p", {}, "These models have no measure of heads in common."));
    for (const id of ["differences", "heads-legend", "heads-about"]) replace(byId(id));
    return;
  }
  const scale = shared(measures.flatMap((measure) => measure.values.flat()));
  replace(byId("heads-about"), "Rows are layers, columns are heads; all panels have the same scale.");
  replace(byId("atlases"), models.map((name, index) => panel(name, measures[index], scale)));
  // Uniform attention differs from model to model, as sentences have other numbers of tokens.
  legend(byId("heads-legend"), { ...measures[0], baseline: null }, scale);
  showDifferences(models, measures, differences);
}

/**
 * @param {string[]} models
 * @param {HeadMeasure[]} measures
 * @param {ModelComparison} differences
 */
function showDifferences([baseline, ...others], measures, differences) {
  const some = others.filter((name) => differences.by_head.includes(name));
  const not = others.filter((name) => !some.includes(name));
  const apart = some.map((name) => minus(measures[1 + others.indexOf(name)], measures[0]));
  const most = farthest(apart.flatMap((difference) => difference.values.flat()));
  const scale = { most };
  const key = el("div", { class: "legend" });
  if (apart.length) legend(key, apart[0], scale);
  replace(
    byId("differences"),
    some.length ? el("h3", {}, `Difference from ${baseline}, head by head`) : null,
    some.length ? el("div", { class: "atlases" }, some.map((name, index) => panel(`${name} minus ${baseline}`, apart[index], scale))) : null,
    some.length ? key : null,
    not.length ? el("p", { class: "soft" }, `No difference head by head for ${not.join(", ")}: heads of models that did not start from the same weights have nothing in common but their numbers.`) : null,
  );
}
