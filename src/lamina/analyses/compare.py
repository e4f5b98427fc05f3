"""Two probing results side by side: what one model knows better, and where in its depth it knows it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pandas as pd

from lamina.analyses.declaration import Overview, Table, Tables, analysis
from lamina.analyses.findings import cell, number, rows_of, status_of
from lamina.analyses.inputs import SavedResults
from lamina.analyses.probing.statistics import ENOUGH_SEEDS
from lamina.corpora.corpus import fingerprint_of
from lamina.errors import InputError
from lamina.results import Finding, Result, Status

_MISSING = float("nan")


class Compared(NamedTuple):
    """One row of `compare.csv`; NaN where something is not available."""

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
    """One row of `layers.csv`: the score of a probe that reads one layer."""

    model: str
    task: str
    layer: int
    value: float
    low: float
    high: float
    normalised: float
    """0 at the model's worst layer for this task, 1 at its best; NaN where all are equal."""


class Estimate(NamedTuple):
    """A number and its interval."""

    value: float
    low: float
    high: float

    def over(self, whole: int) -> Estimate:
        """As a share of `whole`."""
        return Estimate(*(each / whole if whole else _MISSING for each in self))


_NOT_KNOWN = Estimate(_MISSING, _MISSING, _MISSING)


@analysis(
    title="Two models side by side",
    question="What does one model know better than the other, and where in its depth does it know it?",
    method=(
        "Scores and places of two probing results are compared task by task, with layers as shares of each model's "
        "own depth. The interval of a difference is computed from the two results' own intervals (MOVER), as if they "
        "were independent; scores are subtracted only where both were made on the same texts."
    ),
    cites=("Tenney et al. 2019", "Zou and Donner 2008"),
    reads=SavedResults(),
    version=1,
    tables={
        "compare": Table("One row per task and statistic: both results and their difference a - b.", Compared._fields),
        "depth": Table(
            "One row per model, task, kind of probe and layer: the score, by share of the depth.", Depth._fields
        ),
        "layers": Table("One row per model, task and layer: the score of that layer alone.", Layer._fields),
    },
    chapter="comparison",
    example="lamina compare results/minilm results/mpnet --out results/compare",
)
def compare(results: Sequence[Result]) -> Tables:
    """Two probing results side by side: scores, and where in each model's own depth the answers appear.

    Two results are compared as they are; of more results, on several corpora, those of one model are merged, and there
    have to be two models. Depth is relative (layer / L), so that models of different depth can be compared.

    The interval of a difference is made of the two intervals (MOVER, Zou and Donner 2008): each end lies as far from
    the difference as the root of the squared distances of the ends that lead there. It takes the results as
    independent; where both were scored on the same texts it is conservative, that is too wide. A spread over seeds
    that is only a range gives a range: the farthest that any two seeds are apart.

    Example:
        >>> compare("results/minilm", "results/mpnet").tables["compare"]  # doctest: +SKIP
    """
    a, b = by_model([_checked(each) for each in results])
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
    models, corpora = (_both(getattr(a.provenance, part), getattr(b.provenance, part)) for part in ("model", "corpus"))
    return Tables(
        tables,
        {f"tasks of {side.name} alone": len(side.tasks) - len(tasks) for side in sides},
        model={"name": models}
        | {key: _record(side, each) for key, side, each in zip("ab", sides, (a, b), strict=True)},
        data={"name": corpora},
        seeds=tuple(sorted({*a.provenance.seeds, *b.provenance.seeds})),
    )


@compare.finds
def _findings(result: Result) -> Iterable[Finding]:
    """Tasks that one model does better, and tasks that it resolves deeper."""
    sides = [str(result.provenance.model.get(side, {}).get("name", side)) for side in "ab"]
    table = result.tables["compare"]
    scores, places = (_differences(table, statistic) for statistic in ("f1_full", "expected_layer"))
    if scores:
        yield from _ahead(
            scores,
            sides,
            "{one} is better than {other} at {count} tasks, most at {task}: F1 {number} higher.",
            "Neither model is clearly better at any of {count} tasks: F1 differs most at {task}, by {number}; equal "
            "is 0.",
        )
    elif len(table):
        yield Finding("F1 is not compared: no task has a score of both on the same texts by the same metric.", "open")
    if places:
        yield from _ahead(
            places,
            sides,
            "{one} resolves {count} tasks deeper than {other}, most {task}: its expected layer lies {number} of the "
            "depth later.",
            "Neither model resolves any of {count} tasks clearly deeper: the expected layer differs most at {task}, by "
            "{number} of the depth; equal is 0.",
        )


