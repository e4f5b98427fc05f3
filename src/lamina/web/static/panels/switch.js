// @ts-check
// One head as a switch: the sentence with it and without it, before and after in place.
/** @import { Belief, Intervention } from "../shared/api_types.js" */
import { post } from "../shared/api.js";
import { el, message, replace, table } from "../shared/dom.js";
import { short, signed } from "../shared/scales.js";
import * as state from "../shared/state.js";

const SHOWN = 5; // words whose labels change most

/** @typedef {{ word: number, text: string, before: string, after: string, was: number, is: number }} Change of the final label of a word */

/** @param {Belief} belief */
const finally_ = ({ labels, leads }) => {
  const { label, probabilities } = labels[leads[leads.length - 1]];
  return { label, probability: probabilities[probabilities.length - 1] };
};

/** The probability of a label in another reading; null where it is not among those listed. @param {Belief} belief @param {string} label */
const of = (belief, label) => belief.labels.find((item) => item.label === label)?.probabilities.at(-1) ?? null;

/**
 * Words, the one whose final label loses most first.
 * @param {Intervention} answer
 */
export function changes({ before, after, words }) {
  const turns = before.beliefs.flatMap((belief, index) => {
    const [[start, end]] = belief.spans;
    if (belief.spans.length > 1 || end !== start + 1) return [];
    const [was, is] = [finally_(belief), finally_(after.beliefs[index])];
    return [{ word: start, text: words[start], before: was.label, after: is.label, was: was.probability, is: of(after.beliefs[index], was.label) ?? 0 }];
  });
  return turns.sort((one, other) => Number(other.before !== other.after) - Number(one.before !== one.after) || Math.abs(other.is - other.was) - Math.abs(one.is - one.was));
}

/** @param {Intervention} answer @param {string} head */
function effects(answer, head) {
  const all = changes(answer);
  const [guess, other] = [answer.before.guesses?.[0], answer.after.guesses?.[0]];
  const guesses = guess && other ? el("p", {}, "What the model says next: ", el("q", {}, guess.piece.trim()), ` ${short(guess.probability)} with it, `, el("q", {}, other.piece.trim()), ` ${short(other.probability)} without it.`) : null;
  if (!all.length) return [guesses ?? el("p", {}, "There are no saved probes of single words, and no language-model head: nothing here could change.")];
  const turned = all.filter((change) => change.before !== change.after).length;
  const rows = all.slice(0, SHOWN).map(({ text, before, after, was, is }) => [text, `${before} ${short(was)}`, before === after ? `${after} ${short(is)}` : el("strong", {}, `${after} (${before} ${short(is)})`), signed(is - was)]);
  return [
    el("p", {}, `Without ${head} the final label of ${turned} of ${all.length} words changes.`),
    guesses,
    table(["word", "with it", "without it", "change"], rows, { caption: "The words whose label changes most, by its probability under the probes of all layers" }),
  ];
}

/**
 * The switch of a head. `onChange` gets what is different without it, and null when it is on again.
 * @param {string} head
 * @param {(found: Intervention | null) => void} onChange
 */
export function headSwitch(head, onChange = () => {}) {
  const box = el("div", { class: "switched", "aria-live": "polite" });
  const name = el("span", {}, "on");
  const button = el("button", { type: "button", role: "switch", class: "switch", "aria-checked": "true", "aria-label": `Head ${head} in this sentence` }, el("span", { class: "knob", "aria-hidden": "true" }), name);
  /** @type {AbortController | null} */
  let asking = null;
  button.addEventListener("click", async () => {
    asking?.abort();
    const off = button.getAttribute("aria-checked") === "true";
    button.setAttribute("aria-checked", String(!off));
    name.textContent = off ? "off" : "on";
    onChange(null);
    if (!off) return replace(box);
    const control = (asking = new AbortController());
    replace(box, el("p", { class: "soft" }, "Reading the sentence again without it …"));
    try {
      const answer = await post("/interventions", { model: state.get("model"), sentence: state.get("sentence"), heads: [head] }, control.signal);
      if (control.signal.aborted) return;
      replace(box, effects(answer, head));
      onChange(answer);
    } catch (error) {
      if (!control.signal.aborted) replace(box, el("p", { class: "wrong", role: "alert" }, message(error)));
    }
  });
  return el("div", { class: "off" }, el("p", { class: "controls" }, `In this sentence, head ${head} is `, button), box);
}
