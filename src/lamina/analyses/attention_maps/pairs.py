"""What heads are shown: texts, or two consecutive texts of a document as two segments, all or a seeded draw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise

import numpy as np

from lamina.corpora import Corpus
from lamina.errors import CorpusError
from lamina.types import Span, Text

SEGMENTS, LENGTH = 1000, 128
"""The paper's: number of pairs, and the most tokens of one."""


@dataclass(frozen=True, eq=False)
class Shown:
    """Texts read anew on every iteration, like their corpus; a seeded draw of them where not all are wanted.

    Example:
        >>> from lamina.corpora import corpus_from
        >>> shown = Shown(corpus_from([["Dogs", "bark"], ["Cats", "purr"]], name="pets"), most=1)
        >>> len(shown), len(list(shown)), shown.describe()
        (1, 1, '1 of 2 texts, drawn at random')
    """

    corpus: Corpus
    pairs: bool = False
    """Two consecutive texts at a time."""
    most: int | None = None
    """The most texts or pairs; None for all."""
    seed: int = 0

    @cached_property
    def there(self) -> int:
        """How many there are to draw from."""
        count = sum(1 for _ in pair_up(self.corpus)) if self.pairs else len(self.corpus)
        if not count:
            raise CorpusError(
                f"{self.corpus.name}: a pair is two consecutive texts of one document, and there is none; name a "
                "corpus whose texts say their document (in plain text a line ` = Title = ` starts one)"
            )
        return count

    def __len__(self) -> int:
        return self.there if self.most is None else min(self.there, self.most)

    def __iter__(self) -> Iterator[Text]:
        texts = pair_up(self.corpus) if self.pairs else iter(self.corpus)
        if len(self) == self.there:
            yield from texts
            return
        drawn = np.zeros(self.there, bool)
        drawn[np.random.default_rng(self.seed).choice(self.there, len(self), replace=False)] = True
        yield from (text for text, wanted in zip(texts, drawn, strict=True) if wanted)

    def describe(self) -> str:
        """In words, for provenance."""
        what = "pairs of consecutive texts of one document" if self.pairs else "texts"
        if len(self) == self.there:
            return f"all {self.there:,} {what}"
        return f"{len(self):,} of {self.there:,} {what}, drawn at random"


def pair_up(texts: Iterable[Text]) -> Iterator[Text]:
    """Two consecutive texts of a document as one text of two segments; each text is used once, headings never.

    A text without a document joins nothing.

    Example:
        >>> texts = [Text(name, (name,), doc="d") for name in "abcde"]
        >>> [(pair.id, pair.words) for pair in pair_up(texts)]
        [('a+b', ('a', 'b')), ('c+d', ('c', 'd'))]
    """
    written = (text for text in texts if text.doc is not None and not _is_heading(text))
    for _, own in groupby(written, key=lambda text: text.doc):
        for number, (one, other) in enumerate(pairwise(own)):
            if number % 2 == 0:
                yield _joined(one, other)


def _joined(one: Text, other: Text) -> Text:
    border = len(one.words)
    words = (*one.words, *other.words)
    return Text(f"{one.id}+{other.id}", words, (Span(0, border), Span(border, len(words))), doc=one.doc)


def _is_heading(text: Text) -> bool:
    """Whether it is a heading of wikitext: ` = = Description = = `."""
    return len(text.words) > 2 and text.words[0] == "=" == text.words[-1]


def apart(texts: Iterable[Text]) -> Iterator[Text]:
    """The texts of pairs one by one, as they were before they were paired."""
    for text in texts:
        for number, (start, end) in enumerate((segment.start, segment.end) for segment in text.segments):
            yield Text(f"{text.id}/{number}", text.words[start:end], doc=text.doc)


def shown_of(
    corpus: Corpus, *, pairs: bool, length: int | None, segments: int | None, seed: int
) -> tuple[Shown, int | None]:
    """The texts or pairs that are looked at, and the most tokens of each; None for the model's own limit."""
    most = SEGMENTS if pairs and segments is None else segments
    return Shown(corpus, pairs, most, seed), LENGTH if pairs and length is None else length
