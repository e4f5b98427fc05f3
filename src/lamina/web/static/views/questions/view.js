// @ts-check
// Questions: what two models answer, and how their tokens move from layer to layer until they do.
/** @import { AnsweredQuestion, AnsweringModel, QuestionRequest, StoryExample } from "../../shared/api_types.js" */
import { ask, read } from "../../shared/api.js";
import { attempt, byId, el, input, replace, say, select } from "../../shared/dom.js";
import { onDone } from "../../shared/jobs.js";
import { ready } from "../../shared/page.js";
import { Columns } from "./columns.js";
import { phases } from "./phases.js";
import { card, context } from "./text.js";
import * as state from "../../shared/state.js";
import { done, wait } from "../../shared/waiting.js";

const ADDRESS = 6000; // characters of a text that still fits an address
const NOBODY = "none"; // in the address: no second model
const KEPT = 30;
const WAITING = ["answers", "text", "maps"]; // boxes that an answer fills
const fields = { question: input("question"), context: byId("context", HTMLTextAreaElement), answer: input("answer") };
const texts = () => ({ question: fields.question.value, context: fields.context.value, answer: fields.answer.value });
const choices = ["method", "fit", "colour"].map(select);
const columns = new Columns();
/** @type {Map<string, AnsweredQuestion>} */
const known = new Map();
/** @type {StoryExample[]} */
let examples = [];
/** @type {AnsweringModel[]} */
let tuned = [];
/** @type {string[]} */
let models = [];
/** @type {string[]} */
let unconfirmed = []; // in result folders; loaded once they are confirmed
let turns = 0;
/** @type {Promise<void> | undefined} */
let latest;

/**
 * Beside a pretrained model stands one tuned from it, and the other way round.
 * @param {string} model
 */
function partner(model) {
  const card = tuned.find(({ name }) => name === model);
  if (card) return card.base ?? models.find((name) => name !== model) ?? NOBODY;
  const answering = tuned.filter(({ answers, name }) => answers && !unconfirmed.includes(name));
  return (answering.find(({ base }) => base === model) ?? answering[0])?.name ?? NOBODY;
}

/** @param {{ models: { name: string, unconfirmed: boolean }[] }} about */
function list(about) {
  models = about.models.map(({ name }) => name);
  unconfirmed = about.models.filter((model) => model.unconfirmed).map(({ name }) => name);
  const waiting = tuned.find(({ answers, base, name }) => answers && base === state.get("model") && unconfirmed.includes(name));
  if (waiting) say(`${waiting.name} was tuned from this model: choose it above to load it, and both are shown.`);
}

function second() {
  const chosen = state.get("other");
  const usable = chosen === NOBODY || (models.includes(chosen) && chosen !== state.get("model"));
  return usable ? chosen : partner(state.get("model"));
}

function listModels() {
  replace(byId("other"), el("option", { value: NOBODY }, "none"), models.map((name) => el("option", { value: name }, name)));
  select("other").value = second();
}

function fill() {
  replace(byId("example"), el("option", { value: "" }, "a question of your own"), examples.map(({ id, title }) => el("option", { value: id }, title)));
  listModels();
  const example = examples.find(({ id }) => id === state.get("example"));
  for (const name of /** @type {("question" | "context" | "answer")[]} */ (["question", "context", "answer"])) {
    fields[name].value = example ? example[name] : state.get(name);
  }
  select("example").value = example?.id ?? "";
  for (const choice of choices) {
    const options = [...choice.options].map(({ value }) => value);
    choice.value = options.includes(state.get(choice.id)) ? state.get(choice.id) : options[0];
  }
}

// What is asked goes into the address, unless it is too long for one.
function choose() {
  const id = select("example").value;
  const long = !id && Object.values(texts()).join("").length > ADDRESS;
  const before = location.search;
  const none = { question: "", context: "", answer: "" };
  state.set({ example: id, ...(id || long ? none : texts()) }, { quiet: long, replace: false });
  if (long || location.search === before) again();
}

/**
 * @param {string} model
 * @returns {QuestionRequest}
 */
