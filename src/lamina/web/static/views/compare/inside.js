// @ts-check
// How alike two models are inside, whatever their depth: CKA of every pair of layers, and the best match of every head.
/** @import { CorrespondenceAnswer, HeadMatchCard, JobRequest, ModelCorrespondence } from "../../shared/api_types.js" */
import { el, table } from "../../shared/dom.js";
import { listed } from "../../shared/findings.js";
import { button } from "../../shared/jobs.js";
import { sequential, short } from "../../shared/scales.js";
import * as state from "../../shared/state.js";
import { takes } from "./missing.js";

const FIRST = 12; // matches that are seen at once

/** @param {ModelCorrespondence} answer */
function matrix({ cka, twin, nearest, models: [one, other] }) {
  const cell = (/** @type {number | null} */ value, /** @type {number} */ row, /** @type {number} */ column) => {
    if (value === null) return el("td", { class: "none" }, "–");
    const { fill, text } = sequential(value);
    const beside = twin[row]?.[column] ?? null;
    const title = `layer ${row} of ${one}, layer ${column} of ${other}: ${value.toFixed(3)}${beside === null ? "" : `; with an untrained twin of ${other} ${beside.toFixed(3)}`}`;
    return el("td", { class: nearest[row][column] ? "best" : null, style: `background: ${fill}; color: ${text}`, title }, short(value));
  };
  return el(
    "div",
    { class: "scroll whole", tabindex: "0", role: "region", "aria-label": `CKA of layers of ${one} and ${other}` },
    el(
      "table",
      { class: "cka" },
      el("caption", {}, `Rows: layers of ${one}; columns: layers of ${other}. Outlined: the layers of ${other} that can be the most alike (95 %).`),
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, el("span", { class: "unseen" }, "layer")), cka[0].map((_, column) => el("th", { scope: "col" }, String(column))))),
      el("tbody", {}, cka.map((row, layer) => el("tr", {}, el("th", { scope: "row" }, String(layer)), row.map((value, column) => cell(value, layer, column))))),
    ),
  );
}

/** @param {ModelCorrespondence} answer */
function matches({ heads, directed, models: [one, other] }) {
  if (!heads.length) return [el("p", {}, "One of these models has no attention maps, so that no heads are matched.")];
  const order = heads.toSorted((a, b) => Number(b.mutual) - Number(a.mutual) || b.overlap - b.others - (a.overlap - a.others));
  const link = (/** @type {string} */ model, /** @type {string} */ head) => el("a", { href: state.address("/head", { model, head }) }, head);
  const tested = (/** @type {number | null} */ p) => (p === null ? "n/a" : p < 0.001 ? "< .001" : p.toFixed(3).replace("0.", "."));
  const row = (/** @type {HeadMatchCard} */ { head, match, overlap, others, p, agrees, mutual }) => [link(one, head), link(other, match), short(overlap), short(others), tested(p), mutual ? "yes" : "no", agrees ? "yes" : "no"];
  const columns = [`head of ${one}`, `head of ${other}`, "overlap", "mean of all its heads", "p", "mutual", "chosen again"];
  const rows = order.map(row);
  return [
    table(columns, rows.slice(0, FIRST)),
    rows.length > FIRST ? el("details", {}, el("summary", {}, `The other ${rows.length - FIRST} heads`), table(columns, rows.slice(FIRST))) : null,
    el("p", { class: "soft" }, `Overlap: how much two heads attend to the same words (Bhattacharyya coefficient of attention between ${directed ? "a word and earlier ones" : "words"}; sinks and the word itself are left out): 1 alike, 0 nothing in common. It is measured on documents that did not choose the match (“chosen again”: they would have chosen the same); “mutual”: the match's own best match is this head; p, corrected for all heads, is of its difference from the mean over all heads of ${other}.`),
  ];
}

/**
 * @param {CorrespondenceAnswer} answer
 * @param {string[]} names
 */
export function inside({ correspondence: answer, missing }, [one, other]) {
  if (answer)
    return [
      listed(answer.findings),
      matrix(answer),
      el("p", { class: "soft" }, `Debiased linear CKA of the vectors of ${answer.words} words in ${answer.texts} sentences of ${answer.corpus}: 1 for spaces that differ by rotation and scale, about 0 for unrelated ones. The first word of a decoder, a sink, is left out.`),
      el("h3", {}, "Heads that match"),
      ...matches(answer),
    ];
  if (!missing) return [el("p", {}, "Layers and heads of two trained models are matched; a random twin is the baseline of that.")];
  return unmeasured(missing, one, other);
}

/**
 * A button that measures which layers and heads correspond.
 * @param {NonNullable<CorrespondenceAnswer["missing"]>} missing
 * @param {string} one
 * @param {string} other
 */
export function unmeasured(missing, one, other) {
  if (missing.state === "failed") return [el("p", {}, `Layers and heads of ${one} and ${other} cannot be matched: ${missing.why}`)];
  return [
    el("p", {}, `Not measured yet for ${one} and ${other} (${takes(missing)}). `),
    button(`Measure which layers and heads of ${one} and ${other} correspond`, () => /** @type {JobRequest} */ (missing.wanted)),
  ];
}
