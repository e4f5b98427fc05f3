// @ts-check
// The view Heads: the atlas, the chosen heads' lines on the sentence, and the card of the one chosen last.
/** @import { AnalysisCard, Atlas, Measure } from "../../shared/api_types.js" */
/** @import { Links } from "./canvas.js" */
import { analyses, asInReport } from "../../shared/analyses.js";
import { ask } from "../../shared/api.js";
import { attempt, byId, el, input, inside, replace, say, select, svg, table } from "../../shared/dom.js";
import { described, highest, legend, makeAtlas } from "./atlas.js";
import { flattened } from "./canvas.js";
import { showCard } from "./card.js";
import { makeLines, strongest } from "./lines.js";
import { MOST, short, STROKES } from "./style.js";
import { button, onDone } from "../../shared/jobs.js";
import { ready } from "../../shared/page.js";
import * as state from "../../shared/state.js";

const FAR = "sentence.reach"; // what a first visit shows where no head was scored on dependencies
const ROLLOUT = "rollout"; // all heads of all layers together, in place of a head
const LEAST = 0.05;
const TALL = 14; // layers of an atlas beside which the lines stand, not below

/**
 * What came for this sentence at this level.
 * @typedef {{ tokens: string[], special: boolean[], links: Map<string, Links> }} Lines
 * @returns {Lines}
 */
const noLines = () => ({ tokens: [], special: [], links: new Map() });

/** @type {Atlas} */
let atlas = { layers: 0, heads: 0, tokens: 0, measures: [], groups: [], outstanding: [], sources: [], missing: [] }; // the newest answer
/** @type {AnalysisCard[]} */
let known = [];
/** @type {string[]} */
let chosen = []; // heads, the active one last
let lines = noLines();

const keyOf = (/** @type {Measure} */ measure) => `${measure.source}.${measure.name}`;
const model = () => state.get("model");
const sentence = () => state.get("sentence");
const level = () => (state.get("level") === "piece" ? "piece" : "word");
const withSpecial = () => state.get("special") !== "0";
const least = () => Math.min(0.5, Math.max(0.01, Number(state.get("least")) || LEAST));
const side = () => state.get("lines") === "side";
const rolled = () => state.get("lines") === ROLLOUT;
const weights = () => (state.get("weights") === "norm" ? "norm" : "attention");
const measure = () => {
  const named = (/** @type {string} */ key) => atlas.measures.find((each) => keyOf(each) === key);
  return named(state.get("measure")) ?? first() ?? named(FAR) ?? atlas.measures[0];
};

// What a first visit shows: the relation for which one head leads the simple rule by most.
function first() {
  const lead = (/** @type {Measure} */ { high, baseline }) => (high === null || baseline === null ? -Infinity : high - baseline);
  const scored = atlas.measures.filter((each) => each.source === "heads" && lead(each) > -Infinity);
  return scored.toSorted((one, other) => lead(other) - lead(one))[0];
}

const grid = makeAtlas(byId("atlas"), { onChoose: choose, onLook: (head) => replace(byId("readout"), described(measure(), head)) });
const drawing = makeLines(byId("lines"), { onFocus: (words) => replace(byId("said"), words) });

const exists = (/** @type {string} */ head) => {
  const [layer, place] = /^\d+-\d+$/.test(head) ? head.split("-").map(Number) : [0, 0];
  return layer >= 1 && layer <= atlas.layers && place >= 1 && place <= atlas.heads;
};

async function load() {
  await attempt("looking at all heads …", async () => {
    const answer = await ask("/heads/atlas", { model: model(), sentence: sentence(), weights: weights() });
    if (answer === null) return;
    atlas = answer;
    known = await analyses();
    lines = noLines();
    const asked = state.getAll("head");
    chosen = [...new Set(asked)].filter(exists).slice(0, MOST);
    if (asked.length > chosen.length) say(`${model()} has layers 1 to ${atlas.layers} with heads 1 to ${atlas.heads}; other heads are left out`);
    if (!chosen.length) chosen = [highest(measure()) ?? atlas.outstanding.at(-1)?.head ?? "1-1"];
    input("several").checked ||= chosen.length > 1;
    if (atlas.layers > TALL) byId("right").prepend(byId("looking"));
    else byId("left").append(byId("looking"));
    showMeasures();
    showAtlas();
    showMissing();
    await showHeads();
  });
}

function showMeasures() {
  const options = atlas.groups.map(({ source, title }) => {
    const own = atlas.measures.filter((each) => each.source === source);
    return el("optgroup", { label: title }, own.map((each) => el("option", { value: keyOf(each) }, each.title)));
  });
  replace(byId("measure"), options);
  select("measure").value = keyOf(measure());
  const out = atlas.outstanding.map(({ head, why, value }) => headButton(head, ` ${why} ${short(value)}`));
  replace(byId("outstanding"), out.length ? [el("span", { class: "soft" }, "Stand out on this sentence: "), ...out] : []);
}

/**
 * @param {string} head
 * @param {string} said
 */
function headButton(head, said) {
  return el("button", { type: "button", "data-head": head, onclick: (event) => choose(head, event.shiftKey || event.ctrlKey) }, el("strong", {}, head), said);
}

function showAtlas() {
  grid.show(measure(), atlas.layers, atlas.heads);
  grid.mark(chosen);
  legend(byId("legend"), measure());
  const top = highest(measure());
  replace(byId("readout"), top ? `Highest: ${described(measure(), top)}` : "");
}

