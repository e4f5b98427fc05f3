// Elements made of text: nothing that comes from a model, a corpus or a user is ever read as HTML.
const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const el = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);

export const svg = (tag, attributes = {}, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

export const byId = (id) => document.getElementById(id);

export const replace = (parent, ...children) => parent.replaceChildren(...children.flat());

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

// What is happening, said to eyes and to screen readers.
export function say(text, { wrong = false } = {}) {
  const status = byId("status");
  status.textContent = text;
  status.classList.toggle("wrong", wrong);
}

// Runs a step of a view; what goes wrong is said, not swallowed.
export async function attempt(doing, step) {
  say(doing);
  try {
    await step();
    if (byId("status").textContent === doing) say("");
  } catch (error) {
    say(error.message, { wrong: true });
  }
}
