// @ts-check
// What a model is and whether its numbers can be trusted: its passport, requested when the card is opened.
/** @import { ModelCard, ModelVerdict } from "./api_types.js" */
import { read } from "./api.js";
import { byId, el, inside, message, replace, table } from "./dom.js";
import * as state from "./state.js";

/** @type {Map<string, Promise<ModelVerdict>>} */
const pending = new Map();

/**
 * A model's verdict; asked for once.
 * @param {string} name
 */
export function verdict(name) {
  const known = pending.get(name);
  if (known) return known;
  const card = read(`/models/${encodeURIComponent(name)}`);
  card.catch(() => pending.delete(name));
  pending.set(name, card);
  return card;
}

/** @param {ModelVerdict} card */
function summary({ name, checks }) {
  const tried = checks.filter((check) => check.verdict !== "not applicable");
  const failed = tried.filter((check) => check.verdict === "fails");
  if (!failed.length) return `${name}: all ${tried.length} checks hold`;
  return el("span", { class: "wrong" }, `${name} fails: ${failed.map((check) => check.name).join(", ")}`);
}

/** @param {ModelVerdict} card */
function facts(card) {
  const heads = card.heads ? `${card.heads} heads each` : "no attention heads";
  const head = card.language_head ? `a ${card.language_head} language-model head` : "no language-model head";
  const limit = card.limit === null ? "texts of any length" : `at most ${card.limit.toLocaleString("en")} tokens`;
  const direction = card.causal ? "causal: a token sees only the tokens before it" : "a token sees the whole text";
  return `${card.architecture}: ${card.blocks} blocks, ${heads}, ${card.width} wide; ${limit}; ${direction}; ${card.maps}; ${head}; can be ablated: ${card.ablatable.join(", ") || "nothing"}.`;
}

/** @param {ModelVerdict} card */
function whole(card) {
  return [
    el("p", {}, facts(card)),
    card.verdict.length ? el("ul", { class: "wrong" }, card.verdict.map((sentence) => el("li", {}, sentence))) : null,
    table(["check", "verdict", "what was measured"], card.checks.map(({ name, verdict: outcome, message }) => [name, outcome, message])),
    el("p", { class: "soft" }, `Examined in ${card.seconds.toFixed(1)} s with transformers ${card.transformers}.`),
  ];
}

/**
 * Keeps the card of the chosen model on the page; a model that is not in memory is examined when the card is opened.
 * @param {ModelCard[]} models
 */
export function keepCard(models) {
  const box = byId("model-card", HTMLDetailsElement);
  const [title, body] = [inside(box, "summary"), inside(box, "div")];

  async function fill() {
    const name = state.get("model");
    replace(title, `About ${name}`);
    replace(body, el("p", { class: "soft" }, "Examining the model ..."));
    if (!box.open && !pending.has(name) && !models.find((model) => model.name === name)?.loaded) return;
    try {
      const card = await verdict(name);
      if (name !== state.get("model")) return; // another was chosen meanwhile
      replace(title, summary(card));
      replace(body, whole(card));
    } catch (error) {
      replace(body, el("p", { class: "wrong" }, message(error)));
    }
  }

  box.addEventListener("toggle", fill);
  state.onChange((changed) => {
    if ("model" in changed) fill();
  });
  fill();
}
