// @ts-check
// One layer is looked at everywhere at once: chosen with the scrubber or a click, tried by pointing at it.
import { byId, input } from "./dom.js";
import { verdict } from "./model_card.js";
import * as state from "./state.js";

const PAUSE = 1200; // milliseconds at a layer while playing: the movement, and a moment to look

/** @type {Map<string, (layer: number) => void>} */
const followers = new Map();
let last = 0; // the number of the last layer
let pointed = -1;
/** @type {number | null} */
let timer = null;

/** @param {number} layer */
const clamped = (layer) => Math.min(last, Math.max(0, Number.isInteger(layer) ? layer : last));

/** The last layer, where the address has none. */
export const chosenLayer = () => clamped(state.get("layer") === "" ? last : Number(state.get("layer")));

/** @param {number} layer */
const inWords = (layer) => (layer === 0 ? `0 of ${last} (embeddings)` : `${layer} of ${last}`);

/**
 * Called with the layer that is looked at, now and whenever it changes; a name follows once.
 * @param {string} name
 * @param {(layer: number) => void} listener
 */
export function follow(name, listener) {
  followers.set(name, listener);
  if (pointed >= 0) listener(pointed);
}

/** @param {string} name */
export const unfollow = (name) => followers.delete(name);

/**
 * Marks a layer everywhere without choosing it.
 * @param {number} layer
 */
export function point(layer) {
  pointed = layer;
  byId("layer-said").textContent = inWords(layer);
  for (const element of /** @type {NodeListOf<HTMLElement>} */ (byId("main").querySelectorAll("[data-layer]"))) {
    element.classList.toggle("on", Number(element.dataset.layer) === layer);
  }
  for (const listener of followers.values()) listener(layer);
}

/** Marks the chosen layer again: after something was drawn, or chosen elsewhere. */
export function pickLayer(layer = chosenLayer()) {
  if (layer !== chosenLayer()) state.set({ layer }, { quiet: true });
  const slider = input("layer");
  slider.value = String(layer);
  slider.setAttribute("aria-valuetext", `layer ${inWords(layer)}`);
  point(layer);
}

/**
 * How many layers can be chosen; views of several models take the deepest.
 * @param {number} count
 */
export function setLayers(count) {
  last = count - 1;
  input("layer").max = String(last);
  input("layer").disabled = false;
  byId("play", HTMLButtonElement).disabled = false;
  pickLayer();
}

function stop() {
  if (timer !== null) clearInterval(timer);
  timer = null;
  byId("play").setAttribute("aria-pressed", "false");
  byId("play").textContent = "Play";
}

function play() {
  byId("play").setAttribute("aria-pressed", "true");
  byId("play").textContent = "Pause";
  // From the beginning, where it has come to the end.
  pickLayer(chosenLayer() >= last ? 0 : chosenLayer() + 1);
  timer = setInterval(() => {
    pickLayer(chosenLayer() + 1);
    if (chosenLayer() >= last) stop();
  }, PAUSE);
}

/** @param {Event} event */
const layerAt = (event) => (event.target instanceof Element ? event.target.closest("[data-layer]")?.getAttribute("data-layer") : null);

async function fit() {
  const model = state.get("model");
  const card = await verdict(model).catch(() => null);
  if (card && model === state.get("model")) setLayers(card.blocks + 1);
}

/** Begins to listen; the number of layers comes from the model. */
export function beginLayers() {
  input("layer").addEventListener("input", () => {
    stop();
    pickLayer(Number(input("layer").value));
  });
  byId("play").addEventListener("click", () => (timer === null ? play() : stop()));
  byId("main").addEventListener("pointerover", (event) => {
    // A chart says itself which layer is pointed at.
    if (event.target instanceof Element && event.target.closest(".chart")) return;
    const layer = clamped(Number(layerAt(event) ?? chosenLayer()));
    if (event.pointerType !== "touch" && pointed >= 0 && layer !== pointed) point(layer);
  });
  byId("main").addEventListener("click", (event) => {
    const layer = layerAt(event);
    if (layer && pointed >= 0) pickLayer(clamped(Number(layer)));
  });
  state.onChange((changed) => {
    if ("model" in changed) fit();
    else if ("layer" in changed && pointed >= 0) pickLayer();
  });
  fit();
}
