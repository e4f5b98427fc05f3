// @ts-check
// All heads on the sentence: the atlas, the pane with the chosen heads' lines, and what is known of the one chosen last.
/** @import { AnalysisCard, HeadAtlas, HeadExamplesRequest, HeadMeasure, HeadRequest } from "../../shared/api_types.js" */
import { analyses, asInReport } from "../../shared/analyses.js";
import { post } from "../../shared/api.js";
import { attempt, byId, el, input, replace, say, select } from "../../shared/dom.js";
import { button, onDone } from "../../shared/jobs.js";
import { ready } from "../../shared/page.js";
import { short } from "../../shared/scales.js";
import * as state from "../../shared/state.js";
import { done, load as filled, wait } from "../../shared/waiting.js";
import { makeAtlas } from "./atlas.js";
import { showCard } from "./card.js";
import { explanation } from "./evidence.js";
import { examples } from "./examples.js";
import { described, legend, telling } from "./measures.js";
import { beginPane, showExample, showLines, weights } from "./pane.js";
import { MOST } from "./style.js";

const ROLE = "headmap.role"; // what a first visit shows ...
const FAR = "sentence.reach"; // ... and where heads have no roles yet

/** @type {HeadAtlas} */
let atlas = { layers: 0, heads: 0, tokens: 0, measures: [], groups: [], outstanding: [], sources: [], missing: [] }; // the newest answer
/** @type {AnalysisCard[]} */
let known = [];
/** @type {string[]} */
let chosen = []; // heads, the active one last
/** @type {AbortController | null} */
let asking = null;
let sought = ""; // the relation that examples are of

const keyOf = (/** @type {HeadMeasure} */ measure) => `${measure.source}.${measure.name}`;
const model = () => state.get("model");

const measure = () => {
  const named = (/** @type {string} */ key) => atlas.measures.find((measure) => keyOf(measure) === key);
  return named(state.get("measure")) ?? named(ROLE) ?? named(FAR) ?? atlas.measures[0];
};

const grid = makeAtlas(byId("atlas"), { label: "Heads: rows are layers, columns are heads", onChoose: choose, onLook: (head) => replace(byId("readout"), described(measure(), head)) });

const exists = (/** @type {string} */ head) => {
  const [layer, place] = /^\d+-\d+$/.test(head) ? head.split("-").map(Number) : [0, 0];
  return layer >= 1 && layer <= atlas.layers && place >= 1 && place <= atlas.heads;
};

/** The atlas of this model and sentence, and then the heads. */
async function load() {
  asking?.abort();
  const control = (asking = new AbortController());
  await attempt("looking at all heads …", async () => {
    try {
      atlas = await post("/heads/atlas", { model: model(), sentence: state.get("sentence"), weights: weights() }, control.signal);
    } catch (error) {
      if (control.signal.aborted) return;
      for (const id of ["atlas", "card", "lines"]) done(byId(id)); // nothing comes
      throw error;
    }
    known = await analyses();
    showMeasures();
    showAtlas();
    showMissing();
    done(byId("atlas"));
    await pick();
  });
}

/** The heads of the address; where it has none, a telling one. */
async function pick() {
  const wanted = state.getAll("head");
  chosen = [...new Set(wanted)].filter(exists).slice(0, MOST);
  if (wanted.length > chosen.length) say(`${model()} has layers 1 to ${atlas.layers} with heads 1 to ${atlas.heads}; other heads are left out`);
  if (!chosen.length) chosen = [telling(measure()) ?? atlas.outstanding.at(-1)?.head ?? "1-1"];
  input("several").checked ||= chosen.length > 1;
  await showHeads();
}

function showMeasures() {
  const options = atlas.groups.map(({ source, title }) => {
    const measures = atlas.measures.filter((measure) => measure.source === source);
    return el("optgroup", { label: title }, measures.map((measure) => el("option", { value: keyOf(measure) }, measure.title)));
  });
  replace(byId("measure"), options);
  const out = atlas.outstanding.map(({ head, why, value }) => headButton(head, ` ${why} ${short(value)}`));
  replace(byId("outstanding"), out.length ? [el("span", { class: "soft" }, "Stand out on this sentence: "), ...out] : []);
}

/**
 * @param {string} head
 * @param {string} label
 */
function headButton(head, label) {
  return el("button", { type: "button", "data-head": head, onclick: (event) => choose(head, event.shiftKey || event.ctrlKey) }, el("strong", {}, head), label);
}

function showAtlas() {
  select("measure").value = keyOf(measure());
  select("weights").value = weights();
  grid.show(measure());
  grid.mark(chosen);
  legend(byId("legend"), measure());
  const top = measure().names.length ? null : telling(measure());
  replace(byId("readout"), top ? `Highest: ${described(measure(), top)}` : "");
}

/**
 * A button for an analysis that the server can run with a report's settings; null where it cannot.
 * @param {string} name
 */
function computing(name) {
  const card = known.find((card) => card.name === name && card.job && card.report !== null);
  return card ? button(card.title, () => job(name)) : null;
}

function showMissing() {
  const missing = atlas.missing.map(computing).filter((item) => item !== null);
  replace(byId("missing"), missing.length ? [el("p", {}, `Not computed yet for ${model()}; it takes minutes, in the background:`), el("div", { class: "words" }, missing)] : []);
}

