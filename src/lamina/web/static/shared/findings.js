// @ts-check
// What was found, in sentences: the status says whether the interval carries it.
/** @import { FindingCard } from "./api_types.js" */
import { el } from "./dom.js";

const MEANING = {
  clear: "the 95 % interval clears what it is compared with",
  open: "the interval holds what it is compared with: undecided",
  null: "a precise nothing",
};

/** @param {(FindingCard & { link?: HTMLElement })[]} findings with a link to where each comes from, if wanted */
export function listed(findings) {
  if (!findings.length) return null;
  return el(
    "ul",
    { class: "findings", "aria-label": "What was found" },
    findings.map(({ text, status, link }) => el("li", { "data-status": status }, el("span", { class: "badge", title: MEANING[status] }, status), ` ${text} `, link)),
  );
}
