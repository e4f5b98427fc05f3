// @ts-check
// Which models are compared: any number, one of them pinned as the baseline; what cannot be compared is not offered.
/** @import { ComparisonOffer } from "../../shared/api_types.js" */
import { read } from "../../shared/api.js";
import { el, replace } from "../../shared/dom.js";
import * as state from "../../shared/state.js";

/** The pinned one: the model that is looked at, unless another was pinned here. */
const pinned = () => state.get("baseline", state.get("model"));

const NONE = "none"; // in the address, where no other model is ticked

/** The pinned one first, then those ticked. */
export const picked = () => [pinned(), ...state.getAll("with").filter((name) => name !== pinned() && name !== NONE)];

/**
 * What shares most comes first, models before twins; what shares nothing comes last.
 * @param {ComparisonOffer[]} models
 */
const sorted = (models) => models.toSorted((one, other) => Number(!one.shares.length) - Number(!other.shares.length) || Number(one.twin) - Number(other.twin) || other.shares.length - one.shares.length);

/**
 * The offers for the pinned model; what the address names and cannot be compared is dropped from it.
 * @param {AbortSignal} signal
 */
export async function offers(signal) {
  const answer = await read(`/compare/models/${encodeURIComponent(pinned())}`, signal);
  const offered = answer.filter(({ why }) => !why).map(({ name }) => name);
  const wanted = state.getAll("with");
  const others = wanted.filter((name) => name === NONE || offered.includes(name));
  const order = sorted(answer);
  // A first visit compares with the model that shares most; a server with one, with its twin.
  const first = wanted.length ? others : order.filter(({ why }) => !why).slice(0, 1).map(({ name }) => name);
  if (first.join() !== wanted.join()) state.set({ with: first }, { quiet: true });
  return order;
}

/**
 * @param {HTMLElement} box
 * @param {ComparisonOffer[]} models
 */
export function showPicker(box, models) {
  const baseline = pinned();
  const chosen = picked();
  const item = (/** @type {ComparisonOffer} */ { name, title, shares }) => {
    const change = () => {
      const others = chosen.filter((other) => other !== name && other !== baseline);
      if (!chosen.includes(name)) others.push(name);
      state.set({ with: others.length ? others : NONE });
    };
    const pin = () => state.set({ baseline: name === state.get("model") ? "" : name, with: [baseline, ...chosen.filter((other) => other !== name && other !== baseline)] });
    const tick = el("input", { type: "checkbox", name: "with", value: name, checked: chosen.includes(name), onchange: change });
    const has = shares.length ? `shares: ${shares.join(", ")}` : "shares no saved result; heads on the sentence can be compared";
    return el("li", { "data-model": name }, el("label", {}, tick, ` ${title}`), el("button", { type: "button", class: "pin", "aria-label": `Pin ${title} as the baseline`, onclick: pin }, "Pin"), el("p", { class: "soft" }, has));
  };
  const first = el("li", { "data-model": baseline, "data-baseline": "" }, el("strong", {}, baseline), el("span", { class: "badge" }, "baseline"), el("p", { class: "soft" }, "every difference is another model minus this one"));
  const refused = models.filter(({ why }) => why);
  replace(
    box,
    el("fieldset", { class: "fieldset" }, el("legend", { class: "unseen" }, "Models to compare with the baseline"), el("ul", { class: "picker" }, first, models.filter(({ why }) => !why).map(item))),
    refused.length ? el("details", {}, el("summary", {}, `Not offered: ${refused.length}`), el("ul", {}, refused.map(({ title, why }) => el("li", {}, el("strong", {}, title), `: ${why}.`)))) : null,
  );
}
