// @ts-check
// The card of the head that is looked at: what it does, and a switch; its evidence and examples are below, with all heads.
/** @import { Intervention } from "../../shared/api_types.js" */
import { post } from "../../shared/api.js";
import { byId, el, replace } from "../../shared/dom.js";
import * as state from "../../shared/state.js";
import { load } from "../../shared/waiting.js";
import { headSwitch } from "../../panels/switch.js";

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
    return [
      headSwitch(head, onSwitch),
      el("p", { class: "says" }, card.says),
      el("p", {}, el("a", { href: "#heads" }, "Where it looks, its evidence, examples and failures"), " are below; ", el("a", { href: state.address(`/head/${head}`) }, `the page of head ${head}`), " has heads like it, in other models too."),
    ];
  }, { lines: 5 });
}