def _differences(table: pd.DataFrame, statistic: str) -> dict[str, Estimate]:
    """Task -> a - b, where there is an interval."""
    rows = table[(table["statistic"] == statistic) & (table["spread"] == "interval")]
    known = rows.dropna(subset=["difference", "low", "high"])
    return {str(row.task): Estimate(row.difference, row.low, row.high) for row in rows_of(known)}


def _ahead(found: Mapping[str, Estimate], sides: Sequence[str], ahead: str, equal: str) -> Iterator[Finding]:
    """One finding per model that is ahead somewhere; where neither is, one that says how far they are apart at most."""
    turned = {task: Estimate(-apart.value, -apart.high, -apart.low) for task, apart in found.items()}
    clear = False
    for leads, (one, other) in ((found, sides), (turned, sides[::-1])):
        won = {task: lead for task, lead in leads.items() if lead.value > 0 and _status(lead) == "clear"}
        if won:
            clear, task = True, max(won, key=lambda name: won[name].value)
            said = {"one": one, "other": other, "count": f"{len(won)} of {len(found)}", "task": task}
            yield Finding(ahead.format(**said, number=number(*won[task])), "clear", *won[task], against=0.0)
    if not clear:
        task = max(found, key=lambda name: abs(found[name].value))
        status = "null" if all(_status(apart) == "null" for apart in found.values()) else "open"
        text = equal.format(count=len(found), task=task, number=number(*found[task]))
        yield Finding(text, status, *found[task], against=0.0)


def _status(apart: Estimate) -> Status:
    return status_of(apart.low, apart.high, 0.0)


@compare.shows
def _overview(result: Result) -> Iterable[Overview]:
    """Every statistic of both, and each model's best single layer."""
    rows: list[tuple[str | int, ...]] = [
        (task, statistic, cell(*numbers[:3]), cell(*numbers[3:6]), cell(*numbers[6:9]))
        for task, statistic, *numbers, _ in rows_of(result.tables["compare"])
    ]
    model = result.provenance.model
    said = [f"{side}: {model[side]['model']['name']} on {model[side]['corpus']}" for side in "ab"]
    yield Overview("   ".join(said), ("task", "statistic", "a", "b", "a - b"), rows)
    layers = result.tables["layers"].dropna(subset=["value"])
    if len(layers):
        best = layers.loc[layers.groupby(["task", "model"], sort=False)["value"].idxmax()]
        told = [(row.task, row.model, row.layer, cell(row.value, row.low, row.high)) for row in rows_of(best)]
        yield Overview("The best single layer", ("task", "model", "layer", "F1"), told)


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
        self.name = name
        scores = result.tables["scores"]
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
        for row in rows_of(self._scores[self._scores["task"].isin(tasks) & self._scores["layer"].notna()]):
            share = row.layer / self.last if self.last else _MISSING
            yield Depth(self.name, row.task, row.probe, int(row.layer), share, row.value, row.low, row.high)


def _by_layer(depths: list[Depth]) -> Iterator[Layer]:
    """The probes of single layers, with each model's scores of a task scaled to 0 to 1 over its layers."""
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
    """The two in tables: by model; by model and corpus where the model is the same; by letter where both are."""
    models = (a.provenance.model["name"], b.provenance.model["name"])
    if models[0] != models[1]:
        return models
    corpora = (a.provenance.corpus["name"], b.provenance.corpus["name"])
    marks = corpora if corpora[0] != corpora[1] else ("a", "b")
    return f"{models[0]} ({marks[0]})", f"{models[1]} ({marks[1]})"


