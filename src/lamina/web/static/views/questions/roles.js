// @ts-check
// How tokens are drawn: a shape and a colour per role, as in the printed figure.
/** @import { MapToken } from "../../shared/api_types.js" */
import { svg } from "../../shared/dom.js";
import { THEME } from "../../shared/theme.js";

const RADIUS = 5;
const OUTLINE = 1.75; // of an accepted answer, relative to its mark

// In the order of the legend.
export const ROLES = THEME.roles.map(({ name }) => name);
// The role of tokens that have no other.
export const PLAIN = THEME.plain;

// Which tokens are named on the map without being asked: the lower, the more wanted. An accepted answer comes second.
const RAREST = new Map(THEME.rarest.map((name, index) => [name, index ? index + 1 : 0]));
const GOLD = 1;
export const LAST = THEME.rarest.length + 2; // of no importance

/** @param {Pick<MapToken, "role"> & Partial<MapToken>} token */
export const importance = ({ role, gold = false }) => Math.min(RAREST.get(role) ?? LAST, gold ? GOLD : LAST);

/**
 * @param {string} role
 * @param {number} radius
 * @param {string} kind
 */
function shape(role, radius, kind) {
  const look = THEME.roles.find(({ name }) => name === role);
  return svg("path", { d: look?.shape, transform: `scale(${radius})`, class: kind });
}

/**
 * The mark of a token; an accepted answer has a second, larger outline.
 * @param {{ role: string, gold?: boolean }} token
 */
export function mark({ role, gold = false }) {
  const look = THEME.roles.find(({ name }) => name === role);
  return svg("g", { "data-role": role, style: `--role: ${look?.fill}` }, gold ? shape(role, RADIUS * OUTLINE, "gold") : null, shape(role, RADIUS, "dot"));
}

/** @param {number} number */
export const hue = (number) => (number < 0 ? "var(--grey)" : `var(--hue-${number % THEME.hues})`);

/**
 * The colour of a token by what the reader chose; by role, its mark has it.
 * @param {MapToken} token
 * @param {number} cluster
 * @param {string} colouring
 */
export function colourOf(token, cluster, colouring) {
  if (colouring === "role") return null;
  return hue(colouring === "sentence" ? token.sentence : cluster);
}
