// @ts-check
// Colours of numbers: from the least to the most in one order of lightness, differences to both sides of nothing.
import { onScheme } from "./theme.js";

/** @typedef {number[]} Rgb from 0 to 255 */
/** @typedef {{ fill: string, text: string }} Paint */

const DARK_TEXT_FROM = 0.179; // relative luminance at which black and white read equally well: 4.6 to 1

/**
 * @param {string} hex
 * @returns {Rgb}
 */
const channels = (hex) => [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));

/** @param {string} name */
const stops = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).split(",").map((colour) => channels(colour.trim()));

// Read again when the page turns dark or light; later listeners see the new values.
let [scale, difference] = [stops("--scale"), stops("--diverging")];
onScheme(() => ([scale, difference] = [stops("--scale"), stops("--diverging")]));

/**
 * Share of the way through the stops -> colour.
 * @param {Rgb[]} scale
 * @param {number} share
 */
function between(scale, share) {
  const place = Math.min(Math.max(share, 0), 1) * (scale.length - 1);
  const below = Math.min(Math.floor(place), scale.length - 2);
  return scale[below].map((value, index) => Math.round(value + (scale[below + 1][index] - value) * (place - below)));
}

/** @param {Rgb} rgb */
function textOn(rgb) {
  const [r, g, b] = rgb.map((value) => (value / 255 <= 0.04045 ? value / 3294.6 : ((value / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > DARK_TEXT_FROM ? "black" : "white";
}

/** @param {Rgb} rgb */
const painted = (rgb) => ({ fill: `rgb(${rgb.join(" ")})`, text: textOn(rgb) });

/**
 * A colour of the page, as `var(--hue-0)` or in hex, with a text colour that holds on it.
 * @param {string} colour
 * @returns {Paint}
 */
export function solid(colour) {
  const name = /^var\((--[\w-]+)\)$/.exec(colour)?.[1];
  const hex = name ? getComputedStyle(document.documentElement).getPropertyValue(name).trim() : colour;
  return painted(channels(hex));
}

/**
 * A colour of the page, mixed with the paper: the share is how much of it is left.
 * @param {string} colour as `solid` takes it
 * @param {number} share
 * @returns {Paint}
 */
export function faded(colour, share) {
  const style = getComputedStyle(document.documentElement);
  const hex = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  const name = /^var\((--[\w-]+)\)$/.exec(colour)?.[1];
  const [ink, paper] = [channels(name ? hex(name) : colour), channels(hex("--paper"))];
  return painted(ink.map((value, index) => Math.round(paper[index] + (value - paper[index]) * Math.min(Math.max(share, 0), 1))));
}

/**
 * Share of the way from the least to the most.
 * @param {number} share
 * @returns {Paint}
 */
export const sequential = (share) => painted(between(scale, share));

/**
 * From -1 to 1; 0 is no difference.
 * @param {number} share
 * @returns {Paint}
 */
export const diverging = (share) => painted(between(difference, (share + 1) / 2));

/**
 * .43 where a number lies below 1: cells are small.
 * @param {number | null | undefined} value
 */
export function short(value) {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) < 0.005) return ".00"; // never -.00
  return Math.abs(value) < 1 ? value.toFixed(2).replace(/^(-?)0/, "$1") : value.toFixed(Math.abs(value) < 10 ? 2 : 1);
}

/**
 * With its sign: a difference.
 * @param {number | null | undefined} value
 */
export const signed = (value) => (value !== null && value !== undefined && value >= 0.005 ? `+${short(value)}` : short(value));

/**
 * The same scale for several panels: the least and the most of all.
 * @param {(number | null)[]} values
 */
export function shared(values) {
  const known = values.filter((value) => value !== null);
  return known.length ? { low: Math.min(...known), high: Math.max(...known) } : { low: 0, high: 0 };
}

/**
 * As far from 0 as any difference.
 * @param {(number | null)[]} values
 */
export const farthest = (values) => values.reduce((/** @type {number} */ most, value) => Math.max(most, Math.abs(value ?? 0)), 0);
