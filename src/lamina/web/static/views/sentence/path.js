// @ts-check
// A word's way through the layers, with the other words where they are at the layer looked at.
/** @import { SentenceReading } from "../../shared/api_types.js" */
import { el, replace, svg, table } from "../../shared/dom.js";
import { follow } from "../../shared/layer.js";

const WIDTH = 340;
const HEIGHT = 300;
const EDGE = 26;
const NAMED = 40; // more words than this are dots without names
const LETTER = 4.6; // width of a letter of theirs, about
const LINE = 9; // height of a line

/** @typedef {[number, number]} Place */

/**
 * @param {SentenceReading} answer
 * @param {string[]} words
 * @param {number} word
 */
export function path(answer, words, word) {
  const place = scale(answer.places.flat());
  const way = answer.places.map((layer) => layer[word]);
  const others = svg("g", { class: "others" });
  const places = way.map(place);
  const dots = places.map(([x, y], layer) =>
    svg(
      "g",
      { class: "step", "data-layer": layer },
      svg("circle", { cx: x, cy: y, r: 7 }),
      svg("text", { x, y: y + 3 }, String(layer)),
      svg("title", {}, `${words[word]} at layer ${layer}`),
    ),
  );
  const line = svg("polyline", { class: "way", points: places.map((place) => place.join(",")).join(" ") });
  const share = answer.explained.map((part) => Math.round(100 * part));
  const summary = `The path of ${words[word]} through ${places.length} layers, in two dimensions that show ${share[0] + share[1]} percent of the variance; the table has the places.`;
  const drawn = svg("svg", { class: "path", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": summary }, others, line, dots);
  follow("path", (layer) => {
    replace(others, otherWords(answer.places[layer], words, word, place));
    drawn.append(dots[layer]); // the last one drawn lies on top
  });
  return [
    drawn,
    el("p", { class: "soft" }, `One PCA over all words at all layers, directions only; its two axes show ${share[0]} % and ${share[1]} % of the variance. Numbers are layers; grey words are the others at the layer looked at; where they would overlap, dots.`),
    el("details", {}, el("summary", {}, "The same as a table"), table(["layer", "x", "y"], way.map(([x, y], layer) => [layer, x, y]))),
  ];
}

/**
 * @param {Place[]} places
 * @returns {(place: Place) => Place}
 */
function scale(places) {
  const [xs, ys] = [places.map((place) => place[0]), places.map((place) => place[1])];
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  // One scale for both axes: distances on paper are distances.
  const unit = Math.min((WIDTH - 2 * EDGE) / (right - left || 1), (HEIGHT - 2 * EDGE) / (high - low || 1));
  const [middle, centre] = [(left + right) / 2, (low + high) / 2];
  const rounded = (/** @type {number} */ value) => Math.round(value * 10) / 10;
  return ([x, y]) => [rounded(WIDTH / 2 + (x - middle) * unit), rounded(HEIGHT / 2 - (y - centre) * unit)];
}

/**
 * @param {Place[]} places
 * @param {string[]} words
 * @param {number} word
 * @param {(place: Place) => Place} place
 */
function otherWords(places, words, word, place) {
  /** @type {{ x: number, y: number, wide: number }[]} */
  const taken = [];
  return places.flatMap((point, index) => {
    if (index === word) return [];
    const [x, y] = place(point);
    const dot = svg("circle", { cx: x, cy: y, r: 2 }, svg("title", {}, words[index]));
    // Words that would lie on each other cannot be read: the second is a dot, which says its name when pointed at.
    const wide = (words[index].length + 1) * LETTER;
    const free = taken.every((other) => Math.abs(other.x - x) > (wide + other.wide) / 2 || Math.abs(other.y - y) > LINE);
    if (words.length > NAMED || !free) return [dot];
    taken.push({ x, y, wide });
    return [dot, svg("text", { x, y: y - 4 }, words[index])];
  });
}
