// @ts-check
// What one of the models lacks to be compared with the others, and one button that measures all of it.
/** @import { JobRequest, MissingResult } from "../../shared/api_types.js" */
import { el } from "../../shared/dom.js";
import { duration } from "../../shared/durations.js";
import { button } from "../../shared/jobs.js";

/** @param {MissingResult} cell */
export function takes({ state, seconds }) {
  if (state === "known" && seconds !== null) return `about ${duration(seconds)}`;
  return state === "off" ? "not estimated: the server was started without" : "being estimated …";
}

/** @param {MissingResult[]} all */
export const unsettled = (all) => all.some(({ state }) => state === "waiting" || state === "trying");

/** @param {MissingResult[]} all */
export function missing(all) {
  const [possible, not] = [all.filter(({ state }) => state !== "failed"), all.filter(({ state }) => state === "failed")];
  const known = possible.flatMap(({ state, seconds }) => (state === "known" && seconds !== null ? [seconds] : []));
  const sum = duration(known.reduce((one, other) => one + other, 0));
  const estimate = !known.length ? "" : known.length === possible.length ? ` (about ${sum})` : ` (about ${sum} for ${known.length} of ${possible.length})`;
  return [
    possible.length
      ? el("div", {}, button(`Measure what is missing${estimate}`, () => possible.map(({ wanted }) => /** @type {JobRequest} */ (wanted))))
      : el("p", { class: "soft" }, "Nothing is missing that these models can be measured for."),
    possible.length ? el("ul", { class: "lacking" }, possible.map((cell) => el("li", {}, el("strong", {}, cell.title), ` of ${cell.model}: `, el("span", { class: "soft" }, takes(cell))))) : null,
    not.length ? el("details", {}, el("summary", {}, `${not.length} cannot be measured`), el("ul", {}, not.map(({ title, model, why }) => el("li", {}, `${title} of ${model}: ${why}`)))) : null,
  ];
}
