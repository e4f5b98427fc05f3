// @ts-check
// A slider over the checkpoints of one training, beside the slider over layers: the sentence, word, layer and head stay.
/** @import { ModelCard } from "./api_types.js" */
import { byId, input } from "./dom.js";
import * as state from "./state.js";

const SETTLED = 250; // milliseconds without a movement until a checkpoint is asked
const PAUSE = 1200; // milliseconds between two looks whether the next checkpoint can be asked, while playing

/** @type {ModelCard[]} */
let all = [];
/** @type {number | undefined} */
let moving;
/** @type {number | null} */
let playing = null;

/** The checkpoints of the chosen model's training, from the first to the last; none of a model that is no checkpoint. */
function series() {
  const training = all.find(({ name }) => name === state.get("model"))?.training ?? null;
  return training === null ? [] : all.filter((model) => model.training === training);
}

const index = () => series().findIndex(({ name }) => name === state.get("model"));

/** @param {ModelCard} checkpoint */
const inWords = ({ step }) => (step === null ? "the end" : step.toLocaleString("en"));

/** @param {ModelCard[]} checkpoints @param {number} place */
function tell(checkpoints, place) {
  const text = checkpoints.length > 1 ? `${inWords(checkpoints[place])} (${place + 1} of ${checkpoints.length})` : "no checkpoint";
  byId("step-said").textContent = text;
  input("step").setAttribute("aria-valuetext", `step ${text}`);
}

/** What the address says. */
function show() {
  clearTimeout(moving);
  const [checkpoints, slider] = [series(), input("step")];
  slider.max = String(Math.max(1, checkpoints.length - 1));
  slider.value = String(Math.max(0, index()));
  slider.disabled = byId("grow", HTMLButtonElement).disabled = checkpoints.length < 2;
  if (checkpoints.length < 2) stop();
  tell(checkpoints, index());
}

/** @param {number} place */
const choose = (place) => state.set({ model: series()[place].name }, { replace: true });

function stop() {
  if (playing !== null) clearInterval(playing);
  playing = null;
  byId("grow").setAttribute("aria-pressed", "false");
  byId("grow").textContent = "Play";
}

/** Whether the page has shown what the checkpoint says; what takes longest is not waited for. */
const settled = () => !byId("main").querySelector("[aria-busy]:not([data-slow])");

function play() {
  byId("grow").setAttribute("aria-pressed", "true");
  byId("grow").textContent = "Pause";
  choose(index() >= series().length - 1 ? 0 : index() + 1);
  playing = setInterval(() => {
    if (!settled()) return;
    if (index() >= series().length - 1) stop();
    else choose(index() + 1);
  }, PAUSE);
}

/** @param {ModelCard[]} models */
export function beginSteps(models) {
  all = models;
  input("step").addEventListener("input", () => {
    stop();
    clearTimeout(moving);
    const place = Number(input("step").value);
    tell(series(), place);
    moving = setTimeout(() => choose(place), SETTLED);
  });
  byId("grow").addEventListener("click", () => (playing === null ? play() : stop()));
  state.onChange((changed) => {
    if ("model" in changed) show();
  });
  show();
}
