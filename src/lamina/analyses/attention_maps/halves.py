"""One half of a corpus chooses, the other is scored: what is scored never chooses anything."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Real

from lamina.types import Text

CHOOSING, SCORED = 0, 1
"""The two halves."""


@dataclass(frozen=True)
class Halves:
    """Which half a text belongs to."""

    choosing: frozenset[str]
    """The documents (or texts) that choose."""
    by: str
    """What is never torn apart: document or text."""

    def of(self, text: Text) -> int:
        """`CHOOSING` or `SCORED`."""
        return CHOOSING if (document_of(text) if self.by == "document" else text.id) in self.choosing else SCORED


def document_of(text: Text) -> str:
    """The document a text comes from; the text itself where nobody knows."""
    return text.doc or text.id


def halve(texts: Iterable[Text], seed: int) -> Halves:
    """Cut a corpus in two by document, in an order drawn by hash; by text where there is one document only.

    The scored half is the larger one where the number is odd, and the whole of a corpus of one text.

    Example:
        >>> texts = [Text(str(i), ("word",), doc=f"d{i // 2}") for i in range(8)]
        >>> halves = halve(texts, seed=0)
        >>> [halves.of(text) for text in texts].count(SCORED), halves.of(texts[0]) == halves.of(texts[1])
        (4, True)
    """
    # Dictionaries keep what they are given once, in order.
    documents: dict[str, None] = {}
    ids: list[str] = []
    for text in texts:
        documents.setdefault(document_of(text))
        if len(documents) < 2:
            ids.append(text.id)
    by, names = ("document", list(documents)) if len(documents) > 1 else ("text", ids)
    drawn = sorted(names, key=lambda name: hashlib.sha256(f"{seed}:{name}".encode()).digest())
    return Halves(frozenset(drawn[: len(drawn) // 2]), by)


class DocumentBootstrap:
    """Sums over documents, and the same sums over documents drawn with replacement, whose texts come in any order.

    As `StreamedBootstrap`, but all texts of a document share its Poisson(1) weights: they are drawn anew from its
    name each time, so that nothing has to be kept for a document.

    Example:
        >>> sums = DocumentBootstrap(2, samples=500, seed=0)
        >>> for document, hits in (("a", 1), ("b", 0), ("a", 1)):
        ...     sums.add(document, np.array([hits, 1]))
        >>> sums.value.tolist(), sums.samples.shape
        ([2.0, 3.0], (500, 2))
    """

    def __init__(self, size: int, *, samples: int, seed: int) -> None:
        self._seed = seed
        self.value: Float[np.ndarray, " size"] = np.zeros(size)
        """The sums themselves."""
        self.samples: Float[np.ndarray, "sample size"] = np.zeros((samples, size), np.float32)
        """The sums over resampled documents."""

    def add(self, document: str, values: Real[np.ndarray, " size"]) -> None:
        """One text's part of every sum."""
        named = int.from_bytes(hashlib.sha256(document.encode()).digest()[:8], "big")
        weights = np.random.default_rng([self._seed, named]).poisson(1.0, len(self.samples))
        self.value += values
        self.samples += np.outer(weights, values).astype(np.float32)


def intervals(
    hits: Real[np.ndarray, " sample *kinds"], counts: Real[np.ndarray, " sample"]
) -> tuple[np.ndarray, np.ndarray]:
    """The 95 % interval of `hits / counts` over samples; not available where no sample drew anything.

    Example:
        >>> low, high = intervals(np.array([[1.0], [2.0], [0.0]]), np.array([2.0, 2.0, 0.0]))
        >>> low.round(4).tolist(), high.round(4).tolist()
        ([0.5125], [0.9875])
    """
    drawn = counts > 0
    if not drawn.any():
        return np.full(hits.shape[1:], np.nan), np.full(hits.shape[1:], np.nan)
    shares = hits[drawn] / counts[drawn].reshape(-1, *[1] * (hits.ndim - 1))
    low, high = np.quantile(shares, [0.025, 0.975], axis=0)
    return np.asarray(low), np.asarray(high)
