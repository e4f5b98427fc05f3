"""Two probing results side by side: what one model knows better, and where in its depth it knows it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import pandas as pd

from lamina.analyses.probing.summary import ENOUGH_SEEDS
from lamina.corpora.corpus import fingerprint_of
from lamina.errors import InputError
from lamina.results import Provenance, Result

_MISSING = float("nan")


class Compared(NamedTuple):
    """One row of `compare.csv`; what is not available is NaN."""

    task: str
    statistic: str
    """f1_first and f1_full (of P(0) and P(L)); center_of_gravity and expected_layer, as shares of the depth L."""
    a: float
    a_low: float
    a_high: float
    b: float
    b_low: float
    b_high: float
    difference: float
    """a - b; F1 has one only where both were scored on the same texts by the same metric."""
    low: float
    high: float
    spread: str
    """What low and high are: an `interval`, or a `range` over seeds where either result has too few for one."""


class Depth(NamedTuple):
    """One row of `depth.csv`: the score of a probe, all seeds together."""

    model: str
    task: str
    probe: str
    layer: int
    relative_depth: float
    """layer / L."""
    value: float
    low: float
    high: float


class Layer(NamedTuple):
    """One row of `layers.csv`: what one layer alone tells of a task."""

    model: str
    task: str
    layer: int
    value: float
    low: float
    high: float
    normalised: float
    """0 at the model's worst layer for this task, 1 at its best; NaN where all are alike."""


class Estimate(NamedTuple):
    """A number and how sure it is."""

    value: float
    low: float
    high: float

    def over(self, whole: int) -> Estimate:
        """As a share of `whole`."""
        return Estimate(*(each / whole if whole else _MISSING for each in self))


_NOT_KNOWN = Estimate(_MISSING, _MISSING, _MISSING)


def compare(a: Result, b: Result) -> Result:
    """Two probing results on relative depth (layer / L), task by task, with differences a - b and their intervals.

    The interval of a difference is made of the two intervals (MOVER, Zou and Donner 2008): each end lies as far from
    the difference as the root of the squared distances of the ends that lead there. It takes the results as
    independent; where both were scored on the same texts it is on the safe side, that is too wide. A spread over
    seeds that is a mere range gives a range: the farthest that any two seeds are apart.

    Args:
        a: a result of `lamina.probe`.
        b: another one, of another model, corpus or setting.

    Example:
        >>> a, b = Result.load("results/minilm"), Result.load("results/mpnet")  # doctest: +SKIP
        >>> compare(a, b).tables["compare"]  # doctest: +SKIP
    """
    sides = [_Side(each, name) for each, name in zip((a, b), _names(a, b), strict=True)]
    tasks = _common_tasks(*sides)
    fair = a.provenance.corpus["fingerprint"] == b.provenance.corpus["fingerprint"]
    rows = [row for task in tasks for row in _compared(task, *sides, fair=fair)]
    depths = [row for side in sides for row in side.depths(tasks)]
    tables = {
        "compare": pd.DataFrame(rows, columns=list(Compared._fields)),
        "depth": pd.DataFrame(depths, columns=list(Depth._fields)),
        "layers": pd.DataFrame(_by_layer(depths), columns=list(Layer._fields)),
    }
    left_out = {f"tasks of {side.name} alone": len(side.tasks) - len(tasks) for side in sides}
    return Result("compare", tables, _provenance(a, b, left_out))


def difference(a: Estimate, b: Estimate) -> Estimate:
    """a - b, with the interval that two independent intervals give (MOVER).

    Example:
        >>> difference(Estimate(5.0, 2.0, 9.0), Estimate(1.0, 0.0, 5.0))
        Estimate(value=4.0, low=-1.0, high=8.123105625617661)
    """
    value = a.value - b.value
    below = math.hypot(a.value - a.low, b.high - b.value)
    above = math.hypot(a.high - a.value, b.value - b.low)
    return Estimate(value, value - below, value + above)


def _farthest(a: Estimate, b: Estimate) -> Estimate:
    return Estimate(a.value - b.value, a.low - b.high, a.high - b.low)


