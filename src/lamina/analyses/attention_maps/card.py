"""All that saved results say of one head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from lamina.analyses.attention_maps.atlas import OFTEN, TITLES
from lamina.results import Result

NEIGHBOURS = 8
RELATIONS = 10

RELATION = ("relation", "direction", "count", "accuracy", "low", "high", "offset", "offset_accuracy", "held_out")
PATTERN = ("title", "value", "low", "high", "baseline", "rank", "of")
NEIGHBOUR = ("layer", "head", "divergence", "behaviour")
POINT = ("layer", "head", "x", "y", "behaviour")
BEHAVIOUR = ("behaviour", "what", "value", "over")
COREFERENCE = ("mention_type", "count", "accuracy", "low", "high")
SHAPE = ("pattern", "share")


class Card(NamedTuple):
    """What is known of a head; a table is empty where the analysis behind it was not run."""

    role: str
    """The one word it is called by on the map of heads; empty where there is none."""
    behaviours: pd.DataFrame
    """Everything that holds of it: `behaviour,what,value,over`."""
    relations: pd.DataFrame
    """Dependencies it finds, by its lead over the best offset. `held_out`: picked for it on one half of the documents
    and scored on the other; what follows is scored on the whole split, where the best of many is a little lucky."""
    coreference: pd.DataFrame
    """`mention_type,count,accuracy,low,high`."""
    pattern: pd.DataFrame
    """Surface measures with intervals, and the head's rank among all heads (1 has the most)."""
    shapes: pd.DataFrame
    """`pattern,share`: of its maps."""
    neighbours: pd.DataFrame
    """The heads that attend most alike."""
    points: pd.DataFrame
    """The map: `layer,head,x,y,behaviour` of all heads."""


def card(layer: int, head: int, results: Mapping[str, Result]) -> Card:
    """All that results say of a head.

    Args:
        layer: the head's block, from 1.
        head: its number there, from 1.
        results: of `attention`, `heads`, `corefheads` and `headmap`, by analysis; those there are.

    Example:
        >>> import lamina
        >>> from lamina.testing import SAMPLE_TEXTS, TinyEncoder
        >>> result = lamina.headmap(TinyEncoder(), lamina.corpus_from(SAMPLE_TEXTS, name="samples"), samples=10)
        >>> found = card(2, 1, {"headmap": result})
        >>> len(found.neighbours), len(found.points), len(found.relations)
        (3, 4, 0)
    """
    tables = {(name, table): results[name].tables[table] for name in results for table in results[name].tables}
    points = tables.get(("headmap", "points"), pd.DataFrame(columns=list(POINT)))
    role = [str(name) for name in _of(points, layer, head)["behaviour"]]
    return Card(
        role="".join(role[:1]),
        behaviours=_own(tables.get(("headmap", "behaviours")), layer, head, BEHAVIOUR),
        relations=_relations(tables.get(("heads", "relations")), tables.get(("heads", "best")), layer, head),
        coreference=_own(_each_head(tables.get(("corefheads", "coref"))), layer, head, COREFERENCE),
        pattern=_own(_ranked(tables.get(("attention", "surface"))), layer, head, PATTERN),
        shapes=_own(tables.get(("attention", "patterns")), layer, head, SHAPE),
        neighbours=_neighbours(tables.get(("headmap", "divergences")), points, layer, head),
        points=points,
    )


def _of(table: pd.DataFrame, layer: int, head: int) -> pd.DataFrame:
    return pd.DataFrame(table[(table["layer"] == layer) & (table["head"] == head)])


def _own(table: pd.DataFrame | None, layer: int, head: int, columns: Sequence[str]) -> pd.DataFrame:
    """The head's rows; none where there is no table."""
    if table is None:
        return pd.DataFrame(columns=list(columns))
    return pd.DataFrame(_of(table, layer, head)[list(columns)])


def _each_head(coref: pd.DataFrame | None) -> pd.DataFrame | None:
    """Without the baselines and the best head, which was scored on other documents."""
    return None if coref is None else pd.DataFrame(coref[coref["system"] == "head"])


def _ranked(surface: pd.DataFrame | None) -> pd.DataFrame | None:
    if surface is None:
        return None
    among = surface.groupby("measure")["value"]
    return surface.assign(
        title=[TITLES.get(name, name) for name in surface["measure"]],
        rank=among.rank(method="min", ascending=False),
        of=among.transform("count"),
    )


def _relations(whole: pd.DataFrame | None, best: pd.DataFrame | None, layer: int, head: int) -> pd.DataFrame:
    if whole is None or best is None:
        return pd.DataFrame(columns=list(RELATION))
    won = _of(best, layer, head).assign(held_out=True)
    others = _of(whole, layer, head).assign(held_out=False).sort_values("accuracy", ascending=False)
    others = others.drop_duplicates("relation")
    others = pd.DataFrame(others[(others["count"] >= OFTEN) & ~others["relation"].isin(won["relation"])])
    ordered = [part.iloc[(part["offset_accuracy"] - part["accuracy"]).argsort()] for part in (won, others)]
    return pd.DataFrame(pd.concat(ordered)[list(RELATION)]).head(max(RELATIONS, len(won)))


def _neighbours(pairs: pd.DataFrame | None, points: pd.DataFrame, layer: int, head: int) -> pd.DataFrame:
    if pairs is None:
        return pd.DataFrame(columns=list(NEIGHBOUR))
    roles = {(one, other): role for one, other, role in points[["layer", "head", "behaviour"]].itertuples(index=False)}
    found = []
    for *heads, mean in pairs[["layer_a", "head_a", "layer_b", "head_b", "mean"]].itertuples(index=False):
        first, second = tuple(heads[:2]), tuple(heads[2:])
        if (layer, head) in (first, second):
            other = second if first == (layer, head) else first
            found.append((*other, mean, roles.get(other, "")))
    return pd.DataFrame(sorted(found, key=lambda each: each[2])[:NEIGHBOURS], columns=list(NEIGHBOUR))
