// @ts-check
// Draws lines of attention on a canvas that is only as large as the visible part of a long sentence.
/** @import { HeadLinks } from "../../shared/api_types.js" */

/**
 * The links of a head as flat arrays, the strongest first.
 * @typedef {{ head: string, from: Int32Array, to: Int32Array, weight: Float32Array }} Links
 * @typedef {{ side: "from" | "to", unit: number }} Focus
 * @typedef {{ rows: number[], seen: (unit: number) => boolean, focus: Focus | null, coming: Uint16Array, y: (unit: number) => number, width: number, height: number }} Sight
 */

const LEVELS = 8; // one stroke for all lines of about the same weight
const WIDEST = 4.5;
const FAINTEST = 0.35;
const COMING = 60; // lines to one word from words out of sight: more would be a solid triangle

/**
 * Sorted, so that a threshold ends a loop.
 * @param {HeadLinks} links
 * @returns {Links}
 */
export function flattened({ head, counts, to, weight }) {
  const from = new Int32Array(to.length);
  let start = 0;
  counts.forEach((count, row) => {
    from.fill(row, start, start + count);
    start += count;
  });
  const order = Uint32Array.from(to.keys()).sort((one, other) => weight[other] - weight[one]);
  return {
    head,
    from: Int32Array.from(order, (index) => from[index]),
    to: Int32Array.from(order, (index) => to[index]),
    weight: Float32Array.from(order, (index) => weight[index]),
  };
}

/**
 * How many links reach the threshold: the arrays are sorted, so that half of what is left is ruled out at each step.
 * @param {Links} links
 * @param {number} least
 */
export function reaching({ weight }, least) {
  let [low, high] = [0, weight.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (weight[middle] >= least) low = middle + 1;
    else high = middle;
  }
  return low;
}

const level = (/** @type {number} */ weight) => Math.min(LEVELS - 1, Math.floor(weight * LEVELS));

/**
 * Adds a line to the path, cut to what is seen: dashes far outside would be computed for nothing.
 * @param {Path2D} path
 * @param {number} width
 * @param {number} height
 * @param {number} start
 * @param {number} end
 */
function add(path, width, height, start, end) {
  const slope = (end - start) / width;
  /** @type {(x: number, y: number) => [number, number]} */
  const cut = (x, y) => (y < 0 ? [-start / slope, 0] : y > height ? [(height - start) / slope, height] : [x, y]);
  path.moveTo(...cut(0, start));
  path.lineTo(...cut(width, end));
}

/**
 * The lines of one weight, from `start` on: those between words in sight, and those that leave the sight. Lines that only
 * pass by are left out: they would hide the others, and neither of their words can be read.
 * @param {Links} links
 * @param {number} start
 * @param {number} end
 * @param {Sight} sight
 */
function paths({ from, to, weight }, start, end, { rows, seen, focus, coming, y, width, height }) {
  const [near, far] = [new Path2D(), new Path2D()];
  const shade = level(weight[start]);
  for (; start < end && level(weight[start]) === shade; start++) {
    const [one, other] = [from[start], to[start]];
    if (rows[one] < 0 || rows[other] < 0) continue;
    if (focus && (focus.side === "from" ? one : other) !== focus.unit) continue;
    const both = seen(one) && seen(other);
    if (!both && !seen(one) && !focus && (!seen(other) || coming[other]++ >= COMING)) continue;
    add(both || focus ? near : far, width, height, y(one), y(other));
  }
  return { near, far, next: start, strength: shade / (LEVELS - 1) };
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {number} ratio
 */
function fitted(canvas, ratio) {
  const [across, down] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
  if (canvas.width !== across || canvas.height !== down) Object.assign(canvas, { width: across, height: down });
  const context = canvas.getContext("2d");
  if (!context) throw new Error("the browser draws nothing");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
  return context;
}

/**
 * `rows[unit]` is where a unit stands, or -1 where it is hidden.
 * @param {HTMLCanvasElement} canvas
 * @param {{ heads: { links: Links, colour: string, dash: number[] }[], rows: number[], rowHeight: number, top: number, least: number, focus: Focus | null }} options
 */
export function drawLines(canvas, { heads, rows, rowHeight, top, least, focus }) {
  const ratio = window.devicePixelRatio || 1;
  const hair = 1 / ratio; // one pixel: drawn many times faster than anything wider
  const context = fitted(canvas, ratio);
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const y = (/** @type {number} */ unit) => (rows[unit] + 0.5) * rowHeight - top;
  const seen = (/** @type {number} */ unit) => y(unit) >= 0 && y(unit) <= height;
  for (const { links, colour, dash } of heads) {
    const view = { rows, seen, focus, coming: new Uint16Array(rows.length), y, width, height };
    const end = reaching(links, least);
    context.strokeStyle = colour;
    for (let start = 0; start < end; ) {
      const { near, far, next, strength } = paths(links, start, end, view);
      context.globalAlpha = FAINTEST + (1 - FAINTEST) * strength;
      context.lineWidth = hair;
      context.setLineDash([]);
      context.stroke(far);
      context.lineWidth = Math.max(hair, WIDEST * strength);
      context.setLineDash(heads.length > 1 ? dash : []);
      context.stroke(near);
      start = next;
    }
  }
}
