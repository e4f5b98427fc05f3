"""Do models agree on the order of tasks? Which comes first in how many models, and how alike their orders are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd

from lamina.comparison.predictions import DrawnDifference, difference_family
from lamina.comparison.probes import ModelStatistic, compare_tasks, sample_models
from lamina.comparison.tables import in_words
from lamina.errors import InputError
from lamina.framework.declare import ComparedTasks, Table, Tables, analysis
from lamina.framework.inputs import SavedResults
from lamina.framework.registry import get_analysis
from lamina.framework.settings import Samples, Seed, Setting
from lamina.results import Result
from lamina.results.finding import Finding, Source, finding, not_tested, rows_of
from lamina.stats.correlations import kendall_correlation
from lamina.stats.family import bootstrap_family
from lamina.stats.intervals import interval
from lamina.stats.status import LEAST_UNITS, SURE, Contrast
from lamina.tasks import TASKS, title_of

_LEAST_TASKS = 3
"""Two tasks have one of two orders, which says nothing of how alike orders are."""


class TaskDepth(NamedTuple):
    """One row of `places.csv`: where a model resolves a task."""

    model: str
    task: str
    value: float
    """The expected layer as a share of the model's depth."""
    low: float
    """Of this model and task alone; a range over seeds with fewer than 5."""
    high: float
    reason: str
    """Why it is not available."""


class ModelOrder(NamedTuple):
    """One row of `order.csv`: which of two tasks a model resolves first."""

    model: str
    task_a: str
    task_b: str
    difference: float
    """Expected layer of b minus that of a, as a share of the depth: above 0 where a comes first."""
    low: float
    """95 %, simultaneous over all pairs of tasks in all models."""
    high: float
    p_adjusted: float
    """Two-sided, by max-T over all pairs of tasks in all models."""
    units: float
    needed: float
    verdict: str
    """a first, b first, undecided or untested."""
    reason: str


class PairCount(NamedTuple):
    """One row of `pairs.csv`: in how many models which of two tasks comes first."""

    task_a: str
    task_b: str
    models: int
    a_first: int
    b_first: int
    undecided: int
    untested: int
    model: str
    """Whose contrast follows: the least sure of those that are clear; where none is, the surest."""
    difference: float
    low: float
    high: float
    p_adjusted: float
    units: float
    needed: float


class ModelChance(NamedTuple):
    """One row of `models.csv`: how often the order that was asked about holds in a model."""

    model: str
    hypothesis: str
    """Tasks, earliest first."""
    order: str
    """The tasks by their expected layers, earliest first."""
    probability: float
    """Share of the draws (documents and seeds) in which all tasks stand in that order."""
    reason: str


class OrderLikeness(NamedTuple):
    """One row of `kendall.csv`: how alike the orders of two models are; the last row is the mean over all pairs."""

    model_a: str
    model_b: str
    tasks: int
    tau: float
    """Kendall's: 1 for the same order, -1 for the reverse, 0 for no relation."""
    low: float
    """The middle 95 % of draws; of the mean, of its test."""
    high: float
    p_adjusted: float
    """Of the mean alone: that it is 0."""
    units: float
    needed: float


