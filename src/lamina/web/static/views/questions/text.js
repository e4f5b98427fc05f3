// @ts-check
// The answers in words, the context with its marks, and the maps as tables.
/** @import { AnsweredQuestion, ContextPart, TokenMap } from "../../shared/api_types.js" */
import { el, message, table } from "../../shared/dom.js";

const percent = (/** @type {number} */ share) => `${Math.round(100 * share)} %`;

/**
 * What a model answers, and whether that is right; or why it does not.
 * @param {string} letter
 * @param {string} name
 * @param {AnsweredQuestion | null} answered
 * @param {unknown} error
 */
export function card(letter, name, answered, error) {
  const heading = el("h3", {}, el("span", { class: "letter" }, letter), ` ${name}`);
  if (!answered) return el("div", { class: "card", "data-letter": letter }, heading, el("p", { class: "wrong" }, error ? message(error) : ""));
  const reply = answered.answer;
  if (!reply.answers) {
    const why = "gives no answer: it was not fine-tuned to answer questions. Its token map is below.";
    return el("div", { class: "card", "data-letter": letter }, heading, el("p", { class: "said" }, why));
  }
  const verdict = reply.right === null ? null : reply.right ? el("strong", { class: "verdict right" }, "✓ right") : el("strong", { class: "verdict not" }, "✗ wrong");
  const expected = reply.right === null ? "" : reply.right ? elsewhere(answered.text) : ` (accepted: ${reply.accepted.join(" or ")})`;
  return el(
    "div",
    { class: "card", "data-letter": letter },
    heading,
    el("p", { class: "said" }, "answers ", el("mark", { class: "predicted" }, reply.predicted), ` with a confidence of ${reply.confidence?.toFixed(2)}`, verdict ? ": " : "", verdict, expected),
  );
}

/**
 * The right words can come from the wrong place.
 * @param {ContextPart[]} parts
 */
function elsewhere(parts) {
  const from = parts.find(({ predicted }) => predicted);
  if (!from || parts.some(({ predicted, gold }) => predicted && gold)) return "";
  return `, but the words come from sentence ${from.sentence + 1}, which is not a supporting fact`;
}

/** @typedef {ContextPart & { by: string }} Said a part of the context, and who predicts it */

/**
 * @param {string} text
 * @param {Pick<Said, "gold" | "by">} part
 */
function run(text, { gold, by }) {
  if (!gold && !by) return document.createTextNode(text);
  const inner = gold ? el("span", { class: "gold" }, text) : text;
  if (!by) return inner;
  return el("mark", { class: "predicted" }, inner, el("sup", { title: `predicted by ${[...by].join(" and ")}` }, by));
}

/**
 * The context; its facts and answers are marked, and each sentence has its number.
 * @param {[letter: string, answered: AnsweredQuestion][]} question
 */
export function context(question) {
  const parts = question[0][1].text;
  const kinds = parts.map((part, index) => ({
    ...part,
    by: question.filter(([, answered]) => answered.text[index]?.predicted).map(([letter]) => letter).join(""),
  }));
  /** @type {Sentence[]} */
  const sentences = [];
  for (const part of kinds) {
    const last = sentences.at(-1);
    if (last && last.sentence === part.sentence) last.parts.push(part);
    else sentences.push({ sentence: part.sentence, support: part.support, parts: [part] });
  }
  return el(
    "div",
    { class: "card context" },
    el("p", { class: "marked" }, sentences.flatMap(sentence)),
    el(
      "p",
      { class: "soft" },
      "Marked: ",
      el("span", { class: "support" }, "supporting fact"),
      ", ",
      el("span", { class: "gold" }, "accepted answer"),
      ", ",
      el("mark", { class: "predicted" }, "predicted answer", el("sup", {}, "A B")),
      " with the letter of the model.",
      kinds.some((part) => part.gold) ? "" : " The right answer is not known, so supporting facts and the accepted answer are not marked.",
    ),
  );
}

/** @typedef {{ sentence: number, support: boolean, parts: Said[] }} Sentence */

/** @param {Sentence} whole */
function sentence({ sentence: number, support, parts }) {
  /** @type {Pick<Said, "text" | "gold" | "by">[]} */
  const runs = [];
  for (const { text, gold, by } of parts) {
    const last = runs.at(-1);
    if (last && last.gold === gold && last.by === by) last.text += text;
    else runs.push({ text, gold, by });
  }
  const spans = runs.map((part) => run(part.text, part));
  if (number < 0) return spans;
  return el("span", { class: support ? "sentence support" : "sentence" }, el("sub", { "aria-label": `sentence ${number + 1}` }, String(number + 1)), spans);
}

/**
 * What a layer shows, and what not.
 * @param {TokenMap} map
 * @param {number} layer
 * @param {{ method: string }} how
 */
export function reading(map, layer, { method }) {
  const info = map.layers[Math.min(layer, map.layers.length - 1)];
  const parts = [`Layer ${info.layer} of ${map.layers.length - 1}: ${info.clusters} clusters, silhouette ${info.silhouette === null ? "unknown" : info.silhouette.toFixed(2)}.`];
  if (info.stability !== null) parts.push(`Stability over seeds ${info.stability.toFixed(2)} (adjusted Rand index)${info.stable ? "." : ": other seeds find other clusters, so none are outlined."}`);
  if (layer > info.layer) parts.unshift("This model has fewer layers; its last one is shown.");
  if (info.explained_x !== null && info.explained_y !== null) parts.push(`The two axes hold ${percent(info.explained_x + info.explained_y)} of the layer's variance.`);
  if (method === "tsne") parts.push("t-SNE keeps who is near whom, not how far groups are apart.");
  const out = map.tokens.filter((_, token) => map.clusters[info.layer][token] < 0).map((token) => token.word);
  if (out.length) parts.push(`Left out as ${out.length === 1 ? "an outlier" : "outliers"}, since far longer than all others: ${out.slice(0, 5).join(", ")}${out.length > 5 ? " ..." : ""}.`);
  if (map.drawn < map.tokens.length) parts.push(`${map.drawn} of ${map.tokens.length} tokens are drawn; some without a role are not.`);
  return parts.join(" ");
}

/** @param {TokenMap} map */
export function layersTable(map) {
  const share = (/** @type {number | null} */ value) => (value === null ? "" : percent(value));
  const rows = map.layers.map((info) => [info.layer, info.clusters, info.silhouette?.toFixed(2) ?? "", info.stability?.toFixed(2) ?? "", share(info.explained_x), share(info.explained_y), info.left_out]);
  return table(["layer", "clusters", "silhouette", "stability over seeds", "variance x", "variance y", "outliers"], rows, { caption: "Every layer" });
}

/**
 * @param {TokenMap} map
 * @param {number} layer
 */
export function tokensTable(map, layer) {
  const index = Math.min(layer, map.layers.length - 1);
  const rows = map.tokens.map((token, n) => {
    const place = map.positions[index][n];
    const cluster = map.clusters[index][n];
    return [n + 1, token.word, token.roles.join(", "), token.sentence < 0 ? "" : token.sentence + 1, place?.[0].toFixed(2) ?? "", place?.[1].toFixed(2) ?? "", cluster < 0 ? "outlier" : cluster + 1];
  });
  return table(["token", "word", "role", "sentence", "x", "y", "cluster"], rows, { caption: `Tokens at layer ${index}` });
}
