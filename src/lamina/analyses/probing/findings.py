"""What a probing result shows, in sentences, and in a small table for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from lamina.analyses.declaration import Overview
from lamina.analyses.legacy import MOST_FINDINGS, legacy_finding, status_of
from lamina.findings import Finding, cell, layers_in_words, number, rows_of
from lamina.results import Result
from lamina.tasks import TASKS
from lamina.tasks.task import METRIC_NAMES

_SURE = 0.05
"""Corrected p-value below which an order of two tasks is called clear."""
_MOST = 0.99
"""Draws cannot tell higher probabilities apart."""


def probe_findings(tables: Mapping[str, pd.DataFrame]) -> Iterator[Finding]:
    """Where tasks are best read, those with most gain first; the order of tasks; the least selective task."""
    if "scores" not in tables:
        return
    readings = sorted(best_readings(tables), key=lambda each: -each.gain)
    others = [*_order(tables), *_best_layers(tables, readings), *_selectivity(tables)]
    for each in readings[: MOST_FINDINGS - len(others)]:
        yield each.said()
    yield from others


class _Score(NamedTuple):
    """A score with its interval."""

    value: float
    low: float
    high: float


class _CutOff(NamedTuple):
    """Probes that had not converged when their steps ended."""

    probes: int
    of: int
    """All probes of the kind."""
    steps: int

    def __bool__(self) -> bool:
        return self.probes > 0


class Reading(NamedTuple):
    """A task at the layer that reads it best, and what that is compared with."""

    task: str
    metric: str
    probe: str
    layer: int
    score: _Score
    tied: list[int]
    """Layers whose intervals overlap with the best one's."""
    twin: _Score | None
    constant: _Score | None
    cut_off: _CutOff
    """Of the model's probes."""
    twin_cut_off: _CutOff
    rows: pd.DataFrame
    """The model's scores by layer ..."""
    twin_rows: pd.DataFrame
    """... and the twin's."""

    @property
    def against(self) -> _Score:
        """The harder of the two baselines."""
        known = [each for each in (self.twin, self.constant) if each is not None]
        return max(known, default=_Score(0.0, 0.0, 0.0))

    @property
    def gain(self) -> float:
        return self.score.value - self.against.value

    def said(self) -> Finding:
        against = self.against
        status = status_of(self.score.low, self.score.high, against.value, (against.low, against.high))
        if self.cut_off or self.twin_cut_off:
            status = "open"
        said = f"{_title(self.task)}: {self._claim(status)} {number(*self.score)}; {self._beside()}."
        return legacy_finding(said, status, *self.score, against.value)

    def _claim(self, status: str) -> str:
        """Up to the number; nothing about the place where probes could still have become better."""
        where = f"layer {self.layer}" if self.probe == "layer" else f"layers 0 to {self.layer} together"
        if self.cut_off:
            probes, of, steps = self.cut_off
            return (
                f"the best layer is not available, {probes} of {of} probes had not converged after {steps:,} steps; "
                f"the highest {self.metric} so far is"
            )
        if self.gain > 0 and (status == "clear" or self.twin_cut_off):
            unsure = f" (not clearly better than {layers_in_words(self.tied)})" if self.tied else ""
            return f"best read at {where}{unsure}, {self.metric}"
        told = "does not clearly tell" if status == "open" else "tells no"
        return f"{where} {told} more than its baselines, {self.metric}"

    def _beside(self) -> str:
        late = " (not all of its probes had converged)" if self.twin_cut_off else ""
        beside = (("an untrained twin", self.twin, late), ("the best constant answer", self.constant, ""))
        told = [f"{name} reaches {number(each.value)}{late}" for name, each, late in beside if each is not None]
        return ", ".join(told)


