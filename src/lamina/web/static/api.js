// Questions to the server. An answer that comes after a newer question of the same kind is dropped.
const asked = new Map();

async function answered(response) {
  const body = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
  if (!response.ok) throw new Error(body.error ?? `the server answered ${response.status}`);
  return body;
}

export const read = async (path) => answered(await fetch(`/api${path}`));

export const remove = async (path) => answered(await fetch(`/api${path}`, { method: "DELETE" }));

export async function post(path, body, { signal } = {}) {
  const headers = { "content-type": "application/json" };
  return answered(await fetch(`/api${path}`, { method: "POST", headers, body: JSON.stringify(body), signal }));
}

// Like post, but only the newest question of a kind is answered: returns null where a newer one has been asked.
export async function ask(path, body, kind = path) {
  asked.get(kind)?.abort();
  const control = new AbortController();
  asked.set(kind, control);
  try {
    return await post(path, body, { signal: control.signal });
  } catch (error) {
    if (error.name === "AbortError") return null;
    throw error;
  }
}
