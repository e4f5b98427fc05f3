"""What fine-tuning undone shows, in sentences and as a table for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from lamina.analyses.cause.restore_layers import RANDOM, TRANSFER
from lamina.analyses.declaration import Overview
from lamina.analyses.legacy import legacy_finding, status_of
from lamina.findings import Finding, cell, number, rows_of
from lamina.results import Result
from lamina.stats.status import SURE, Status
from lamina.training.recipes import LOWER_IS_BETTER

POINT = 0.01
"""A loss of score that counts as none."""
NAMES = {"f1": "F1", "exact_match": "exact match"}
"""Metric -> its name in a sentence, where that is another."""


class Told(NamedTuple):
    """One row of the effects: what it costs is above 0 where the score is worse, whatever the metric."""

    first: int
    last: int
    value: float
    baseline: float
    effect: float
    low: float
    high: float
    p_adjusted: float
    sign: int
    """-1 where a higher score is better."""

    @property
    def cost(self) -> tuple[float, float, float]:
        """With its interval."""
        ends = sorted((self.sign * self.low, self.sign * self.high))
        return self.sign * self.effect, ends[0], ends[1]

    @property
    def free(self) -> bool:
        """Whether it surely costs less than a point."""
        return self.cost[2] <= POINT

    @property
    def status(self) -> Status:
        """Of the claim that there is a difference: clear only where the corrected test agrees."""
        status = status_of(self.low, self.high, 0.0, negligible=POINT)
        return "open" if status == "clear" and not self.p_adjusted < SURE else status

    @property
    def said(self) -> str:
        """The difference."""
        return number(self.effect, self.low, self.high, digits=3)


class _Said(NamedTuple):
    """What all sentences of a result need."""

    effects: Mapping[str, list[Told]]
    """By how."""
    metric: str
    tuned: str
    """The tuned model's score, with its interval."""
    blocks: int
    seeds: int
    """How often models were tuned again."""

    @classmethod
    def of(cls, result: Result) -> _Said:
        references = result.tables["references"]
        metric = metric_of(result)
        sign = 1 if metric in LOWER_IS_BETTER else -1
        effects: dict[str, list[Told]] = {}
        for row in rows_of(result.tables["effects"]):
            numbers = (row.value, row.baseline, row.effect, row.low, row.high, row.p_adjusted)
            effects.setdefault(row.how, []).append(Told(row.first, row.last, *numbers, sign))
        own = next(rows_of(references[references["what"] == "tuned"]))
        blocks = max(each.last for rows in effects.values() for each in rows)
        seeds = int(result.provenance.parameters.get("seeds", 1))
        return cls(effects, NAMES.get(metric, metric), number(own.value, own.low, own.high), blocks, seeds)

    def random(self, first: int, last: int) -> str:
        """What random weights in the same layers give."""
        found = [each for each in self.effects.get(RANDOM, []) if (each.first, each.last) == (first, last)]
        where = f"layers {first} to {last}" if first < last else f"layer {first}"
        return f"; random weights in {where} give {number(found[0].value)}" if found else ""


def metric_of(result: Result) -> str:
    """The task's own metric: the first that is noted."""
    return str(result.tables["references"]["metric"].iloc[0])


def tell_findings(result: Result) -> Iterator[Finding]:
    """One sentence for the lower half, one for how far layers can go back, and one for each other measurement."""
    if result.tables["effects"].empty:
        return
    said = _Said.of(result)
    restored = said.effects.get("restore", [])
    yield from _halves(restored, said)
    yield from _how_far("restore", [each for each in restored if each.first == 0], said)
    yield from _single([each for each in restored if each.first == each.last], said)
    yield from _linear(result, said)
    yield from _how_far("freeze", said.effects.get("freeze", []), said)
    yield from _how_far("reset", said.effects.get("reset", []), said)


def _halves(rows: list[Told], said: _Said) -> Iterator[Finding]:
    """Whether what fine-tuning changed in the lower layers matters, beside what it changed above them."""
    middle = said.blocks // 2
    spans = {(each.first, each.last): each for each in rows}
    half, rest = spans.get((0, middle)), spans.get((middle + 1, said.blocks))
    if half is None or said.blocks < 2:
        return
    claim = {
        "null": "What fine-tuning changed in the lower half hardly matters",
        "open": "Whether it matters what fine-tuning changed in the lower half is undecided",
        "clear": "What fine-tuning changed in the lower half matters",
    }[half.status]
    if half.status == "clear" and half.cost[0] < 0:
        claim = "Without what fine-tuning changed in the lower half the model does better"
    beside = "" if rest is None else f"; layers {rest.first} to {rest.last} put back instead: {rest.said}"
    yield legacy_finding(
        f"{claim}: with layers 0 to {half.last} of {said.blocks} put back {said.metric} is {number(half.value)}, a "
        f"difference of {half.said} from the tuned model's {said.tuned}{beside}{said.random(0, half.last)}.",
        half.status, half.effect, half.low, half.high, 0.0,
    )  # fmt: skip


