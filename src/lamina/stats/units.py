"""What varies and is resampled: documents, texts, items, word types, seeds; and how often each sample draws each."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from jaxtyping import Float, Int, Real

from lamina.types import Text

UnitKind = Literal["document", "text", "item", "word type", "seed"]
"""What varies."""
CHOOSING, SCORED = 0, 1
"""The two halves."""
MOST_UNITS = 1000
"""Documents whose sums are kept apart; more share rows, so that memory does not grow with the corpus."""
_REMEMBERED = 1024
"""Keys whose weights are remembered: several sums of one pass draw the same documents."""
_DRAWS = 2**16
"""Equally likely draws that a weight is looked up by: its chances are right to 1 in 65,536."""


def _poisson_table() -> np.ndarray:
    """[draw] The Poisson(1) weight of each draw."""
    below = np.cumsum([math.exp(-1) / math.factorial(weight) for weight in range(12)])
    return np.searchsorted(below, (np.arange(_DRAWS) + 0.5) / _DRAWS).astype(np.float32)


_WEIGHTS = _poisson_table()


@lru_cache(maxsize=_REMEMBERED)
def weights_of(key: str, *, samples: int, seed: int) -> Float[np.ndarray, " sample"]:
    """How often each bootstrap sample draws the unit of this name: Poisson(1), the same on every call.

    The weights depend on the name and the seed alone, so two models scored on the same texts are resampled alike, and
    a stream of unknown length can be resampled (Chamandy et al. 2012).

    Example:
        >>> weights_of("s1", samples=8, seed=0).tolist() == weights_of("s1", samples=1000, seed=0)[:8].tolist()
        True
    """
    digest = hashlib.blake2b(f"{seed}:{key}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
    # A counter-based generator: the key determines all draws, there is no state.
    drawn = np.random.Philox(key=int.from_bytes(digest, "big")).random_raw(-(-samples // 4))
    weights = _WEIGHTS[drawn.astype("<u8").view("<u2")[:samples]]
    weights.flags.writeable = False
    return weights


@dataclass(frozen=True)
class Units:
    """The units of a sample, by name: what is resampled and what pairs two systems.

    Example:
        >>> units = Units.of(["d1", "d1", "d2"], "document")
        >>> len(units), units.sums(np.array([1.0, 2.0, 4.0])).tolist()
        (2, [3.0, 4.0])
    """

    names: tuple[str, ...]
    """One per unit, sorted, so that the order of texts changes nothing."""
    kind: UnitKind
    owner: tuple[int, ...]
    """Of each thing that was scored, the number of its unit."""

    @classmethod
    def of(cls, names: Iterable[str], kind: UnitKind) -> Units:
        """Units from the name of each scored thing's unit."""
        unique, owner = np.unique(np.array([*names], dtype=object).astype(str), return_inverse=True)
        return cls(tuple(unique.tolist()), kind, tuple(owner.ravel().tolist()))

    @classmethod
    def of_texts(cls, texts: Iterable[Text]) -> Units:
        """Documents; texts where there is one document only, which cannot be resampled."""
        listed = [*texts]
        by = unit_of(listed)
        return cls.of((by.of(text) for text in listed), by.by)

    def __len__(self) -> int:
        return len(self.names)

    def sums(self, values: Real[np.ndarray, " thing *kinds"]) -> Float[np.ndarray, " unit *kinds"]:
        """Values of scored things, summed by unit."""
        totals = np.zeros((len(self), *np.shape(values)[1:]))
        np.add.at(totals, np.array(self.owner, int), values)
        return totals

    def weights(self, *, samples: int, seed: int) -> Float[np.ndarray, "sample unit"]:
        """How often each bootstrap sample draws each unit; see `weights_of`."""
        drawn = [weights_of(name, samples=samples, seed=seed) for name in self.names]
        return np.array(drawn, np.float32).reshape(len(drawn), samples).T


def document_of(text: Text) -> str:
    """The document a text comes from; the text itself where that is not known."""
    return text.doc or text.id


@dataclass(frozen=True)
class Unit:
    """What is drawn with replacement: documents, since texts of one are alike, or texts."""

    by: Literal["document", "text"]

    def of(self, text: Text) -> str:
        """The name of a text's unit."""
        return document_of(text) if self.by == "document" else text.id


BY_DOCUMENT, BY_TEXT = Unit("document"), Unit("text")


def unit_of(texts: Iterable[Text]) -> Unit:
    """Documents; texts where there is one document only, which cannot be resampled.

    Example:
        >>> unit_of([Text("a", ("word",), doc="d"), Text("b", ("word",), doc="d")]).by
        'text'
    """
    documents: set[str] = set()
    for text in texts:
        documents.add(document_of(text))
        if len(documents) > 1:
            return BY_DOCUMENT
    return BY_TEXT


@dataclass(frozen=True)
class Halves:
    """Which half a text belongs to."""

    choosing: frozenset[str]
    """The documents (or texts) that choose."""
    by: Literal["document", "text"]
    """What is never split: document or text."""

    def of(self, text: Text) -> int:
        """`CHOOSING` or `SCORED`."""
        return CHOOSING if (document_of(text) if self.by == "document" else text.id) in self.choosing else SCORED


