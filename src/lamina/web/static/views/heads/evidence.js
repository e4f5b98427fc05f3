// @ts-check
// What a head does in one sentence, and three rows of evidence.
/** @import { Child } from "../../shared/dom.js" */
/** @import { EvidenceRow, HeadCard } from "../../shared/api_types.js" */
import { el, svg } from "../../shared/dom.js";
import { short } from "../../shared/scales.js";
import { sign } from "./measures.js";

const KINDS = { finds: "What it finds", looks: "Where it looks", matters: "What it matters for" };
const WIDTH = 160;
const HEIGHT = 18;

/**
 * A dot with its interval, and a tick at what it is compared with: between 0 and 1, or as far as the numbers go.
 * @param {EvidenceRow} row
 */
function plot({ value, low, high, beside, unit }) {
  if (value === null) return null;
  const all = [value, low, high, beside, 0].filter((number) => number !== null);
  const [from, to] = unit === "accuracy" || unit === "share of attention" ? [0, 1] : [Math.min(...all), Math.max(...all)];
  const x = (/** @type {number} */ amount) => 5 + ((amount - from) / (to - from || 1)) * (WIDTH - 10);
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, class: "interval", "aria-hidden": "true" },
    svg("line", { x1: x(from), x2: x(to), y1: HEIGHT / 2, y2: HEIGHT / 2, class: "axis" }),
    beside === null ? null : svg("line", { x1: x(beside), x2: x(beside), y1: 2, y2: HEIGHT - 2, class: "beside" }),
    low === null || high === null ? null : svg("line", { x1: x(low), x2: x(high), y1: HEIGHT / 2, y2: HEIGHT / 2, class: "bar" }),
    svg("circle", { cx: x(value), cy: HEIGHT / 2, r: 2.5, class: "dot" }),
  );
}

/**
 * @param {EvidenceRow} row
 * @param {(needs: string[]) => Child} compute
 */
function line(row, compute) {
  const name = el("th", { scope: "row" }, KINDS[row.kind]);
  if (row.status === "missing") return el("tr", { "data-status": "missing" }, name, el("td", {}, `Not known: ${row.note}. `, compute(row.needs)));
  const interval = row.low === null ? "" : ` [${short(row.low)}, ${short(row.high)}]`;
  const beside = `${row.rule}${row.beside === null ? "" : ` ${short(row.beside)}`}`;
  return el(
    "tr",
    { "data-status": row.status },
    name,
    el(
      "td",
      {},
      el("p", {}, row.title, el("span", { class: "soft" }, ` · ${row.note}`)),
      el("p", { class: "against" }, el("span", {}, el("strong", {}, short(row.value)), `${interval} ${row.unit}`), plot(row), el("span", {}, beside)),
    ),
  );
}

/**
 * @param {HeadCard} card
 * @param {(needs: string[]) => Child} compute a button for what was not computed, or how to
 */
export function explanation(card, compute) {
  return [
    el("p", { class: "says" }, card.role ? el("span", { class: "kind" }, sign(card.role), card.role) : null, card.says),
    el(
      "table",
      { class: "evidence" },
      el("caption", {}, "Evidence: numbers with 95 % intervals; the tick is what each is compared with."),
      el("tbody", {}, card.evidence.map((row) => line(row, compute))),
    ),
  ];
}
