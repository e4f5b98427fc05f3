// @ts-check
// Two models, the same views, and the differences.
/** @import { About, Pair, Summary } from "../../shared/api_types.js" */
import { asInReport } from "../../shared/analyses.js";
import { ask, post, read } from "../../shared/api.js";
import { draw, figure } from "../../shared/charts.js";
import { attempt, byId, el, replace, select } from "../../shared/dom.js";
import { listed } from "../../shared/findings.js";
import { button, onDone } from "../../shared/jobs.js";
import { ready } from "../../shared/page.js";
import * as state from "../../shared/state.js";
import { showBeliefs, showHeads } from "./sentence.js";

const DIFF_TEXTS = 300; // enough for narrow intervals, and about a minute for a small model

const two = () => ({ model: state.get("model"), other: state.get("other") });

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

/** @param {Pair} pair */
async function besides({ a, b }) {
  const [first, second] = await Promise.all([a, b].map(({ id }) => read(`/results/${id}`)));
  const pairs = first.figures.flatMap((shown) => {
    const same = second.figures.find(({ name }) => name === shown.name);
    return same ? [[figure(first, shown), figure(second, same)]] : [];
  });
  const sides = (/** @type {(HTMLElement | null)[]} */ parts) =>
    el("div", { class: "columns" }, [first, second].map((result, at) => el("div", {}, el("h3", {}, result.model), parts[at])));
  return el(
    "details",
    { "data-analysis": first.analysis },
    el("summary", {}, `${first.title}: side by side`),
    first.findings.length || second.findings.length ? sides([listed(first.findings), listed(second.findings)]) : null,
    pairs.map(sides),
  );
}

async function measured() {
  await attempt("Reading the results of both", async () => {
    const found = await post("/compare", two());
    const drawn = found.figures.map((shown) => {
      const box = el("div", { class: "box" });
      draw(box, shown.spec, { summary: shown.summary });
      return el("figure", {}, box, el("figcaption", {}, shown.caption || shown.summary));
    });
    const pairs = await Promise.all(found.pairs.map(besides));
    const none = pairs.length ? null : el("p", {}, "No analysis was run of both models.");
    replace(byId("measured"), ...drawn, el("p", { class: "soft" }, found.why_not), none, ...pairs);
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

async function all() {
  await sentence();
  await measured();
}

offerOthers(await ready);
state.onChange(all);
onDone(measured);
await all();
