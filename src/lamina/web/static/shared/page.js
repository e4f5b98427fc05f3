// @ts-check
// What every page has: the models, the sentence, the links that carry the selection, and the computations.
import { post, read } from "./api.js";
import { byId, el, input, message, replace, say, select } from "./dom.js";
import { beginTray } from "./jobs.js";
import { beginLayers } from "./layer.js";
import { keepCard, verdict } from "./model_card.js";
import { beginSearch } from "./search.js";
import * as state from "./state.js";
import { beginSteps } from "./steps.js";
import { beginStrip } from "./strip.js";
import { beginArrival } from "./waiting.js";

/** @import { AboutServer } from "./api_types.js" */

const on = (/** @type {string} */ id) => document.getElementById(id) !== null;

/**
 * A model of a result folder that is not confirmed: what would be loaded, and a button that says it may be.
 * @param {string} name
 */
async function offerToLoad(name) {
  const { folder, base, size } = await read(`/strange-models/${encodeURIComponent(name)}`);
  if (name !== state.get("model")) return;
  const load = async () => {
    try {
      await post("/strange-models", { model: name, base });
      location.reload();
    } catch (error) {
      say(message(error), { wrong: true });
    }
  };
  const adapter = base ? ` It is an adapter: ${base} would be loaded too.` : "";
  const what = `${name} was not named when this server was started. It lies in ${folder} (${(size / 1e6).toFixed(1)} MB of weights).${adapter} Load it if you trust where it comes from. `;
  replace(byId("trouble"), el("p", { role: "alert" }, what, el("button", { type: "button", onclick: load }, "Load this model")));
}

/**
 * What is wrong with the model in the address, said where it stays.
 * @param {AboutServer} about
 */
function warn(about) {
  const wanted = state.get("model");
  const card = about.models.find(({ name }) => name === wanted);
  const tell = (/** @type {string | null | undefined} */ why) => replace(byId("trouble"), why ? el("p", { class: "wrong" }, `${wanted} cannot be loaded: ${why}`) : null);
  tell(card?.trouble);
  if (card?.unconfirmed) {
    offerToLoad(wanted).catch((error) => tell(message(error)));
    return;
  }
  // Not tried yet, and this view needs it.
  if (!card?.trouble && on("layer")) verdict(wanted).catch((error) => wanted === state.get("model") && tell(message(error)));
}

/**
 * The models of the server; one that it does not have gives way to the first.
 * @param {AboutServer} about
 */
function offerModels(about) {
  const models = select("model");
  const known = about.models.map((model) => model.name);
  const wanted = state.get("model");
  const model = known.includes(wanted) ? wanted : known[0];
  models.replaceChildren(...about.models.map(({ name, title, trouble }) => el("option", { value: name }, trouble ? `${title} (cannot be loaded)` : title)));
  models.value = model;
  state.set({ model }, { quiet: true });
  if (wanted && model !== wanted) {
    const missing = `This server has no model ${wanted}; ${model} is shown. Others are named when it is started, with --model.`;
    byId("status").before(el("p", { class: "wrong", role: "alert" }, missing)); // it stays, unlike a status
  }
  warn(about);
}

// Fills the form from the address, or from the example on a first visit.
async function begin() {
  const about = await read("/about");
  if (!on("ask")) return about;
  const field = on("sentence") ? input("sentence") : null;
  offerModels(about);
  if (field) {
    field.value = state.get("sentence", about.sentence);
    state.set({ sentence: field.value }, { quiet: true });
  }
  select("model").addEventListener("change", () => state.set({ model: select("model").value }));
  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    if (field) state.set({ sentence: field.value });
  });
  state.onChange((changed) => {
    if ("model" in changed) {
      select("model").value = state.get("model");
      warn(about);
    }
    if (field && "sentence" in changed) field.value = state.get("sentence");
  });
  beginSearch();
  if (on("strip")) beginStrip();
  if (on("layer")) beginLayers();
  if (on("step")) beginSteps(about.models);
  keepCard(about.models);
  return about;
}

export const ready = begin();
ready.catch((error) => say(message(error), { wrong: true }));
beginArrival();
state.carry();
beginTray();
