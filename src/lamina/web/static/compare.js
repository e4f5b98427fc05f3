// Two models, the same views, and the differences.
import { ask, post, read } from "./api.js";
import { draw, figure } from "./charts.js";
import { showBeliefs, showHeads } from "./compare_sentence.js";
import { attempt, byId, el, replace } from "./dom.js";
import { button, onDone } from "./jobs.js";
import { ready } from "./page.js";
import * as state from "./state.js";

const DIFF_TEXTS = 300; // enough for narrow intervals, and about a minute for a small model

const two = () => ({ model: state.get("model"), other: state.get("other") });

function offerOthers(about) {
  const select = byId("other");
  replace(select, about.models.map(({ name, title }) => el("option", { value: name }, title)));
  // A model beside itself shows nothing: the first other one, where there is one.
  const other = about.models.find(({ name }) => name !== state.get("model"))?.name ?? state.get("model");
  select.value = state.get("other", other);
  if (!select.value) select.value = other;
  state.set({ other: select.value }, { quiet: true });
  select.addEventListener("change", () => state.set({ other: select.value }));
}

async function sentence() {
  const { model, other } = two();
  const asked = [model, other].map((name) => ({ model: name, sentence: state.get("sentence") }));
  await attempt("Reading the sentence with both models", async () => {
    const lenses = await Promise.all(asked.map((body, side) => ask("/lens", body, `lens${side}`)));
    if (lenses.every(Boolean)) showBeliefs(byId("beliefs"), [model, other], lenses);
    const atlases = await Promise.all(asked.map((body, side) => ask("/heads/atlas", body, `atlas${side}`)));
    if (atlases.every(Boolean)) showHeads(byId("atlases"), byId("measure"), [model, other], atlases);
  });
}

async function besides({ a, b }) {
  const [first, second] = await Promise.all([a, b].map(({ id }) => read(`/results/${id}`)));
  const names = first.figures.map((shown) => shown.name).filter((name) => second.figures.some((shown) => shown.name === name));
  const found = (result, name) => figure(result, result.figures.find((shown) => shown.name === name));
  return el(
    "details",
    { "data-analysis": first.analysis },
    el("summary", {}, `${first.title}: side by side`),
    names.map((name) =>
      el("div", { class: "columns" }, [first, second].map((result) => el("div", {}, el("h3", {}, result.model), found(result, name)))),
    ),
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
    replace(byId("measured"), ...drawn, el("p", { class: "soft" }, found.why_not), ...[none].filter(Boolean), ...pairs);
    await changed(found.diff);
  });
}

async function changed(diff) {
  const compute = button("Compute it (about a minute)", () => ({ analysis: "diff", ...two(), limit: DIFF_TEXTS }));
  if (!diff) {
    replace(byId("changed"), el("p", {}, "Not computed yet for these two. "), compute);
    return;
  }
  const result = await read(`/results/${diff.id}`);
  replace(byId("changed"), ...result.figures.map((shown) => figure(result, shown)));
}

async function all() {
  await sentence();
  await measured();
}

offerOthers(await ready);
state.onChange(all);
onDone(measured);
await all();
