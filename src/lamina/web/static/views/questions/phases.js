// @ts-check
// What the saved results say of many questions, and the way to get there where there are none.
/** @import { AnsweredQuestion, AnsweringModel } from "../../shared/api_types.js" */
import { asInReport } from "../../shared/analyses.js";
import { read } from "../../shared/api.js";
import { figure } from "../../shared/charts.js";
import { el, message, replace } from "../../shared/dom.js";
import { listed } from "../../shared/findings.js";
import { button } from "../../shared/jobs.js";

let drawn = "";

/**
 * The phases of the models that have been measured; redrawn only when they change.
 * @param {HTMLElement} box
 * @param {AnsweredQuestion[]} answers
 * @param {{ tuned: AnsweringModel[], model: string }} about
 */
export async function phases(box, answers, { tuned, model }) {
  const ids = new Map(answers.flatMap(({ phases: id, model: name }) => (id ? [/** @type {[string, string]} */ ([id, name])] : [])));
  const silent = !tuned.some(({ answers: can }) => can);
  const lacking = answers.find(({ answer, phases: id }) => answer.answers && !id);
  const now = JSON.stringify([...ids.keys(), silent && model, lacking?.model]);
  if (now === drawn) return;
  drawn = now;
  /** @type {HTMLElement[]} */
  const parts = await Promise.all([...ids].map(([id, name]) => measured(id, name)));
  if (silent) parts.push(...offer(model));
  if (lacking) {
    parts.push(
      el("p", {}, `How ${lacking.model} answers many questions has not been measured yet.`),
      button(`Measure the phases of ${lacking.model} on stories (some minutes)`, () => asInReport("phases", { model: lacking.model })),
    );
  }
  if (!parts.length) parts.push(el("p", { class: "soft" }, "There are no results of these models over many questions."));
  replace(box, ...parts);
}

const offer = (/** @type {string} */ model) => [
  el("p", {}, `No model here answers questions. Fine-tuned on generated stories, ${model} does, and is shown next to the pretrained model. Large models take longer.`),
  button("Fine-tune on stories (about 2 minutes)", () => asInReport("finetune", { model })),
];

/**
 * @param {string} id
 * @param {string} name
 */
async function measured(id, name) {
  try {
    const result = await read(`/results/${id}`);
    return el(
      "div",
      {},
      el("p", { class: "soft" }, `${result.model} on ${result.corpus} (${result.split}). ${result.question} `, el("a", { href: `/overview?model=${encodeURIComponent(name)}` }, "More in the overview of this model")),
      listed(result.findings),
      result.figures.map((chart) => figure(result, chart)),
    );
  } catch (error) {
    return el("p", { class: "wrong" }, message(error));
  }
}
