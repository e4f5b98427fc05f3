// @ts-check
// How heads look: the strokes of chosen heads, and the marks of what heads do, as in the report.
/** @import { MarkStyle } from "../../shared/api_types.js" */
import { solid } from "../../shared/scales.js";
import { THEME } from "../../shared/theme.js";

// Strokes of heads differ in their dash too, never in colour alone.
export const STROKES = [
  { colour: "--accent", dash: [] },
  { colour: "--second", dash: [8, 4] },
  { colour: "--third", dash: [2, 3] },
  { colour: "--fourth", dash: [10, 3, 2, 3] },
  { colour: "--fifth", dash: [5, 2] },
  { colour: "--soft", dash: [14, 5] },
];

export const MOST = STROKES.length;

// What heads do, the most telling first; the last is for those that do nothing in particular.
export const BEHAVIOURS = THEME.behaviours;

/**
 * @param {string} name
 * @returns {MarkStyle}
 */
export const behaviour = (name) => BEHAVIOURS.find((entry) => entry.name === name) ?? BEHAVIOURS[BEHAVIOURS.length - 1];

/** @param {string} name */
export const behaviourPaint = (name) => solid(behaviour(name).fill);

/** A head's name: layer and head from 1. */
export const nameOf = (/** @type {number} */ layer, /** @type {number} */ head) => `${layer + 1}-${head + 1}`;

/**
 * Layer and head from 0.
 * @param {string} name
 */
export const placeOf = (name) => name.split("-").map((part) => Number(part) - 1);
