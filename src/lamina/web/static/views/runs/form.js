// @ts-check
// The form that starts an analysis, built from what the analysis says of itself.
/** @import { AnalysisCard, InputCard, JobRequest } from "../../shared/api_types.js" */
import { analyses } from "../../shared/analyses.js";
import { el, replace } from "../../shared/dom.js";
import { button } from "../../shared/jobs.js";
import { verdict } from "../../shared/model_card.js";
import * as state from "../../shared/state.js";
import { makeField } from "./fields.js";

/** @import { Field, Property } from "./fields.js" */
/** @typedef {{ box: HTMLElement, value: () => Record<string, unknown> }} Group */

/**
 * The fields of a JSON schema; those left empty are not sent.
 * @param {string} title
 * @param {{ properties?: Record<string, Property>, required?: string[] }} schema
 * @param {string} prefix of the fields' ids
 * @param {Record<string, unknown>} filled what required fields begin with
 * @returns {Group}
 */
function group(title, schema, prefix, filled = {}) {
  const properties = Object.entries(schema.properties ?? {});
  const fields = properties.map(([name, property]) => /** @type {[string, Field]} */ ([name, makeField(`${prefix}-${name}`, name, property, { required: schema.required?.includes(name) ?? false, filled: filled[name] })]));
  const box = el("fieldset", { class: "fields", hidden: !fields.length }, el("legend", {}, title), fields.map(([, field]) => field.box));
  const value = () => Object.fromEntries(fields.map(([name, field]) => [name, field.value()]).filter(([, entry]) => entry !== undefined));
  return { box, value };
}

/**
 * A choice among what the server allows; the first model is the one at the top of the page.
 * @param {InputCard} given
 */
function inputField(given) {
  const select = el("select", { id: `input-${given.name}`, title: given.help }, given.choices.map((name) => el("option", { value: name }, name)));
  if (given.default) select.value = given.default;
  return select;
}

/**
 * What one analysis is asked for: its inputs, and a fold with its data options and settings.
 * @param {AnalysisCard} card
 */
function form(card) {
  const inputs = card.inputs.filter(({ name }) => name !== "model").map((given) => /** @type {[InputCard, HTMLSelectElement]} */ ([given, inputField(given)]));
  const options = group("Data", card.data_options, "data");
  const settings = group("Analysis", card.settings, "setting", card.report ?? {});
  const fold = el("details", { class: "settings", open: Boolean(card.settings.required) }, el("summary", {}, "Settings"), options.box, settings.box);

  /** @returns {JobRequest} */
  const wanted = () => {
    /** @type {JobRequest} */
    const request = { analysis: card.name, model: state.get("model"), settings: settings.value() };
    for (const [{ name, kind }, field] of inputs) request[name] = kind === "model" ? field.value : { name: field.value, ...options.value() };
    return request;
  };
  const labels = inputs.map(([{ name }, field]) => el("label", {}, `${name[0].toUpperCase()}${name.slice(1)} `, field));
  return { parts: [el("p", { class: "soft" }, card.question), el("div", { class: "controls" }, labels), fold], wanted };
}

/**
 * What to send, unless the browser sees that a field does not fit.
 * @param {HTMLFormElement} box
 * @param {() => JobRequest} wanted
 */
function checked(box, wanted) {
  const wrong = box.querySelector(":invalid:not(fieldset)");
  if (wrong) {
    wrong.closest("details")?.setAttribute("open", "");
    box.reportValidity();
    throw new Error(`${box.querySelector(`label[for="${wrong.id}"]`)?.textContent}: fill in what fits`);
  }
  return wanted();
}

/** @param {HTMLFormElement} box */
export async function offer(box) {
  const startable = (await analyses()).filter(({ job }) => job);
  const choice = el("select", { id: "analysis" }, startable.map(({ name, title }) => el("option", { value: name }, title)));
  const about = el("div");
  const refused = el("p", { class: "wrong", role: "alert", hidden: true });
  const compute = button("Compute", () => checked(box, wanted));
  let { wanted } = form(startable[0]);

  // An analysis that the model's passport refuses is not offered; where that is not known yet, the server refuses it.
  async function refuse() {
    const [analysis, model] = [choice.value, state.get("model")];
    const why = (await verdict(model).catch(() => null))?.refused[analysis];
    if (analysis !== choice.value || model !== state.get("model")) return;
    refused.textContent = why ? `Not possible with ${model}: ${why}` : "";
    refused.hidden = !why;
    compute.disabled = Boolean(why);
  }

  function choose() {
    const body = form(startable.find(({ name }) => name === choice.value) ?? startable[0]);
    wanted = body.wanted;
    replace(about, body.parts);
    refuse();
  }

  choice.addEventListener("change", choose);
  box.addEventListener("submit", (event) => event.preventDefault());
  state.onChange((changed) => {
    if ("model" in changed) refuse();
  });
  choose();
  replace(box, el("label", {}, "Analysis ", choice), about, refused, compute);
}
