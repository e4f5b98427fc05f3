"""What a head does, in one word: the behaviours of Clark et al. (2019), induction, and how they are defined."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import pandas as pd

from lamina.results.finding import rows_of
from lamina.stats.status import SURE, Status

FIRST = "first"
"""What a sink on the text's first token is called; in a decoder it draws what separators draw elsewhere."""
BROAD = 0.78
"""Of the entropy of uniform attention: the paper's 3.8 nats at 128 tokens, carried over to any length."""
SHARES = {
    "previous": ("to_previous", 0.5),
    "next": ("to_next", 0.5),
    "separator": ("to_separator", 0.6),
    FIRST: ("to_first", 0.6),
    "punctuation": ("to_punctuation", 0.6),
}
"""Behaviour -> the measure, and the share of attention that makes it; the paper's."""
ENOUGH = 0.3
"""The share of attention from which a head is called an induction head; uniform attention gives about .03."""
OFTEN = 30
"""Targets on which a head must have been scored: a few lucky ones do not make it syntactic."""

COREFERENCE, SYNTACTIC, INDUCTION, BROADLY, OTHER = "coreference", "syntactic", "induction", "broad", "other"
BEHAVIOURS = (COREFERENCE, SYNTACTIC, INDUCTION, *SHARES, BROADLY, OTHER)
"""The most telling first: a head that does several things is called by the first."""

LEAD = ("difference", "diff_low", "diff_high", "p_adjusted", "units", "needed")
"""Columns of a tested difference: its estimate with the simultaneous interval, p adjusted for the family, how many
units have the thing, and how many would be needed where the test could not succeed (else 0)."""
DIFFERENCE = LEAD[:4]

_TOGETHER = {"all", "all without punctuation"}
_NONE = float("nan")


class HeadBehaviour(NamedTuple):
    """A head that does something, and how clearly."""

    layer: int
    head: int
    behaviour: str
    what: str
    """The relation or the mention type; empty for what is seen on the surface."""
    value: float
    """What was measured ..."""
    over: float
    """... and what it had to exceed: a share of attention, or the best simple rule on the same documents."""
    difference: float = _NONE
    """For syntax and coreference: its lead over that rule; for induction: over the same tokens without a copy ..."""
    diff_low: float = _NONE
    """... with its simultaneous interval ..."""
    diff_high: float = _NONE
    p_adjusted: float = _NONE
    """... and its adjusted p."""


def is_ahead(rows: pd.DataFrame) -> pd.Series:
    """Which rows show a lead: adjusted p below .05, and the difference above 0.

    Example:
        >>> rows = pd.DataFrame([(0.2, 0.01), (0.2, 0.2), (-0.2, 0.01)], columns=["difference", "p_adjusted"])
        >>> is_ahead(rows).tolist()
        [True, False, False]
    """
    return (rows["p_adjusted"] < SURE) & (rows["difference"] > 0)


def digits_of(*values: float) -> int:
    """Decimals that show two figures of the smallest of these numbers: at least two, at most five.

    Example:
        >>> digits_of(0.31), digits_of(0.003, 0.2), digits_of(0.0), digits_of(float("nan"))
        (2, 4, 2, 2)
    """
    sizes = [abs(value) for value in values if math.isfinite(value) and value]
    return min(5, max(2, 1 - math.floor(math.log10(min(sizes))))) if sizes else 2


