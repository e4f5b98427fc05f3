// @ts-check
// Everything that is known about one head: on the sentence, and what saved results say of it.
/** @import { HeadCard, HeadMeasure } from "../../shared/api_types.js" */
import { el, replace, table } from "../../shared/dom.js";
import { short } from "../../shared/scales.js";
import { headMap } from "./map.js";
import { ranked } from "./measures.js";
import { placeOf } from "./style.js";

/** @typedef {Record<string, any>} Row of a table of a saved result */
/** @typedef {(head: string) => void} OnMove */

/** @type {Record<string, string>} */
const DIRECTIONS = { dependent: "word → its head", head: "its head → word" };

const interval = (/** @type {Row} */ row) => (row.low === null ? "" : `${short(row.low)}–${short(row.high)}`);

/** @param {Row} row */
const lead = (row) => (row.difference === null ? "" : `${short(row.difference)} (${short(row.diff_low)} to ${short(row.diff_high)})`);

/** @param {Row} row */
function does(row) {
  const { behaviour, what, value, unit, rule, over, beside, status } = row;
  const ahead = status === "untested" ? "not tested" : `${status === "clear" ? "clearly" : "not clearly"} more than ${beside}, by ${lead(row)}`;
  return el("li", {}, el("strong", {}, behaviour), what ? ` (${what})` : "", `: ${short(value)} ${unit}, ${rule} ${short(over)}; ${ahead}`);
}

/** @param {HeadCard} card */
function role(card) {
  if (!card.role) return [];
  if (!card.behaviours.length) return [];
  return [el("h3", {}, "Why it has its role"), el("ul", {}, card.behaviours.map(does))];
}

/** @param {Row} row */
function relation(row) {
  return [
    `${row.relation}${row.held_out ? " ★" : ""}`,
    short(row.accuracy),
    interval(row),
    `${short(row.offset_accuracy)} (${row.offset > 0 ? "+" : ""}${row.offset})`,
    lead(row),
    row.p_adjusted === null ? "" : row.p_adjusted < 0.001 ? "< 0.001" : row.p_adjusted.toFixed(3),
    row.count,
    DIRECTIONS[row.direction],
  ];
}

/** @param {HeadCard} card */
function relations(card) {
  if (!card.relations.length) return [];
  const columns = ["relation", "accuracy", "95 %", "best offset", "lead (95 %)", "p (corrected)", "words", "attention from"];
  const clear = card.relations.filter((row) => row.ahead).map((row) => row.relation);
  return [
    el("h3", {}, "Relations it finds"),
    el("p", {}, clear.length ? `Clearly better than any fixed offset: ${clear.join(", ")}.` : "None clearly better than a fixed offset does."),
    table(columns, card.relations.map(relation), { caption: "Dependencies, by lead over the best fixed offset" }),
    el("p", { class: "soft" }, "★ the best head of this relation: chosen on one half of the documents and scored on the other, both ways. The others are scored on the whole split, where the best of many is a little lucky. Head and offset are compared on the same documents; p is corrected over all heads, relations and directions."),
  ];
}

/** @param {HeadCard} card */
function coreference(card) {
  if (!card.coreference.length) return [];
  const rows = card.coreference.map((row) => [row.mention_type, short(row.accuracy), interval(row), row.count]);
  return [el("h3", {}, "Antecedents it finds"), table(["mentions", "accuracy", "95 %", "count"], rows)];
}

/** @param {HeadCard} card */
function matters(card) {
  if (!card.matters.length) return [];
  const rows = card.matters.map((row) => [
    `${row.role || "any head"}${row.matters ? " ★" : ""}`,
    row.target,
    short(row.effect),
    interval(row),
    short(row.others),
    lead(row),
    row.p_adjusted === null ? "" : row.p_adjusted < 0.001 ? "< 0.001" : row.p_adjusted.toFixed(3),
  ]);
  return [
    el("h3", {}, "What it matters for"),
    table(["role", "what is scored", "effect without it", "95 %", "other heads of its layer", "difference (95 %)", "p (corrected)"], rows, { caption: "Scores without this head minus those with it; of a loss, above 0 is worse" }),
    el("p", { class: "soft" }, "★ p below .05: for a role, of the difference from the other heads of its layer; otherwise of the effect itself."),
  ];
}

/** @param {HeadCard} card */
function pattern(card) {
  if (!card.pattern.length) return [];
  const rows = card.pattern.map((row) => [row.title, short(row.value), interval(row), short(row.baseline), row.rank === null ? "" : `${row.rank} of ${row.of}`]);
  const shapes = card.shapes.filter((row) => row.share >= 0.005).sort((one, other) => other.share - one.share);
  return [
    el("h3", {}, "Its pattern on a corpus"),
    shapes.length ? el("p", {}, `Of its maps ${shapes.map((row) => `${Math.round(100 * row.share)} % are ${row.pattern}`).join(", ")}, by a rule that agrees with labels by eye on 67 % of maps.`) : null,
    table(["attention", "mean", "95 %", "uniform", "rank"], rows, { caption: "Means over a corpus; rank 1 has the most" }),
  ];
}

/**
 * @param {HeadCard} card
 * @param {OnMove} onMove
 */
function neighbours(card, onMove) {
  if (!card.points.length) return [];
  const list = card.neighbours.map((neighbour) => {
    const name = `${neighbour.layer}-${neighbour.head}`;
    const move = el("button", { type: "button", "data-head": name, title: neighbour.behaviour }, `${name} `, el("span", { class: "soft" }, `${neighbour.divergence.toFixed(2)}`));
    move.addEventListener("click", () => onMove(name));
    return move;
  });
  return [
    el("h3", {}, "Its neighbours on the map of heads"),
    headMap(card.head, card, onMove),
    el("p", { class: "soft" }, "Nearest by mean Jensen-Shannon divergence, in nats per token (0 is alike, 0.69 the most):"),
    el("div", { class: "words neighbours" }, list),
  ];
}

/** @param {HeadCard} card */
function sources(card) {
  const text = card.sources.map((source) => `${source.analysis} on ${source.corpus} (${source.name}, ${source.created.slice(0, 10)})`);
  return text.length ? el("p", { class: "soft" }, `From: ${text.join("; ")}.`) : el("p", {}, "No saved result is about the heads of this model yet; compute one below the atlas.");
}

/**
 * @param {HeadCard} card
 * @param {HeadMeasure[]} measures
 */
function onSentence(card, measures) {
  if (!measures.length) return [];
  const [layer, place] = placeOf(card.head);
  const rows = measures.map((measure) => {
    const value = measure.values[layer][place];
    return [measure.title, short(value), short(measure.baseline), value === null ? "" : ranked(measure, value)];
  });
  return [
    el("h3", {}, "On this sentence"),
    table(["attention", "mean", "uniform", "rank"], rows, { caption: "Means over its tokens; shares of attention, entropies in nats" }),
  ];
}

/**
 * `measures` are those of the sentence; `onMove` when a neighbour is clicked.
 * @param {HTMLElement} box
 * @param {HeadCard} card
 * @param {HeadMeasure[]} measures
 * @param {OnMove} onMove
 */
export function showCard(box, card, measures, onMove) {
  replace(box, role(card), neighbours(card, onMove), relations(card), coreference(card), matters(card), pattern(card), onSentence(card, measures), sources(card));
}
