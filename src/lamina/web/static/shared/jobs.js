// @ts-check
// Computations in the background: how far they are, and a button that stops them.
/** @import { Progress, Wanted } from "./api_types.js" */
import { post, read, remove } from "./api.js";
import { byId, el, message } from "./dom.js";

const PAUSE = 1000;
/** @type {(() => unknown)[]} */
const finished = [];
/** @type {Map<string, string>} */
const states = new Map();
/** @type {number | undefined} */
let timer;

/** @param {() => unknown} listener */
export const onDone = (listener) => finished.push(listener);

/**
 * A button that starts a computation.
 * @param {string} text
 * @param {() => Wanted | Promise<Wanted>} wanted
 */
export function button(text, wanted) {
  const made = el("button", { type: "button", class: "job" }, text);
  const said = el("span", { class: "wrong", role: "alert" });
  made.addEventListener("click", async () => {
    made.disabled = true;
    said.textContent = "";
    try {
      await post("/jobs", await wanted());
      await watch();
    } catch (error) {
      said.textContent = ` ${message(error)}`;
      made.after(said);
    }
    made.disabled = false;
  });
  return made;
}

/** @param {Progress} job */
function line(job) {
  const bar = el("progress", { max: job.total ?? 1, value: job.total ? job.done : null, "aria-label": job.what || job.command });
  const stop = el("button", { type: "button" }, "Cancel");
  stop.addEventListener("click", async () => {
    await remove(`/jobs/${job.id}`).catch(() => null);
    await watch();
  });
  const running = job.state === "running" || job.state === "queued";
  return el(
    "li",
    { "data-state": job.state },
    el("code", {}, job.command),
    el("p", {}, running ? `${job.state} ${job.what}` : `${job.state} ${job.message}`),
    running ? bar : null,
    running ? stop : null,
  );
}

// Shows all computations, and looks again as long as one of them runs.
export async function watch() {
  clearTimeout(timer);
  const jobs = await read("/jobs").catch(() => []);
  const box = byId("jobs");
  box.hidden = jobs.length === 0;
  if (jobs.length) box.replaceChildren(el("h2", {}, "Computations"), el("ul", {}, jobs.slice(0, 5).map(line)));
  for (const job of jobs) {
    const before = states.get(job.id);
    if (job.state === "done" && before !== undefined && before !== "done") for (const listener of finished) listener();
    states.set(job.id, job.state);
  }
  if (jobs.some((job) => job.state === "running" || job.state === "queued")) timer = setTimeout(watch, PAUSE);
}
