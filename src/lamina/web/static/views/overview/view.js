// @ts-check
// The tab Overview: the model's card. What was found, two linked figures, a sentence to try, what has not been measured
// yet and what that would take, and every result by chapter.
/** @import { AboutServer, ChapterOfModel, JobRequest, MissingAnalysis, ModelOverview, OverviewFinding, ResultSummary } from "../../shared/api_types.js" */
/** @import { View } from "../../shared/charts.js" */
import { read } from "../../shared/api.js";
import { draw, figure } from "../../shared/charts.js";
import { byId, el, input, replace, table } from "../../shared/dom.js";
import { duration } from "../../shared/durations.js";
import { listed, part } from "../../shared/findings.js";
import { button, onDone } from "../../shared/jobs.js";
import { chosenLayer, follow, pickLayer, point } from "../../shared/layer.js";
import { ready } from "../../shared/page.js";
import * as state from "../../shared/state.js";
import { load, placed } from "../../shared/waiting.js";

const FIRST = 6; // findings that are seen at once, where there is no paragraph
const PAUSE = 2000; // between two looks at estimates that are being made
const LINK = "layer"; // the selection that both figures share
/** @type {number | undefined} */
let timer;

const model = () => state.get("model");
const path = () => /** @type {const} */ (`/overview/${encodeURIComponent(model())}`);

/** @param {OverviewFinding} finding */
const whole = ({ text, status, result, title }) => ({ text, status, link: el("a", { href: state.address("/runs", { result }) }, title) });

/** @param {ModelOverview} seen */
function findings({ paragraph, findings: all, report }) {
  if (!all.length) return el("p", {}, `Nothing has been measured of ${model()} in the folders named at the start.`);
  const rest = paragraph.length ? all : all.slice(FIRST);
  return [
    ...(paragraph.length
      ? [el("p", { class: "summary" }, paragraph.map(({ plain }) => plain).join(" ")), el("details", {}, el("summary", {}, "How sure: the test behind each sentence"), listed(paragraph))]
      : [listed(all.slice(0, FIRST).map(whole))]),
    rest.length ? el("details", {}, el("summary", {}, paragraph.length ? `All ${rest.length} findings, the clearest and most important first` : `${rest.length} more findings`), listed(rest.map(whole))) : null,
    report ? el("p", {}, el("a", { href: "/report" }, "The report"), " has all of it on one page, to print and to send.") : null,
  ];
}

/** @type {number | null} */
let over = null; // the layer that is pointed at in the figure

/**
 * A layer pointed at in a figure is pointed at everywhere, and the other way round; a click chooses it.
 * @param {View} view
 */
function link(view) {
  let following = false; // whether the figure is being told, and not telling
  view.addSignalListener(LINK, (_, value) => {
    if (following) return;
    over = Number.isInteger(value?.layer?.[0]) ? value.layer[0] : null;
    point(over ?? chosenLayer());
  });
  follow("glance", async (layer) => {
    following = true;
    const lit = state.get("layer") === "" && layer === chosenLayer() ? [] : [{ unit: "", fields: [{ type: "E", field: "layer" }], values: [layer] }];
    await view.data(`${LINK}_store`, lit).runAsync();
    following = false;
  });
}

/**
 * @param {ModelOverview} seen
 * @param {AbortSignal} signal
 */
async function glance({ glance: picture, captions }, signal) {
  if (signal.aborted) return;
  if (!picture && captions.length) return captions.map((why) => el("p", { class: "wrong" }, why));
  if (!picture) return el("p", {}, "Abilities by layers need probes, heads by roles need attention: both can be started below.");
  const box = el("div", { class: "box", onclick: () => over !== null && pickLayer(over) });
  const element = el("figure", { "data-chart": picture.name }, box, captions.map((caption) => el("figcaption", {}, caption)), el("details", {}, el("summary", {}, "The same in words"), el("p", {}, picture.summary)));
  // A chart is drawn to the width of its place, so it has to be there first.
  replace(byId("glance"), element);
  await placed(box);
  await draw(box, picture.spec, { summary: picture.summary, name: `${model()}-at-a-glance`, onView: link });
}

/** @param {MissingAnalysis} cell */
function estimate({ state: known, seconds, memory }) {
  if (known === "known" && seconds !== null) return `about ${duration(seconds)}${memory ? `, ${(memory / 1e9).toFixed(1)} GB of memory` : ""}`;
  if (known === "off") return "not estimated: the server was started without";
  return known === "trying" ? "being estimated …" : "estimated soon …";
}

