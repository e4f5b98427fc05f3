"""n-gram models of words: what counting alone predicts, the baseline of a language model.

Interpolated Kneser-Ney with the three discounts of Chen and Goodman (1998), as in KenLM (Heafield et al. 2013): the
longest n-grams are counted by how often they occur, shorter ones by how many different words precede them, and a part
of each word's probability is uniform, which is all that an unknown word gets. The end of a text is not predicted: after
every context the probabilities of all known words and of the unknown word sum to 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from lamina.errors import CorpusError, InputError

_START = 0
"""The number of what precedes the first word of a text."""
_FALLBACK = (0.5, 1.0, 1.5)
"""Discounts of texts too small to estimate them from, as in KenLM."""


class _NGramLevel(NamedTuple):
    """The n-grams of one length."""

    keys: Int[np.ndarray, " gram"]
    """Number of the context, times the number of symbols, plus the last word; in order."""
    discounted: Float[np.ndarray, " gram"]
    """Its share of the context's count, less the discount."""
    rest: Float[np.ndarray, " context"]
    """The share left to shorter contexts; 1 where nothing follows the context."""

    def find(self, keys: Int[np.ndarray, " gram"]) -> Int[np.ndarray, " gram"]:
        """The number of each n-gram; -1 for those that do not occur."""
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, place, -1)


class NGrams:
    """An n-gram model of words, smoothed by interpolated Kneser-Ney.

    Example:
        >>> model = NGrams.of([["the", "cat", "sat"], ["the", "dog", "sat"]], order=2)
        >>> model.logprobs(["the", "cat"]).round(2).tolist()
        [-0.51, -1.05]
        >>> model.knows("cat"), model.knows("cow"), bool(model.total(["the", "cow"]) > -10)
        (True, False, True)
    """

    def __init__(self, order: int, numbers: Mapping[str, int], levels: Sequence[_NGramLevel]) -> None:
        """Use `NGrams.of`."""
        self.order = order
        self._numbers = numbers
        self._levels = levels
        self._symbols = len(numbers) + 2  # known words, the start, the unknown word

    @classmethod
    def of(cls, texts: Iterable[Sequence[str]], order: int = 3) -> NGrams:
        """The model of these texts' words, taken as they are given; an order of 1 knows frequencies alone."""
        if order < 1:
            raise InputError(f"the order of an n-gram model is at least 1 (words alone); got {order}")
        numbers: dict[str, int] = {}
        read: list[int] = []
        for words in texts:
            read.append(_START)
            read.extend(numbers.setdefault(word, len(numbers) + 1) for word in words)
        if not numbers:
            raise CorpusError("an n-gram model needs at least one word to learn from; the training texts have none")
        return cls(order, numbers, _levels(np.array(read), len(numbers) + 2, order))

    @property
    def name(self) -> str:
        """What tables call it: unigram, bigram, 3-gram."""
        return {1: "unigram", 2: "bigram"}.get(self.order, f"{self.order}-gram")

    @property
    def vocabulary(self) -> int:
        """How many words it knows."""
        return len(self._numbers)

    def knows(self, word: str) -> bool:
        """Whether the word occurs in the training texts."""
        return word in self._numbers

    def logprobs(self, words: Sequence[str]) -> Float[np.ndarray, " word"]:
        """The natural logarithm of each word's probability after the words before it, from the start of the text."""
        unknown = self._symbols - 1
        read = np.array([_START, *(self._numbers.get(word, unknown) for word in words)])
        chance = np.full(len(read), 1 / (len(self._numbers) + 1))
        # The n-gram before each word, one word longer at every level.
        context = np.zeros(len(read), dtype=np.int64)
        for level in self._levels:
            seen = context >= 0
            gram = np.where(seen, level.find(context * self._symbols + read), -1)
            rest = np.where(seen, level.rest[context], 1.0)
            chance = np.where(gram >= 0, level.discounted[gram], 0.0) + rest * chance
            # The n-gram that ends in one word is the context of the next; nothing precedes the start.
            context = np.concatenate([[-1], gram[:-1]])
        return np.log(chance[1:])

    def total(self, words: Sequence[str]) -> float:
        """The logarithm of the probability of a whole text.

        Example:
            >>> model = NGrams.of([["the", "cat", "sat"], ["the", "dog", "sat"]], order=2)
            >>> model.total(["the", "cat", "sat"]) > model.total(["sat", "cat", "the"])
            True
        """
        return float(self.logprobs(words).sum())


