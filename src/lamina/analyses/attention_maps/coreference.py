"""Every head as an antecedent finder: does a mention's head word attend most to that of an antecedent?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float

from lamina.analyses.attention_maps.antecedents import BASELINES, Anaphor, anaphors, choose
from lamina.analyses.attention_maps.halves import CHOOSING, SCORED, DocumentBootstrap, Halves, document_of
from lamina.analyses.attention_maps.mention_types import TYPES
from lamina.analyses.attention_maps.watching import Watched

Among = Literal["words", "mentions"]
"""Where a head's answer is looked for: among all other words, or among the head words of the candidates alone."""

ALL = "all"
KINDS = (*TYPES, ALL)


class CorefHits(NamedTuple):
    """Sums of a half, or of the whole; with one more axis in front, those of its samples."""

    systems: Float[np.ndarray, "*samples kind system"]
    """Every head, then the baselines."""
    counts: Float[np.ndarray, "*samples kind"]


class CorefMeter:
    """Counts, for every head, baseline and type of mention, how many antecedents it finds; by half.

    Example:
        >>> from lamina.analyses.attention_maps.halves import halve
        >>> from lamina.analyses.attention_maps.watching import watch
        >>> from lamina.testing import TinyEncoder
        >>> from lamina.types import Edge, Span, Text
        >>> chains = (Edge(("c1",), Span(0, 1)), Edge(("c1",), Span(2, 3)))
        >>> texts = [Text(str(i), ("Ann", "saw", "herself"), edges={"chains": chains}) for i in range(4)]
        >>> meter = CorefMeter(4, halve(texts, 0), among="words", samples=10, seed=0)
        >>> _ = watch(TinyEncoder(), texts, [meter])
        >>> dict(zip(KINDS, meter.sums().counts.tolist()))
        {'pronoun': 4.0, 'proper': 0.0, 'nominal': 0.0, 'all': 4.0}
    """

    def __init__(self, heads: int, halves: Halves, *, among: Among, samples: int, seed: int) -> None:
        """For `heads` heads in all blocks together."""
        self._halves, self._among = halves, among
        self._shape = (len(KINDS), heads + len(BASELINES))
        size = int(np.prod(self._shape)) + len(KINDS)
        self._sums = [DocumentBootstrap(size, samples=samples, seed=seed) for _ in (CHOOSING, SCORED)]

    def update(self, watched: Watched) -> None:
        """Take one text's maps in."""
        found = anaphors(watched.text)
        if not found:
            return
        size = len(watched.text.words)
        right = np.zeros((len(found), size), bool)
        for at, anaphor in enumerate(found):
            right[at, list(anaphor.antecedents)] = True
        hits = np.vstack([self._by_heads(watched, found, right), _by_rules(found)]).astype(float)
        kinds = np.array([[kind in (anaphor.mention.type, ALL) for kind in KINDS] for anaphor in found], float)
        counted = np.concatenate([(kinds.T @ hits.T).ravel(), kinds.sum(0)])
        self._sums[self._halves.of(watched.text)].add(document_of(watched.text), counted)

    def _by_heads(
        self, watched: Watched, found: Sequence[Anaphor], right: np.ndarray
    ) -> Bool[np.ndarray, "anyhead anaphor"]:
        places = torch.tensor([anaphor.mention.head for anaphor in found])
        rows = watched.words.maps.flatten(0, 1)[:, places]
        if self._among == "words":
            allowed = torch.ones(rows.shape[1:], dtype=torch.bool)
            allowed[torch.arange(len(found)), places] = False
        else:
            allowed = torch.zeros(rows.shape[1:], dtype=torch.bool)
            for at, anaphor in enumerate(found):
                allowed[at, [candidate.head for candidate in anaphor.candidates]] = True
        top, at = rows.masked_fill(~allowed, 0).max(-1)
        return right[np.arange(len(found)), at.numpy()] & (top > 0).numpy()

    def sums(self, half: int | None = None) -> CorefHits:
        """What was counted in one half, or in both."""
        return self._shaped(np.sum([each.value for each in self._of(half)], axis=0))

    def samples(self, half: int | None = None) -> CorefHits:
        """The same, of documents drawn with replacement."""
        return self._shaped(np.sum([each.samples for each in self._of(half)], axis=0))

    def _of(self, half: int | None) -> list[DocumentBootstrap]:
        return self._sums if half is None else [self._sums[half]]

    def _shaped(self, flat: np.ndarray) -> CorefHits:
        systems, counts = flat[..., : -len(KINDS)], flat[..., -len(KINDS) :]
        return CorefHits(systems.reshape(*flat.shape[:-1], *self._shape), counts)


def _by_rules(found: Sequence[Anaphor]) -> Bool[np.ndarray, "baseline anaphor"]:
    return np.array(
        [
            [(chosen := choose(each, sieves)) is not None and chosen.head in each.antecedents for each in found]
            for sieves in BASELINES.values()
        ]
    )
