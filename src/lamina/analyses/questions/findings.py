"""What the phases of answering show, each beside what it is compared with."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from lamina.analyses.legacy import legacy_finding, status_of
from lamina.analyses.questions.contrast import TOGETHER
from lamina.analyses.questions.failure import CONFIDENCE, VECTORS
from lamina.analyses.questions.streaming import ALL, PSEUDO, TWIN
from lamina.findings import Finding, number, p_in_words, rows_of
from lamina.results import Result
from lamina.stats.status import NEGLIGIBLE, SURE, Status

_SMALL_AUC = 0.05
"""A difference of AUCs that means nothing."""
_SMALL_GAIN = 0.02
"""A gain in AUC that means nothing."""
_LOOSE = 2
"""Where a lead over the twin is itself negligible, so many times a small one may lie in its interval."""


class _Wording(NamedTuple):
    """How a measure is said: where it holds, where it does not, and where that is open."""

    clear: str
    null: str
    open: str
    measured: str = ""
    """What the number is."""
    pseudo: str = ""
    """What pseudo roles are, for this measure."""


_ROLES = {
    "answer_apart": _Wording(
        "The answer stands apart most at layer {layer}:",
        "The answer hardly stands apart: even at layer {layer}",
        "Whether the answer stands apart is undecided: at layer {layer}",
        "its words are {number} farther (cosine) from all other words than those are from each other",
        "another span of that length",
    ),
    "question_nearer_support": _Wording(
        "The question is nearest to its supporting sentences at layer {layer}:",
        "The question is hardly nearer to its supporting sentences: even at layer {layer}",
        "Whether the question is nearer to its supporting sentences is undecided: at layer {layer}",
        "it is closer to them than to the other sentences by a cosine of {number}",
        "another sentence",
    ),
}
"""Measure -> how it is said; each is a difference of cosines, 0 where roles make no difference."""
_CONTRASTS = {
    "answer_apart": "the gold answer stands {more} apart",
    "predicted_apart": "the predicted answer stands {more} apart",
    "question_nearer_support": "the question is {more} near to its supporting sentences than to the rest",
    "between_question_support": "question and supporting sentences are {more} alike",
    "within_question": "the words of the question are {more} alike",
    "within_support": "the words of the supporting sentences are {more} alike",
    "answer_silhouette": "the gold answer is {more} of a cluster",
    "predicted_silhouette": "the predicted answer is {more} of a cluster",
}
"""Measure -> what it means that it differs between right and wrong answers."""


def role_findings(result: Result) -> Iterator[Finding]:
    """The strongest layer of each difference between roles, beside pseudo roles and the random-weights twin."""
    table, name = result.tables["phases"], result.provenance.model["name"]
    for measure, wording in _ROLES.items():
        own = table[(table["model"] == name) & (table["group"] == ALL) & (table["measure"] == measure)]
        own = own[own["value"].notna()]
        if own.empty:
            continue
        best = own.loc[own["value"].idxmax()]
        layer = int(best["layer"])
        beside = _differences(result, measure, layer)
        if not beside:
            continue
        value, low, high = (float(best[column]) for column in ("value", "low", "high"))
        status = _role_status(low, high, beside)
        names = {PSEUDO: wording.pseudo, TWIN: "the random-weights twin"}
        nulls = "; ".join(
            f"{names[row['against']]} gives {number(row['null'])} (difference "
            f"{number(row['difference'], row['low'], row['high'])}, {p_in_words(row['p_adjusted'])})"
            for row in beside
        )
        said = getattr(wording, status).format(layer=layer)
        measured = wording.measured.format(number=number(value, low, high))
        against = max(float(row["null"]) for row in beside)
        yield legacy_finding(f"{said} {measured}; {nulls}.", status, value, low, high, against=against)


def _differences(result: Result, measure: str, layer: int) -> list[dict[str, Any]]:
    table = result.tables["differences"]
    rows = table[(table["group"] == ALL) & (table["measure"] == measure) & (table["layer"] == layer)]
    return [row._asdict() for row in rows_of(rows[rows["difference"].notna()])]


def _role_status(low: float, high: float, beside: list[dict[str, Any]]) -> Status:
    """Clear where it is above 0 and above all nulls; null where more than a negligible lead is ruled out."""
    ends = [(row["low"], row["high"], row["p_adjusted"]) for row in beside]
    if not all(map(math.isfinite, (low, high, *(each for row in ends for each in row)))):
        return "open"
    if min(high, *(end for _, end, _ in ends)) <= NEGLIGIBLE:
        return "null"
    return "clear" if low > 0 and all(start > 0 and p < SURE for start, _, p in ends) else "open"


def contrast_findings(result: Result) -> Iterator[Finding]:
    """The measure and layer that tell right from wrong answers best, among matched questions of all tasks together."""
    table = result.tables.get("contrast")
    if table is None:
        return
    # Older results have no tasks: all their rows are of all tasks together.
    known = table["p_adjusted"].notna() & ((table["task"] == TOGETHER) if "task" in table else True)
    if not known.any():
        yield from _not_compared(result)
        return
    every = [row._asdict() for row in rows_of(table[known])]
    best = min(every, key=lambda row: row["p"])
    value, low, high, p = (float(best[column]) for column in ("difference", "low", "high", "p_adjusted"))
    matched = (
        f"{best['matched']:,} wrong answers, each beside right ones of the same task, question word and length of "
        f"answer ({best['within_document']:,} in the same document; {best['unmatched']:,} unmatched)"
    )
    numbers = f"{number(best['right'])} against {number(best['wrong'])}, difference {number(value, low, high)}"
    if p < SURE:
        means = _CONTRASTS[best["measure"]].format(more="more" if value > 0 else "less")
        text = f"Where the answer is right, {means}, most clearly at layer {best['layer']}: {numbers}, {p_in_words(p)}"
        yield legacy_finding(f"{text}; {matched}.", "clear", value, low, high, against=0.0)
        return
    text = (
        f"Right and wrong answers to similar questions are not told apart by any measure at any layer: most by "
        f"{best['measure']} at layer {best['layer']}, {numbers}, {p_in_words(p)}"
    )
    nothing = all(status_of(row["low"], row["high"], 0.0) == "null" for row in every)
    yield legacy_finding(f"{text}; {matched}.", "null" if nothing else "open", value, low, high, against=0.0)


def _not_compared(result: Result) -> Iterator[Finding]:
    """Where every task is answered always rightly or always wrongly, there is nothing to compare."""
    tasks = result.tables.get("tasks")
    if tasks is None or tasks.empty or tasks["compared"].any():
        return
    said = ", ".join(f"{row.right:,} of {row.questions:,} right{_in_task(row.task)}" for row in rows_of(tasks))
    yield legacy_finding(f"Right and wrong answers cannot be compared: no task has both ({said}).", "open")


def _in_task(task: object) -> str:
    return f" in {task}" if isinstance(task, str) and task else ""


def failure_findings(result: Result) -> Iterator[Finding]:
    """How well the best layer predicts wrong answers, beside the twin, and what it adds to the model's confidence."""
    table, name = result.tables.get("failure"), result.provenance.model["name"]
    if table is None:
        return
    own = table[(table["feature"] == VECTORS) & table["auc"].notna() & (table["model"] == name)]
    if own.empty:
        yield legacy_finding(f"Whether wrong answers can be predicted is unknown: {_reason(result)}.", "open")
        return
    best = own.loc[own["auc"].idxmax()].to_dict()
    twin = table[(table["model"] == f"{name} ({TWIN})") & (table["layer"] == best["layer"])]
    yield _alone(best, None if twin.empty else float(twin["auc"].iloc[0]))
    sure = table[(table["model"] == name) & (table["feature"] == CONFIDENCE)]
    if len(sure):
        gains = own[own["gain_auc"].notna()]
        yield _added(gains.loc[gains["gain_log_loss"].idxmax()].to_dict(), float(sure["auc"].iloc[0]))


