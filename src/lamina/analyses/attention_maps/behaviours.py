"""What a head does, in one word: the behaviours of Clark et al. (2019), and how they are told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pandas as pd

BROAD = 0.78
"""Of the entropy of uniform attention: the paper's 3.8 nats at 128 tokens, carried over to any length."""
SHARES = {
    "previous": ("to_previous", 0.5),
    "next": ("to_next", 0.5),
    "separator": ("to_separator", 0.6),
    "first": ("to_first", 0.6),
    "punctuation": ("to_punctuation", 0.6),
}
"""Behaviour -> the measure, and the share of attention that makes it; the paper's."""
OFTEN = 30
"""Targets on which a head must have been scored: a few lucky ones do not make it syntactic."""

COREFERENCE, SYNTACTIC, BROADLY, OTHER = "coreference", "syntactic", "broad", "other"
BEHAVIOURS = (COREFERENCE, SYNTACTIC, *SHARES, BROADLY, OTHER)
"""The most telling first: a head that does several things is called by the first."""

_TOGETHER = {"all", "all without punctuation"}
_BEST, _NEAREST = "best head", "nearest"


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
    """... and what it had to exceed (for syntax and coreference, with the lower end of its interval)."""


def behaviours(
    surface: pd.DataFrame, best: pd.DataFrame | None = None, coref: pd.DataFrame | None = None
) -> pd.DataFrame:
    """All that holds of any head: `layer,head,behaviour,what,value,over`.

    Args:
        surface: `surface.csv` of `attention`.
        best: `best.csv` of `heads`; a head is syntactic where its interval for a relation lies above the best offset.
        coref: `coref.csv` of `corefheads`; its best head is a coreference head where its interval for a type of
            mention lies above the nearest mention.

    Example:
        >>> columns = ["layer", "head", "measure", "value", "low", "high", "baseline"]
        >>> rows = [(1, 2, "to_next", 0.7, 0.6, 0.8, 0.1), (1, 2, "entropy", 1.0, 0.9, 1.1, 3.0)]
        >>> behaviours(pd.DataFrame(rows, columns=columns))[["layer", "head", "behaviour"]].values.tolist()
        [[1, 2, 'next']]
    """
    found = [*_on_the_surface(surface)]
    found += [] if best is None else _syntactic(best)
    found += [] if coref is None else _coreferring(coref)
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
    names = ["relation", "layer", "head", "accuracy", "low", "offset_accuracy"]
    for relation, layer, head, accuracy, low, offset in best.loc[_often(best), names].itertuples(index=False):
        if low > offset:
            yield Found(layer, head, SYNTACTIC, relation, accuracy, offset)


def scored_relations(best: pd.DataFrame) -> int:
    """How many relations could have had a syntactic head."""
    return int(_often(best).sum())


def _often(best: pd.DataFrame) -> pd.Series:
    return (best["count"] >= OFTEN) & ~best["relation"].isin(_TOGETHER)


def _coreferring(coref: pd.DataFrame) -> Iterator[Found]:
    baseline = coref[coref["system"] == _NEAREST]
    nearest = dict(zip(baseline["mention_type"], baseline["accuracy"], strict=True))
    # Not every head's row: chosen and scored on the same documents, some of them would only be lucky.
    own = pd.DataFrame(coref[coref["system"] == _BEST])
    names = ["layer", "head", "mention_type", "count", "accuracy", "low"]
    for layer, head, mention, count, accuracy, low in own[names].itertuples(index=False):
        if count >= OFTEN and mention in nearest and low > nearest[mention]:
            yield Found(int(layer), int(head), COREFERENCE, mention, accuracy, nearest[mention])
