// Computations in the background: how far they are, and a button that stops them.
import { post, read, remove } from "./api.js";
import { byId, el } from "./dom.js";

const PAUSE = 1000;
const finished = [];
let timer;

export const onDone = (listener) => finished.push(listener);

export async function start(wanted) {
  const job = await post("/jobs", wanted);
  await look();
  return job;
}

// A button that starts a computation, and says what it will take.
export function button(text, wanted) {
  const made = el("button", { type: "button", class: "job" }, text);
  made.addEventListener("click", async () => {
    made.disabled = true;
    try {
      await start(wanted());
    } catch (error) {
      made.after(el("span", { class: "wrong", role: "alert" }, ` ${error.message}`));
    }
    made.disabled = false;
  });
  return made;
}

function line(job) {
  const bar = el("progress", { max: job.total ?? 1, value: job.total ? job.done : null, "aria-label": job.what || job.command });
  const stop = el("button", { type: "button" }, "Cancel");
  stop.addEventListener("click", async () => {
    await remove(`/jobs/${job.id}`).catch(() => null);
    await look();
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

const states = new Map();

async function look() {
  clearTimeout(timer);
  const jobs = await read("/jobs").catch(() => []);
  const box = byId("jobs");
  box.hidden = jobs.length === 0;
  if (jobs.length) box.replaceChildren(el("h2", {}, "Computations"), el("ul", {}, jobs.slice(0, 5).map(line)));
  for (const job of jobs) {
    if (job.state === "done" && states.has(job.id) && states.get(job.id) !== "done") for (const listener of finished) listener(job);
    states.set(job.id, job.state);
  }
  if (jobs.some((job) => job.state === "running" || job.state === "queued")) timer = setTimeout(look, PAUSE);
}

export const watch = look;
