// @ts-check
// The permanent page of one head, one layer or one task.
/** @import { AboutServer, CorrespondenceAnswer, LayerNumber, TaskEntry, TaskExample, TaskOfModel } from "../../shared/api_types.js" */
import { analyses, asInReport } from "../../shared/analyses.js";
import { post, read } from "../../shared/api.js";
import { figure } from "../../shared/charts.js";
import { byId, el, inside, replace, table } from "../../shared/dom.js";
import { listed } from "../../shared/findings.js";
import { button, onDone } from "../../shared/jobs.js";
import { ready } from "../../shared/page.js";
import { short } from "../../shared/scales.js";
import * as state from "../../shared/state.js";
import { load } from "../../shared/waiting.js";
import { headSwitch } from "../../panels/switch.js";
import { unmeasured } from "../compare/inside.js";
import { showCard } from "../heads/card.js";
import { explanation } from "../heads/evidence.js";
import { examples, marked } from "../heads/examples.js";

const NEAREST = 5; // of the heads of another model
const about = await ready;
const [, kind, ...rest] = location.pathname.split("/").map(decodeURIComponent);
const name = rest.join("/");
const model = () => state.get("model");

/** @param {string} text @param {string} under */
function title(text, under) {
  document.title = `${text} · ${model()} · lamina`;
  inside(byId("main"), "h1").textContent = text;
  inside(byId("main"), ".about").textContent = under;
}