def _both(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """The name of two models or corpora."""
    return one["name"] if one == other else f"{one['name']} and {other['name']}"


def _record(side: _Side, result: Result) -> dict[str, Any]:
    """What provenance says of one result."""
    about = result.provenance
    return {
        "name": side.name,
        "key": result.key,
        "model": dict(about.model),
        "corpus": about.corpus["name"],
        "parameters": dict(about.parameters),
    }


_READ = {
    "scores": ("task", "probe", "of", "layer", "seed", "metric", "value", "low", "high"),
    "summary": ("task", "center_of_gravity", "cog_low", "cog_high", "expected_layer", "el_low", "el_high"),
}
"""Table -> the columns that a comparison reads."""
_TEXT = ("task", "probe", "of", "seed", "metric")
_MOST_LAYERS = 100_000


def by_model(results: Sequence[Result]) -> tuple[Result, Result]:
    """Two results as they are; more of them merged by model, of which there have to be two."""
    if len(results) < 2:
        raise InputError("a comparison needs two results; name another folder that `lamina probe` wrote")
    if len(results) == 2:
        return results[0], results[1]
    models: dict[str, list[Result]] = {}
    for result in results:
        models.setdefault(result.provenance.model["fingerprint"], []).append(result)
    if len(models) != 2:
        raise InputError(
            f"a comparison is of two results, or of any number of results of two models; got {_listed(results)}"
        )
    first, second = (merge(each) for each in models.values())
    return first, second


def _checked(result: Result) -> Result:
    """The result with the columns that a comparison reads; an error if they are not as `lamina probe` writes them."""
    about = result.provenance
    name = f"{about.model.get('name', 'a model')} on {about.corpus.get('name', 'a corpus')}"
    if result.analysis != "probe":
        raise InputError(f"{name} is a {result.analysis!r} result; only results of `lamina probe` can be compared")
    for part in (about.model, about.corpus):
        if not all(isinstance(part.get(key), str) for key in ("name", "fingerprint")):
            raise InputError(f"{name}: the result does not say what it was made of; make it again with `lamina probe`")
    tables = {table: _columns(result, table, name) for table in _READ}
    scores, tasks = tables["scores"], tables["summary"]["task"]
    layers = scores["layer"].dropna()
    scored = set(scores.loc[(scores["of"] == "model") & (scores["seed"] == "all"), "task"])
    if tasks.duplicated().any():
        raise InputError(f"{name}: summary.csv has two rows of the task {tasks[tasks.duplicated()].iloc[0]!r}")
    if not scored.issuperset(tasks):
        raise InputError(f"{name}: scores.csv has no scores of the task {min({*tasks} - scored)!r}; probe it again")
    if ((layers % 1 != 0) | (layers < 0) | (layers > _MOST_LAYERS)).any():
        raise InputError(f"{name}: the column layer of scores.csv holds something other than layers")
    return replace(result, tables=tables)


def _columns(result: Result, table: str, name: str) -> pd.DataFrame:
    """What is read of a table: text as text, all else as numbers."""
    if table not in result.tables:
        raise InputError(f"{name}: the result has no {table}.csv; make it again with `lamina probe`")
    whole = result.tables[table]
    read = {}
    for column in _READ[table]:
        times = [*whole.columns].count(column)
        if times != 1:
            fault = "lacks the column" if times == 0 else f"has {times} columns named"
            raise InputError(f"{name}: {table}.csv {fault} {column}; make the result again with `lamina probe`")
        try:
            own: Any = whole[column]
            read[column] = own.map(str) if column in _TEXT else pd.to_numeric(own).astype("float64")
        except (TypeError, ValueError):
            raise InputError(f"{name}: the column {column} of {table}.csv holds something other than numbers") from None
    return pd.DataFrame(read)


def merge(results: Sequence[Result]) -> Result:
    """One model's results on several corpora as one result of their scores and summaries.

    A task probed on several of the corpora is named with its corpus, as `sup (babi_en)`.
    """
    if len(results) == 1:
        return results[0]
    times = Counter(task for each in results for task in each.tables["summary"]["task"])
    corpora = [each.provenance.corpus for each in results]
    tables = {name: pd.concat([_named(each, name, times) for each in results], ignore_index=True) for name in _READ}
    if tables["summary"]["task"].duplicated().any():
        raise InputError(f"a task was probed twice on one corpus by one model; got {_listed(results)}")
    whole = {
        "name": ", ".join(dict.fromkeys(corpus["name"] for corpus in corpora)),
        "fingerprint": fingerprint_of(*sorted(corpus["fingerprint"] for corpus in corpora)),
    }
    seeds = tuple(sorted({seed for each in results for seed in each.provenance.seeds}))
    parameters = {"merged": [each.key for each in results]}
    provenance = replace(results[0].provenance, corpus=whole, parameters=parameters, seeds=seeds, skipped={})
    return Result("probe", tables, provenance)


def _named(result: Result, name: str, times: Counter[str]) -> pd.DataFrame:
    table = result.tables[name]
    corpus = result.provenance.corpus["name"]
    return table.assign(task=[f"{task} ({corpus})" if times[task] > 1 else task for task in table["task"]])


def _listed(results: Sequence[Result]) -> str:
    return "; ".join(f"{each.provenance.model['name']} on {each.provenance.corpus['name']}" for each in results)
