// The atlas: layers x heads, one measure at a time. One stop for Tab, arrow keys inside.
import { el, replace } from "./dom.js";
import { gradient, ROLES, roleColours, scaled, short } from "./heads_style.js";

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

const nameOf = (layer, head) => `${layer + 1}-${head + 1}`;

// Where a value stands among all heads: 1 has the most.
export function ranked(measure, value) {
  const all = measure.values.flat().filter((each) => each !== null);
  return `${1 + all.filter((each) => each > value).length} of ${all.length}`;
}

export function described(measure, head) {
  const [layer, place] = head.split("-").map((part) => Number(part) - 1);
  const value = measure.values[layer]?.[place] ?? null;
  if (value === null) return `${head}: no number`;
  if (measure.names.length) return `${head}: ${measure.names[value]}`;
  return `${head}: ${value.toFixed(3)} (${measure.unit}), rank ${ranked(measure, value)}`;
}

function paint(cell, measure, value) {
  const kind = measure.names.length ? measure.names[value] : null;
  const spread = measure.high - measure.low || 1;
  if (value === null) {
    cell.style.background = "transparent";
    cell.style.color = "";
  } else {
    const { fill, text } = kind === null ? scaled((value - measure.low) / spread) : roleColours(kind);
    cell.style.background = fill;
    cell.style.color = text;
  }
  cell.textContent = kind === null ? short(value) : (ROLES[kind]?.short ?? kind);
  cell.setAttribute("aria-label", described(measure, cell.dataset.head));
}

// `onChoose(head, add)` when a head is clicked or Enter is pressed on it; `onLook(head)` when it is pointed at.
export function makeAtlas(box, { onChoose, onLook }) {
  let cells = [];
  let size = [0, 0];

  const at = (layer, head) => cells[layer * size[1] + head];

  function focusable(cell) {
    for (const each of cells) each.tabIndex = each === cell ? 0 : -1;
  }

  function move(event) {
    const index = cells.indexOf(event.target);
    if (index < 0) return;
    const [layer, head] = [Math.floor(index / size[1]), index % size[1]];
    let [to, place] = [layer, head];
    if (event.key in STEPS) [to, place] = [layer + STEPS[event.key][0], head + STEPS[event.key][1]];
    else if (event.key === "Home") place = 0;
    else if (event.key === "End") place = size[1] - 1;
    else return;
    event.preventDefault();
    const next = to >= 0 && to < size[0] && place >= 0 && place < size[1] ? at(to, place) : null;
    if (!next) return;
    focusable(next);
    next.focus();
  }

  function build(layers, heads) {
    size = [layers, heads];
    cells = [];
    const top = el("tr", {}, el("td", {}), Array.from({ length: heads }, (_, head) => el("th", { scope: "col" }, String(head + 1))));
    const rows = Array.from({ length: layers }, (_, layer) =>
      el(
        "tr",
        {},
        el("th", { scope: "row" }, String(layer + 1)),
        Array.from({ length: heads }, (_unused, head) => {
          const cell = el("button", { type: "button", "data-head": nameOf(layer, head), tabindex: "-1", "aria-pressed": "false" });
          cells.push(cell);
          return el("td", {}, cell);
        }),
      ),
    );
    const caption = el("caption", {}, "Rows are layers, columns are heads.");
    replace(box, el("table", { style: `--heads: ${heads}` }, caption, el("thead", {}, top), el("tbody", {}, rows)));
    cells[0].tabIndex = 0;
  }

  box.addEventListener("keydown", move);
  box.addEventListener("click", (event) => {
    const cell = event.target.closest("[data-head]");
    if (!cell) return;
    focusable(cell);
    onChoose(cell.dataset.head, event.shiftKey || event.ctrlKey || event.metaKey);
  });
  for (const kind of ["mouseover", "focusin"]) {
    box.addEventListener(kind, (event) => event.target.dataset?.head && onLook(event.target.dataset.head));
  }

  return {
    show(measure, layers, heads) {
      if (size[0] !== layers || size[1] !== heads) build(layers, heads);
      cells.forEach((cell, index) => paint(cell, measure, measure.values[Math.floor(index / heads)][index % heads]));
    },
    mark(chosen) {
      for (const cell of cells) cell.setAttribute("aria-pressed", String(chosen.includes(cell.dataset.head)));
      if (chosen.length) focusable(cells.find((cell) => cell.dataset.head === chosen.at(-1)) ?? cells[0]);
    },
  };
}

export function legend(box, measure) {
  if (measure.names.length) {
    const present = new Set(measure.values.flat());
    const kinds = measure.names.filter((_, at) => present.has(at));
    replace(box, kinds.map((name) => el("span", { class: "kind" }, swatch(name), `${name} (${ROLES[name]?.short ?? name})`)));
    return;
  }
  const known = measure.low !== null;
  const baseline = measure.baseline === null ? "" : `; ${measure.source === "heads" ? "best fixed offset" : measure.source === "corefheads" ? "nearest mention" : "uniform attention"}: ${short(measure.baseline)}`;
  replace(
    box,
    el("span", {}, known ? short(measure.low) : "–"),
    el("span", { class: "scale", style: `background: ${gradient}` }),
    el("span", {}, known ? short(measure.high) : "–"),
    el("span", { class: "soft" }, known ? `${measure.unit}${baseline}` : "nothing to measure here: this sentence or model has no such token"),
  );
}

export function swatch(role) {
  return el("span", { class: "swatch", style: `background: ${ROLES[role]?.colour ?? ROLES.other.colour}` });
}

// The highest head of a measure, or null where it is a kind or has no numbers.
export function highest(measure) {
  if (measure.names.length || measure.high === null) return null;
  for (const [layer, row] of measure.values.entries()) {
    const head = row.indexOf(measure.high);
    if (head >= 0) return nameOf(layer, head);
  }
  return null;
}
