// @ts-check
// Measures of heads in words: a value, its rank, the head that has the most, and the legend of their colours.
/** @import { HeadMeasure } from "../../shared/api_types.js" */
import { el, replace, svg } from "../../shared/dom.js";
import { diverging, sequential, short, signed } from "../../shared/scales.js";
import { behaviour, behaviourPaint, nameOf, placeOf } from "./style.js";

/**
 * What colours mean: shared by all panels that are to be compared.
 * @typedef {{ low: number, high: number }} Sequential
 * @typedef {{ most: number }} Diverging
 * @typedef {Sequential | Diverging} Scale
 */

/** @param {HeadMeasure} measure */
export const scaleOf = (measure) => ({ low: measure.low ?? 0, high: measure.high ?? 0 });

/**
 * @param {HeadMeasure} measure
 * @param {number} value
 */
export function ranked(measure, value) {
  const all = measure.values.flat().filter((number) => number !== null);
  return `${1 + all.filter((number) => number > value).length} of ${all.length}`;
}

/**
 * @param {HeadMeasure} measure
 * @param {string} head
 * @param {Scale} scale
 */
export function described(measure, head, scale = scaleOf(measure)) {
  const [layer, place] = placeOf(head);
  const value = measure.values[layer]?.[place] ?? null;
  if (value === null) return `${head}: no number`;
  if (measure.names.length) return `${head}: ${measure.names[value]}`;
  if ("most" in scale) return `${head}: ${value > 0 ? "+" : ""}${value.toFixed(3)} (${measure.unit})`;
  return `${head}: ${value.toFixed(3)} (${measure.unit}), rank ${ranked(measure, value)}`;
}

/**
 * @param {HeadMeasure} measure
 * @param {Scale} scale
 * @param {number} value
 */
export function paintOf(measure, scale, value) {
  if (measure.names.length) return behaviourPaint(measure.names[value]);
  if ("most" in scale) return diverging(value / (scale.most || 1));
  return sequential((value - scale.low) / (scale.high - scale.low || 1));
}

/**
 * @param {HeadMeasure} measure
 * @param {Scale} scale
 * @param {number} value
 */
export function textOf(measure, scale, value) {
  if (measure.names.length) return behaviour(measure.names[value]).short;
  return "most" in scale ? signed(value) : short(value);
}

/** @param {string} name */
export function sign(name) {
  const { shape, fill } = behaviour(name);
  return svg("svg", { viewBox: "-1.2 -1.2 2.4 2.4", width: 14, height: 14, "aria-hidden": "true" }, svg("path", { d: shape, style: `fill: ${fill}` }));
}

/**
 * @param {HTMLElement} box
 * @param {HeadMeasure} measure
 * @param {Scale} scale
 */
export function legend(box, measure, scale = scaleOf(measure)) {
  if (measure.names.length) {
    const values = measure.values.flat();
    const kinds = measure.names.map((name, index) => ({ name, count: values.filter((value) => value === index).length })).filter(({ count }) => count);
    replace(box, kinds.map(({ name, count }) => el("span", { class: "kind" }, sign(name), `${name} ${count}`)));
    return;
  }
  const baseline = measure.baseline === null || "most" in scale ? "" : `; ${measure.rule}: ${short(measure.baseline)}`;
  const [low, high, ramp] = "most" in scale ? [signed(-scale.most), signed(scale.most), "--diverging"] : [short(scale.low), short(scale.high), "--scale"];
  replace(
    box,
    el("span", {}, low),
    el("span", { class: "scale", style: `background: linear-gradient(to right, var(${ramp}))` }),
    el("span", {}, high),
    el("span", { class: "soft" }, measure.high === null ? "nothing to measure here: this sentence or model has no such token" : `${measure.unit}${baseline}`),
  );
}

/**
 * The head to start with: the highest, or of roles one that does the most telling thing; null where there is none.
 * @param {HeadMeasure} measure
 */
export function telling(measure) {
  const values = measure.values.flat();
  const known = values.filter((value) => value !== null);
  if (!known.length) return null;
  const best = measure.names.length ? Math.min(...known) : Math.max(...known);
  const index = values.indexOf(best);
  const heads = measure.values[0].length;
  return nameOf(Math.floor(index / heads), index % heads);
}
