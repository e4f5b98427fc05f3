// @ts-check
// Findings as sentences, each with the status of the contrast that was tested for it.
/** @import { FindingCard, ResultSummary } from "./api_types.js" */
import { el } from "./dom.js";

const MEANING = {
  clear: "shown: p below .05 after correction for all tests of its family",
  null: "shown to be too small to mean anything",
  open: "neither shown nor ruled out",
  untested: "no outcome could have shown it: too few documents, or no score",
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

/**
 * The badge of a result that saw less than another one like it.
 * @param {Pick<ResultSummary, "partial">} result
 */
export const part = ({ partial }) => (partial ? el("span", { class: "badge part", title: partial }, "partial") : null);
