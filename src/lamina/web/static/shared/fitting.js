// @ts-check
// A chart as wide as its place, as in the report: as many panels in a row as fit, each as wide as that leaves.
import { isNumber, panelHeight, views, wrapped, wrapTitle } from "/static/drawing.js";

/** @typedef {Record<string, any>} Part of a Vega-Lite specification */

const NARROWEST = 0.62; // of a panel's own width: below that, panels take another row
const WIDEST = 2.2;
const HIGHEST = 620; // pixels, of a panel that keeps its shape
const SMALLEST = 0.3;
const LEGEND = 130; // pixels of an entry
const LEAST = 24; // pixels beside a panel
const EDGE = 60; // pixels left of a chart's title
const PHONE = 480; // pixels: below that, names of rows are broken
const BROKEN = "split(replace(datum.label, /(.{12,22}) /g, '$1\\n'), '\\n')";

/** @param {Part} view @returns {number} */
const panelWidth = (view) => (isNumber(view.width) ? view.width : Math.max(0, ...views(view).map(panelWidth)));

/**
 * Makes a view `ratio` times as wide, in place; one whose axes have one scale keeps its shape.
 * @param {Part} view
 * @param {number} ratio
 * @param {boolean} shape
 */
function resize(view, ratio, shape) {
  const width = panelWidth(view) * ratio;
  if (isNumber(view.width)) view.width = Math.floor(view.width * ratio);
  if (shape && isNumber(view.height)) view.height = Math.floor(view.height * ratio);
  if (view.title && width) view.title = wrapTitle(view.title, width + 30);
  for (const [name, channel] of Object.entries(view.encoding ?? {})) {
    if (!channel || typeof channel !== "object") continue;
    if (name === "x" && width) channel.title = wrapped(channel.title, width);
    if (name === "y" && isNumber(view.height)) channel.title = wrapped(channel.title, view.height);
  }
  for (const part of views(view)) resize(part, ratio, shape);
}

/**
 * @param {Part} view
 * @param {number} most entries in a row
 */
function narrowLegends(view, most) {
  for (const channel of Object.values(view.encoding ?? {})) {
    const legend = channel?.legend;
    if (!legend || typeof legend !== "object") continue;
    if (legend.gradientLength) legend.gradientLength = Math.min(legend.gradientLength, most * LEGEND);
    else if (["top", "bottom"].includes(legend.orient)) legend.columns = Math.min(legend.columns ?? 9, most);
  }
  for (const part of views(view)) narrowLegends(part, most);
}

/**
 * Names of rows in two lines, where they would take half of the room.
 * @param {Part} view
 */
function breakLabels(view) {
  const y = view.encoding?.y;
  if (y?.axis !== null && (y?.type === "nominal" || y?.type === "ordinal")) y.axis = { labelExpr: BROKEN, ...y.axis };
  for (const part of views(view)) breakLabels(part);
}

/**
 * Panels of a specification as it is: how many in a row, and their widths together in the widest row.
 * @param {Part} spec
 */
function rowsOf(spec) {
  /** @type {Part[]} */
  const panels = spec.concat ?? [spec];
  const before = Math.min(spec.columns ?? panels.length, panels.length);
  const sums = [];
  for (let start = 0; start < panels.length; start += before) sums.push(panels.slice(start, start + before).reduce((sum, panel) => sum + panelWidth(panel), 0));
  return { before, widest: Math.max(...sums) };
}

/**
 * Pixels beside each panel, for its axis and the space to the next one.
 * @param {Part} spec
 * @param {number} natural width of the chart as it is
 */
export function besideOf(spec, natural) {
  const { before, widest } = rowsOf(spec);
  return Math.max(LEAST, (natural - widest) / before);
}

/**
 * @template {Part} Spec
 * @param {Spec} spec
 * @param {number} beside pixels beside each panel
 * @param {number} room
 * @returns {{ drawing: Spec, columns: number, free: boolean }} `free`: whether panels can be wider still
 */
export function fitted(spec, beside, room) {
  const copy = /** @type {Part} */ (structuredClone(spec));
  const { keepShape = false, fixed = false, oneRow = false, together = 1 } = copy.usermeta ?? {};
  /** @type {Part[]} */
  const panels = copy.concat ?? [copy];
  const { before, widest } = rowsOf(copy);
  if (!widest) return { drawing: spec, columns: before, free: false };
  const panelSize = widest / before;
  let columns = panels.length;
  while (columns > 1 && room / columns - beside < (fixed ? 1 : NARROWEST) * panelSize) columns -= 1;
  columns = Math.ceil(panels.length / Math.ceil(panels.length / columns)); // rows of about the same length
  if (columns > together) columns -= columns % together;
  if (oneRow) columns = before; // panels share their rows: below each other they would be without labels
  const most = fixed ? 1 : Math.min(WIDEST, keepShape ? HIGHEST / Math.max(...panels.map(panelHeight)) : WIDEST);
  const ratio = fixed ? 1 : Math.max(SMALLEST, Math.min(most, (room / columns - beside) / panelSize));
  if (copy.concat) {
    copy.columns = columns;
    copy.title = wrapTitle(copy.title, room - EDGE);
  }
  for (const panel of panels) {
    resize(panel, ratio, keepShape);
    narrowLegends(panel, Math.max(1, Math.floor((room - EDGE) / columns / LEGEND)));
    if (room < PHONE) breakLabels(panel);
  }
  return { drawing: /** @type {Spec} */ (copy), columns, free: ratio < most };
}
