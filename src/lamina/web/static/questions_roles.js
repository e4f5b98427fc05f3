// How tokens are drawn: a shape and a colour for each role, as in the printed figure.
import { svg } from "./dom.js";

const STAR = [[0, -1.6], [0.37, -0.5], [1.52, -0.5], [0.58, 0.19], [0.94, 1.3], [0, 0.64], [-0.94, 1.3], [-0.58, 0.19], [-1.52, -0.5], [-0.37, -0.5]];
const CROSS = [[-0.3, -1.1], [0.3, -1.1], [0.3, -0.3], [1.1, -0.3], [1.1, 0.3], [0.3, 0.3], [0.3, 1.1], [-0.3, 1.1], [-0.3, 0.3], [-1.1, 0.3], [-1.1, -0.3], [-0.3, -0.3]];
const SHAPES = {
  question: STAR,
  "predicted answer": [[0, -1.5], [1.2, 0], [0, 1.5], [-1.2, 0]],
  "supporting fact": [[-1, -1], [1, -1], [1, 1], [-1, 1]],
  "sentence of the wrong answer": [[0, -1.3], [1.2, 0.9], [-1.2, 0.9]],
  "special token": CROSS,
};
const RADIUS = 5;
const HUES = 7; // colours of the palette; sentences and clusters go round it

export const ROLES = ["question", "predicted answer", "supporting fact", "sentence of the wrong answer", "other", "special token"];

// Which tokens are named in the map without being asked: the lower, the more wanted.
export const IMPORTANCE = { "predicted answer": 0, question: 2, "supporting fact": 3, "sentence of the wrong answer": 4 };
export const GOLD_IMPORTANCE = 1;

function shape(role, radius) {
  if (!SHAPES[role]) return svg("circle", { r: radius * 0.9 });
  return svg("polygon", { points: SHAPES[role].map(([x, y]) => `${x * radius},${y * radius}`).join(" ") });
}

// The mark of a token; an accepted answer has a second, larger outline.
export function mark({ role, gold }, radius = RADIUS) {
  const outline = gold ? shape(role, radius * 1.75) : null;
  outline?.setAttribute("class", "gold");
  const filled = shape(role, radius);
  filled.setAttribute("class", "dot");
  return svg("g", { "data-role": role }, outline, filled);
}

export const hue = (number) => (number < 0 ? "var(--grey)" : `var(--hue-${number % HUES})`);

// The colour of a token by what the reader chose; by role, the stylesheet says it.
export function colourOf(token, cluster, colouring) {
  if (colouring === "role") return null;
  return hue(colouring === "sentence" ? token.sentence : cluster);
}

export const rolesOf = (token) =>
  ["question", "support", "gold", "predicted"].filter((name) => token[name]).map((name) => ({ support: "supporting fact", gold: "accepted answer", predicted: "predicted answer" })[name] ?? name);
