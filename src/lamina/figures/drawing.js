// @ts-check
// What report and app do alike with a chart: its colours on dark paper, its titles in lines, its words where they have
// room. The app loads this file; the report has it within its page.

/** @typedef {Record<string, any>} Part of a Vega-Lite specification */

const BRIGHTEST = 0.92; // lightness of what was black ...
const SPAN = 0.55; // ... and how much darker what was white is
const ASIDE = 2; // colours of a scale that are too near to dark paper
const FEW = 0.7; // of a chart's words: where fewer have room, none is shown
export const LETTER = 6.8; // pixels, of a title

/** @param {unknown} value @returns {value is number} */
export const isNumber = (value) => typeof value === "number";
/** @param {Part} view @returns {Part[]} */
export const views = (view) => view.layer ?? view.concat ?? view.hconcat ?? view.vconcat ?? [];
/** @param {Part} view @returns {number} */
export const panelHeight = (view) => (isNumber(view.height) ? view.height : Math.max(1, ...views(view).map(panelHeight)));

/**
 * Lines of about as many letters as fit.
 * @param {any} text
 * @param {number} pixels
 */
export function wrapped(text, pixels) {
  if (typeof text !== "string" || text.length * LETTER <= pixels) return text;
  const lines = [""];
  for (const word of text.split(" ")) {
    const line = lines[lines.length - 1];
    if (line && (line.length + 1 + word.length) * LETTER > pixels) lines.push(word);
    else lines[lines.length - 1] = line ? `${line} ${word}` : word;
  }
  return lines;
}

/**
 * @param {any} title
 * @param {number} pixels
 */
export function wrapTitle(title, pixels) {
  if (!title || Array.isArray(title)) return title;
  if (typeof title === "string") return wrapped(title, pixels);
  const below = (/** @type {any} */ line) => wrapped(line, pixels * 1.1);
  const subtitle = Array.isArray(title.subtitle) ? title.subtitle.flatMap(below) : below(title.subtitle);
  const text = Array.isArray(title.text) ? title.text.join(" ") : title.text;
  return { ...title, text: wrapped(text, pixels), ...(subtitle ? { subtitle } : {}) };
}

/**
 * A colour that no table knows, such as one of a gradient: its hue, from the other end of lightness, so that an order
 * of colours stays one.
 * @param {string} hex
 */
export function turned(hex) {
  const [r, g, b] = [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16) / 255);
  const [low, high] = [Math.min(r, g, b), Math.max(r, g, b)];
  const lightness = (low + high) / 2;
  const saturation = high === low ? 0 : (high - low) / (1 - Math.abs(2 * lightness - 1));
  const turn = high === low ? 0 : high === r ? (g - b) / (high - low) : high === g ? 2 + (b - r) / (high - low) : 4 + (r - g) / (high - low);
  return `hsl(${Math.round(60 * turn + 360) % 360} ${Math.round(100 * saturation)}% ${Math.round(100 * (BRIGHTEST - SPAN * lightness))}%)`;
}

/** The colours from the least to the most that the page's style names. */
const ramp = () => getComputedStyle(document.documentElement).getPropertyValue("--scale").split(",").map((colour) => colour.trim());

/**
 * Data stay as they are, but for the colours that some charts have there.
 * @param {any} part
 * @param {Record<string, string>} dark
 * @returns {any}
 */
function ofData(part, dark) {
  if (typeof part === "string") return part.startsWith("#") ? (dark[part] ?? part) : part;
  if (Array.isArray(part)) return part.map((item) => ofData(item, dark));
  if (!part || typeof part !== "object") return part;
  return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, ofData(value, dark)]));
}

/**
 * @param {any} part
 * @param {Record<string, string>} dark
 * @returns {any}
 */
function recoloured(part, dark) {
  // A colour, or an expression with colours in it.
  if (typeof part === "string") return dark[part] ?? part.replace(/#[0-9a-f]{6}\b/gi, (colour) => dark[colour.toLowerCase()] ?? turned(colour));
  if (Array.isArray(part)) return part.map((item) => recoloured(item, dark));
  if (!part || typeof part !== "object") return part;
  if (part.scheme === "viridis") {
    // It begins at the colour of dark paper. Where it is reversed, the most is dark: on dark paper it is light.
    const { scheme, reverse, ...rest } = part;
    return reverse ? { ...rest, scheme, reverse: false } : { ...rest, range: ramp().slice(ASIDE) };
  }
  return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, key === "datasets" || key === "values" ? ofData(value, dark) : recoloured(value, dark)]));
}

/**
 * The specification on the page's own paper; charts are made for white one.
 * @template {Part} Spec
 * @param {Spec} spec
 * @param {Record<string, string> | null} dark colour on white -> on dark paper; null where the page is light
 * @returns {Spec}
 */
export function onPaper(spec, dark) {
  const painted = dark ? recoloured(spec, dark) : spec;
  const ink = dark?.black; // where a chart of an older version says nothing
  const words = dark ? { text: { color: ink, ...painted.config?.text }, header: { labelColor: ink, titleColor: ink, ...painted.config?.header } } : {};
  return { ...painted, background: null, config: { ...painted.config, ...words, background: null } };
}

/**
 * Takes away words and digits inside a chart that run into each other; a few by themselves, many all together.
 * @param {Element} box
 */
export function keepLegible(box) {
  for (const group of box.querySelectorAll("svg .mark-text.role-mark")) {
    const texts = [...group.querySelectorAll("text")].filter((text) => text.textContent);
    const placed = texts.map((text) => ({ text, box: text.getBoundingClientRect() }));
    placed.sort((one, two) => one.box.top - two.box.top || one.box.left - two.box.left);
    /** @type {typeof placed} */
    const legible = [];
    for (const label of placed) {
      const free = legible.every(({ box }) => label.box.left >= box.right || box.left >= label.box.right || label.box.top >= box.bottom || box.top >= label.box.bottom);
      if (free) legible.push(label);
    }
    const visible = legible.length > FEW * placed.length ? new Set(legible.map(({ text }) => text)) : new Set();
    for (const text of texts) text.style.visibility = visible.has(text) ? "" : "hidden";
  }
}
