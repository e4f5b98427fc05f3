// @ts-check
// The pane that stays: where the chosen heads look, in the sentence or in an example of the corpus.
/** @import { Focus, Links } from "./canvas.js" */
import { post } from "../../shared/api.js";
import { byId, el, input, inside, replace, select, svg, table } from "../../shared/dom.js";
import * as state from "../../shared/state.js";
import { done, wait } from "../../shared/waiting.js";
import { flattened } from "./canvas.js";
import { makeLines, strongest } from "./lines.js";
import { STROKES } from "./style.js";

const ROLLOUT = "rollout"; // all heads of all layers together, in place of a head
const LEAST = 0.05;

/**
 * What came for a sentence at a level: valid for one question.
 * @typedef {{ key: string, tokens: string[], sinks: boolean[], words: number[], links: Map<string, Links>, toSinks: Map<string, number> }} Lines
 * An example of the corpus: its words as they are there, what it is called, and the word that it is about.
 * @typedef {{ words: string[], of: string, focus: { side: Focus["side"], word: number } }} Drawn
 */

/** @type {Lines} */
let lines = { key: "", tokens: [], sinks: [], words: [], links: new Map(), toSinks: new Map() };
/** @type {string[]} */
let chosen = [];
/** @type {Drawn | null} */
let example = null;
/** @type {AbortController | null} */
let asking = null;

export const weights = () => (state.get("weights") === "norm" ? "norm" : "attention");
const level = () => (state.get("level") === "piece" ? "piece" : "word");
const withSinks = () => state.get("sinks") === "1";
const least = () => Math.min(0.5, Math.max(0.01, Number(state.get("least")) || LEAST));
const side = () => state.get("lines") === "side";
const rolled = () => state.get("lines") === ROLLOUT;
const sentence = () => example?.words ?? state.get("sentence");

const drawing = makeLines(byId("lines"), { onFocus: (words) => replace(byId("said"), words) });

/** Shows these heads, the last one being the active one, on the sentence or the example. */
export async function showLines(/** @type {string[]} */ heads) {
  chosen = heads;
  showChips();
  const key = JSON.stringify([state.get("model"), sentence(), level(), weights()]);
  if (lines.key !== key) lines = { key, tokens: [], sinks: [], words: [], links: new Map(), toSinks: new Map() };
  const unknown = (rolled() ? [ROLLOUT] : chosen).filter((head) => !lines.links.has(head));
  asking?.abort();
  if (unknown.length) {
    const control = (asking = new AbortController());
    if (!lines.tokens.length) wait(byId("lines"), { lines: 8 });
    try {
      const answer = await post("/heads/lines", { model: state.get("model"), sentence: sentence(), heads: unknown, level: level(), weights: weights() }, control.signal);
      if (lines.key !== key) return;
      for (const head of answer.heads) {
        lines.links.set(head.head, flattened(head));
        lines.toSinks.set(head.head, head.to_sinks);
      }
      Object.assign(lines, { tokens: answer.tokens, sinks: answer.sinks, words: answer.words });
    } catch (error) {
      if (control.signal.aborted) return;
      throw error;
    } finally {
      done(byId("lines"));
    }
  }
  draw();
}

/**
 * An example of the corpus in place of the sentence, with the lines of the word that it is about; null for the sentence
 * again.
 * @param {Drawn | null} next
 */
export async function showExample(next) {
  example = next;
  const back = el("button", { type: "button", onclick: () => showExample(null) }, "Back to the sentence");
  const take = el("button", { type: "button", onclick: () => adopt() }, "Take it as the sentence");
  replace(byId("on"), next ? [`On ${next.of}: `, back, " ", take] : []);
  await showLines(chosen);
}

/** The example becomes the sentence of all views. */
function adopt() {
  const taken = example?.words.join(" ");
  example = null;
  replace(byId("on"));
  if (taken) state.set({ sentence: taken });
}

function strokedHeads() {
  const heads = (rolled() ? [ROLLOUT] : chosen).flatMap((name, index) => {
    const links = lines.links.get(name);
    return links ? [{ name, links, stroke: STROKES[index] }] : [];
  });
  return { tokens: lines.tokens, sinks: lines.sinks, heads, withSinks: withSinks(), least: least(), side: side(), pinned: pinned() };
}

/** @returns {Focus | null} */
function pinned() {
  const unit = example ? lines.words.indexOf(example.focus.word) : -1;
  return example && unit >= 0 ? { side: example.focus.side, unit } : null;
}

function draw() {
  if (!lines.tokens.length) return;
  drawing.show(strokedHeads());
  showTable();
  const shares = strokedHeads().heads.map(({ name }) => `${Math.round(100 * (lines.toSinks.get(name) ?? 0))} % of ${name}`);
  const first = lines.tokens.find((_, index) => lines.sinks[index] && lines.words[index] >= 0);
  const who = first === undefined ? "special tokens" : `special tokens and the first word (“${first}”)`;
  replace(byId("left-out"), withSinks() ? "" : `Left out, as sinks: attention to ${who}, ${shares.join(", ")}.`);
}

function showTable() {
  replace(byId("least-said"), least().toFixed(2));
  if (!byId("links", HTMLDetailsElement).open) return;
  replace(inside(byId("links"), "div"), table(["head", "from", "to", "weight"], strongest(strokedHeads()), { caption: "Strongest links, positions from 0" }));
}

/** @type {(head: string) => void} */
let remove = () => {};

function showChips() {
  replace(byId("lines-title"), chosen.length > 1 ? "Where they look" : "Where it looks");
  replace(
    byId("chosen"),
    chosen.map((head, index) => {
      const { colour, dash } = STROKES[index];
      const stroke = svg("svg", { width: 34, height: 10, "aria-hidden": "true" }, svg("line", { x1: 0, y1: 5, x2: 34, y2: 5, "stroke-width": 3, style: `stroke: var(${colour})`, "stroke-dasharray": dash.join(" ") }));
      const away = chosen.length > 1 ? el("button", { type: "button", "aria-label": `take ${head} away`, onclick: () => remove(head) }, "×") : null;
      return el("span", { class: "chip", "data-head": head }, stroke, head, away);
    }),
  );
}

function fill() {
  select("level").value = level();
  select("layout").value = rolled() ? ROLLOUT : side() ? "side" : "over";
  input("sinks").checked = withSinks();
  input("least").value = String(least());
}

/**
 * Begins to listen to the pane's own controls.
 * @param {{ onRemove: (head: string) => void }} listeners
 */
export function beginPane({ onRemove }) {
  remove = onRemove;
  fill();
  select("level").addEventListener("change", () => state.set({ level: select("level").value === "word" ? "" : "piece" }));
  select("layout").addEventListener("change", () => state.set({ lines: select("layout").value === "over" ? "" : select("layout").value }));
  input("sinks").addEventListener("change", () => state.set({ sinks: input("sinks").checked ? "1" : "" }));
  input("least").addEventListener("input", () => {
    state.set({ least: input("least").value }, { quiet: true });
    drawing.setLeast(least());
    showTable();
  });
  byId("links").addEventListener("toggle", showTable);
  state.onChange((changed) => {
    fill();
    if ("sentence" in changed || "model" in changed) {
      example = null;
      replace(byId("on"));
    }
  });
}
