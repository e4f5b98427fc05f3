// @ts-check
// A language model token by token: how surprising each token is, and what every layer would say in its place.
/** @import { GridCell, LogitLens } from "../shared/api_types.js" */
import { post } from "../shared/api.js";
import { el, replace } from "../shared/dom.js";
import { sequential, short } from "../shared/scales.js";

const TOP = 5;
const TALL = 46; // pixels of the most surprising token
/** @type {Record<string, [number, number]>} */
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
const DEEP = 14; // layers from which on rows are low, so that all are in sight

/** Spaces and line ends made visible, also as byte-level vocabularies spell them. @param {string} piece */
const printable = (piece) => piece.replace(/^\s+/, "").replace(/[\nĊ]/g, "⏎").replace(/[\rČ]/g, "␍").replace(/Ġ/g, "␣") || "␣";

const percent = (/** @type {number | null} */ value) => (value === null ? "–" : value < 0.001 ? "< 0.1 %" : `${(100 * value).toFixed(value < 0.1 ? 1 : 0)} %`);

/** @param {string} token */
const named = (token) => (token === "" ? "(next)" : printable(token));

/** Where the final answer stands among the likeliest pieces of a layer: 0 for the first; -1 where it is none of them. @param {GridCell} cell @param {GridCell} final */
const rank = ({ top }, final) => top.findIndex(({ piece }) => piece === final.top[0].piece);

/** The colour of a cell is its agreement with the final answer, not how sure it is. @param {number} place */
const coloured = (place) => (place < 0 ? { fill: "transparent", text: "var(--soft)" } : sequential(1 - (0.6 * place) / (TOP - 1)));

/** @param {LogitLens} found */
function strip({ tokens, surprisal }) {
  const most = Math.max(1, ...surprisal.map((bits) => bits ?? 0));
  return tokens.map((token, index) => {
    const bits = surprisal[index];
    const bar = el("span", { class: "bit", style: `height: ${((bits ?? 0) / most) * TALL}px` });
    return el("td", { class: "surprise", title: `${named(token)}: ${bits === null ? "not known" : `${bits.toFixed(2)} bits`}` }, bar, el("span", {}, bits === null ? "–" : bits.toFixed(1)));
  });
}

/**
 * @param {LogitLens} lens
 * @param {number} layer
 */
const layerName = (lens, layer) => (layer === 0 ? "0 (embeddings)" : layer === lens.layers - 1 ? `${layer} (the model)` : String(layer));

/**
 * @param {LogitLens} lens
 * @param {number} token
 * @param {number} layer
 */
function inFull(lens, token, layer) {
  const cell = lens.cells[token][layer];
  const guesses = cell.top.map(({ piece, probability }) => el("li", {}, el("q", {}, printable(piece)), ` ${percent(probability)}`));
  const actual = cell.actual === null ? "" : ` The token itself: ${percent(cell.actual)}.`;
  return [
    el("p", {}, el("strong", {}, `Layer ${layerName(lens, layer)}, in the place of `, el("q", {}, named(lens.tokens[token]))), `.${actual} ${short(cell.kl)} nats from the last layer's answer (KL).`),
    el("ol", { class: "tops" }, guesses),
  ];
}

/**
 * @param {LogitLens} lens
 * @param {HTMLElement} about where the chosen cell is described in full
 */
