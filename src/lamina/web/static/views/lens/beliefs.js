// @ts-check
// The words of the sentence as buttons, each with what the probes of single words believe.
/** @import { Label, Lens } from "../../shared/api_types.js" */
import { byId, el, replace, table } from "../../shared/dom.js";
import { bars, inWords } from "./bars.js";

/** @type {Record<string, number>} */
const STEPS = { ArrowLeft: -1, ArrowRight: 1 };

/**
 * @param {Lens} seen
 * @param {(word: number) => void} choose
 */
export function showWords(seen, choose) {
  const unasked = new Set(seen.tasks.filter((task) => task.unasked).map((task) => task.name));
  /** @type {Map<number, Label[]>} */
  const told = new Map();
  for (const belief of seen.beliefs) {
    const [start, end] = belief.spans[0];
    if (unasked.has(belief.task) && end === start + 1 && !told.has(start)) told.set(start, belief.labels);
  }
  replace(byId("words"), seen.words.map((word, at) => card(word, at, told.get(at) ?? [], choose)));
  replace(byId("beliefs-about"), explained(seen, told.size > 0));
  showTable(seen, told);
}

/**
 * @param {Lens} seen
 * @param {boolean} some probes told something
 */
function explained(seen, some) {
  if (!some) return `${seen.words.length} words, ${seen.tokens} tokens, ${seen.layers} layers. Choose a word.`;
  const probes = seen.seeds > 1 ? `, the mean of ${seen.seeds} probes` : "";
  return (
    `Bars are a label's probability under the probes P(0) to P(${seen.layers - 1}), in this order${probes}; P(l) sees layers 0 to l. ` +
    `The number is that of the last probe. ${seen.words.length} words, ${seen.tokens} tokens. Choose a word to look closer.`
  );
}

/**
 * @param {string} word
 * @param {number} at
 * @param {Label[]} labels
 * @param {(word: number) => void} choose
 */
function card(word, at, labels, choose) {
  const name = labels.length ? `${word}: ${labels.map(inWords).join(", ")}` : word;
  const made = el(
    "button",
    { type: "button", class: "word", "data-word": at, "aria-label": name, "aria-pressed": "false", tabindex: at ? -1 : 0 },
    el("span", { class: "name" }, word),
    labels.slice(0, 2).map((label, order) => bars(label, order)),
  );
  made.addEventListener("click", () => choose(at));
  made.addEventListener("keydown", (event) => step(event, made));
  return made;
}

/**
 * @param {KeyboardEvent} event
 * @param {HTMLElement} from
 */
function step(event, from) {
  const to = STEPS[event.key] === 1 ? from.nextElementSibling : STEPS[event.key] === -1 ? from.previousElementSibling : null;
  if (!(to instanceof HTMLElement)) return;
  event.preventDefault();
  from.tabIndex = -1;
  to.tabIndex = 0;
  to.focus();
}

/**
 * @param {Lens} seen
 * @param {Map<number, Label[]>} told
 */
function showTable(seen, told) {
  const box = byId("beliefs-table");
  box.hidden = told.size === 0;
  const layers = Array.from({ length: seen.layers }, (_, layer) => `P(${layer})`);
  const rows = [...told].flatMap(([at, labels]) =>
    labels.map(({ label, probabilities }) => [seen.words[at], label, ...probabilities.map((value) => value.toFixed(3))]),
  );
  replace(box, el("summary", {}, "The same as a table"), table(["word", "label", ...layers], rows, { caption: "Probability of part-of-speech labels, layer by layer" }));
}
