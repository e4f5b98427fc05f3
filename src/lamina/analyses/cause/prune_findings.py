"""What pruning shows, in sentences and in a small table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lamina.analyses.cause.prune_orders import BOTTOM, EFFECT, IMPORTANCE, RANDOM, TOP
from lamina.framework.declare import Overview
from lamina.results import Result
from lamina.results.finding import Finding, Source, finding, not_tested, number, percent, rows_of
from lamina.stats.seeds import ENOUGH_SEEDS
from lamina.stats.status import NEGLIGIBLE, SURE, Contrast

HOW = {
    IMPORTANCE: "by importance (gradient of a gate)",
    EFFECT: "by the effect of each alone",
    RANDOM: "at random",
    TOP: "from the top layer down",
    BOTTOM: "from the bottom layer up",
}
"""Order -> how parts go, in words."""
_NATS = 0.05
"""A difference in loss that means nothing, in nats per piece."""


def tell_findings(result: Result) -> Iterator[Finding]:
    """The share that can go by one order beside that by another; what training on regains."""
    empty = _nothing_to_lose(result)
    if empty is not None:
        yield empty
        return
    yield from _retrained(result)
    for row in rows_of(result.tables["contrasts"]):
        yield _compared(result, row)


def _nothing_to_lose(result: Result) -> Finding | None:
    """Where the whole model is not shown to do better than a control, any share of it may go, which says nothing."""
    lower = _lower(result)
    for row in rows_of(result.tables["controls"]):
        test = Contrast.of(row, "difference", "diff_low", "diff_high")
        if test.p < SURE and (row.difference < 0) == lower:
            continue
        what = _score(result)
        scores = f"{number(row.whole)} against {number(row.value)}"
        return finding(
            claim=f"The whole model does worse than {row.control}, so the shares that can go mean nothing: {what} is "
            f"{scores}",
            whether=f"the whole model does better than {row.control}, so that there is something to lose",
            absent=f"The whole model does no better than {row.control}, so the shares that can go mean nothing: {what} "
            f"is {scores}",
            contrast="difference",
            test=test,
            source=Source("controls", {"control": row.control}),
            unit=_unit(result),
            importance=("beats control",),
            margin=_NATS if lower else NEGLIGIBLE,
        )
    return None


def _compared(result: Result, row: Any) -> Finding:
    """Whether more can go by one order than by another; nothing is tested where none, or all, can go by both."""
    parts, within = _parts(result), _within(result, None)
    way, other = HOW[row.by], HOW[row.against]
    source = Source("contrasts", {"by": row.by, "against": row.against})
    importance = ("answers", "localised") if row.by == TOP else ("answers", "beats control")
    question = f"more {parts} can go {way} than {other} within {within}"
    if row.share == row.other_share and row.share in (0, 1):
        ends = "from either end" if row.by == TOP else "either way"
        many = f"no {parts.removesuffix('s')}" if row.share == 0 else f"each {parts.removesuffix('s')}"
        reason = f"{many} could be removed {ends} within {within}"
        return not_tested(question, reason, source=(source,), importance=importance)
    shares = f"{percent(row.share)} against {percent(row.other_share)}"
    more = "More" if row.difference > 0 else "Fewer"
    return finding(
        claim=f"{more} {parts} can go {way} than {other} within {within}: {shares}",
        whether=question,
        absent=f"As many {parts} can go {way} as {other} within {within}: {shares}",
        contrast="difference of the shares",
        test=Contrast.of(row, "difference"),
        source=source,
        unit=_unit(result),
        importance=importance,
        note=_resolution(result, row.against),
    )


def _retrained(result: Result) -> Iterator[Finding]:
    """What training on changes, beside what it changes in the whole model."""
    table = result.tables.get("retrained")
    if table is None:
        return
    rows = {row.model: row for row in rows_of(table)}
    pruned, whole = rows["pruned"], rows["whole"]
    lower = _lower(result)
    gains = f"the score of the pruned model by {number(pruned.difference)}, that of the whole one by " + number(
        whole.difference
    )
    steps = f"{pruned.steps:,} steps of training change {gains}"
    yield finding(
        claim=f"Training on makes up for some of what was removed: {steps}"
        if (pruned.more > 0) != lower
        else f"Training on helps the whole model more than the pruned one: {steps}",
        whether="training on makes up for some of what was removed",
        absent=f"Training on makes up for nothing of what was removed: {steps}",
        contrast="difference",
        test=Contrast.of(pruned, "more", "more_low", "more_high"),
        source=Source("retrained"),
        unit=_unit(result),
        importance=("answers",),
        margin=_NATS if lower else NEGLIGIBLE,
    )


def describe(result: Result) -> Iterator[Overview]:
    """One row per order: the share that can go, and the score with a part, half and all of the model gone."""
    about, curve = result.provenance, result.tables["curve"]
    whole = next(row for row in rows_of(curve) if row.removed == 0)
    rows: list[tuple[str | int, ...]] = []
    for row in rows_of(result.tables["shares"]):
        own = list(rows_of(curve[curve["by"] == row.by]))
        shown = [_nearest(own, share) for share in (0.75, 0.5, 0.0)]
        rows.append(
            (
                HOW[row.by],
                _percent(row.share, row.low, row.high),
                *(number(each.value, each.low, each.high) for each in shown),
            )
        )
    yield Overview(
        f"{about.model['name']}: {about.corpus['target']}, whole {number(whole.value, whole.low, whole.high)}",
        (f"{_parts(result)} removed", f"can go within {_within(result, None)}", "1/4 gone", "1/2 gone", "all gone"),
        rows,
    )


def _nearest(rows: list[Any], share: float) -> Any:
    return min(rows, key=lambda row: abs(row.share_left - share))


def _parts(result: Result) -> str:
    return f"{result.provenance.parameters['component']}s"


def _resolution(result: Result, against: str) -> str:
    """Between two points of a curve nothing is known, and few random orders stand for themselves alone."""
    step = int(sorted(result.tables["curve"]["removed"].unique())[1])
    said = [f"{_parts(result).capitalize()} were taken away {step} at a time."] if step > 1 else []
    drawn = int(result.provenance.parameters.get("draws", ENOUGH_SEEDS))
    if against == RANDOM and drawn < ENOUGH_SEEDS:
        said.append(f"Of random orders only {drawn} {'was' if drawn == 1 else 'were'} tried.")
    return " ".join(said)


def _lower(result: Result) -> bool:
    return bool(result.tables["shares"]["within"].iloc[0] == "1 %")


def _unit(result: Result) -> str:
    """What is resampled: documents, or pairs."""
    return "item" if result.provenance.corpus["target"] == "pairs" else "document"


def _within(result: Result, row: Any) -> str:
    within = result.tables["shares"]["within"].iloc[0] if row is None else row.within
    return "1 % of the loss" if within == "1 %" else "1 point"


def _score(result: Result) -> str:
    name = result.provenance.corpus["target"]
    named = {"loss": "The loss", "qa": "F1 of the answers", "qa_em": "The share of exact answers"}
    return named.get(name, f"Accuracy ({name})")


def _percent(value: float, low: float, high: float) -> str:
    """Shares as findings say them.

    Example:
        >>> _percent(0.42, 0.333, 0.5)
        '42 % [33, 50]'
    """
    known = low == low and high == high
    return f"{100 * value:.0f} %" + (f" [{100 * low:.0f}, {100 * high:.0f}]" if known else "")
