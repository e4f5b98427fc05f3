"""What layers through the head show: where the final answer is reached, and where pairs and answers are told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lamina.results import Result
from lamina.results.finding import Finding, Source, finding, layers_in_words, number, percent, rows_of
from lamina.stats.status import Contrast, status_of

NEGLIGIBLE_NATS = 0.02
"""A difference of divergences that means nothing."""
NEGLIGIBLE_LAYERS = 0.1
"""A difference of mean layers that means nothing."""
TWIN_CONTRAST, TUNED_MINUS_PLAIN = "model minus twin", "tuned minus plain"
"""Contrasts of the mean layer at which the final answer is reached."""


def lens_findings(result: Result) -> Iterable[Finding]:
    """Where the final answer is reached; what translators gain; where pairs are told apart and answers found."""
    yield from _reached_findings(result)
    yield from _gain_finding(result)
    yield from _pairs_finding(result)
    yield from _cloze_finding(result)


def _reached_findings(result: Result) -> Iterator[Finding]:
    """The mean layer at which the final answer is reached: model beside twin, tuned lens beside plain."""
    depth = {(row.model, row.lens): row.mean_layer for row in rows_of(result.tables["depth"])}
    last = int(result.tables["lens"]["layer"].max())
    plain = depth["model", "plain"]
    end = Source("reached", {"model": "model", "lens": "plain"})
    for row in rows_of(result.tables["contrasts"]):
        later = "later" if row.difference > 0 else "earlier"
        if row.contrast == TWIN_CONTRAST:
            claim = (
                f"The model reaches its final answer at layer {number(plain)} of {last} on average, its twin with "
                f"random weights at layer {number(depth['twin', 'plain'])}"
            )
            whether = f"the model reaches its final answer {later} than its twin with random weights"
            absent = "The model reaches its final answer at the same layer as its twin with random weights"
            rows = [("model", "plain"), ("twin", "plain")]
        else:
            claim = (
                f"Through the tuned lens the final answer is reached at layer {number(depth['model', 'tuned'])} of "
                f"{last} on average, through the plain lens at layer {number(plain)}"
            )
            whether = f"the tuned lens reaches the final answer {later} than the plain lens"
            absent = "The tuned lens reaches the final answer at the same layer as the plain lens"
            rows = [("model", "tuned"), ("model", "plain")]
        yield finding(
            claim=claim,
            whether=whether,
            absent=absent,
            contrast=f"{row.contrast}, in layers",
            test=Contrast.of(row, "difference"),
            source=[
                Source("contrasts", {"contrast": row.contrast}),
                *(Source("depth", {"model": model, "lens": lens}) for model, lens in rows),
                end,
            ],
            unit=row.unit,
            importance=("answers", "beats control") if row.contrast == TWIN_CONTRAST else ("localised",),
            margin=NEGLIGIBLE_LAYERS,
        )


def _gain_finding(result: Result) -> Iterator[Finding]:
    """The inner layers at which the tuned lens is closer to the final distribution, told by the least sure of them."""
    table = result.tables.get("gain")
    if table is None or table.empty:
        return
    rows = list(rows_of(table[table["measure"] == "kl"]))
    closer = [row for row in rows if row.difference < 0 and _status(row, NEGLIGIBLE_NATS) == "clear"]
    least = _least_sure(closer, "difference") if closer else min(rows, key=lambda row: row.difference)
    where = "every inner layer" if len(closer) == len(rows) else layers_in_words(row.layer for row in closer or [least])
    yield finding(
        claim=f"The tuned lens is closer to the final distribution than the plain lens at {where}",
        whether=f"the tuned lens is closer to the final distribution than the plain lens at {where}",
        absent="The tuned lens is as close to the final distribution as the plain lens",
        contrast=f"layer {least.layer}: KL divergence tuned minus plain",
        test=Contrast.of(least, "difference"),
        source=Source("gain", {"measure": "kl"}),
        unit=least.unit,
        importance=("localised",),
        margin=NEGLIGIBLE_NATS,
    )


def _status(row: Any, margin: float, low: str = "low", high: str = "high") -> str:
    return status_of(getattr(row, low), getattr(row, high), row.p_adjusted, needed=row.needed, margin=margin)


def _least_sure(rows: Sequence[Any], estimate: str) -> Any:
    """Of rows that are all clear, the one whose test is the weakest: what all have is told by it."""
    return max(rows, key=lambda row: (row.p_adjusted, -abs(getattr(row, estimate))))


def _lens_of(table: Any) -> str:
    return "tuned" if "tuned" in set(table["lens"]) else "plain"


def _from_layer(rows: Sequence[Any]) -> list[Any]:
    """The last layers, all of which are clearly above; empty where the last one is not."""
    last: list[Any] = []
    for row in reversed(rows):
        if _status(row, 0.0, "diff_low", "diff_high") != "clear":
            break
        last.insert(0, row)
    return last


def _pairs_finding(result: Result) -> Iterator[Finding]:
    """The layers from which on the good sentence is preferred more often than by chance."""
    table = result.tables.get("pairs")
    if table is None or table.empty:
        return
    lens = _lens_of(table)
    where = {"paradigm": "all", "lens": lens}
    rows = sorted(rows_of(table[(table["paradigm"] == "all") & (table["lens"] == lens)]), key=lambda row: row.layer)
    above, last = _from_layer(rows), rows[-1]
    least = _least_sure(above, "difference") if above else last
    first = f"from layer {above[0].layer} on" if above else "at the last layer"
    yield finding(
        claim=f"The good sentence of a pair is preferred more often than by chance {first} ({lens} lens); at the last "
        f"layer in {percent(last.accuracy)} of pairs",
        whether=f"the good sentence of a pair is preferred more often than by chance {first} ({lens} lens)",
        absent=f"The good sentence of a pair is preferred as often as by chance {first} ({lens} lens)",
        contrast=f"layer {least.layer}: accuracy minus chance",
        test=Contrast.of(least, "difference", "diff_low", "diff_high"),
        source=Source("pairs", where),
        unit="item",
        importance=("answers", "localised"),
    )


def _cloze_finding(result: Result) -> Iterator[Finding]:
    """How often the answer is the most likely piece, and where that is more often than at the embeddings."""
    table = result.tables.get("cloze")
    if table is None or table.empty:
        return
    lens = _lens_of(table)
    where = {"part": "all", "lens": lens, "measure": "precision_at_1"}
    chosen = (table["part"] == "all") & (table["lens"] == lens) & (table["measure"] == "precision_at_1")
    embeddings, *rows = sorted(rows_of(table[chosen]), key=lambda row: row.layer)
    above, last = _from_layer(rows), rows[-1]
    least = _least_sure(above, "difference") if above else last
    first = f"from layer {above[0].layer} on" if above else "at the last layer"
    yield finding(
        claim=f"The answer of a cloze is the most likely token more often than at the embeddings {first} ({lens} "
        f"lens): in {percent(last.value)} of items at the last layer, in {percent(embeddings.value)} at the embeddings",
        whether=f"the answer of a cloze is the most likely token more often than at the embeddings {first}",
        absent=f"The answer of a cloze is the most likely token as often as at the embeddings {first}",
        contrast=f"layer {least.layer}: share minus that at the embeddings",
        test=Contrast.of(least, "difference", "diff_low", "diff_high"),
        source=Source("cloze", where),
        unit="item",
        importance=("answers", "localised"),
    )
