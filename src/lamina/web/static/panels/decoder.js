// @ts-check
// A language model token by token: how surprising each token is, and what every layer would say in its place.
/** @import { GridCell, LogitLens } from "../shared/api_types.js" */
import { post } from "../shared/api.js";
import { el, replace } from "../shared/dom.js";
import { sequential, short } from "../shared/scales.js";

const TOP = 5;
const TALL = 46; // pixels of the most surprising token
/** @type {Record<string, [number, number]>} */
const STEPS = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }; // layers are drawn upwards

/** Spaces and line ends made visible, also as byte-level vocabularies spell them. @param {string} piece */
const shown = (piece) => piece.replace(/^\s+/, "").replace(/[\nĊ]/g, "⏎").replace(/[\rČ]/g, "␍").replace(/Ġ/g, "␣") || "␣";

const percent = (/** @type {number | null} */ value) => (value === null ? "–" : value < 0.001 ? "< 0.1 %" : `${(100 * value).toFixed(value < 0.1 ? 1 : 0)} %`);

/** @param {string} token */
const named = (token) => (token === "" ? "(next)" : shown(token));

/** @param {LogitLens} found */
function strip({ tokens, surprisal }) {
  const most = Math.max(1, ...surprisal.map((bits) => bits ?? 0));
  return tokens.map((token, at) => {
    const bits = surprisal[at];
    const bar = el("span", { class: "bit", style: `height: ${((bits ?? 0) / most) * TALL}px` });
    return el("td", { class: "surprise", title: `${named(token)}: ${bits === null ? "not known" : `${bits.toFixed(2)} bits`}` }, bar, el("span", {}, bits === null ? "–" : bits.toFixed(1)));
  });
}

/**
 * @param {LogitLens} found
 * @param {number} layer
 */
const layerName = (found, layer) => (layer === 0 ? "0 (embeddings)" : layer === found.layers - 1 ? `${layer} (the model)` : String(layer));

/**
 * @param {LogitLens} found
 * @param {number} token
 * @param {number} layer
 */
function inFull(found, token, layer) {
  const cell = found.cells[token][layer];
  const said = cell.top.map(({ piece, probability }) => el("li", {}, el("q", {}, shown(piece)), ` ${percent(probability)}`));
  const own = cell.actual === null ? "" : ` The token itself: ${percent(cell.actual)}.`;
  return [
    el("p", {}, el("strong", {}, `Layer ${layerName(found, layer)}, in the place of `, el("q", {}, named(found.tokens[token]))), `.${own} ${short(cell.kl)} nats from the last layer's answer (KL).`),
    el("ol", { class: "tops" }, said),
  ];
}

/**
 * @param {LogitLens} found
 * @param {HTMLElement} about where the cell that is looked at is told in full
 */
function grid(found, about) {
  const last = found.layers - 1;
  /** @type {HTMLElement[][]} */
  const cells = found.tokens.map((_, token) => found.cells[token].map((cell, layer) => made(cell, token, layer)));

  /**
   * @param {GridCell} cell
   * @param {number} token
   * @param {number} layer
   */
  function made(cell, token, layer) {
    const [best] = cell.top;
    const { fill, text } = sequential(best.probability);
    const right = found.tokens[token] !== "" && shown(best.piece) === shown(found.tokens[token]);
    const settled = layer >= found.reached[token];
    const said = `layer ${layer}, ${named(found.tokens[token])}: ${shown(best.piece)} ${percent(best.probability)}${right ? ", the token itself" : ""}`;
    const classes = ["cell", right ? "right" : "", settled ? "settled" : ""].filter(Boolean).join(" ");
    return el("td", { class: classes, style: `background: ${fill}; color: ${text}`, tabindex: "-1", "aria-label": said, "data-token": token, "data-at": layer }, shown(best.piece));
  }

  /** @param {HTMLElement} cell */
  function look(cell) {
    replace(about, inFull(found, Number(cell.dataset.token), Number(cell.dataset.at)));
  }

  /** @param {Event} event */
  const at = ({ target }) => (target instanceof Element ? /** @type {HTMLElement | null} */ (target.closest("td.cell")) : null);

  const head = el("tr", {}, el("th", { scope: "row" }, "token"), found.tokens.map((token) => el("th", { scope: "col" }, named(token))));
  const bits = el("tr", { class: "surprises" }, el("th", { scope: "row" }, "surprisal, bits"), strip(found));
  const rows = Array.from({ length: found.layers }, (_, back) => {
    const layer = last - back;
    return el("tr", { "data-layer": layer }, el("th", { scope: "row" }, layerName(found, layer)), cells.map((own) => own[layer]));
  });
  const box = el("div", { class: "scroll tokens", role: "region", tabindex: "0", "aria-label": "Tokens by layers" }, el("table", {}, el("caption", {}, `Columns are tokens, ${found.kind === "causal" ? "each told from those before it" : "each hidden in turn"}; rows are layers.`), el("thead", {}, head, bits), el("tbody", {}, rows)));
  cells[0][last].tabIndex = 0;
  box.addEventListener("pointerover", (event) => {
    const cell = at(event);
    if (cell) look(cell);
  });
  box.addEventListener("focusin", (event) => {
    const cell = at(event);
    if (cell) look(cell);
  });
  box.addEventListener("keydown", (event) => {
    const cell = at(event);
    if (!cell || !(event.key in STEPS)) return;
    const [up, along] = STEPS[event.key];
    const next = cells[Number(cell.dataset.token) + along]?.[Number(cell.dataset.at) + up];
    event.preventDefault();
    if (!next) return;
    cell.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  replace(about, inFull(found, found.tokens.length - 1, last));
  return box;
}

/** @param {LogitLens} found */
function summed({ surprisal, kind }) {
  const known = surprisal.filter((bits) => bits !== null);
  const total = known.reduce((sum, bits) => sum + bits, 0);
  const how = kind === "causal" ? "each told from the tokens before it" : "each hidden in turn, a pseudo-likelihood";
  return `${known.length} tokens have ${total.toFixed(1)} bits together, ${(total / (known.length || 1)).toFixed(2)} each: ${how}.`;
}

/**
 * @param {string} model
 * @param {string} text
 * @param {AbortSignal} signal
 */
export async function tokensByLayers(model, text, signal) {
  const found = await post("/behaviour/logit_lens", { model, text, top: TOP }, signal);
  const about = el("div", { class: "in-full", "aria-live": "polite" });
  const ramp = el("div", { class: "legend" }, el("span", {}, "0"), el("span", { class: "scale", style: "background: linear-gradient(to right, var(--scale))" }), el("span", {}, "1"), el("span", { class: "soft" }, "probability of the most likely piece; underlined: it is the token itself; bold: the answer stays from here on"));
  return [el("p", { class: "soft" }, summed(found)), grid(found, about), ramp, about];
}
