"""What the phases of answering show: roles beside shuffled roles and the twin, failures beside twin and confidence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pandas as pd

from lamina.analyses.findings import NEGLIGIBLE, number
from lamina.analyses.questions.failure import CONFIDENCE, VECTORS
from lamina.analyses.questions.streaming import ALL, SHUFFLED
from lamina.results import Finding, Result, Status

_SMALL_AUC = 0.05
"""A difference of AUCs that means nothing."""
_LEVEL = 0.05
"""Of tests, corrected for the number of layers."""


class _Wording(NamedTuple):
    """How a measure is said: where it holds, where it does not, and where that is open."""

    clear: str
    null: str
    open: str
    measured: str = ""
    """What the number is."""


_ROLES = {
    "answer_apart": _Wording(
        "The answer stands apart most at layer {layer}:",
        "The answer hardly stands apart: even at layer {layer}",
        "Whether the answer stands apart is undecided: at layer {layer}",
        "its words are {number} farther (cosine) from all other words than those are from each other",
    ),
    "question_nearer_support": _Wording(
        "The question is nearest to its supporting sentences at layer {layer}:",
        "The question is hardly nearer to its supporting sentences: even at layer {layer}",
        "Whether the question is nearer to its supporting sentences is undecided: at layer {layer}",
        "it is closer to them than to the other sentences by a cosine of {number}",
    ),
}
"""Measure -> how it is said; each is a difference of cosines, 0 where roles make no difference."""
_FAILURES = _Wording(
    "Wrong answers can be predicted from layer {layer}",
    "Wrong answers cannot be predicted from layer {layer}",
    "Whether wrong answers can be predicted is undecided; best from layer {layer}",
)
_AS_TWIN = _FAILURES._replace(
    null="Wrong answers can be predicted from layer {layer}, but no better than by an untrained model"
)


class _Measured(NamedTuple):
    name: str
    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.name} {number(self.value, self.low, self.high)}"


_NOTHING = _Measured("no difference", 0.0, math.nan, math.nan)
_CHANCE = _Measured("chance is", 0.5, math.nan, math.nan)


def role_findings(result: Result) -> Iterator[Finding]:
    """The strongest layer of each difference between roles, beside shuffled roles and the random-weights twin."""
    table, name = result.tables["phases"], result.provenance.model["name"]
    whole = table[(table["group"] == ALL) & table["value"].notna()]
    controls = {f"{name} ({SHUFFLED})": SHUFFLED, f"{name} (random)": "random-weights twin"}
    for measure, wording in _ROLES.items():
        rows = whole[whole["measure"] == measure]
        own = rows[rows["model"] == name]
        if own.empty:
            continue
        best = own.loc[own["value"].idxmax()]
        same = rows[rows["layer"] == best["layer"]]
        beside = [_measured(row, said, "value") for model, said in controls.items() for row in _rows(same, model)]
        if not beside:
            continue
        found = _measured(best, "", "value")
        status = _status(found, [*beside, _NOTHING], NEGLIGIBLE)
        said = getattr(wording, status).format(layer=best["layer"])
        measured = wording.measured.format(number=number(*found[1:]))
        text = f"{said} {measured}; {', '.join(map(str, beside))}."
        yield Finding(text, status, *found[1:], against=max(each.value for each in beside))


def failure_findings(result: Result) -> Iterator[Finding]:
    """How well the best layer predicts wrong answers, beside the twin's and beside the model's own confidence."""
    table, name = result.tables.get("failure"), result.provenance.model["name"]
    if table is None:
        return
    vectors = table[(table["feature"] == VECTORS) & table["auc"].notna()]
    own = vectors[vectors["model"] == name]
    if own.empty:
        yield Finding(f"Whether wrong answers can be predicted is unknown: {_reason(result)}.", "open")
        return
    best = own.loc[own["auc"].idxmax()]
    layer = int(best["layer"])
    found = _measured(best, "", "auc")
    same = vectors[vectors["layer"] == layer]
    twin = [_measured(row, "the random-weights twin reaches", "auc") for row in _rows(same, f"{name} (random)")]
    sure = [
        _measured(row, "the model's own confidence", "auc")
        for row in _rows(table[table["feature"] == CONFIDENCE], name)
    ]
    status = _status(found, [*twin, _CHANCE], _SMALL_AUC)
    if status == "clear" and not best["p_holm"] < _LEVEL:
        status = "open"
    wording = _AS_TWIN if status == "null" and found.low > _CHANCE.value + _SMALL_AUC else _FAILURES
    beside = ", ".join(map(str, [*(twin or [_CHANCE]), *sure]))
    said = getattr(wording, status).format(layer=layer)
    text = f"{said}: AUC {number(*found[1:])} on {int(best['count']):,} questions; {beside}."
    yield Finding(text, status, *found[1:], against=max(each.value for each in [*twin, _CHANCE]))
    # What an untrained model tells as well comes from the words: it is no news beside the model's confidence.
    if status == "clear":
        yield from _against_confidence(table[table["model"] == name], layer, found)


def _against_confidence(own: pd.DataFrame, layer: int, vectors: _Measured) -> Iterator[Finding]:
    """Whether that layer says more of failures than the model's own confidence does."""
    gaps = own[(own["feature"] == f"{VECTORS} - {CONFIDENCE}") & (own["layer"] == layer) & own["auc"].notna()]
    known = own[own["feature"] == CONFIDENCE]
    for (_, gap), (_, confidence) in zip(gaps.iterrows(), known.iterrows(), strict=False):
        value, low, high = (float(gap[column]) for column in ("auc", "low", "high"))
        if max(-low, high) <= _SMALL_AUC:
            status, said = "null", f"Layer {layer} predicts wrong answers as well as the model's own confidence"
        elif gap["p_holm"] < _LEVEL and (low > 0 or high < 0):
            how = "better" if low > 0 else "less well"
            status, said = "clear", f"Layer {layer} predicts wrong answers {how} than the model's own confidence"
        else:
            status = "open"
            said = f"Whether layer {layer} predicts wrong answers better than the model's own confidence is undecided"
        aucs = f"AUC {number(vectors.value)} and {number(float(confidence['auc']))}"
        text = f"{said}: {aucs}, difference {number(value, low, high)}."
        yield Finding(text, status, value, low, high, against=0.0)


def _status(found: _Measured, beside: Iterable[_Measured], negligible: float) -> Status:
    """Null where the interval rules out more than a negligible lead, clear where it lies above all others."""
    if not (math.isfinite(found.low) and math.isfinite(found.high)):
        return "open"
    if found.high <= max(each.value for each in beside) + negligible:
        return "null"
    return "clear" if all(found.low > _upper(each) for each in beside) else "open"


def _upper(measured: _Measured) -> float:
    return measured.high if math.isfinite(measured.high) else measured.value


def _rows(table: pd.DataFrame, model: str) -> Iterator[Any]:
    return (row for _, row in table[table["model"] == model].iterrows())


def _measured(row: Any, name: str, column: str) -> _Measured:
    return _Measured(name, float(row[column]), float(row["low"]), float(row["high"]))


def _reason(result: Result) -> str:
    groups = set(result.tables["phases"]["group"])
    kinds = [group for group in ("right", "wrong") if group in groups]
    return f"all answers are {kinds[0]}" if len(kinds) == 1 else "there is only one document"