@analysis(
    title="The order of tasks across models",
    question="Which of two tasks is resolved earlier, in how many models, and do models agree on the whole order?",
    method=(
        "Where a task is resolved is the expected layer of its cumulative probes, as a share of each model's depth. "
        "All models are scored on the same draws of the same documents, from their saved predictions, and from 5 "
        "seeds on each model's seeds vary too. Every pair of tasks in every model is one family, corrected by max-T. "
        "P(order) is the share of draws in which all tasks stand in the order asked about; agreement is Kendall's "
        "tau between the orders of two models."
    ),
    cites=("Tenney et al. 2019", "Romano and Wolf 2005"),
    reads=SavedResults(),
    version=1,
    tables={
        "places": Table("One row per model and task.", TaskDepth._fields),
        "order": Table(
            "One row per model and pair of tasks: two-sided, max-T over all pairs of tasks in all models.",
            ModelOrder._fields,
        ),
        "pairs": Table(
            "One row per pair of tasks: in how many models which comes first, with the contrast of one model, of the "
            "family in `order`.",
            PairCount._fields,
        ),
        "models": Table("One row per model: how often the order asked about holds.", ModelChance._fields),
        "kendall": Table("One row per pair of models; the last row is the mean.", OrderLikeness._fields),
    },
    chapter="abilities",
    example="lamina agreement results/minilm results/mpnet --task pos --task dep --out results/agreement",
)
def agreement(
    results: Sequence[Result],
    *,
    tasks: Annotated[
        Sequence[str] | None,
        Setting(
            "The order asked about, earliest first; by default the tasks that all results have, as the catalogue "
            "lists them.",
            option="--task",
        ),
    ] = None,
    samples: Samples = 1000,
    seed: Seed = 0,
) -> Tables:
    """Which tasks come first in which models, how often a whole order holds, and how alike models order tasks.

    The results are those of `lamina probe` for different models on the same texts, with cumulative probes. With fewer
    than 5 seeds nothing is tested. Tasks of which a model has no expected layer (probes that had not converged, no gain
    over the embeddings) are left out for that model, with the reason.

    Example:
        >>> agreement("results/minilm", "results/mpnet").tables["pairs"]  # doctest: +SKIP
    """
    declared = get_analysis("probe").compares
    others = [result.analysis for result in results if result.analysis != "probe"]
    if others or not isinstance(declared, ComparedTasks):
        raise InputError(f"the order of tasks is read from results of `lamina probe`; got one of {others[0]}")
    if len(results) < 2:
        raise InputError("agreement needs results of two models; name another folder that `lamina probe` wrote")
    compared = compare_tasks(list(results), declared)
    names = [model.name for model in compared.models]
    known = {comparison.task: comparison for comparison in compared.comparisons}
    chosen = list(tasks) if tasks is not None else [task.name for task in TASKS if task.name in known]
    chosen += [task for task in known if task not in chosen] if tasks is None else []
    if missing := [task for task in chosen if task not in known]:
        raise InputError(f"not all results have {missing[0]}; tasks of several of them: {', '.join(known)}")
    if len(chosen) < 2:
        raise InputError("an order needs two tasks; probe the models for more of them")
    places: dict[tuple[str, str], ModelStatistic] = {}
    for task in chosen:
        for sampled in sample_models(known[task], samples, seed):
            places[sampled.entry.model, task] = sampled.statistic("expected_layer")
    orders = list(orders_of(places, names, chosen))
    tables: dict[str, Sequence[Any]] = {
        "places": [TaskDepth(*place, *value.estimate, value.reason) for place, value in places.items()],
        "order": orders,
        "pairs": list(_counts(orders, chosen)),
        "models": [_chance(places, name, chosen) for name in names],
        "kendall": list(_likeness(places, names, chosen)),
    }
    rows = {"places": TaskDepth, "order": ModelOrder, "pairs": PairCount, "models": ModelChance,
            "kendall": OrderLikeness}  # fmt: skip
    return Tables(
        {name: pd.DataFrame(list(tables[name]), columns=list(kind._fields)) for name, kind in rows.items()},
        compared.left_out,
        model={"name": in_words(names), "models": [dict(result.provenance.model) for result in results]},
    )


def _drawn(place: ModelStatistic | None) -> np.ndarray | None:
    return None if place is None or not place.compared else place.draws