function showMissing() {
  // What a report asks of any corpus can be asked of the server's own.
  const missing = known.filter(({ name, job, report }) => atlas.missing.includes(name) && job && report !== null);
  const box = byId("missing");
  if (!missing.length) return replace(box);
  replace(
    box,
    el("p", {}, `Not computed yet for ${model()}; it takes minutes, in the background:`),
    el("div", { class: "words" }, missing.map(({ name, title }) => button(title, () => job(name)))),
  );
}

/**
 * As a report asks it, over the maps that are shown.
 * @param {string} name
 */
async function job(name) {
  const wanted = await asInReport(name, { model: model() });
  return { ...wanted, settings: { ...wanted.settings, weights: weights() } };
}

/**
 * One click chooses, with "several" it adds or takes away.
 * @param {string} head
 */
function choose(head, add = false) {
  if (!add && !input("several").checked) chosen = [head];
  else if (chosen.includes(head) && chosen.length > 1) chosen = chosen.filter((each) => each !== head);
  else if (!chosen.includes(head) && chosen.length >= MOST) return say(`${MOST} heads are shown at once; remove one first`, { wrong: true });
  else chosen = [...chosen.filter((each) => each !== head), head];
  input("several").checked ||= chosen.length > 1;
  attempt("looking at the head …", showHeads);
}

/**
 * From the card one walks on: the active head gives way.
 * @param {string} head
 */
function move(head) {
  chosen = [...chosen.slice(0, -1).filter((each) => each !== head), head];
  attempt("looking at the head …", showHeads);
}

async function showHeads() {
  state.set({ head: chosen }, { quiet: true });
  grid.mark(chosen);
  showChosen();
  await Promise.all([loadLines(), loadCard()]);
}

function showChosen() {
  const chips = chosen.map((head, at) => {
    const { colour, dash } = STROKES[at];
    const stroke = svg("svg", { width: 34, height: 10, "aria-hidden": "true" }, svg("line", { x1: 0, y1: 5, x2: 34, y2: 5, "stroke-width": 3, style: `stroke: var(${colour})`, "stroke-dasharray": dash.join(" ") }));
    const away = chosen.length > 1 ? el("button", { type: "button", "aria-label": `take ${head} away`, onclick: () => choose(head, true) }, "×") : null;
    return el("span", { class: "chip", "data-head": head }, stroke, head, away);
  });
  replace(byId("chosen"), chips);
}

async function loadLines() {
  const unknown = (rolled() ? [ROLLOUT] : chosen).filter((head) => !lines.links.has(head));
  if (unknown.length) {
    const answer = await ask("/heads/lines", { model: model(), sentence: sentence(), heads: unknown, level: level(), weights: weights() });
    if (answer === null) return;
    for (const head of answer.heads) lines.links.set(head.head, flattened(head));
    Object.assign(lines, { tokens: answer.tokens, special: answer.special });
  }
  showLines();
}

function shown() {
  const heads = (rolled() ? [ROLLOUT] : chosen).flatMap((name, at) => {
    const links = lines.links.get(name);
    return links ? [{ name, links, stroke: STROKES[at] }] : [];
  });
  return { tokens: lines.tokens, special: lines.special, heads, withSpecial: withSpecial(), least: least(), side: side() };
}

function showLines() {
  if (!lines.tokens.length) return;
  drawing.show(shown());
  showTable();
}

function showTable() {
  replace(byId("least-said"), least().toFixed(2));
  if (!byId("links", HTMLDetailsElement).open) return;
  replace(inside(byId("links"), "div"), table(["head", "from", "to", "weight"], strongest(shown()), { caption: "Strongest links, positions from 0" }));
}

async function loadCard() {
  const head = chosen[chosen.length - 1];
  const card = await ask("/heads/card", { model: model(), head, weights: weights() });
  if (card === null) return;
  replace(byId("card-title"), `Head ${head}`, el("span", { class: "soft" }, ` layer ${head.replace("-", ", head ")}`));
  const live = atlas.measures.filter((each) => each.source === "sentence");
  showCard(byId("card"), card, live, move);
}

function begin() {
  const [measures, held, levels, layout] = ["measure", "weights", "level", "layout"].map(select);
  const [special, threshold] = ["special", "least"].map(input);
  levels.value = level();
  held.value = weights();
  layout.value = rolled() ? ROLLOUT : side() ? "side" : "over";
  special.checked = withSpecial();
  threshold.value = String(least());
  measures.addEventListener("change", () => {
    state.set({ measure: measures.value }, { quiet: true });
    showAtlas();
  });
  held.addEventListener("change", () => state.set({ weights: held.value === "norm" ? "norm" : "" }));
  levels.addEventListener("change", () => {
    state.set({ level: levels.value }, { quiet: true });
    lines = noLines();
    attempt("looking at the heads …", loadLines);
  });
  layout.addEventListener("change", () => {
    state.set({ lines: layout.value === "over" ? "" : layout.value }, { quiet: true });
    attempt("looking at the heads …", loadLines);
  });
  special.addEventListener("change", () => {
    state.set({ special: special.checked ? "" : "0" }, { quiet: true });
    showLines();
  });
  threshold.addEventListener("input", () => {
    state.set({ least: threshold.value }, { quiet: true });
    drawing.setLeast(least());
    showTable();
  });
  byId("links").addEventListener("toggle", showTable);
  state.onChange(load);
  onDone(load);
}

await ready;
begin();
await load();
