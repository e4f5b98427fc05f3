// @ts-check
// What every page has: the models, the sentence, the links that carry both, and the computations.
import { read } from "./api.js";
import { byId, el, input, message, say, select } from "./dom.js";
import { watch } from "./jobs.js";
import { keepCard } from "./model_card.js";
import * as state from "./state.js";

// Fills the form from the address, or from the example on a first visit.
async function begin() {
  const about = await read("/about");
  const models = select("model");
  const field = document.getElementById("sentence") ? input("sentence") : null;
  const known = about.models.map((model) => model.name);
  const model = known.includes(state.get("model")) ? state.get("model") : known[0];
  if (state.get("model") && model !== state.get("model")) {
    const missing = `This server has no model ${state.get("model")}; ${model} is shown. Others are named when it is started, with --model.`;
    byId("status").before(el("p", { class: "wrong", role: "alert" }, missing)); // it stays, unlike a status
  }
  models.replaceChildren(...about.models.map(({ name, title }) => el("option", { value: name }, title)));
  models.value = model;
  const sentence = state.get("sentence", about.sentence);
  if (field) field.value = sentence;
  state.set(field ? { model, sentence } : { model }, { quiet: true });
  models.addEventListener("change", () => state.set({ model: models.value }));
  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    if (field) state.set({ sentence: field.value });
  });
  if (document.getElementById("model-card")) keepCard(about.models);
  return about;
}

export const ready = begin();
ready.catch((error) => say(message(error), { wrong: true }));
state.carry();
watch();
