// Finds pages of an atlas by any part of their names.
const pages = globalThis.atlasPages ?? [];
const field = document.getElementById("search");
const matches = document.getElementById("found");
const MOST = 30;

function show() {
  const words = field.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const hits = words.length ? pages.filter(([title, kind]) => words.every((word) => `${title} ${kind}`.toLowerCase().includes(word))) : [];
  const lines = hits.slice(0, MOST).map(([title, kind, address]) => {
    const line = document.createElement("li");
    const link = Object.assign(document.createElement("a"), { href: address, textContent: title });
    line.append(link, ` ${kind}`);
    return line;
  });
  if (words.length && !hits.length) lines.push(Object.assign(document.createElement("li"), { textContent: "Nothing is called that." }));
  if (hits.length > MOST) lines.push(Object.assign(document.createElement("li"), { textContent: `${hits.length - MOST} more` }));
  matches.replaceChildren(...lines);
}

field.addEventListener("input", show);
field.form.addEventListener("submit", (event) => { event.preventDefault(); matches.querySelector("a")?.click(); });
