// One head's card: what it does on the sentence, and what saved results say of it.
import { el, replace, table } from "./dom.js";
import { ranked } from "./heads_atlas.js";
import { headMap } from "./heads_map.js";
import { short } from "./heads_style.js";

const DIRECTIONS = { dependent: "word → its head", head: "its head → word" };
const UNITS = { broad: "nats of entropy", syntactic: "accuracy", coreference: "accuracy" };

const interval = (row) => (row.low === null ? "" : `${short(row.low)}–${short(row.high)}`);

function does({ behaviour, what, value, over }) {
  const unit = UNITS[behaviour] ?? "of attention";
  const held = behaviour in UNITS && behaviour !== "broad" ? `simple rule ${short(over)}` : `over ${short(over)}`;
  return el("li", {}, el("strong", {}, behaviour), what ? ` (${what})` : "", `: ${short(value)} ${unit}, ${held}`);
}

function role(card) {
  if (card.missing.includes("headmap")) return [];
  const said =
    card.role === "other"
      ? el("p", {}, "No role: nothing it does passes a threshold.")
      : el("p", { class: "role" }, "Role: ", el("strong", {}, card.role), ".");
  return [said, card.behaviours.length ? el("ul", {}, card.behaviours.map(does)) : null];
}

function relation(row) {
  return [
    `${row.relation}${row.held_out ? " ★" : ""}`,
    short(row.accuracy),
    interval(row),
    `${short(row.offset_accuracy)} (${row.offset > 0 ? "+" : ""}${row.offset})`,
    row.count,
    DIRECTIONS[row.direction],
  ];
}

function relations(card) {
  if (!card.relations.length) return [];
  const columns = ["relation", "accuracy", "95 %", "best offset", "words", "attention from"];
  const clear = card.relations.filter((row) => row.low > row.offset_accuracy).map((row) => row.relation);
  return [
    el("h3", {}, "Relations it finds"),
    el("p", {}, clear.length ? `Clearly better than any fixed offset: ${clear.join(", ")}.` : "None clearly better than a fixed offset does."),
    table(columns, card.relations.map(relation), { caption: "Dependencies, by lead over the best fixed offset" }),
    el("p", { class: "soft" }, "★ picked for this relation on one half of the documents and scored on the other. The others are scored on the whole split: the best of many is a little lucky."),
  ];
}

function coreference(card) {
  if (!card.coreference.length) return [];
  const rows = card.coreference.map((row) => [row.mention_type, short(row.accuracy), interval(row), row.count]);
  return [el("h3", {}, "Antecedents it finds"), table(["mentions", "accuracy", "95 %", "count"], rows)];
}

function pattern(card) {
  if (!card.pattern.length) return [];
  const rows = card.pattern.map((row) => [row.title, short(row.value), interval(row), short(row.baseline), row.rank === null ? "" : `${row.rank} of ${row.of}`]);
  const shapes = card.shapes.filter((row) => row.share >= 0.005).sort((one, other) => other.share - one.share);
  return [
    el("h3", {}, "Its pattern on a corpus"),
    shapes.length ? el("p", {}, `Of its maps ${shapes.map((row) => `${Math.round(100 * row.share)} % are ${row.pattern}`).join(", ")}.`) : null,
    table(["attention", "mean", "95 %", "uniform", "rank"], rows, { caption: "Means over a corpus; rank 1 has the most" }),
  ];
}

function neighbours(card, onMove) {
  if (!card.points.length) return [];
  const list = card.neighbours.map((each) => {
    const name = `${each.layer}-${each.head}`;
    const move = el("button", { type: "button", "data-head": name, title: each.behaviour }, `${name} `, el("span", { class: "soft" }, `${each.divergence.toFixed(2)}`));
    move.addEventListener("click", () => onMove(name));
    return move;
  });
  return [
    el("h3", {}, "Its neighbours on the map of heads"),
    headMap(card.head, card, onMove),
    el("p", { class: "soft" }, "Nearest by mean Jensen-Shannon divergence, in nats a token (0 is alike, 0.69 the most):"),
    el("div", { class: "words neighbours" }, list),
  ];
}

function sources(card) {
  const said = card.sources.map((each) => `${each.analysis} on ${each.corpus} (${each.name}, ${each.created.slice(0, 10)})`);
  return said.length ? el("p", { class: "soft" }, `From: ${said.join("; ")}.`) : el("p", {}, "No saved result of this model speaks of its heads yet; compute one below the atlas.");
}

function onSentence(card, measures) {
  const [layer, place] = card.head.split("-").map((part) => part - 1);
  const rows = measures.map((measure) => {
    const value = measure.values[layer][place];
    return [measure.title, short(value), short(measure.baseline), value === null ? "" : ranked(measure, value)];
  });
  return [
    el("h3", {}, "On this sentence"),
    table(["attention", "mean", "uniform", "rank"], rows, { caption: "Means over its tokens; shares of attention, entropies in nats" }),
  ];
}

// `measures` are those of the sentence; `onMove(head)` when a neighbour is clicked.
export function showCard(box, card, measures, onMove) {
  const parts = [role(card), neighbours(card, onMove), relations(card), coreference(card), pattern(card), onSentence(card, measures), sources(card)];
  replace(box, parts.flat().filter(Boolean));
}
