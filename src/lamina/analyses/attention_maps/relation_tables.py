"""From what a relation meter counted to tables: every head, the best ones, the baselines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from lamina.analyses.attention_maps.halves import intervals
from lamina.analyses.attention_maps.relations import ALL, BASELINES, DIRECTIONS, NO_PUNCTUATION, OFFSETS, RelationMeter

RELATIONS = (
    "relation", "direction", "layer", "head", "count", "accuracy", "low", "high", "offset", "offset_accuracy",
)  # fmt: skip
"""Columns of `relations.csv` and `best.csv`."""
SYSTEMS = ("system", "relation", "count", "accuracy", "low", "high")
"""Columns of `baselines.csv`."""


class Pick(NamedTuple):
    """The head, direction and offset that find most dependencies of a relation."""

    relation: int
    direction: int
    head: int
    """Counted through all blocks."""
    offset: int
    """Which of `OFFSETS`."""


def picks(meter: RelationMeter, half: int | None) -> list[Pick]:
    """One a relation that occurs in this half (or in the whole); the first of equals."""
    sums = meter.sums(half)
    found = []
    for relation in np.flatnonzero(sums.counts).tolist():
        hits = sums.heads[..., relation]
        direction, head = divmod(int(hits.argmax()), hits.shape[1])
        found.append(Pick(relation, direction, head, int(sums.baselines[: len(OFFSETS), relation].argmax())))
    return found


def relations_table(meter: RelationMeter, per_block: int) -> pd.DataFrame:
    """Every head and relation on the whole split, beside the relation's best fixed offset there."""
    sums, samples = meter.sums(), meter.samples()
    parts = []
    for pick in picks(meter, None):
        count, offset = sums.counts[pick.relation], sums.baselines[pick.offset, pick.relation]
        hits = sums.heads[..., pick.relation]
        low, high = intervals(samples.heads[..., pick.relation], samples.counts[:, pick.relation])
        direction, head = (each.ravel() for each in np.indices(hits.shape))
        part = {
            "relation": meter.relations[pick.relation],
            "direction": np.array(DIRECTIONS)[direction],
            "layer": head // per_block + 1,
            "head": head % per_block + 1,
            "count": int(count),
            "accuracy": hits.ravel() / count,
            "low": low.ravel(),
            "high": high.ravel(),
            "offset": OFFSETS[pick.offset],
            "offset_accuracy": offset / count,
        }
        parts.append(pd.DataFrame(part))
    return pd.concat(parts, ignore_index=True)


def best_table(meter: RelationMeter, chosen: list[Pick], half: int | None, per_block: int) -> pd.DataFrame:
    """The picks, scored on this half; those that do not occur there are left out."""
    sums, samples = meter.sums(half), meter.samples(half)
    rows = []
    for relation, direction, head, offset in chosen:
        count = sums.counts[relation]
        if not count:
            continue
        low, high = intervals(samples.heads[:, direction, head, relation], samples.counts[:, relation])
        place = (meter.relations[relation], DIRECTIONS[direction], head // per_block + 1, head % per_block + 1)
        scored = (int(count), sums.heads[direction, head, relation] / count, float(low), float(high))
        rows.append((*place, *scored, OFFSETS[offset], sums.baselines[offset, relation] / count))
    return pd.DataFrame(rows, columns=list(RELATIONS))


def baselines_table(meter: RelationMeter) -> pd.DataFrame:
    """Every fixed offset for every relation on the whole split, and right-branching for all of them together."""
    return pd.DataFrame(list(_baselines(meter)), columns=list(SYSTEMS))


def _baselines(meter: RelationMeter) -> Iterator[tuple]:
    sums, samples = meter.sums(), meter.samples()
    for relation, name in enumerate(meter.relations):
        count = sums.counts[relation]
        if not count:
            continue
        low, high = intervals(samples.baselines[..., relation], samples.counts[:, relation])
        for at, system in enumerate(BASELINES):
            # A tree's shape is a parser of sentences, not of one relation.
            if at < len(OFFSETS) or name in (ALL, NO_PUNCTUATION):
                yield system, name, int(count), sums.baselines[at, relation] / count, float(low[at]), float(high[at])
