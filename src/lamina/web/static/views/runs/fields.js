// @ts-check
// One field per setting, of the type that its schema says; an empty field means the default.
import { el } from "../../shared/dom.js";

/**
 * As JSON schema describes a setting.
 * @typedef {object} Property
 * @property {string} [type]
 * @property {string} [description]
 * @property {unknown} [default]
 * @property {(string | number)[]} [enum]
 * @property {string | number} [const]
 * @property {Property} [items]
 * @property {Property[]} [anyOf]
 * @property {number} [minimum]
 * @property {number} [maximum]
 */

/** @typedef {{ box: HTMLElement, value: () => unknown }} Field */

/** @param {Property} property */
const withoutNull = (property) => property.anyOf?.find(({ type }) => type !== "null") ?? property;

/** @param {unknown} value */
function textOf(value) {
  return Array.isArray(value) ? value.join(", ") || "none" : String(value);
}

/** @param {unknown} value */
function inWords(value) {
  if (value === null || value === undefined) return "default";
  return `${typeof value === "boolean" ? (value ? "yes" : "no") : textOf(value)} (default)`;
}

/**
 * @param {string} text
 * @param {Property} property
 */
const typed = (text, { type }) => (type === "integer" || type === "number" ? Number(text) : text);

/**
 * @param {string} id
 * @param {Property} one
 * @param {string} otherwise what the empty choice says
 * @returns {{ control: HTMLSelectElement | HTMLInputElement, value: () => unknown }}
 */
function control(id, one, otherwise) {
  const known = one.enum ?? (one.const === undefined ? undefined : [one.const]);
  if (one.type === "boolean" || known) {
    const choices = known?.map(String) ?? ["true", "false"];
    const names = known ? choices : ["yes", "no"];
    const select = el("select", { id }, el("option", { value: "" }, otherwise), choices.map((value, index) => el("option", { value }, names[index])));
    const value = () => (select.value === "" ? undefined : one.type === "boolean" ? select.value === "true" : typed(select.value, one));
    return { control: select, value };
  }
  const number = one.type === "integer" || one.type === "number";
  const limits = number ? { min: one.minimum, max: one.maximum, step: one.type === "integer" ? 1 : "any" } : {};
  const input = el("input", { id, type: number ? "number" : "text", placeholder: otherwise, spellcheck: "false", ...limits });
  const items = one.items;
  const value = () => {
    const text = input.value.trim();
    if (!text) return undefined;
    if (!items) return typed(text, one);
    // `none` is the empty list, as on the command line.
    return text === "none" ? [] : text.split(",").map((part) => part.trim()).filter(Boolean).map((part) => typed(part, items));
  };
  return { control: input, value };
}

/**
 * @param {string} id
 * @param {string} name
 * @param {Property} property
 * @param {{ required: boolean, filled: unknown }} how a required field begins filled, where something is known
 * @returns {Field}
 */
export function makeField(id, name, property, { required, filled }) {
  const one = withoutNull(property);
  const element = control(id, one, required ? "" : inWords(property.default));
  const list = one.items ? ` Separate several by commas${one.items.enum ? `: ${one.items.enum.join(", ")}` : ""}.` : "";
  const help = el("small", { class: "soft", id: `${id}-help` }, `${property.description ?? ""}${list}`);
  element.control.setAttribute("aria-describedby", help.id);
  if (required) {
    element.control.required = true;
    if (filled !== undefined) element.control.value = textOf(filled);
  }
  return { box: el("div", { class: "field" }, el("label", { for: id }, name.replaceAll("_", " ")), element.control, help), value: element.value };
}
