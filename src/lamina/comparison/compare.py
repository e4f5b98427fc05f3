"""Results of several models side by side: what one knows or says better, and where in its depth it knows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lamina.comparison.items import ALL, ITEMS, has_items, models_with_items, shared_items, unlike_settings
from lamina.comparison.measures import HIGHEST, MEAN, has_layers, layers_in_words, side_by_side
from lamina.comparison.predictions import DrawnDifference, SampledScores, ScoreEstimate, difference_family, resample
from lamina.comparison.probes import ModelTask, TaskComparison, compare_tasks, unlike_training
from lamina.comparison.tables import (
    METRICS,
    STATISTICS,
    DepthScore,
    ModelDifference,
    ModelLead,
    ModelValue,
    RankedLayer,
    in_words,
    leads_in_words,
    unlike_in_words,
)
from lamina.framework.declare import Overview, Table, Tables, analysis
from lamina.framework.inputs import SavedResults
from lamina.framework.settings import Samples, Seed
from lamina.probes.edge import LayerCut
from lamina.results import Result
from lamina.results.finding import Finding, Source, cell, finding, not_tested, number, rows_of
from lamina.stats.best import best_set
from lamina.stats.family import Contrasts
from lamina.stats.intervals import interval
from lamina.stats.seeds import ENOUGH_SEEDS
from lamina.stats.status import LEAST_UNITS, NEGLIGIBLE, SURE, Contrast
from lamina.tasks import title_of

SAME_DEPTH = 0.05
"""Expected layers this close, as shares of the depth, are equal: a third of a layer in a model of six."""
_MOST_SHOWN = 40
"""Differences in the terminal."""


@analysis(
    title="Several models side by side",
    question="What does one model know or say better than another, and where in its depth does it know it?",
    method=(
        "Scores and places of the models' probes are compared task by task, with layers as shares of each model's own "
        "depth. All models are scored on the same draws of the same documents, from their saved predictions, so that "
        "differences are paired; p-values and intervals are corrected by max-T over all tasks and pairs of models. "
        "Results with items (minimal pairs, clozes) are compared item by item, by flipped signs within groups. "
        "Measures by layer (geometry, attention, lens) are compared by their mean over layers and at the last layer, "
        "in the bootstrap samples that their results keep: a sample draws the same documents, texts or word types of "
        "all models."
    ),
    cites=("Tenney et al. 2019", "Efron and Tibshirani 1993", "Romano and Wolf 2005"),
    reads=SavedResults(),
    # Several models; paired intervals from the saved predictions (2). Measures by layer are paired (3). Documents are
    # resampled, families corrected by max-T; best layers are a confidence set (4).
    version=4,
    tables={
        "compare": Table("One row per task, statistic and model.", ModelValue._fields),
        "differences": Table(
            "One row per task, statistic and pair of models: a - b. p_adjusted is two-sided, by max-T over all tasks "
            "(measures, groups of items) and pairs of models of the statistic; the mean over groups of items is "
            "corrected over pairs of models. low and high are simultaneous over the same family.",
            ModelDifference._fields,
        ),
        "depth": Table(
            "One row per model, task (or measure), kind of probe and layer: the score (or measure), by share of the "
            "depth; of results by layer.",
            DepthScore._fields,
            optional=True,
        ),
        "best_layers": Table(
            "One row per task, model and layer: the score of that layer alone, the highest of all models first, and "
            "whether it can be the best of them (a confidence set over all layers of all models at the task); of "
            "probing results.",
            RankedLayer._fields,
            optional=True,
        ),
        "items": Table(
            "One row per item and model; of results with items (pairs, clozes).",
            (*ITEMS[:2], "model", ITEMS[2]),
            optional=True,
            format="parquet",
        ),
    },
    chapter="abilities",
    example="lamina compare results/minilm results/mpnet results/smollm2 --out results/compare",
)
def compare(results: Sequence[Result], *, samples: Samples = 1000, seed: Seed = 0) -> Tables:
    """Results of any number of models: scores, and where in each model's own depth the answers appear.

    Results of one model on several corpora are merged. A task is compared among the models that were scored on the
    same targets by the same metric; what is left out is counted. Depth is relative (layer / L), so that models of
    different depth can be compared.

    Documents are resampled (texts where there is one document), the same for all models, and from 5 seeds on each
    model's seeds vary too. So a difference is paired, and its interval is narrower than that of independent results
    where models err on the same texts. Differences of one statistic are a family: all tasks, all pairs of models. Below
    5 seeds, the expected layer and the centre of gravity have a range over seeds and no test.

    Of analyses with a table of items (`pairs`, `cloze`): models are paired by item, task is the group (paradigm,
    relation), and `all` the mean over groups. p is that of a sign-flip test, corrected by max-T over groups and pairs
    of models. Items that not all models answered are left out.

    Of `geometry`, `attention` and `lens`: their measures by layer are put side by side on relative depth. Differences
    of means over layers, and of last layers, are paired: of the same draws of documents (texts, word types), which the
    results keep. What is not paired (results of older versions or with other settings; a lens on the next piece beside
    one on hidden words) is not tested, and `reason` and the findings say so.

    Example:
        >>> compare("results/minilm", "results/mpnet").tables["differences"]  # doctest: +SKIP
    """
    if any(map(has_items, results)):
        return _compare_items(results, samples, seed)
    if any(map(has_layers, results)):
        return _compare_layers(results)
    models, contests, left_out = compare_tasks(results)
    matches = [TaskMatch(contest, entrants_of(contest, samples, seed)) for contest in contests]
    tables = {
        "compare": pd.DataFrame(
            [row for match in matches for row in match.compared()], columns=list(ModelValue._fields)
        ).astype({"layer": "Int64"}),
        "differences": pd.DataFrame(
            [row for statistic in STATISTICS for row in differences_of(matches, statistic)],
            columns=list(ModelDifference._fields),
        ),
        "depth": pd.DataFrame(
            [row for match in matches for each in match.entrants for row in each.depths(match.contest)],
            columns=list(DepthScore._fields),
        ),
        "best_layers": pd.DataFrame(
            [row for match in matches for row in _best_layers(match)], columns=list(RankedLayer._fields)
        ),
    }
    return Tables(
        tables,
        left_out,
        model={"name": in_words([each.name for each in models]), "models": [each.describe() for each in models]},
        data={
            "name": in_words(dict.fromkeys(str(each.provenance.corpus["name"]) for each in results)),
            "compared": results[0].analysis,
        },
    )


def _compare_items(results: Sequence[Result], samples: int, seed: int) -> Tables:
    models = models_with_items(results)
    answers = shared_items(models)
    estimates, apart = answers.compare(samples=samples, seed=seed)
    about = (answers.metric, "items")
    compared = [ModelValue(row.group, *about, *row[2:], "interval", None, "") for row in estimates]
    # Items of `surprisal` are documents.
    unit = "document" if results[0].analysis == "surprisal" else "item"
    differences = [ModelDifference(row.group, *about, *row[2:7], "interval", *row[7:], unit, "") for row in apart]
    tables = {
        "compare": pd.DataFrame(compared, columns=list(ModelValue._fields)).astype({"layer": "Int64"}),
        "differences": pd.DataFrame(differences, columns=list(ModelDifference._fields)),
        "items": answers.long(),
    }
    return Tables(
        tables,
        answers.left_out,
        model={"name": in_words(answers.models), "models": [each.describe() for each in models]},
        data={
            "name": in_words(dict.fromkeys(str(each.provenance.corpus.get("name", "")) for each in results)),
            "compared": results[0].analysis,
        },
    )


def _compare_layers(results: Sequence[Result]) -> Tables:
    made = side_by_side(results)
    tables = {
        "compare": pd.DataFrame(made.compared, columns=list(ModelValue._fields)).astype({"layer": "Int64"}),
        "differences": pd.DataFrame(made.differences, columns=list(ModelDifference._fields)),
        "depth": pd.DataFrame(made.depths, columns=list(DepthScore._fields)),
    }
    about = [dict(each.provenance.model) for each in results]
    return Tables(
        tables,
        made.left_out,
        model={"name": in_words([str(each["name"]) for each in about]), "models": about},
        data={
            "name": str(results[0].provenance.corpus["name"]),
            "compared": results[0].analysis,
            # Not the setting: the draws are those of the results.
            "bootstrap": made.samples,
            "drawn": made.drawn,
        },
    )


class LayerDifference(NamedTuple):
    """A probe of one layer in two results, on the same draws of the same documents."""

    task: str
    layer: int
    a: ScoreEstimate
    b: ScoreEstimate
    difference: Contrast
    """b - a, by document (text); corrected by max-T over all tasks and layers, its interval simultaneous over them.
    Neither interval nor p where a probe had not converged."""
    unit: str
    """What is resampled: document or text."""


def layer_differences(a: Result, b: Result, *, samples: int, seed: int) -> Iterator[LayerDifference]:
    """Layer by layer what the single-layer probes of two results score, and b - a; all of them are one family."""
    pairs = []
    for contest in compare_tasks([a, b]).held:
        one, other = entrants_of(contest, samples, seed)
        for layer in sorted({cut.layer for cut in one.cuts("layer")} & {cut.layer for cut in other.cuts("layer")}):
            cut = LayerCut("layer", layer)
            tested = not any(cut in each.entry.unconverged for each in (one, other))
            pairs.append((contest.task, layer, one.score(cut), other.score(cut), tested))
    drawn = [_drawn(other, one) for *_, one, other, tested in pairs if tested]
    tests = difference_family(drawn, least=LEAST_UNITS) if drawn else None
    member = 0
    for task, layer, one, other, tested in pairs:
        difference = Contrast(other.value - one.value, np.nan, np.nan, np.nan, one.units)
        if tested and tests is not None:
            difference, member = _contrast(tests, member), member + 1
        yield LayerDifference(task, layer, one.estimate, other.estimate, difference, one.unit)


@dataclass(frozen=True, eq=False)
class ModelStatistic:
    """One statistic of one model at one task."""

    value: float
    draws: np.ndarray | None = None
    """[sample]"""
    seeds: np.ndarray | None = None
    """[seed] Where draws of documents do not move it, or do not say enough, and there are too few seeds to draw."""
    layer: int | None = None
    reason: str = ""
    units: int = 0
    """How many units were resampled."""
    unit: str = ""
    """What these are."""
    bounds: tuple[float, float] = (-np.inf, np.inf)
    """What it lies between."""
    compared: bool = True
    """Whether it is compared with that of other models."""

    @property
    def spread(self) -> str:
        return "interval" if self.seeds is None else "range"

    @property
    def estimate(self) -> ScoreEstimate:
        if self.seeds is not None:
            return ScoreEstimate(self.value, *_range_of(np.append(self.seeds, self.value)))
        ends = interval(self.draws) if self.draws is not None else (np.nan, np.nan)
        return ScoreEstimate(self.value, *(float(np.clip(end, *self.bounds)) for end in ends))

    def row(self) -> tuple[Any, ...]:
        return (*self.estimate, self.spread, self.layer, self.reason)


def _range_of(values: np.ndarray) -> tuple[float, float]:
    return (float(values.min()), float(values.max())) if np.isfinite(values).all() else (np.nan, np.nan)


@dataclass(frozen=True, eq=False)
class SampledTask:
    """One model at one task, resampled."""

    entry: ModelTask
    sampled: SampledScores

    def cuts(self, probe: str) -> list[LayerCut]:
        """The probes of a kind."""
        return [cut for cut in self.sampled.answers.cuts if cut.probe == probe]

    def number(self, statistic: str) -> ModelStatistic:
        """NaN with the reason where it is not available."""
        if statistic in self.entry.lacks:
            return _missing(self.entry.lacks[statistic])
        if statistic == "center_of_gravity":
            return self._gravity()
        if statistic == "expected_layer":
            return self._expected_layer()
        if statistic == "score_best_layer":
            if not self.cuts("layer"):
                return _missing("no probes of single layers")
            layer = self.chosen_layer()
            if layer is None:
                return _missing("no losses on texts that are not scored, to choose a layer by")
            return self.converged(LayerCut("layer", layer))
        return self.converged(LayerCut("cumulative", 0 if statistic == "score_first" else self.entry.last))

    def converged(self, cut: LayerCut) -> ModelStatistic:
        """The score of one probe; not compared where it had not converged, since more training would change it."""
        score = self.score(cut)
        if cut in self.entry.unconverged:
            probe = f"P({cut.layer})" if cut.probe == "cumulative" else f"layer {cut.layer}"
            return replace(score, reason=f"the probe of {probe} had not converged", compared=False)
        return score

    def score(self, cut: LayerCut) -> ModelStatistic:
        """Of one probe."""
        if cut not in self.sampled.answers.cuts:
            return _missing(f"no probe P({cut.layer})")
        # Draws are spread for few documents, and may leave what a score can be.
        bounds = (-np.inf if self.entry.metric == "r2" else 0.0, 1.0)
        value, draws = self.sampled.at(cut)
        return ModelStatistic(
            value, draws, layer=cut.layer, units=self.sampled.count, unit=self.sampled.kind, bounds=bounds
        )

    def chosen_layer(self) -> int | None:
        """The layer with the least loss on the texts that decide when to stop: none of them is scored."""
        single = [cut.layer for cut in self.cuts("layer")]
        losses = [self.entry.losses.get(layer, np.nan) for layer in single]
        return single[int(np.argmin(losses))] if single and np.isfinite(losses).all() else None

    def _gravity(self) -> ModelStatistic:
        each = self.entry.gravity
        if each is None or not self.entry.last:
            return _missing("no mixing weights of a full probe")
        shares = each / self.entry.last
        draws = self.sampled.over_seeds(shares)
        if draws is not None:
            return ModelStatistic(float(shares.mean()), draws, units=len(shares), unit="seed")
        return ModelStatistic(float(shares.mean()), seeds=shares, reason=_FEW_SEEDS)

    def _expected_layer(self) -> ModelStatistic:
        last = self.sampled.last
        if last is None:
            return _missing("no cumulative probes of all layers")
        if not self.sampled.gain()[0] > 0:
            return _missing("P(L) was not shown to gain on P(0)")
        value, each, draws = self.sampled.expected_layers()
        if draws is None:
            return ModelStatistic(value / last, seeds=each / last, reason=_FEW_SEEDS)
        return ModelStatistic(value / last, draws / last, units=self.sampled.count, unit=self.sampled.kind)

    def depths(self, contest: TaskComparison) -> Iterator[DepthScore]:
        """The score of every probe."""
        last = self.entry.last
        for cut in self.sampled.answers.cuts:
            share = cut.layer / last if last else np.nan
            about = (self.entry.model, contest.task, contest.metric, cut.probe, cut.layer, share)
            yield DepthScore(*about, *self.score(cut).estimate)


_FEW_SEEDS = f"range over seeds: fewer than {ENOUGH_SEEDS}"


def _missing(reason: str) -> ModelStatistic:
    return ModelStatistic(np.nan, reason=reason)


def entrants_of(contest: TaskComparison, samples: int, seed: int) -> list[SampledTask]:
    """The models of one task, on the same draws of the same documents."""
    sampled = resample([each.answers for each in contest.entries], samples=samples, seed=seed)
    return [SampledTask(*both) for both in zip(contest.entries, sampled, strict=True)]


@dataclass(frozen=True, eq=False)
class TaskMatch:
    """The models that are compared at one task."""

    contest: TaskComparison
    entrants: list[SampledTask]

    def compared(self) -> Iterator[ModelValue]:
        """Every statistic of every model."""
        about = (self.contest.task, self.contest.metric)
        for statistic in STATISTICS:
            for each in self.entrants:
                yield ModelValue(*about, statistic, each.entry.model, *each.number(statistic).row())


def differences_of(matches: Sequence[TaskMatch], statistic: str) -> list[ModelDifference]:
    """All pairs of models at all tasks: one family."""
    rows, tested, drawn = [], [], []
    for match in matches:
        numbers = [(each.entry.model, each.number(statistic)) for each in match.entrants]
        for (one, a), (other, b) in combinations(numbers, 2):
            reason = "; ".join(f"{model}: {each.reason}" for model, each in ((one, a), (other, b)) if each.reason)
            about = (match.contest.task, match.contest.metric, statistic, one, other)
            compared = a.compared and b.compared
            if compared and a.draws is not None and b.draws is not None:
                tested.append(len(rows))
                drawn.append(_drawn(a, b))
                apart = (np.nan, np.nan, np.nan)
                rows.append(ModelDifference(*about, *apart, "interval", np.nan, 0, 0, a.unit, reason))
                continue
            spread, apart = "interval", (np.nan, np.nan, np.nan)
            if compared and np.isfinite(a.value) and np.isfinite(b.value):
                # The farthest that any two seeds are apart.
                spread, (_, *x), (_, *y) = "range", a.estimate, b.estimate
                apart = (a.value - b.value, x[0] - y[1], x[1] - y[0])
            rows.append(ModelDifference(*about, *apart, spread, np.nan, 0, 0, "", reason))
    if drawn:
        least = ENOUGH_SEEDS if statistic == "center_of_gravity" else LEAST_UNITS
        tests = difference_family(drawn, least=least)
        for member, at in enumerate(tested):
            rows[at] = _tested(rows[at], _contrast(tests, member))
    return rows


def _drawn(a: ModelStatistic, b: ModelStatistic) -> DrawnDifference:
    none = np.full(1, np.nan)
    apart = (none if a.draws is None else a.draws) - (none if b.draws is None else b.draws)
    return DrawnDifference(a.value - b.value, apart, min(a.units, b.units))


def _contrast(tests: Contrasts, member: int) -> Contrast:
    estimate, low, high, p, units, needed = (float(each[member]) for each in tests)
    return Contrast(estimate, low, high, p, int(units), int(needed))


def _tested(row: ModelDifference, test: Contrast) -> ModelDifference:
    reason = row.reason
    if not test.needed and np.isnan(test.p):
        reason = "; ".join(filter(None, (reason, "the same in every draw")))
    named = {"difference": test.estimate, "low": test.low, "high": test.high, "p_adjusted": test.p}
    return row._replace(**named, units=test.units, needed=test.needed, reason=reason)


def _best_layers(match: TaskMatch) -> Iterator[RankedLayer]:
    """Every single layer of every model, the highest score first."""
    scored = [(each, cut, each.score(cut)) for each in match.entrants for cut in each.cuts("layer")]
    if not scored:
        return
    draws = np.stack([each.draws for *_, each in scored if each.draws is not None], axis=1)
    # Draws are spread for few documents already.
    late = [cut in each.entry.unconverged for each, cut, _ in scored]
    known = np.where(late, np.nan, [each.value for *_, each in scored])
    best = best_set(known, draws, scored[0][2].units, widen=False)
    order = sorted(range(len(scored)), key=lambda at: -scored[at][2].value)
    for rank, at in enumerate(order, start=1):
        each, cut, found = scored[at]
        own = [value.value for whose, _, value in scored if whose is each]
        wide, last = max(own) - min(own), each.entry.last
        yield RankedLayer(
            match.contest.task,
            rank,
            each.entry.model,
            cut.layer,
            cut.layer / last if last else np.nan,
            *found.estimate,
            float(best.p[at]),
            bool(best.among[at]),
            cut.layer == each.chosen_layer(),
            (found.value - min(own)) / wide if wide else np.nan,
        )


@compare.finds
def _findings(result: Result) -> Iterable[Finding]:
    """Who is ahead at which tasks, who resolves tasks deeper, and whether the models were probed alike."""
    models = result.provenance.model.get("models", [])
    if "items" in result.tables:
        yield from _items_in_words(result)
        yield from unlike_in_words("the models were asked", unlike_settings(models))
        return
    if HIGHEST in set(result.tables["compare"]["statistic"]):
        yield from layers_in_words(result)
        return
    for statistic, what in (("score_full", ""), ("score_best_layer", " in one layer")):
        leads = list(_leads(result, statistic, what))
        if leads:
            yield from leads_in_words(leads, "tasks")
            break
    else:
        yield from _no_scores(result)
    yield from _deeper_in_words(result)
    yield from unlike_in_words("the probes were trained", unlike_training(models))


def _no_scores(result: Result) -> Iterator[Finding]:
    """Why no scores were compared."""
    table = result.tables["differences"]
    rows = table[table["statistic"].isin(["score_full", "score_best_layer"]) & (table["reason"].fillna("") != "")]
    for row in rows_of(rows.head(1)):
        source = {"task": row.task, "statistic": row.statistic, "a": row.a, "b": row.b}
        yield not_tested(
            "one model reads a task better than another", row.reason, source=[Source("differences", source)]
        )


def _leads(result: Result, statistic: str, what: str = "") -> Iterator[ModelLead]:
    """The differences of a statistic that were tested, or could not be for want of documents."""
    compared, apart = result.tables["compare"], result.tables["differences"]
    values = {(row.task, row.model): row.value for row in rows_of(compared[compared["statistic"] == statistic])}
    for row in rows_of(apart[apart["statistic"] == statistic]):
        if row.spread == "range" or not np.isfinite(row.difference):
            continue
        about = {"task": row.task, "statistic": statistic}
        # Sources of both values, then of the difference.
        source = (*(Source("compare", {**about, "model": model}) for model in (row.a, row.b)),
                  Source("differences", {**about, "a": row.a, "b": row.b}))  # fmt: skip
        measure = METRICS.get(row.metric, "F1")
        yield ModelLead(
            row.a,
            row.b,
            (values[row.task, row.a], values[row.task, row.b]),
            Contrast.of(row, "difference"),
            measure,
            f"at {title_of(row.task)}{what}",
            source,
            row.unit,
            note="The layer is that of the least loss on the texts that decide when to stop." if what else "",
        )


def _items_in_words(result: Result) -> Iterator[Finding]:
    """Who is ahead over all groups, and at which group."""
    accuracy = set(result.tables["compare"]["metric"]) == {"accuracy"}
    measure = "surprisal" if result.provenance.corpus.get("compared") == "surprisal" else "mean value"
    leads = [
        lead._replace(
            measure="accuracy" if accuracy else measure,
            where="in the mean over groups" if group == ALL else f"at {group}",
            margin=NEGLIGIBLE if accuracy else 0.0,
        )
        for lead, group in ((lead, str(lead.source[-1].where["task"])) for lead in _leads(result, "items"))
    ]
    for overall in (True, False):
        some = [lead for lead in leads if (lead.source[-1].where["task"] == ALL) is overall]
        yield from leads_in_words(some, "groups")


def _deeper_in_words(result: Result) -> Iterator[Finding]:
    """The task at which one model's expected layer is clearly deepest against another's."""
    table = result.tables["differences"]
    known = table[(table["statistic"] == "expected_layer") & table["difference"].notna()]
    if known.empty:
        return
    leads = list(_leads(result, "expected_layer"))
    if not leads:
        yield not_tested(
            "one model resolves a task deeper than another",
            f"an expected layer has no interval with fewer than {ENOUGH_SEEDS} seeds of the probes",
        )
        return
    turned = [
        (lead if lead.test.estimate >= 0 else lead.turned())._replace(margin=SAME_DEPTH, where="") for lead in leads
    ]
    clear = [lead for lead in turned if lead.clear]
    top = max(clear, key=lambda lead: lead.test.estimate) if clear else _surest(turned)
    task = title_of(str(top.source[-1].where["task"]))
    one, other = map(number, top.values)
    yield finding(
        claim=f"{top.a} resolves {task} deeper than {top.b}: its expected layer is at {one} of its depth, that of "
        f"{top.b} at {other}",
        whether=f"{top.a} or {top.b} resolves {task} deeper in its layers",
        absent=f"{top.a} and {top.b} resolve {task} at the same depth",
        contrast="difference",
        test=top.test,
        source=top.source,
        unit=top.unit,
        importance=("answers", "localised"),
        margin=SAME_DEPTH,
        note=f"Clear in {len(clear)} of {len(leads)} comparisons." if len(leads) > 1 else "",
    )


def _surest(leads: Sequence[ModelLead]) -> ModelLead:
    return min(leads, key=lambda lead: (lead.test.p if np.isfinite(lead.test.p) else 2.0, -lead.test.estimate))


@compare.shows
def _overview(result: Result) -> Iterable[Overview]:
    """Every statistic of every model, the differences of full probes, and where to read each task."""
    table = result.tables["compare"]
    models = list(dict.fromkeys(table["model"]))
    rows: list[tuple[str | int, ...]] = []
    for (task, statistic), group in table.groupby(["task", "statistic"], sort=False):
        known = {row.model: cell(row.value, row.low, row.high) for row in rows_of(group)}
        rows.append((str(task), str(statistic), *(known.get(model, "-") for model in models)))
    yield Overview(result.provenance.model["name"], ("task", "statistic", *models), rows)
    apart = result.tables["differences"]
    full = apart[apart["statistic"].isin(["score_full", "items", MEAN]) & apart["difference"].notna()]
    if len(full):
        # Of many groups, those that models are clearly apart at; the table has them all.
        shown = full if len(full) <= _MOST_SHOWN else full[(full["task"] == ALL) | (full["p_adjusted"] < SURE)]
        told = [
            (row.task, f"{row.a} - {row.b}", cell(row.difference, row.low, row.high), cell(row.p_adjusted))
            for row in rows_of(shown.head(_MOST_SHOWN))
        ]
        what = "Differences of the full probes, paired by document"
        if "items" in result.tables:
            what = "Differences, paired by item"
        elif (full["statistic"] == MEAN).any():
            what = "Differences of means over layers, paired"
        more = len(full) - len(told)
        what += f"; {more:,} more are in differences.csv" if more else ""
        yield Overview(what, ("task", "models", "difference", "p"), told)
    best = result.tables.get("best_layers")
    if best is not None and len(best):
        shown = best[best["among_best"] | best["chosen"]]
        told = [
            (
                row.task,
                row.rank,
                row.model,
                row.layer,
                cell(row.value, row.low, row.high),
                "yes" if row.among_best else "no",
            )
            for row in rows_of(shown)
        ]
        yield Overview("The best single layers", ("task", "rank", "model", "layer", "score", "can be the best"), told)
