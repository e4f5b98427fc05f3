// @ts-check
// One layer is looked at in all views at once: chosen with the slider or a click, tried by pointing at it.
import { byId, input } from "../../shared/dom.js";
import * as state from "../../shared/state.js";

/** @type {Record<string, (layer: number) => void>} */
const followers = {};
let last = 0; // the number of the last layer
/** @type {number | null} */
let pointed = null;

/** @param {number} layer */
const clamped = (layer) => Math.min(last, Math.max(0, Number.isInteger(layer) ? layer : last));

export const chosenLayer = () => clamped(Number(state.get("layer", String(last)) || last));

/**
 * Called with a layer whenever one is looked at, until the sentence changes; a view follows once.
 * @param {string} name
 * @param {(layer: number) => void} listener
 */
export const follow = (name, listener) => (followers[name] = listener);

export function forgetLayers() {
  for (const name of Object.keys(followers)) delete followers[name];
}

/** @param {number} count */
export function setLayers(count) {
  last = count - 1;
  const slider = input("layer");
  slider.max = String(last);
  slider.value = String(chosenLayer());
}

/**
 * Marks a layer everywhere without choosing it.
 * @param {number} layer
 */
export function point(layer) {
  pointed = layer;
  byId("layer-said").textContent = layer === 0 ? "0 (embeddings)" : `${layer} of ${last}`;
  for (const each of /** @type {NodeListOf<HTMLElement>} */ (byId("main").querySelectorAll("[data-layer]"))) {
    each.classList.toggle("on", Number(each.dataset.layer) === layer);
  }
  for (const listener of Object.values(followers)) listener(layer);
}

export function pickLayer(layer = chosenLayer()) {
  if (layer !== chosenLayer()) state.set({ layer: String(layer) }, { quiet: true });
  input("layer").value = String(layer);
  point(layer);
}

input("layer").addEventListener("input", () => pickLayer(Number(input("layer").value)));

/** @param {Event} event */
const layerAt = (event) => (event.target instanceof Element ? event.target.closest("[data-layer]")?.getAttribute("data-layer") : null);

byId("main").addEventListener("pointerover", (event) => {
  const layer = clamped(Number(layerAt(event) ?? chosenLayer()));
  if (event.pointerType !== "touch" && pointed !== null && layer !== pointed) point(layer);
});
byId("main").addEventListener("click", (event) => {
  const layer = layerAt(event);
  if (layer) pickLayer(Number(layer));
});
