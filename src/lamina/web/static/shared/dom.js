// @ts-check
// Elements made of text: nothing that comes from a model, a corpus or a user is ever read as HTML.
const SVG = "http://www.w3.org/2000/svg";

/**
 * An attribute; what is null or false is left out, and a name that begins with "on" takes a listener.
 * @typedef {string | number | boolean | null | undefined | ((event: any) => void)} Attribute
 * @typedef {Node | string | null | undefined} Child
 */

/**
 * @template {Element} E
 * @param {E} element
 * @param {Record<string, Attribute>} attributes
 * @param {(Child | Child[])[]} children
 * @returns {E}
 */
function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, Attribute>} attributes
 * @param {...(Child | Child[])} children
 */
export const el = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);

/**
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, Attribute>} attributes
 * @param {...(Child | Child[])} children
 */
export const svg = (tag, attributes = {}, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

/**
 * The element of the page with this id, which is of this kind.
 * @template {HTMLElement} E
 * @overload
 * @param {string} id
 * @param {new () => E} kind
 * @returns {E}
 */
/**
 * @overload
 * @param {string} id
 * @returns {HTMLElement}
 */
/**
 * @param {string} id
 * @param {new () => HTMLElement} kind
 */
export function byId(id, kind = HTMLElement) {
  const element = document.getElementById(id);
  if (!(element instanceof kind)) throw new Error(`the page has no ${kind.name} #${id}`);
  return element;
}

/** @param {string} id */
export const input = (id) => byId(id, HTMLInputElement);

/** @param {string} id */
export const select = (id) => byId(id, HTMLSelectElement);

/**
 * The only element inside another that a selector names.
 * @param {Element} parent
 * @param {string} selector
 * @returns {HTMLElement}
 */
export function inside(parent, selector) {
  const element = parent.querySelector(selector);
  if (!(element instanceof HTMLElement)) throw new Error(`there is no ${selector} here`);
  return element;
}

/**
 * @param {Element} parent
 * @param {...(Child | Child[])} children
 */
export const replace = (parent, ...children) => parent.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));

/**
 * @param {string[]} columns
 * @param {(Node | string | number | null | undefined)[][]} rows
 */
export function table(columns, rows, { caption = "" } = {}) {
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption || "Table" },
    el(
      "table",
      {},
      caption ? el("caption", {}, caption) : null,
      el("thead", {}, el("tr", {}, columns.map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell) => el("td", {}, cell instanceof Node ? cell : String(cell ?? "")))))),
    ),
  );
}

/**
 * What is happening, for eyes and screen readers.
 * @param {string} text
 */
export function say(text, { wrong = false } = {}) {
  const status = byId("status");
  status.textContent = text;
  status.classList.toggle("wrong", wrong);
}

/** @param {unknown} error */
export const message = (error) => (error instanceof Error ? error.message : String(error));

/**
 * Runs a step of a view; errors are shown, not swallowed.
 * @param {string} doing
 * @param {() => Promise<unknown>} step
 */
export async function attempt(doing, step) {
  say(doing);
  try {
    await step();
    if (byId("status").textContent === doing) say("");
  } catch (error) {
    say(message(error), { wrong: true });
  }
}
