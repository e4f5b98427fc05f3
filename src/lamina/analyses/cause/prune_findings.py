"""What pruning shows, in sentences and in a small table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lamina.analyses.cause.prune_orders import BOTTOM, EFFECT, IMPORTANCE, RANDOM, TOP
from lamina.analyses.declaration import Overview
from lamina.analyses.legacy import legacy_finding, status_of
from lamina.findings import Finding, number, rows_of
from lamina.results import Result
from lamina.stats.status import NEGLIGIBLE, Status

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
    """The share that can go by each order beside that at random; what training on regains."""
    empty = _nothing_to_lose(result)
    if empty is not None:
        yield empty
        return
    shares = {row.by: row for row in rows_of(result.tables["shares"])}
    yield from _retrained(result)
    for by in (IMPORTANCE, EFFECT):
        if by in shares:
            yield _against_random(result, shares[by], shares.get(RANDOM))
    if TOP in shares and BOTTOM in shares:
        yield _top_and_bottom(result, shares[TOP], shares[BOTTOM])
    if RANDOM in shares and not {IMPORTANCE, EFFECT} & set(shares):
        yield _against_random(result, shares[RANDOM], None)


def _nothing_to_lose(result: Result) -> Finding | None:
    """Where the whole model is no better than a control, any share of it can go, which says nothing."""
    whole = next(row for row in rows_of(result.tables["curve"]) if row.removed == 0)
    for control in rows_of(result.tables["controls"]):
        lower = result.tables["shares"]["within"].iloc[0] == "1 %"
        better = whole.high < control.low if lower else whole.low > control.high
        if not better:
            return legacy_finding(
                f"{_score(result)} of the whole model is {number(whole.value, whole.low, whole.high)}, not clearly "
                f"better than {control.control} ({number(control.value, control.low, control.high)}): there is nothing "
                "to lose, so the shares that can go mean nothing.",
                "open", whole.value, whole.low, whole.high, control.value,
            )  # fmt: skip
    return None


def _against_random(result: Result, row: Any, random: Any) -> Finding:
    said = (
        f"{_percent(row.share, row.low, row.high)} of the {_parts(result)} can go within {_within(result, row)}"
        f"{_resolution(result)}"
    )
    if random is None:
        text = f"{said} when they are taken away {HOW[row.by]}."
        return legacy_finding(text, "open", row.share, row.low, row.high)
    status = status_of(row.diff_low, row.diff_high, 0.0)
    begin = {
        "clear": f"More can go {HOW[row.by]} than at random" if row.difference > 0 else
        f"Less can go {HOW[row.by]} than at random",
        "null": f"Choosing {HOW[row.by]} saves no more than chance",
        "open": f"Whether more can go {HOW[row.by]} than at random is undecided",
    }[status]  # fmt: skip
    return legacy_finding(
        f"{begin}: {said}, at random {_percent(random.share, random.low, random.high)} (difference "
        f"{_percent(row.difference, row.diff_low, row.diff_high)}).",
        status, row.difference, row.diff_low, row.diff_high, 0.0,
    )  # fmt: skip


def _top_and_bottom(result: Result, top: Any, bottom: Any) -> Finding:
    status: Status = status_of(top.low, top.high, bottom.share, (bottom.low, bottom.high))
    begin = "Undecided whether upper or lower layers matter less"
    if status == "clear":
        begin = f"{'Upper' if top.share > bottom.share else 'Lower'} layers matter less"
    elif status == "null":
        begin = "Upper layers matter as much as lower ones"
    return legacy_finding(
        f"{begin}: {_percent(top.share, top.low, top.high)} of the {_parts(result)} can go from the top within "
        f"{_within(result, top)}, {_percent(bottom.share, bottom.low, bottom.high)} from the bottom.",
        status, top.share, top.low, top.high, bottom.share,
    )  # fmt: skip


def _retrained(result: Result) -> Iterator[Finding]:
    """What training on changes, beside what it changes in the whole model."""
    table = result.tables.get("retrained")
    if table is None:
        return
    rows = {row.model: row for row in rows_of(table)}
    pruned, whole = rows["pruned"], rows["whole"]
    lower = result.tables["shares"]["within"].iloc[0] == "1 %"
    gained = (whole.diff_low, whole.diff_high)
    status = status_of(
        pruned.diff_low, pruned.diff_high, whole.difference, gained, negligible=_NATS if lower else NEGLIGIBLE
    )
    more = (pruned.difference > whole.difference) != lower
    begin = {
        "clear": "Training on makes up for some of what was removed" if more else
        "Training on helps the whole model more than the pruned one",
        "null": "Training on makes up for nothing of what was removed",
        "open": "Whether training on makes up for some of what was removed is undecided",
    }[status]  # fmt: skip
    yield legacy_finding(
        f"{begin}: with {pruned.removed} {_parts(result)} removed {HOW[pruned.by]}, {pruned.steps} steps take the "
        f"score from {number(pruned.before)} to {number(pruned.value, pruned.low, pruned.high)}; "
        f"the whole model goes from {number(whole.before)} to {number(whole.value, whole.low, whole.high)} with the "
        "same training.",
        status, pruned.difference, pruned.diff_low, pruned.diff_high, whole.difference,
    )  # fmt: skip


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


def _resolution(result: Result) -> str:
    """Between two points of a curve nothing is known."""
    step = sorted(result.tables["curve"]["removed"].unique())[1]
    return f" (taken away {step} at a time)" if step > 1 else ""


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
