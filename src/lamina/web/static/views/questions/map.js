// @ts-check
// The token map: every token of a question at one layer, drawn to the width there is; tokens move from layer to layer.
/** @import { MapToken, TokenMap as Tokens } from "../../shared/api_types.js" */
/** @import { Point, Wanted } from "./places.js" */
import { el, svg } from "../../shared/dom.js";
import { outline, placed } from "./places.js";
import { colourOf, hue, importance, LAST, mark, PLAIN } from "./roles.js";

const MARGIN = 22;
const TALLEST = 480;
const FONT = 12;
const PADDING = 12; // from a token to the outline of its cluster
const DASHES = ["none", "7 4", "2 3", "9 3 2 3", "12 5", "5 5", "1 4", "8 2"]; // clusters differ in more than their colour
const GAP = 8;
const DESCENT = 4;

/** @typedef {{ x: number, y: number }} Place in points of the drawing */
/** @typedef {(at: number | null) => void} OnPoint */

/** @type {Record<string, number>} */
const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

const pen = document.createElement("canvas").getContext("2d");

/** @param {string} text */
function widthOf(text) {
  if (!pen) return 0;
  pen.font = `${FONT}px system-ui, sans-serif`;
  return pen.measureText(text).width + 2;
}

const shift = (/** @type {number} */ x, /** @type {number} */ y) => `translate(${x.toFixed(1)}px, ${y.toFixed(1)}px)`;

/**
 * A word of several pieces is named at the first.
 * @param {MapToken[]} tokens
 * @param {number} index
 */
const startsWord = (tokens, index) => index === 0 || tokens[index].word !== tokens[index - 1].word || tokens[index].sentence !== tokens[index - 1].sentence;

/**
 * How far from the middle tokens are, both ways: of each layer, or of all where they were fitted together.
 * @param {Tokens["positions"]} positions
 * @param {boolean} together
 */
function extents(positions, together) {
  /** @type {(places: Tokens["positions"][number], axis: 0 | 1) => number} */
  const furthest = (places, axis) => Math.max(1e-6, ...places.map((place) => (place ? Math.abs(place[axis]) : 0)));
  const all = positions.flat();
  return positions.map((points) => [furthest(together ? all : points, 0), furthest(together ? all : points, 1)]);
}

export class TokenMap {
  /**
   * `onPoint` hears which token is pointed at, or null; `together`: one fit is over all layers.
   * @param {Tokens} map
   * @param {{ name: string, together: boolean, onPoint: OnPoint }} options
   */
  constructor(map, { name, together, onPoint }) {
    this.map = map;
    this.extents = extents(map.positions, together);
    this.layer = 0;
    this.colouring = "role";
    this.outlined = true;
    /** @type {number | null} */
    this.pointed = null;
    this.width = 0;
    this.height = 0;
    /** @type {(Place | null)[]} */
    this.places = [];
    /** @type {ReturnType<typeof placed>} */
    this.boxes = new Map();
    this.outlines = svg("g", { class: "outlines" });
    this.marks = map.tokens.map((token, index) => this.#mark(token, index, onPoint));
    this.labels = map.tokens.map((token) => svg("text", { class: "label", "aria-hidden": "true" }, token.word));
    this.drawing = svg(
      "svg",
      { class: "map", role: "group", "aria-label": `Token map of ${name}: arrow keys go from token to token` },
      this.outlines,
      svg("g", {}, this.#inOrder()),
      svg("g", {}, this.labels),
    );
    this.note = el("p", { class: "pointed soft" });
    this.box = el("div", { class: "map-box" }, this.drawing, this.note);
    this.drawing.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.#fit()).observe(this.box);
  }

  get depth() {
    return this.map.layers.length;
  }

  show({ layer = this.layer, colouring = this.colouring, outlined = this.outlined }) {
    this.layer = Math.min(layer, this.depth - 1);
    this.colouring = colouring;
    this.outlined = outlined;
    this.#draw();
  }

  /**
   * Marks a token here when it is pointed at in either map.
   * @param {number | null} index
   */
  point(index) {
    this.pointed = index;
    this.marks.forEach((dot, place) => dot.classList.toggle("is-pointed", place === index));
    this.#name();
    this.note.textContent = index === null ? "" : this.describe(index);
  }

  /** @param {number} index */
  describe(index) {
    const token = this.map.tokens[index];
    const sentence = token.sentence < 0 ? "" : `, sentence ${token.sentence + 1}`;
    const cluster = this.map.clusters[this.layer][index];
    return `${token.word}: ${token.roles.join(", ")}${sentence}, ${cluster < 0 ? "an outlier here, not drawn" : `cluster ${cluster + 1}`}`;
  }

  /**
   * @param {MapToken} token
   * @param {number} index
   * @param {OnPoint} onPoint
   */
  #mark(token, index, onPoint) {
    const dot = mark(token);
    dot.setAttribute("class", "token");
    dot.setAttribute("role", "img");
    dot.setAttribute("tabindex", index === 0 ? "0" : "-1");
    dot.addEventListener("pointerenter", () => onPoint(index));
    dot.addEventListener("pointerleave", () => onPoint(null));
    dot.addEventListener("click", () => dot.focus());
    dot.addEventListener("focus", () => onPoint(index));
    dot.addEventListener("blur", () => onPoint(null));
    return dot;
  }

  // What has a role is drawn over what has none.
  #inOrder() {
    const rank = (/** @type {number} */ index) => importance({ role: this.map.tokens[index].role });
    return this.marks.map((_, index) => index).sort((a, b) => rank(b) - rank(a)).map((index) => this.marks[index]);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const step = STEPS[event.key];
    const from = this.marks.findIndex((dot) => dot === document.activeElement);
    if (!step || from < 0) return;
    event.preventDefault();
    let to = from;
    do to = (to + step + this.marks.length) % this.marks.length;
    while (!this.#place(to) && to !== from);
    this.marks[from].setAttribute("tabindex", "-1");
    this.marks[to].setAttribute("tabindex", "0");
    this.marks[to].focus();
  }

  #fit() {
    const width = Math.floor(this.box.clientWidth);
    if (!width || width === this.width) return;
    this.width = width;
    this.height = Math.min(width, TALLEST);
    this.drawing.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.drawing.setAttribute("height", String(this.height));
    this.#draw();
  }

