// The slider over layers, and the button that moves it.
import { byId } from "./dom.js";

const PAUSE = 1200; // milliseconds at a layer: the movement, and a moment to look

export class Player {
  // `onMove` hears every step; `onRest` where it came to rest.
  constructor({ onMove, onRest }) {
    this.slider = byId("layer");
    this.button = byId("play");
    this.onMove = onMove;
    this.onRest = onRest;
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

  set(layer, deepest) {
    this.slider.max = deepest;
    this.slider.value = layer;
    this.#moved();
  }

  play() {
    // From the beginning, where it has come to the end.
    this.slider.value = this.layer >= Number(this.slider.max) ? 0 : this.layer + 1;
    this.#moved();
    this.#pressed(true);
    this.timer = setInterval(() => {
      this.slider.value = this.layer + 1;
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
