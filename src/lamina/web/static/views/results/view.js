// @ts-check
// What was run, with provenance, and the command to run it again.
/** @import { PassedOver, Summary, Whole } from "../../shared/api_types.js" */
import { read } from "../../shared/api.js";
import { attempt, byId, el, replace, table } from "../../shared/dom.js";
import { listed as found } from "../../shared/findings.js";
import { onDone } from "../../shared/jobs.js";
import { ready } from "../../shared/page.js";
import * as state from "../../shared/state.js";
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

/** @param {Summary[]} results */
function listed(results) {
  if (!results.length) return el("p", {}, "There are no results in the folders named at the start. Compute something below.");
  const rows = results.map((result) => [
    el("a", { href: `?result=${result.id}`, "data-id": result.id }, result.title),
    result.model,
    `${result.corpus} ${result.split}`.trim(),
    day(result.created),
    result.name,
  ]);
  return table(["what", "model", "data", "made (UTC)", "folder"], rows, { caption: `${results.length} results, the newest first` });
}

/** @param {PassedOver[]} folders */
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

/** @param {Whole} result */
function whole(result) {
  const { command, skipped, warnings = [], ...rest } = result.provenance;
  return el(
    "div",
    { class: "card" },
    el("h2", {}, `${result.title}: ${result.model} on ${result.corpus}`),
    el("p", {}, result.question),
    found(result.findings),
    ...warnings.map((/** @type {string} */ warning) => el("p", { class: "note" }, warning)),
    el("p", {}, el("a", { href: `/layers?result=${result.id}` }, "See its charts")),
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

/** @param {string} id */
async function show(id) {
  state.set({ result: id }, { quiet: true });
  await attempt("Reading the result", async () => {
    replace(byId("one"), whole(await read(`/results/${id}`)));
    byId("one").scrollIntoView({ block: "start" });
  });
}

async function list() {
  await attempt("Reading the folders", async () => {
    const [results, folders] = await Promise.all([read("/results"), read("/passed-over")]);
    replace(byId("list"), listed(results), passedOver(folders));
    for (const link of /** @type {NodeListOf<HTMLElement>} */ (byId("list").querySelectorAll("a[data-id]"))) {
      link.addEventListener("click", (event) => {
        event.preventDefault();
        show(link.dataset.id ?? "");
      });
    }
  });
}

await ready;
onDone(list);
await list();
if (state.get("result")) await show(state.get("result"));
await attempt("Reading the analyses", () => offer(byId("start", HTMLFormElement)));
