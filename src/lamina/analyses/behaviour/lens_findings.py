"""What layers through the head show: where the final answer is reached, and where pairs and answers are told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lamina.analyses.legacy import finding, legacy_finding, status_of
from lamina.findings import Finding, number, rows_of
from lamina.results import Result

NEGLIGIBLE_NATS = 0.02
"""A difference of divergences that means nothing."""


def lens_findings(result: Result) -> Iterable[Finding]:
    """Where the final answer is reached; what translators gain; where pairs are told apart and answers found."""
    yield from _reached_finding(result)
    yield from _gain_finding(result)
    yield from _pairs_finding(result)
    yield from _cloze_finding(result)


def _reached_finding(result: Result) -> Iterator[Finding]:
    """The mean layer at which the final answer is reached, beside the twin's or the plain lens's."""
    rows = {(row.model, row.lens): row for row in rows_of(result.tables["depth"])}
    last = int(result.tables["lens"]["layer"].max())
    plain, tuned = rows["model", "plain"], rows.get(("model", "tuned"))
    if tuned is not None:
        yield finding(
            f"The final answer is reached at layer {{number}} of {last} on average through the tuned lens; the plain "
            "lens says {against}.",
            tuned.mean_layer, tuned.low, tuned.high, plain.mean_layer, (plain.low, plain.high), negligible=0.1,
        )  # fmt: skip
    else:
        yield finding(
            f"The final answer is reached at layer {{number}} of {last} on average; the last layer is {{against}}.",
            plain.mean_layer, plain.low, plain.high, float(last), negligible=0.1,
        )  # fmt: skip


def _gain_finding(result: Result) -> Iterator[Finding]:
    """Whether the tuned lens is closer to the final distribution at every inner layer: told by the least gain."""
    table = result.tables.get("gain")
    if table is None or table.empty:
        return
    rows = list(rows_of(table[table["measure"] == "kl"]))
    least = max(rows, key=lambda row: row.difference)
    closer = sum(row.difference < 0 for row in rows)
    where = "every inner layer" if closer == len(rows) else f"{closer} of {len(rows)} inner layers"
    gain = number(-least.difference, -least.high, -least.low)
    yield legacy_finding(
        f"The tuned lens is closer to the final distribution than the plain lens at {where}; it gains least at layer "
        f"{least.layer}: {gain} nats of KL divergence.",
        status_of(least.low, least.high, 0.0, negligible=NEGLIGIBLE_NATS),
        least.difference, least.low, least.high, 0.0,
    )  # fmt: skip


def _pairs_finding(result: Result) -> Iterator[Finding]:
    """The first layer from which on the good sentence is preferred more often than by chance."""
    table = result.tables.get("pairs")
    if table is None or table.empty:
        return
    lens = "tuned" if "tuned" in set(table["lens"]) else "plain"
    rows = sorted(rows_of(table[(table["paradigm"] == "all") & (table["lens"] == lens)]), key=lambda row: row.layer)
    below = [row.layer for row in rows if not row.low > 0.5]
    first = 0 if not below else max(below) + 1
    last = rows[-1]
    if first > last.layer:
        text = "The good sentence of a pair is preferred in {number} of pairs at the last layer; chance is {against}."
        yield finding(text, last.accuracy, last.low, last.high, 0.5)
        return
    own = next(row for row in rows if row.layer == first)
    yield finding(
        f"The good sentence of a pair is preferred more often than by chance from layer {first} on ({lens} lens): "
        f"{{number}} of pairs, chance is {{against}}; at the last layer {number(last.accuracy, last.low, last.high)}.",
        own.accuracy, own.low, own.high, 0.5,
    )  # fmt: skip


def _cloze_finding(result: Result) -> Iterator[Finding]:
    """How often the answer is the most likely piece, and where that is first more often than at the embeddings."""
    table = result.tables.get("cloze")
    if table is None or table.empty:
        return
    lens = "tuned" if "tuned" in set(table["lens"]) else "plain"
    chosen = (table["part"] == "all") & (table["lens"] == lens) & (table["measure"] == "precision_at_1")
    rows = sorted(rows_of(table[chosen]), key=lambda row: row.layer)
    first, last = rows[0], rows[-1]
    found = next((row for row in rows if row.low > first.high), None)
    told = "" if found is None else f" ({lens} lens: first more often than at the embeddings at layer {found.layer})"
    yield finding(
        f"The answer of a cloze is the most likely piece in {{number}} of items at the last layer{told}; at the "
        "embeddings in {against}.",
        last.value, last.low, last.high, first.value, (first.low, first.high),
    )  # fmt: skip
