// @ts-check
// Words by layers: each cell is the label that leads, the fainter the less probable; above the words, who looks where.
/** @import { Belief, SentenceReading, SentenceView } from "../../shared/api_types.js" */
import { el, replace, svg } from "../../shared/dom.js";
import { faded, short } from "../../shared/scales.js";
import { onScheme } from "../../shared/theme.js";

/** @typedef {{ head: string, word: number, weight: number }} Partner the other word, by one head */
/** @typedef {{ incoming: Partner[], outgoing: Partner[] }} Partners of one word, the strongest first */
/** @typedef {{ title: string, labels: ({ label: string, probability: number, changed: boolean } | null)[] }} Beside another row of labels */

// The kinds of words whose colours stay from sentence to sentence; all other labels take the colours that are left.
const KINDS = ["NOUN", "VERB", "ADJ", "ADV", "AUX", "PROPN", "PRON", "ADP", "DET", "PUNCT"];
const COLOURS = ["--hue-0", "--hue-1", "--hue-2", "--hue-3", "--hue-4", "--hue-5", "--tone-3", "--tone-0", "--tone-1", "--tone-2"];
const REST = "--grey";
const FAINTEST = 0.12; // of a label's colour, where its probability is 0
const ARCS = 6; // for each direction
const LEAST = 0.05; // weight of an arc
const HIGH = 96; // pixels above the words
const NAMED = 3; // arcs that carry the name of their head

/** @param {string} label */
const colourOf = (label) => COLOURS[KINDS.indexOf(label)] ?? REST;

/** @param {string} label @param {number} probability */
export const paint = (label, probability) => faded(`var(${colourOf(label)})`, FAINTEST + (1 - FAINTEST) * probability);

/**
 * The strongest partner of a word, head by head; of each other word the head with the largest weight comes first.
 * @param {SentenceReading} reading
 * @param {number} word
 * @returns {Partners}
 */
export function partnersOf({ attention }, word) {
  if (!attention) return { incoming: [], outgoing: [] };
  const { heads } = attention;
  const all = (/** @type {{ weight: number[][], word: number[][] }} */ side) =>
    side.weight[word]
      .map((weight, index) => ({ head: `${Math.floor(index / heads) + 1}-${(index % heads) + 1}`, word: side.word[word][index], weight }))
      .filter((partner) => partner.word >= 0)
      .sort((one, other) => other.weight - one.weight);
  return { incoming: all(attention.incoming), outgoing: all(attention.outgoing) };
}

/**
 * By word, what its probes believe.
 * @param {SentenceView} seen
 */
export function beliefsOf(seen) {
  const unasked = new Set(seen.tasks.filter((task) => task.unasked).map((task) => task.name));
  /** @type {Map<number, Belief>} */
  const beliefs = new Map();
  for (const belief of seen.beliefs) {
    const [start, end] = belief.spans[0];
    if (unasked.has(belief.task) && end === start + 1 && !beliefs.has(start)) beliefs.set(start, belief);
  }
  return beliefs;
}

/**
 * @param {Belief} belief
 * @param {number} layer
 */
export function leader({ labels, leads }, layer) {
  const { label, probabilities } = labels[leads[Math.min(layer, leads.length - 1)]];
  return { label, probability: probabilities[Math.min(layer, probabilities.length - 1)] };
}

/**
 * @param {HTMLElement} box
 * @param {SentenceView} seen
 * @param {{ choose: (word: number) => void, point: (word: number | null) => void }} acts
 */
