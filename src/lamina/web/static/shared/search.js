// @ts-check
// One box for heads, layers, tasks and words: hits appear below it; arrow keys and Enter choose.
/** @import { SearchHit } from "./api_types.js" */
import { read } from "./api.js";
import { byId, el, input, message, replace } from "./dom.js";
import * as state from "./state.js";

const PAUSE = 180;
const KINDS = { head: "head", layer: "layer", task: "task", word: "word" };
/** @type {AbortController | null} */
let asking = null;
/** @type {SearchHit[]} */
let hits = [];
let current = -1;
/** @type {number | undefined} */
let timer;

/** @param {SearchHit} hit */
const address = ({ path, query }) => `${path}?${new URLSearchParams({ ...(state.get("sentence") && !query.sentence ? { sentence: state.get("sentence") } : {}), ...query })}`;

function close() {
  byId("hits").hidden = true;
  input("find").setAttribute("aria-expanded", "false");
  input("find").removeAttribute("aria-activedescendant");
  current = -1;
}

/** @param {import("./dom.js").Child[]} parts */
function open(parts) {
  replace(byId("hits"), parts);
  byId("hits").hidden = false;
  input("find").setAttribute("aria-expanded", "true");
}

/** @param {number} place */
function choose(place) {
  current = hits.length ? (place + hits.length) % hits.length : -1;
  for (const [number, option] of [...byId("hits").querySelectorAll("[role=option]")].entries()) option.setAttribute("aria-selected", String(number === current));
  if (current >= 0) input("find").setAttribute("aria-activedescendant", `hit-${current}`);
}

async function look() {
  asking?.abort();
  const wanted = input("find").value.trim();
  if (!wanted) return close();
  const control = (asking = new AbortController());
  try {
    const answer = await read(/** @type {"/search"} */ (`/search?${new URLSearchParams({ q: wanted, model: state.get("model") })}`), control.signal);
    if (control.signal.aborted) return;
    hits = answer;
    const option = (/** @type {SearchHit} */ hit, /** @type {number} */ number) => el("a", { id: `hit-${number}`, role: "option", "aria-selected": "false", tabindex: "-1", href: address(hit) }, el("span", { class: "badge" }, KINDS[hit.kind]), " ", el("strong", {}, hit.title), el("span", { class: "soft" }, ` ${hit.about}`));
    open(answer.length ? answer.map(option) : [el("p", { class: "soft" }, "Nothing has this name: try objects, previous word, 3-1, a task, a layer or a word.")]);
    choose(0);
  } catch (error) {
    if (!control.signal.aborted) open([el("p", { class: "wrong" }, message(error))]);
  }
}

/** @param {KeyboardEvent} event */
function key(event) {
  if (event.key === "Escape") close();
  else if (event.key === "ArrowDown") choose(current + 1);
  else if (event.key === "ArrowUp") choose(current - 1);
  else return;
  event.preventDefault();
}

export function beginSearch() {
  const box = input("find");
  box.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(look, PAUSE);
  });
  box.addEventListener("keydown", key);
  box.addEventListener("focus", () => box.value.trim() && look());
  byId("search").addEventListener("focusout", (event) => {
    if (!(event.relatedTarget instanceof Node && byId("search").contains(event.relatedTarget))) setTimeout(close, 150);
  });
  byId("search").addEventListener("submit", async (event) => {
    event.preventDefault();
    clearTimeout(timer);
    if (byId("hits").hidden || current < 0) await look();
    if (hits[current]) location.href = address(hits[current]);
  });
  if (box.value.trim()) look(); // typed before the page was ready
}
