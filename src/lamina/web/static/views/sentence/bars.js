// @ts-check
// Small bars from the first layer to the last: the pipeline paper's picture of a decision.
/** @import { LabelBelief } from "../../shared/api_types.js" */
import { el, svg } from "../../shared/dom.js";

const WIDTH = 70; // of all bars; those of a deep model are thin, and together a little wider
const THINNEST = 2.5;
const FILLED = 0.8; // of a bar's place
const HEIGHT = 22;

/** @param {number} value */
const format = (value) => value.toFixed(2);

const last = (/** @type {number[]} */ values) => values[values.length - 1];

/** @param {LabelBelief} label */
export const inWords = ({ label, probabilities }) => `${label} from ${format(probabilities[0])} to ${format(last(probabilities))}`;

/**
 * @param {LabelBelief} label
 * @param {number} order of the label among those of its word
 */
export function bars({ label, probabilities }, order) {
  const step = Math.max(THINNEST, WIDTH / probabilities.length);
  const width = step * probabilities.length;
  const drawn = probabilities.map((value, layer) => {
    const high = Math.max(0.6, value * HEIGHT);
    return svg(
      "g",
      { "data-layer": layer },
      svg("rect", { class: "slot", x: layer * step, y: 0, width: FILLED * step, height: HEIGHT }),
      svg("rect", { class: "bar", x: layer * step, y: HEIGHT - high, width: FILLED * step, height: high }),
      svg("title", {}, `${label} at layer ${layer}: ${format(value)}`),
    );
  });
  return el(
    "span",
    { class: `belief order${Math.min(order, 2)}` },
    el("span", { class: "label" }, label),
    svg("svg", { class: "bars", viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, "aria-hidden": "true" }, drawn),
    el("span", { class: "value" }, format(last(probabilities))),
  );
}