def orders_of(
    places: dict[tuple[str, str], ModelStatistic], models: Sequence[str], tasks: Sequence[str]
) -> Iterator[ModelOrder]:
    """Every pair of tasks in every model, tested as one family."""
    rows: list[tuple[str, str, str, float, str]] = []
    drawn: list[DrawnDifference] = []
    tested: list[int] = []
    for model in models:
        for task_a, task_b in combinations(tasks, 2):
            a, b = places.get((model, task_a)), places.get((model, task_b))
            draws_a, draws_b = _drawn(a), _drawn(b)
            reasons = [
                f"{task}: {'not probed on the same texts' if place is None else place.reason}"
                for task, place in ((task_a, a), (task_b, b))
                if place is None or place.reason
            ]
            difference = np.nan if a is None or b is None else b.value - a.value
            if a is not None and b is not None and draws_a is not None and draws_b is not None:
                tested.append(len(rows))
                drawn.append(DrawnDifference(difference, draws_b - draws_a, min(a.units, b.units)))
            rows.append((model, task_a, task_b, difference, "; ".join(reasons)))
    tests = difference_family(drawn, least=LEAST_UNITS) if drawn else None
    member = {row: number for number, row in enumerate(tested)}
    for number, (model, task_a, task_b, difference, reason) in enumerate(rows):
        if tests is None or number not in member:
            yield ModelOrder(model, task_a, task_b, difference, np.nan, np.nan, np.nan, 0, 0, "untested", reason)
            continue
        estimate, low, high, p, units, needed = (float(column[member[number]]) for column in tests)
        verdict = "untested" if p != p else "undecided" if p >= SURE else "a first" if estimate > 0 else "b first"
        yield ModelOrder(model, task_a, task_b, estimate, low, high, p, units, needed, verdict, reason)


def _counts(orders: Sequence[ModelOrder], tasks: Sequence[str]) -> Iterator[PairCount]:
    for task_a, task_b in combinations(tasks, 2):
        rows = [row for row in orders if (row.task_a, row.task_b) == (task_a, task_b)]
        verdicts = [row.verdict for row in rows]
        tested = [row for row in rows if row.verdict != "untested"]
        clear = [row for row in tested if row.verdict != "undecided"]
        # A claim about several models is as sure as the least sure of them.
        chosen_row = max(clear, key=_surest, default=None) or min(tested or rows, key=_surest)
        yield PairCount(
            task_a,
            task_b,
            len(rows),
            verdicts.count("a first"),
            verdicts.count("b first"),
            verdicts.count("undecided"),
            verdicts.count("untested"),
            chosen_row.model,
            chosen_row.difference,
            chosen_row.low,
            chosen_row.high,
            chosen_row.p_adjusted,
            chosen_row.units,
            chosen_row.needed,
        )


def _surest(row: ModelOrder) -> tuple[float, float]:
    return (row.p_adjusted if row.p_adjusted == row.p_adjusted else 2.0, -abs(row.difference))


def _chance(places: dict[tuple[str, str], ModelStatistic], model: str, tasks: Sequence[str]) -> ModelChance:
    """How often all tasks stand in the order asked about."""
    values = {task: place.value for task in tasks if (place := places.get((model, task))) is not None}
    known = sorted((task for task, value in values.items() if value == value), key=lambda task: values[task])
    draws = [_drawn(places.get((model, task))) for task in tasks]
    about = (model, " < ".join(tasks), " < ".join(known))
    lacking = [task for task, drawn in zip(tasks, draws, strict=True) if drawn is None]
    if lacking:
        place = places.get((model, lacking[0]))
        return ModelChance(*about, np.nan, f"{lacking[0]}: {place.reason if place else 'not probed on these texts'}")
    stacked = np.stack([drawn for drawn in draws if drawn is not None])
    finite = np.isfinite(stacked).all(0)
    ordered = (np.diff(stacked[:, finite], axis=0) > 0).all(0)
    return ModelChance(*about, float(np.mean(ordered)) if finite.any() else np.nan, "")