function grid(lens, about) {
  const last = lens.layers - 1;
  /** @type {HTMLElement[][]} */
  const cells = lens.tokens.map((_, token) => lens.cells[token].map((cell, layer) => button(cell, token, layer)));

  /**
   * @param {GridCell} cell
   * @param {number} token
   * @param {number} layer
   */
  function button(cell, token, layer) {
    const [best] = cell.top;
    const place = rank(cell, lens.cells[token][last]);
    const { fill, text } = coloured(place);
    const right = lens.tokens[token] !== "" && printable(best.piece) === printable(lens.tokens[token]);
    const settled = layer >= lens.reached[token];
    const label = `layer ${layer}, ${named(lens.tokens[token])}: ${printable(best.piece)} ${percent(best.probability)}, ${place < 0 ? `the final answer is not among its first ${TOP}` : place ? `the final answer is its number ${place + 1}` : "as in the end"}${right ? ", the token itself" : ""}`;
    const classes = ["cell", right ? "right" : "", settled ? "settled" : ""].filter(Boolean).join(" ");
    return el("td", { class: classes, style: `background: ${fill}; color: ${text}`, tabindex: "-1", "aria-label": label, "data-token": token, "data-depth": layer }, printable(best.piece));
  }

  /** @param {HTMLElement} cell */
  function look(cell) {
    replace(about, inFull(lens, Number(cell.dataset.token), Number(cell.dataset.depth)));
  }

  /** @param {Event} event */
  const cellAt = ({ target }) => (target instanceof Element ? /** @type {HTMLElement | null} */ (target.closest("td.cell")) : null);

  const head = el("tr", {}, el("th", { scope: "row" }, "token"), lens.tokens.map((token) => el("th", { scope: "col" }, named(token))));
  const bits = el("tr", { class: "surprises" }, el("th", { scope: "row" }, "surprisal, bits"), strip(lens));
  const rows = Array.from({ length: lens.layers }, (_, layer) => {
    return el("tr", { "data-layer": layer }, el("th", { scope: "row" }, layerName(lens, layer)), cells.map((column) => column[layer]));
  });
  const box = el("div", { class: lens.layers > DEEP ? "scroll tokens deep" : "scroll tokens", role: "region", tabindex: "0", "aria-label": "Tokens by layers" }, el("table", {}, el("caption", {}, `Columns are tokens, ${lens.kind === "causal" ? "each predicted from those before it" : "each hidden in turn"}; rows are layers, the last one is the model's answer.`), el("thead", {}, head, bits), el("tbody", {}, rows)));
  cells[0][last].tabIndex = 0;
  box.addEventListener("pointerover", (event) => {
    const cell = cellAt(event);
    if (cell) look(cell);
  });
  box.addEventListener("focusin", (event) => {
    const cell = cellAt(event);
    if (cell) look(cell);
  });
  box.addEventListener("keydown", (event) => {
    const cell = cellAt(event);
    if (!cell || !(event.key in STEPS)) return;
    const [up, along] = STEPS[event.key];
    const next = cells[Number(cell.dataset.token) + along]?.[Number(cell.dataset.depth) + up];
    event.preventDefault();
    if (!next) return;
    cell.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  replace(about, inFull(lens, lens.tokens.length - 1, last));
  return box;
}

/** @param {LogitLens} lens */
function summed({ surprisal, kind }) {
  const known = surprisal.filter((bits) => bits !== null);
  const total = known.reduce((sum, bits) => sum + bits, 0);
  const how = kind === "causal" ? "each predicted from the tokens before it" : "each hidden in turn, a pseudo-likelihood";
  return `${known.length} tokens have ${total.toFixed(1)} bits together, ${(total / (known.length || 1)).toFixed(2)} each: ${how}.`;
}

/**
 * @param {string} model
 * @param {string} text
 * @param {AbortSignal} signal
 */
export async function tokensByLayers(model, text, signal) {
  const lens = await post("/behaviour/logit_lens", { model, text, top: TOP }, signal);
  const about = el("div", { class: "in-full", "aria-live": "polite" });
  const key = Array.from({ length: TOP }, (_, place) => el("span", { class: "label-key", style: `background: ${coloured(place).fill}; color: ${coloured(place).text}` }, String(place + 1)));
  const ramp = el("div", { class: "legend" }, el("span", {}, "The model's final answer is, at this layer, number"), key, el("span", { class: "soft" }, `of its likeliest tokens; without colour: none of the first ${TOP}. Underlined: the token itself is the likeliest; bold: the likeliest stays from here on.`));
  return [el("p", { class: "soft" }, summed(lens)), grid(lens, about), ramp, about];
}
