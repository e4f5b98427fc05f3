// @ts-check
// Charts from Vega-Lite specifications, with what one takes away from them.
/** @import { FigureCard, ResultDetails } from "./api_types.js" */
import { el, message } from "./dom.js";
import { keepLegible, onPaper } from "/static/drawing.js";
import { besideOf, fitted } from "./fitting.js";
import { isDark, onScheme, THEME } from "./theme.js";
import { done, skeleton } from "./waiting.js";

/**
 * @typedef {(name: string, value: any) => void} Heard
 * @typedef {{ finalize: () => void, addSignalListener: (name: string, heard: Heard) => void, data: (name: string, values: object[]) => View, runAsync: () => Promise<View> }} View
 * @typedef {(box: HTMLElement, spec: object, options: object) => Promise<{ view: View }>} Embed
 */

const TRIES = 5; // to find a width that fits
const SPARE = 0.08; // of the width that may be left over
const NOTICED = 4; // pixels by which a width has to change
/** @type {string} */
const VEGA = "/static/vega.js"; // made by the server
/** @type {Promise<Embed> | undefined} */
let loading;

function vega() {
  loading ??= import(VEGA).then(() => /** @type {any} */ (window).vegaEmbed);
  return loading;
}

/**
 * Draws into the box, and again when its width changes or the page turns dark or light.
 * @param {HTMLElement} box
 * @param {FigureCard["spec"]} spec
 * @param {{ summary?: string, name?: string, onView?: (view: View) => void }} how `onView` hears of every view that is drawn
 */
export async function draw(box, spec, { summary = spec.description ?? "", name = "chart", onView = () => {} } = {}) {
  const embed = await vega();
  // Vega makes its element as wide as the chart; the panel around it scrolls.
  const live = el("div");
  const panel = el("div", { class: "chart", role: "group", "aria-label": summary, tabindex: "0" }, live);
  box.replaceChildren(panel);
  /** @type {View | undefined} */
  let view;
  let [natural, width, dark] = [0, 0, false]; // of the chart as it is made; of the place, when it was drawn last
  let [drawing, again] = [false, false];

  /** @param {FigureCard["spec"]} source */
  async function put(source) {
    view?.finalize();
    ({ view } = await embed(live, onPaper(source, dark ? THEME.dark : null), { mode: "vega-lite", renderer: "svg", actions: false, logLevel: 1, downloadFileName: name, tooltip: { theme: dark ? "dark" : "light" } }));
    return Number(live.querySelector("svg")?.getAttribute("width"));
  }

  async function fit() {
    [width, dark] = [room(panel), isDark()];
    panel.dataset.paper = dark ? "dark" : "light";
    natural ||= await put(spec);
    let [beside, narrower, before] = [besideOf(spec, natural), false, Infinity];
    for (let tries = 0; tries < TRIES; tries++) {
      const { drawing, columns, free } = fitted(spec, beside, width);
      const over = (await put(drawing)) - width;
      if (over <= 1 && (narrower || !free || over > -SPARE * width)) break;
      // Where narrower panels do not help, something else is what is wide: then they stay as they were.
      if (over > before - 2) {
        await put(natural <= width ? spec : fitted(spec, besideOf(spec, natural), width).drawing);
        break;
      }
      // Axes take more or less than they did. What had to be made narrower stays so.
      [narrower, before] = [narrower || over > 1, over > 1 ? over : Infinity];
      beside += over / columns + (over > 1 ? 1 : 0);
    }
    keepLegible(live);
    if (view) onView(view);
  }

  // While a chart is drawn its place may change: then once more.
  async function redraw() {
    if (!panel.isConnected || room(panel) <= 0 || (Math.abs(room(panel) - width) < NOTICED && dark === isDark())) return;
    again = drawing;
    if (drawing) return;
    drawing = true;
    try {
      await fit();
    } finally {
      drawing = false;
    }
    if (again) await redraw();
  }

  await redraw();
  new ResizeObserver(redraw).observe(box);
  onScheme(redraw);
}

/**
 * Pixels for a chart in its panel.
 * @param {HTMLElement} panel
 */
function room(panel) {
  const style = getComputedStyle(panel);
  return panel.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
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
 * @param {Pick<ResultDetails, "id" | "analysis" | "tables">} result
 * @param {FigureCard} source
 */
export function figure(result, source, query = "") {
  const box = el("div", { class: "box", "aria-busy": "true" }, skeleton(6));
  const base = `/api/results/${result.id}`;
  const images = ["svg", "png", "pdf"].map((kind) =>
    el("a", { href: `${base}/charts/${source.name}.${kind}${query}`, download: `${result.analysis}-${source.name}.${kind}` }, kind.toUpperCase()),
  );
  const tables = result.tables.map((name) =>
    el("a", { href: `${base}/tables/${name}.csv`, download: `${result.analysis}-${name}.csv` }, `${name}.csv`),
  );
  const element = el(
    "figure",
    { "data-chart": source.name },
    box,
    el("figcaption", {}, source.caption || source.summary),
    el("p", { class: "downloads" }, "Download: ", ...[...images, ...tables].flatMap((link) => [link, " "])),
  );
  whenSeen(box, () =>
    draw(box, source.spec, { summary: source.summary, name: `${result.analysis}-${source.name}` })
      .catch((error) => box.replaceChildren(el("p", { class: "wrong" }, `the chart cannot be drawn: ${message(error)}`)))
      .finally(() => done(box)),
  );
  return element;
}
