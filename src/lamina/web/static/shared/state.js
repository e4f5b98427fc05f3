// @ts-check
// What a view shows is in its address, so that the address can be sent to a colleague.
/** @typedef {Record<string, string | number | null | undefined | string[]>} Values */

/** @type {((values: Values) => void)[]} */
const listeners = [];

/** @param {string} name */
export const get = (name, otherwise = "") => new URLSearchParams(location.search).get(name) ?? otherwise;

/** @param {string} name */
export const getAll = (name) => new URLSearchParams(location.search).getAll(name);

/**
 * Writes values into the address (an empty one takes its name away) and tells whoever listens.
 * @param {Values} values
 */
export function set(values, { quiet = false } = {}) {
  const parameters = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(values)) {
    parameters.delete(name);
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== "" && each !== null && each !== undefined) parameters.append(name, String(each));
    }
  }
  const query = parameters.toString();
  history.replaceState(null, "", query ? `?${query}` : location.pathname);
  carry();
  if (!quiet) for (const listener of listeners) listener(values);
}

/** @param {(values: Values) => void} listener */
export const onChange = (listener) => listeners.push(listener);

// Model and sentence go along from view to view.
export function carry() {
  const kept = new URLSearchParams();
  for (const name of ["model", "sentence"]) if (get(name)) kept.set(name, get(name));
  for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("a[data-keep]"))) {
    link.search = kept.toString();
  }
}