def best_readings(tables: Mapping[str, pd.DataFrame]) -> Iterator[Reading]:
    """Each task at the layer that reads it best, by its own metric."""
    scores = tables["scores"]
    pooled = scores[scores["seed"].astype(str) == "all"].dropna(subset=["value"])
    for task, rows in pooled.groupby("task", sort=False):
        # The task's own metric comes first.
        own = rows[rows["metric"] == rows["metric"].iloc[0]]
        probed = own[own["probe"] != "constant"]
        if probed.empty:
            continue
        probe = "layer" if (probed["probe"] == "layer").any() else "cumulative"
        probed = probed[probed["probe"] == probe]
        model, twin = (probed[probed["of"] == of] for of in ("model", "random"))
        if model.empty:
            continue
        best = _highest(model)
        others = model[(model["layer"] != best["layer"]) & (model["high"] >= best["low"])]
        tied = sorted(map(int, others["layer"]))
        constant = own[(own["probe"] == "constant") & (own["of"] == "model")]
        late, twin_late = (_cut_off(tables, str(task), of, probe) for of in ("model", "random"))
        name, layer = _metric_name(str(best["metric"])), int(best["layer"])
        beside = _best(twin), _best(constant)
        yield Reading(
            str(task), name, probe, layer, _score(best), tied, beside[0], beside[1], late, twin_late, model, twin
        )


def _cut_off(tables: Mapping[str, pd.DataFrame], task: str, of: str, probe: str) -> _CutOff:
    if "training" not in tables:
        return _CutOff(0, 0, 0)
    rows = tables["training"]
    rows = rows[(rows["task"] == task) & (rows["of"] == of) & (rows["probe"] == probe)]
    late = rows[~rows["converged"].astype(bool)]
    return _CutOff(len(late), len(rows), 0 if late.empty else int(late["steps"].max()))


def _best(rows: pd.DataFrame) -> _Score | None:
    return None if rows.empty else _score(_highest(rows))


def _highest(rows: pd.DataFrame) -> pd.Series:
    return rows.sort_values("value", ascending=False, kind="stable").iloc[0]


def _score(row: pd.Series) -> _Score:
    return _Score(float(row["value"]), float(row["low"]), float(row["high"]))


def _order(tables: Mapping[str, pd.DataFrame]) -> Iterator[Finding]:
    """The pair of tasks whose order by expected layer is surest; undecided where no test says otherwise."""
    if not {"order", "order_tests", "summary"} <= tables.keys():
        return
    keys = ["task_a", "task_b", "statistic"]
    pairs = tables["order"].merge(tables["order_tests"], on=keys)
    pairs = pairs[pairs["statistic"] == "expected_layer"]
    told = pairs[pairs["probability"].notna()]
    if told.empty:
        yield from _untold(pairs)
        return
    told = told.assign(sure=(told["probability"] - 0.5).abs())
    row = told.sort_values(["p_adjusted", "sure"], ascending=[True, False]).iloc[0]
    first, second = (row["task_a"], row["task_b"]) if row["probability"] >= 0.5 else (row["task_b"], row["task_a"])
    likely = max(row["probability"], 1 - row["probability"])
    both = f"{_title(first)} before {_title(second).lower()}"
    shown = f"P = {number(likely)}" if likely < _MOST else f"P > {number(_MOST)}"
    clear = row["p_adjusted"] < _SURE
    if clear:
        places = tables["summary"].set_index("task")[["expected_layer", "el_low", "el_high"]]
        layers = " and ".join(number(*places.loc[task]) for task in (first, second))
        of = f" of {len(told)} pairs" if len(told) > 1 else ""
        said = f"{both}: expected layers {layers}, {shown}; the surest{of} after Holm's correction."
    else:
        untested = pd.isna(row["p_adjusted"])
        why = "; a test needs at least 5 seeds" if untested else ""
        claim = "likely" if untested and likely > 1 - _SURE else "undecided"
        said = f"{both} by expected layer: {claim} ({shown}{why})."
    yield legacy_finding(said, "clear" if clear else "open", float(likely), against=0.5)


def _untold(pairs: pd.DataFrame) -> Iterator[Finding]:
    """No pair has an order: the reason of the first, where the table has one."""
    told = [row for row in rows_of(pairs) if "reason" in pairs and isinstance(row.reason, str) and row.reason]
    if not told:
        return
    row = told[0]
    more = len(pairs) - 1
    others = f" (nor of {more} other pair{'s' * (more > 1)})" if more else ""
    both = f"{_title(row.task_a).lower()} and {_title(row.task_b).lower()}"
    yield legacy_finding(f"The order of {both} by expected layer is not available{others}: {row.reason}.", "open")