def _likeness(
    places: dict[tuple[str, str], ModelStatistic], models: Sequence[str], tasks: Sequence[str]
) -> Iterator[OrderLikeness]:
    """Kendall's tau of every pair of models by the tasks that both have, then the mean."""
    taus, draws, units = [], [], []
    for one, other in combinations(models, 2):
        both = (one, other)
        shared = [task for task in tasks if all(_drawn(places.get((model, task))) is not None for model in both)]
        if len(shared) < _LEAST_TASKS:
            yield OrderLikeness(one, other, len(shared), np.nan, np.nan, np.nan, np.nan, 0, 0)
            continue
        sides = [[places[model, task] for task in shared] for model in (one, other)]
        values = [np.array([place.value for place in side]) for side in sides]
        drawn = [np.stack([place.draws for place in side if place.draws is not None], 1) for side in sides]
        tau, moved = float(kendall_correlation(*values)), kendall_correlation(*drawn)
        taus.append(tau)
        draws.append(moved)
        units.append(min(place.units for side in sides for place in side))
        yield OrderLikeness(one, other, len(shared), tau, *interval(moved), np.nan, units[-1], 0)
    if taus:
        mean = np.mean(draws, axis=0)
        test = bootstrap_family(
            np.array([np.mean(taus)]), mean[:, None], min(units), bounds=(-1.0, 1.0), least=LEAST_UNITS
        ).one()
        yield OrderLikeness("all", "all", len(tasks), *test[:4], test.units, test.needed)


@agreement.finds
def _findings(result: Result) -> Iterable[Finding]:
    for row in rows_of(result.tables["pairs"]):
        yield _pair_in_words(row, result.tables["order"])
    mean = result.tables["kendall"]
    mean = mean[mean["model_a"] == "all"]
    whether = "models order the tasks alike"
    if mean.empty:
        yield not_tested(whether, f"no two models have expected layers of {_LEAST_TASKS} tasks, with 5 seeds or more")
        return
    row = next(rows_of(mean))
    yield finding(
        claim="Models order the tasks alike" if row.tau > 0 else "Models order the tasks in opposite ways",
        whether=whether,
        absent="Models order the tasks as if by chance",
        contrast="mean Kendall's tau",
        test=Contrast(row.tau, row.low, row.high, row.p_adjusted, int(row.units), int(row.needed)),
        source=Source("kendall", {"model_a": "all"}),
        importance=("answers",),
        margin=0.0,
        unvarying="every draw gives the same orders",
    )


def _pair_in_words(row: Any, orders: pd.DataFrame) -> Finding:
    a, b = _inside(title_of(row.task_a)), _inside(title_of(row.task_b))
    first, second = (a, b) if row.a_first >= row.b_first else (b, a)
    most, least = max(row.a_first, row.b_first), min(row.a_first, row.b_first)
    whether = f"any of {row.models} models resolves {a} before or after {b}"
    about = {"task_a": row.task_a, "task_b": row.task_b}
    source = (Source("pairs", about), Source("order", about))
    if row.untested == row.models:
        rows = orders[(orders["task_a"] == row.task_a) & (orders["task_b"] == row.task_b)]
        reasons = [reason for reason in dict.fromkeys(rows["reason"].fillna("")) if reason]
        return not_tested(whether, reasons[0] if reasons else "it does not vary between draws", source=source)
    claim = f"{most} of {row.models} models {'resolves' if most == 1 else 'resolve'} {first} before {second}"
    claim += f"; the other way round in {least}" * bool(least)
    claim += f"; undecided in {row.undecided}" * bool(row.undecided)
    claim += f"; not available in {row.untested}" * bool(row.untested)
    test = Contrast(row.difference, row.low, row.high, row.p_adjusted, int(row.units), int(row.needed))
    if test.estimate < 0:
        test = test._replace(estimate=-test.estimate, low=-test.high, high=-test.low)
    return finding(
        claim=claim,
        whether=whether,
        absent=whether,
        contrast=f"{'least sure of them' if most else 'surest model'}, {row.model}, in shares of the depth",
        test=test,
        source=source,
        importance=("answers", "localised"),
        margin=0.0,
    )


def _inside(title: str) -> str:
    """A title inside a sentence."""
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]
