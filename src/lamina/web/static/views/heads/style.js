// @ts-check
// How heads look: the scale of the atlas, the strokes of chosen heads, the marks of what they do.
/** @import { Look } from "../../shared/api_types.js" */
import { read } from "../../shared/api.js";

const DARK_TEXT_FROM = 0.2; // relative luminance above which black reads better than white

// A head's stroke is told apart by its dash too, never by colour alone.
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
export const { behaviours: BEHAVIOURS } = await read("/theme");

/**
 * @param {string} name
 * @returns {Look}
 */
export const behaviour = (name) => BEHAVIOURS.find((each) => each.name === name) ?? BEHAVIOURS[BEHAVIOURS.length - 1];

/** @typedef {number[]} Rgb from 0 to 255 */

/**
 * @param {string} hex
 * @returns {Rgb}
 */
const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

const SCALE = getComputedStyle(document.documentElement).getPropertyValue("--scale").split(",").map((colour) => channels(colour.trim()));

/**
 * Share of the way from the least to the most -> colour.
 * @param {number} share
 */
function between(share) {
  const place = Math.min(Math.max(share, 0), 1) * (SCALE.length - 1);
  const below = Math.min(Math.floor(place), SCALE.length - 2);
  return SCALE[below].map((value, at) => Math.round(value + (SCALE[below + 1][at] - value) * (place - below)));
}

/** @param {Rgb} rgb */
function textOn(rgb) {
  const [r, g, b] = rgb.map((value) => (value / 255 <= 0.04045 ? value / 3294.6 : ((value / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > DARK_TEXT_FROM ? "black" : "white";
}

/** @param {Rgb} rgb */
const painted = (rgb) => ({ fill: `rgb(${rgb.join(" ")})`, text: textOn(rgb) });

/** @param {number} share */
export const scaled = (share) => painted(between(share));

/** @param {string} name */
export const behaviourColours = (name) => painted(channels(behaviour(name).colour));

/**
 * .43 where a number lies below 1: cells are small.
 * @param {number | null | undefined} value
 */
export function short(value) {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) < 0.005) return ".00"; // never -.00
  return Math.abs(value) < 1 ? value.toFixed(2).replace(/^(-?)0/, "$1") : value.toFixed(value < 10 ? 2 : 1);
}
