// @ts-check
// Charts from Vega-Lite specifications, with what one takes away from them.
/** @import { Figure, Whole } from "./api_types.js" */
import { el, message } from "./dom.js";
import { onPaper } from "./paper.js";
import { isDark, onScheme } from "./theme.js";
import { done, skeleton } from "./waiting.js";

/**
 * @typedef {(name: string, value: any) => void} Heard
 * @typedef {{ finalize: () => void, addSignalListener: (name: string, heard: Heard) => void, data: (name: string, values: object[]) => View, runAsync: () => Promise<View> }} View
 * @typedef {(box: HTMLElement, spec: object, options: object) => Promise<{ view: View }>} Embed
 */

const MARGIN = 70; // a panel's axis and the space to its neighbour
/** @type {string} */
const VEGA = "/static/vega.js"; // made by the server
/** @type {Promise<Embed> | undefined} */
let loading;

function vega() {
  loading ??= import(VEGA).then(() => /** @type {any} */ (window).vegaEmbed);
  return loading;
}

/**
 * @param {Figure["spec"]} spec
 * @param {number} width
 */
function fitted(spec, width) {
  const panel = spec.usermeta?.panelWidth;
  if (!panel || !spec.concat) return spec;
  return { ...spec, columns: Math.min(spec.columns, Math.max(1, Math.floor(width / (panel + MARGIN)))) };
}

/**
 * Draws into the box, and again when its width changes or the page turns dark or light.
 * @param {HTMLElement} box
 * @param {Figure["spec"]} spec
 * @param {{ summary?: string, name?: string, onView?: (view: View) => void }} how `onView` hears of every view that is drawn
 */
export async function draw(box, spec, { summary = spec.description ?? "", name = "chart", onView = () => {} } = {}) {
  const embed = await vega();
  let drawn = "";
  /** @type {View | undefined} */
  let view;
  // Vega makes its element as wide as the chart; the panel around it scrolls.
  const live = el("div");
  const panel = el("div", { class: "chart", role: "group", "aria-label": summary, tabindex: "0" }, live);
  box.replaceChildren(panel);

  async function redraw() {
    if (!box.isConnected && view) return;
    const fit = fitted(spec, box.clientWidth);
    const [dark, key] = [isDark(), `${fit.columns} ${isDark()}`];
    if (view && key === drawn) return;
    drawn = key;
    view?.finalize();
    panel.dataset.paper = dark ? "dark" : "light";
    ({ view } = await embed(live, onPaper(fit), { mode: "vega-lite", renderer: "svg", actions: false, downloadFileName: name, tooltip: { theme: dark ? "dark" : "light" } }));
    onView(view);
  }

  await redraw();
  new ResizeObserver(redraw).observe(box);
  onScheme(redraw);
}

/**
 * A page of thirty charts draws those in sight first.
 * @param {Element} box
 * @param {() => void} step
 */
function whenSeen(box, step) {
  const seen = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    seen.disconnect();
    step();
  }, { rootMargin: "600px" });
  seen.observe(box);
}

/**
 * A figure of a saved result: chart, caption, and its files. `query` asks for the same part of it that is shown.
 * @param {Pick<Whole, "id" | "analysis" | "tables">} result
 * @param {Figure} shown
 */
export function figure(result, shown, query = "") {
  const box = el("div", { class: "box", "aria-busy": "true" }, skeleton(6));
  const base = `/api/results/${result.id}`;
  const images = ["svg", "png", "pdf"].map((kind) =>
    el("a", { href: `${base}/charts/${shown.name}.${kind}${query}`, download: `${result.analysis}-${shown.name}.${kind}` }, kind.toUpperCase()),
  );
  const tables = result.tables.map((name) =>
    el("a", { href: `${base}/tables/${name}.csv`, download: `${result.analysis}-${name}.csv` }, `${name}.csv`),
  );
  const made = el(
    "figure",
    { "data-chart": shown.name },
    box,
    el("figcaption", {}, shown.caption || shown.summary),
    el("p", { class: "downloads" }, "Download: ", ...[...images, ...tables].flatMap((link) => [link, " "])),
  );
  whenSeen(box, () =>
    draw(box, shown.spec, { summary: shown.summary, name: `${result.analysis}-${shown.name}` })
      .catch((error) => box.replaceChildren(el("p", { class: "wrong" }, `the chart cannot be drawn: ${message(error)}`)))
      .finally(() => done(box)),
  );
  return made;
}
