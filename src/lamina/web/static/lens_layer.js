// One layer is looked at in all views at once: chosen with the slider or a click, tried by pointing at it.
import { byId } from "./dom.js";
import * as state from "./state.js";

const followers = {};
let last = 0; // the number of the last layer
let pointed = null;

const clamped = (layer) => Math.min(last, Math.max(0, Number.isInteger(layer) ? layer : last));

export const chosenLayer = () => clamped(Number(state.get("layer", String(last)) || last));

// Called with a layer whenever one is looked at, until the sentence changes; a view follows once.
export const follow = (name, listener) => (followers[name] = listener);

export function forgetLayers() {
  for (const name of Object.keys(followers)) delete followers[name];
}

export function setLayers(count) {
  last = count - 1;
  const slider = byId("layer");
  slider.max = String(last);
  slider.value = String(chosenLayer());
}

// Marks a layer everywhere without choosing it.
export function point(layer) {
  pointed = layer;
  byId("layer-said").textContent = layer === 0 ? "0 (embeddings)" : `${layer} of ${last}`;
  for (const each of byId("main").querySelectorAll("[data-layer]")) {
    each.classList.toggle("on", Number(each.dataset.layer) === layer);
  }
  for (const listener of Object.values(followers)) listener(layer);
}

export function pickLayer(layer = chosenLayer()) {
  if (layer !== chosenLayer()) state.set({ layer: String(layer) }, { quiet: true });
  byId("layer").value = String(layer);
  point(layer);
}

byId("layer").addEventListener("input", (event) => pickLayer(Number(event.target.value)));

const layerAt = (event) => event.target.closest?.("[data-layer]")?.dataset.layer;

byId("main").addEventListener("pointerover", (event) => {
  const layer = clamped(Number(layerAt(event) ?? chosenLayer()));
  if (event.pointerType !== "touch" && pointed !== null && layer !== pointed) point(layer);
});
byId("main").addEventListener("click", (event) => {
  const layer = layerAt(event);
  if (layer !== undefined) pickLayer(Number(layer));
});
