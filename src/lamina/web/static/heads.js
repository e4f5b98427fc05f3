// The view Heads: the atlas, the chosen heads' lines on the sentence, and the card of the one chosen last.
import { ask } from "./api.js";
import { attempt, byId, el, replace, say, svg, table } from "./dom.js";
import { described, highest, legend, makeAtlas } from "./heads_atlas.js";
import { flattened } from "./heads_canvas.js";
import { showCard } from "./heads_card.js";
import { makeLines, strongest } from "./heads_lines.js";
import { MOST, short, STROKES } from "./heads_style.js";
import { button, onDone } from "./jobs.js";
import { ready } from "./page.js";
import * as state from "./state.js";

const FAR = "sentence.reach"; // what a first visit shows where no head was scored on dependencies
const LEAST = 0.05;
const TALL = 14; // layers of an atlas beside which the lines stand, not below
const SOURCES = { sentence: "On this sentence", attention: "On a corpus (attention)", heads: "Dependencies (heads)", corefheads: "Coreference (corefheads)", headmap: "Map of heads (headmap)" };
const JOBS = { attention: "Measure attention", heads: "Score heads on dependencies", headmap: "Draw the map of heads" };

let atlas = null; // the newest answer
let chosen = []; // heads, the active one last
let lines = { tokens: [], special: [], links: new Map() }; // what came for this sentence at this level

const keyOf = (measure) => `${measure.source}.${measure.name}`;
const model = () => state.get("model");
const sentence = () => state.get("sentence");
const level = () => (state.get("level") === "piece" ? "piece" : "word");
const withSpecial = () => state.get("special") !== "0";
const least = () => Math.min(0.5, Math.max(0.01, Number(state.get("least")) || LEAST));
const side = () => state.get("lines") === "side";
const measure = () => {
  const named = (key) => atlas.measures.find((each) => keyOf(each) === key);
  return named(state.get("measure")) ?? first() ?? named(FAR);
};

// What a first visit shows: the relation for which one head leads the simple rule by most.
function first() {
  const lead = (each) => each.high - each.baseline;
  const scored = atlas.measures.filter((each) => each.source === "heads" && each.high !== null && each.baseline !== null);
  return scored.reduce((best, each) => (best === null || lead(each) > lead(best) ? each : best), null);
}

const grid = makeAtlas(byId("atlas"), { onChoose: choose, onLook: (head) => replace(byId("readout"), described(measure(), head)) });
const drawing = makeLines(byId("lines"), { onFocus: (words) => replace(byId("said"), words) });

const exists = (head) => {
  const [layer, place] = /^\d+-\d+$/.test(head) ? head.split("-").map(Number) : [0, 0];
  return layer >= 1 && layer <= atlas.layers && place >= 1 && place <= atlas.heads;
};

async function load() {
  await attempt("looking at all heads …", async () => {
    const answer = await ask("/heads/atlas", { model: model(), sentence: sentence() });
    if (answer === null) return;
    atlas = answer;
    lines = { tokens: [], special: [], links: new Map() };
    const asked = state.getAll("head");
    chosen = [...new Set(asked)].filter(exists).slice(0, MOST);
    if (asked.length > chosen.length) say(`${model()} has layers 1 to ${atlas.layers} with heads 1 to ${atlas.heads}; other heads are left out`);
    if (!chosen.length) chosen = [highest(measure()) ?? atlas.outstanding.at(-1)?.head ?? "1-1"];
    byId("several").checked ||= chosen.length > 1;
    if (atlas.layers > TALL) byId("right").prepend(byId("looking"));
    else byId("left").append(byId("looking"));
    showMeasures();
    showAtlas();
    showMissing();
    await showHeads();
  });
}

function showMeasures() {
  const options = Object.entries(SOURCES).map(([source, label]) => {
    const own = atlas.measures.filter((each) => each.source === source);
    return own.length ? el("optgroup", { label }, own.map((each) => el("option", { value: keyOf(each) }, each.title))) : [];
  });
  replace(byId("measure"), options);
  byId("measure").value = keyOf(measure());
  const out = atlas.outstanding.map(({ head, why, value }) => headButton(head, ` ${why} ${short(value)}`));
  replace(byId("outstanding"), out.length ? [el("span", { class: "soft" }, "Stand out on this sentence: "), ...out] : []);
}

