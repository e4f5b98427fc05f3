// @ts-check
// Several models, the same views, and the differences.
/** @import { About, Beside, Comparison, ReadAt, Summary } from "../../shared/api_types.js" */
import { asInReport } from "../../shared/analyses.js";
import { ask, post, read } from "../../shared/api.js";
import { draw, figure } from "../../shared/charts.js";
import { attempt, byId, el, replace, select, table } from "../../shared/dom.js";
import { listed } from "../../shared/findings.js";
import { button, onDone } from "../../shared/jobs.js";
import { ready } from "../../shared/page.js";
import * as state from "../../shared/state.js";
import { showBeliefs, showHeads } from "./sentence.js";

const DIFF_TEXTS = 300; // enough for narrow intervals, and about a minute for a small model

const MOST_FURTHER = 4; // six models can be told apart in print; the server takes no more

const two = () => ({ model: state.get("model"), other: state.get("other") });

// What is chosen above is not chosen again below.
const further = () => state.getAll("further").filter((name) => !Object.values(two()).includes(name)).slice(0, MOST_FURTHER);

/** @param {About} about */
function offerOthers(about) {
  const others = select("other");
  replace(others, about.models.map(({ name, title }) => el("option", { value: name }, title)));
  // A model beside itself shows nothing: the first other one, where there is one.
  const other = about.models.find(({ name }) => name !== state.get("model"))?.name ?? state.get("model");
  others.value = state.get("other", other);
  if (!others.value) others.value = other;
  state.set({ other: others.value }, { quiet: true });
  others.addEventListener("change", () => state.set({ other: others.value }));
  byId("more").toggleAttribute("open", further().length > 0);
}

/** @param {About} about */
function offerFurther(about) {
  const chosen = further();
  const left = about.models.filter(({ name }) => !Object.values(two()).includes(name));
  const boxes = left.map(({ name, title }) => {
    const checked = chosen.includes(name);
    const change = () => state.set({ further: checked ? chosen.filter((each) => each !== name) : [...chosen, name] });
    const box = el("input", { type: "checkbox", name: "further", value: name, checked, disabled: !checked && chosen.length >= MOST_FURTHER, onchange: change });
    return el("label", {}, box, ` ${title}`);
  });
  replace(byId("further"), boxes.length ? boxes : el("p", { class: "soft" }, "This server has no further models; they are named when it is started, with --model."));
}

async function sentence() {
  const { model, other } = two();
  const asked = [model, other].map((name) => ({ model: name, sentence: state.get("sentence") }));
  await attempt("Reading the sentence with both models", async () => {
    const lenses = await Promise.all(asked.map((body, side) => ask("/lens", body, `lens${side}`)));
    if (lenses.every((lens) => lens !== null)) showBeliefs(byId("beliefs"), [model, other], lenses);
    const atlases = await Promise.all(asked.map((body, side) => ask("/heads/atlas", body, `atlas${side}`)));
    if (atlases.every((atlas) => atlas !== null)) showHeads(byId("atlases"), select("measure"), [model, other], atlases);
  });
}

/** @param {Beside} beside */
async function besides({ results }) {
  const whole = await Promise.all(results.map(({ id }) => read(`/results/${id}`)));
  const [first] = whole;
  const sides = (/** @type {(HTMLElement | null)[]} */ parts) =>
    el("div", { class: "columns" }, whole.map((result, at) => (parts[at] ? el("div", {}, el("h3", {}, result.model), parts[at]) : null)));
  const names = [...new Set(whole.flatMap(({ figures }) => figures.map(({ name }) => name)))];
  const shared = names.map((name) => whole.map(({ figures }) => figures.find((shown) => shown.name === name))).filter((row) => row.filter(Boolean).length > 1);
  return el(
    "details",
    { "data-analysis": first.analysis },
    el("summary", {}, `${first.title}: side by side`),
    whole.some(({ findings }) => findings.length) ? sides(whole.map(({ findings }) => listed(findings))) : null,
    shared.map((row) => sides(row.map((shown, at) => (shown ? figure(whole[at], shown) : null)))),
  );
}

/** @param {ReadAt[]} layers */
function whereToRead(layers) {
  if (!layers.length) return null;
  const number = (/** @type {number} */ value) => value.toFixed(3);
  const rows = layers.map(({ task, model, layer, value, low, high, tied }) => [task, model, layer, `${number(value)} [${number(low)}, ${number(high)}]`, tied ? "yes" : "no"]);
  return el("details", {}, el("summary", {}, "Which layer of which model for which task"), table(["task", "model", "layer", "score", "tied with the best"], rows, { caption: "The best layer of each model" }));
}

/** @param {Comparison} found */
function probed(found) {
  const drawn = found.figures.map((shown) => {
    const box = el("div", { class: "box" });
    draw(box, shown.spec, { summary: shown.summary });
    return el("figure", {}, box, el("figcaption", {}, shown.caption || shown.summary));
  });
  const left = found.left_out.length ? el("p", { class: "soft" }, `Left out: ${found.left_out.join("; ")}.`) : null;
  return [listed(found.findings), ...drawn, whereToRead(found.layers), left, el("p", { class: "soft" }, found.why_not)];
}

async function measured() {
  await attempt("Reading the results of the models", async () => {
    const found = await post("/compare", { ...two(), further: further() });
    const beside = await Promise.all(found.beside.map(besides));
    const none = beside.length ? null : el("p", {}, "No analysis was run of two of the models.");
    replace(byId("measured"), ...probed(found), none, ...beside);
    await changed(found.diff);
  });
}

/** @param {Summary | null} diff */
async function changed(diff) {
  const compute = button("Compute it (about a minute)", () => asInReport("diff", { ...two(), data: { limit: DIFF_TEXTS } }));
  if (!diff) {
    replace(byId("changed"), el("p", {}, "Not computed yet for these two. "), compute);
    return;
  }
  const result = await read(`/results/${diff.id}`);
  replace(byId("changed"), listed(result.findings), ...result.figures.map((shown) => figure(result, shown)));
}

const about = await ready;

async function all() {
  offerFurther(about);
  await sentence();
  await measured();
}

offerOthers(about);
state.onChange(all);
onDone(measured);
await all();