export function bench(box, seen, { choose, point }) {
  const beliefs = beliefsOf(seen);
  const arcs = svg("svg", { class: "arcs", "aria-hidden": "true" });
  const names = seen.words.map((word, index) =>
    el("button", { type: "button", class: "word", "data-word": index, "aria-pressed": "false", onclick: () => choose(index) }, word),
  );
  const head = el("tr", {}, el("th", { scope: "col" }, el("span", { class: "unseen" }, "layer")), names.map((name) => el("th", { scope: "col" }, name)));
  const body = el("tbody");
  const foot = el("tfoot");
  const table = el("table", { class: "bench-grid" }, el("thead", {}, head), body, foot);
  const inner = el("div", { class: "bench-inner" }, arcs, table);
  const scroll = el("div", { class: "bench scroll", role: "region", tabindex: "0", "aria-label": "Words by layers" }, inner);
  /** @type {Beside | null} */
  let beside = null;
  /** @type {() => void} */
  let again = () => {};

  /** @param {number} word @param {number} layer */
  function cell(word, layer) {
    const belief = beliefs.get(word);
    if (!belief) return el("td", { "data-word": word });
    const { label, probability } = leader(belief, layer);
    const { fill, text } = paint(label, probability);
    const flip = layer > 0 && leader(belief, layer - 1).label !== label;
    const message = `${seen.words[word]} at layer ${layer}: ${label} ${short(probability)}${flip ? ", until here another label" : ""}`;
    return el("td", { class: flip ? "flip" : null, style: `background: ${fill}; color: ${text}`, title: message, "data-word": word }, label);
  }

  function fill() {
    const layers = Array.from({ length: seen.layers }, (_, layer) => layer);
    inner.classList.toggle("deep", seen.layers > 14);
    // Without probes there is nothing to say of a layer.
    if (beliefs.size) replace(body, layers.map((layer) => el("tr", { "data-layer": layer }, el("th", { scope: "row" }, String(layer)), seen.words.map((_, word) => cell(word, layer)))));
    const decided = seen.words.map((word, index) => {
      const layer = beliefs.get(index)?.decided ?? null;
      const text = layer === null ? `${word}: no label ever leads by ${short(seen.margin)}` : `${word}: from layer ${layer} on the label stays and leads by at least ${short(seen.margin)}`;
      return el("td", { title: text, "data-word": index }, layer === null ? "never" : String(layer));
    });
    const other = (/** @type {NonNullable<Beside["labels"][number]>} */ { label, probability, changed }, /** @type {number} */ index) => {
      const { fill: colour, text } = paint(label, probability);
      return el("td", { class: changed ? "flip" : null, style: `background: ${colour}; color: ${text}`, title: `${seen.words[index]}: ${label} ${short(probability)}`, "data-word": index }, label);
    };
    replace(
      foot,
      beliefs.size ? el("tr", { class: "decided" }, el("th", { scope: "row" }, "decided at"), decided) : null,
      beside ? el("tr", { class: "beside" }, el("th", { scope: "row" }, beside.title), beside.labels.map((cell, index) => (cell ? other(cell, index) : el("td", { "data-word": index })))) : null,
    );
  }

  fill();
  onScheme(fill);
  scroll.addEventListener("pointerover", (event) => {
    const word = event.target instanceof Element ? event.target.closest("[data-word]")?.getAttribute("data-word") : null;
    if (word && event.pointerType !== "touch") point(Number(word));
  });
  scroll.addEventListener("pointerleave", () => point(null));
  scroll.addEventListener("focusin", (event) => {
    const word = event.target instanceof Element ? event.target.closest("[data-word]")?.getAttribute("data-word") : null;
    if (word) point(Number(word));
  });
  scroll.addEventListener("focusout", () => point(null));
  body.addEventListener("click", (event) => {
    const word = event.target instanceof Element ? event.target.closest("td[data-word]")?.getAttribute("data-word") : null;
    if (word) choose(Number(word));
  });
  new ResizeObserver(() => again()).observe(table);
  replace(box, scroll);

  return {
    /** @param {number} word that is looked at @param {number} chosen */
    light(word, chosen) {
      for (const element of scroll.querySelectorAll("[data-word]")) element.classList.toggle("lit", Number(element.getAttribute("data-word")) === word);
      for (const [index, name] of names.entries()) name.setAttribute("aria-pressed", String(index === chosen));
    },
    /**
     * The links of a word, and of a head that is looked at the strongest of every word.
     * @param {number} word
     * @param {Partners} partners
     * @param {{ from: number, to: number, weight: number }[]} all
     */
    draw(word, partners, all) {
      again = () => drawArcs(arcs, names, word, partners, all);
      again();
    },
    /** @param {Beside | null} labels */
    compare(labels) {
      beside = labels;
      fill();
    },
    /** Brings a word into sight, within the box. @param {number} word */
    reveal(word) {
      const name = names[word]?.parentElement;
      if (name && scroll.scrollWidth > scroll.clientWidth) scroll.scrollLeft = name.offsetLeft - scroll.clientWidth / 2;
    },
  };
}

/**
 * Of each other word the strongest link.
 * @param {Partner[]} partners
 */
function byWord(partners) {
  /** @type {Map<number, Partner>} */
  const best = new Map();
  for (const partner of partners) if (!best.has(partner.word) && partner.weight >= LEAST) best.set(partner.word, partner);
  return [...best.values()].slice(0, ARCS);
}

/**
 * @param {SVGSVGElement} box
 * @param {HTMLElement[]} names
 * @param {number} word
 * @param {Partners} partners
 * @param {{ from: number, to: number, weight: number }[]} all
 */
function drawArcs(box, names, word, partners, all) {
  const table = names[0].closest("table");
  if (!table) return;
  const width = table.offsetWidth;
  box.setAttribute("viewBox", `0 0 ${width} ${HIGH}`);
  box.setAttribute("width", String(width));
  box.setAttribute("height", String(HIGH));
  const places = names.map((name) => (name.parentElement?.offsetLeft ?? 0) + (name.parentElement?.offsetWidth ?? 0) / 2);
  const x = (/** @type {number} */ index) => places[index];
  const widest = Math.max(1, Math.abs(x(names.length - 1) - x(0)));
  // The highest point of such a curve lies at three quarters of the way to its control points.
  const top = (/** @type {number} */ one, /** @type {number} */ other) => HIGH - 1 - (16 + (HIGH - 32) * Math.sqrt(Math.abs(x(one) - x(other)) / widest)) / 0.75;
  const shape = (/** @type {number} */ one, /** @type {number} */ other) => `M${x(one)},${HIGH - 1} C${x(one)},${top(one, other)} ${x(other)},${top(one, other)} ${x(other)},${HIGH - 1}`;
  const arc = (/** @type {string} */ kind) => (/** @type {Partner} */ partner, /** @type {number} */ index) => [
    svg("path", { class: `arc ${kind}`, d: shape(word, partner.word), "stroke-width": 1 + 4 * partner.weight, opacity: 0.35 + 0.65 * partner.weight }),
    index < NAMED ? svg("text", { class: kind, x: (x(word) + x(partner.word)) / 2, y: HIGH - 1 - 0.75 * (HIGH - 1 - top(word, partner.word)) - 3 }, partner.head) : null,
  ];
  replace(
    box,
    all.map(({ from, to, weight }) => svg("path", { class: "arc all", d: shape(from, to), "stroke-width": 1 + 4 * weight, opacity: 0.15 + 0.5 * weight })),
    ...byWord(partners.incoming).map(arc("incoming")),
    ...byWord(partners.outgoing).map(arc("outgoing")),
  );
}
