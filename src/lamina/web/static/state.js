// What a view shows is in its address, so that the address can be sent to a colleague.
const listeners = [];

export const get = (name, otherwise = "") => new URLSearchParams(location.search).get(name) ?? otherwise;

export const getAll = (name) => new URLSearchParams(location.search).getAll(name);

// Writes values into the address (an empty one takes its name away) and tells whoever listens.
export function set(values, { quiet = false } = {}) {
  const parameters = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(values)) {
    parameters.delete(name);
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== "" && each !== null && each !== undefined) parameters.append(name, each);
    }
  }
  const query = parameters.toString();
  history.replaceState(null, "", query ? `?${query}` : location.pathname);
  carry();
  if (!quiet) for (const listener of listeners) listener(values);
}

export const onChange = (listener) => listeners.push(listener);

// Model and sentence go along from view to view.
export function carry() {
  const kept = new URLSearchParams();
  for (const name of ["model", "sentence"]) if (get(name)) kept.set(name, get(name));
  for (const link of document.querySelectorAll("a[data-keep]")) {
    link.search = kept.toString();
  }
}
