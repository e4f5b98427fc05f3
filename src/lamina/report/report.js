// Draws each chart when it is seen, as wide as its card, in the colours of the page. Until then, and in print, the still
// image stands.
const NARROWEST = 0.62; // of a panel's own width: below that, panels take another row
const WIDEST = 3.2;
const HIGHEST = 620; // pixels, of a panel that keeps its shape
const FEW = 0.7; // of a chart's words: where fewer have room, none is shown
const LETTER = 6.6; // pixels, of a title; narrow letters leave room
const dark = JSON.parse(document.getElementById("dark-colours").textContent);
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

const isNumber = (value) => typeof value === "number";
const views = (view) => view.layer ?? view.concat ?? view.hconcat ?? view.vconcat ?? [];
const panelWidth = (view) => (isNumber(view.width) ? view.width : Math.max(0, ...views(view).map(panelWidth)));

const panelHeight = (view) => (isNumber(view.height) ? view.height : Math.max(1, ...views(view).map(panelHeight)));

/** Lines of about as many letters as fit. */
function wrapped(text, pixels) {
  if (typeof text !== "string" || text.length * LETTER <= pixels) return text;
  const lines = [""];
  for (const word of text.split(" ")) {
    const line = lines.at(-1);
    if (line && (line.length + 1 + word.length) * LETTER > pixels) lines.push(word);
    else lines[lines.length - 1] = line ? `${line} ${word}` : word;
  }
  return lines;
}

function wrapTitle(title, pixels) {
  if (!title || Array.isArray(title)) return title;
  if (typeof title === "string") return wrapped(title, pixels);
  const subtitle = Array.isArray(title.subtitle)
    ? title.subtitle.flatMap((line) => wrapped(line, pixels * 1.1))
    : wrapped(title.subtitle, pixels * 1.1);
  return { ...title, text: wrapped(title.text, pixels), ...(subtitle ? { subtitle } : {}) };
}

/** Makes a view `ratio` times as wide, in place; one whose axes have one scale keeps its shape. */
function resize(view, ratio, shape) {
  const own = panelWidth(view) * ratio;
  if (isNumber(view.width)) view.width = Math.floor(view.width * ratio);
  if (shape && isNumber(view.height)) view.height = Math.floor(view.height * ratio);
  if (view.title && own) view.title = wrapTitle(view.title, own + 30);
  for (const [name, channel] of Object.entries(view.encoding ?? {})) {
    if (!channel || typeof channel !== "object") continue;
    if (name === "x" && own) channel.title = wrapped(channel.title, own);
    if (name === "y" && isNumber(view.height)) channel.title = wrapped(channel.title, view.height);
  }
  views(view).forEach((each) => resize(each, ratio, shape));
}

function legends(view, most) {
  for (const channel of Object.values(view.encoding ?? {})) {
    const legend = channel?.legend;
    if (!legend || typeof legend !== "object") continue;
    if (legend.gradientLength) legend.gradientLength = Math.min(legend.gradientLength, most * 110);
    if (!legend.gradientLength && ["top", "bottom"].includes(legend.orient)) legend.columns = Math.min(legend.columns ?? 9, most);
  }
  views(view).forEach((each) => legends(each, most));
}

/** The specification for a card of this width: as many panels in a row as fit, each as wide as that leaves. */
function fitted(spec, natural, room, shrink) {
  const made = structuredClone(spec);
  delete made.title; // the page has it
  delete made.description;
  const { keepShape, fixed, oneRow, together = 1 } = made.usermeta ?? {};
  const panels = made.concat ?? [made];
  const before = Math.min(made.columns ?? panels.length, panels.length);
  const rows = [];
  for (let at = 0; at < panels.length; at += before) rows.push(panels.slice(at, at + before));
  const widest = Math.max(...rows.map((row) => row.reduce((sum, panel) => sum + panelWidth(panel), 0)));
  const own = widest / before;
  const beside = Math.max(24, (natural - widest) / before); // axes, and the space to the next panel
  let columns = panels.length;
  while (columns > 1 && room / columns - beside < (fixed ? 1 : NARROWEST) * own) columns -= 1;
  columns = Math.ceil(panels.length / Math.ceil(panels.length / columns)); // rows of about the same length
  if (columns > together) columns -= columns % together;
  if (oneRow) columns = before; // panels share their rows: below each other they would be without labels
  let ratio = Math.min(WIDEST, (room / columns - beside) / own) * shrink;
  if (keepShape) ratio = Math.min(ratio, HIGHEST / Math.max(...panels.map(panelHeight)));
  if (fixed) ratio = 1;
  if (made.concat) made.columns = columns;
  panels.forEach((panel) => {
    resize(panel, Math.max(ratio, 0.3), keepShape);
    legends(panel, Math.max(1, Math.floor(room / columns / 105)));
  });
  return made;
}

