"""Results of several models side by side: what one knows or says better, and where in its depth it knows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lamina.analyses.behaviour.item_comparison import ALL, ITEMS, asked_models, has_items, shared_items
from lamina.analyses.behaviour.item_findings import Lead, leads_in_words, unlike_in_words
from lamina.analyses.comparison_tables import METRICS, STATISTICS, BestLayer, Compared, Depth, Difference, in_words
from lamina.analyses.declaration import Overview, Table, Tables, analysis
from lamina.analyses.inputs import SavedResults
from lamina.analyses.layer_comparison import HIGHEST, MEAN, has_layers, layers_in_words, side_by_side
from lamina.analyses.legacy import MOST_FINDINGS, legacy_finding, status_of
from lamina.analyses.probing.contenders import Contest, Entry, find_contests, trained_unlike
from lamina.analyses.probing.paired import Apart, Estimate, Sampled, difference_of, resample
from lamina.analyses.probing.statistics import expected_layer, interval
from lamina.analyses.settings import Samples, Seed
from lamina.findings import Finding, cell, number, p_in_words, rows_of
from lamina.probes.edge import Cut
from lamina.results import Result
from lamina.stats.family import holm
from lamina.stats.seeds import ENOUGH_SEEDS
from lamina.tasks import title_of

_SURE = 0.05
"""Corrected p-value below which a difference is called clear."""
_MOST_SHOWN = 40
"""Differences in the terminal."""


@analysis(
    title="Several models side by side",
    question="What does one model know or say better than another, and where in its depth does it know it?",
    method=(
        "Scores and places of the models' probes are compared task by task, with layers as shares of each model's own "
        "depth. All models are scored on the same draws of the same texts, from their saved predictions, so that the "
        "interval of a difference is a paired one; p-values are corrected by Holm over all tasks and pairs. Results "
        "with items (minimal pairs, clozes) are compared item by item, drawn within their group. Measures by layer "
        "(geometry, attention, lens) are compared by their mean over layers and at the last layer, in the bootstrap "
        "samples that their results keep: a sample draws the same documents, texts or word types of all models."
    ),
    cites=("Tenney et al. 2019", "Efron and Tibshirani 1993"),
    reads=SavedResults(),
    # Several models; paired intervals from the saved predictions (2). Measures by layer are paired (3).
    version=3,
    tables={
        "compare": Table("One row per task, statistic and model.", Compared._fields),
        "differences": Table("One row per task, statistic and pair of models: a - b.", Difference._fields),
        "depth": Table(
            "One row per model, task (or measure), kind of probe and layer: the score (or measure), by share of the "
            "depth; of results by layer.",
            Depth._fields,
            optional=True,
        ),
        "best_layers": Table(
            "One row per task, model and layer: the score of that layer alone, the best of all models first; of "
            "probing results.",
            BestLayer._fields,
            optional=True,
        ),
        "items": Table(
            "One row per item and model; of results with items (pairs, clozes).",
            (*ITEMS[:2], "model", ITEMS[2]),
            optional=True,
            kept="parquet",
        ),
    },
    chapter="abilities",
    example="lamina compare results/minilm results/mpnet results/smollm2 --out results/compare",
)
def compare(results: Sequence[Result], *, samples: Samples = 10_000, seed: Seed = 0) -> Tables:
    """Results of any number of models: scores, and where in each model's own depth the answers appear.

    Results of one model on several corpora are merged. A task is compared among the models that were scored on the
    same targets by the same metric; what is left out is counted. Depth is relative (layer / L), so that models of
    different depth can be compared.

    Intervals (95 %) resample texts, the same for all models; from 5 seeds on each model's seeds too. So a difference
    has a paired interval, which is narrower than that of independent results where models err on the same texts. The
    centre of gravity does not depend on texts: below 5 seeds it has a range over seeds and no test.

    Of analyses with a table of items (`pairs`, `cloze`): models are paired by item, task is the group (paradigm,
    relation), and `all` the mean over groups. Intervals resample items within their group; p is that of a sign-flip
    test, corrected by Holm over groups and pairs of models. Items that not all models answered are left out.

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
    models, contests, left_out = find_contests(results)
    compared: list[Compared] = []
    apart: list[Difference] = []
    depths: list[Depth] = []
    best: list[BestLayer] = []
    for contest in contests:
        entrants = _entrants(contest, samples, seed)
        for statistic in STATISTICS:
            numbers = [each.number(statistic) for each in entrants]
            named = [(contest.task, contest.metric, statistic, each.entry.model) for each in entrants]
            compared += (Compared(*about, *found.row()) for about, found in zip(named, numbers, strict=True))
            apart += _pairs(contest, statistic, entrants, numbers)
        depths += (row for each in entrants for row in each.depths(contest))
        best += _best_layers(contest.task, entrants)
    tables = {
        "compare": pd.DataFrame(compared, columns=list(Compared._fields)).astype({"layer": "Int64"}),
        "differences": pd.DataFrame(_corrected(apart), columns=list(Difference._fields)),
        "depth": pd.DataFrame(depths, columns=list(Depth._fields)),
        "best_layers": pd.DataFrame(best, columns=list(BestLayer._fields)),
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
    models = asked_models(results)
    answers = shared_items(models)
    estimates, apart = answers.compare(samples=samples, seed=seed)
    about = (answers.metric, "items")
    compared = [Compared(row.group, *about, *row[2:], "interval", None, "") for row in estimates]
    differences = [Difference(row.group, *about, *row[2:7], "interval", *row[7:], "") for row in apart]
    tables = {
        "compare": pd.DataFrame(compared, columns=list(Compared._fields)).astype({"layer": "Int64"}),
        "differences": pd.DataFrame(differences, columns=list(Difference._fields)),
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
        "compare": pd.DataFrame(made.compared, columns=list(Compared._fields)).astype({"layer": "Int64"}),
        "differences": pd.DataFrame(made.differences, columns=list(Difference._fields)),
        "depth": pd.DataFrame(made.depths, columns=list(Depth._fields)),
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


class Layers(NamedTuple):
    """A probe of one layer in two results, on the same draws of the same texts."""

    task: str
    layer: int
    a: Estimate
    b: Estimate
    difference: Apart
    """b - a."""


def layer_differences(a: Result, b: Result, *, samples: int, seed: int) -> Iterator[Layers]:
    """Layer by layer what the single-layer probes of two results score, and b - a."""
    for contest in find_contests([a, b]).held:
        one, other = _entrants(contest, samples, seed)
        for layer in sorted({cut.layer for cut in one.cuts("layer")} & {cut.layer for cut in other.cuts("layer")}):
            cut = Cut("layer", layer)
            apart = difference_of(other.sampled.at(cut), one.sampled.at(cut))
            yield Layers(contest.task, layer, one.score(cut).estimate, other.score(cut).estimate, apart)


@dataclass(frozen=True, eq=False)
class _Number:
    """One statistic of one model at one task."""

    value: float
    draws: np.ndarray | None = None
    """[sample]"""
    seeds: np.ndarray | None = None
    """[seed] Where draws of texts do not move it and there are too few seeds to draw."""
    layer: int | None = None
    reason: str = ""

    @property
    def spread(self) -> str:
        return "interval" if self.seeds is None else "range"

    @property
    def estimate(self) -> Estimate:
        if self.seeds is not None:
            return Estimate(self.value, float(self.seeds.min()), float(self.seeds.max()))
        return Estimate(self.value, *(interval(self.draws) if self.draws is not None else (np.nan, np.nan)))

    def row(self) -> tuple[Any, ...]:
        return (*self.estimate, self.spread, self.layer, self.reason)


@dataclass(frozen=True, eq=False)
class _Entrant:
    """One model at one task, resampled."""

    entry: Entry
    sampled: Sampled

    def cuts(self, probe: str) -> list[Cut]:
        return [cut for cut in self.sampled.answers.cuts if cut.probe == probe]

    def number(self, statistic: str) -> _Number:
        """NaN with the reason where it is not available."""
        if statistic in self.entry.lacks:
            return _missing(self.entry.lacks[statistic])
        if statistic == "center_of_gravity":
            return self._gravity()
        if statistic == "expected_layer":
            return self._expected_layer()
        if statistic == "score_best_layer":
            layer = self.best_layer()
            return _missing("no probes of single layers") if layer is None else self.score(Cut("layer", layer))
        return self.score(Cut("cumulative", 0 if statistic == "score_first" else self.entry.last))

    def score(self, cut: Cut) -> _Number:
        if cut not in self.sampled.answers.cuts:
            return _missing(f"no probe P({cut.layer})")
        return _Number(*self.sampled.at(cut), layer=cut.layer)

    def best_layer(self) -> int | None:
        """Chosen by the texts that decide when to stop, else (older results) by the scored texts."""
        single = [cut.layer for cut in self.cuts("layer")]
        if not single:
            return None
        losses = self.entry.losses
        if all(np.isfinite(losses.get(layer, np.nan)) for layer in single):
            return min(single, key=lambda layer: losses[layer])
        return max(single, key=lambda layer: self.score(Cut("layer", layer)).value)

    def _gravity(self) -> _Number:
        each = self.entry.gravity
        if each is None or not self.entry.last:
            return _missing("no mixing weights of a full probe")
        shares = each / self.entry.last
        draws = self.sampled.over_seeds(shares)
        if draws is not None:
            return _Number(float(shares.mean()), draws)
        return _Number(float(shares.mean()), seeds=shares, reason=f"range over seeds: fewer than {ENOUGH_SEEDS}")

    def _expected_layer(self) -> _Number:
        found = self.sampled.cumulative()
        if found is None:
            return _missing("no cumulative probes of all layers")
        p, drawn = found
        low, high = interval(drawn[:, -1] - drawn[:, 0])
        if not (low > 0 or high < 0):
            return _missing("the gain of P(L) over P(0) cannot be told from 0")
        last = len(p) - 1
        return _Number(float(expected_layer(p)) / last, expected_layer(drawn) / last)

    def depths(self, contest: Contest) -> Iterator[Depth]:
        last = self.entry.last
        for cut in self.sampled.answers.cuts:
            share = cut.layer / last if last else np.nan
            about = (self.entry.model, contest.task, contest.metric, cut.probe, cut.layer, share)
            yield Depth(*about, *self.score(cut).estimate)


def _missing(reason: str) -> _Number:
    return _Number(np.nan, reason=reason)


def _entrants(contest: Contest, samples: int, seed: int) -> list[_Entrant]:
    sampled = resample([each.answers for each in contest.entries], samples=samples, seed=seed)
    return [_Entrant(*both) for both in zip(contest.entries, sampled, strict=True)]


def _pairs(
    contest: Contest, statistic: str, entrants: Sequence[_Entrant], numbers: Sequence[_Number]
) -> Iterator[Difference]:
    both = zip(entrants, numbers, strict=True)
    for (one, a), (other, b) in combinations(both, 2):
        about = (contest.task, contest.metric, statistic, one.entry.model, other.entry.model)
        said = [(each.entry.model, found.reason) for each, found in ((one, a), (other, b)) if found.reason]
        reason = "; ".join(f"{model}: {why}" for model, why in said)
        spread, apart = "interval", Apart(np.nan, np.nan, np.nan, np.nan)
        if a.draws is not None and b.draws is not None:
            apart = difference_of((a.value, a.draws), (b.value, b.draws))
        elif np.isfinite(a.value) and np.isfinite(b.value):
            # The farthest that any two seeds are apart.
            spread, (_, *x), (_, *y) = "range", a.estimate, b.estimate
            apart = Apart(a.value - b.value, x[0] - y[1], x[1] - y[0], np.nan)
        yield Difference(*about, *apart[:3], spread, apart.p, np.nan, reason)


def _corrected(rows: Sequence[Difference]) -> list[Difference]:
    """With Holm's correction over all tests of a statistic."""
    by_statistic = {name: [row for row in rows if row.statistic == name] for name in STATISTICS}
    corrected = {name: iter(holm([row.p for row in own]).tolist()) for name, own in by_statistic.items()}
    return [row._replace(p_adjusted=next(corrected[row.statistic])) for row in rows]


def _best_layers(task: str, entrants: Sequence[_Entrant]) -> Iterator[BestLayer]:
    """Every single layer of every model, the best first."""
    scored = [(each, cut, each.sampled.at(cut)) for each in entrants for cut in each.cuts("layer")]
    scored.sort(key=lambda one: -one[2][0])
    for rank, (each, cut, found) in enumerate(scored, start=1):
        apart = difference_of(scored[0][2], found)
        own = [value for whose, _, (value, _) in scored if whose is each]
        wide = max(own) - min(own)
        last = each.entry.last
        yield BestLayer(
            task,
            rank,
            each.entry.model,
            cut.layer,
            cut.layer / last if last else np.nan,
            *each.score(cut).estimate,
            bool(apart.low <= 0 <= apart.high),
            cut.layer == each.best_layer(),
            (found[0] - min(own)) / wide if wide else np.nan,
        )


@compare.finds
def _findings(result: Result) -> Iterable[Finding]:
    """Who is best at how many tasks, who resolves tasks deeper, and whether the probes were trained alike."""
    if "items" in result.tables:
        yield from _items_in_words(result)
        return
    if HIGHEST in set(result.tables["compare"]["statistic"]):
        yield from layers_in_words(result)
        return
    told = [*_trained_unlike(result)]
    table = result.tables["differences"]
    for statistic in ("score_full", "score_best_layer"):
        if known := _known(table, statistic):
            told += _best_in_words(known, statistic)
            break
    if places := _known(table, "expected_layer"):
        told.append(_deeper_in_words(places))
    yield from told[:MOST_FINDINGS]


def _items_in_words(result: Result) -> Iterator[Finding]:
    """Who is better over all groups, and at how many of them."""
    yield from unlike_in_words(result.provenance.model.get("models", []))
    compared, apart = result.tables["compare"], result.tables["differences"]
    values = {(row.task, row.model): row.value for row in rows_of(compared)}
    leads = [Lead(row.task, row.a, row.b, row.difference, row.low, row.high, row.p_adjusted) for row in rows_of(apart)]
    metric = str(compared["metric"].iloc[0])
    measure = "surprisal" if result.provenance.corpus.get("compared") == "surprisal" else "mean value"
    yield from leads_in_words(leads, values, "accuracy" if metric == "accuracy" else measure)


def _known(table: pd.DataFrame, statistic: str) -> list[Difference]:
    """The pairs that a test was made of."""
    rows = table[(table["statistic"] == statistic) & table["p"].notna()]
    return [Difference(*row) for row in rows_of(rows)]


def _clear(row: Difference) -> bool:
    return row.p_adjusted < _SURE and status_of(row.low, row.high, 0.0) == "clear"


def _turned(row: Difference) -> Difference:
    """b - a."""
    return row._replace(a=row.b, b=row.a, difference=-row.difference, low=-row.high, high=-row.low)


def _best_in_words(rows: Sequence[Difference], statistic: str) -> Iterator[Finding]:
    """One finding per model that is clearly better than all others somewhere, else one about the largest difference."""
    what = "" if statistic == "score_full" else " by its best single layer"
    tasks = list(dict.fromkeys(row.task for row in rows))
    wins: dict[str, list[Difference]] = {}
    most = 0
    for task in tasks:
        own = [each for row in rows if row.task == task for each in (row, _turned(row))]
        models = list(dict.fromkeys(row.a for row in own))
        most = max(most, len(models))
        for model in models:
            leads = [row for row in own if row.a == model]
            if all(_clear(row) and row.difference > 0 for row in leads):
                # What counts is the lead over the closest rival.
                wins.setdefault(model, []).append(min(leads, key=lambda row: row.difference))
    for model, leads in sorted(wins.items(), key=lambda item: -len(item[1])):
        top = max(leads, key=lambda row: row.difference)
        than = f"better than {top.b}" if most == 2 else f"the best of {most} models"
        beside = "" if most == 2 else f" than {top.b}"
        said = (
            f"{model} is {than}{what} at {len(leads)} of {len(tasks)} tasks, most at {title_of(top.task)}: "
            f"{METRICS.get(top.metric, 'F1')} {number(*top[5:8])} higher{beside}, paired by text, "
            f"{p_in_words(top.p_adjusted)} (Holm)."
        )
        yield legacy_finding(said, "clear", *top[5:8], against=0.0)
    if not wins:
        top = max(rows, key=lambda row: abs(row.difference))
        null = all(status_of(row.low, row.high, 0.0) == "null" for row in rows)
        who = "Neither model is clearly better" if most == 2 else f"None of {most} models is clearly the best"
        beside = "" if most == 2 else f" ({top.a} - {top.b})"
        said = (
            f"{who}{what} at any of {len(tasks)} tasks: {METRICS.get(top.metric, 'F1')} differs most at "
            f"{title_of(top.task)}, by {number(*top[5:8])}{beside}; equal is 0."
        )
        yield legacy_finding(said, "null" if null else "open", *top[5:8], against=0.0)


def _deeper_in_words(rows: Sequence[Difference]) -> Finding:
    """The pair and task whose expected layers are clearly farthest apart, and how many are clear."""
    turned = [row if row.difference >= 0 else _turned(row) for row in rows]
    clear = [row for row in turned if _clear(row)]
    top = max(clear or turned, key=lambda row: row.difference)
    if clear:
        said = (
            f"{top.a} resolves {title_of(top.task)} deeper than {top.b}: its expected layer lies "
            f"{number(*top[5:8])} of the depth later (clear in {len(clear)} of {len(rows)} comparisons)."
        )
        return legacy_finding(said, "clear", *top[5:8], against=0.0)
    null = all(status_of(row.low, row.high, 0.0) == "null" for row in rows)
    said = (
        f"No model resolves any task clearly deeper: the expected layer differs most at {title_of(top.task)}, by "
        f"{number(*top[5:8])} of the depth ({top.a} - {top.b}); equal is 0."
    )
    return legacy_finding(said, "null" if null else "open", *top[5:8], against=0.0)


def _trained_unlike(result: Result) -> Iterator[Finding]:
    """Where probes were trained in different ways, a difference is not one of the models alone."""
    unlike = trained_unlike(result.provenance.model.get("models", []))
    if unlike:
        yield legacy_finding(
            f"The probes were trained in different ways ({'; '.join(unlike)}): part of any difference may come from "
            "that.",
            "open",
        )


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
    full = apart[apart["statistic"].isin(["score_full", "items", MEAN]) & apart["p"].notna()]
    if len(full):
        # Of many groups, those that models are clearly apart at; the table has them all.
        shown = full if len(full) <= _MOST_SHOWN else full[(full["task"] == ALL) | (full["p_adjusted"] < _SURE)]
        told = [
            (row.task, f"{row.a} - {row.b}", cell(row.difference, row.low, row.high), cell(row.p_adjusted))
            for row in rows_of(shown.head(_MOST_SHOWN))
        ]
        what = "Differences of the full probes, paired by text"
        if "items" in result.tables:
            what = "Differences, paired by item"
        elif (full["statistic"] == MEAN).any():
            what = "Differences of means over layers, paired"
        more = len(full) - len(told)
        what += f"; {more:,} more are in differences.csv" if more else ""
        yield Overview(what, ("task", "models", "difference", "p"), told)
    best = result.tables.get("best_layers")
    if best is not None and len(best):
        shown = best[best["tied"] | best["chosen"]]
        told = [
            (row.task, row.rank, row.model, row.layer, cell(row.value, row.low, row.high), "yes" if row.tied else "no")
            for row in rows_of(shown)
        ]
        yield Overview(
            "The best single layers", ("task", "rank", "model", "layer", "score", "tied with the best"), told
        )