function wanted(model) {
  const id = select("example").value;
  const how = /** @type {Pick<QuestionRequest, "method" | "fit">} */ ({ method: select("method").value, fit: select("fit").value });
  return { model, ...how, ...(id ? { example: id } : texts()) };
}

/**
 * Nothing is computed twice: the same question by the same method gives the same map.
 * @param {string} letter
 * @param {string} model
 */
async function answer(letter, model) {
  const body = wanted(model);
  const key = JSON.stringify(body);
  const before = known.get(key);
  if (before) return before;
  const answered = await ask("/questions", body, `questions ${letter}`);
  if (!answered) return null;
  if (known.size >= KEPT) known.clear();
  known.set(key, answered);
  return answered;
}

async function look() {
  const turn = ++turns;
  const long = !select("example").value && Object.values(texts()).join("").length > ADDRESS;
  const other = second();
  select("other").value = other;
  for (const id of WAITING) wait(byId(id));
  const models = [{ letter: "A", name: state.get("model") }, ...(other === NOBODY ? [] : [{ letter: "B", name: other }])];
  const settled = await Promise.allSettled(models.map(({ letter, name }) => answer(letter, name)));
  if (turn !== turns) return latest;
  for (const id of WAITING) done(byId(id));
  const answers = settled.map((outcome) => (outcome.status === "fulfilled" ? outcome.value : null));
  const reasons = settled.map((outcome) => (outcome.status === "rejected" ? outcome.reason : null));
  replace(byId("answers"), models.map(({ letter, name }, index) => card(letter, name, answers[index], reasons[index])));
  const there = models.flatMap((one, index) => {
    const answered = answers[index];
    return answered ? [{ ...answered, ...one }] : [];
  });
  replace(byId("text"), there.length ? context(there.map((answered) => [answered.letter, answered])) : []);
  columns.show(there, { method: select("method").value, fit: select("fit").value });
  if (long) say("The context is too long for an address: this view cannot be sent as a link.");
  phases(byId("phases-box"), there, { tuned, model: state.get("model") });
}

// If a new question comes before the answer, only the last question is answered.
const again = () => (latest = attempt("Reading the question …", look));

async function begin() {
  const about = await ready;
  [examples, tuned] = await Promise.all([read("/questions/examples"), read("/questions/models")]);
  list(about);
  if (!state.get("question") && !examples.some(({ id }) => id === state.get("example"))) state.set({ example: examples[0].id }, { quiet: true });
  fill();
  columns.paint(select("colour").value, input("outlines").checked);
  listen();
  await again();
}

/**
 * The user's own question: the example's answer is not an answer to it.
 * @param {HTMLElement} typed
 */
function leaveExample(typed) {
  if (select("example").value && typed !== fields.answer) fields.answer.value = "";
  select("example").value = "";
}

function listen() {
  byId("asking").addEventListener("submit", (event) => {
    event.preventDefault();
    choose();
  });
  byId("example").addEventListener("change", () => {
    if (select("example").value) choose();
  });
  for (const field of Object.values(fields)) field.addEventListener("input", () => leaveExample(field));
  for (const name of ["other", "method", "fit", "colour"]) byId(name).addEventListener("change", () => state.set({ [name]: select(name).value }));
  byId("outlines").addEventListener("change", () => columns.paint(select("colour").value, input("outlines").checked));
  state.onChange((changed) => {
    const names = Object.keys(changed);
    if (names.some((name) => ["example", "question", "context", "answer"].includes(name) || choices.some(({ id }) => id === name))) fill();
    if (names.some((name) => !["layer", "colour", "sentence", "word", "head"].includes(name))) again();
    else if ("colour" in changed) columns.paint(select("colour").value, input("outlines").checked);
  });
  onDone(renew);
}

// A job may have made a model, or the phases of one.
async function renew() {
  const about = await read("/about");
  tuned = await read("/questions/models");
  list(about);
  known.clear();
  const header = select("model");
  const listed = [...header.options].map(({ value }) => value);
  header.append(...about.models.filter(({ name }) => !listed.includes(name)).map(({ name, title }) => el("option", { value: name }, title)));
  listModels();
  await again();
}

attempt("Reading the question …", begin);
