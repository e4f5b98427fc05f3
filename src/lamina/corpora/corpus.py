"""A corpus: texts that can be read repeatedly, with their metadata."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from lamina.corpora.notes import Notes
from lamina.corpora.views import View
from lamina.errors import CorpusError, DamagedError, WriteError
from lamina.files.checking import read_json, write_json
from lamina.files.places import cache_dir
from lamina.types import Text

_MANY = 5000
"""Smallest number of texts for which annotations are remembered across processes; fewer are read in seconds."""
_MOST_REMEMBERED = 1000
"""Corpora whose annotations are remembered; the oldest are forgotten."""


_MOST_UNREAD = 50
"""Files that are named in provenance as not read; `lamina data check` lists them all."""


def fingerprint_of(*parts: Any) -> str:
    """One hash of any JSON-serialisable values; equal inputs give equal hashes.

    Example:
        >>> fingerprint_of("a", 1) == fingerprint_of("a", 1), fingerprint_of("a", 1) == fingerprint_of("a", 2)
        (True, False)
    """
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Corpus:
    """Texts, read again on every iteration, so that memory does not grow with the corpus.

    Created by `load_corpus` and `corpus_from`.

    Example:
        >>> from lamina.corpora import corpus_from
        >>> corpus = corpus_from([["Dogs", "bark"], ["Cats", "do", "not"]], name="pets")
        >>> len(corpus), [text.words[0] for text in corpus], len(corpus.take(1))
        (2, ['Dogs', 'Cats'], 1)
    """

    name: str
    """Its name in the catalogue, its path, or the name it was given."""
    split: str
    """train, dev, test or all."""
    unit: str
    """What one text is: sentence, document or window:N."""
    scheme: str
    """The label scheme, such as UD v2; labels stay as annotated."""
    fingerprint: str
    """Equal for equal texts in equal order: covers files, reader, split, unit, seed and limit."""
    source: Callable[[], Iterator[Text]] = field(repr=False, compare=False)
    """Reads the texts from the beginning."""
    files: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """File name -> sha256."""
    made_split: str | None = None
    """How the split was made, if the corpus does not come with it."""
    limit: int | None = None
    """Only this many texts, from the first; None for all."""
    declared: tuple[str, ...] | None = field(default=None, repr=False, compare=False)
    """The annotations listed in the catalogue; None if they have to be found in the texts."""
    view: View = field(default=View(), repr=False)
    """How questions are shown; the default for all other texts."""
    notes: Notes = field(default_factory=Notes, repr=False, compare=False)
    """What its readers left out or changed, filled while texts are read; corpora made of this one share it."""
    unread: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Files of its folder that may hold texts and are not read -> why."""
    revision: str | None = field(default=None, repr=False, compare=False)
    """The commit of a dataset of the Hugging Face hub."""

    def __iter__(self) -> Iterator[Text]:
        size = 0
        names: dict[str, None] = {}
        for text in islice(
            with_unique_ids(self.source()), None if self.limit is None else min(self.limit, sys.maxsize)
        ):
            size += 1
            names.update(dict.fromkeys(text.edges))
            yield text
        # After a complete pass both are known without another one.
        self.__dict__["_size"] = size
        self.__dict__["_found"] = tuple(names)

    def __len__(self) -> int:
        return self._size

    @cached_property
    def _size(self) -> int:
        return sum(1 for _ in self)

    @cached_property
    def annotations(self) -> tuple[str, ...]:
        """The names of the annotations in its texts, all of them read if no catalogue lists the annotations."""
        return self._found if self.declared is None else self.declared

    @cached_property
    def _found(self) -> tuple[str, ...]:
        known = _remembered().get(self.fingerprint)
        if known is not None:
            return tuple(known)
        size = sum(1 for _ in self)
        # Left there by the complete pass.
        found = self.__dict__["_found"]
        if size >= _MANY:
            _remember(self.fingerprint, found)
        return found

    def take(self, n: int) -> Corpus:
        """The first `n` texts."""
        if n < 1:
            raise CorpusError(f"a limit must be at least 1 text; got {n}")
        if self.limit is not None and n >= self.limit:
            return self
        return replace(self, limit=n, fingerprint=fingerprint_of("take", self.fingerprint, n))

    def left_out(self) -> dict[str, int]:
        """What readers left out or changed -> in how many texts; complete after the texts were read once."""
        return self.notes.counts()

    def describe(self) -> dict[str, Any]:
        """The corpus's entry in a result's provenance."""
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
        if self.view != View():
            said["view"] = self.view.describe()
        if self.revision is not None:
            said["revision"] = self.revision
        if self.unread:
            said["files_not_read"] = dict(islice(self.unread.items(), _MOST_UNREAD))
        return said


def _remembered() -> dict[str, list[str]]:
    """Fingerprint -> the annotations found; empty if nothing is remembered, or not readably."""
    try:
        return read_json(_memory())
    except (OSError, DamagedError):
        return {}


def _remember(fingerprint: str, names: tuple[str, ...]) -> None:
    known = [*_remembered().items()][-_MOST_REMEMBERED + 1 :]
    # Without a cache to write to, the texts are read again next time.
    with suppress(OSError, WriteError):
        _memory().parent.mkdir(parents=True, exist_ok=True)
        write_json(_memory(), dict(known) | {fingerprint: names})


def _memory() -> Path:
    return cache_dir() / "annotations.json"


def with_unique_ids(texts: Iterable[Text]) -> Iterator[Text]:
    """The same texts; the second one with the same id gets the suffix `#2`, the third `#3`."""
    from lamina.keys import KeySet  # needs numpy, which the command line starts without

    met = KeySet()
    times: dict[str, int] = {}
    for text in texts:
        unique = text.id
        while not met.add(hashlib.blake2b(unique.encode("utf-8", "surrogatepass"), digest_size=16).digest()):
            times[text.id] = times.get(text.id, 1) + 1
            unique = f"{text.id}#{times[text.id]}"
        yield text if unique == text.id else replace(text, id=unique)


NAMING = ("chains", "chains_gum", "sentence")
"""Annotations whose labels identify one thing in one document (a chain), not a kind of thing."""


@dataclass
class Counts:
    """Running counts over texts.

    Example:
        >>> from lamina.types import Edge, Span
        >>> counts = Counts()
        >>> counts.add(Text("s", ("Dogs", "bark"), edges={"pos": (Edge(("NOUN",), Span(0, 1)),)}))
        >>> counts.texts, counts.words, counts.targets["pos"], counts.labels["pos"]["NOUN"]
        (1, 2, 1, 1)
    """

    texts: int = 0
    words: int = 0
    annotated: Counter[str] = field(default_factory=Counter)
    """Annotation -> number of texts that have it."""
    targets: Counter[str] = field(default_factory=Counter)
    """Annotation -> number of edges."""
    labels: dict[str, Counter[str]] = field(default_factory=dict)
    """Annotation -> label -> count."""

    def add(self, text: Text) -> None:
        """Count one more text."""
        self.texts += 1
        self.words += len(text.words)
        for annotation, edges in text.edges.items():
            self.annotated[annotation] += 1
            self.targets[annotation] += len(edges)
            seen = self.labels.setdefault(annotation, Counter())
            scope = f"{text.doc or text.id}: " if annotation in NAMING else ""
            seen.update(scope + label for edge in edges for label in edge.labels)


def counted(texts: Iterable[Text], *counts: Counts) -> Iterator[Text]:
    """Yield the texts unchanged and count them."""
    for text in texts:
        for one in counts:
            one.add(text)
        yield text