class _Lead(NamedTuple):
    """By how much a layer is ahead of the same layer of its twin, on the same questions."""

    value: float
    low: float
    high: float
    p: float
    """Corrected over layers; NaN in results of older versions."""

    @classmethod
    def of(cls, row: dict[str, Any], name: str) -> _Lead:
        value, low, high = (float(row[f"{name}{end}"]) for end in ("", "_low", "_high"))
        return cls(value, low, high, float(row.get(f"p_{name}_holm", math.nan)))

    @property
    def is_sure(self) -> bool:
        return self.low > 0 and not self.p >= SURE

    def is_nothing(self, small: float) -> bool:
        """Whether it is no lead: more than a small one is ruled out, or it is negligible and not far from that."""
        if self.is_sure:
            return False
        return self.high <= small or (self.value <= NEGLIGIBLE and self.high <= _LOOSE * small)

    def in_words(self) -> str:
        test = "" if math.isnan(self.p) else f", {p_in_words(self.p)}"
        return f"difference {number(self.value, self.low, self.high)}{test}"


def _alone(best: dict[str, Any], twin: float | None) -> Finding:
    layer, auc, low, high = int(best["layer"]), float(best["auc"]), float(best["low"]), float(best["high"])
    lead = _Lead.of(best, "over_twin")
    beside = "chance is .50"
    if twin is not None:
        beside = f"the random-weights twin reaches {number(twin)} ({lead.in_words()})"
    chance = high <= 0.5 + _SMALL_AUC
    as_twin = twin is not None and lead.is_nothing(_SMALL_AUC)
    status: Status = "open"
    said = f"Whether wrong answers can be predicted is undecided; best from layer {layer}"
    if chance or (as_twin and low <= 0.5 + _SMALL_AUC):
        status, said = "null", f"Wrong answers cannot be predicted from layer {layer}"
    elif as_twin:
        status = "null"
        said = f"Wrong answers can be predicted from layer {layer}, but no better than by an untrained model"
    elif best["p_adjusted"] < SURE and low > 0.5 and (twin is None or lead.is_sure):
        status, said = "clear", f"Wrong answers can be predicted from layer {layer}"
    tasks = int(best.get("tasks", 1))
    within = f" compared within {tasks} tasks" if tasks > 1 else ""
    numbers = (
        f"AUC {number(auc, low, high)} on {int(best['count']):,} questions{within}, {p_in_words(best['p_adjusted'])}"
    )
    return legacy_finding(f"{said}: {numbers}; {beside}.", status, auc, low, high, against=max(0.5, twin or 0.5))