  /**
   * Null for a token that is not drawn at this layer.
   * @param {number} index
   * @returns {Place | null}
   */
  #place(index) {
    const place = this.map.positions[this.layer][index];
    if (!place) return null;
    const [x, y] = this.extents[this.layer];
    // Both axes have one scale, the largest that fits.
    const scale = Math.min((this.width / 2 - MARGIN) / x, (this.height / 2 - MARGIN) / y);
    return { x: this.width / 2 + place[0] * scale, y: this.height / 2 - place[1] * scale };
  }

  #draw() {
    if (!this.width) return;
    this.places = this.map.tokens.map((_, index) => this.#place(index));
    this.marks.forEach((dot, index) => {
      const place = this.places[index];
      dot.style.visibility = place ? "visible" : "hidden";
      if (place) dot.style.transform = shift(place.x, place.y);
      dot.style.setProperty("--dot", colourOf(this.map.tokens[index], this.map.clusters[this.layer][index], this.colouring) ?? "");
      dot.setAttribute("aria-label", this.describe(index));
    });
    this.#outline();
    this.boxes = placed(this.#wanted(), this.#obstacles(), this.width, this.height);
    this.#name();
  }

  #obstacles() {
    const { tokens } = this.map;
    return this.places.flatMap((place, index) => (place ? [{ ...place, index, important: tokens[index].role !== PLAIN }] : []));
  }

  /**
   * What is named unasked: tokens with a role; others have the number of their sentence where that is the colour.
   * @returns {Wanted[]}
   */
  #wanted() {
    const { tokens } = this.map;
    return this.places.flatMap((place, index) => {
      const token = tokens[index];
      const wanted = importance(token);
      const named = wanted < LAST && startsWord(tokens, index) && /[\p{L}\p{N}]/u.test(token.word);
      const text = named ? token.word : this.colouring === "sentence" && token.sentence >= 0 ? String(token.sentence + 1) : "";
      return place && text ? [{ ...place, index, text, importance: wanted, named, width: widthOf(text) }] : [];
    });
  }

  // Names stand where there is room; a token that is pointed at has one in any case.
  #name() {
    this.labels.forEach((label, index) => {
      const place = this.places[index];
      const pointed = index === this.pointed;
      const box = this.boxes.get(index);
      label.style.visibility = place && (box || pointed) ? "visible" : "hidden";
      if (!place || !(box || pointed)) return;
      const word = this.map.tokens[index].word;
      label.textContent = pointed || !box ? word : box.text;
      label.classList.toggle("number", !pointed && !box?.named);
      label.classList.toggle("is-pointed", pointed);
      const left = box?.named ? box.left : Math.min(place.x + GAP, this.width - widthOf(word));
      label.style.transform = box && !pointed ? shift(box.left, box.bottom - DESCENT) : shift(left, (box?.named ? box.bottom : place.y) - DESCENT);
    });
  }

  #outline() {
    const clusters = this.map.clusters[this.layer];
    const { stable } = this.map.layers[this.layer];
    const visible = this.outlined && stable ? [...new Set(clusters)].filter((cluster) => cluster >= 0).sort((a, b) => a - b) : [];
    this.outlines.replaceChildren(
      ...visible.map((cluster) => {
        const points = this.places.flatMap((place, index) => (place && clusters[index] === cluster ? [/** @type {Point} */ ([place.x, place.y])] : []));
        if (!points.length) return svg("g");
        const around = outline(points, PADDING);
        const top = around.reduce((a, b) => (b[1] < a[1] ? b : a));
        return svg(
          "g",
          { class: "outline", style: `--hue: ${this.colouring === "cluster" ? hue(cluster) : "var(--soft)"}` },
          svg("polygon", { points: around.map((point) => point.join(",")).join(" "), "stroke-dasharray": DASHES[cluster % DASHES.length] }),
          svg("text", { x: top[0], y: Math.max(10, top[1] - 3), "text-anchor": "middle" }, String(cluster + 1)),
        );
      }),
    );
  }
}
