"""Where a word occurs: every word of a corpus as a number, the classes of those that have one, their sentences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property

import numpy as np
from jaxtyping import Int

from lamina.analyses.contextualization.words_in_context import annotation_of
from lamina.corpora import Corpus
from lamina.errors import CorpusError, InputError
from lamina.types import Text

CLASSED = ("sclass", "supersense")
"""Annotations that give a word its class, the first of them that is there."""

AND = "+"
"""Between the classes of a word that has several at once."""

_AROUND = 15
"""Words each side of a word that are shown with it."""


@dataclass(frozen=True, eq=False)
class Occurrences:
    """The words of all texts, one after the other, without their vectors."""

    name: str
    """Of the corpus."""
    types: tuple[str, ...]
    """Lower-cased, in order of appearance."""
    type_of: Int[np.ndarray, " word"]
    lengths: tuple[int, ...]
    """Words of each text."""
    classes: dict[int, str]
    """Word -> its class; one with several at once has them joined by `+`. Only those that have one."""

    @cached_property
    def starts(self) -> Int[np.ndarray, " text"]:
        """The first word of each text."""
        return np.cumsum((0, *self.lengths))[:-1]

    def of(self, word: str) -> Int[np.ndarray, " occurrence"]:
        """Where a word occurs, in any case; an error with words like it where it does not."""
        lowered = word.strip().lower()
        if len(lowered.split()) != 1:
            raise InputError(f"one word is looked at, not {word!r}; name a single word of the corpus")
        if lowered not in self.types:
            near = get_close_matches(lowered, self.types, n=5)
            like = f"words like it there: {', '.join(near)}" if near else "no word there is like it"
            raise InputError(
                f"{lowered!r} does not occur among the {len(self.types):,} words of {self.name}; {like}. Name another "
                "word, split or corpus, or raise --limit"
            )
        return np.flatnonzero(self.type_of == self.types.index(lowered))

    def place(self, word: int) -> tuple[int, int]:
        """The text of a word, and where in it."""
        text = int(np.searchsorted(self.starts, word, side="right")) - 1
        return text, word - int(self.starts[text])


def read_words(corpus: Corpus, annotation: str | None = None) -> Occurrences:
    """One pass over a corpus; classes of `annotation`, by default of `sclass` or `supersense` where there is one.

    Example:
        >>> from lamina.corpora import corpus_from
        >>> words = read_words(corpus_from([["Dogs", "bark"], ["dogs", "sleep"]], name="pets"))
        >>> words.of("DOGS").tolist(), words.place(3)
        ([0, 2], (1, 1))
    """
    classed = annotation is not None or any(name in corpus.annotations for name in CLASSED)
    chosen = annotation_of(corpus, annotation) if classed else None
    numbers: dict[str, int] = {}
    spoken: list[int] = []
    lengths: list[int] = []
    classes: dict[int, str] = {}
    for text in corpus:
        if chosen is not None:
            classes |= {len(spoken) + place: name for place, name in _classes(text, chosen).items()}
        spoken += [numbers.setdefault(word.lower(), len(numbers)) for word in text.words]
        lengths.append(len(text.words))
    if not spoken:
        raise CorpusError(f"{corpus.name} has no texts")
    split = f" ({corpus.split})" if corpus.split else ""
    return Occurrences(f"{corpus.name}{split}", tuple(numbers), np.array(spoken), tuple(lengths), classes)


def _classes(text: Text, annotation: str) -> dict[int, str]:
    """Of single words only: an annotation of several words together is of none of them."""
    labels_by_word: defaultdict[int, set[str]] = defaultdict(set)
    for edge in text.edges.get(annotation, ()):
        if len(edge.span) == 1:
            labels_by_word[edge.span.start].update(edge.labels)
    return {word: AND.join(sorted(labels)) for word, labels in labels_by_word.items() if labels}


def sentences(corpus: Corpus, words: Occurrences, wanted: Iterable[int]) -> dict[int, tuple[str, str]]:
    """Word -> the id of its text, and the text around it with the word in brackets."""
    by_text: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for word in set(wanted):
        text, place = words.place(word)
        by_text[text].append((word, place))
    by_word = {}
    for number, text in enumerate(corpus):
        for word, place in by_text.get(number, ()):
            by_word[word] = text.id, in_brackets(text.words, place)
    return by_word


def in_brackets(words: tuple[str, ...], place: int) -> str:
    """The words around one word, which is in brackets.

    Example:
        >>> in_brackets(("a", "quiet", "place"), 2)
        'a quiet [place]'
    """
    start, end = max(0, place - _AROUND), min(len(words), place + 1 + _AROUND)
    listed = [f"[{word}]" if start + here == place else word for here, word in enumerate(words[start:end])]
    return " ".join(["…"] * (start > 0) + listed + ["…"] * (end < len(words)))
