// @ts-check
// The atlas: layers x heads on a canvas, one measure at a time. One stop for Tab, arrow keys inside; a wheel, two
// fingers, + and - zoom, dragging pans. Digits and signs are drawn only where they fit.
/** @import { HeadMeasure } from "../../shared/api_types.js" */
/** @import { Scale } from "./measures.js" */
import { el, replace, table } from "../../shared/dom.js";
import { onScheme } from "../../shared/theme.js";
import { described, paintOf, scaleOf, textOf } from "./measures.js";
import { behaviour, nameOf, placeOf } from "./style.js";

const LEFT = 30; // pixels for the numbers of layers ...
const TOP = 18; // ... and of heads
const WIDEST = 46; // pixels of a cell at first
const TALLEST = 28;
const LOWEST = 6;
const CLOSEST = 60; // pixels of a cell at the closest
const ROOM = 0.72; // of the window's height
const STEP = 1.4;
const FONTS = [11, 10, 9, 8].map((size) => `${size}px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif`); // a sign takes room too
const SIGN = 11; // pixels of a cell that has room for a sign, where the word does not fit
/** @type {Record<string, [number, number]>} */
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
let count = 0;

/** @param {number} value @param {number} low @param {number} high */
const within = (value, low, high) => Math.min(Math.max(value, low), Math.max(low, high));

/**
 * `onChoose` when a head is clicked or Enter is pressed on it; `onLook` when it is pointed at.
 * @param {HTMLElement} box
 * @param {{ label: string, onChoose?: (head: string, add: boolean) => void, onLook?: (head: string) => void }} options
 */
