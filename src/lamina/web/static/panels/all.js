// @ts-check
// The panels below the sentence: what a language model says, and what changes without some of its parts. What a model
// cannot do is not offered, and a sentence says why.
/** @import { ModelVerdict } from "../shared/api_types.js" */
import { read } from "../shared/api.js";
import { byId, el, replace } from "../shared/dom.js";
import { verdict } from "../shared/model_card.js";
import { ready } from "../shared/page.js";
import { pickLayer } from "../shared/layer.js";
import * as state from "../shared/state.js";
import { load } from "../shared/waiting.js";
import { typing } from "./behaviour.js";
import { tokensByLayers } from "./decoder.js";
import { switching } from "./interventions.js";

/** @type {(() => void) | null} */
let again = null; // shows what is switched off

/**
 * @param {string} id
 * @param {string} title
 * @param {...(Node | string)} parts
 */
const section = (id, title, ...parts) => el("section", { class: "card panel-card", "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), parts);

/** @param {ModelVerdict} model */
function spoken(model) {
  if (!model.language_head) return [section("decoder", "What it would say", el("p", {}, `${model.name} has no language-model head: it says nothing, and no layer can be read through one. Try a decoder, such as smollm2.`))];
  const box = el("div", { id: "decoder" });
  const about = model.language_head === "causal"
    ? "Every layer is put through the model's own head (logit lens): what it would say in the place of each token, from the tokens before it."
    : "Every layer is put through the model's own head (logit lens): what it would say in the place of each token, which is hidden in turn.";
  load(box, async (signal) => tokensByLayers(model.name, state.get("sentence"), signal), { lines: 12 }).then((filled) => filled && pickLayer());
  return [
    section("decoder", "What each layer would say", el("p", { class: "soft" }, about), box),
    section("typed", "Pairs and gaps", el("p", { class: "soft" }, "Scored as lamina pairs and lamina cloze score them."), typing()),
  ];
}

/**
 * @param {ModelVerdict} model
 * @param {boolean} answers whether it answers questions
 */
function parted(model, answers) {
  again = null;
  if (!model.ablatable.includes("heads") && !model.ablatable.includes("blocks")) return section("off", "Switch parts off", el("p", {}, `Parts of ${model.name} cannot be switched off: its code has no places for it that lamina knows.`));
  const { parts, show } = switching({ blocks: model.blocks, heads: model.heads, answers });
  again = show;
  return section("off", "Switch parts off", el("p", { class: "soft" }, "The sentence is read again without some heads or blocks; the whole model is beside it."), ...parts);
}

async function all() {
  const name = state.get("model");
  await load(byId("panels"), async () => {
    const [model, models] = await Promise.all([verdict(name), read("/questions/models")]);
    const answers = models.some((card) => card.name === name && card.answers);
    if (name !== state.get("model")) return;
    replace(byId("panels"), ...spoken(model), parted(model, answers));
  });
}

await ready;
state.onChange((changed) => {
  if ("model" in changed || "sentence" in changed) all();
  else if (Object.keys(changed).some((key) => key.startsWith("off"))) again?.();
});
await all();
