// @ts-check
// The slider over layers, and the button that moves it.
import { byId, input } from "../../shared/dom.js";

const PAUSE = 1200; // milliseconds at a layer: the movement, and a moment to look

export class Player {
  /**
   * `onMove` hears every step; `onRest` where it came to rest.
   * @param {{ onMove: (layer: number) => void, onRest: (layer: number) => void }} listeners
   */
  constructor({ onMove, onRest }) {
    this.slider = input("layer");
    this.button = byId("play");
    this.onMove = onMove;
    this.onRest = onRest;
    /** @type {number | null} */
    this.timer = null;
    this.slider.addEventListener("input", () => {
      this.stop();
      this.#moved();
    });
    this.slider.addEventListener("change", () => onRest(this.layer));
    this.button.addEventListener("click", () => (this.timer ? this.stop() : this.play()));
  }

  get layer() {
    return Number(this.slider.value);
  }

  /**
   * @param {number} layer
   * @param {number} deepest
   */
  set(layer, deepest) {
    this.slider.max = String(deepest);
    this.slider.value = String(layer);
    this.#moved();
  }

  play() {
    // From the beginning, where it has come to the end.
    this.slider.value = String(this.layer >= Number(this.slider.max) ? 0 : this.layer + 1);
    this.#moved();
    this.#pressed(true);
    this.timer = setInterval(() => {
      this.slider.value = String(this.layer + 1);
      this.#moved();
      if (this.layer >= Number(this.slider.max)) this.stop();
    }, PAUSE);
  }

  stop() {
    if (!this.timer) return;
    clearInterval(this.timer);
    this.timer = null;
    this.#pressed(false);
    this.onRest(this.layer);
  }

  /** @param {boolean} playing */
  #pressed(playing) {
    this.button.setAttribute("aria-pressed", String(playing));
    this.button.textContent = playing ? "Pause" : "Play";
  }

  #moved() {
    const name = `${this.layer} of ${this.slider.max}${this.layer === 0 ? " (embeddings)" : ""}`;
    this.slider.setAttribute("aria-valuetext", `layer ${name}`);
    byId("layer-name").textContent = name;
    this.onMove(this.layer);
  }
}
