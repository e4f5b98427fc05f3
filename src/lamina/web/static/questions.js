// Questions: what two models answer, and how their tokens move from layer to layer until they do.
import { ask, read } from "./api.js";
import { attempt, byId, el, replace, say } from "./dom.js";
import { onDone } from "./jobs.js";
import { ready } from "./page.js";
import { Columns } from "./questions_columns.js";
import { phases } from "./questions_phases.js";
import { card, context } from "./questions_text.js";
import * as state from "./state.js";

const ADDRESS = 6000; // characters of a text that still fits an address
const NOBODY = "none"; // in the address: no second model
const KEPT = 30;
const fields = ["question", "context", "answer"].map(byId);
const choices = ["method", "fit", "colour"].map(byId);
const columns = new Columns();
const known = new Map();
let examples = [];
let tuned = [];
let models = [];
let turns = 0;
let latest;

// Beside a pretrained model stands one tuned from it, and the other way round.
function partner(model) {
  const own = tuned.find(({ name }) => name === model);
  if (own) return own.base ?? models.find((name) => name !== model) ?? NOBODY;
  const answering = tuned.filter(({ answers }) => answers);
  return (answering.find(({ base }) => base === model) ?? answering[0])?.name ?? NOBODY;
}

function second() {
  const chosen = state.get("other");
  const usable = chosen === NOBODY || (models.includes(chosen) && chosen !== state.get("model"));
  return usable ? chosen : partner(state.get("model"));
}

function listModels() {
  replace(byId("other"), el("option", { value: NOBODY }, "none"), models.map((name) => el("option", { value: name }, name)));
  byId("other").value = second();
}

function fill() {
  replace(byId("example"), el("option", { value: "" }, "a question of your own"), examples.map(({ id, title }) => el("option", { value: id }, title)));
  listModels();
  const example = examples.find(({ id }) => id === state.get("example"));
  for (const field of fields) field.value = example ? example[field.id] : state.get(field.id);
  byId("example").value = example?.id ?? "";
  for (const choice of choices) {
    const options = [...choice.options].map(({ value }) => value);
    choice.value = options.includes(state.get(choice.id)) ? state.get(choice.id) : options[0];
  }
}

// A first visit begins with an example; what is typed goes into the address, unless it is too long for one.
function remember() {
  const id = byId("example").value;
  const long = !id && fields.reduce((size, field) => size + field.value.length, 0) > ADDRESS;
  const kept = Object.fromEntries(fields.map((field) => [field.id, id || long ? "" : field.value]));
  state.set({ example: id, ...kept }, { quiet: true });
  return long;
}

function wanted(model) {
  const id = byId("example").value;
  const texts = id ? { example: id } : Object.fromEntries(fields.map((field) => [field.id, field.value]));
  return { model, method: byId("method").value, fit: byId("fit").value, ...texts };
}

// Nothing is computed twice: the same question by the same method gives the same map.
async function answer(letter, model) {
  const body = wanted(model);
  const key = JSON.stringify(body);
  if (!known.has(key)) {
    const answered = await ask("/questions", body, `questions ${letter}`);
    if (!answered) return null;
    if (known.size >= KEPT) known.clear();
    known.set(key, answered);
  }
  return known.get(key);
}

async function look() {
  const turn = ++turns;
  const long = remember();
  const asked = { A: state.get("model"), B: second() };
  if (asked.B === NOBODY) delete asked.B;
  byId("other").value = asked.B ?? NOBODY;
  const letters = Object.keys(asked);
  const settled = await Promise.allSettled(letters.map((letter) => answer(letter, asked[letter])));
  if (turn !== turns) return latest;
  const answers = Object.fromEntries(letters.map((letter, at) => [letter, settled[at].value ?? null]));
  replace(byId("answers"), letters.map((letter, at) => card(letter, asked[letter], answers[letter], settled[at].reason)));
  const there = letters.filter((letter) => answers[letter]);
  replace(byId("text"), there.length ? context(answers) : []);
  columns.show(there.map((letter) => ({ letter, name: asked[letter], ...answers[letter] })), { layer: state.get("layer"), method: byId("method").value, fit: byId("fit").value });
  if (long) say("The context is too long for an address: this view cannot be sent as a link.");
  phases(byId("phases-box"), there.map((letter) => answers[letter]), { tuned, model: asked.A });
}

// Where somebody asks again before the answer is there, only the last question is answered.
const again = () => (latest = attempt("Reading the question …", look));

async function begin() {
  const about = await ready;
  [examples, tuned] = await Promise.all([read("/questions/examples"), read("/questions/models")]);
  models = about.models.map(({ name }) => name);
  if (!state.get("question") && !examples.some(({ id }) => id === state.get("example"))) state.set({ example: examples[0].id }, { quiet: true });
  fill();
  columns.paint(byId("colour").value, byId("outlines").checked);
  listen();
  await again();
}

// A question of one's own: the example's answer is not an answer to it.
function leaveExample(typed) {
  if (byId("example").value && typed.id !== "answer") byId("answer").value = "";
  byId("example").value = "";
}

function listen() {
  byId("asking").addEventListener("submit", (event) => {
    event.preventDefault();
    again();
  });
  byId("example").addEventListener("change", () => {
    state.set({ example: byId("example").value, question: "", context: "", answer: "" }, { quiet: true });
    if (byId("example").value) fill();
    again();
  });
  for (const field of fields) field.addEventListener("input", () => leaveExample(field));
  byId("other").addEventListener("change", () => {
    state.set({ other: byId("other").value }, { quiet: true });
    again();
  });
  for (const name of ["method", "fit"]) {
    byId(name).addEventListener("change", () => {
      state.set({ [name]: byId(name).value }, { quiet: true });
      again();
    });
  }
  for (const name of ["colour", "outlines"]) {
    byId(name).addEventListener("change", () => {
      state.set({ colour: byId("colour").value }, { quiet: true });
      columns.paint(byId("colour").value, byId("outlines").checked);
    });
  }
  state.onChange(again);
  onDone(renew);
}

// A job may have made a model, or the phases of one.
async function renew() {
  const about = await read("/about");
  models = about.models.map(({ name }) => name);
  tuned = await read("/questions/models");
  known.clear();
  const header = byId("model");
  const listed = [...header.options].map(({ value }) => value);
  header.append(...about.models.filter(({ name }) => !listed.includes(name)).map(({ name, title }) => el("option", { value: name }, title)));
  listModels();
  await again();
}

attempt("Reading the question …", begin);
