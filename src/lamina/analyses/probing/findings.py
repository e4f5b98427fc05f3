"""What a probing result shows, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pandas as pd

from lamina.analyses.declaration import MOST_FINDINGS
from lamina.analyses.findings import finding, layers_in_words, number, status_of
from lamina.results import Finding
from lamina.tasks import TASKS

_SURE = 0.05
"""Corrected p-value below which an order of two tasks is called clear."""


def probe_findings(tables: Mapping[str, pd.DataFrame]) -> Iterator[Finding]:
    """Where tasks are best read, those with most gain first; the order of two tasks; the least selective task."""
    if "scores" not in tables:
        return
    scores = tables["scores"]
    pooled = scores[scores["seed"].astype(str) == "all"].dropna(subset=["value"])
    readings = sorted(_readings(pooled), key=lambda each: -each.gain)
    others = [*_order(tables), *_selectivity(pooled, tables)]
    for each in readings[: MOST_FINDINGS - len(others)]:
        yield each.said()
    yield from others


class _Score(NamedTuple):
    """F1 with its interval."""

    value: float
    low: float
    high: float


class _Reading(NamedTuple):
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

    @property
    def against(self) -> _Score:
        """The harder of the two baselines."""
        known = [each for each in (self.twin, self.constant) if each is not None]
        return max(known, default=_Score(0.0, 0.0, 0.0))

    @property
    def gain(self) -> float:
        return self.score.value - self.against.value

    def said(self) -> Finding:
        where = f"layer {self.layer}" if self.probe == "layer" else f"layers 0 to {self.layer} together"
        against = self.against
        status = status_of(self.score.low, self.score.high, against.value, (against.low, against.high))
        if status == "clear" and self.gain > 0:
            unsure = f" (not clearly better than {layers_in_words(self.tied)})" if self.tied else ""
            claim = f"best read at {where}{unsure}"
        else:
            claim = f"{where} {'does not clearly tell' if status == 'open' else 'tells no'} more than its baselines"
        beside = [
            f"{name} reaches {number(each.value)}"
            for name, each in (("an untrained twin", self.twin), ("the best constant answer", self.constant))
            if each is not None
        ]
        said = f"{_title(self.task)}: {claim}, {self.metric} {number(*self.score)}; {', '.join(beside)}."
        return Finding(said, status, *self.score, against.value)


def _readings(scores: pd.DataFrame) -> Iterator[_Reading]:
    for task, own in scores.groupby("task", sort=False):
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
        metric = "macro-F1" if str(best["metric"]).startswith("macro") else "F1"
        tied = sorted(map(int, others["layer"]))
        beside = (_best(twin), _best(own[own["probe"] == "constant"]))
        yield _Reading(str(task), metric, probe, int(best["layer"]), _score(best), tied, *beside)


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
    pairs = pairs[(pairs["statistic"] == "expected_layer") & pairs["probability"].notna()]
    if pairs.empty:
        return
    pairs = pairs.assign(sure=(pairs["probability"] - 0.5).abs())
    row = pairs.sort_values(["p_holm", "sure"], ascending=[True, False]).iloc[0]
    first, second = (row["task_a"], row["task_b"]) if row["probability"] >= 0.5 else (row["task_b"], row["task_a"])
    likely = max(row["probability"], 1 - row["probability"])
    both = f"{_title(first)} before {_title(second).lower()}"
    clear = row["p_holm"] < _SURE
    if clear:
        places = tables["summary"].set_index("task")[["expected_layer", "el_low", "el_high"]]
        layers = " and ".join(number(*places.loc[task]) for task in (first, second))
        of = f" of {len(pairs)} pairs" if len(pairs) > 1 else ""
        said = f"{both}: expected layers {layers}, P = {number(likely)}; the surest{of} after Holm's correction."
    else:
        why = "; a test needs at least 5 seeds" if pd.isna(row["p_holm"]) else ""
        said = f"{both} by expected layer: undecided (P = {number(likely)}{why})."
    yield Finding(said, "clear" if clear else "open", float(likely), against=0.5)


def _selectivity(scores: pd.DataFrame, tables: Mapping[str, pd.DataFrame]) -> Iterator[Finding]:
    """The task that a probe could most nearly have memorised."""
    if "summary" not in tables:
        return
    known = tables["summary"].dropna(subset=["selectivity"])
    if known.empty:
        return
    least = known.sort_values("selectivity", kind="stable").iloc[0]
    single = scores[(scores["task"] == least["task"]) & (scores["probe"] == "layer")]
    model, control = (single[single["of"] == of].set_index("layer") for of in ("model", "control"))
    gaps = (model["value"] - control["value"]).dropna()
    if gaps.empty:
        return
    # The table gives the gap of the layer that the stopping texts chose, not the layer.
    layer = (gaps - least["selectivity"]).abs().idxmin()
    of = f", the least of {len(known)} tasks" if len(known) > 1 else ""
    own, beside = (_score(each.loc[layer]) for each in (model, control))
    yield finding(
        f"{_title(least['task'])} at layer {layer}: F1 {{number}}; control labels, which a probe can only memorise, "
        f"reach {{against}} (selectivity {number(least['selectivity'])}{of}).",
        *own, beside.value, (beside.low, beside.high),
    )  # fmt: skip


def _title(task: str) -> str:
    return {each.name: each.title for each in TASKS}.get(task, task)
