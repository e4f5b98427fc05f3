// @ts-check
// One selection for all views, in the address: model, sentence, word or span, layer, head, and what a view adds.
//
// A choice that a person would want to go back to is pushed: set(values). Scrubbing replaces the entry:
// set(values, { replace: true }). What a view fills in by itself replaces it too, without an event:
// set(values, { quiet: true }). Back and Forward tell listeners what changed, like any other choice.
/** @typedef {Record<string, string | number | null | undefined | string[]>} Values */
/** @typedef {Record<string, string[]>} Changed name -> what it is now; empty if it is gone */

/** What goes along from view to view. */
export const SELECTION = ["model", "sentence", "word", "layer", "head"];

/** What belongs to one sentence, and goes when another is chosen. */
const OF_SENTENCE = ["word", "word2", "mark"];

/** @type {((changed: Changed) => void)[]} */
const listeners = [];
let current = location.search;

const now = () => new URLSearchParams(location.search);

/** @param {string} name */
export const get = (name, otherwise = "") => now().get(name) ?? otherwise;

/** @param {string} name */
export const getAll = (name) => now().getAll(name);

/** @param {(changed: Changed) => void} listener */
export const onChange = (listener) => listeners.push(listener);

/**
 * Writes values into the address (an empty one takes its name away) and calls the listeners.
 * @param {Values} values
 * @param {{ quiet?: boolean, replace?: boolean }} how
 */
export function set(values, how = {}) {
  const { quiet = false } = how;
  const { replace = quiet } = how;
  const parameters = now();
  const moved = "sentence" in values && values.sentence !== (parameters.get("sentence") ?? "");
  const fresh = moved && !quiet ? Object.fromEntries(OF_SENTENCE.map((name) => [name, ""])) : {};
  for (const [name, value] of Object.entries({ ...fresh, ...values })) {
    parameters.delete(name);
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item !== "" && item !== null && item !== undefined) parameters.append(name, String(item));
    }
  }
  const query = parameters.toString();
  const address = `${query ? `?${query}` : location.pathname}${location.hash}`;
  if (query !== now().toString()) {
    if (replace) history.replaceState(null, "", address);
    else history.pushState(null, "", address);
  }
  tell({ quiet });
}

/** Reports what changed in the address. */
function tell({ quiet = false } = {}) {
  const [before, after] = [new URLSearchParams(current), now()];
  current = location.search;
  carry();
  /** @type {Changed} */
  const changed = {};
  for (const name of new Set([...before.keys(), ...after.keys()])) {
    const values = after.getAll(name);
    if (values.join("\n") !== before.getAll(name).join("\n")) changed[name] = values;
  }
  if (!quiet && Object.keys(changed).length) for (const listener of listeners) listener(changed);
}

/**
 * The address of another view with the same selection, and more; empty values are left out.
 * @param {string} path
 * @param {Values} more
 */
export function address(path, more = {}) {
  const params = new URLSearchParams();
  for (const name of SELECTION) for (const item of getAll(name)) params.append(name, item);
  for (const [name, value] of Object.entries(more)) {
    if (value === "") params.delete(name);
    else params.set(name, String(value));
  }
  return params.size ? `${path}?${params}` : path;
}

/** Links between views carry the selection. */
export function carry() {
  for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("a[data-keep]"))) {
    link.href = address(link.pathname) + link.hash;
  }
}

addEventListener("popstate", () => tell());
