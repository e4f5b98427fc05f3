// @ts-check
// The words of the corpus nearest to one, layer by layer; those of the layer looked at with their sentences.
/** @import { NearestWord, NearestWords, WordNeighbours } from "../../shared/api_types.js" */
import { el, replace } from "../../shared/dom.js";
import { follow } from "../../shared/layer.js";

const BRIEF = 5; // of each layer in the overview
const MOST_ROWS = 14; // layers that are all in sight
const LONG = 18; // characters of a word there; addresses and rules of signs are words too

/** @param {string} word */
const short = (word) => (word.length > LONG ? `${word.slice(0, LONG)}…` : word);

/**
 * @param {NearestWords} answer
 * @param {WordNeighbours} neighbours of one word
 */
export function near(answer, { layers }) {
  const close = el("div", { class: "close" });
  const rows = layers.map((words, layer) =>
    el(
      "tr",
      { "data-layer": layer },
      el("th", { scope: "row" }, String(layer)),
      el("td", {}, words.slice(0, BRIEF).flatMap((neighbour) => [el("span", { class: "near", title: neighbour.sentence }, short(neighbour.word), el("small", {}, neighbour.similarity.toFixed(2))), " "])),
    ),
  );
  follow("near", (layer) => {
    replace(close, inSentences(layers[layer], layer));
    bringIntoSight(rows[layer]);
  });
  return [
    el("div", { class: layers.length > MOST_ROWS ? "scroll" : "scroll whole", tabindex: "0", role: "region", "aria-label": "Nearest words by layer" }, el("table", { class: "brief" }, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "layer"), el("th", { scope: "col" }, "nearest words, cosine"))), el("tbody", {}, rows))),
    close,
    el("p", { class: "soft" }, `Among ${answer.words.toLocaleString("en")} words of ${answer.sentences} sentences of ${answer.corpus}; each word once, at its nearest occurrence.`),
  ];
}

/**
 * Within its box, which is too low for all layers of a deep model; the page stays where it is.
 * @param {HTMLElement} row
 */
function bringIntoSight(row) {
  const box = row.closest(".scroll");
  if (!box) return;
  const above = row.offsetTop - row.offsetHeight < box.scrollTop;
  if (above || row.offsetTop + row.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = row.offsetTop - box.clientHeight / 2;
}

/**
 * @param {NearestWord[]} words
 * @param {number} layer
 */
function inSentences(words, layer) {
  return [
    el("h4", {}, `At layer ${layer}, in their sentences`),
    el("ol", { class: "sentences" }, words.slice(0, BRIEF).map((neighbour) => el("li", {}, el("b", {}, short(neighbour.word)), ` ${neighbour.similarity.toFixed(2)} `, el("span", { class: "soft" }, neighbour.sentence)))),
  ];
}
