// @ts-check
// Scores of all models in one table, on one scale; differences from the baseline in another, to both sides of 0.
/** @import { ModelComparison, ModelScore, ScoreDifference } from "../../shared/api_types.js" */
import { el } from "../../shared/dom.js";
import { diverging, farthest, sequential, shared, short, signed } from "../../shared/scales.js";

const STATISTICS = { score_full: "all layers mixed", score_best_layer: "best single layer", items: "mean over items", value: "" };

/** @param {ModelScore} score */
const rowOf = (score) => `${score.analysis}\n${score.task}\n${score.statistic}`;

/** @param {ModelScore} score */
const titleOf = ({ title, metric, statistic }) => `${title} (${STATISTICS[statistic]}${STATISTICS[statistic] ? ", " : ""}${metric.replace("_", "-").replace("f1", "F1")})`;

/** @param {ModelScore} score */
function missing({ reason }) {
  return el("td", { class: "none", title: reason || "not available" }, "n/a");
}

/** @param {ModelScore} score @param {(value: number | null) => string} format */
const range = (score, format) => (score.low === null ? null : el("span", { class: "range" }, `${format(score.low)} to ${format(score.high)}`));

/**
 * @param {ModelScore[]} scores
 * @param {string[]} models
 * @param {string} label
 * @param {(score: ModelScore) => HTMLElement} cell
 */
function matrix(scores, models, label, cell) {
  /** @type {Map<string, Map<string, ModelScore>>} */
  const rows = new Map();
  for (const score of scores) rows.set(rowOf(score), (rows.get(rowOf(score)) ?? new Map()).set(score.model, score));
  const line = (/** @type {Map<string, ModelScore>} */ byModel) => {
    const [any] = byModel.values();
    return el("tr", {}, el("th", { scope: "row" }, titleOf(any)), models.map((model) => {
      const score = byModel.get(model);
      return score ? cell(score) : el("td", { class: "none" }, "–");
    }));
  };
  return el(
    "div",
    { class: "matrix", role: "region", tabindex: "0", "aria-label": label },
    el("table", {}, el("caption", {}, label), el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "task"), models.map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, [...rows.values()].map(line))),
  );
}

/** @param {ModelScore} score @param {{ low: number, high: number }} scale */
function absolute(score, scale) {
  if (score.value === null) return missing(score);
  const { fill, text } = sequential((score.value - scale.low) / (scale.high - scale.low || 1));
  return el("td", { style: `background: ${fill}; color: ${text}` }, short(score.value), range(score, short));
}

/** @param {ScoreDifference} apart @param {number} most */
function relative(apart, most) {
  if (apart.value === null) return missing(apart);
  const { fill, text } = diverging(apart.value / (most || 1));
  const clear = apart.p !== null && apart.p < 0.05;
  const p = apart.p === null ? "" : apart.p < 0.001 ? ", p < .001" : `, p = ${apart.p.toFixed(3)}`;
  const note = `${apart.paired ? "paired interval" : "not paired, so without an interval"}${p}`;
  return el("td", { style: `background: ${fill}; color: ${text}`, title: note }, clear ? el("strong", {}, signed(apart.value)) : signed(apart.value), apart.paired ? "" : "*", range(apart, signed));
}

/** @param {number | string} low @param {number | string} high @param {string} ramp @param {string} format */
function ramp(low, high, ramp, format) {
  return el("div", { class: "legend" }, el("span", {}, String(low)), el("span", { class: "scale", style: `background: linear-gradient(to right, var(${ramp}))` }), el("span", {}, String(high)), el("span", { class: "soft" }, format));
}

/** @param {ModelComparison} comparison */
export function showScores(comparison) {
  const [baseline, ...others] = comparison.models;
  if (!comparison.scores.length) return el("p", {}, "No task was scored for two of these models on the same texts. Probe them on the same corpus first (tab Runs).");
  const scale = shared(comparison.scores.map(({ value }) => value));
  const most = farthest(comparison.differences.map(({ value }) => value));
  const some = others.filter((name) => comparison.differences.some(({ model }) => model === name));
  const scored = comparison.models.filter((name) => comparison.scores.some(({ model }) => model === name));
  return el(
    "div",
    { class: "columns" },
    el("div", {}, matrix(comparison.scores, scored, "Scores, with 95 % intervals", (score) => absolute(score, scale)), ramp(short(scale.low), short(scale.high), "--scale", "score; one scale for all tasks and models")),
    some.length
      ? el(
          "div",
          {},
          matrix(comparison.differences, some, `Difference from ${baseline}, with 95 % intervals`, (score) => relative(/** @type {ScoreDifference} */ (score), most)),
          ramp(signed(-most), signed(most), "--diverging", `model minus ${baseline}. Bold: clear after correction for all tasks and models. *: not paired, since predictions of twins are not saved, so without an interval.`),
        )
      : null,
  );
}