/** The same specification in the colours of dark paper; data stay as they are. */
function recoloured(part) {
  if (typeof part === "string") return dark[part] ?? part;
  if (Array.isArray(part)) return part.map(recoloured);
  if (!part || typeof part !== "object") return part;
  return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, key === "datasets" || key === "values" ? value : recoloured(value)]));
}

function coloured(spec) {
  const plain = { ...spec, background: null };
  if (!prefersDark.matches) return { ...plain, config: { ...spec.config, background: null } };
  const made = recoloured(plain);
  return { ...made, config: { ...made.config, background: null, text: { color: dark.black, ...made.config?.text } } };
}

/** Takes away words and digits inside a chart that run into each other; a few by themselves, many all together. */
function keepLegible(box) {
  for (const group of box.querySelectorAll("svg .mark-text.role-mark")) {
    const texts = [...group.querySelectorAll("text")].filter((text) => text.textContent);
    const placed = texts.map((text) => ({ text, at: text.getBoundingClientRect() }));
    placed.sort((one, two) => one.at.top - two.at.top || one.at.left - two.at.left);
    const kept = [];
    for (const each of placed) {
      const free = kept.every(({ at }) => each.at.left >= at.right || at.left >= each.at.right || each.at.top >= at.bottom || at.top >= each.at.bottom);
      if (free) kept.push(each);
    }
    const shown = kept.length > FEW * placed.length ? new Set(kept.map(({ text }) => text)) : new Set();
    for (const text of texts) text.style.visibility = shown.has(text) ? "" : "hidden";
  }
}

function room(card) {
  const style = getComputedStyle(card);
  // The card may have shrunk to its chart: what counts is the figure around it.
  return card.parentElement.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - 2;
}

const redraws = new Map(); // box -> draws it again

async function draw(box) {
  const card = box.parentElement;
  const spec = JSON.parse(document.getElementById(box.dataset.spec).textContent);
  const actions = { export: true, source: false, compiled: false, editor: false };
  const options = { mode: "vega-lite", renderer: "svg", actions, logLevel: 1, downloadFileName: box.dataset.name };
  let last = 0;
  let view;

  async function redraw(always) {
    const width = room(card);
    if (width <= 0 || (!always && Math.abs(width - last) < 4)) return;
    last = width;
    let shrink = 1;
    for (let tries = 0; tries < 3; tries += 1) {
      view?.finalize();
      const fit = coloured(fitted(spec, Number(card.dataset.width), width, shrink));
      ({ view } = await vegaEmbed(box, fit, options));
      const drawn = Number(box.querySelector("svg").getAttribute("width"));
      card.classList.toggle("snug", drawn < width * 0.9);
      if (drawn <= width + 1 || shrink < 0.5) break;
      shrink *= Math.max(0.5, (width / drawn) * 0.98);
    }
    keepLegible(box);
    card.classList.add("drawn");
    card.dataset.ready = "1";
  }

  const resized = new ResizeObserver(() => redraw(false));
  function forget() {
    resized.disconnect();
    redraws.delete(box);
    box.style.minHeight = `${box.offsetHeight}px`; // what is below stays where it is
    view?.finalize();
    box.replaceChildren();
    delete card.dataset.ready;
  }

  await redraw(true);
  box.style.minHeight = "";
  redraws.set(box, redraw);
  resized.observe(card.parentElement);
  return forget;
}

const states = new Map(); // card -> whether it is near, what forgets its drawing, whether either is under way

/** Draws or forgets until the card is as it should be: it may come and go while it is drawn. */
async function settle(card) {
  const state = states.get(card);
  if (state.busy) return;
  state.busy = true;
  try {
    while (state.near !== Boolean(state.forget)) {
      if (state.near) state.forget = await draw(card.querySelector(".live"));
      else {
        state.forget();
        state.forget = undefined;
      }
    }
  } catch (error) {
    console.error(error); // the still image stays
  }
  state.busy = false;
}

function watch(margin, near) {
  return new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (isIntersecting !== near) continue;
      states.get(target).near = near;
      settle(target);
    }
  }, { rootMargin: margin });
}
const near = watch("300px", true);
const far = watch("3000px", false); // far away, a chart's thousand nodes are of no use
for (const card of document.querySelectorAll(".chart")) {
  states.set(card, { near: false, forget: undefined, busy: false });
  near.observe(card);
  far.observe(card);
}
prefersDark.addEventListener("change", () => redraws.forEach((redraw) => redraw(true)));

// A link into a fold opens it.
function unfold() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let fold = target?.closest?.("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
}
addEventListener("hashchange", unfold);
unfold();

// Printed pages show figures, findings and provenance that are folded away on screen; tables are files beside the page.
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open]):not(.table):not(.reading)")];
  for (const details of folded) details.open = true;
  for (const still of document.querySelectorAll(".still")) still.loading = "eager";
});
addEventListener("afterprint", () => {
  for (const details of folded) details.open = false;
});