/** @param {MissingAnalysis[]} all */
function unmeasured(all) {
  const [possible, not] = [all.filter(({ state: known }) => known !== "failed"), all.filter(({ state: known }) => known === "failed")];
  const rows = possible.map((cell) => {
    const start = button("Measure", () => /** @type {JobRequest} */ (cell.wanted));
    start.setAttribute("aria-label", `Measure: ${cell.title}`);
    const waiting = cell.state === "waiting" || cell.state === "trying";
    return [el("span", { title: cell.question }, cell.title), el("span", { class: "estimate", "data-estimate": cell.state, "aria-busy": waiting ? "true" : null }, estimate(cell)), start];
  });
  return [
    rows.length
      ? table(["question", "takes", ""], rows, { caption: `As a report asks it, for ${model()}, on this machine` })
      : el("p", {}, "Everything that a report asks of this model has been measured."),
    not.length ? el("details", {}, el("summary", {}, `${not.length} not possible with ${model()}`), el("ul", {}, not.map(({ title, why }) => el("li", {}, `${title}: ${why}`)))) : null,
  ];
}

// Estimates come one after another: the list is renewed until all are there.
async function follows() {
  clearTimeout(timer);
  const name = model();
  const all = await read(`/unmeasured/${encodeURIComponent(name)}`).catch(() => null);
  if (!all || name !== model()) return;
  // A row whose button has the focus, or that says how its computation comes on, stays.
  if (!byId("unmeasured").contains(document.activeElement) && !byId("unmeasured").querySelector(".job-step")) replace(byId("unmeasured"), unmeasured(all));
  if (all.some(({ state: known }) => known === "waiting" || known === "trying")) timer = setTimeout(follows, PAUSE);
}

/** @param {ResultSummary} summary */
function result(summary) {
  const box = el("div");
  const element = el(
    "section",
    { class: "result", "data-analysis": summary.analysis },
    el("h3", {}, summary.title, part(summary)),
    el("p", { class: "soft" }, summary.partial ? `${summary.sample}; ${summary.partial}` : summary.sample),
    listed(summary.findings),
    box,
    el("p", {}, el("a", { href: state.address("/runs", { result: summary.id }) }, "Where it came from, its tables, and how to make it again")),
  );
  return { element, fill: () => load(box, async (signal) => {
    const read_ = await read(`/results/${summary.id}`, signal);
    return read_.figures.length ? read_.figures.map((chart) => figure(read_, chart)) : el("p", { class: "soft" }, "This result has no chart.");
  }, { lines: 8 }) };
}

/** @param {ChapterOfModel} chapter */
function chapter({ name, title, question, results }) {
  const parts = results.map(result);
  const wanted = state.get("chapter") === name || results.some(({ analysis }) => analysis === state.get("analysis"));
  const element = el(
    "details",
    { class: "chapter", "data-chapter": name },
    el("summary", {}, title, el("span", { class: "soft" }, ` ${question} (${results.length || "nothing yet"})`)),
    parts.map((part) => part.element),
  );
  let filled = false;
  // Charts are drawn when they are in sight: a report has thirty.
  element.addEventListener("toggle", () => {
    if (element.open && !filled) for (const part of parts) part.fill();
    filled ||= element.open;
    if (element.open) state.set({ chapter: name, analysis: "" }, { quiet: true });
  });
  if (wanted) element.open = true;
  return element;
}

/**
 * Scroll to a part and stay there while charts above it come in, until the reader does something.
 * @param {Element} part
 */
function holdInSight(part) {
  const grown = new ResizeObserver(() => part.scrollIntoView());
  grown.observe(byId("chapters"));
  for (const name of ["wheel", "touchstart", "keydown", "pointerdown"]) addEventListener(name, () => grown.disconnect(), { once: true, passive: true });
}

async function look() {
  clearTimeout(timer);
  const pending = read(path());
  pending.catch(() => null);
  load(byId("findings"), async () => findings(await pending), { lines: 6 });
  load(byId("glance"), async (signal) => glance(await pending, signal), { lines: 10 });
  const wanted = state.get("analysis");
  load(byId("chapters"), async () => (await pending).chapters.map(chapter), { lines: 5 }).then(() => {
    for (const section of byId("chapters").querySelectorAll("[data-analysis]")) {
      if (section.getAttribute("data-analysis") === wanted) holdInSight(section);
    }
  });
  await load(byId("unmeasured"), async (signal) => unmeasured(await read(`/unmeasured/${encodeURIComponent(model())}`, signal)), { lines: 4 });
  follows();
}

/** @param {AboutServer} about */
function offerExamples(about) {
  input("typed").value = state.get("sentence", about.sentence);
  byId("try").addEventListener("submit", (event) => {
    event.preventDefault();
    location.href = state.address("/sentence", { sentence: input("typed").value, word: "" });
  });
  replace(
    byId("examples"),
    about.examples.map(({ sentence, why }) => el("li", {}, el("a", { href: state.address("/sentence", { sentence, word: "" }) }, sentence), " ", el("span", {}, why))),
  );
}

const about = await ready;
offerExamples(about);
state.onChange((changed) => {
  if (!("model" in changed)) return;
  offerExamples(about);
  look();
});
onDone(look);
await look();
