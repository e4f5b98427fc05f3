"""Which heads have a role, by what they attend to: relations, coreference, neighbours, sinks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from lamina.analyses.heads.behaviours import COREFERENCE, FIRST, OFTEN, SHARES, behaviours
from lamina.analyses.heads.coreference import ALL as ALL_MENTIONS
from lamina.analyses.heads.coreference import KINDS, CorefMeter
from lamina.analyses.heads.coreference import best_table as best_antecedents
from lamina.analyses.heads.relations import ALL, NO_PUNCTUATION, RelationMeter, relations_of, relations_table
from lamina.analyses.heads.surface import SurfaceMeter
from lamina.framework.watch import Meter, watch
from lamina.models import Encoder
from lamina.stats.status import SURE
from lamina.stats.units import CHOOSING, SCORED, halve
from lamina.types import Text

Kind = Literal["relation", "coreference", "neighbour", "sink"]
PREVIOUS, NEXT, SINK = "previous token", "next token", "sink"
_SINKS = ("separator", FIRST, "punctuation")


@dataclass(frozen=True)
class HeadRole:
    """Something that heads do, and which of them do it."""

    name: str
    """A relation of the treebank, coreference, previous token, next token, or sink."""
    kind: Kind
    finds: Float[np.ndarray, "block head"]
    """Share of the dependents (mentions) whose head word (antecedent) a head finds, or of attention that goes there."""
    has: Bool[np.ndarray, "block head"]
    """Which heads have the role."""

    @property
    def exists(self) -> bool:
        """Whether any head has it."""
        return bool(self.has.any())


def roles_of(
    encoder: Encoder, texts: Sequence[Text], *, samples: int, seed: int
) -> tuple[list[HeadRole], Counter[str]]:
    """The roles that any head has, the commonest relation first; and what was cut or left out.

    A head has a relation where it finds it surely better than the best fixed offset (`lamina heads`: p < .05,
    all heads, relations and directions together), coreference where it is the best head of a type of mention and
    surely ahead of every simple rule (`lamina corefheads`), the others by the shares of attention of `lamina headmap`.
    """
    shape, heads = (encoder.blocks, encoder.heads), encoder.blocks * encoder.heads
    surface = SurfaceMeter(encoder, samples=1, seed=seed)
    halves, relation_names = halve(texts, seed), relations_of(texts)
    relations = RelationMeter(heads, relation_names, halves, samples=samples, seed=seed) if relation_names else None
    chains = any({"chains", "coref"} & set(text.edges) for text in texts) and halves.by == "document"
    mentions = CorefMeter(heads, halves, among="words", samples=samples, seed=seed) if chains else None
    meters: list[Meter] = [surface, *(meter for meter in (relations, mentions) if meter is not None)]
    skipped = watch(encoder, texts, meters, total=len(texts))
    roles = [] if relations is None else list(_relations(relations_table(relations, encoder.heads), shape))
    roles += [] if mentions is None else _coreference(mentions, shape)
    return [role for role in [*roles, *_surface(surface.table(), shape)] if role.exists], skipped


def _relations(table: pd.DataFrame, shape: tuple[int, int]) -> Iterator[HeadRole]:
    frequent = table[(table["count"] >= OFTEN) & ~table["relation"].isin([ALL, NO_PUNCTUATION])]
    frequent = frequent[[str(name).partition(":")[0] != "punct" for name in frequent["relation"]]]
    ahead = (frequent["p_adjusted"] < SURE) & (frequent["difference"] > 0)
    for name, rows in frequent.assign(ahead=ahead).groupby("relation", sort=False):
        # The better of both directions.
        finds = _most(rows, "accuracy", shape)
        yield HeadRole(str(name), "relation", finds, _most(rows, "ahead", shape) == 1)


def _coreference(meter: CorefMeter, shape: tuple[int, int]) -> list[HeadRole]:
    if not all(meter.sums(half).counts.any() for half in (CHOOSING, SCORED)):
        return []
    best = best_antecedents(meter, shape[1])
    nothing = pd.DataFrame(columns=["layer", "head", "measure", "value", "baseline"])
    sums, kind = meter.sums(), KINDS.index(ALL_MENTIONS)
    has = np.zeros(shape, bool)
    for layer, head in behaviours(nothing, coref=best)[["layer", "head"]].itertuples(index=False):
        has[int(layer) - 1, int(head) - 1] = True
    return [HeadRole(COREFERENCE, "coreference", (sums.heads[kind] / sums.counts[kind]).reshape(shape), has)]


def _surface(table: pd.DataFrame, shape: tuple[int, int]) -> Iterator[HeadRole]:
    doing = behaviours(table)
    for role, names in ((PREVIOUS, ("previous",)), (NEXT, ("next",)), (SINK, _SINKS)):
        has = np.zeros(shape, bool)
        rows = table[table["measure"].isin([SHARES[name][0] for name in names])]
        having = doing[doing["behaviour"].isin(names)]
        has[having["layer"].to_numpy(int) - 1, having["head"].to_numpy(int) - 1] = True
        yield HeadRole(role, "sink" if role == SINK else "neighbour", _most(rows, "value", shape), has)


def _most(rows: pd.DataFrame, column: str, shape: tuple[int, int]) -> Float[np.ndarray, "block head"]:
    """The largest value of each head; NaN where there is none."""
    most = np.full(shape, np.nan)
    places = (rows["layer"].to_numpy(int) - 1, rows["head"].to_numpy(int) - 1)
    np.fmax.at(most, places, rows[column].to_numpy(float))
    return most