/** @param {string} path @param {string} text @param {Record<string, string>} more @param {string} part of the page */
const link = (path, text, more = {}, part = "") => el("a", { href: `${state.address(path, more)}${part && `#${part}`}` }, text);

/** @param {string} heading @param {...(import("../../shared/dom.js").Child | import("../../shared/dom.js").Child[])} parts */
const card = (heading, ...parts) => el("section", { class: "card" }, el("h2", {}, heading), ...parts);

async function showHead() {
  title(`Head ${name}`, `What head ${name} of ${model()} does: its role with evidence, examples, failures, what happens without it, and heads like it.`);
  const known = await analyses().catch(() => []);
  const computing = (/** @type {string[]} */ needs) => {
    const runnable = needs.map((need) => known.find((card) => card.name === need && card.job && card.report !== null)).find((card) => card);
    return runnable ? button(runnable.title, () => asInReport(runnable.name, { model: model() })) : el("span", {}, "To know, run ", el("code", {}, `lamina ${needs[0]} ${model()}`), ".");
  };
  let relation = state.get("relation");
  await load(byId("entry"), async (signal) => {
    const answer = await post("/heads/card", { model: model(), head: name }, signal);
    // Links of the relation that it finds best are right or wrong.
    relation ||= answer.relations.find((row) => row.held_out)?.relation ?? "";
    const everything = el("div");
    showCard(everything, answer, [], (head) => (location.href = state.address(`/head/${head}`)));
    const sentence = el("p", { class: "steps" }, link("/sentence", "Where it looks in a sentence", { head: name }, "heads"), link("/sentence", "Switch it off in a sentence", { head: name }), link(`/layer/${name.split("-")[0]}`, `Layer ${name.split("-")[0]}`, { head: "" }));
    return [card("What it does", ...explanation(answer, computing), sentence), card("All that was measured of it", everything)];
  }, { lines: 10 });
  const [preview, off, like] = [el("div", { "data-slow": "" }), el("div"), el("div", { class: "twins", "data-slow": "" })];
  replace(byId("more"), card("Examples and failures", preview), card("Without it", el("p", { class: "soft" }, `In the sentence “${state.get("sentence", about.sentence)}”.`), off), card("Heads like it in other models", like));
  if (!state.get("sentence")) state.set({ sentence: about.sentence }, { quiet: true });
  replace(off, headSwitch(name));
  likeIt(like);
  await load(preview, async (signal) => examples(await post("/heads/examples", { model: model(), head: name, relation }, signal), () => (location.href = `${state.address("/sentence", { head: name })}#heads`)), { lines: 8, saying: `Looking through the corpus with all heads of ${model()}: a few seconds, once.` });
}

/** Its matches in the other models: those in memory at once, others when asked for. @param {HTMLElement} box */
function likeIt(box) {
  const others = about.models.filter((/** @type {AboutServer["models"][number]} */ { name: other, trouble }) => other !== model() && !trouble);
  if (!others.length) return replace(box, el("p", {}, "This server has no other model; start it with --model for more."));
  replace(box, others.map(({ name: other, loaded }) => {
    const part = el("div", { "data-model": other });
    const look = () => load(part, async (signal) => matchesIn(other, await post("/compare/correspondence", { models: [model(), other] }, signal)), { lines: 2 });
    if (loaded) look();
    else replace(part, el("button", { type: "button", onclick: look }, `Look in ${other}`));
    return part;
  }));
}

/** @param {string} other @param {CorrespondenceAnswer} answer */
function matchesIn(other, { correspondence: answer, missing }) {
  if (!answer) return missing ? unmeasured(missing, model(), other) : el("p", {}, `${other}: no heads to match.`);
  const [first] = answer.models;
  const linked = (/** @type {string} */ head) => el("a", { href: `/head/${head}?model=${encodeURIComponent(other)}` }, el("strong", {}, `${other} ${head}`));
  if (first !== model()) {
    // Measured the other way round: heads of the other model whose best match is this one.
    const backwards = answer.heads.filter(({ match, agrees }) => match === name && agrees);
    if (!backwards.length) return el("p", {}, `No head of ${other} has it as its best match in both halves of the documents.`);
    return el("p", {}, backwards.flatMap(({ head, overlap }) => [linked(head), ` (overlap ${short(overlap)}) `]), `attend${backwards.length === 1 ? "s" : ""} like it more than like any other head of ${model()}.`);
  }
  const mine = answer.heads.find(({ head }) => head === name);
  if (!mine) return el("p", {}, `${other}: no heads to match.`);
  const { match, overlap, others, mutual, agrees } = mine;
  const sure = `${mutual ? "mutual" : "not mutual: that head has a better match here"}${agrees ? "" : "; other documents would have chosen another head"}`;
  return el("p", {}, linked(match), ` attends most alike: overlap ${short(overlap)}, all heads of ${other} ${short(others)} on average; ${sure}.`);
}

async function showLayer() {
  title(`Layer ${name}`, `What is known of layer ${name} of ${model()}${name === "0" ? ", the embeddings" : ""}: its numbers beside those of the other layers, and its heads.`);
  await load(byId("entry"), async (signal) => {
    const answer = await post("/layer", { model: model(), layer: Number(name) }, signal);
    const steps = [answer.layer - 1, answer.layer + 1].filter((depth) => depth >= 0 && depth < answer.layers).map((depth) => link(`/layer/${depth}`, `Layer ${depth}`));
    const row = (/** @type {LayerNumber} */ { series, title: heading, result, value, low, high, rank, of }) => [series, link("/runs", heading, { result }), `${short(value)}${low === null || high === null ? "" : ` [${short(low)}, ${short(high)}]`}`, rank === 1 ? "highest" : rank === of ? "lowest" : `${rank} of ${of}`];
    const numbers = table(["measure", "from", "value", "among layers"], answer.numbers.map(row), { caption: "Rank 1 is the highest of all layers; whether a layer is better than another is tested in the result." });
    numbers.classList.add("ranks", "whole");
    const heads = answer.heads.filter(({ named }) => named);
    return [
      el("p", { class: "steps" }, steps, link("/sentence", "This layer in a sentence", { layer: name })),
      answer.findings.length ? card("What was found", listed(answer.findings)) : null,
      card("Its numbers", answer.numbers.length ? numbers : el("p", {}, `Nothing was measured by layer of ${model()} yet: the overview offers it.`)),
      answer.layer ? card("Its heads", heads.length ? table(["head", "role"], heads.map(({ head, role, what }) => [link(`/head/${head}`, head), what ? `${role} (${what})` : role])) : el("p", {}, "No saved result is about heads.")) : null,
    ];
  }, { lines: 12 });
  if (about.models.length < 2) return replace(byId("more"));
  const like = el("div", { class: "twins", "data-slow": "" });
  replace(byId("more"), card("Layers like it in other models", like));
  replace(like, about.models.filter(({ name: other, trouble }) => other !== model() && !trouble).map(({ name: other, loaded }) => {
    const part = el("div");
    const look = () => load(part, async (signal) => {
      const { correspondence: answer, missing } = await post("/compare/correspondence", { models: [model(), other] }, signal);
      if (!answer) return missing ? unmeasured(missing, model(), other) : el("p", {}, `${other}: no layers to compare.`);
      const layer = Number(name);
      const row = answer.models[0] === model() ? (answer.cka[layer] ?? []) : answer.cka.map((values) => values[layer] ?? null);
      const best = row.map((value, depth) => ({ value: value ?? -Infinity, depth })).toSorted((one, two) => two.value - one.value).slice(0, NEAREST);
      return el("p", {}, el("strong", {}, other), ": ", best.flatMap(({ value, depth }) => [el("a", { href: `/layer/${depth}?model=${encodeURIComponent(other)}` }, `layer ${depth}`), ` (CKA ${short(value)}) `]));
    }, { lines: 1 });
    if (loaded) look();
    else replace(part, el("button", { type: "button", onclick: look }, `Look in ${other}`));
    return part;
  }));
}

async function showTask() {
  replace(byId("more"));
  await load(byId("entry"), async (signal) => {
    const answer = await post("/task", { model: model(), task: name }, signal);
    title(answer.title, answer.about || `The task ${answer.task}.`);
    const row = (/** @type {TaskOfModel} */ { model: of, title: heading, result, best }) => [of, link("/runs", heading, { result, task: name, model: of }), best];
    const mine = answer.results.filter(({ model: of }) => of === model());
    return [
      el("p", { class: "steps" }, link("/sentence", "Ask about a sentence"), link("/compare", "Compare models")),
      answer.findings.length ? card(`What was found of ${model()}`, listed(answer.findings)) : null,
      card("Where it is read", answer.results.length ? table(["model", "result", "layers"], answer.results.map(row)) : [el("p", {}, `It was not measured yet. `), button("Measure it", async () => ({ ...(await asInReport("probe", { model: model() })), settings: { tasks: [name] } }))]),
      answer.traced ? card("Examples and failures", ...examplesOf(answer)) : null,
      ...(await Promise.all(mine.slice(0, 2).map((result) => chartsOf(result, signal)))),
    ];
  }, { lines: 12 });
}

/** Targets whose way through the layers was traced, those that are read rightly first. @param {TaskEntry} entry */
function examplesOf({ right, wrong, traced, traced_right: hits }) {
  const item = (/** @type {TaskExample} */ { words, spans, label, first, last, rival, rival_last: beside }) => {
    const marks = Object.fromEntries(spans.flatMap(([start, end], place) => Array.from({ length: end - start }, (_, step) => [start + step, place ? "to" : "from"])));
    return el("li", {}, el("p", { class: "example" }, marked(words, marks)), el("p", { class: "soft" }, `${label}: ${short(first)} at the embeddings, ${short(last)} with all layers; the strongest other label: ${rival} ${short(beside)}`));
  };
  return [
    el("p", { class: "soft" }, `From the ${traced} targets whose way through the layers the result traces: of sentences that probes are unsure of, so that more is wrong than usual. The probes of all layers get ${hits} of them right. Numbers are probabilities, the mean over seeds.`),
    right.length ? el("ol", { class: "examples" }, right.map(item)) : null,
    wrong.length ? [el("h3", {}, "Where it fails"), el("ol", { class: "misses" }, wrong.map(item))].flat() : el("p", {}, "It fails at none of them."),
  ].flat();
}

/** @param {TaskOfModel} result @param {AbortSignal} signal */
async function chartsOf({ result, title: heading }, signal) {
  const query = `?task=${encodeURIComponent(name)}`;
  const details = await read(/** @type {`/results/${string}`} */ (`/results/${result}${query}`), signal);
  return card(heading, details.figures.map((preview) => figure(details, preview, query)));
}

const show = () => (kind === "head" ? showHead() : kind === "layer" ? showLayer() : showTask());
state.onChange((changed) => {
  if ("model" in changed) show();
});
onDone(show);
await show();
