// @ts-check
// Any number of models beside a pinned one: shared scales, differences with intervals, and what cannot be compared.
/** @import { ModelComparison, TaskLayer } from "../../shared/api_types.js" */
import { asInReport } from "../../shared/analyses.js";
import { post, read } from "../../shared/api.js";
import { draw, figure } from "../../shared/charts.js";
import { byId, el, replace, select, table } from "../../shared/dom.js";
import { listed } from "../../shared/findings.js";
import { button, onDone } from "../../shared/jobs.js";
import { ready } from "../../shared/page.js";
import * as state from "../../shared/state.js";
import { onScheme } from "../../shared/theme.js";
import { load } from "../../shared/waiting.js";
import { beliefs } from "./beliefs.js";
import { showHeads } from "./heads.js";
import { inside } from "./inside.js";
import { showScores } from "./matrix.js";
import { missing, unsettled } from "./missing.js";
import { offers, picked, showPicker } from "./picker.js";

const DIFF_TEXTS = 300; // enough for narrow intervals, and about a minute for a small model
const PAUSE = 2000; // between two looks at estimates that are being made
const ALONE = "Pick another model above: a comparison needs two.";

/** @type {ModelComparison | null} */
let response = null;
/** @type {{ names: string[], atlases: import("../../shared/api_types.js").HeadAtlas[] } | null} */
let seen = null;

/** Who can be compared, and then everything about those who are. */
async function all() {
  const there = await load(byId("models"), async (signal) => {
    const offered = await offers(signal);
    showPicker(byId("models"), offered);
  }, { saying: "Reading the models and their results …" });
  if (there) await everything();
}

async function everything() {
  const names = picked();
  if (names.length < 2) {
    clearTimeout(timer);
    response = seen = null;
    for (const id of ["scores", "atlases", "beliefs", "measured", "changed", "not"]) await load(byId(id), async () => el("p", {}, ALONE));
    for (const id of ["lacking", "differences", "heads-legend", "heads-about"]) replace(byId(id));
    return;
  }
  lacking(names);
  await Promise.all([measured(names), sentence(names)]);
  heads();
}

/** @type {number | undefined} */
let timer;

/** What is missing; estimates come one after another. @param {string[]} names */
async function lacking(names) {
  clearTimeout(timer);
  const all = await post("/compare/missing", { models: names }).catch(() => null);
  if (!all || names.join() !== picked().join()) return;
  const box = byId("lacking");
  if (!box.contains(document.activeElement) && !box.querySelector(".job-step")) replace(box, missing(all));
  if (unsettled(all)) timer = setTimeout(() => lacking(names), PAUSE);
}

/** @param {string[]} names */
async function measured(names) {
  response = null;
  const boxes = ["measured", "changed", "not"].map((id) => byId(id));
  for (const box of boxes) load(box, () => new Promise(() => {}), { lines: 4 });
  await load(byId("scores"), async (signal) => {
    const answer = await post("/compare", { models: names }, signal);
    response = answer;
    load(byId("measured"), async () => byLayer(answer));
    load(byId("changed"), () => alike(answer));
    load(byId("not"), async () => notCompared(answer));
    return scores(answer);
  }, { lines: 8, saying: "Reading the results of the models …" });
}

/** @param {ModelComparison} answer */
const scores = (answer) => [listed(answer.findings), ...[showScores(answer)].flat()];

/** @param {string[]} names */
async function sentence(names) {
  seen = null;
  const requests = names.map((model) => ({ model, sentence: state.get("sentence") }));
  replace(byId("differences"));
  replace(byId("heads-legend"));
  await load(byId("atlases"), async (signal) => {
    seen = { names, atlases: await Promise.all(requests.map((body) => post("/heads/atlas", body, signal))) };
  }, { lines: 10 });
  load(byId("beliefs"), async (signal) => beliefs(names, await Promise.all(requests.map((body) => post("/lens", body, signal)))));
}

function heads() {
  if (seen && response && response.models.join() === seen.names.join()) showHeads(seen.names, seen.atlases, response);
}

/** @param {TaskLayer[]} layers */
function whereToRead(layers) {
  if (!layers.length) return null;
  const number = (/** @type {number} */ value) => value.toFixed(3);
  const rows = layers.map(({ task, model, layer, value, low, high, among_best }) => [task, model, layer, `${number(value)} [${number(low)}, ${number(high)}]`, among_best ? "yes" : "no"]);
  return el("details", {}, el("summary", {}, "Which layer of which model for which task"), table(["task", "model", "layer", "score", "can be the best"], rows, { caption: "The best layer of each model" }));
}

/** @param {ModelComparison} answer */
function byLayer(answer) {
  const chart = (/** @type {ModelComparison["figures"][number]} */ chart) => {
    const box = el("div", { class: "box" });
    queueMicrotask(() => draw(box, chart.spec, { summary: chart.summary }));
    return el("figure", {}, box, el("figcaption", {}, chart.caption || chart.summary));
  };
  /** A chart is drawn when it is in sight. @param {string} title @param {ModelComparison["figures"]} figures @param {boolean} open */
  const section = (title, figures, open) => {
    const details = el("details", { open }, el("summary", {}, title));
    const fill = () => details.open && details.children.length === 1 && details.append(...figures.map(chart));
    details.addEventListener("toggle", fill);
    return details;
  };
  const curves = answer.curves.map(({ title, figure: chart }, index) => section(title, [chart], index === 0));
  if (answer.figures.length) curves.push(section("Probing, as lamina compare draws it", answer.figures, false));
  return [curves.length ? null : el("p", {}, "No analysis by layer was run alike for two of these models."), ...curves, whereToRead(answer.layers)];
}

/** @param {ModelComparison} answer */
function notCompared(answer) {
  if (!answer.not_compared.length) return el("p", {}, "Everything that two of these models have was compared.");
  return el("ul", {}, answer.not_compared.map(({ what, why }) => el("li", {}, what ? `${what}: ${why}.` : `${why}.`)));
}

/** @param {ModelComparison} answer */
async function alike(answer) {
  const [one, other] = answer.models;
  const corresponding = el("div", { "aria-busy": "true" });
  load(corresponding, async (signal) => inside(await post("/compare/correspondence", { models: [one, other] }, signal), [one, other]), { lines: 8 });
  return [corresponding, ...(await fineTuned(answer))];
}

/** What fine-tuning changed, of two models of one shape. @param {ModelComparison} answer */
async function fineTuned({ diff, models: [model, other], shapes: [[blocks], [others]], by_head }) {
  if (diff) {
    const result = await read(`/results/${diff.id}`);
    return [listed(result.findings), ...result.figures.map((chart) => figure(result, chart))];
  }
  // Only where one model started from the other is there something that changed.
  if ([model, other].some((name) => name.endsWith(" (random)")) || blocks !== others || !by_head.includes(other)) return [];
  const compute = button("Compute what fine-tuning changed (about a minute)", () => asInReport("diff", { model, other, data: { limit: DIFF_TEXTS } }));
  return [el("h3", {}, "What fine-tuning changed"), el("p", {}, `Not computed yet for ${model} and ${other}. `), compute];
}

await ready;
state.onChange((changed) => {
  if ("model" in changed || "with" in changed || "baseline" in changed) all();
  else if ("sentence" in changed) sentence(picked()).then(heads);
  else if ("measure" in changed) {
    heads();
    select("measure").value = state.get("measure") || select("measure").value;
  }
});
onDone(all);
onScheme(() => response && replace(byId("scores"), scores(response)));
await all();
