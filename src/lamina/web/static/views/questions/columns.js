// @ts-check
// Two maps side by side at the same layer: what is pointed at in one is marked in the other.
/** @import { AnsweredQuestion, MapToken, TokenMap as Tokens } from "../../shared/api_types.js" */
import { byId, el, replace, svg } from "../../shared/dom.js";
import { TokenMap } from "./map.js";
import { hue, mark, PLAIN, ROLES } from "./roles.js";
import { layersTable, reading, tokensTable } from "./text.js";
import { chosenLayer, follow, setLayers } from "../../shared/layer.js";

const MOST_IN_LEGEND = 12; // sentences

/**
 * @typedef {AnsweredQuestion & { letter: string, name: string }} Lettered
 * @typedef {{ box: HTMLElement, drawn: TokenMap, map: Tokens, note: HTMLElement, fill: () => void }} Column
 */

export class Columns {
  constructor() {
    /** @type {Column[]} */
    this.columns = [];
    this.method = "";
    this.together = false;
    this.colouring = "role";
    this.outlined = true;
  }

  /**
   * The layer is the one that is looked at everywhere.
   * @param {Lettered[]} answers
   * @param {{ method: string, fit: string }} how
   */
  show(answers, { method, fit }) {
    this.method = method;
    this.together = fit === "all";
    this.columns = answers.map((answered) => this.#column(answered));
    replace(byId("maps"), this.columns.map(({ box }) => box));
    if (answers.length) setLayers(Math.max(...answers.map(({ map }) => map.layers.length)));
    follow("maps", (layer) => this.#move(layer));
    this.paint(this.colouring, this.outlined);
  }

  /**
   * @param {string} colouring
   * @param {boolean} outlined
   */
  paint(colouring, outlined) {
    this.colouring = colouring;
    this.outlined = outlined;
    for (const { drawn } of this.columns) drawn.show({ colouring, outlined });
    replace(byId("legend"), this.columns.length ? this.#legend() : []);
  }

  /**
   * @param {Lettered} answered
   * @returns {Column}
   */
  #column({ letter, name, map, notes }) {
    const drawn = new TokenMap(map, { name, together: this.together, onPoint: (index) => this.#point(map, index) });
    const note = el("p", { class: "soft reading" });
    const tokens = el("div");
    const details = el("details", { class: "tokens" }, el("summary", {}, "The tokens of this layer as a table"), tokens);
    const box = el(
      "div",
      { class: "map-column", "data-letter": letter },
      el("h3", {}, el("span", { class: "letter" }, letter), ` ${name}`),
      drawn.box,
      note,
      notes.length ? el("p", { class: "soft" }, notes.join("; "), ".") : null,
      el("details", { class: "layers" }, el("summary", {}, "Clusters and variance of every layer"), layersTable(map)),
      details,
    );
    const fill = () => {
      if (details.open) replace(tokens, tokensTable(map, chosenLayer()));
    };
    const column = { box, drawn, map, note, fill };
    details.addEventListener("toggle", column.fill);
    return column;
  }

  /** @param {number} layer */
  #move(layer) {
    for (const { drawn, map, note, fill } of this.columns) {
      drawn.show({ layer });
      note.textContent = reading(map, layer, { method: this.method });
      fill();
    }
  }

  /**
   * Models that cut the text into the same tokens are pointed at together.
   * @param {Tokens} map
   * @param {number | null} index
   */
  #point(map, index) {
    for (const other of this.columns) {
      const same = other.map === map || (other.map.tokens.length === map.tokens.length && other.map.tokens[index ?? 0].word === map.tokens[index ?? 0].word);
      other.drawn.point(same ? index : null);
    }
  }

  #legend() {
    const tokens = this.columns.flatMap(({ map }) => map.tokens);
    const there = new Set(tokens.map(({ role }) => role));
    /** @type {(token: { role: string, gold?: boolean }, text: string, colour?: string | null) => HTMLElement} */
    const key = (token, text, colour) => {
      const dot = mark(token);
      if (colour) dot.style.setProperty("--dot", colour);
      return el("li", {}, svg("svg", { viewBox: "-10 -10 20 20", "aria-hidden": "true" }, dot), text);
    };
    const plain = this.colouring === "role" ? null : "var(--soft)";
    const items = ROLES.filter((role) => there.has(role)).map((role) => key({ role }, role, plain));
    if (tokens.some(({ gold }) => gold)) items.push(key({ role: PLAIN, gold: true }, "outlined: accepted answer", "transparent"));
    if (this.colouring === "sentence") items.push(...this.#sentences(tokens).map((n) => key({ role: PLAIN }, `sentence ${n + 1}`, hue(n))));
    if (this.colouring === "cluster") items.push(el("li", {}, "colours: the clusters, numbered in the map"));
    return items;
  }

  /** @param {MapToken[]} tokens */
  #sentences(tokens) {
    return [...new Set(tokens.map(({ sentence }) => sentence))].filter((n) => n >= 0).slice(0, MOST_IN_LEGEND);
  }
}
