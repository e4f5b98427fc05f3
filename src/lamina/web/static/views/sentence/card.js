// @ts-check
// The card of the head that is looked at: what it does, its evidence, and a switch.
/** @import { Intervention } from "../../shared/api_types.js" */
import { post } from "../../shared/api.js";
import { byId, el, replace } from "../../shared/dom.js";
import * as state from "../../shared/state.js";
import { load } from "../../shared/waiting.js";
import { headSwitch } from "../../panels/switch.js";
import { told } from "../heads/evidence.js";

/**
 * @param {string} head
 * @param {(found: Intervention | null) => void} onSwitch
 */
export function showHead(head, onSwitch) {
  const box = byId("head");
  box.hidden = !head;
  onSwitch(null);
  if (!head) return;
  const close = el("button", { type: "button", "aria-label": `Close the card of head ${head}`, onclick: () => state.set({ head: "" }) }, "Close");
  replace(byId("head-title"), `Head ${head} `, close);
  load(byId("head-card"), async (signal) => {
    const card = await post("/heads/card", { model: state.get("model"), head }, signal);
    const missing = (/** @type {string[]} */ needs) => el("span", { class: "soft" }, `Its page offers to compute it (${needs[0]}).`);
    return [
      headSwitch(head, onSwitch),
      ...told(card, missing),
      el("p", {}, el("a", { href: state.address("/heads", { head }) }, `The page of head ${head}`), ": examples, failures, where it looks, and heads like it."),
    ];
  }, { lines: 5 });
}
