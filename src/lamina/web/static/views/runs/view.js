// @ts-check
// What was run, with provenance, and the command to run it again.
/** @import { ResultDetails, ResultSummary, UnlistedFolderCard } from "../../shared/api_types.js" */
import { read } from "../../shared/api.js";
import { figure } from "../../shared/charts.js";
import { attempt, byId, el, replace, table } from "../../shared/dom.js";
import { listed as findingsList, part } from "../../shared/findings.js";
import { onDone } from "../../shared/jobs.js";
import { ready } from "../../shared/page.js";
import * as state from "../../shared/state.js";
import { load } from "../../shared/waiting.js";
import { offer } from "./form.js";

/** @param {string} command */
function copyable(command) {
  const copy = el("button", { type: "button" }, "Copy");
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(command);
    copy.textContent = "Copied";
  });
  return el("div", { class: "command" }, el("pre", {}, el("code", {}, command)), copy);
}

/** @param {string} created */
const day = (created) => created.replace("T", " ").slice(0, 16);

/** @param {ResultSummary[]} results */
function listed(results) {
  if (!results.length) return el("p", {}, "There are no results in the folders named at the start. Compute something below.");
  const rows = results.map((result) => [
    el("span", {}, el("a", { href: state.address("/runs", { result: result.id }), "data-id": result.id }, result.title), part(result)),
    result.model,
    el("span", { class: "sample" }, result.sample),
    day(result.created),
    result.name,
  ]);
  return table(["what", "model", "data and settings", "made (UTC)", "folder"], rows, { caption: `${results.length} results, the newest first` });
}

/** @param {UnlistedFolderCard[]} folders */
function passedOver(folders) {
  if (!folders.length) return null;
  return el(
    "details",
    { class: "passed-over" },
    el("summary", {}, `${folders.length} ${folders.length === 1 ? "folder is" : "folders are"} not listed`),
    el("ul", {}, folders.map(({ name, why }) => el("li", {}, el("code", {}, name), `: ${why}`))),
  );
}

/**
 * @param {any} value of provenance: whatever it holds
 * @returns {HTMLElement | string}
 */
function facts(value) {
  if (value === null || typeof value !== "object") return el("code", {}, String(value));
  const entries = Object.entries(value);
  if (!entries.length) return "none";
  return el("ul", {}, entries.map(([name, inner]) => el("li", {}, Array.isArray(value) ? null : `${name}: `, facts(inner))));
}

/** @param {Record<string, number>} [skipped] */
function leftOut(skipped = {}) {
  const counted = Object.entries(skipped).filter(([, count]) => count);
  if (!counted.length) return el("p", {}, "Nothing was left out.");
  return el("ul", {}, counted.map(([why, count]) => el("li", {}, `${why}: ${count.toLocaleString("en")}`)));
}

/**
 * The charts, of one task or of all.
 * @param {ResultDetails} plain
 * @param {ResultDetails} result the same, with charts of the chosen task
 */
function charts(plain, result) {
  if (!plain.figures.length) return [el("p", { class: "soft" }, "This result has no chart.")];
  const task = state.get("task");
  const choice = el("select", { id: "task" }, el("option", { value: "" }, "all"), plain.tasks.map((name) => el("option", { value: name }, name)));
  choice.value = plain.tasks.includes(task) ? task : "";
  choice.addEventListener("change", () => state.set({ task: choice.value }));
  const query = choice.value ? `?task=${encodeURIComponent(choice.value)}` : "";
  return [
    el("h3", {}, "Charts"),
    plain.tasks.length > 1 ? el("label", {}, "Task ", choice) : null,
    ...result.figures.map((chart) => figure(result, chart, query)),
  ];
}

/**
 * @param {ResultDetails} plain
 * @param {ResultDetails} result the same, with charts of the chosen task
 */
function whole(plain, result) {
  const { command, skipped, warnings = [], ...rest } = result.provenance;
  return el(
    "div",
    { class: "card", "data-analysis": result.analysis },
    el("h2", { tabindex: "-1" }, `${result.title}: ${result.model} on ${result.corpus}`, part(result)),
    el("p", {}, result.question),
    el("p", { class: "soft" }, `Saw ${result.sample}.${result.partial ? ` ${result.partial[0].toUpperCase()}${result.partial.slice(1)}, and is shown in the overview.` : ""}`),
    findingsList(result.findings),
    ...warnings.map((/** @type {string} */ warning) => el("p", { class: "note" }, warning)),
    charts(plain, result),
    el("h3", {}, "Make it again"),
    copyable(command),
    el("h3", {}, "Left out"),
    leftOut(skipped),
    el("h3", {}, "Tables"),
    el("ul", {}, Object.entries(result.rows).map(([name, rows]) =>
      el("li", {}, el("a", { href: `/api/results/${result.id}/tables/${name}.csv`, download: `${result.analysis}-${name}.csv` }, `${name}.csv`), ` (${rows.toLocaleString("en")} rows)`))),
    el("details", { class: "provenance" }, el("summary", {}, "Model, data, parameters and versions"), facts(rest)),
    el("h3", {}, "Method"),
    el("p", {}, result.method),
  );
}

// The run in the address; none, if it names none.
async function show() {
  const [id, task, box] = [state.get("result"), state.get("task"), byId("one")];
  for (const link of byId("list").querySelectorAll("a[data-id]")) {
    if (link.getAttribute("data-id") === id) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  if (!id) return replace(box);
  const filled = await load(box, async (signal) => {
    const plain = await read(`/results/${id}`, signal);
    const filtered = plain.tasks.includes(task) ? await read(`/results/${id}?task=${encodeURIComponent(task)}`, signal) : plain;
    return whole(plain, filtered);
  }, { lines: 8 });
  if (filled) box.scrollIntoView({ block: "start" });
}

async function list() {
  await load(byId("list"), async (signal) => {
    const [results, folders] = await Promise.all([read("/results", signal), read("/passed-over", signal)]);
    return [listed(results), passedOver(folders)];
  }, { lines: 6 });
}

byId("list").addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("a[data-id]") : null;
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  state.set({ result: link.getAttribute("data-id"), task: "" });
});

await ready;
onDone(list);
state.onChange((changed) => {
  if ("result" in changed || "task" in changed) show();
});
const listing = list();
await attempt("Reading the analyses", () => offer(byId("start", HTMLFormElement)));
await listing;
await show();
