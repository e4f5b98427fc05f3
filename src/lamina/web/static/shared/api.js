// @ts-check
// Questions to the server. An answer that comes after a newer question of the same kind is dropped.
/** @import { Delete, Get, Post } from "./api_types.js" */

/** @type {Map<string, AbortController>} */
const pending = new Map();

/** @param {Response} response */
async function answered(response) {
  const body = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
  if (!response.ok) throw new Error(body.error ?? `the server answered ${response.status}`);
  return body;
}

/**
 * @template {keyof Get} Address
 * @param {Address} address
 * @param {AbortSignal} [signal]
 * @returns {Promise<Get[Address]>}
 */
export const read = async (address, signal) => answered(await fetch(`/api${address}`, { signal }));

/**
 * @template {keyof Delete} Address
 * @param {Address} address
 * @returns {Promise<Delete[Address]>}
 */
export const remove = async (address) => answered(await fetch(`/api${address}`, { method: "DELETE" }));

/**
 * @template {keyof Post} Address
 * @param {Address} address
 * @param {Post[Address]["takes"]} body
 * @param {AbortSignal} [signal]
 * @returns {Promise<Post[Address]["gives"]>}
 */
export async function post(address, body, signal) {
  const headers = { "content-type": "application/json" };
  return answered(await fetch(`/api${address}`, { method: "POST", headers, body: JSON.stringify(body), signal }));
}

/**
 * Like post, but only the newest question of a kind is answered: null where a newer one has been asked.
 * @template {keyof Post} Address
 * @param {Address} address
 * @param {Post[Address]["takes"]} body
 * @param {string} kind
 * @returns {Promise<Post[Address]["gives"] | null>}
 */
export async function ask(address, body, kind = address) {
  pending.get(kind)?.abort();
  const control = new AbortController();
  pending.set(kind, control);
  try {
    return await post(address, body, control.signal);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") return null;
    throw error;
  }
}
