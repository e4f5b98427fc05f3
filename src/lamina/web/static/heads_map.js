// The map of heads: every head a mark by its role, the chosen one ringed, its nearest tied to it.
import { el, svg } from "./dom.js";
import { ROLES } from "./heads_style.js";

const WIDTH = 420;
const HEIGHT = 320;
const EDGE = 24;
const LABEL = { width: 32, height: 13, away: 10 };

const nameOf = ({ layer, head }) => `${layer}-${head}`;

// Both axes at one scale: distances are what the map is about.
function plane(points) {
  const [xs, ys] = [points.map((point) => point.x), points.map((point) => point.y)];
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const unit = Math.min((WIDTH - 2 * EDGE) / (right - left || 1), (HEIGHT - 2 * EDGE) / (high - low || 1));
  return ({ x, y }) => [WIDTH / 2 + (x - (left + right) / 2) * unit, HEIGHT / 2 - (y - (low + high) / 2) * unit];
}

function mark(point, place, onChoose) {
  const role = ROLES[point.behaviour] ?? ROLES.other;
  const made = svg(
    "path",
    { d: role.mark, transform: `translate(${place(point).join(" ")})`, fill: role.colour, class: "mark", "data-head": nameOf(point) },
    svg("title", {}, `${nameOf(point)}: ${point.behaviour}`),
  );
  made.addEventListener("click", () => onChoose(nameOf(point)));
  return made;
}

// Names of the head and its nearest; a name that would lie on another is left out, the list below has it.
function labels(points, place) {
  const taken = [];
  return points.map((point, at) => {
    const [x, y] = place(point);
    const right = x < WIDTH - 2 * EDGE;
    const left = right ? x + LABEL.away : x - LABEL.away - LABEL.width;
    if (taken.some(([across, down]) => Math.abs(across - left) < LABEL.width && Math.abs(down - y) < LABEL.height)) return null;
    taken.push([left, y]);
    return svg("text", { x: right ? left : left + LABEL.width, y: y - 4, "text-anchor": right ? "start" : "end", class: at ? null : "own" }, nameOf(point));
  });
}

// Lists without words are no alternative: what is near is said in the label.
function summary(head, points, neighbours) {
  const nearest = neighbours.slice(0, 3).map((each) => `${nameOf(each)} (${each.divergence.toFixed(2)} nats)`);
  return `Map of ${points.length} heads; those that attend alike are near each other. Nearest to ${head}: ${nearest.join(", ")}.`;
}

export function headMap(head, { points, neighbours }, onChoose) {
  const place = plane(points);
  const own = points.find((point) => nameOf(point) === head);
  const near = neighbours.map((each) => points.find((point) => nameOf(point) === nameOf(each))).filter(Boolean);
  const [x, y] = own ? place(own) : [0, 0];
  const ties = own ? near.map((point) => svg("line", { x1: x, y1: y, x2: place(point)[0], y2: place(point)[1], class: "tie" })) : [];
  const drawn = svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": summary(head, points, neighbours), class: "headmap" },
    ties,
    points.map((point) => mark(point, place, onChoose)),
    own ? svg("circle", { cx: x, cy: y, r: 10, class: "ring" }) : null,
    labels([own, ...near].filter(Boolean), place),
  );
  const roles = Object.keys(ROLES).filter((role) => points.some((point) => point.behaviour === role));
  return el("figure", {}, drawn, el("figcaption", { class: "roles" }, roles.map(key)));
}

function key(role) {
  const drawn = svg("svg", { viewBox: "-8 -8 16 16", width: 14, height: 14, "aria-hidden": "true" }, svg("path", { d: ROLES[role].mark, fill: ROLES[role].colour }));
  return el("span", { class: "kind" }, drawn, role);
}
