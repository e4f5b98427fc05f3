"""What the phases of answering show, each beside what it is compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pandas as pd

from lamina.analyses.questions.contrast import TOGETHER
from lamina.analyses.questions.failure import ADDED, ADDED_OVER_TWIN, CHANCE, OVER_CONFIDENCE, OVER_TWIN
from lamina.analyses.questions.streaming import ALL, PSEUDO, TWIN
from lamina.findings import (
    Finding,
    Source,
    best_in_words,
    finding,
    not_tested,
    number,
    percent,
    rows_of,
)
from lamina.results import Result
from lamina.stats.status import NEGLIGIBLE, SURE, Contrast, status_of

_SMALL_AUC = 0.05
"""A difference of AUCs that means nothing."""
_SMALL_GAIN = 0.01
"""Nats per question that mean nothing."""


class _Wording(NamedTuple):
    """How a measure is said."""

    higher: str
    """What it means that it is above a null."""
    lower: str
    equal: str
    nulls: dict[str, str]
    """Pseudo roles and twin, for this measure."""


_ROLES = {
    "answer_apart": _Wording(
        "the answer stands farther apart from all other words than {null}",
        "the answer stands less far apart from all other words than {null}",
        "the answer stands as far apart from all other words as {null}",
        {PSEUDO: "another span of that length", TWIN: "with random weights"},
    ),
    "question_nearer_support": _Wording(
        "the question is nearer to its supporting sentences than {null}",
        "the question is farther from its supporting sentences than {null}",
        "the question is as near to its supporting sentences as {null}",
        {PSEUDO: "to another sentence", TWIN: "with random weights"},
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


def tell_findings(result: Result) -> Iterator[Finding]:
    """Whether the model answers at all; only then, what its phases, its right answers and its failures show."""
    answering = result.tables.get("answering")
    if answering is None or answering.empty:
        reason = "the model has no head that answers these questions"
        if answering is not None:
            reason = "no answer is known to be right or wrong"
        yield _no_phases(reason)
        return
    row = next(rows_of(answering))
    told = _answers(row)
    yield told
    if told.status != "clear" or row.estimate < 0:
        yield _no_phases("the model was not shown to answer better than always giving a task's most frequent answer")
        return
    for measure in _ROLES:
        yield from _role(result, measure)
    yield from _right_and_wrong(result)
    yield from _failures(result)


def _no_phases(reason: str) -> Finding:
    return not_tested(
        "question, support and answer come together or move apart as the model answers",
        reason,
        importance=("answers",),
    )


def _answers(row: Any) -> Finding:
    always = "always giving a task's most frequent answer"
    return finding(
        claim=f"The model answers {percent(row.value)} of the questions exactly, {always} {percent(row.other)}",
        whether=f"the model answers more questions than {always} does",
        absent=f"The model answers no more questions than {always} does",
        contrast="difference",
        test=Contrast.of(row),
        source=Source("answering"),
        unit=row.unit,
        importance=("beats control",),
    )


def hardest(rows: pd.DataFrame) -> Any:
    """The contrast that is least sure: a claim of all of them holds where this one does."""
    untested = rows["p_adjusted"].isna()
    some = rows[untested] if untested.any() else rows[rows["p_adjusted"] == rows["p_adjusted"].max()]
    sizes = some["estimate"].abs().to_numpy()
    return next(rows_of(some.iloc[[int(sizes.argmin())]]))


def _strongest(rows: Sequence[Any]) -> Any:
    """The surest row; of equally sure ones, the largest contrast."""
    return min(rows, key=lambda row: (row.p_adjusted if row.p_adjusted == row.p_adjusted else 2, -abs(row.estimate)))


def _role(result: Result, measure: str) -> Iterator[Finding]:
    """The layer at which a measure is most surely above (or below) both nulls, and where it can be highest."""
    table = result.tables["differences"]
    own = table[(table["group"] == ALL) & (table["measure"] == measure) & table["difference"].notna()]
    if own.empty:
        return
    own = own.rename(columns={"difference": "estimate"})
    # A claim of both nulls has one direction.
    alike = [rows for _, rows in own.groupby("layer") if len(set(rows["estimate"] > 0)) == 1]
    row = _strongest([hardest(rows) for rows in alike or [own]])
    wording = _ROLES[measure]
    said = (wording.higher if row.estimate > 0 else wording.lower).format(null=wording.nulls[row.against])
    at = f"at layer {row.layer} {said}"
    best = _highest(result.tables["layers"], measure) if row.estimate > 0 else ""
    source = [Source("differences", {"group": ALL, "measure": measure, "layer": row.layer, "against": row.against})]
    if best:
        source.append(Source("layers", {"measure": measure, "among_best": True}))
    yield finding(
        claim=f"A{at[1:]}: by a cosine of {number(row.value)} against {number(row.null)}{best}",
        whether=at,
        absent=f"At layer {row.layer} {wording.equal.format(null=wording.nulls[row.against])}",
        contrast="difference",
        test=Contrast.of(row),
        source=source,
        unit=row.unit,
        importance=("answers", "beats control", "localised"),
    )


def _highest(layers: pd.DataFrame, measure: str) -> str:
    own = layers[layers["measure"] == measure]
    among = best_in_words(own["layer"].tolist(), own["among_best"].astype(bool).tolist())
    return f"; the highest value is at {among}" if among else "; no layer was shown to be higher than another"


def _right_and_wrong(result: Result) -> Iterator[Finding]:
    """The measure and layer that tell right from wrong answers best, among matched questions of all tasks together."""
    table = result.tables["contrast"]
    known = table[table["task"] == TOGETHER] if len(table) else table
    if known.empty:
        yield from _not_compared(result)
        return
    rows = list(rows_of(known.rename(columns={"difference": "estimate"})))
    # All are nothing only where the widest is: that is the one that is told.
    some = [row for row in rows if not _is_nothing(row, NEGLIGIBLE)]
    row = _strongest(some) if some else max(rows, key=lambda row: max(abs(row.low), abs(row.high)))
    means = _CONTRASTS[row.measure].format(more="more" if row.estimate > 0 else "less")
    yield finding(
        claim=f"Where the answer is right, {means}, at layer {row.layer}: {number(row.right)} against "
        f"{number(row.wrong)}",
        whether=f"right and wrong answers to similar questions differ (most in {row.measure} at layer {row.layer})",
        absent="Right and wrong answers to similar questions do not differ by any measure at any layer",
        contrast="difference",
        test=Contrast.of(row),
        source=Source("contrast", {"task": TOGETHER, "layer": row.layer, "measure": row.measure}),
        unit=row.unit,
        importance=("answers", "localised"),
        note=f"{row.matched:,} wrong answers stand beside right ones of the same task, question word and length of "
        "answer.",
    )


def _is_nothing(row: Any, margin: float) -> bool:
    return status_of(row.low, row.high, row.p_adjusted, needed=row.needed, margin=margin) == "null"


def _not_compared(result: Result) -> Iterator[Finding]:
    """Where every task is answered always rightly or always wrongly, there is nothing to compare."""
    tasks = result.tables.get("tasks")
    if tasks is None or tasks.empty or tasks["compared"].any():
        return
    said = ", ".join(f"{row.right:,} of {row.questions:,} right{_in_task(row.task)}" for row in rows_of(tasks))
    yield not_tested("right and wrong answers differ", f"no task has both ({said})", importance=("answers",))


def _in_task(task: object) -> str:
    return f" in {task}" if isinstance(task, str) and task else ""


def _failures(result: Result) -> Iterator[Finding]:
    """How well a layer predicts wrong answers, beside twin and confidence, and what it adds to the confidence."""
    table = result.tables.get("failure_contrasts")
    if table is None:
        return
    if table.empty:
        yield not_tested("wrong answers can be predicted", _reason(result), importance=("answers",))
        return
    yield _predicted(table)
    yield _confidence(table)
    yield _added(table)


def _at_one_layer(table: pd.DataFrame, contrasts: tuple[str, ...]) -> Any:
    """The layer that is most surely ahead in all of these contrasts, by the least sure of them."""
    own = table[table["contrast"].isin(contrasts) & table["estimate"].notna()]
    layers = [rows for _, rows in own.groupby("layer")]
    # Ahead in all where it is: a contrast below 0 is never part of such a claim.
    ahead = [rows for rows in layers if (rows["estimate"] > 0).all()]
    if ahead:
        return _strongest([hardest(rows) for rows in ahead])
    first = own[own["contrast"] == contrasts[0]]
    layer = first["layer"].iloc[int(first["value"].to_numpy(float).argmax())]
    rows = own[own["layer"] == layer]
    return next(rows_of(rows.iloc[[int(rows["estimate"].to_numpy(float).argmin())]]))


def _failing(row: Any, **parts: Any) -> Finding:
    source = Source("failure_contrasts", {"contrast": row.contrast, "layer": int(row.layer)})
    return finding(test=Contrast.of(row), source=source, unit=row.unit, **parts)


def _predicted(table: pd.DataFrame) -> Finding:
    row = _at_one_layer(table, (CHANCE, OVER_TWIN))
    other = "chance" if row.contrast == CHANCE else "the same layer with random weights"
    beside = (
        f"; chance is {number(row.other)}" if row.contrast == CHANCE else f", with random weights {number(row.other)}"
    )
    return _failing(
        row,
        claim=f"Layer {row.layer} predicts which answers are wrong with an AUC of {number(row.value)}{beside}",
        whether=f"layer {row.layer} predicts which answers are wrong better than {other}",
        absent=f"Layer {row.layer} predicts which answers are wrong no better than {other}",
        contrast="difference",
        importance=("answers", "beats control", "localised"),
        margin=_SMALL_AUC,
    )


def _confidence(table: pd.DataFrame) -> Finding:
    """One layer ahead of the confidence, or the confidence ahead of all layers."""
    rows = list(rows_of(table[table["contrast"] == OVER_CONFIDENCE]))
    ahead = [row for row in rows if row.estimate > 0 and row.p_adjusted < SURE]
    behind = all(row.estimate < 0 and row.p_adjusted < SURE for row in rows)
    if behind:
        row = max(rows, key=lambda row: (row.p_adjusted, row.estimate))
        claim = (
            f"The model's confidence predicts wrong answers better than any layer does: AUC {number(row.other)}, "
            f"layer {row.layer} {number(row.value)}"
        )
    else:
        row = _strongest(ahead) if ahead else max(rows, key=lambda row: row.value)
        claim = (
            f"Layer {row.layer} predicts wrong answers better than the model's confidence does: AUC "
            f"{number(row.value)} against {number(row.other)}"
        )
        if row.estimate < 0:
            claim = (
                f"Layer {row.layer} predicts wrong answers worse than the model's confidence does: AUC "
                f"{number(row.value)} against {number(row.other)}"
            )
    return _failing(
        row,
        claim=claim,
        whether=f"layer {row.layer} predicts wrong answers better than the model's confidence does",
        absent=f"Layer {row.layer} predicts wrong answers as well as the model's confidence does",
        contrast="difference",
        importance=("beats control",),
        margin=_SMALL_AUC,
    )


def _added(table: pd.DataFrame) -> Finding:
    row = _at_one_layer(table, (ADDED, ADDED_OVER_TWIN))
    more = "" if row.contrast == ADDED else "more than the same layer with random weights "
    against = "" if row.contrast == ADDED else f", with random weights {number(row.other, digits=3)}"
    return _failing(
        row,
        claim=f"Layer {row.layer} adds to what the model's confidence says of wrong answers: "
        f"{number(row.value, digits=3)} nats per question{against}",
        whether=f"layer {row.layer} adds {more}to what the model's confidence says of wrong answers",
        absent=f"Layer {row.layer} adds nothing {more}to what the model's confidence says of wrong answers",
        contrast="gain" if row.contrast == ADDED else "difference",
        importance=("surprises", "beats control"),
        margin=_SMALL_GAIN,
        digits=3,
    )


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
