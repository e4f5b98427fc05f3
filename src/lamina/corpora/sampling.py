"""Samples of a corpus: whole documents, or items within groups, in the order of a seeded hash."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")

MOST_IN_MEMORY = 20_000
"""Texts in memory: a treebank with all its annotations takes a few hundred megabytes."""
_SLACK = 1000
"""Candidates in memory beyond twice those that are wanted, before some are dropped."""


def place_in_order(seed: int, name: str) -> int:
    """Where a name stands in the order of a seed: a hash, so that it does not depend on what else there is.

    Example:
        >>> place_in_order(0, "a") == place_in_order(0, "a"), place_in_order(0, "a") == place_in_order(1, "a")
        (True, False)
    """
    # Splits are hashes of names too; with another prefix, the draw does not depend on them.
    named = f"sample {seed} {name}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(named, digest_size=12).digest(), "big")


def sample_of_each(
    items: Sequence[Item], most: int, group: Callable[[Item], Hashable], name: Callable[[Item], str], seed: int
) -> list[int]:
    """The numbers of at most `most` items of every group, drawn by name, in their order.

    Example:
        >>> drawn = sample_of_each(["a1", "a2", "a3", "b1"], 2, lambda item: item[0], lambda item: item, 0)
        >>> len(drawn), drawn[-1], drawn == sorted(drawn)
        (3, 3, True)
    """
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for number, item in enumerate(items):
        groups[group(item)].append(number)
    chosen: list[int] = []
    for numbers in groups.values():
        ranked = sorted(numbers, key=lambda number: place_in_order(seed, name(items[number])))
        chosen += ranked[:most]
    return sorted(chosen)


def first_of_each(items: Sequence[Item], most: int, group: Callable[[Item], Hashable]) -> list[int]:
    """The numbers of the first items of every group.

    Example:
        >>> first_of_each(["a1", "a2", "b1"], 1, lambda item: item[0])
        [0, 2]
    """
    taken: dict[Hashable, int] = defaultdict(int)
    chosen: list[int] = []
    for number, item in enumerate(items):
        taken[group(item)] += 1
        if taken[group(item)] <= most:
            chosen.append(number)
    return chosen


@dataclass(frozen=True)
class DocumentSample:
    """Which documents are drawn: those up to a place in the order of a seed; the last one is cut."""

    seed: int
    last: int | None = None
    """Place of the last document; None if all are drawn."""
    texts_of_last: int = 0
    """How many texts of the last document are taken, from its first."""

    def holds(self, document: str) -> bool:
        """Whether a document is drawn, in whole or in part."""
        return self.last is None or place_in_order(self.seed, document) <= self.last

    def of(self, items: Iterable[Item], document: Callable[[Item], str]) -> Iterator[Item]:
        """The drawn items, in their order."""
        taken = 0
        for item in items:
            place = -1 if self.last is None else place_in_order(self.seed, document(item))
            if self.last is None or place < self.last:
                yield item
            elif place == self.last and taken < self.texts_of_last:
                taken += 1
                yield item


class SampleSource(Generic[Item]):
    """Draws about as many items as are wanted, in whole documents, when it is first read; see `Corpus.sample`.

    Items are read once to find the documents, and stay in memory where few are wanted; memory does not grow with the
    corpus.
    """

    def __init__(
        self, items: Callable[[], Iterable[Item]], most: int, seed: int, document: Callable[[Item], str]
    ) -> None:
        self._items, self._most, self._seed, self._document = items, most, seed, document
        self._sample: DocumentSample | None = None
        self._drawn: list[Item] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Another process reads them for itself, if it needs them.
        return self.__dict__ | {"_drawn": None}

    def __call__(self) -> Iterator[Item]:
        sample = self.sample
        return iter(self._drawn) if self._drawn is not None else sample.of(self._items(), self._document)

    def holds(self, document: str) -> bool:
        """Whether a document is drawn."""
        return self.sample.holds(document)

    @property
    def sample(self) -> DocumentSample:
        """The documents, found by a pass over the items."""
        if self._sample is None:
            self._sample = self._found()
        return self._sample

    def _found(self) -> DocumentSample:
        sizes: dict[int, int] = {}
        pairs: list[tuple[int, Item]] | None = [] if self._most <= MOST_IN_MEMORY else None
        seen = candidates = 0
        highest: int | None = None
        for item in self._items():
            seen += 1
            place = place_in_order(self._seed, self._document(item))
            # Of one document no more texts can be drawn than are wanted.
            if (highest is not None and place > highest) or sizes.get(place, 0) >= self._most:
                continue
            sizes[place] = sizes.get(place, 0) + 1
            candidates += 1
            if pairs is not None:
                pairs.append((place, item))
            if candidates > 2 * self._most + _SLACK:
                # Further texts can only lower the place of the last document.
                highest, _ = self._last(sizes)
                sizes = {drawn: size for drawn, size in sizes.items() if drawn <= highest}
                candidates = sum(sizes.values())
                pairs = None if pairs is None else [(place, item) for place, item in pairs if place <= highest]
        sample = DocumentSample(self._seed) if seen <= self._most else DocumentSample(self._seed, *self._last(sizes))
        if pairs is not None:
            self._drawn = list(sample.of((item for _, item in pairs), self._document))
        return sample

    def _last(self, sizes: Mapping[int, int]) -> tuple[int, int]:
        """The place of the last document, and how many of its texts are taken."""
        missing = self._most
        for place in sorted(sizes):
            if sizes[place] >= missing:
                return place, missing
            missing -= sizes[place]
        raise AssertionError("fewer items than are wanted")