def _added(best: dict[str, Any], confidence: float) -> Finding:
    """Of the layer that adds most; a layer that does not help anywhere is the answer too."""
    layer, gain, low, high = (best[column] for column in ("layer", "gain_auc", "gain_auc_low", "gain_auc_high"))
    lead = _Lead.of(best, "gain_over_twin")
    adds = best["p_gain_holm"] < SURE and best["gain_log_loss"] > 0
    status: Status = "open"
    said = f"Whether a layer adds to the model's confidence is undecided: at layer {layer}"
    if adds and lead.is_nothing(_SMALL_GAIN):
        status = "null"
        said = f"Layer {layer} adds to the model's confidence in predicting failures, but so does an untrained model"
    elif adds and (math.isnan(lead.value) or lead.is_sure):
        status, said = "clear", f"Layer {layer} knows of failures what the model's confidence does not say"
    elif high <= _SMALL_GAIN:
        status, said = "null", f"No layer adds to the model's confidence in predicting failures: even layer {layer}"
    loss = number(best["gain_log_loss"], best["gain_log_loss_low"], best["gain_log_loss_high"], digits=3)
    numbers = (
        f"confidence alone has an AUC of {number(confidence)}, the layer's vectors add {number(gain, low, high)}, and "
        f"{loss} to the log likelihood of a question ({p_in_words(best['p_gain_holm'])})"
    )
    if not math.isnan(lead.value):
        numbers += f"; the random-weights twin adds {number(gain - lead.value)} ({lead.in_words()})"
    return legacy_finding(f"{said}: {numbers}.", status, float(gain), float(low), float(high), against=0.0)


def _reason(result: Result) -> str:
    phases = result.tables["phases"]
    kinds = [group for group in ("right", "wrong") if group in set(phases["group"])]
    tasks = result.tables.get("tasks")
    if len(kinds) != 1:
        alike = tasks is not None and len(tasks) and not tasks["compared"].any()
        return "each task's answers are all right or all wrong" if alike else "there is only one document"
    if phases["seeds"].max() > 1:
        return "the answers of every model are all right or all wrong"
    return f"all answers are {kinds[0]}"
