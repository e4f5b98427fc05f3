"""What a result on senses says, in sentences and in a small table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from lamina.analyses.declaration import Overview
from lamina.analyses.legacy import finding, legacy_finding, status_of_difference
from lamina.analyses.word_senses.scores import LAYER_0, MOST_FREQUENT, TWIN
from lamina.findings import Finding, cell, number, p_in_words, rows_of
from lamina.results import Result

_CHOSEN = "chosen.ambiguous"
_SAID = {MOST_FREQUENT: "each word's most frequent sense", LAYER_0: "layer 0", TWIN: "the random-weights twin"}


def tell_findings(result: Result) -> Iterator[Finding]:
    """Senses beside the most frequent one; beside static vectors; clusters; position."""
    table = result.tables["senses"]
    yield from _beside(result, (MOST_FREQUENT,))
    yield from _beside(result, _static(result))
    yield from _clusters(table)
    yield from _position(table)


def described(against: str) -> str:
    """What the model is compared with, in words.

    Example:
        >>> described("skip-gram"), described("twin")
        ('averaged skip-gram vectors', 'the random-weights twin')
    """
    named = {"input": "its averaged input embeddings"}
    return _SAID.get(against) or named.get(against, f"averaged {against} vectors")


def _beside(result: Result, names: tuple[str, ...]) -> Iterator[Finding]:
    table, gaps = result.tables["senses"], result.tables["differences"]
    chosen = next(rows_of(table[table["measure"] == _CHOSEN]), None)
    own = gaps[(gaps["measure"] == _CHOSEN) & gaps["against"].isin(names)]
    if chosen is None or own.empty:
        return
    # Of several kinds of static vectors, the one that is hardest to beat.
    gap = next(rows_of(own.sort_values("difference", kind="stable")))
    status = status_of_difference(gap.low, gap.high, gap.p_adjusted)
    more = "more than" if gap.difference >= 0 else "less than"
    size = number(abs(gap.difference), *sorted((abs(gap.low), abs(gap.high)))) if gap.low * gap.high > 0 else None
    told = f"{size} {more}" if size else f"a difference of {number(gap.difference, gap.low, gap.high)} from"
    value, theirs = number(chosen.value, chosen.low, chosen.high), number(chosen.value - gap.difference)
    if MOST_FREQUENT in names:
        twin = next(rows_of(table[table["measure"] == f"{TWIN}.{_CHOSEN}"]), None)
        beside = f"; the random-weights twin reaches {number(twin.value, twin.low, twin.high)}" if twin else ""
        text = (
            f"Senses of ambiguous words are told best at layer {chosen.layer}: accuracy {value} with the layer chosen "
            f"on other documents, {told} {described(gap.against)} ({theirs}, {p_in_words(gap.p_adjusted)}){beside}."
        )
    else:
        text = (
            f"Order and depth add to the words of the sentence: neighbours at the best layer reach {value}, {told} "
            f"{described(gap.against)} ({theirs}, {p_in_words(gap.p_adjusted)})."
            if status == "clear" and gap.difference > 0
            else f"Neighbours at the best layer reach {value}, {told} {described(gap.against)} ({theirs}, "
            f"{p_in_words(gap.p_adjusted)})."
        )
    yield legacy_finding(text, status, gap.difference, gap.low, gap.high, 0.0)


def _static(result: Result) -> tuple[str, ...]:
    names = dict.fromkeys(result.tables["differences"]["against"])
    return tuple(name for name in names if name not in _SAID)


def _clusters(table: pd.DataFrame) -> Iterator[Finding]:
    rows = [row for row in rows_of(table[table["measure"] == "ami"]) if row.value == row.value]
    if not rows:
        return
    best = max(rows, key=lambda row: row.value)
    null = next(rows_of(table[(table["measure"] == "ami.null") & (table["layer"] == best.layer)]))
    twin = table[(table["measure"] == f"{TWIN}.ami") & table["value"].notna()]
    beside = f"; the twin's best is {number(float(twin['value'].max()))}" if len(twin) else ""
    yield finding(
        f"Clusters of a word's occurrences agree best with its senses at layer {best.layer}: AMI {{number}}; shuffled "
        f"senses give {{against}}{beside}.",
        best.value, best.low, best.high, null.value, (null.low, null.high),
    )  # fmt: skip


def _position(table: pd.DataFrame) -> Iterator[Finding]:
    rows = [row for row in rows_of(table[table["measure"] == "position.both"]) if row.value == row.value]
    if not rows:
        return
    most, last = max(rows, key=lambda row: row.value), max(rows, key=lambda row: row.layer)
    moved = table[(table["measure"] == "moved.shifted") & (table["layer"] == most.layer)]["value"]
    alone = ""
    if moved.notna().any():
        times = number(float(moved.iloc[0]))
        alone = f"; shifted positions alone move words {times} times as far as other contexts do (squared)"
    yield finding(
        f"Places in the sentence explain most of a word's variance at layer {most.layer}: {{number}}, shuffled places "
        f"{{against}}; at the last layer {number(last.value, last.low, last.high)}{alone}.",
        most.value, most.low, most.high, most.baseline,
    )  # fmt: skip


def describe(result: Result) -> Iterable[Overview]:
    """One row per layer: neighbours beside the twin, clusters, position."""
    table, about = result.tables["senses"], result.provenance
    main = f"knn{about.parameters['k'][0]}.ambiguous"
    shown = {
        main: main,
        f"{TWIN}.{main}": "twin",
        "ami": "ami",
        "position.both": "position",
        "moved.shifted": "shifted",
    }
    there = {measure: said for measure, said in shown.items() if (table["measure"] == measure).any()}
    by_layer = {(row.layer, row.measure): row for row in rows_of(table) if row.measure in there}
    layers = sorted({int(layer) for layer, _ in by_layer if not pd.isna(layer)})
    rows: list[tuple[str | int, ...]] = [
        (layer, *(_cell(by_layer.get((layer, measure)), spread=measure == main) for measure in there))
        for layer in layers
    ]
    baseline = float(table.loc[table["measure"] == main, "baseline"].iloc[0])
    title = f"{about.model['name']} on {about.corpus['name']}: most frequent sense {number(baseline, digits=3)}"
    yield Overview(title, ("layer", *there.values()), rows)


def _cell(row: Any, *, spread: bool) -> str:
    if row is None:
        return "-"
    return cell(row.value, row.low, row.high) if spread else cell(row.value)
