// @ts-check
// The map of heads: one mark per head by what it does, the chosen one ringed, its nearest tied to it.
/** @import { HeadCard } from "../../shared/api_types.js" */
import { el, svg } from "../../shared/dom.js";
import { sign } from "./measures.js";
import { BEHAVIOURS, behaviour } from "./style.js";

/**
 * A head on the map.
 * @typedef {{ layer: number, head: number, x: number, y: number, behaviour: string }} Point
 * @typedef {(point: Point) => [number, number]} Placing
 */

const WIDTH = 420;
const HEIGHT = 320;
const EDGE = 24;
const RADIUS = 6;
const LABEL = { width: 32, height: 13, away: 10 };

const nameOf = (/** @type {{ layer: number, head: number }} */ { layer, head }) => `${layer}-${head}`;

/**
 * Both axes at one scale: distances are what the map is about.
 * @param {Point[]} points
 * @returns {Placing}
 */
function plane(points) {
  const [xs, ys] = [points.map((point) => point.x), points.map((point) => point.y)];
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const unit = Math.min((WIDTH - 2 * EDGE) / (right - left || 1), (HEIGHT - 2 * EDGE) / (high - low || 1));
  return ({ x, y }) => [WIDTH / 2 + (x - (left + right) / 2) * unit, HEIGHT / 2 - (y - (low + high) / 2) * unit];
}

/** @param {string} name */
const drawn = (name) => ({ d: behaviour(name).shape, style: `fill: ${behaviour(name).fill}` });

/**
 * @param {Point} point
 * @param {Placing} place
 * @param {(head: string) => void} onChoose
 */
function mark(point, place, onChoose) {
  const drawing = svg(
    "path",
    { ...drawn(point.behaviour), transform: `translate(${place(point).join(" ")}) scale(${RADIUS})`, class: "mark", "data-head": nameOf(point) },
    svg("title", {}, `${nameOf(point)}: ${point.behaviour}`),
  );
  drawing.addEventListener("click", () => onChoose(nameOf(point)));
  return drawing;
}

/**
 * Names of the head and its nearest; a name that would lie on another is left out, the list below has it.
 * @param {Point[]} points
 * @param {Placing} place
 */
function labels(points, place) {
  /** @type {[number, number][]} */
  const taken = [];
  return points.map((point, index) => {
    const [x, y] = place(point);
    const right = x < WIDTH - 2 * EDGE;
    const left = right ? x + LABEL.away : x - LABEL.away - LABEL.width;
    if (taken.some(([across, down]) => Math.abs(across - left) < LABEL.width && Math.abs(down - y) < LABEL.height)) return null;
    taken.push([left, y]);
    return svg("text", { x: right ? left : left + LABEL.width, y: y - 4, "text-anchor": right ? "start" : "end", class: index ? null : "own" }, nameOf(point));
  });
}

/**
 * Lists without words are no alternative: the label names what is near.
 * @param {string} head
 * @param {HeadCard["points"]} points
 * @param {HeadCard["neighbours"]} neighbours
 */
function summary(head, points, neighbours) {
  const nearest = neighbours.slice(0, 3).map((neighbour) => `${nameOf(/** @type {Point} */ (neighbour))} (${neighbour.divergence.toFixed(2)} nats)`);
  return `Map of ${points.length} heads; those that attend alike are near each other. Nearest to ${head}: ${nearest.join(", ")}.`;
}

/**
 * @param {string} head
 * @param {HeadCard} card
 * @param {(head: string) => void} onChoose
 */
export function headMap(head, card, onChoose) {
  const points = /** @type {Point[]} */ (card.points);
  const neighbours = /** @type {(Point & { divergence: number })[]} */ (card.neighbours);
  const place = plane(points);
  const selected = points.find((point) => nameOf(point) === head);
  const near = neighbours.map((neighbour) => points.find((point) => nameOf(point) === nameOf(neighbour))).filter((point) => point !== undefined);
  const [x, y] = selected ? place(selected) : [0, 0];
  const ties = selected ? near.map((point) => svg("line", { x1: x, y1: y, x2: place(point)[0], y2: place(point)[1], class: "tie" })) : [];
  const map = svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": summary(head, points, neighbours), class: "headmap" },
    ties,
    points.map((point) => mark(point, place, onChoose)),
    selected ? svg("circle", { cx: x, cy: y, r: 10, class: "ring" }) : null,
    labels(selected ? [selected, ...near] : near, place),
  );
  const there = BEHAVIOURS.filter(({ name }) => points.some((point) => point.behaviour === name));
  return el("figure", {}, map, el("figcaption", { class: "roles" }, there.map(({ name }) => key(name))));
}

/** @param {string} name */
const key = (name) => el("span", { class: "kind" }, sign(name), name);