/**
 * As a report asks it, over the maps that are shown.
 * @param {string} name
 */
async function job(name) {
  const wanted = await asInReport(name, { model: model() });
  const settings = known.find((card) => card.name === name)?.settings.properties ?? {};
  return "weights" in settings ? { ...wanted, settings: { ...wanted.settings, weights: weights() } } : wanted;
}

/**
 * One click chooses, with "several" it adds or takes away.
 * @param {string} head
 */
function choose(head, add = false) {
  let next = [...chosen.filter((other) => other !== head), head];
  if (!add && !input("several").checked) next = [head];
  else if (chosen.includes(head) && chosen.length > 1) next = chosen.filter((other) => other !== head);
  else if (!chosen.includes(head) && chosen.length >= MOST) return say(`${MOST} heads are shown at once; remove one first`, { wrong: true });
  state.set({ head: next });
}

/**
 * From its page one walks on: the active head gives way.
 * @param {string} head
 */
const move = (head) => state.set({ head: [...chosen.slice(0, -1).filter((other) => other !== head), head] });

async function showHeads() {
  grid.mark(chosen);
  await Promise.all([showLines(chosen), showPage()]);
}

/** The page of the active head; examples may take seconds and come last. */
async function showPage() {
  const head = chosen[chosen.length - 1];
  /** @type {HeadRequest} */
  const request = { model: model(), head, weights: weights() };
  replace(byId("card-title"), `Head ${head}`, el("span", { class: "soft" }, ` layer ${head.replace("-", ", head ")}`));
  replace(byId("more"));
  await filled(byId("card"), async (signal) => {
    const card = await post("/heads/card", request, signal);
    const live = atlas.measures.filter((measure) => measure.source === "sentence");
    const rest = el("div");
    showCard(rest, card, live, move);
    replace(byId("more"), el("details", { class: "all" }, el("summary", {}, "All that was measured of it"), rest));
    return explanation(card, (needs) => needs.map(computing).find((item) => item !== null) ?? el("span", {}, "To know, run ", el("code", {}, `lamina ${needs[0]} ${model()}`), "."));
  }, { lines: 6 });
  showExamples();
}

/** The relation that the atlas is coloured by: heads are asked for it, and otherwise for what they are known for. */
const relation = () => (measure().source === "heads" ? measure().name : "");

async function showExamples() {
  sought = relation();
  /** @type {HeadExamplesRequest} */
  const request = { model: model(), head: chosen[chosen.length - 1], weights: weights(), relation: sought };
  const first = `Looking through the corpus with all heads of ${model()}: a few seconds, once${sought ? ` for ${sought}` : ""}.`;
  await filled(byId("examples"), async (signal) => examples(await post("/heads/examples", request, signal), (drawn) => attempt("drawing the example …", () => showExample(drawn))), { lines: 5, saying: first });
}

let begun = false;

/** Nothing is requested before this view is opened: all heads of a large model take seconds. */
function begin() {
  if (begun) return;
  begun = true;
  byId("atlas").setAttribute("aria-busy", "true"); // it has its grid already
  for (const id of ["card", "lines"]) wait(byId(id), { lines: 8 });
  ready.then(load);
}

/** Once all heads are there: to be in sight before would push them away from under somebody's eyes. */
const arrived = () =>
  new Promise((/** @type {(value?: unknown) => void} */ seen) => {
    const heads = byId("heads");
    const look = () => {
      if (heads.querySelector('[data-later], [aria-busy="true"]:not([data-slow])')) return;
      observer.disconnect();
      seen();
    };
    const observer = new MutationObserver(look);
    observer.observe(heads, { subtree: true, childList: true, attributeFilter: ["aria-busy", "data-later"] });
    look();
  });

/** From a link to the heads: they are asked for at once, and come in sight unless somebody has moved on meanwhile. */
async function arrive() {
  if (location.hash !== "#heads") return;
  let moved = false;
  for (const kind of ["wheel", "touchmove", "keydown"]) addEventListener(kind, () => (moved = true), { once: true, passive: true });
  begin();
  await arrived();
  if (!moved) byId("heads").scrollIntoView();
}

const coming = new IntersectionObserver((seen) => {
  if (!seen.some(({ isIntersecting }) => isIntersecting)) return;
  coming.disconnect();
  begin();
}, { rootMargin: "300px" });
arrive();
addEventListener("hashchange", arrive);
await ready;
coming.observe(byId("heads"));
beginPane({ onRemove: (head) => choose(head, true) });
select("measure").addEventListener("change", () => state.set({ measure: select("measure").value }));
select("weights").addEventListener("change", () => state.set({ weights: select("weights").value === "norm" ? "norm" : "" }));
state.onChange((changed) => {
  if (!begun) return;
  if ("model" in changed || "sentence" in changed || "weights" in changed) load();
  else if ("head" in changed) attempt("looking at the head …", pick);
  else if ("level" in changed || "lines" in changed || "sinks" in changed) attempt("looking at the head …", () => showLines(chosen));
  if ("measure" in changed && atlas.measures.length) {
    showAtlas();
    if (chosen.length && relation() !== sought) showExamples();
  }
});
onDone(() => begun && load());