_DONE = {"restore": "put back", "freeze": "frozen while tuning", "reset": "drawn anew before tuning"}


def _how_far(how: str, rows: list[Told], said: _Said) -> Iterator[Finding]:
    """The most layers that can be changed for less than a point, and what one step more costs."""
    if not rows:
        return
    ordered = sorted(rows, key=lambda each: each.last - each.first)
    count = next((at for at, each in enumerate(ordered) if not each.free), len(ordered))
    once = " (one run each: other seeds are not in the interval)" if how != "restore" and said.seeds == 1 else ""
    if not count:
        least = ordered[0]
        yield legacy_finding(
            f"Not even {_layers(least)} can be {_DONE[how]} surely within 1 point: {said.metric} "
            f"{number(least.value)}, a difference of {least.said} from {number(least.baseline)}{once}.",
            "clear" if least.cost[1] > POINT else "open", least.effect, least.low, least.high, 0.0,
        )  # fmt: skip
        return
    best = ordered[count - 1]
    text = f"{_layers(best).capitalize()} can be {_DONE[how]} within 1 point: a difference of {best.said} from "
    text += number(best.baseline)
    if count < len(ordered):
        further = ordered[count]
        text += f"; of {_layers(further)} it is {further.said}"
    yield legacy_finding(f"{text}{once}.", "null", best.effect, best.low, best.high, 0.0)


def _single(rows: list[Told], said: _Said) -> Iterator[Finding]:
    """The layer whose tuning matters most, if that of any does."""
    ranked = sorted(rows, key=lambda each: -each.cost[0])
    if len(ranked) < 2:
        return
    most, following = ranked[0], ranked[1]
    costs = f"put back alone it costs {number(*most.cost, digits=3)} of {said.metric} {said.tuned}"
    if all(each.free for each in ranked):
        yield legacy_finding(
            f"No single layer needs its tuning: of all {len(ranked)}, layer {most.first} matters most, and {costs}.",
            "null", *most.cost, 0.0,
        )  # fmt: skip
        return
    status = status_of(*most.cost[1:], following.cost[0], following.cost[1:], negligible=0.0)
    decided = "" if status == "clear" else ", but that is not sure"
    yield legacy_finding(
        f"Of single layers, the tuning of layer {most.first} matters most{decided}: {costs}; next is layer "
        f"{following.first} with {number(*following.cost, digits=3)}.",
        status, *most.cost, following.cost[0],
    )  # fmt: skip


def _linear(result: Result, said: _Said) -> Iterator[Finding]:
    """The best frozen layer under a linear head, beside tuning everything, and beside the twin."""
    rows = said.effects.get(TRANSFER, [])
    if not rows:
        return
    best = min(rows, key=lambda each: each.cost[0])
    twin = result.tables.get("transfer_twin")
    beside = ""
    if twin is not None and len(twin):
        other = max(rows_of(twin), key=lambda row: row.value)
        beside = f"; the best layer of the twin reaches {number(other.value, other.low, other.high)}"
    table = result.tables["transfer"]
    own = next(rows_of(table[table["layer"] == best.first]))
    yield legacy_finding(
        f"Without any tuning a linear head does best on layer {best.first} of {said.blocks}: {said.metric} "
        f"{number(own.value, own.low, own.high)}, a difference of {best.said} from tuning all layers"
        f"{beside}.",
        best.status, own.value, own.low, own.high, best.baseline,
    )  # fmt: skip


def _layers(told: Told) -> str:
    return f"layer {told.first}" if told.first == told.last else f"layers {told.first} to {told.last}"


def describe(result: Result) -> Iterator[Overview]:
    """One row per change and layers, and one per linear head."""
    about, metric = result.provenance, metric_of(result)
    rows: list[tuple[str | int, ...]] = [
        (row.what, "", cell(row.value, row.low, row.high), "")
        for row in rows_of(result.tables["references"])
        if row.metric == metric
    ]
    values = _intervals(result)
    for row in rows_of(result.tables["effects"]):
        if row.how == RANDOM:
            continue
        layers = str(row.first) if row.first == row.last else f"{row.first}-{row.last}"
        score = values[(row.how, row.first, row.last)]
        rows.append((row.how, layers, cell(*score), cell(row.effect, row.low, row.high)))
    title = f"{about.model['name']}: {about.model.get('task', 'its task')} on {about.corpus['name']}"
    yield Overview(title, ("what", "layers", metric, "difference from tuned"), rows)


def _intervals(result: Result) -> dict[tuple[Any, ...], tuple[float, float, float]]:
    """How, first and last layer -> the score with its interval."""
    found: dict[tuple[Any, ...], tuple[float, float, float]] = {}
    for row in rows_of(result.tables["restore"]):
        found[row.how, row.first, row.last] = (row.value, row.low, row.high)
    if "transfer" in result.tables:
        for row in rows_of(result.tables["transfer"]):
            found[TRANSFER, row.layer, row.layer] = (row.value, row.low, row.high)
    return found