export function makeAtlas(box, { label, onChoose = () => {}, onLook = () => {} }) {
  const id = `atlas-cell-${(count += 1)}`;
  const canvas = el("canvas", { "aria-hidden": "true" });
  const cell = el("div", { role: "gridcell", id, "aria-selected": "false" });
  const row = el("div", { role: "row", class: "unseen" }, cell);
  const grid = el("div", { class: "atlas-grid", role: "grid", tabindex: "0", "aria-label": label, "aria-activedescendant": id }, canvas, row);
  const tool = (/** @type {string} */ text, /** @type {string} */ label, /** @type {() => void} */ act) => el("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
  const tools = el("div", { class: "atlas-tools", role: "group", "aria-label": `Zoom of ${label}` }, tool("−", "zoom out", () => zoom(1 / STEP)), tool("+", "zoom in", () => zoom(STEP)), tool("Fit", "Fit all heads", () => fit()));
  const asTable = el("details", {}, el("summary", {}, "The same as a table"), el("div", {}));
  replace(box, tools, grid, asTable);

  /** @type {HeadMeasure | null} */
  let measure = null;
  /** @type {Scale} */
  let scale = { low: 0, high: 0 };
  let [layers, heads] = [0, 0];
  let [wide, tall] = [1, 1]; // of a cell that is not zoomed
  let [zoomed, left, top] = [1, 0, 0]; // how close, and what is out of sight
  let active = [0, 0];
  /** @type {string[]} */
  let chosen = [];
  let waiting = false;

  const view = () => [grid.clientWidth - LEFT, grid.clientHeight - TOP];
  const closest = () => Math.max(1, CLOSEST / wide);

  function measureCells() {
    wide = Math.min(WIDEST, (grid.clientWidth - LEFT) / heads);
    tall = within(wide * 0.9, LOWEST, Math.min(TALLEST, Math.max(LOWEST, (window.innerHeight * ROOM) / layers)));
    grid.style.height = `${Math.ceil(layers * tall + TOP + 2)}px`;
    grid.dataset.cell = JSON.stringify({ left: LEFT, top: TOP, wide, tall });
    bound();
  }

  function bound() {
    const [width, height] = view();
    zoomed = within(zoomed, 1, closest());
    left = within(left, 0, heads * wide * zoomed - width);
    top = within(top, 0, layers * tall * zoomed - height);
    grid.classList.toggle("zoomed", zoomed > 1);
    redraw();
  }

  /**
   * Around a point of the view, by default its middle.
   * @param {number} by
   */
  function zoom(by, x = view()[0] / 2, y = view()[1] / 2) {
    const before = zoomed;
    zoomed = within(zoomed * by, 1, closest());
    left = (left + x) * (zoomed / before) - x;
    top = (top + y) * (zoomed / before) - y;
    bound();
  }

  function fit() {
    [zoomed, left, top] = [1, 0, 0];
    bound();
  }

  function redraw() {
    if (!waiting) requestAnimationFrame(draw);
    waiting = true;
  }

  function draw() {
    waiting = false;
    if (!measure || !grid.clientWidth) return;
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [grid.clientWidth, grid.clientHeight];
    Object.assign(canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    const context = canvas.getContext("2d");
    if (!context) return;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const style = getComputedStyle(grid);
    const [across, down] = [wide * zoomed, tall * zoomed];
    context.font = FONTS[0];
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.save();
    context.beginPath();
    context.rect(LEFT, TOP, width - LEFT, height - TOP);
    context.clip();
    const [first, last] = [Math.floor(top / down), Math.min(layers, Math.ceil((top + height) / down))];
    const [begin, end] = [Math.floor(left / across), Math.min(heads, Math.ceil((left + width) / across))];
    for (let layer = first; layer < last; layer++) {
      for (let head = begin; head < end; head++) drawCell(context, layer, head, across, down, style);
    }
    drawMarks(context, across, down, style);
    context.restore();
    drawNumbers(context, across, down, style);
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} layer
   * @param {number} head
   * @param {number} across
   * @param {number} down
   * @param {CSSStyleDeclaration} style
   */
  function drawCell(context, layer, head, across, down, style) {
    if (!measure) return;
    const gap = across > 8 && down > 8 ? 1 : across > 4 ? 0.5 : 0;
    const [x, y] = [LEFT + head * across - left, TOP + layer * down - top];
    const value = measure.values[layer][head];
    if (value === null) {
      context.strokeStyle = style.getPropertyValue("--line");
      context.strokeRect(x + gap + 0.5, y + gap + 0.5, across - 2 * gap - 1, down - 2 * gap - 1);
      return;
    }
    const { fill, text } = paintOf(measure, scale, value);
    context.fillStyle = fill;
    context.fillRect(x + gap, y + gap, across - 2 * gap, down - 2 * gap);
    context.fillStyle = text;
    // A cell too narrow for its sign has its number: the colour says which side of 0 it is on.
    const label = textOf(measure, scale, value).slice("most" in scale && value > 0 && !fits(context, "+.00", across - 3) ? 1 : 0);
    if (down >= 13 && write(context, label, x + across / 2, y + down / 2 + 0.5, across - 3)) return;
    if (measure.names.length && Math.min(across, down) >= SIGN) {
      // Distinct without colour too.
      const size = Math.min(across, down) * 0.28;
      context.save();
      context.translate(x + across / 2, y + down / 2);
      context.scale(size, size);
      context.fill(new Path2D(behaviour(measure.names[value]).shape));
      context.restore();
    }
  }

  /**
   * Whether a text fits in the smallest type.
   * @param {CanvasRenderingContext2D} context
   * @param {string} text
   * @param {number} room
   */
  function fits(context, text, room) {
    context.font = FONTS[FONTS.length - 1];
    return context.measureText(text).width <= room;
  }

  /**
   * In the largest type that fits; false where none does.
   * @param {CanvasRenderingContext2D} context
   * @param {string} text
   * @param {number} x
   * @param {number} y
   * @param {number} room
   */
  function write(context, text, x, y, room) {
    for (const font of FONTS) {
      context.font = font;
      if (context.measureText(text).width > room) continue;
      context.fillText(text, x, y);
      return true;
    }
    return false;
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} across
   * @param {number} down
   * @param {CSSStyleDeclaration} style
   */
  function drawMarks(context, across, down, style) {
    const frame = (/** @type {number[]} */ [layer, head], /** @type {string} */ colour, /** @type {number} */ wider, /** @type {number[]} */ dash) => {
      context.setLineDash(dash);
      context.lineWidth = wider;
      context.strokeStyle = style.getPropertyValue(colour);
      context.strokeRect(LEFT + head * across - left, TOP + layer * down - top, across, down);
      context.setLineDash([]);
    };
    for (const name of chosen) {
      frame(placeOf(name), "--paper", 6, []);
      frame(placeOf(name), "--ink", 3, []);
    }
    if (grid.matches(":focus-visible")) frame(active, "--second", 3, [4, 2]);
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} across
   * @param {number} down
   * @param {CSSStyleDeclaration} style
   */
  function drawNumbers(context, across, down, style) {
    context.fillStyle = style.getPropertyValue("--soft");
    context.font = FONTS[0];
    const every = (/** @type {number} */ size, /** @type {number} */ least) => [1, 2, 4, 8, 16, 32].find((step) => step * size >= least) ?? 64;
    const [width, height] = [grid.clientWidth, grid.clientHeight];
    for (let head = 0; head < heads; head += every(across, 22)) {
      const x = LEFT + (head + 0.5) * across - left;
      if (x > LEFT && x < width) context.fillText(String(head + 1), x, TOP / 2);
    }
    context.textAlign = "right";
    for (let layer = 0; layer < layers; layer += every(down, 13)) {
      const y = TOP + (layer + 0.5) * down - top;
      if (y > TOP && y < height) context.fillText(String(layer + 1), LEFT - 6, y);
    }
  }

  /**
   * The head at a point of the page.
   * @param {{ clientX: number, clientY: number }} point
   */
  function headAt({ clientX, clientY }) {
    const { x, y } = grid.getBoundingClientRect();
    const [across, down] = [clientX - x - LEFT, clientY - y - TOP];
    const [layer, head] = [Math.floor((down + top) / (tall * zoomed)), Math.floor((across + left) / (wide * zoomed))];
    return across >= 0 && down >= 0 && layer < layers && head < heads ? [layer, head] : null;
  }

  function say() {
    if (!measure) return;
    const name = nameOf(active[0], active[1]);
    cell.textContent = described(measure, name, scale);
    cell.setAttribute("aria-selected", String(chosen.includes(name)));
    cell.setAttribute("aria-colindex", String(active[1] + 1));
    row.setAttribute("aria-rowindex", String(active[0] + 1));
  }

  /** @param {number[]} place */
  function go(place) {
    active = place;
    const [x, y] = [active[1] * wide * zoomed, active[0] * tall * zoomed];
    const [width, height] = view();
    left = within(left, x + wide * zoomed - width, x);
    top = within(top, y + tall * zoomed - height, y);
    say();
    bound();
    onLook(nameOf(active[0], active[1]));
  }

  /** @param {KeyboardEvent} event */
  function key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [layer, head] = active;
    if (event.key in STEPS) {
      const [down, across] = STEPS[event.key];
      go([within(layer + down, 0, layers - 1), within(head + across, 0, heads - 1)]);
    } else if (event.key === "Home") go([layer, 0]);
    else if (event.key === "End") go([layer, heads - 1]);
    else if (event.key === "+" || event.key === "=") zoom(STEP, ...middle());
    else if (event.key === "-") zoom(1 / STEP, ...middle());
    else if (event.key === "0") fit();
    else if (event.key === "Enter" || event.key === " ") onChoose(nameOf(layer, head), event.shiftKey);
    else return;
    event.preventDefault();
  }

  /** @returns {[number, number]} of the active head, in the view */
  const middle = () => [(active[1] + 0.5) * wide * zoomed - left, (active[0] + 0.5) * tall * zoomed - top];

  listen(grid, {
    headAt,
    look: (place) => onLook(nameOf(place[0], place[1])),
    choose(place, add) {
      active = place;
      say();
      onChoose(nameOf(place[0], place[1]), add);
      redraw();
    },
    zoom: (by, clientX, clientY) => {
      const { x, y } = grid.getBoundingClientRect();
      zoom(by, clientX - x - LEFT, clientY - y - TOP);
    },
    pan(across, down) {
      left -= across;
      top -= down;
      bound();
    },
    close: () => zoomed > 1,
  });
  grid.addEventListener("keydown", key);
  for (const kind of ["focus", "blur"]) grid.addEventListener(kind, redraw);
  new ResizeObserver(() => layers && measureCells()).observe(box);
  onScheme(redraw);

  function fill() {
    if (!asTable.open || !measure) return;
    const current = measure;
    const text = (/** @type {number | null} */ value) => (value === null ? "–" : current.names.length ? current.names[value] : textOf(current, scale, value));
    const rows = current.values.map((values, layer) => [layer + 1, ...values.map(text)]);
    const names = ["layer", ...current.values[0].map((_, head) => `head ${head + 1}`)];
    replace(asTable.lastElementChild ?? asTable, table(names, rows, { caption: `${label}: ${current.title}` }));
  }
  asTable.addEventListener("toggle", fill);

  return {
    /**
     * @param {HeadMeasure} next
     * @param {Scale} [on]
     */
    show(next, on = scaleOf(next)) {
      const [down, across] = [next.values.length, next.values[0]?.length ?? 0];
      const anew = down !== layers || across !== heads;
      [measure, scale, layers, heads] = [next, on, down, across];
      grid.setAttribute("aria-rowcount", String(layers));
      grid.setAttribute("aria-colcount", String(heads));
      if (anew) {
        active = [0, 0];
        measureCells();
        fit();
      }
      say();
      fill();
      redraw();
    },
    /** @param {string[]} names */
    mark(names) {
      chosen = names;
      if (names.length) active = placeOf(names[names.length - 1]);
      say();
      redraw();
    },
  };
}

/**
 * Pointers: one that does not move chooses, one that moves pans, two zoom. A wheel zooms with Ctrl, or where the atlas
 * has the focus: otherwise it would catch a page that is scrolled.
 * @param {HTMLElement} grid
 * @param {{ headAt: (point: PointerEvent) => number[] | null, look: (place: number[]) => void, choose: (place: number[], add: boolean) => void, zoom: (by: number, x: number, y: number) => void, pan: (across: number, down: number) => void, close: () => boolean }} acts
 */
function listen(grid, acts) {
  /** @type {Map<number, PointerEvent>} */
  const down = new Map();
  let moved = 0;

  const apart = () => {
    const [one, other] = [...down.values()];
    return Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
  };

  grid.addEventListener("pointerdown", (event) => {
    if (event.button > 0) return;
    down.set(event.pointerId, event);
    moved = down.size > 1 ? Infinity : 0;
    grid.setPointerCapture(event.pointerId);
  });
  grid.addEventListener("pointermove", (event) => {
    const before = down.get(event.pointerId);
    if (!before) {
      const place = acts.headAt(event);
      if (place) acts.look(place);
      return;
    }
    const wide = down.size === 2 ? apart() : 0;
    down.set(event.pointerId, event);
    const [across, downwards] = [event.clientX - before.clientX, event.clientY - before.clientY];
    moved += Math.hypot(across, downwards);
    if (down.size === 2) {
      const [one, other] = [...down.values()];
      acts.zoom(apart() / (wide || 1), (one.clientX + other.clientX) / 2, (one.clientY + other.clientY) / 2);
    } else if (acts.close() && moved > 4) acts.pan(across, downwards);
  });
  for (const kind of /** @type {const} */ (["pointerup", "pointercancel"])) {
    grid.addEventListener(kind, (event) => {
      const alone = down.delete(event.pointerId) && down.size === 0;
      const place = acts.headAt(event);
      if (kind === "pointerup" && alone && moved <= 4 && place) acts.choose(place, event.shiftKey || event.ctrlKey || event.metaKey);
    });
  }
  grid.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && document.activeElement !== grid) return;
    event.preventDefault();
    acts.zoom(Math.exp(-event.deltaY / 300), event.clientX, event.clientY);
  }, { passive: false });
}
