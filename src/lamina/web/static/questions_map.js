// The token map: every token of a question at one layer, drawn to the width there is; tokens move from layer to layer.
import { el, svg } from "./dom.js";
import { outline, placed } from "./questions_places.js";
import { colourOf, GOLD_IMPORTANCE, hue, IMPORTANCE, mark, rolesOf } from "./questions_roles.js";

const MARGIN = 22;
const TALLEST = 480;
const FONT = 12;
const PADDING = 12; // from a token to the outline of its cluster
const DASHES = ["none", "7 4", "2 3", "9 3 2 3", "12 5", "5 5", "1 4", "8 2"]; // clusters are told apart without colour
const GAP = 8;
const DESCENT = 4;
const LAST = 9; // of no importance

const pen = document.createElement("canvas").getContext("2d");

function widthOf(text) {
  pen.font = `${FONT}px system-ui, sans-serif`;
  return pen.measureText(text).width + 2;
}

const shift = (x, y) => `translate(${x.toFixed(1)}px, ${y.toFixed(1)}px)`;

// A word of several pieces is named at the first.
const startsWord = (tokens, at) => at === 0 || tokens[at].word !== tokens[at - 1].word || tokens[at].sentence !== tokens[at - 1].sentence;

// How far from the middle tokens are, both ways: of each layer, or of all where they were fitted together.
function extents(positions, together) {
  const furthest = (places, axis) => Math.max(1e-6, ...places.filter(Boolean).map((place) => Math.abs(place[axis])));
  const all = positions.flat();
  return positions.map((own) => [0, 1].map((axis) => furthest(together ? all : own, axis)));
}

export class TokenMap {
  // `onPoint` hears which token is pointed at, or null; `together`: one fit is over all layers.
  constructor(map, { name, together, onPoint }) {
    this.map = map;
    this.extents = extents(map.positions, together);
    this.layer = 0;
    this.colouring = "role";
    this.outlined = true;
    this.pointed = null;
    this.outlines = svg("g", { class: "outlines" });
    this.marks = map.tokens.map((token, at) => this.#mark(token, at, onPoint));
    this.labels = map.tokens.map((token) => svg("text", { class: "label", "aria-hidden": "true" }, token.word));
    this.drawing = svg(
      "svg",
      { class: "map", role: "group", "aria-label": `Token map of ${name}: arrow keys go from token to token` },
      this.outlines,
      svg("g", {}, this.#inOrder()),
      svg("g", {}, this.labels),
    );
    this.said = el("p", { class: "pointed soft" });
    this.box = el("div", { class: "map-box" }, this.drawing, this.said);
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

  // Marks a token here when it is pointed at in either map.
  point(at) {
    this.marks[this.pointed]?.classList.remove("is-pointed");
    this.pointed = at;
    this.marks[at]?.classList.add("is-pointed");
    this.#name();
    this.said.textContent = at === null ? "" : this.describe(at);
  }

  describe(at) {
    const token = this.map.tokens[at];
    const roles = rolesOf(token).join(", ") || token.role;
    const sentence = token.sentence < 0 ? "" : `, sentence ${token.sentence + 1}`;
    const cluster = this.map.clusters[this.layer][at];
    return `${token.word}: ${roles}${sentence}, ${cluster < 0 ? "an outlier here, not drawn" : `cluster ${cluster + 1}`}`;
  }

  #mark(token, at, onPoint) {
    const made = mark(token);
    made.setAttribute("class", "token");
    made.setAttribute("role", "img");
    made.setAttribute("tabindex", at === 0 ? "0" : "-1");
    made.addEventListener("pointerenter", () => onPoint(at));
    made.addEventListener("pointerleave", () => onPoint(null));
    made.addEventListener("click", () => made.focus());
    made.addEventListener("focus", () => onPoint(at));
    made.addEventListener("blur", () => onPoint(null));
    return made;
  }

  // What has a role is drawn over what has none.
  #inOrder() {
    const rank = (at) => IMPORTANCE[this.map.tokens[at].role] ?? LAST;
    return this.marks.map((_, at) => at).sort((a, b) => rank(b) - rank(a)).map((at) => this.marks[at]);
  }

  #key(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const from = this.marks.indexOf(document.activeElement);
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
    this.drawing.setAttribute("height", this.height);
    this.#draw();
  }

  // In points of the drawing; null for a token that is not drawn at this layer.
  #place(at) {
    const place = this.map.positions[this.layer][at];
    if (!place) return null;
    const [x, y] = this.extents[this.layer];
    // Both axes have one scale, the largest that fits.
    const scale = Math.min((this.width / 2 - MARGIN) / x, (this.height / 2 - MARGIN) / y);
    return { x: this.width / 2 + place[0] * scale, y: this.height / 2 - place[1] * scale };
  }

  #draw() {
    if (!this.width) return;
    this.places = this.map.tokens.map((_, at) => this.#place(at));
    this.marks.forEach((made, at) => {
      const place = this.places[at];
      made.style.visibility = place ? "visible" : "hidden";
      if (place) made.style.transform = shift(place.x, place.y);
      made.style.setProperty("--dot", colourOf(this.map.tokens[at], this.map.clusters[this.layer][at], this.colouring) ?? "");
      made.setAttribute("aria-label", this.describe(at));
    });
    this.#outline();
    this.boxes = placed(this.#wanted(), this.#obstacles(), this.width, this.height);
    this.#name();
  }

  #obstacles() {
    const { tokens } = this.map;
    return this.places.flatMap((place, index) => (place ? [{ ...place, index, important: tokens[index].role !== "other" }] : []));
  }

  // What is named unasked: tokens with a role; others have the number of their sentence where that is the colour.
  #wanted() {
    const { tokens } = this.map;
    return this.places.flatMap((place, index) => {
      const token = tokens[index];
      const importance = Math.min(IMPORTANCE[token.role] ?? LAST, token.gold ? GOLD_IMPORTANCE : LAST);
      const named = importance < LAST && startsWord(tokens, index) && /[\p{L}\p{N}]/u.test(token.word);
      const text = named ? token.word : this.colouring === "sentence" && token.sentence >= 0 ? String(token.sentence + 1) : "";
      return place && text ? [{ ...place, index, text, importance, named, width: widthOf(text) }] : [];
    });
  }

  // Names stand where there is room; a token that is pointed at has one in any case.
  #name() {
    if (!this.places) return;
    this.labels.forEach((label, at) => {
      const place = this.places[at];
      const pointed = at === this.pointed;
      const found = this.boxes.get(at);
      label.style.visibility = place && (found || pointed) ? "visible" : "hidden";
      if (!place || !(found || pointed)) return;
      const word = this.map.tokens[at].word;
      label.textContent = pointed ? word : found.text;
      label.classList.toggle("number", !pointed && !found.named);
      label.classList.toggle("is-pointed", pointed);
      const left = found?.named ? found.left : Math.min(place.x + GAP, this.width - widthOf(label.textContent));
      label.style.transform = found && !pointed ? shift(found.left, found.bottom - DESCENT) : shift(left, (found?.named ? found.bottom : place.y) - DESCENT);
    });
  }

  #outline() {
    const clusters = this.map.clusters[this.layer];
    const shown = this.outlined ? [...new Set(clusters)].filter((cluster) => cluster >= 0).sort((a, b) => a - b) : [];
    this.outlines.replaceChildren(
      ...shown.map((cluster) => {
        const points = this.places.flatMap((place, at) => (place && clusters[at] === cluster ? [[place.x, place.y]] : []));
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
