// @ts-check
// How alike two models are inside, whatever their depth: CKA of every pair of layers, and the best match of every head.
/** @import { HeadMatchCard, ModelCorrespondence } from "../../shared/api_types.js" */
import { el, table } from "../../shared/dom.js";
import { sequential, short } from "../../shared/scales.js";
import * as state from "../../shared/state.js";

const FIRST = 12; // matches that are seen at once

/**
 * The layer of the other model that is most alike, for each layer.
 * @param {(number | null)[][]} cka
 */
const nearest = (cka) => cka.map((row) => row.reduce((/** @type {number} */ best, value, at) => ((value ?? -Infinity) > (row[best] ?? -Infinity) ? at : best), 0));

/** @param {ModelCorrespondence} found */
function matrix({ cka, models: [one, other] }) {
  const best = nearest(cka);
  const cell = (/** @type {number | null} */ value, /** @type {number} */ row, /** @type {number} */ column) => {
    if (value === null) return el("td", { class: "none" }, "–");
    const { fill, text } = sequential(value);
    return el("td", { class: best[row] === column ? "best" : null, style: `background: ${fill}; color: ${text}`, title: `layer ${row} of ${one}, layer ${column} of ${other}: ${value.toFixed(3)}` }, short(value));
  };
  return el(
    "div",
    { class: "scroll whole", tabindex: "0", role: "region", "aria-label": `CKA of layers of ${one} and ${other}` },
    el(
      "table",
      { class: "cka" },
      el("caption", {}, `Rows: layers of ${one}; columns: layers of ${other}. Outlined: the most alike layer of ${other}.`),
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, el("span", { class: "unseen" }, "layer")), cka[0].map((_, column) => el("th", { scope: "col" }, String(column))))),
      el("tbody", {}, cka.map((row, layer) => el("tr", {}, el("th", { scope: "row" }, String(layer)), row.map((value, column) => cell(value, layer, column))))),
    ),
  );
}

/** @param {ModelCorrespondence} found */
function matches({ heads, directed, models: [one, other] }) {
  if (!heads.length) return [el("p", {}, "One of these models has no attention maps, so that no heads are matched.")];
  const order = heads.toSorted((a, b) => Number(b.agrees && b.mutual) - Number(a.agrees && a.mutual) || b.overlap - b.others - (a.overlap - a.others));
  const link = (/** @type {string} */ model, /** @type {string} */ head) => el("a", { href: state.address("/head", { model, head }) }, head);
  const row = (/** @type {HeadMatchCard} */ { head, match, overlap, others, agrees, mutual }) => [link(one, head), link(other, match), short(overlap), short(others), mutual ? "yes" : "no", agrees ? "yes" : "no"];
  const columns = [`head of ${one}`, `head of ${other}`, "overlap", "mean of all its heads", "mutual", "both halves agree"];
  const sure = heads.filter(({ agrees, mutual }) => agrees && mutual).length;
  const rows = order.map(row);
  return [
    el("p", {}, `${sure} of ${heads.length} heads of ${one} have a match in ${other} that is mutual and that both halves of the texts choose.`),
    table(columns, rows.slice(0, FIRST)),
    rows.length > FIRST ? el("details", {}, el("summary", {}, `The other ${rows.length - FIRST} heads`), table(columns, rows.slice(FIRST))) : null,
    el("p", { class: "soft" }, `Overlap: how much two heads attend to the same words (Bhattacharyya coefficient of attention between ${directed ? "a word and earlier ones" : "words"}; to sinks and to the word itself it is left out): 1 alike, 0 nothing in common. It is measured on sentences that did not choose the match. Not tested.`),
  ];
}

/** @param {ModelCorrespondence} found */
export function inside(found) {
  const [one, other] = found.models;
  const best = nearest(found.cka);
  const flat = found.cka.flatMap((row, layer) => row.map((value, column) => ({ value: value ?? -Infinity, layer, column })));
  const top = flat.reduce((most, each) => (each.value > most.value ? each : most));
  return [
    el("p", { class: "finding" }, `Most alike are layer ${top.layer} of ${one} and layer ${top.column} of ${other} (CKA ${short(top.value)}). The last layer of ${one} is most like layer ${best[best.length - 1]} of ${other} (${short(found.cka[found.cka.length - 1][best[best.length - 1]])}).`),
    matrix(found),
    el("p", { class: "soft" }, `Debiased linear CKA of the vectors of ${found.words} words in ${found.sentences} sentences of ${found.corpus}: 1 for spaces that differ by rotation and scale, about 0 for unrelated ones. The first word of a decoder, a sink, is left out. Not tested.`),
    el("h3", {}, "Heads that match"),
    ...matches(found),
  ];
}
