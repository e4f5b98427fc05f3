// Draws each chart when it is seen, as wide as its card, in the colours of the page. Until then, and in print, the still
// image stands. What the app does alike is in drawing.js, which the page has before this.
const NARROWEST = 0.62; // of a panel's own width: below that, panels take another row
const WIDEST = 3.2;
const INNER = 34; // pixels, of a panel within a panel: its axis, and the space to the next
const HIGHEST = 620; // pixels, of a panel that keeps its shape
const PHONE = 420; // pixels: where long names of rows would leave no room for a chart
const TWO_LINES = { labelExpr: "length(datum.label) < 20 ? datum.label : split(replace(datum.label, regexp('^(.{6,18}) (.+)$'), '$1|$2'), '|')", labelLimit: 130 };
const dark = JSON.parse(document.getElementById("dark-colours").textContent);
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

const across = (view) => (view.concat ? Math.min(view.columns ?? Infinity, view.concat.length) : 1);
const panelWidth = (view) => (isNumber(view.width) ? view.width : across(view) * Math.max(0, ...views(view).map(panelWidth)));

/** A view with those rows only whose field has one of these values. */
function only(view, field, values) {
  const panels = views(view).map((part) => only(part, field, values));
  const x = view.encoding?.x;
  const copy = { ...view };
  if (panels.length) copy[view.layer ? "layer" : "concat"] = panels;
  if (x?.field !== field) return copy;
  copy.transform = [...(view.transform ?? []), { filter: { field, oneOf: values } }];
  copy.encoding = { ...view.encoding, x: { ...x, ...(x.scale?.domain ? { scale: { ...x.scale, domain: values } } : {}) } };
  return copy;
}

/** The values of a field that has the columns of a view. */
function valuesOf(view, field) {
  const x = view.encoding?.x;
  return x?.field === field && x.scale?.domain ? x.scale.domain : views(view).map((part) => valuesOf(part, field)).find(Boolean);
}

/** Words inside a view that are longer than `pixels` end in an ellipsis. */
function shorten(view, pixels) {
  if (view.mark?.limit) view.mark = { ...view.mark, limit: pixels };
  views(view).forEach((part) => shorten(part, pixels));
}

/** Columns of words or numbers that a narrow card has no room for are left out, in place; says whether any was. */
function thin(drawing, room) {
  const { columns, narrow } = drawing.usermeta ?? {};
  if (narrow && room < narrow.room) {
    drawing.concat = narrow.panels.map((index) => drawing.concat[index]);
    for (const panel of drawing.concat) {
      if (!narrow.field || panel.encoding?.x?.field !== narrow.field) continue;
      Object.assign(panel, only(panel, narrow.field, narrow.values), { width: panel.width * narrow.share });
    }
    drawing.concat.forEach((panel) => shorten(panel, room * 0.45));
    return true;
  }
  const all = columns && valuesOf(drawing.concat[0], columns.field);
  const fit = columns && Math.max(2, Math.floor((room - 40) / columns.width));
  if (!all || fit >= all.length) return false;
  // The first, the last, and some between.
  const chosen = Array.from({ length: fit }, (_, index) => all[Math.round((index * (all.length - 1)) / (fit - 1))]);
  drawing.concat = drawing.concat.map((panel) => only(panel, columns.field, chosen));
  drawing.concat.forEach((panel) => shorten(panel, (room - 40) / fit - 6));
  return true;
}

/** Makes a view `ratio` times as wide, in place; one whose axes have one scale keeps its shape, marks fill their `cells`. */
function resize(view, ratio, { shape, cells, phone, outer = 0 }) {
  phone = phone && !(view.height?.step < 24); // a lower row has no room for two lines
  const width = panelWidth(view) * ratio || outer;
  if (isNumber(view.width)) view.width = Math.floor(view.width * ratio);
  if (shape && isNumber(view.height)) view.height = Math.floor(view.height * ratio);
  if (view.title && width) view.title = wrapTitle(view.title, width + 30);
  if (cells && view.mark?.size) view.mark = { ...view.mark, size: view.mark.size * Math.min(ratio, 1.3) ** 2 };
  for (const [name, channel] of Object.entries(view.encoding ?? {})) {
    if (!channel || typeof channel !== "object") continue;
    if (name === "x" && width) channel.title = wrapped(channel.title, width);
    // Numbers of layers and heads that run into each other are left out.
    if (name === "x" && channel.type === "ordinal" && channel.axis !== null) channel.axis = { labelOverlap: "greedy", ...channel.axis };
    if (name === "y" && phone && channel.type === "nominal" && channel.axis !== null) channel.axis = { ...channel.axis, ...TWO_LINES };
    if (name === "y" && isNumber(view.height)) channel.title = wrapped(channel.title, view.height);
  }
  views(view).forEach((part) => resize(part, ratio, { shape, cells, phone, outer: width }));
}

