// @ts-check
// Which layer to use for the labels of a table: drop it, pick the columns, see what it takes, get the answer.
/** @import { JobRequest, KeptTable } from "../../shared/api_types.js" */
import { post } from "../../shared/api.js";
import { byId, el, message, replace, table } from "../../shared/dom.js";
import { duration } from "../../shared/durations.js";
import { button } from "../../shared/jobs.js";
import { ready } from "../../shared/page.js";
import * as state from "../../shared/state.js";

const PAUSE = 1000;
/** @type {Record<string, string>} */
const KINDS = { text: "running text", labels: "labels", values: "values on a scale", ids: "different in every row", other: "" };
let turn = 0; // of the estimate that is shown

/**
 * A choice among the columns.
 * @param {string} id
 * @param {KeptTable} given
 * @param {string} like what the first choice looks like
 * @param {string[]} others choices besides
 */
function choice(id, given, like, others = []) {
  const names = given.columns.map(({ name }) => name);
  const select = el("select", { id }, [...others, ...names].map((name) => el("option", { value: name }, name || "none")));
  select.value = given.columns.find(({ looks_like }) => looks_like === like)?.name ?? (others[0] ?? names[0]);
  return select;
}

/** @param {KeptTable} given */
function offer(given) {
  const [text, label] = [choice("text", given, "text"), choice("label", given, "labels")];
  const doc = choice("doc", given, "none of these", [""]);
  const takes = el("p", { class: "soft", role: "status" });

  /** @returns {JobRequest} */
  const wanted = () => {
    if (text.value === label.value) throw new Error("texts and labels are two columns; choose another one for one of them");
    const graded = given.columns.find(({ name }) => name === label.value)?.looks_like === "values" ? ":value" : "";
    const columns = [`text=${text.value}`, `label${graded}=${label.value}`, ...(doc.value ? [`doc=${doc.value}`] : [])];
    const data = { name: given.name, format: `table:${columns.join(",")}` };
    return { analysis: "choose", model: state.get("model"), data, settings: { task: "label" } };
  };

  async function estimate() {
    const mine = ++turn;
    for (;;) {
      try {
        const estimate = await post("/tables/estimate", wanted());
        if (mine !== turn) return;
        if (estimate.state === "known") takes.textContent = `Takes about ${duration(estimate.seconds ?? 0)} on this machine.`;
        else if (estimate.state === "off") takes.textContent = "How long it takes is not estimated here.";
        else takes.textContent = estimate.state === "failed" ? estimate.why : "Trying how long it takes …";
        if (estimate.state !== "waiting" && estimate.state !== "trying") return;
      } catch (error) {
        if (mine === turn) takes.textContent = message(error);
        return;
      }
      await new Promise((done) => setTimeout(done, PAUSE));
      if (mine !== turn) return;
    }
  }

  for (const field of [text, label, doc]) field.addEventListener("change", estimate);
  state.onChange((changed) => {
    if ("model" in changed) estimate();
  });
  const rows = given.columns.map(({ name, looks_like, values, examples }) => [name, KINDS[looks_like], values.toLocaleString("en"), examples.join(" · ")]);
  replace(
    byId("columns"),
    el("h2", { tabindex: "-1" }, `${given.name}: ${given.rows.toLocaleString("en")} rows`),
    table(["column", "looks like", "different values", "for example"], rows),
    el("div", { class: "controls" }, el("label", {}, "Texts ", text), el("label", {}, "Labels ", label), el("label", { title: "Rows that belong together, such as those of one author: they are never split" }, "Documents ", doc)),
    takes,
    button("Which layer?", wanted),
  );
  byId("columns").hidden = false;
  estimate();
}

/** @param {File | undefined} file */
async function take(file) {
  if (!file) return;
  const refused = byId("refused");
  refused.textContent = "";
  try {
    offer(await post("/tables", { name: file.name, text: await file.text() }));
  } catch (error) {
    byId("columns").hidden = true;
    refused.textContent = message(error);
  }
}

await ready;
const [drop, file] = [byId("drop"), byId("file", HTMLInputElement)];
file.addEventListener("change", () => take(file.files?.[0]));
take(file.files?.[0]); // one that was chosen before the page was ready
for (const name of ["dragenter", "dragover"]) {
  drop.addEventListener(name, (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
}
drop.addEventListener("dragleave", () => drop.classList.remove("over"));
drop.addEventListener("drop", (event) => {
  event.preventDefault();
  drop.classList.remove("over");
  take(event.dataTransfer?.files[0]);
});
