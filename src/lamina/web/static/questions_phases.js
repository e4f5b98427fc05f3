// What the saved results say of many questions, and the way to get there where there are none.
import { read } from "./api.js";
import { figure } from "./charts.js";
import { el, replace } from "./dom.js";
import { button } from "./jobs.js";

let drawn = "";

// The phases of the models that have been measured; drawn anew only when they are others.
export async function phases(box, answers, { tuned, model }) {
  const ids = new Map(answers.flatMap(({ phases: id, model: name }) => (id ? [[id, name]] : [])));
  const silent = !tuned.some(({ answers: can }) => can);
  const lacking = answers.find(({ answer, phases: id }) => answer.answers && !id);
  const now = JSON.stringify([...ids.keys(), silent && model, lacking?.model]);
  if (now === drawn) return;
  drawn = now;
  const parts = await Promise.all([...ids].map(([id, name]) => measured(id, name)));
  if (silent) parts.push(...offer(model));
  if (lacking) {
    parts.push(
      el("p", {}, `How ${lacking.model} answers many questions has not been measured yet.`),
      button(`Measure the phases of ${lacking.model} on stories (some minutes)`, () => ({ analysis: "phases", model: lacking.model })),
    );
  }
  if (!parts.length) parts.push(el("p", { class: "soft" }, "Nothing was measured of these models over many questions."));
  replace(box, ...parts);
}

const offer = (model) => [
  el("p", {}, `None of the models here answers questions. Tuned on generated stories, ${model} will: it is then asked beside the pretrained one. A large model takes longer.`),
  button("Fine-tune on stories (about 2 minutes)", () => ({ analysis: "finetune", model })),
];

async function measured(id, name) {
  try {
    const result = await read(`/results/${id}`);
    return el(
      "div",
      {},
      el("p", { class: "soft" }, `${result.model} on ${result.corpus} (${result.split}). ${result.question} `, el("a", { href: `/layers?model=${encodeURIComponent(name)}` }, "More in Layers")),
      result.figures.map((shown) => figure(result, shown)),
    );
  } catch (error) {
    return el("p", { class: "wrong" }, error.message);
  }
}
