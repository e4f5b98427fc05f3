"""What a head does, in one word: the behaviours of Clark et al. (2019), induction, and how they are told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pandas as pd

from lamina.analyses.attention_maps.induction import ENOUGH
from lamina.analyses.legacy import DIFFERENCE, surely_ahead

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
OFTEN = 30
"""Targets on which a head must have been scored: a few lucky ones do not make it syntactic."""

COREFERENCE, SYNTACTIC, INDUCTION, BROADLY, OTHER = "coreference", "syntactic", "induction", "broad", "other"
BEHAVIOURS = (COREFERENCE, SYNTACTIC, INDUCTION, *SHARES, BROADLY, OTHER)
"""The most telling first: a head that does several things is called by the first."""

_TOGETHER = {"all", "all without punctuation"}
_NONE = float("nan")


class Found(NamedTuple):
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
    """For syntax and coreference: its lead over that rule, cross-fitted; for induction: over the same tokens without a
    copy ..."""
    diff_low: float = _NONE
    diff_high: float = _NONE
    p_adjusted: float = _NONE
    """... and the corrected test of it (see `surely_ahead`)."""


def behaviours(
    surface: pd.DataFrame,
    best: pd.DataFrame | None = None,
    coref: pd.DataFrame | None = None,
    induction: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """All that holds of any head, one row per head and behaviour.

    Args:
        surface: `surface.csv` of `attention`.
        best: `best.csv` of `heads`; a relation's best head is syntactic where it is surely ahead of the best offset.
        coref: `best.csv` of `corefheads`; the best head of a type of mention is a coreference head where it is surely
            ahead of every baseline.
        induction: `induction.csv` of `attention`, of a decoder; heads with enough attention to the token after an
            earlier copy, and more than to the same place without a copy.

    Example:
        >>> columns = ["layer", "head", "measure", "value", "low", "high", "baseline"]
        >>> rows = [(1, 2, "to_next", 0.7, 0.6, 0.8, 0.1), (1, 2, "entropy", 1.0, 0.9, 1.1, 3.0)]
        >>> behaviours(pd.DataFrame(rows, columns=columns))[["layer", "head", "behaviour"]].values.tolist()
        [[1, 2, 'next']]
    """
    found = [*_on_the_surface(surface)]
    found += [] if best is None else _syntactic(best)
    found += [] if coref is None else _coreferring(coref)
    found += [] if induction is None else _inducing(induction)
    return pd.DataFrame(found, columns=list(Found._fields)).sort_values(["layer", "head"], kind="stable")


def named(found: pd.DataFrame, layer: int, head: int) -> str:
    """The one word a head is called by.

    Example:
        >>> rows = [Found(1, 2, "first", "", 0.7, 0.6), Found(1, 2, "syntactic", "obj", 0.6, 0.3)]
        >>> named(pd.DataFrame(rows), 1, 2), named(pd.DataFrame(rows), 1, 1)
        ('syntactic', 'other')
    """
    own = set(found.loc[(found["layer"] == layer) & (found["head"] == head), "behaviour"])
    return next((behaviour for behaviour in BEHAVIOURS if behaviour in own), OTHER)


def _on_the_surface(surface: pd.DataFrame) -> Iterator[Found]:
    doing = {measure: (behaviour, share) for behaviour, (measure, share) in SHARES.items()}
    names = ["layer", "head", "measure", "value", "baseline"]
    for layer, head, measure, value, uniform in surface[names].itertuples(index=False):
        behaviour, over = (BROADLY, BROAD * uniform) if measure == "entropy" else doing.get(measure, ("", float("inf")))
        if value > over:
            yield Found(layer, head, behaviour, "", value, over)


def _syntactic(best: pd.DataFrame) -> Iterator[Found]:
    names = ["layer", "head", "relation", "accuracy", "offset_accuracy", *DIFFERENCE]
    for layer, head, *evidence in best.loc[_often(best) & surely_ahead(best), names].itertuples(index=False):
        yield Found(layer, head, SYNTACTIC, *evidence)


def scored_relations(best: pd.DataFrame) -> int:
    """How many relations could have had a syntactic head."""
    return int(_often(best).sum())


def _often(best: pd.DataFrame) -> pd.Series:
    return (best["count"] >= OFTEN) & ~best["relation"].isin(_TOGETHER)


def _coreferring(coref: pd.DataFrame) -> Iterator[Found]:
    names = ["layer", "head", "mention_type", "accuracy", "baseline_accuracy", *DIFFERENCE]
    for _, own in coref[coref["count"] >= OFTEN].groupby("mention_type", sort=False):
        if surely_ahead(own).all():
            # The baseline that comes closest is the evidence.
            for layer, head, *evidence in own.nlargest(1, "baseline_accuracy")[names].itertuples(index=False):
                yield Found(int(layer), int(head), COREFERENCE, *evidence)


def _inducing(induction: pd.DataFrame) -> Iterator[Found]:
    names = ["layer", "head", "value", *DIFFERENCE]
    enough = (induction["value"] > ENOUGH) & (induction["difference"] > 0)
    for layer, head, value, *evidence in induction.loc[enough, names].itertuples(index=False):
        yield Found(int(layer), int(head), INDUCTION, "", value, ENOUGH, *evidence)
