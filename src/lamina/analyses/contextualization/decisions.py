"""From probes' answers about occurrences to decisions about words: at least half of the contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from lamina.analyses.contextualization.words_in_context import Pair, WordsInContext

ALL = "all"
"""The class that stands for all of them together, the seed that stands for the mean over seeds."""


class Counts(NamedTuple):
    """Decisions by word and class; sums over words are what F1 and recall are made of."""

    hits: Int[np.ndarray, "word label"]
    said: Int[np.ndarray, "word label"]
    """Decisions that say yes."""
    true: Int[np.ndarray, "word label"]
    """Decisions that should."""
    own: Int[np.ndarray, "word label"]
    """Pairs of the word and the class ..."""
    found: Int[np.ndarray, "word label"]
    """... whose own class was found."""


@dataclass(frozen=True, eq=False)
class Grid:
    """Every (word, class) pair of some words against every class.

    The answer of a class's probe about a pair is yes where it is yes for at least half of the pair's contexts. It
    should be where at least half of them have that class: always for the pair's own, and for another where the
    annotation gives both.
    """

    pairs: tuple[Pair, ...]
    gold: Bool[np.ndarray, "pair label"]
    words: int

    @classmethod
    def of(cls, data: WordsInContext, split: str, *, least: int = 1) -> Grid:
        """The pairs of a split's words that have at least so many contexts."""
        pairs = tuple(pair for pair in data.pairs if data.split[pair.word] == split and len(pair.contexts) >= least)
        return cls(pairs, at_least_half(data.gold, pairs), len(data.words))

    def count(self, said: Bool[np.ndarray, "occurrence label"]) -> Counts:
        """Decisions from answers about all occurrences of the data (those outside the grid do not matter)."""
        decided = at_least_half(said, self.pairs)
        own = np.zeros_like(self.gold)
        own[np.arange(len(self.pairs)), [pair.label for pair in self.pairs]] = True
        each = (decided & self.gold, decided, self.gold, own, own & decided)
        return Counts(*(self._by_word(part) for part in each))

    def _by_word(self, part: np.ndarray) -> np.ndarray:
        sums = np.zeros((self.words, part.shape[1]), np.int64)
        np.add.at(sums, [pair.word for pair in self.pairs], part)
        return sums


def at_least_half(said: Bool[np.ndarray, "occurrence label"], pairs: Sequence[Pair]) -> Bool[np.ndarray, "pair label"]:
    """What holds of at least half of each pair's contexts.

    Example:
        >>> said = np.array([[True, False], [False, False], [True, True]])
        >>> at_least_half(said, [Pair(0, 0, (0, 1)), Pair(0, 1, (0, 1, 2))]).tolist()
        [[True, False], [True, False]]
    """
    if not pairs:
        return np.zeros((0, said.shape[1]), bool)
    sizes = np.array([len(pair.contexts) for pair in pairs])
    order = np.concatenate([pair.contexts for pair in pairs])
    votes = np.add.reduceat(said[order].astype(np.int64), np.cumsum(sizes) - sizes, axis=0)
    return 2 * votes >= sizes[:, None]


def by_word(data: WordsInContext, split: str, said: Bool[np.ndarray, "word label"]) -> Counts:
    """Words against classes, each word once with all its classes: the paper's grid for vectors without context."""
    true = np.zeros((len(data.words), len(data.classes)), bool)
    np.logical_or.at(true, data.word, data.gold)
    inside = np.array([own == split for own in data.split])[:, None]
    true, told = true & inside, said & inside
    return Counts(*(part.astype(np.int64) for part in (true & told, told, true, true, true & told)))


class Scores(NamedTuple):
    """One measure of one row, class by class and for all together (last), with draws for an interval."""

    value: Float[np.ndarray, " label"]
    draws: Float[np.ndarray, "sample label"]
    pairs: Int[np.ndarray, " label"]
    """That have the class."""


class WordBootstrap:
    """Words drawn with replacement; the same draws for every row, so that rows can be compared."""

    def __init__(self, words: Int[np.ndarray, " word"], *, samples: int, seed: int) -> None:
        """`words` are those scored."""
        rng = np.random.default_rng(seed)
        self._seed = seed
        self._words = words
        self._weights = rng.multinomial(len(words), np.full(len(words), 1 / len(words)), size=samples).astype(
            np.float32
        )

    def f1(self, counts: Counts) -> Scores:
        """F1 of every class, and micro-F1 of all."""
        return self._scores(2 * counts.hits, counts.said + counts.true, counts.own)

    def recall(self, counts: Counts) -> Scores:
        """How many pairs have their own class found."""
        return self._scores(counts.found, counts.own, counts.own)

    def _scores(self, over: np.ndarray, under: np.ndarray, own: np.ndarray) -> Scores:
        over, under = (_with_all(part[self._words]) for part in (over, under))
        value = _ratio(over.sum(0), under.sum(0))
        return Scores(value, _ratio(self._weights @ over, self._weights @ under), _with_all(own).sum(0).astype(int))

    def pooled(self, seeds: Sequence[Scores]) -> Scores:
        """The mean over seeds, seeds and words drawn together."""
        drawn = np.random.default_rng([self._seed, len(seeds)]).integers(
            len(seeds), size=(len(self._weights), len(seeds))
        )
        every, samples = np.stack([each.draws for each in seeds]), np.arange(len(drawn))
        draws = np.mean([every[column, samples] for column in drawn.T], axis=0)
        return Scores(np.mean([each.value for each in seeds], axis=0), draws, seeds[0].pairs)


def interval(draws: Float[np.ndarray, " sample"]) -> tuple[float, float]:
    """95 %; not available where no draw has a value."""
    measured = draws[np.isfinite(draws)]
    if not len(measured):
        return float("nan"), float("nan")
    low, high = np.quantile(measured, [0.025, 0.975])
    return float(low), float(high)


def _with_all(part: np.ndarray) -> np.ndarray:
    return np.concatenate([part, part.sum(1, keepdims=True)], axis=1).astype(np.float32)


def _ratio(over: np.ndarray, under: np.ndarray) -> np.ndarray:
    return np.divide(over, under, out=np.full(np.shape(over), np.nan, np.float64), where=under > 0)
