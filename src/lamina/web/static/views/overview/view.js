// @ts-check
// The saved results: what was found, and its charts.
/** @import { AnalysisCard, Summary, Whole } from "../../shared/api_types.js" */
import { analyses } from "../../shared/analyses.js";
import { read } from "../../shared/api.js";
import { figure } from "../../shared/charts.js";
import { attempt, byId, el, replace } from "../../shared/dom.js";
import { listed } from "../../shared/findings.js";
import { onDone } from "../../shared/jobs.js";
import { ready } from "../../shared/page.js";
import * as state from "../../shared/state.js";

const ALL = "";
/** @type {Summary[]} */
let results = [];
/** @type {AnalysisCard[]} */
let known = [];

/**
 * In the order of the report; what is of no analysis that is known comes last.
 * @param {Summary} one
 * @param {Summary} other
 */
const inOrder = (one, other) => rank(one) - rank(other);

/** @param {Summary} result */
function rank({ analysis }) {
  const at = known.findIndex(({ name }) => name === analysis);
  return at < 0 ? known.length : at;
}

/** @param {string[]} values */
const distinct = (values) => [...new Set(values)];

function chosen() {
  const [id, analysis, model] = ["result", "analysis", "of"].map((name) => state.get(name));
  if (id) return results.filter((result) => result.id === id);
  return results.filter((result) => (!analysis || result.analysis === analysis) && (!model || result.model === model)).toSorted(inOrder);
}

/**
 * @param {string} id
 * @param {string} label
 * @param {[value: string, text: string][]} options
 */
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

/** @param {string[]} tasks */
function filters(tasks = []) {
  const asked = new Map(results.toSorted(inOrder).map(({ analysis, title }) => [analysis, title]));
  replace(
    byId("filter"),
    choice("analysis", "Analysis", [...asked]),
    choice("of", "Model", distinct(results.map((result) => result.model)).map((name) => [name, name])),
    choice("task", "Task", tasks.map((task) => [task, task])),
    choice("result", "Result", results.map((result) => [result.id, `${result.title}: ${result.name}`])),
  );
}

/**
 * @param {Whole} result
 * @param {string} query
 */
function chapter(result, query) {
  return el(
    "section",
    { class: "card", "data-analysis": result.analysis },
    el("h2", {}, `${result.title}: ${result.model} on ${result.corpus} ${result.split}`),
    el("p", {}, result.question),
    listed(result.findings),
    result.figures.length ? result.figures.map((shown) => figure(result, shown, query)) : el("p", { class: "soft" }, "This result has no chart."),
    el("p", {}, el("a", { href: `/results?result=${result.id}` }, "Where it came from, and how to make it again")),
  );
}

// Charts are drawn when they come into sight: a report has thirty.
async function show() {
  const fitting = chosen();
  const task = state.get("task");
  const box = byId("charts");
  box.replaceChildren();
  if (!fitting.length) {
    box.append(el("p", {}, "No saved result fits. "), el("a", { href: "/results", "data-keep": true }, "Compute one"));
    state.carry();
    return;
  }
  const query = task ? `?task=${encodeURIComponent(task)}` : "";
  /** @type {Set<string>} */
  const tasks = new Set();
  await attempt("Reading the results", async () => {
    for (const { id } of fitting) {
      const plain = await read(`/results/${id}`);
      for (const each of plain.tasks) tasks.add(each);
      if (task && !plain.tasks.includes(task)) continue;
      box.append(chapter(task ? await read(`/results/${id}${query}`) : plain, query));
    }
    filters([...tasks]);
    if (!box.children.length) box.append(el("p", {}, `No saved result has the task ${task}.`));
  });
}

async function begin() {
  [results, known] = await Promise.all([read("/results"), analyses()]);
  filters();
  await show();
}

await ready;
onDone(begin);
await attempt("Reading the folders", begin);
