"""The contract of targets, their names, and the items that are drawn for them.

A target is something that a model can be asked for: its loss, minimal pairs, answers, tags, classes, what probes or
links read. It lists the rows that the model reads and the layers that are needed, keeps a few numbers per row, and
turns these into one score per item. It does not know what is done to the model.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from lamina.corpora.suites.minimal_pairs import MinimalPair
from lamina.errors import CorpusError
from lamina.models.running.batching import InputRow
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.types import Text

LOSS, PAIRS = "loss", "pairs"
QA, QA_EXACT = "qa", "qa_em"
TAGS, CLASSES_OF_TEXTS = "tags", "classes"
PROBE = "probe:"
"""Followed by TASK@LAYER."""
LINK = "link:"
"""Followed by RELATION@LAYER."""


class TargetScores(NamedTuple):
    """How well each item is done: the score of many is the sum of `hits` by the sum of `counts`."""

    hits: Float[np.ndarray, " item"]
    """Right answers, F1, or minus the log-probability."""
    counts: Float[np.ndarray, " item"]
    """Of how many answers, or tokens."""

    @property
    def value(self) -> float:
        """Of all items together.

        Example:
            >>> TargetScores(np.array([1.0, 2.0]), np.array([2.0, 2.0])).value
            0.75
        """
        return float(self.hits.sum() / self.counts.sum())


class Target(ABC):
    """Something that a model can be asked for, scored item by item."""

    name: str
    """As in tables: loss, pairs, qa, qa_em, tags, classes, probe:TASK@LAYER, link:RELATION@LAYER."""
    lower_is_better: bool = False
    rows: Sequence[InputRow]
    """What the model reads: one or several rows for an item."""
    layers: tuple[int, ...]
    """Layers whose states are looked at."""
    places: Sequence[Int[np.ndarray, " place"]] | None = None
    """The tokens of each row at which the last layer is looked at, where it is not all: the others are not made."""
    items: tuple[str, ...]
    """Names of texts, pairs or questions: equal whatever the model."""
    units: tuple[str, ...]
    """What is drawn with replacement: the document of each item, or the item."""
    owners: Int[np.ndarray, " row"]
    """The item of each row."""
    skipped: Counter[str]
    """Why something was left out -> how many times."""
    chance: float | None = None
    """What needs no model scores on these items; None where a score has no such level."""

    @abstractmethod
    def read(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Float[np.ndarray, "row kept"]:
        """What is kept of some rows (by number), given their states [row, token, width], padding included."""

    @abstractmethod
    def score(self, values: Float[np.ndarray, "row kept"]) -> TargetScores:
        """The score of every item, given what was kept of all rows."""

    @abstractmethod
    def loss(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Float[Tensor, " row"]:
        """What the model would be trained to lower, for each row; gradients go through it."""

    def of(self, encoder: HuggingFaceEncoder) -> Target:
        """The same asked of another encoder of the same shape: the twin with random weights."""
        raise NotImplementedError


# A target asked for some of its items: parts are chosen on one half of the documents and scored on the other.


class SubsetTarget(Target):
    """What another target asks, of some of its items alone."""

    def __init__(self, target: Target, items: Sequence[int] | Int[np.ndarray, " item"]) -> None:
        self._target, self._items = target, np.sort(np.asarray(items, int))
        self._rows = np.flatnonzero(np.isin(target.owners, self._items))
        self.name, self.lower_is_better = target.name, target.lower_is_better
        self.layers, self.chance, self.skipped = target.layers, target.chance, target.skipped
        self.rows = [target.rows[row] for row in self._rows.tolist()]
        self.places = None if target.places is None else [target.places[row] for row in self._rows.tolist()]
        self.owners = np.searchsorted(self._items, target.owners[self._rows])
        self.items = tuple(target.items[item] for item in self._items)
        self.units = tuple(target.units[item] for item in self._items)

    def read(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Float[np.ndarray, "row kept"]:
        """See `Target.read`."""
        return self._target.read(self._rows_of(rows), states)

    def score(self, values: Float[np.ndarray, "row kept"]) -> TargetScores:
        """See `Target.score`."""
        every = np.zeros((len(self._target.rows), values.shape[1]))
        every[self._rows] = values
        hits, counts = self._target.score(every)
        return TargetScores(hits[self._items], counts[self._items])

    def loss(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Float[Tensor, " row"]:
        """See `Target.loss`."""
        return self._target.loss(self._rows_of(rows), states)

    def of(self, encoder: HuggingFaceEncoder) -> SubsetTarget:
        """See `Target.of`."""
        return same_items(self._target.of(encoder), self)

    def _rows_of(self, rows: Sequence[int]) -> list[int]:
        return [int(self._rows[row]) for row in rows]


def same_items(target: Target, other: Target) -> SubsetTarget:
    """A target asked for those items that another one asks for too, by their names."""
    wanted = set(other.items)
    return SubsetTarget(target, [number for number, name in enumerate(target.items) if name in wanted])


def halved(target: Target, seed: int) -> tuple[SubsetTarget, SubsetTarget]:
    """A target of the one half of the documents (or pairs, or questions), and of the other; drawn by their names."""
    units = sorted(set(target.units), key=lambda name: hashlib.sha256(f"{seed}:{name}".encode()).digest())
    if len(units) < 2:
        raise CorpusError(
            f"{target.name}: what to take away is chosen on one half of the documents and scored on the other, and "
            "there is only one document, pair or question; raise --items, or name a corpus with more"
        )
    first = set(units[: len(units) // 2])
    chooses = np.array([unit in first for unit in target.units])
    return SubsetTarget(target, np.flatnonzero(chooses)), SubsetTarget(target, np.flatnonzero(~chooses))


def some_texts(texts: Iterable[Text], most: int, seed: int) -> list[Text]:
    """At most `most` texts, drawn by the hash of their ids, in the order of the corpus.

    Example:
        >>> texts = [Text(str(number), ("word",)) for number in range(9)]
        >>> len(some_texts(texts, 4, seed=0)), some_texts(texts, 20, seed=0) == texts
        (4, True)
    """
    every = list(texts)
    chosen = sorted(range(len(every)), key=lambda number: _share(seed, every[number].id))[:most]
    return [every[number] for number in sorted(chosen)]


def some_pairs(pairs: Iterable[MinimalPair], most: int, seed: int) -> list[MinimalPair]:
    """At most `most` pairs, balanced over paradigms, drawn by the hash of their ids."""
    by_paradigm: dict[str, list[MinimalPair]] = defaultdict(list)
    for pair in sorted(pairs, key=lambda pair: _share(seed, pair.item)):
        by_paradigm[pair.paradigm].append(pair)
    rounds = zip_longest(*by_paradigm.values())
    return [pair for of_paradigms in rounds for pair in of_paradigms if pair is not None][:most]


def _share(seed: int, name: str) -> bytes:
    return hashlib.blake2b(f"{seed}:{name}".encode("utf-8", "surrogatepass"), digest_size=8).digest()


def phrase_at_start(target: str) -> str:
    """A target at the start of a sentence.

    Example:
        >>> phrase_at_start("loss"), phrase_at_start("probe:pos@3")
        ('The loss', 'The probe of pos (probe:pos@3)')
    """
    phrase = phrase_of(target)
    return phrase[0].upper() + phrase[1:]


def phrase_of(target: str) -> str:
    """A target within a sentence.

    Example:
        >>> phrase_of("loss")
        'the loss'
    """
    if target.startswith(PROBE):
        return f"the probe of {target.removeprefix(PROBE).partition('@')[0]} ({target})"
    return {
        LOSS: "the loss",
        PAIRS: "accuracy on minimal pairs",
        QA: "F1 of answers",
        QA_EXACT: "exact match of answers",
        TAGS: "accuracy of tags",
        CLASSES_OF_TEXTS: "accuracy of classes",
    }.get(target, target)


def probe_name(task: str, layer: int) -> str:
    """In tables and on the command line.

    Example:
        >>> probe_name("pos", 6)
        'probe:pos@6'
    """
    return f"{PROBE}{task}@{layer}"


def link_name(relation: str, layer: int) -> str:
    """In tables.

    Example:
        >>> link_name("obj", 6)
        'link:obj@6'
    """
    return f"{LINK}{relation}@{layer}"