def _levels(read: Int[np.ndarray, " token"], symbols: int, order: int) -> list[_NGramLevel]:
    """The n-grams of each length up to `order`, of texts that follow each other, each after its start."""
    starts = read == _START
    keys, grams = np.unique(read, return_inverse=True)
    grams_by_length = [_PlacedNGrams(keys, grams, starts)]
    for _ in range(1, order):
        grams_by_length.append(grams_by_length[-1].longer(read, symbols))
    levels = []
    for length, current in enumerate(grams_by_length):
        counts = current.occurrences() if length == order - 1 else grams_by_length[length + 1].preceding(current)
        levels.append(
            _smoothed(current.keys, counts, symbols, contexts=len(grams_by_length[length - 1].keys) if length else 1)
        )
    return levels


class _PlacedNGrams(NamedTuple):
    """The n-grams of one length, and where they are."""

    keys: Int[np.ndarray, " gram"]
    numbers: Int[np.ndarray, " token"]
    """The number of the n-gram that ends at each token; -1 where the text is still too short."""
    first: Int[np.ndarray, " token"]
    """Whether that n-gram begins with the start of the text."""

    def longer(self, read: Int[np.ndarray, " token"], symbols: int) -> _PlacedNGrams:
        """The n-grams that are one token longer."""
        before = np.concatenate([[-1], self.numbers[:-1]])
        there = (before >= 0) & (read != _START)
        keys, inverse = np.unique(before[there] * symbols + read[there], return_inverse=True)
        numbers = np.full(len(read), -1)
        numbers[there] = inverse
        return _PlacedNGrams(keys, numbers, np.concatenate([[False], self.first[:-1]]) & there)

    def occurrences(self) -> Int[np.ndarray, " gram"]:
        """How often each occurs."""
        return np.bincount(self.numbers[self.numbers >= 0], minlength=len(self.keys))

    def preceding(self, shorter: _PlacedNGrams) -> Int[np.ndarray, " gram"]:
        """How many different tokens precede each of the n-grams that are one token shorter.

        Nothing precedes the start of a text: n-grams that begin there count as often as they occur.
        """
        there = self.numbers >= 0
        suffix = np.empty(len(self.keys), dtype=np.int64)
        suffix[self.numbers[there]] = shorter.numbers[there]
        counts = np.bincount(suffix, minlength=len(shorter.keys))
        begin = shorter.first & (shorter.numbers >= 0)
        counts[shorter.numbers[begin]] = 0
        return counts + np.bincount(shorter.numbers[begin], minlength=len(shorter.keys))


def _smoothed(
    keys: Int[np.ndarray, " gram"], counts: Int[np.ndarray, " gram"], symbols: int, contexts: int
) -> _NGramLevel:
    """Counts as shares of their context, discounted; what the discounts free is left to shorter contexts."""
    # The start of a text is a context, never predicted.
    counts = np.where(keys % symbols == _START, 0, counts)
    discount = np.array([0.0, *_discounts(counts)])[np.minimum(counts, 3)]
    context = keys // symbols
    totals = np.bincount(context, weights=counts, minlength=contexts)
    freed = np.bincount(context, weights=discount, minlength=contexts)
    rest = np.divide(freed, totals, out=np.ones(contexts), where=totals > 0)
    return _NGramLevel(keys, (counts - discount) / np.maximum(totals, 1)[context], rest)


def _discounts(counts: Int[np.ndarray, " gram"]) -> tuple[float, float, float]:
    """What is taken off counts of 1, of 2 and of more (Chen and Goodman 1998)."""
    once, twice, thrice, four = (int((counts == times).sum()) for times in (1, 2, 3, 4))
    if not (once and twice and thrice and four):
        return _FALLBACK
    share = once / (once + 2 * twice)
    discounts = (1 - 2 * share * twice / once, 2 - 3 * share * thrice / twice, 3 - 4 * share * four / thrice)
    return discounts if all(0 <= discount <= most for most, discount in enumerate(discounts, start=1)) else _FALLBACK
