// @ts-check
// Charts are made for white paper: the same specification in the colours of dark paper.
import { isDark, THEME } from "./theme.js";

/** @typedef {Record<string, any>} Part of a Vega-Lite specification */

const BRIGHTEST = 0.92; // lightness of what was black ...
const SPAN = 0.55; // ... and how much darker what was white is
const ASIDE = 2; // colours of a scale that are too near to dark paper

/** @returns {string[]} */
const ramp = () => getComputedStyle(document.documentElement).getPropertyValue("--scale").split(",").map((colour) => colour.trim());

/**
 * A colour that no table knows, such as one of a gradient: its hue, from the other end of lightness, so that an order
 * of colours stays one.
 * @param {string} hex
 */
export function turned(hex) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255);
  const [low, high] = [Math.min(r, g, b), Math.max(r, g, b)];
  const lightness = (low + high) / 2;
  const saturation = high === low ? 0 : (high - low) / (1 - Math.abs(2 * lightness - 1));
  const turn = high === low ? 0 : high === r ? (g - b) / (high - low) : high === g ? 2 + (b - r) / (high - low) : 4 + (r - g) / (high - low);
  return `hsl(${Math.round(60 * turn + 360) % 360} ${Math.round(100 * saturation)}% ${Math.round(100 * (BRIGHTEST - SPAN * lightness))}%)`;
}

/**
 * A colour, or an expression with colours in it.
 * @param {string} word
 */
function colour(word) {
  return THEME.dark[word] ?? word.replace(/#[0-9a-f]{6}\b/gi, (each) => THEME.dark[each.toLowerCase()] ?? turned(each));
}

/**
 * Viridis begins at the colour of dark paper. Where it is reversed, the most is dark: on dark paper it is light.
 * @param {Part} scale
 */
function viridis({ scheme, reverse, ...rest }) {
  return reverse ? { ...rest, scheme, reverse: false } : { ...rest, range: ramp().slice(ASIDE) };
}

/**
 * Data stay as they are, but for the colours that some charts have there.
 * @param {any} part
 * @returns {any}
 */
function data(part) {
  if (typeof part === "string") return part.startsWith("#") ? (THEME.dark[part] ?? part) : part;
  if (Array.isArray(part)) return part.map(data);
  if (!part || typeof part !== "object") return part;
  return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, data(value)]));
}

/**
 * @param {any} part
 * @returns {any}
 */
function recoloured(part) {
  if (typeof part === "string") return colour(part);
  if (Array.isArray(part)) return part.map(recoloured);
  if (!part || typeof part !== "object") return part;
  if (part.scheme === "viridis") return viridis(part);
  return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, key === "datasets" || key === "values" ? data(value) : recoloured(value)]));
}

/**
 * The specification in the colours of the page, on its paper.
 * @template {Part} Spec
 * @param {Spec} spec
 * @returns {Spec}
 */
export function onPaper(spec) {
  const made = isDark() ? recoloured(spec) : spec;
  const ink = THEME.dark.black; // where a chart of an older version says nothing
  const words = isDark() ? { text: { color: ink, ...made.config?.text }, header: { labelColor: ink, titleColor: ink, ...made.config?.header } } : {};
  return { ...made, background: null, config: { ...made.config, ...words, background: null } };
}
