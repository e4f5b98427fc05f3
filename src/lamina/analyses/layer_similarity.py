"""How alike the layers of two models hold the same words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from lamina.activations import StoredActivations
from lamina.analyses.attention_maps.halves import intervals
from lamina.analyses.resampling import StreamedBootstrap
from lamina.analyses.similarity import Likeness, jackknife
from lamina.encoders import SPECIAL, Activations

GROUPS = 20
"""Of consecutive texts; leaving out one at a time gives the interval of CKA."""
_TEXTS_AT_ONCE = 64


class Compared(NamedTuple):
    """A measure of one layer."""

    value: float
    low: float
    high: float
    baseline: float


class _Words(NamedTuple):
    """Some texts' words at one layer of both models, and of the random-weights twin where there is one."""

    a: Float[torch.Tensor, "word width"]
    b: Float[torch.Tensor, "word other_width"]
    twin: Float[torch.Tensor, "word width"] | None
    sizes: list[int]
    """Words of each text."""

    def mean(self) -> _Words:
        """All of them as one."""
        twin = None if self.twin is None else self.twin.mean(0, keepdim=True)
        return _Words(self.a.mean(0, keepdim=True), self.b.mean(0, keepdim=True), twin, [1])


def compare_layer(
    a: StoredActivations, b: StoredActivations, twin: StoredActivations | None, layer: int, *, samples: int, seed: int
) -> dict[str, Compared]:
    """CKA, and (models of one width) the mean cosine of a word with itself, at one layer of both models.

    Beside CKA stands that of the first model with the twin; beside the cosine that of two words of different texts.
    Texts stream: what is kept does not grow with their number.
    """
    groups: list[Likeness] = []
    beside: Likeness | None = None
    cosines: _Cosines | None = None
    origin: _Words | None = None
    for start, end in pairwise(_bounds(len(a))):
        group: Likeness | None = None
        for words in _read(a, b, twin, layer, range(start, end)):
            # CKA does not care where the origin is, but sums of squares far from it lose digits.
            origin = origin or words.mean()
            group = _plus(group, Likeness.of(words.a - origin.a, words.b - origin.b))
            if words.twin is not None and origin.twin is not None:
                beside = _plus(beside, Likeness.of(words.a - origin.a, words.twin - origin.twin))
            if words.a.shape == words.b.shape:
                cosines = cosines or _Cosines(words.a.shape[1], samples=samples, seed=seed)
                cosines.add(words)
        groups += [] if group is None else [group]
    found = {"cka": Compared(*jackknife(groups), beside.cka() if beside else float("nan"))}
    return found | ({"cosine": cosines.compared()} if cosines else {})


def _plus(whole: Likeness | None, part: Likeness) -> Likeness:
    return part if whole is None else whole + part


class _Cosines:
    """Of each word in one model with itself, and with the words of other texts, in the other."""

    def __init__(self, width: int, *, samples: int, seed: int) -> None:
        self._same = StreamedBootstrap(2, samples=samples, seed=seed)
        self._a, self._b = (torch.zeros(width, dtype=torch.double) for _ in range(2))
        self._within, self._words, self._pairs_within = 0.0, 0, 0

    def add(self, words: _Words) -> None:
        a, b = (torch.nn.functional.normalize(side.double(), dim=1) for side in (words.a, words.b))
        for one, other in zip(a.split(words.sizes), b.split(words.sizes), strict=True):
            self._same.add(np.array([float((one * other).sum()), len(one)]))
            self._within += float(one.sum(0) @ other.sum(0))
            self._pairs_within += len(one) ** 2
        self._a += a.sum(0)
        self._b += b.sum(0)
        self._words += len(a)

    def compared(self) -> Compared:
        total, count = self._same.value
        low, high = intervals(self._same.samples[:, :1], self._same.samples[:, 1])
        # The sum of cosines over all pairs is the product of the sums of unit vectors: no pair has to be visited.
        pairs = self._words**2 - self._pairs_within
        unrelated = (float(self._a @ self._b) - self._within) / pairs if pairs else float("nan")
        return Compared(total / count, float(low[0]), float(high[0]), unrelated)


def _bounds(texts: int) -> list[int]:
    groups = min(GROUPS, texts)
    return [at * texts // groups for at in range(groups + 1)]


def _read(
    a: StoredActivations, b: StoredActivations, twin: StoredActivations | None, layer: int, texts: range
) -> Iterator[_Words]:
    for start in range(texts.start, texts.stop, _TEXTS_AT_ONCE):
        some = range(start, min(start + _TEXTS_AT_ONCE, texts.stop))
        sides = [_vectors(each, some, layer) for each in (a, b)]
        beside = None if twin is None else torch.cat(_vectors(twin, some, layer))
        yield _Words(torch.cat(sides[0]), torch.cat(sides[1]), beside, [len(each) for each in sides[0]])


def _vectors(stored: StoredActivations, texts: Sequence[int], layer: int) -> list[Float[torch.Tensor, "word width"]]:
    return [word_vectors(stored[text], layer) for text in texts]


def word_vectors(activations: Activations, layer: int) -> Float[torch.Tensor, "word width"]:
    """Each word of a text as the mean of its pieces at one layer, special tokens left out.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> from lamina.types import Text
        >>> made = next(iter(TinyEncoder().encode([Text("a", ("Hello", "you"))])))
        >>> word_vectors(made, 0).shape
        torch.Size([2, 16])
    """
    if activations.states is None:
        raise ValueError(f"{activations.text!r} was encoded without states")
    owner = torch.from_numpy(activations.tokens.words).long()
    inside = owner != SPECIAL
    pieces, owner = activations.states[inside, layer].float(), owner[inside]
    counts = torch.bincount(owner).unsqueeze(1)
    return torch.zeros(len(counts), pieces.shape[1]).index_add_(0, owner, pieces) / counts
