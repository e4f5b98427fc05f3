// @ts-check
// One sentence through several models: what their probes believe, word by word.
/** @import { Belief, LabelBelief, SentenceView } from "../../shared/api_types.js" */
import { el } from "../../shared/dom.js";
import { bars } from "../sentence/bars.js";

const atLast = (/** @type {LabelBelief} */ { probabilities }) => probabilities[probabilities.length - 1];

const strongest = (/** @type {Belief} */ belief) => belief.labels.toSorted((a, b) => atLast(b) - atLast(a))[0];

/**
 * Word -> its strongest label.
 * @param {SentenceView} lens
 */
function ofWords(lens) {
  /** @type {Map<number, LabelBelief>} */
  const labels = new Map();
  for (const belief of lens.beliefs) if (belief.spans.length === 1) labels.set(belief.spans[0][0], strongest(belief));
  return labels;
}

/**
 * @param {string[]} names
 * @param {SentenceView[]} lenses
 */
export function beliefs(names, lenses) {
  const some = names.flatMap((name, index) => (lenses[index].beliefs.length ? [{ name, labels: ofWords(lenses[index]) }] : []));
  const without = names.filter((_, index) => !lenses[index].beliefs.length);
  const warning = without.length ? el("p", { class: "soft" }, `There are no trained probes of ${without.join(", ")} among the results; train them on the tab Runs (probe).`) : null;
  if (some.length < 2) return [warning];
  const differs = (/** @type {number} */ index) => new Set(some.map(({ labels }) => labels.get(index)?.label)).size > 1;
  const rows = lenses[0].words.map((word, index) => {
    const cells = some.map(({ labels }) => {
      const label = labels.get(index);
      return el("td", {}, label ? bars(label, 0) : "–");
    });
    return el("tr", { class: differs(index) ? "differs" : null }, el("th", { scope: "row" }, word), cells, el("td", {}, differs(index) ? "differ" : ""));
  });
  const count = lenses[0].words.filter((_, index) => differs(index)).length;
  const head = el("thead", {}, el("tr", {}, ["word", ...some.map(({ name }) => name), "differ"].map((name) => el("th", { scope: "col" }, name))));
  return [warning, el("p", { class: "finding" }, `The models differ on ${count} of ${rows.length} words.`), el("div", { class: "scroll beliefs", tabindex: "0", role: "region", "aria-label": "Beliefs of the models" }, el("table", {}, head, el("tbody", {}, rows)))];
}
