"""A corpus: texts that can be read again and again, and what they are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any

from lamina.errors import CorpusError
from lamina.types import Text

_LOOKED_AT = 100
"""Texts looked at to tell which annotations a corpus carries; an annotation may be absent from a few of them."""


def fingerprint_of(*parts: Any) -> str:
    """One hash over anything JSON can say; equal inputs give equal hashes.

    Example:
        >>> fingerprint_of("a", 1) == fingerprint_of("a", 1), fingerprint_of("a", 1) == fingerprint_of("a", 2)
        (True, False)
    """
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Corpus:
    """Texts read anew on every iteration, so that memory does not grow with the corpus.

    Made by `load_corpus` and `corpus_from`.

    Example:
        >>> from lamina.corpora import corpus_from
        >>> corpus = corpus_from([["Dogs", "bark"], ["Cats", "do", "not"]], name="pets")
        >>> len(corpus), [text.words[0] for text in corpus], len(corpus.take(1))
        (2, ['Dogs', 'Cats'], 1)
    """

    name: str
    """Its name in the catalogue, its path, or what the maker called it."""
    split: str
    """train, dev, test or all."""
    unit: str
    """What one text is: sentence, document or window:N."""
    scheme: str
    """The label scheme in words, as UD v2; labels stay as annotated."""
    fingerprint: str
    """Equal for equal texts in equal order: over files, reader, split, unit, seed and limit."""
    source: Callable[[], Iterator[Text]] = field(repr=False, compare=False)
    """Starts reading from the beginning."""
    files: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """File name -> sha256."""
    made_split: str | None = None
    """How the split was made, where the corpus itself does not have it."""
    limit: int | None = None
    """Only the first so many texts, where not all."""
    declared: tuple[str, ...] | None = field(default=None, repr=False, compare=False)
    """The annotations the catalogue promises; None where they have to be looked up in the texts."""

    def __iter__(self) -> Iterator[Text]:
        size = 0
        for text in islice(with_unique_ids(self.source()), self.limit):
            size += 1
            yield text
        # What has been read to its end need not be read again to be counted.
        self.__dict__["_size"] = size

    def __len__(self) -> int:
        return self._size

    @cached_property
    def _size(self) -> int:
        return sum(1 for _ in self)

    @cached_property
    def annotations(self) -> tuple[str, ...]:
        """The names of the annotations its texts carry."""
        if self.declared is not None:
            return self.declared
        return tuple(dict.fromkeys(name for text in islice(self, _LOOKED_AT) for name in text.edges))

    def take(self, n: int) -> Corpus:
        """The first `n` texts."""
        if n < 1:
            raise CorpusError(f"a limit must be at least 1 text; got {n}")
        if self.limit is not None and n >= self.limit:
            return self
        return replace(self, limit=n, fingerprint=fingerprint_of("take", self.fingerprint, n))

    def describe(self) -> dict[str, Any]:
        """What a result's provenance says of its corpus."""
        said = {
            "name": self.name,
            "split": self.split,
            "unit": self.unit,
            "scheme": self.scheme,
            "fingerprint": self.fingerprint,
            "files": dict(self.files),
        }
        if self.made_split is not None:
            said["made_split"] = self.made_split
        if self.limit is not None:
            said["limit"] = self.limit
        return said


def with_unique_ids(texts: Iterable[Text]) -> Iterator[Text]:
    """The same texts; a second one of the same id gets `#2` after it, a third `#3`."""
    times: dict[str, int] = {}
    for text in texts:
        unique = text.id
        while unique in times:
            times[text.id] += 1
            unique = f"{text.id}#{times[text.id]}"
        times[unique] = 1
        yield text if unique == text.id else replace(text, id=unique)