def halve(texts: Iterable[Text], seed: int) -> Halves:
    """Split a corpus in two by document, in an order drawn by hash; by text where there is one document only.

    The scored half is the larger one where the number is odd, and the whole of a corpus of one text.

    Example:
        >>> texts = [Text(str(i), ("word",), doc=f"d{i // 2}") for i in range(8)]
        >>> halves = halve(texts, seed=0)
        >>> [halves.of(text) for text in texts].count(SCORED), halves.of(texts[0]) == halves.of(texts[1])
        (4, True)
    """
    # Dictionaries keep keys once, in order.
    documents: dict[str, None] = {}
    ids: list[str] = []
    for text in texts:
        documents.setdefault(document_of(text))
        if len(documents) < 2:
            ids.append(text.id)
    by: Literal["document", "text"] = "document" if len(documents) > 1 else "text"
    names = list(documents) if by == "document" else ids
    drawn = sorted(names, key=lambda name: hashlib.sha256(f"{seed}:{name}".encode()).digest())
    return Halves(frozenset(drawn[: len(drawn) // 2]), by)


class UnitSums:
    """Sums per unit, collected text by text: the document, or the text where the corpus is one document.

    Counts below 2**24 are exact.

    Example:
        >>> texts = [Text(str(at), ("word",), doc=f"d{at // 2}") for at in range(8)]
        >>> sums = UnitSums(1, halve(texts, seed=0))
        >>> for text in texts:
        ...     sums.add(np.array([1.0]), text)
        >>> sums.values().tolist(), sorted(sums.halves().tolist())
        ([[2.0], [2.0], [2.0], [2.0]], [0, 0, 1, 1])
    """

    def __init__(self, size: int, halves: Halves, *, most: int = MOST_UNITS) -> None:
        self._size, self._halves, self._most = size, halves, most
        self._sums: dict[tuple[int, str], np.ndarray] = {}
        self._shared = False

    def add(self, values: Real[np.ndarray, " size"], text: Text) -> None:
        """One text's part of its unit's sums, or that of several texts of one unit."""
        name = self._name(text)
        self._put((self._halves.of(text), self._row(name) if self._shared else name), np.asarray(values, np.float32))
        if len(self._sums) > self._most and not self._shared:
            self._shared = True
            collected, self._sums = self._sums, {}
            for (half, unit), values_of_unit in collected.items():
                self._put((half, self._row(unit)), values_of_unit)

    def together(
        self, texts: Sequence[Text], of: Int[np.ndarray, " thing"]
    ) -> Iterator[tuple[Text, Int[np.ndarray, " member"]]]:
        """Things of texts, `of` being the number of each thing's text, by unit: a text of the unit, and its things.

        Example:
            >>> texts = [Text(str(at), ("word",), doc=f"d{at % 2}") for at in range(4)]
            >>> sums = UnitSums(1, Halves(frozenset(), "document"))
            >>> [(text.doc, things.tolist()) for text, things in sums.together(texts, np.array([0, 0, 1, 2, 3]))]
            [('d0', [0, 1, 3]), ('d1', [2, 4])]
        """
        numbers: dict[str, int] = {}
        units = np.array([numbers.setdefault(self._name(text), len(numbers)) for text in texts], int)[of]
        order = np.argsort(units, kind="stable")
        starts = np.flatnonzero(np.diff(units[order], prepend=-1))
        for things in np.split(order, starts[1:]) if len(order) else ():
            yield texts[int(of[things[0]])], things

    @property
    def kind(self) -> Literal["document", "text"]:
        """What a unit is."""
        return self._halves.by

    def values(self) -> Float[np.ndarray, "unit size"]:
        """One row per unit; their order does not depend on that of the texts."""
        return np.array([self._sums[unit] for unit in sorted(self._sums)], np.float32).reshape(
            len(self._sums), self._size
        )

    def total(self, half: int | None = None) -> Float[np.ndarray, " size"]:
        """Over the units of one half, or of both."""
        values = self.values()
        return (values if half is None else values[self.halves() == half]).sum(0, dtype=float)

    def halves(self) -> Int[np.ndarray, " unit"]:
        """The half each unit belongs to."""
        return np.array([half for half, _ in sorted(self._sums)], int)

    def weights(self, *, samples: int, seed: int) -> Float[np.ndarray, "sample unit"]:
        """How often each bootstrap sample draws each unit; the same for all systems."""
        drawn = [weights_of(name, samples=samples, seed=seed) for _, name in sorted(self._sums)]
        return np.array(drawn, np.float32).reshape(len(drawn), samples).T

    def _name(self, text: Text) -> str:
        return document_of(text) if self._halves.by == "document" else text.id

    def _put(self, unit: tuple[int, str], values: np.ndarray) -> None:
        self._sums[unit] = self._sums[unit] + values if unit in self._sums else values

    def _row(self, name: str) -> str:
        digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return str(int.from_bytes(digest, "big") % (self._most // 2))