class _Side:
    """One of the two results."""

    def __init__(self, result: Result, name: str) -> None:
        if result.analysis != "probe":
            raise InputError(f"{name} is a {result.analysis!r} result; only results of `lamina probe` can be compared")
        self.name = name
        scores: Any = result.tables["scores"]
        self._scores = scores[(scores["of"] == "model") & (scores["seed"].astype(str) == "all")]
        self._summary: Any = result.tables["summary"].set_index("task")
        self.tasks: list[str] = list(self._summary.index)
        layers = self._scores["layer"].dropna()
        self.last = int(layers.max()) if len(layers) else 0
        self.seeds = scores.loc[(scores["of"] == "model") & (scores["seed"].astype(str) != "all"), "seed"].nunique()

    def metric(self, task: str) -> str:
        return self._scores.loc[self._scores["task"] == task, "metric"].iloc[0]

    def score(self, task: str, layer: int) -> Estimate:
        """Of the cumulative probe P(layer)."""
        rows = self._scores[(self._scores["task"] == task) & (self._scores["probe"] == "cumulative")]
        row = rows[rows["layer"] == layer]
        return Estimate(*(float(row[name].iloc[0]) for name in ("value", "low", "high"))) if len(row) else _NOT_KNOWN

    def place(self, task: str, statistic: str, short: str) -> Estimate:
        """A mean layer, as a share of the depth."""
        row = self._summary.loc[task]
        return Estimate(*(float(row[name]) for name in (statistic, f"{short}_low", f"{short}_high"))).over(self.last)

    def depths(self, tasks: list[str]) -> Iterator[Depth]:
        for row in self._scores[self._scores["task"].isin(tasks) & self._scores["layer"].notna()].itertuples():
            share = row.layer / self.last if self.last else _MISSING
            yield Depth(self.name, row.task, row.probe, int(row.layer), share, row.value, row.low, row.high)


def _by_layer(depths: list[Depth]) -> Iterator[Layer]:
    """The probes of single layers, each model's score of a task stretched to 0 to 1 over its layers as well."""
    single = [row for row in depths if row.probe == "layer"]
    for row in single:
        own = [each.value for each in single if (each.model, each.task) == (row.model, row.task)]
        wide = max(own) - min(own)
        share = (row.value - min(own)) / wide if wide else _MISSING
        yield Layer(row.model, row.task, row.layer, row.value, row.low, row.high, share)


def _compared(task: str, a: _Side, b: _Side, *, fair: bool) -> Iterator[Compared]:
    fair = fair and a.metric(task) == b.metric(task)
    for statistic, layers in (("f1_first", (0, 0)), ("f1_full", (a.last, b.last))):
        one, other = a.score(task, layers[0]), b.score(task, layers[1])
        apart = difference(one, other) if fair else _NOT_KNOWN
        yield Compared(task, statistic, *one, *other, *apart, "interval")
    few = min(a.seeds, b.seeds) < ENOUGH_SEEDS
    one, other = (side.place(task, "center_of_gravity", "cog") for side in (a, b))
    apart = _farthest(one, other) if few else difference(one, other)
    yield Compared(task, "center_of_gravity", *one, *other, *apart, "range" if few else "interval")
    one, other = (side.place(task, "expected_layer", "el") for side in (a, b))
    yield Compared(task, "expected_layer", *one, *other, *difference(one, other), "interval")


def _common_tasks(a: _Side, b: _Side) -> list[str]:
    common = [task for task in a.tasks if task in b.tasks]
    if not common:
        raise InputError(
            f"the results have no task in common: {a.name} has {', '.join(a.tasks)}, {b.name} has {', '.join(b.tasks)}"
        )
    return common


def _names(a: Result, b: Result) -> tuple[str, str]:
    """What tables call the two: by model, by model and corpus where that is one, by letter where both are."""
    models = (a.provenance.model["name"], b.provenance.model["name"])
    if models[0] != models[1]:
        return models
    corpora = (a.provenance.corpus["name"], b.provenance.corpus["name"])
    marks = corpora if corpora[0] != corpora[1] else ("a", "b")
    return f"{models[0]} ({marks[0]})", f"{models[1]} ({marks[1]})"


def _provenance(a: Result, b: Result, left_out: dict[str, int]) -> Provenance:
    def both(one: Any, other: Any) -> dict[str, Any]:
        name = one["name"] if one == other else f"{one['name']} and {other['name']}"
        return {"name": name, "fingerprint": fingerprint_of(one["fingerprint"], other["fingerprint"])}

    parts = [
        {"key": each.key, "model": dict(each.provenance.model), "parameters": dict(each.provenance.parameters)}
        for each in (a, b)
    ]
    seeds = tuple(sorted({*a.provenance.seeds, *b.provenance.seeds}))
    models = both(a.provenance.model, b.provenance.model)
    corpora = both(a.provenance.corpus, b.provenance.corpus)
    return Provenance(models, corpora, {"a": parts[0], "b": parts[1]}, seeds, left_out)