def _best_layers(tables: Mapping[str, pd.DataFrame], readings: Sequence[Reading]) -> Iterator[Finding]:
    """Where only single layers were probed there is no expected layer: which task is best read earliest, which last."""
    summary = tables.get("summary", pd.DataFrame())
    alone = len(summary) > 0 and summary["expected_layer"].isna().all()
    told = sorted((each for each in readings if not each.cut_off and each.gain > 0), key=lambda each: each.layer)
    if not alone or len(told) < 2 or any(each.probe != "layer" for each in told):
        return
    first, last = told[0], told[-1]
    apart = {first.layer, *first.tied}.isdisjoint({last.layer, *last.tied})
    listed = ", ".join(f"{_title(each.task).lower()} {each.layer}" for each in told)
    both = f"{_title(first.task).lower()} before {_title(last.task).lower()}"
    sure = "no layer does as well at both" if apart else "undecided, intervals of layers overlap"
    yield legacy_finding(f"Best single layers: {listed}; {both}: {sure}.", "clear" if apart else "open")


def _selectivity(tables: Mapping[str, pd.DataFrame]) -> Iterator[Finding]:
    """The task that a probe could most nearly have memorised."""
    if not {"summary", "control"} <= tables.keys():
        return
    known = tables["summary"].dropna(subset=["selectivity"])
    if known.empty:
        return
    least = known.sort_values("selectivity", kind="stable").iloc[0]
    control = tables["control"].set_index("task").loc[least["task"]]
    of = f", the least of {len(known)} tasks" if len(known) > 1 else ""
    value, low, high = (float(least[name]) for name in ("selectivity", "selectivity_low", "selectivity_high"))
    yield legacy_finding(
        f"{_title(least['task'])} at layer {int(least['selectivity_layer'])}, words seen in training: "
        f"{_metric_name(str(least['selectivity_metric']))} {number(control['model'])}; control labels, which a probe "
        f"can only memorise, reach {number(control['control'])} (their best constant answer "
        f"{number(control['constant'])}): selectivity {number(value, low, high)}{of}.",
        status_of(low, high, 0.0), value, low, high, 0.0,
    )  # fmt: skip


def _metric_name(metric: str) -> str:
    return METRIC_NAMES.get(metric, metric)


def _title(task: str) -> str:
    return {each.name: each.title for each in TASKS}.get(task, task)


def probe_overview(result: Result) -> Iterable[Overview | str]:
    """Scores of the first and the full probe, and where each task is resolved; of single layers alone, the best."""
    corpus = result.provenance.corpus
    yield from (told["in_words"] for told in corpus.get("tasks", {}).values() if told["definition"] == "own")
    title = f"{result.provenance.model['name']} on {corpus['name']} ({corpus.get('split', '')})"
    if not (result.tables["scores"]["probe"] == "cumulative").any():
        columns = ("task", "score", "best layer", "value", "twin", "constant", "selectivity")
        yield Overview(title, columns, [_single(result, row) for row in rows_of(result.tables["summary"])])
        yield from _reasons(result)
        return
    columns = ("task", "score", "P(0)", "P(L)", "centre of gravity", "expected layer", "selectivity")
    rows = [
        (
            row.task,
            row.metric,
            cell(row.f1_first),
            cell(row.f1_full),
            cell(row.center_of_gravity, row.cog_low, row.cog_high),
            cell(row.expected_layer, row.el_low, row.el_high),
            cell(row.selectivity, row.selectivity_low, row.selectivity_high),
        )
        for row in rows_of(result.tables["summary"])
    ]
    yield Overview(title, columns, rows)
    yield from _reasons(result)


def _reasons(result: Result) -> Iterable[str]:
    reasons = result.tables["summary"].set_index("task")["reason"].dropna()
    return (f"{task}: {reason}" for task, reason in reasons.items() if reason)


def _single(result: Result, row: Any) -> tuple[str | int, ...]:
    """A line of the overview of single layers: the best one, and what it is compared with."""
    scores = result.tables["scores"]
    own = scores[(scores["task"] == row.task) & (scores["metric"] == row.metric) & (scores["seed"] == "all")]
    model, twin = (own[(own["of"] == of) & (own["probe"] == "layer")] for of in ("model", "random"))
    best = model.sort_values("value", kind="stable").iloc[-1]
    constant = own[(own["probe"] == "constant") & (own["of"] == "model")]["value"].max()
    selectivity = cell(row.selectivity, row.selectivity_low, row.selectivity_high)
    value = cell(best["value"], best["low"], best["high"])
    return (row.task, row.metric, int(best["layer"]), value, cell(twin["value"].max()), cell(constant), selectivity)