function headButton(head, said) {
  return el("button", { type: "button", "data-head": head, onclick: (event) => choose(head, event.shiftKey || event.ctrlKey) }, el("strong", {}, head), said);
}

function showAtlas() {
  grid.show(measure(), atlas.layers, atlas.heads);
  grid.mark(chosen);
  legend(byId("legend"), measure());
  const top = highest(measure());
  replace(byId("readout"), top ? `The most: ${described(measure(), top)}` : "");
}

function showMissing() {
  const missing = atlas.missing.filter((name) => name in JOBS);
  const box = byId("missing");
  if (!missing.length) return replace(box);
  replace(
    box,
    el("p", {}, `No saved result of ${model()} from: ${missing.join(", ")}. Computing takes minutes, in the background:`),
    el("div", { class: "words" }, missing.map((name) => button(JOBS[name], () => ({ analysis: name, model: model() })))),
  );
}

// One click chooses, with "several" it adds or takes away.
function choose(head, add = false) {
  if (!add && !byId("several").checked) chosen = [head];
  else if (chosen.includes(head) && chosen.length > 1) chosen = chosen.filter((each) => each !== head);
  else if (!chosen.includes(head) && chosen.length >= MOST) return say(`${MOST} heads are shown at once; take one away first`, { wrong: true });
  else chosen = [...chosen.filter((each) => each !== head), head];
  byId("several").checked ||= chosen.length > 1;
  attempt("looking at the head …", showHeads);
}

// From the card one walks on: the active head gives way.
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
  const unknown = chosen.filter((head) => !lines.links.has(head));
  if (unknown.length) {
    const answer = await ask("/heads/lines", { model: model(), sentence: sentence(), heads: unknown, level: level() });
    if (answer === null) return;
    for (const head of answer.heads) lines.links.set(head.head, flattened(head));
    Object.assign(lines, { tokens: answer.tokens, special: answer.special });
  }
  showLines();
}

function shown() {
  const heads = chosen.filter((head) => lines.links.has(head)).map((name) => ({ name, links: lines.links.get(name), stroke: STROKES[chosen.indexOf(name)] }));
  return { tokens: lines.tokens, special: lines.special, heads, withSpecial: withSpecial(), least: least(), side: side() };
}

function showLines() {
  if (!lines.tokens.length) return;
  drawing.show(shown());
  showTable();
}

function showTable() {
  replace(byId("least-said"), least().toFixed(2));
  if (!byId("links").open) return;
  replace(byId("links").lastElementChild, table(["head", "from", "to", "weight"], strongest(shown()), { caption: "Strongest links, positions from 0" }));
}

async function loadCard() {
  const head = chosen.at(-1);
  const card = await ask("/heads/card", { model: model(), head });
  if (card === null) return;
  replace(byId("card-title"), `Head ${head}`, el("span", { class: "soft" }, ` layer ${head.replace("-", ", head ")}`));
  const live = atlas.measures.filter((each) => each.source === "sentence");
  showCard(byId("card"), card, live, move);
}

function begin() {
  byId("level").value = level();
  byId("layout").value = side() ? "side" : "over";
  byId("special").checked = withSpecial();
  byId("least").value = least();
  byId("measure").addEventListener("change", () => {
    state.set({ measure: byId("measure").value }, { quiet: true });
    showAtlas();
  });
  byId("level").addEventListener("change", () => {
    state.set({ level: byId("level").value }, { quiet: true });
    lines = { tokens: [], special: [], links: new Map() };
    attempt("looking at the heads …", loadLines);
  });
  byId("layout").addEventListener("change", () => {
    state.set({ lines: byId("layout").value === "side" ? "side" : "" }, { quiet: true });
    showLines();
  });
  byId("special").addEventListener("change", () => {
    state.set({ special: byId("special").checked ? "" : "0" }, { quiet: true });
    showLines();
  });
  byId("least").addEventListener("input", () => {
    state.set({ least: byId("least").value }, { quiet: true });
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
