"""What a result on senses says, in sentences and in a small table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from lamina.analyses.word_senses.scores import BAGS, CONSTANTS, LAYER_0, MOST_FREQUENT, SCORED_MAJORITY, TWIN
from lamina.analyses.word_senses.static import bag_of
from lamina.framework.declare import Overview
from lamina.results import Result
from lamina.results.finding import Finding, Source, best_in_words, cell, finding, not_tested, number, percent, rows_of
from lamina.stats.status import Contrast

_CHOSEN = "chosen.ambiguous"
_NAMED = {
    MOST_FREQUENT: "each word's most frequent sense in training",
    SCORED_MAJORITY: "each word's most frequent sense in other scored documents",
    LAYER_0: "layer 0",
    TWIN: "the random-weights twin",
}


def tell_findings(result: Result) -> Iterator[Finding]:
    """Senses beside the best constant answer and the best bag of words; clusters; position."""
    if "best" not in result.tables:
        return
    yield from _beside_constants(result)
    yield from _beside_bags(result)
    yield from _clusters(result)
    yield from _position(result)


def described(against: str) -> str:
    """What the model is compared with, in words.

    Example:
        >>> described("skip-gram.w1"), described("input")
        ('averaged skip-gram vectors of up to 1 word away', 'averaged input embeddings of the text')
    """
    if against in _NAMED:
        return _NAMED[against]
    name, window = bag_of(against)
    vectors = "input embeddings" if name == "input" else f"{name} vectors"
    where = "the text" if window is None else f"up to {window} word{'s' * (window != 1)} away"
    return f"averaged {vectors} of {where}"


def _hardest(result: Result, family: str) -> Any | None:
    """Of the comparisons of the chosen layer in one family, the one with the most right answers."""
    gaps = result.tables["differences"]
    rows = [*rows_of(gaps[(gaps["measure"] == _CHOSEN) & (gaps["family"] == family)])]
    return max(rows, key=lambda row: row.baseline) if rows else None


def _best(result: Result, measure: str) -> tuple[str, list[Source]]:
    """Which layers can be the best in words, and where that stands."""
    table = result.tables["best"]
    rows = [*rows_of(table[(table["measure"] == measure) & table["value"].notna()])]
    among = best_in_words([row.layer for row in rows], [row.among_best for row in rows])
    return among, [Source("best", {"measure": measure, "among_best": True})] if among else []


def _beside_constants(result: Result) -> Iterator[Finding]:
    row = _hardest(result, CONSTANTS)
    if row is None:
        return
    among, source = _best(result, f"knn{result.provenance.parameters['k'][0]}.ambiguous")
    where = f"; {among} can be the best" if among else "; no layer was shown to be better than another"
    share, theirs = percent(row.value), percent(row.baseline)
    always = f"always answering {described(row.against)}"
    ahead = f"Neighbours find the sense of ambiguous words in {share}; {always}, in {theirs}"
    behind = f"{always.capitalize()} is right for {theirs} of ambiguous words; neighbours for {share}"
    yield _compared(
        result, row, ahead + where if row.difference > 0 else behind,
        whether=f"neighbours find the sense of ambiguous words more or less often than {always}",
        absent=f"Neighbours find the sense of ambiguous words as often as {always}: {share} and {theirs}",
        source=source if row.difference > 0 else [], importance=("answers", "beats control", "localised"),
    )  # fmt: skip


def _beside_bags(result: Result) -> Iterator[Finding]:
    row = _hardest(result, BAGS)
    if row is None:
        return
    share, theirs, bag = percent(row.value), percent(row.baseline), f"{described(row.against)}, the best bag of words"
    yield _compared(
        result, row,
        f"Neighbours of the model's vectors find {share} of the senses of ambiguous words; those of {bag}, {theirs}",
        whether=f"the model's vectors tell senses of ambiguous words better or worse than {bag}",
        absent=f"The model's vectors tell senses of ambiguous words as well as {bag}: {share} and {theirs}",
        source=[], importance=("answers", "beats control"),
    )  # fmt: skip


def _compared(
    result: Result, row: Any, claim: str, *, whether: str, absent: str, source: list[Source], importance: tuple
) -> Finding:  # fmt: skip
    differences = Source("differences", {"measure": row.measure, "family": row.family, "against": row.against})
    test = Contrast.of(row, estimate="difference")
    if test.p != test.p and not test.needed:
        return not_tested(whether, "no document has different answers of the two", source=[differences])
    return finding(
        claim=claim, whether=whether, absent=absent, contrast="difference", test=test, source=[differences, *source],
        unit=_unit(result), importance=importance,
    )  # fmt: skip


def _unit(result: Result) -> str:
    return str(result.provenance.corpus.get("resampled", "document"))


def _highest(result: Result, measure: str, against: str) -> Any | None:
    """The row of the layer where a measure is highest."""
    gaps = result.tables["differences"]
    rows = gaps[(gaps["measure"] == measure) & (gaps["against"] == against)].dropna(subset=["value", "layer"])
    return next(rows_of(rows.loc[[rows["value"].idxmax()]])) if len(rows) else None


def _clusters(result: Result) -> Iterator[Finding]:
    row = _highest(result, "ami", "shuffled senses")
    if row is None:
        return
    among, source = _best(result, "ami")
    where = f"; {among} can be the best" if among else "; no layer was shown to be better than another"
    table = result.tables["senses"]
    stable = table[(table["measure"] == "ami.stability") & (table["layer"] == row.layer)]
    differences = Source("differences", {"measure": "ami", "against": "shuffled senses", "layer": row.layer})
    whether = f"clusters of a word's occurrences agree with its senses at layer {row.layer}"
    test = Contrast.of(row, estimate="difference")
    if test.p != test.p and not test.needed:
        yield not_tested(whether, "agreement does not vary between words", source=[differences])
        return
    yield finding(
        claim=f"Clusters of a word's occurrences agree with its senses at layer {row.layer}: AMI {number(row.value)}, "
        f"with shuffled senses {number(row.baseline)}{where}",
        whether=whether,
        absent=f"Clusters of a word's occurrences agree with its senses at layer {row.layer} as with shuffled senses",
        contrast="difference",
        test=test,
        source=[differences, *source],
        unit="word type",
        importance=("answers", "localised"),
        note=_stability(float(stable["value"].iloc[0])) if len(stable) else "",
    )


def _stability(value: float) -> str:
    return f"Clusters from other starts agree with an adjusted Rand index of {number(value)}."


def _position(result: Result) -> Iterator[Finding]:
    """Where places explain most; what they explain at the last layer beside the twin."""
    row = _highest(result, "position.both", "shuffled places")
    if row is not None:
        yield _highest_share(result, row)
    gaps = result.tables["differences"]
    twins = gaps[(gaps["measure"] == "position.both") & (gaps["against"] == TWIN)].dropna(subset=["difference"])
    if len(twins):
        last = max(rows_of(twins), key=lambda row: row.layer)
        less = "less" if last.difference < 0 else "more"
        yield _share(
            result, last, f"At layer {last.layer} the place explains {less} of a word's variance than in the "
            f"random-weights twin: {percent(last.value)}, twin {percent(last.baseline)}",
            whether=f"the place explains more or less of a word's variance at layer {last.layer} than in the "
            "random-weights twin",
            absent=f"At layer {last.layer} the place explains as much of a word's variance as in the random-weights "
            f"twin: {percent(last.value)}, twin {percent(last.baseline)}",
            source=[], importance=("beats control", "localised"),
        )  # fmt: skip


def _highest_share(result: Result, row: Any) -> Finding:
    among, source = _best(result, "position.both")
    where = f"; {among} can be the highest" if among else "; no layer was shown to be higher than another"
    return _share(
        result, row,
        f"At layer {row.layer} the place in the sentence explains {percent(row.value)} of a word's variance; shuffled "
        f"places explain {percent(row.baseline)}{where}",
        whether=f"the place in the sentence explains variance within words at layer {row.layer}",
        absent=f"At layer {row.layer} the place in the sentence explains no more of a word's variance than shuffled "
        "places",
        source=source, importance=("answers", "localised"),
    )  # fmt: skip


def _share(
    result: Result, row: Any, claim: str, *, whether: str, absent: str, source: list[Source], importance: tuple
) -> Finding:  # fmt: skip
    differences = Source("differences", {"measure": row.measure, "against": row.against, "layer": row.layer})
    test = Contrast.of(row, estimate="difference")
    if test.p != test.p and not test.needed:
        return not_tested(whether, "the share does not vary between documents", source=[differences])
    return finding(
        claim=claim, whether=whether, absent=absent, contrast="difference", test=test, source=[differences, *source],
        unit=_unit(result), importance=importance,
    )  # fmt: skip


def describe(result: Result) -> Iterable[Overview]:
    """One row per layer: neighbours beside the twin, clusters, position."""
    table, about = result.tables["senses"], result.provenance
    main = f"knn{about.parameters['k'][0]}.ambiguous"
    headings = {
        main: main,
        f"{TWIN}.{main}": "twin",
        "ami": "ami",
        "position.both": "position",
        "moved.shifted": "shifted",
    }
    there = {measure: heading for measure, heading in headings.items() if (table["measure"] == measure).any()}
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
