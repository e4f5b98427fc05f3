"""The tables of a contextualization result; their columns are a contract."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pandas as pd

from lamina.analyses.contextualization.answers import Answers
from lamina.analyses.contextualization.decisions import (
    ALL,
    Grid,
    Scores,
    WordBootstrap,
    at_least_half,
    by_word,
    interval,
)
from lamina.analyses.contextualization.words_in_context import SPLITS, WordsInContext

SCORED = ("dev", "test")
FREQUENT = 5
"""Contexts from which a pair is scored apart too."""


@dataclass(frozen=True, slots=True)
class Score:
    """One row of `sclass.csv` and its like."""

    representation: str
    layer: int | None
    context: str
    class_: str
    """A class, or `all`: every decision together."""
    seed: str
    """A number, with an interval over words; or `all`: the mean over seeds, with one over seeds and words together."""
    split: str
    count: int
    """Pairs of a word and this class."""
    value: float
    low: float
    high: float


class _Judge(NamedTuple):
    """One split's grids and draws."""

    split: str
    grid: Grid
    frequent: Grid
    draws: WordBootstrap


class Scoreboard:
    """Scores rows of answers by the words they are about."""

    def __init__(self, data: WordsInContext, *, samples: int, seed: int) -> None:
        self._data = data
        self._judges = [self._judge(split, samples, seed) for split in SCORED]

    def _judge(self, split: str, samples: int, seed: int) -> _Judge:
        data = self._data
        words = np.flatnonzero([own == split for own in data.split])
        draws = WordBootstrap(words, samples=samples, seed=seed)
        return _Judge(split, Grid.of(data, split), Grid.of(data, split, least=FREQUENT), draws)

    def tables(self, answers: Sequence[Answers]) -> dict[str, pd.DataFrame]:
        """`sclass` (F1), `recall`, `frequent` (F1 of pairs with many contexts) and `words` (F1, words as one grid)."""
        found: dict[str, list[Score]] = {"sclass": [], "recall": [], "frequent": [], "words": []}
        for own in _rows(answers):
            for judge in self._judges:
                said = [each.said for each in own]
                counts = [judge.grid.count(each) for each in said]
                frequent = [judge.frequent.count(each) for each in said]
                found["sclass"] += self._scored(own, judge, [judge.draws.f1(each) for each in counts])
                found["recall"] += self._scored(own, judge, [judge.draws.recall(each) for each in counts])
                found["frequent"] += self._scored(own, judge, [judge.draws.f1(each) for each in frequent])
                if own[0].of_types:
                    by_words = [by_word(self._data, judge.split, self._of_words(each)) for each in said]
                    found["words"] += self._scored(own, judge, [judge.draws.f1(each) for each in by_words])
        return {name: as_table(rows) for name, rows in found.items()}

    def f1(self, answers: Iterable[Answers]) -> pd.DataFrame:
        """F1 alone."""
        rows: list[Score] = []
        for own in _rows(answers):
            for judge in self._judges:
                scores = [judge.draws.f1(judge.grid.count(each.said)) for each in own]
                rows += self._scored(own, judge, scores)
        return as_table(rows)

    def pairs(self, answers: Iterable[Answers]) -> pd.DataFrame:
        """Of every pair of test words: the share of seeds that find its own class."""
        grid = self._judges[-1].grid
        own_class = np.arange(len(grid.pairs)), [pair.label for pair in grid.pairs]
        rows = []
        for own in _rows(answers):
            first = own[0]
            found = np.mean([at_least_half(each.said, grid.pairs)[own_class] for each in own], axis=0)
            for pair, share in zip(grid.pairs, found.tolist(), strict=True):
                what = (self._data.words[pair.word], self._data.classes[pair.label], len(pair.contexts))
                rows.append((first.representation, first.layer, first.context, *what, share))
        columns = ["representation", "layer", "context", "word", "class", "contexts", "found"]
        return pd.DataFrame(rows, columns=columns).astype({"layer": "Int64"})

    def _of_words(self, said: np.ndarray) -> np.ndarray:
        every = np.zeros((len(self._data.words), said.shape[1]), bool)
        every[self._data.word] = said
        return every

    def _scored(self, own: Sequence[Answers], judge: _Judge, seeds: Sequence[Scores]) -> Iterator[Score]:
        first = own[0]
        named = [(str(each.seed), scores) for each, scores in zip(own, seeds, strict=True)]
        for seed, scores in [*named, (ALL, judge.draws.pooled(seeds))]:
            for at, label in enumerate((*self._data.classes, ALL)):
                where = (first.representation, first.layer, first.context, label, seed, judge.split)
                value = float(scores.value[at])
                yield Score(*where, int(scores.pairs[at]), value, *interval(scores.draws[:, at]))


def _rows(answers: Iterable[Answers]) -> Iterator[list[Answers]]:
    """Seeds of one row, which come one after the other."""
    for _, own in groupby(answers, key=lambda each: (each.representation, each.layer, each.context)):
        yield list(own)


def as_table(rows: Sequence[Score]) -> pd.DataFrame:
    """As it is saved."""
    names = [each.name for each in fields(Score)]
    table = pd.DataFrame([astuple(row) for row in rows], columns=names).rename(columns={"class_": "class"})
    return table.astype({"layer": "Int64", "context": "str", "seed": "str"})


def histogram(data: WordsInContext) -> pd.DataFrame:
    """How many pairs have so many contexts, split by split."""
    counts = Counter((data.split[pair.word], len(pair.contexts)) for pair in data.pairs)
    ordered = sorted(counts.items(), key=lambda item: (SPLITS.index(item[0][0]), item[0][1]))
    rows = [(split, contexts, pairs) for (split, contexts), pairs in ordered]
    return pd.DataFrame(rows, columns=["split", "contexts", "pairs"])