/** Legends above and below a panel get as many columns as fit into `pixels`, in place. */
function legends(view, pixels) {
  for (const channel of Object.values(view.encoding ?? {})) {
    const legend = channel?.legend;
    if (!legend || typeof legend !== "object") continue;
    const longest = Math.max(0, ...(channel.scale?.domain ?? []).map((name) => String(name).length));
    const most = Math.max(1, Math.floor(pixels / Math.max(105, longest * LETTER + 40)));
    if (legend.gradientLength) legend.gradientLength = Math.min(legend.gradientLength, Math.max(1, Math.floor(pixels / 105)) * 110);
    if (!legend.gradientLength && ["top", "bottom"].includes(legend.orient)) legend.columns = Math.min(legend.columns ?? 9, most);
  }
  views(view).forEach((part) => legends(part, pixels));
}

/** Panels within a panel take more rows where they have no room, in place; how much narrower it is then. */
function refold(panel, room) {
  if (!panel.concat) return 0;
  const [before, widest] = [panelWidth(panel), Math.max(...panel.concat.map(panelWidth))];
  const most = across(panel);
  panel.columns = Math.max(1, Math.min(most, Math.floor(room / (NARROWEST * widest + INNER))));
  return before - panelWidth(panel) + (most - panel.columns) * INNER;
}

/** The specification for a card of this width: as many panels in a row as fit, each as wide as that leaves. */
function fitted(spec, natural, room, shrink) {
  const drawing = structuredClone(spec);
  delete drawing.title; // the page has it
  delete drawing.description;
  const { keepShape, fixed, oneRow, narrow, cells, together = 1 } = drawing.usermeta ?? {};
  const whole = (drawing.concat ?? []).reduce((sum, panel) => sum + panelWidth(panel), 0);
  drawing.thinned = thin(drawing, room);
  const panels = drawing.concat ?? [drawing];
  if (oneRow) natural -= whole - panels.reduce((sum, panel) => sum + panelWidth(panel), 0);
  natural -= Math.max(0, ...panels.map((panel) => refold(panel, room)));
  const before = Math.min(drawing.columns ?? panels.length, panels.length);
  const rows = [];
  for (let start = 0; start < panels.length; start += before) rows.push(panels.slice(start, start + before));
  const widest = Math.max(...rows.map((row) => row.reduce((sum, panel) => sum + panelWidth(panel), 0)));
  const panelSize = widest / before;
  const beside = Math.max(24, (natural - widest) / before); // axes, and the space to the next panel
  let columns = panels.length;
  while (columns > 1 && room / columns - beside < (fixed ? 1 : NARROWEST) * panelSize) columns -= 1;
  columns = Math.ceil(panels.length / Math.ceil(panels.length / columns)); // rows of about the same length
  if (columns > together) columns -= columns % together;
  if (panels.some((panel) => panel.concat)) columns = Math.min(columns, before); // those have panels beside each other
  if (oneRow) columns = before; // panels share their rows: below each other they would be without labels
  let ratio = Math.min(WIDEST, (room / columns - beside) / panelSize) * shrink;
  if (keepShape) ratio = Math.min(ratio, HIGHEST / Math.max(...panels.map(panelHeight)));
  if (fixed) ratio = 1;
  if (drawing.concat) drawing.columns = columns;
  // Columns of numbers keep their width: the rest is for the others.
  const isThinned = (panel) => drawing.thinned && narrow?.field && panel.encoding?.x?.field === narrow.field;
  const thinnedWidth = panels.filter(isThinned).reduce((sum, panel) => sum + panelWidth(panel), 0);
  if (thinnedWidth) ratio = ((room - beside * before - thinnedWidth) / (widest - thinnedWidth)) * shrink;
  if (cells && columns === 1) drawing.align = "none";
  panels.forEach((panel, index) => {
    // Below each other, every panel takes the room that its own labels leave.
    const alone = cells && columns === 1 ? ((room - Math.min(cells[index], room / 2)) / panelWidth(panel)) * shrink : ratio;
    resize(panel, isThinned(panel) ? 1 : Math.max(alone, 0.2), { shape: keepShape, cells, phone: room < PHONE });
    legends(panel, room / columns);
  });
  return drawing;
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
      const { thinned, ...fit } = fitted(spec, Number(card.dataset.width), width, shrink);
      ({ view } = await vegaEmbed(box, onPaper(fit, prefersDark.matches ? dark : null), options));
      card.classList.toggle("thinned", thinned);
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
    card.classList.remove("snug"); // around nothing it would have no width
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
const far = watch("2000px", false); // far away, a chart's thousand nodes are of no use
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
