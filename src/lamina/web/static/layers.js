// The saved results as charts: the pipeline, curves with intervals and baselines, geometry, contextualization.
import { read } from "./api.js";
import { figure } from "./charts.js";
import { attempt, byId, el, replace } from "./dom.js";
import { onDone } from "./jobs.js";
import { ready } from "./page.js";
import * as state from "./state.js";

// What tells of layers first; everything else that has charts after it.
const ORDER = ["probe", "geometry", "contextualize", "phases", "attention", "heads", "headmap", "compare", "diff"];
const ALL = "";
let results = [];

const rank = ({ analysis }) => (ORDER.includes(analysis) ? ORDER.indexOf(analysis) : ORDER.length);

const distinct = (values) => [...new Set(values)];

function chosen() {
  const [id, analysis, model] = ["result", "analysis", "of"].map((name) => state.get(name));
  if (id) return results.filter((result) => result.id === id);
  const fitting = results.filter((result) => (!analysis || result.analysis === analysis) && (!model || result.model === model));
  return fitting.toSorted((a, b) => rank(a) - rank(b));
}

function choice(id, label, options) {
  const select = el("select", { id }, el("option", { value: ALL }, "all"), options.map(([value, text]) => el("option", { value }, text)));
  select.value = state.get(id);
  if (select.value !== state.get(id)) select.value = ALL;
  select.addEventListener("change", () => {
    state.set({ [id]: select.value, ...(id === "result" ? {} : { result: "" }) }, { quiet: true });
    filters();
    show();
  });
  return el("label", {}, `${label} `, select);
}

function filters(tasks = []) {
  replace(
    byId("filter"),
    choice("analysis", "Analysis", distinct(results.toSorted((a, b) => rank(a) - rank(b)).map((result) => result.analysis)).map((name) => [name, results.find((result) => result.analysis === name).title])),
    choice("of", "Model", distinct(results.map((result) => result.model)).map((name) => [name, name])),
    choice("task", "Task", tasks.map((task) => [task, task])),
    choice("result", "Result", results.map((result) => [result.id, `${result.title}: ${result.name}`])),
  );
}

function chapter(result) {
  return el(
    "section",
    { class: "card", "data-analysis": result.analysis },
    el("h2", {}, `${result.title}: ${result.model} on ${result.corpus} ${result.split}`),
    el("p", {}, result.question),
    result.figures.length ? result.figures.map((shown) => figure(result, shown)) : el("p", { class: "soft" }, "This result has no chart."),
    el("p", {}, el("a", { href: `/results?result=${result.id}` }, "Where it came from, and how to make it again")),
  );
}

// Charts are drawn when they come into sight: a report has thirty.
async function show() {
  const listed = chosen();
  const task = state.get("task");
  const box = byId("charts");
  box.replaceChildren();
  if (!listed.length) {
    box.append(el("p", {}, "No saved result fits. "), el("a", { href: "/results", "data-keep": true }, "Compute one"));
    state.carry();
    return;
  }
  const tasks = new Set();
  await attempt("Reading the results", async () => {
    for (const { id } of listed) {
      const plain = await read(`/results/${id}`);
      for (const each of plain.tasks) tasks.add(each);
      if (task && !plain.tasks.includes(task)) continue;
      const result = task ? { ...(await read(`/results/${id}?task=${encodeURIComponent(task)}`)), query: `?task=${encodeURIComponent(task)}` } : plain;
      box.append(chapter(result));
    }
    filters([...tasks]);
    if (!box.children.length) box.append(el("p", {}, `No saved result has the task ${task}.`));
  });
}

async function begin() {
  results = await read("/results");
  filters();
  await show();
}

await ready;
onDone(begin);
await attempt("Reading the folders", begin);
