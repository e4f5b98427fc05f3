// @ts-check
// Geometry of a map: outlines around clusters, and labels that do not cover each other.
/**
 * @typedef {[number, number]} Point
 * @typedef {{ left: number, top: number, right: number, bottom: number }} Box
 * @typedef {{ x: number, y: number, index: number, text: string, importance: number, named: boolean, width: number }} Wanted
 * @typedef {{ x: number, y: number, index: number, important: boolean }} Obstacle
 */

const CORNERS = 10; // of the circle that rounds an outline off
const GAP = 8; // between a token and its label
const LINE = 15; // height of a label
const MARK = 6; // half the size of a token

/** @type {(o: Point, a: Point, b: Point) => number} */
const turn = (o, a, b) => (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0]);

/** @param {Point[]} points */
function chain(points) {
  /** @type {Point[]} */
  const boxes = [];
  for (const point of points) {
    while (boxes.length > 1 && turn(boxes[boxes.length - 2], boxes[boxes.length - 1], point) <= 0) boxes.pop();
    boxes.push(point);
  }
  return boxes.slice(0, -1);
}

/**
 * The convex hull of circles around the points: round, and right for one or two points too.
 * @param {Point[]} points
 * @param {number} padding
 */
export function outline(points, padding) {
  const spread = points.flatMap(([x, y]) =>
    Array.from({ length: CORNERS }, /** @returns {Point} */ (_, n) => {
      const angle = (2 * Math.PI * n) / CORNERS;
      return [x + padding * Math.cos(angle), y + padding * Math.sin(angle)];
    }),
  );
  spread.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  return [...chain(spread), ...chain([...spread].reverse())];
}

/** @type {(a: Box, b: Box) => boolean} */
const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

/** @param {Wanted} label */
function candidates({ x, y, width }) {
  /** @type {(left: number, top: number) => Box} */
  const box = (left, top) => ({ left, top, right: left + width, bottom: top + LINE });
  const right = x + GAP;
  const left = x - GAP - width;
  const middle = x - width / 2;
  const above = y - GAP - LINE;
  const below = y + GAP;
  const level = y - LINE / 2;
  return [box(right, level), box(left, level), box(middle, above), box(middle, below), box(right, above), box(left, above), box(right, below), box(left, below)];
}

/**
 * Where labels go: a box for each that has room, the most wanted first; the others get none.
 * A label covers no other label, and no mark but, where there is no other room, an unimportant one.
 * @param {Wanted[]} wanted
 * @param {Obstacle[]} marks
 * @param {number} width
 * @param {number} height
 */
export function placed(wanted, marks, width, height) {
  const around = marks.map(({ x, y, index, important }) => ({ index, important, left: x - MARK, right: x + MARK, top: y - MARK, bottom: y + MARK }));
  /** @type {Box[]} */
  const taken = [];
  /** @type {Map<number, Wanted & Box>} */
  const chosen = new Map();
  for (const label of [...wanted].sort((a, b) => a.importance - b.importance)) {
    const free = candidates(label).filter(
      (box) => box.left >= 0 && box.top >= 0 && box.right <= width && box.bottom <= height && !taken.some((other) => meet(box, other)),
    );
    /** @type {(box: Box, every: boolean) => boolean} */
    const clear = (box, every) => !around.some((mark) => mark.index !== label.index && (every || mark.important) && meet(box, mark));
    const box = free.find((candidate) => clear(candidate, true)) ?? free.find((candidate) => clear(candidate, false));
    if (!box) continue;
    taken.push(box);
    chosen.set(label.index, { ...label, ...box });
  }
  return chosen;
}
