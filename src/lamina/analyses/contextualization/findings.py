"""What results about words in context show, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from lamina.analyses.contextualization.tables import (
    AVERAGE,
    CHOSEN,
    FINETUNED,
    LESS_CONTEXT,
    STATIC,
    Table,
)
from lamina.results import Result
from lamina.results.finding import Finding, Source, best_in_words, finding, not_tested, number, percent, rows_of
from lamina.stats.status import Contrast


def contextualize_findings(result: Result) -> Iterator[Finding]:
    """The layer that other words chose, beside vectors without context, its average over contexts and less context."""
    if "contrasts" not in result.tables:
        return
    table = result.tables["contrasts"].dropna(subset=["value", "baseline"])
    chosen = table[table["family"] == CHOSEN]
    yield from _beside_static(result, chosen[chosen["comparison"] == STATIC])
    yield from _beside_average(chosen[chosen["comparison"] == AVERAGE])
    yield from _with_less_context(chosen[chosen["comparison"] == LESS_CONTEXT])
    yield from _after_finetuning(table[table["comparison"] == FINETUNED], result)


def _compared(row: Any, *, claim: str, whether: str, absent: str, importance: Any, **more: Any) -> Finding:
    """A finding about one row of `contrasts`."""
    names = ("comparison", "family", "task", "layer", "representation", "against", "window")
    where = {name: _plain(getattr(row, name)) for name in names if not pd.isna(getattr(row, name))}
    source = Source("contrasts", where)
    test = Contrast.of(row, estimate="difference")
    if test.p != test.p and not test.needed:
        return not_tested(whether, "the two do not differ in any word", source=[source])
    return finding(
        claim=claim,
        whether=whether,
        absent=absent,
        contrast="difference",
        test=test,
        source=[source, *more.pop("source", ())],
        unit="word type",
        importance=importance,
        **more,
    )


def _plain(value: Any) -> Any:
    """As JSON has it."""
    return value.item() if hasattr(value, "item") else value


def _beside_static(result: Result, rows: Table) -> Iterator[Finding]:
    """The chosen layer beside the best vectors that know no context; which layers can be the best."""
    rows = rows.dropna(subset=["layer"])
    if rows.empty:
        return
    row = next(rows_of(rows.loc[[rows["baseline"].idxmax()]]))
    best = result.tables["best"].dropna(subset=["value"])
    among = best_in_words([*best["layer"]], [*best["among_best"]])
    where = f"; {among} can be the best" if among else "; no layer was shown to be better than another"
    free = f"{row.against}, the best vectors without context"
    how = "better" if row.difference > 0 else "worse"
    numbers = f"micro-F1 {number(row.value)}, {row.against} {number(row.baseline)}"
    yield _compared(
        row,
        claim=f"Layer {row.layer} tells the semantic classes of new words {how} than {free}: {numbers}{where}",
        whether=f"layer {row.layer} tells the semantic classes of new words better or worse than {free}",
        absent=f"Layer {row.layer} tells the semantic classes of new words as well as {free}: {numbers}",
        importance=("answers", "beats control", "localised"),
        source=[Source("best", {"among_best": True})] if among else [],
        note="Other words chose the layer.",
    )


def _beside_average(rows: Table) -> Iterator[Finding]:
    """Whether a vector per context tells more than one per word."""
    for row in rows_of(rows):
        how = "better" if row.difference > 0 else "worse"
        numbers = f"micro-F1 {number(row.value)}, average {number(row.baseline)}"
        one, other = f"At layer {row.layer} one vector per context", "one per word, the average over its contexts"
        yield _compared(
            row,
            claim=f"{one} tells classes {how} than {other}: {numbers}",
            whether=f"{one.replace('At', 'at', 1)} tells classes better or worse than {other}",
            absent=f"{one} tells classes as well as {other}: {numbers}",
            importance=("answers",),
        )


def _with_less_context(rows: Table) -> Iterator[Finding]:
    """The whole text beside the smallest context that was asked for."""
    if rows.empty:
        return
    row = min(rows_of(rows), key=lambda candidate: int(candidate.window))
    seen = "the word alone" if row.window == 0 else f"{row.window} words on each side"
    how = "better" if row.difference > 0 else "worse"
    numbers = f"micro-F1 {number(row.value)}, {seen} {number(row.baseline)}"
    yield _compared(
        row,
        claim=f"At layer {row.layer} the whole text tells classes {how} than {seen}: {numbers}",
        whether=f"at layer {row.layer} the whole text tells classes better or worse than {seen}",
        absent=f"At layer {row.layer} the whole text tells classes no better than {seen}: {numbers}",
        importance=("answers",),
    )


def _after_finetuning(rows: Table, result: Result) -> Iterator[Finding]:
    """Where old probes lose most, and whether new ones find there what they lost."""
    changes = rows[(rows["representation"] == "a") & (rows["against"] == "pretrained")]
    if changes.empty:
        return
    row = next(rows_of(changes.loc[[changes["difference"].idxmin()]]))
    task, layer = row.task, row.layer
    tuned = result.tables["finetuning"]
    runs = tuned[(tuned["task"] == task) & (tuned["layer"] == layer) & (tuned["setup"] == "a")]
    note = "" if len(runs) > 2 else "One fine-tuned model: another seed may change others."
    lose = "worse" if row.difference < 0 else "better"
    numbers = f"micro-F1 {number(row.value)}, before {number(row.baseline)}"
    yield _compared(
        row,
        claim=f"After fine-tuning for {task} the old probes tell classes {lose} at layer {layer}: {numbers}",
        whether=f"fine-tuning for {task} changes what the old probes tell at layer {layer}",
        absent=f"After fine-tuning for {task} the old probes tell classes as before at layer {layer}: {numbers}",
        importance=("answers", "localised"),
        note=note,
    )
    for new in rows_of(
        rows[
            (rows["representation"] == "b")
            & (rows["against"] == "a")
            & (rows["task"] == task)
            & (rows["layer"] == layer)
        ]
    ):
        better = "better" if new.difference > 0 else "worse"
        numbers = f"micro-F1 {number(new.value)}, old {number(new.baseline)}"
        yield _compared(
            new,
            claim=f"After fine-tuning for {task} new probes tell classes {better} than old ones at layer {layer}: "
            f"{numbers}",
            whether=f"after fine-tuning for {task} new probes tell classes better than old ones at layer {layer}",
            absent=f"After fine-tuning for {task} new probes tell classes as old ones do at layer {layer}: {numbers}",
            importance=("answers",),
        )


def neighbours_findings(result: Result) -> Iterator[Finding]:
    """How far classes lie apart, and how much nearest words depend on the context."""
    word = result.provenance.corpus["word"]
    if "separation" in result.tables and "p_adjusted" in result.tables["separation"]:
        yield from _separated(result.tables["separation"], word)
    if "shared" in result.tables:
        yield from _shared(result.tables["shared"], word)


def _separated(separation: Table, word: str) -> Iterator[Finding]:
    """The largest silhouette beside that of shuffled classes; layers, and words that could be shown, are one family."""
    measured = separation.dropna(subset=["silhouette"])
    if measured.empty:
        return
    row = next(rows_of(measured.loc[[measured["silhouette"].idxmax()]]))
    among = best_in_words([*measured["layer"]], [*measured["among_best"]])
    where = f"; they can lie farthest apart at {among}" if among else "; no layer was shown to keep them farther apart"
    looked = f"Corrected over {len(measured)} layers" + (f" and {row.words} words." if row.words > 1 else ".")
    source = [Source("separation", {"layer": row.layer})]
    whether = f"the classes of “{word}” lie apart at layer {row.layer}"
    test = Contrast.of(row, estimate="difference")
    if test.p != test.p and not test.needed:
        yield not_tested(whether, f"they do not vary between {row.unit}s", source=source)
        return
    yield finding(
        claim=f"At layer {row.layer} the classes of “{word}” lie farther apart than shuffled classes: silhouette "
        f"{number(row.silhouette)}, shuffled {number(row.baseline)}{where}",
        whether=whether,
        absent=f"At layer {row.layer} the classes of “{word}” lie no farther apart than shuffled classes",
        contrast="difference",
        test=test,
        source=[*source, *([Source("separation", {"among_best": True})] if among else [])],
        unit=str(row.unit),
        importance=("answers", "beats control", "localised"),
        note=looked,
    )


def _shared(shared: Table, word: str) -> Iterator[Finding]:
    """How many of their nearest words two contexts share at the last layer, and at layer 0."""
    later = shared[shared["layer"] > 0].dropna(subset=["value"])
    if later.empty:
        return
    row = next(rows_of(later.loc[[later["layer"].idxmax()]]))
    source = Source("shared", {"layer": row.layer})
    whether = (
        f"two contexts of “{word}” share more or fewer of their nearest words at layer {row.layer} than at layer 0"
    )
    test = Contrast.of(row, estimate="difference")
    if test.p != test.p and not test.needed:
        yield not_tested(whether, "what contexts share does not vary between texts", source=[source])
        return
    how = "fewer" if row.difference < 0 else "more"
    yield finding(
        claim=f"Two contexts of “{word}” share {how} of their nearest words at layer {row.layer}: "
        f"{percent(row.value)}, at layer 0 {percent(row.baseline)}",
        whether=whether,
        absent=f"Two contexts of “{word}” share as many of their nearest words at layer {row.layer} as at layer 0: "
        f"{percent(row.value)}, at layer 0 {percent(row.baseline)}",
        contrast="difference",
        test=test,
        source=[source, Source("shared", {"layer": 0})],
        unit=str(row.unit),
        importance=("answers",),
    )
