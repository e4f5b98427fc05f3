// @ts-check
// Computations: how far each is, beside the button that started it and in the tray, which stays in sight; how long it
// will take as far as anyone knows, how to end or dismiss it, and what it found.
/** @import { JobProgress, JobRequest } from "./api_types.js" */
import { post, read, remove } from "./api.js";
import { byId, el, message, replace } from "./dom.js";
import { duration } from "./durations.js";
import * as state from "./state.js";

const PAUSE = 1000;
/** @type {(() => unknown)[]} */
const finished = [];
/** @type {Map<string, string>} */
const states = new Map();
/** @type {number | undefined} */
let timer;

/** @param {() => unknown} listener */
export const onDone = (listener) => finished.push(listener);

/** @type {Map<string, HTMLElement>} */
const beside = new Map(); // job -> where its progress is shown, beside its button

/** @param {string} [text] */
const spinning = (text) => [el("span", { class: "spinner", "aria-hidden": "true" }), text ?? ""];

/**
 * A button that starts computations, one after another; how they come on stands beside it at once.
 * @param {string} text
 * @param {() => JobRequest | JobRequest[] | Promise<JobRequest | JobRequest[]>} wanted
 */
export function button(text, wanted) {
  const element = el("button", { type: "button", class: "job" }, text);
  const status = el("span", { class: "job-status", role: "status" });
  const refused = el("span", { class: "wrong", role: "alert" });
  element.addEventListener("click", async () => {
    element.disabled = true;
    replace(refused);
    element.after(status, refused);
    replace(status, spinning("Starting …"));
    try {
      for (const request of [await wanted()].flat()) {
        const job = await post("/jobs", request);
        const place = el("span", { class: "job-step" }, spinning(`${job.command.split(" ").slice(0, 2).join(" ")}: waiting …`));
        if (!beside.size || !status.querySelector(".job-step")) replace(status);
        status.append(place);
        beside.set(job.id, place);
      }
      await watch();
    } catch (error) {
      if (!status.querySelector(".job-step")) replace(status);
      refused.textContent = ` ${message(error)}`;
    }
    element.disabled = false;
  });
  return element;
}

/**
 * What a computation found, in a sentence that leads to it.
 * @param {JobProgress} job
 */
function outcome({ result }) {
  if (!result) return [el("a", { href: "/runs" }, "See the result in Runs")];
  const [first] = result.findings;
  const link = el("a", { href: state.address("/runs", { result: result.id }) }, result.title);
  return [result.partial ? el("span", { class: "badge", title: result.partial }, "partial") : null, first ? `${first.text} ` : "No finding. ", link];
}

/**
 * Beside its button.
 * @param {JobProgress} job
 */
function tell(job) {
  const place = beside.get(job.id);
  if (!place?.isConnected) return;
  const name = job.command.split(" ").slice(0, 3).join(" ");
  if (isOn(job)) replace(place, spinning(`${name}: ${time(job)}${job.what ? `: ${job.what}` : ""}`));
  else if (job.state === "done") replace(place, el("b", {}, "Found: "), outcome(job));
  else replace(place, el("span", { class: job.state === "failed" ? "wrong" : null }, `${name} ${time(job)}. ${job.message}`));
}

/** @param {JobProgress} job */
const isOn = ({ state }) => state === "running" || state === "queued";

/**
 * What is known of its time, and no more.
 * @param {JobProgress} job
 */
function time({ state, elapsed, estimate }) {
  if (state === "queued") return estimate === null ? "waiting for the others" : `waiting for the others; about ${duration(estimate)} once it runs`;
  if (state !== "running") return elapsed ? `${state} after ${duration(elapsed)}` : state;
  if (estimate === null) return `${duration(elapsed)} so far; without an estimate`;
  if (elapsed > 1.2 * estimate) return `${duration(elapsed)} so far, longer than the estimated ${duration(estimate)}`;
  return `${duration(elapsed)} of about ${duration(estimate)}`;
}

/** @param {JobProgress} job */
function line(job) {
  const on = isOn(job);
  const end = el("button", { type: "button", "aria-label": `${on ? "Cancel" : "Dismiss"} ${job.command}` }, on ? "Cancel" : "Dismiss");
  end.addEventListener("click", async () => {
    await remove(`/jobs/${job.id}`).catch(() => null);
    await watch();
  });
  return el(
    "li",
    { "data-state": job.state },
    el("code", {}, job.command),
    el("p", {}, time(job), job.what && on ? `: ${job.what}` : ""),
    job.message ? el("p", { class: job.state === "failed" ? "wrong" : null }, job.message) : null,
    on ? el("progress", { max: job.total ?? 1, value: job.total ? job.done : null, "aria-label": job.what || job.command }) : null,
    job.state === "done" ? el("p", {}, outcome(job)) : null,
    el("div", { class: "controls" }, end),
  );
}

/** @param {boolean} wide */
function open(wide) {
  byId("tray").setAttribute("aria-expanded", String(wide));
  byId("jobs").hidden = !wide;
}

/** @param {JobProgress[]} jobs */
function summary(jobs) {
  const counts = ["running", "queued", "failed", "done", "cancelled"].map((state) => [state, jobs.filter((job) => job.state === state).length]);
  return counts.filter(([, count]) => count).map(([state, count]) => `${count} ${state}`).join(", ");
}

/** @param {JobProgress[]} jobs */
function show(jobs) {
  const [tray, box] = [byId("tray"), byId("jobs")];
  tray.hidden = jobs.length === 0;
  if (!jobs.length) open(false);
  replace(tray, jobs.some(isOn) ? el("span", { class: "spinner", "aria-hidden": "true" }) : null, `Jobs: ${summary(jobs)}`);
  // A button that has the keyboard's focus is not taken from under it.
  const focused = [...box.querySelectorAll("button")].findIndex((button) => button === document.activeElement);
  replace(box, el("ul", {}, jobs.map(line)));
  if (focused >= 0) [...box.querySelectorAll("button")][focused]?.focus();
}

// Shows all computations, and looks again as long as one of them runs.
export async function watch() {
  clearTimeout(timer);
  const jobs = await read("/jobs").catch(() => []);
  show(jobs);
  for (const job of jobs) {
    tell(job);
    const before = states.get(job.id);
    if (job.state === "done" && before !== undefined && before !== "done") {
      for (const listener of finished) listener();
      open(true); // what was found
    }
    states.set(job.id, job.state);
  }
  if (jobs.some(isOn)) timer = setTimeout(watch, PAUSE);
}

/** Begins to watch. */
export function beginTray() {
  byId("tray").addEventListener("click", () => open(Boolean(byId("jobs").hidden)));
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || byId("jobs").hidden) return;
    open(false);
    byId("tray").focus();
  });
  watch();
}