def behaviours(
    surface: pd.DataFrame,
    best: pd.DataFrame | None = None,
    coref: pd.DataFrame | None = None,
    induction: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """All that holds of any head, one row per head and behaviour.

    Args:
        surface: `surface.csv` of `attention`.
        best: `best.csv` of `heads`; a relation's best head is syntactic where it is ahead of the best offset (see
            `is_ahead`); punctuation is no syntax.
        coref: `best.csv` of `corefheads`; the best head of a type of mention is a coreference head where it is ahead of
            every baseline.
        induction: `induction.csv` of `attention`, of a decoder; heads with enough attention to the token after an
            earlier copy, and more than to the same place without a copy.

    Example:
        >>> columns = ["layer", "head", "measure", "value", "low", "high", "baseline"]
        >>> rows = [(1, 2, "to_next", 0.7, 0.6, 0.8, 0.1), (1, 2, "entropy", 1.0, 0.9, 1.1, 3.0)]
        >>> behaviours(pd.DataFrame(rows, columns=columns))[["layer", "head", "behaviour"]].values.tolist()
        [[1, 2, 'next']]
    """
    rows = [*_on_the_surface(surface)]
    rows += [] if best is None else _syntactic(best)
    rows += [] if coref is None else _coreferring(coref)
    rows += [] if induction is None else _inducing(induction)
    return pd.DataFrame(rows, columns=list(HeadBehaviour._fields)).sort_values(["layer", "head"], kind="stable")


def named(behaviours_table: pd.DataFrame, layer: int, head: int) -> str:
    """The one word a head is called by.

    Example:
        >>> rows = [HeadBehaviour(1, 2, "first", "", 0.7, 0.6), HeadBehaviour(1, 2, "syntactic", "obj", 0.6, 0.3)]
        >>> named(pd.DataFrame(rows), 1, 2), named(pd.DataFrame(rows), 1, 1)
        ('syntactic', 'other')
    """
    names = set(
        behaviours_table.loc[(behaviours_table["layer"] == layer) & (behaviours_table["head"] == head), "behaviour"]
    )
    return next((behaviour for behaviour in BEHAVIOURS if behaviour in names), OTHER)


def with_tests(behaviours_table: pd.DataFrame, surface: pd.DataFrame | None) -> pd.DataFrame:
    """Behaviours with the corrected test behind each, and its `status`: clear, open or untested.

    A share of attention is tested against uniform attention, over all heads, by `attention`; that it passes the share
    that makes the behaviour is a definition. Without that result, and for broad attention, nothing was tested.

    Example:
        >>> columns = ["layer", "head", "measure", *DIFFERENCE]
        >>> shares = pd.DataFrame([(1, 2, "to_first", 0.5, 0.4, 0.6, 0.01)], columns=columns)
        >>> rows = [HeadBehaviour(1, 2, "first", "", 0.7, 0.6), HeadBehaviour(1, 2, "broad", "", 3.0, 2.0)]
        >>> with_tests(pd.DataFrame(rows), shares)[["behaviour", "difference", "status"]].values.tolist()
        [['first', 0.5, 'clear'], ['broad', nan, 'untested']]
    """
    tests = dict(zip(DIFFERENCE, _differences(behaviours_table, surface), strict=True))
    return behaviours_table.assign(**tests).assign(
        status=lambda rows: [_status(*test) for test in rows[["difference", "p_adjusted"]].itertuples(index=False)]
    )


def _differences(behaviours_table: pd.DataFrame, surface: pd.DataFrame | None) -> list[list[float]]:
    """Columns of tested differences: those of `surface` for shares of attention, else those of the behaviour."""
    known: dict[tuple[int, int, str], tuple[float, ...]] = {}
    if surface is not None and set(DIFFERENCE) <= set(surface):
        keys = surface[["layer", "head", "measure"]].itertuples(index=False, name=None)
        known = dict(zip(keys, surface[list(DIFFERENCE)].itertuples(index=False, name=None), strict=True))
    differences = behaviours_table.reindex(columns=list(DIFFERENCE)).itertuples(index=False, name=None)
    places = behaviours_table[["layer", "head", "behaviour"]].itertuples(index=False, name=None)
    rows = [
        known.get((layer, head, SHARES.get(behaviour, ("",))[0]), difference)
        for (layer, head, behaviour), difference in zip(places, differences, strict=True)
    ]
    return [[float(row[column]) for row in rows] for column in range(len(DIFFERENCE))]


def _status(difference: float, p: float) -> Status:
    if math.isnan(p):
        return "untested"
    return "clear" if p < SURE and difference > 0 else "open"


def _on_the_surface(surface: pd.DataFrame) -> Iterator[HeadBehaviour]:
    doing = {measure: (behaviour, share) for behaviour, (measure, share) in SHARES.items()}
    names = ["layer", "head", "measure", "value", "baseline"]
    for layer, head, measure, value, uniform in surface[names].itertuples(index=False):
        behaviour, over = (BROADLY, BROAD * uniform) if measure == "entropy" else doing.get(measure, ("", float("inf")))
        if value > over:
            yield HeadBehaviour(layer, head, behaviour, "", value, over)


def _syntactic(best: pd.DataFrame) -> Iterator[HeadBehaviour]:
    names = ["layer", "head", "relation", "accuracy", "offset_accuracy", *DIFFERENCE]
    for layer, head, *evidence in best.loc[_often(best) & is_ahead(best), names].itertuples(index=False):
        yield HeadBehaviour(layer, head, SYNTACTIC, *evidence)


def _often(best: pd.DataFrame) -> pd.Series:
    punctuation = pd.Series([str(name).partition(":")[0] == "punct" for name in best["relation"]], best.index, bool)
    return (best["count"] >= OFTEN) & ~best["relation"].isin(_TOGETHER) & ~punctuation


def _coreferring(coref: pd.DataFrame) -> Iterator[HeadBehaviour]:
    names = ["layer", "head", "mention_type", "accuracy", "baseline_accuracy", *DIFFERENCE]
    for _, rows in coref[coref["count"] >= OFTEN].groupby("mention_type", sort=False):
        if is_ahead(rows).all():
            # The baseline that comes closest is the evidence.
            for layer, head, *evidence in rows.nlargest(1, "baseline_accuracy")[names].itertuples(index=False):
                yield HeadBehaviour(int(layer), int(head), COREFERENCE, *evidence)


def _inducing(induction: pd.DataFrame) -> Iterator[HeadBehaviour]:
    names = ["layer", "head", "value", *DIFFERENCE]
    enough = (induction["value"] >= ENOUGH) & is_ahead(induction)
    for layer, head, value, *evidence in induction.loc[enough, names].itertuples(index=False):
        yield HeadBehaviour(int(layer), int(head), INDUCTION, "", value, ENOUGH, *evidence)


ARCS = ("relation", "direction", "layer", "head", "text_id", "word", "answer", "gold", "right")
"""Columns of `arcs`: positions of the word that is asked about, of the head's answer, and of the annotated one."""


def arcs(examples: pd.DataFrame) -> pd.DataFrame:
    """What the heads of example sentences answer: one row per annotated link, with the word that gets most attention.

    As in the scores, special tokens are no answers, and a head is asked in its row or in its column.

    Example:
        >>> names = "relation direction layer head text_id word_from word_to from to weight gold".split()
        >>> rows = [("obj", "dependent", 2, 1, "s1", "ball", "saw", 1, 0, 0.7, True),
        ...         ("obj", "dependent", 2, 1, "s1", "ball", "red", 1, 2, 0.1, False)]
        >>> arcs(pd.DataFrame(rows, columns=names))[["word", "answer", "gold", "right"]].values.tolist()
        [[1, 0, 0, True]]
    """
    rows = []
    words = examples[(examples["to"] >= 0) & (examples["from"] != examples["to"])]
    for key, pairs in words.groupby(["relation", "direction", "layer", "head", "text_id"], sort=False):
        query_side, answer_side = ("from", "to") if key[1] == "dependent" else ("to", "from")  # pyright: ignore
        for link in rows_of(pairs[pairs["gold"].astype(str) == "True"].rename(columns={"from": "source"})):
            ends = {"from": int(link.source), "to": int(link.to)}
            candidates = pairs[pairs[query_side] == ends[query_side]]
            answer = int(candidates[answer_side].to_numpy()[candidates["weight"].to_numpy().argmax()])
            rows.append((*key, ends[query_side], answer, ends[answer_side], answer == ends[answer_side]))
    return pd.DataFrame(rows, columns=list(ARCS))
