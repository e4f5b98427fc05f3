// @ts-check
// Heads and blocks switched off: beliefs, attention and answers with and without them.
/** @import { Belief, HeadMeasure, Intervention, InterventionRequest } from "../shared/api_types.js" */
import { post } from "../shared/api.js";
import { el, replace, table } from "../shared/dom.js";
import { diverging, farthest, signed } from "../shared/scales.js";
import * as state from "../shared/state.js";
import { load } from "../shared/waiting.js";
import { makeAtlas } from "../views/heads/atlas.js";
import { described, legend } from "../views/heads/measures.js";

const percent = (/** @type {number} */ value) => `${(100 * value).toFixed(1)} %`;

/** What is switched off, by the address. */
const off = () => ({ heads: state.getAll("off"), layers: state.getAll("off_layer").map(Number).filter(Number.isInteger) });

/** @param {Intervention} changed */
function guessed({ before, after }) {
  if (!before.guesses || !after.guesses) return [];
  const [was, is] = [before.guesses, after.guesses].map((list) => new Map((list ?? []).map(({ piece, probability }) => [piece, probability])));
  const pieces = [...new Set([...was.keys(), ...is.keys()])].slice(0, 15);
  const share = (/** @type {number | undefined} */ value) => (value === undefined ? "below the ten likeliest" : percent(value));
  const apart = (/** @type {string} */ piece) => {
    const [a, b] = [was.get(piece), is.get(piece)];
    if (a === undefined || b === undefined) return "–";
    const { fill, text } = diverging(b - a);
    return el("span", { class: "apart", style: `background: ${fill}; color: ${text}` }, signed(b - a));
  };
  return [el("h3", {}, "What the model says"), table(["piece", "whole model", "switched off", "difference"], pieces.map((piece) => [piece, share(was.get(piece)), share(is.get(piece)), apart(piece)]), { caption: "The ten likeliest pieces of each" })];
}

/** @param {Intervention} changed */
function answered({ before, after }) {
  if (!before.answer || !after.answer) return [];
  const line = (/** @type {string} */ who, /** @type {{ text: string, confidence: number }} */ { text, confidence }) => el("li", {}, `${who}: `, el("q", {}, text), ` ${percent(confidence)}`);
  return [el("h3", {}, "Its answer"), el("ul", {}, line("whole model", before.answer), line("switched off", after.answer))];
}

/** The label of the last layer. @param {Belief} belief */
const finally_ = ({ labels }) => labels.toSorted((a, b) => (b.probabilities.at(-1) ?? 0) - (a.probabilities.at(-1) ?? 0))[0];

/** @param {Intervention} changed */
function believed({ before, after, words }) {
  if (!before.beliefs.length) return [];
  const rows = before.beliefs.flatMap((belief, index) => {
    const [was, is] = [finally_(belief), finally_(after.beliefs[index])];
    if (was.label === is.label) return [];
    const text = belief.spans.map(([start, end]) => words.slice(start, end).join(" ")).join(" → ");
    return [[text, belief.task, `${was.label} ${percent(was.probabilities.at(-1) ?? 0)}`, `${is.label} ${percent(is.probabilities.at(-1) ?? 0)}`]];
  });
  const summary = `Under the probes of all layers, the label of ${rows.length} of ${before.beliefs.length} targets changes.`;
  return [el("h3", {}, "What its probes believe"), el("p", {}, summary), rows.length ? table(["words", "task", "whole model", "switched off"], rows) : null];
}

/** @param {Intervention} changed */
function looked({ before, after }) {
  if (!before.measures.length) return [];
  const [box, key, note] = [el("div", { class: "atlas-box" }), el("div", { class: "legend" }), el("p", { class: "soft" })];
  const choice = el("select", {}, before.measures.map(({ name, title }) => el("option", { value: name }, title)));
  /** @type {{ measure: HeadMeasure, scale: { most: number } } | null} */
  let current = null;
  const grid = makeAtlas(box, { label: "Change of attention, head by head", onLook: (head) => current && replace(note, described(current.measure, head, current.scale)) });
  function draw() {
    const [was, is] = [before, after].map(({ measures }) => measures.find(({ name }) => name === choice.value));
    if (!was || !is) return;
    const values = was.values.map((row, layer) => row.map((value, head) => (value === null || is.values[layer][head] === null ? null : /** @type {number} */ (is.values[layer][head]) - value)));
    current = { measure: { ...was, values, baseline: null }, scale: { most: farthest(values.flat()) } };
    grid.show(current.measure, current.scale);
    legend(key, current.measure, current.scale);
  }
  choice.addEventListener("change", draw);
  queueMicrotask(draw);
  return [el("h3", {}, "Where its heads look: the change"), el("label", {}, "Measure ", choice), box, key, note];
}

/**
 * @param {InterventionRequest} request
 * @param {AbortSignal} signal
 */
async function change(request, signal) {
  const answer = await post("/interventions", request, signal);
  const parts = [...(request.heads ?? []).map((head) => `head ${head}`), ...(request.layers ?? []).map((layer) => `block ${layer}`)];
  return [el("p", {}, `Without ${parts.join(", ")} (${request.how === "mean" ? "the mean over the sentence in their place" : "zeros in their place"}):`), ...guessed(answer), ...answered(answer), ...believed(answer), ...looked(answer)];
}

/** @param {string} text @param {RegExp} pattern */
const listed = (text, pattern) => text.split(/[\s,;]+/).filter((name) => pattern.test(name));

/**
 * The form, which writes into the address, and what the address asks for.
 * @param {{ blocks: number, heads: number, answers: boolean }} model
 */
export function switching({ blocks, heads, answers }) {
  const first = state.getAll("head").join(", ");
  const input = el("input", { id: "off-heads", placeholder: `as 3-1, 2-${heads}`, value: off().heads.join(", ") || first, spellcheck: "false" });
  const whole = el("input", { id: "off-layers", placeholder: `as 2, ${blocks}`, value: off().layers.join(", "), spellcheck: "false" });
  const how = el("select", { id: "off-how" }, el("option", { value: "zero" }, "zeros"), el("option", { value: "mean" }, "its mean over the sentence"));
  how.value = state.get("off_how") === "mean" ? "mean" : "zero";
  const question = answers ? el("input", { id: "off-question", value: state.get("off_question"), spellcheck: "false" }) : null;
  const box = el("div", { id: "switched" });
  const form = el(
    "form",
    { class: "controls", autocomplete: "off" },
    el("label", {}, `Heads off (layers 1 to ${blocks}, heads 1 to ${heads}) `, input),
    el("label", {}, "Blocks off ", whole),
    el("label", {}, "Replace the output of a head by ", how),
    question ? el("label", {}, "Question about the sentence ", question) : null,
    el("button", { type: "submit" }, "Switch off"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    state.set({ off: listed(input.value, /^\d+-\d+$/), off_layer: listed(whole.value, /^\d+$/), off_how: how.value === "mean" ? "mean" : "", off_question: question?.value ?? "" });
  });

  /** What the address asks for; nothing, where it asks for nothing. */
  function show() {
    const request = off();
    if (!request.heads.length && !request.layers.length) return replace(box, el("p", { class: "soft" }, "Name heads or blocks, and see what changes without them."));
    load(box, (signal) => change({ model: state.get("model"), sentence: state.get("sentence"), ...request, how: state.get("off_how") === "mean" ? "mean" : "zero", question: state.get("off_question") }, signal), { lines: 6 });
  }
  show();
  return { parts: [form, box], show };
}
