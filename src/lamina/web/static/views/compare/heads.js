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
  const fits = (/** @type {HeadMeasure} */ each) => !each.names.length && (each.source === SENTENCE || alike.includes(each.source));
  return first.measures.filter((each) => fits(each) && others.every((atlas) => atlas.measures.some((own) => keyOf(own) === keyOf(each))));
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
  const [grid, said] = [el("div", { class: "atlas-box" }), el("p", { class: "soft" })];
  // In the page before it is drawn: a canvas has to know its width.
  queueMicrotask(() => makeAtlas(grid, { label: `${title}, ${measure.title}`, onLook: (head) => replace(said, described(measure, head, scale)) }).show(measure, scale));
  return el("div", { "data-panel": title }, el("h3", {}, title), grid, said);
}

/**
 * @param {string[]} models
 * @param {HeadAtlas[]} atlases
 * @param {ModelComparison} found
 */
export function showHeads(models, atlases, found) {
  const select = byId("measure", HTMLSelectElement);
  const offered = common(atlases, found.heads_of);
  replace(select, offered.map((each) => el("option", { value: keyOf(each) }, each.source === SENTENCE ? `${each.title} (this sentence)` : each.title)));
  const wanted = state.get("measure");
  select.value = offered.some((each) => keyOf(each) === wanted) ? wanted : offered.length ? keyOf(offered[0]) : "";
  select.onchange = () => state.set({ measure: select.value });
  const own = atlases.flatMap((atlas) => atlas.measures.filter((each) => keyOf(each) === select.value));
  if (own.length < models.length) {
    replace(byId("atlases"), el("p", {}, "These models have no measure of heads in common."));
    for (const id of ["differences", "heads-legend", "heads-about"]) replace(byId(id));
    return;
  }
  const scale = shared(own.flatMap((each) => each.values.flat()));
  replace(byId("heads-about"), "Rows are layers, columns are heads; all panels have the same scale.");
  replace(byId("atlases"), models.map((name, at) => panel(name, own[at], scale)));
  // Uniform attention differs from model to model, as sentences have other numbers of tokens.
  legend(byId("heads-legend"), { ...own[0], baseline: null }, scale);
  showDifferences(models, own, found);
}

/**
 * @param {string[]} models
 * @param {HeadMeasure[]} own
 * @param {ModelComparison} found
 */
function showDifferences([baseline, ...others], own, found) {
  const some = others.filter((name) => found.by_head.includes(name));
  const not = others.filter((name) => !some.includes(name));
  const apart = some.map((name) => minus(own[1 + others.indexOf(name)], own[0]));
  const most = farthest(apart.flatMap((each) => each.values.flat()));
  const scale = { most };
  const key = el("div", { class: "legend" });
  if (apart.length) legend(key, apart[0], scale);
  replace(
    byId("differences"),
    some.length ? el("h3", {}, `Difference from ${baseline}, head by head`) : null,
    some.length ? el("div", { class: "atlases" }, some.map((name, at) => panel(`${name} minus ${baseline}`, apart[at], scale))) : null,
    some.length ? key : null,
    not.length ? el("p", { class: "soft" }, `No difference head by head for ${not.join(", ")}: heads of models that did not start from the same weights have nothing in common but their numbers.`) : null,
  );
}
