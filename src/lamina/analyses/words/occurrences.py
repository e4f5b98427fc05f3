"""Words in context with their semantic classes: which occurrences are used, and which words teach, choose and score.

Wiki-PSE has millions of them, so an occurrence is a few numbers in arrays, and texts are read again when needed.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from lamina.corpora import Corpus
from lamina.corpora.corpus import fingerprint_of
from lamina.errors import CorpusError, InputError
from lamina.framework.watch import fit
from lamina.models import Encoder
from lamina.training.provenance import is_among
from lamina.types import Span, Text

SPLITS = ("train", "dev", "test")
DEV_SHARE, TEST_SHARE = 0.15, 0.25
"""Of the words, where a corpus does not list them; dev is a fifth of train where it lists train and test."""
_LISTED_DEV_SHARE = 0.2
_MOST_TEXTS_IN_MEMORY = 2**15
"""Most texts that stay in memory: enough for a treebank, not for an encyclopedia."""

SEEN = "texts that a model was fine-tuned on, left out"
TRUNCATED = "annotated words cut off with the end of their text (more than the most tokens)"
NO_CLASS = "annotated words without any class, left out"
PARTLY_RATED = "annotated words not rated for every class, left out"
OVER_THE_CAP = "contexts beyond the most a word and class may have, left out"
LOST_CLASSES = "classes without a word in each of train, dev and test, left out"
LOST_WORDS = "contexts whose only classes were left out"


class WordClassPair(NamedTuple):
    """A word with one of its classes."""

    word: int
    label: int
    contexts: Sequence[int] | Int[np.ndarray, " context"]
    """Its occurrences."""


@dataclass(frozen=True, eq=False)
class UsedTexts:
    """The texts that have a used word, cut to what is encoded.

    Read from the corpus again on every iteration; if they are few, they stay in memory after the first.
    """

    corpus: Corpus
    encoder: Encoder
    """Whose tokens are counted."""
    most_pieces: int
    numbers: Int[np.ndarray, " text"]
    """Which texts of the corpus, in its order."""

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[Text]:
        texts = self.__dict__.get("_held")
        return self._read() if texts is None else iter(texts)

    def _read(self) -> Iterator[Text]:
        wanted = iter(self.numbers.tolist())
        following = next(wanted, None)
        texts: list[Text] | None = [] if len(self) <= _MOST_TEXTS_IN_MEMORY else None
        for number, text in enumerate(self.corpus):
            if following is None:
                return
            if number == following:
                cut = fit(self.encoder, text, self.most_pieces)
                used = Text(cut.id, cut.words, cut.segments, doc=cut.doc)
                following = next(wanted, None)
                if texts is not None:
                    texts.append(used)
                    if following is None:
                        # Before the last one is yielded: its reader may stop there.
                        self.__dict__["_held"] = texts
                yield used


@dataclass(frozen=True, eq=False)
class WordsInContext:
    """Occurrences of words, each with all its classes, in the order of their texts.

    An occurrence with several classes is a context of each of its (word, class) pairs.
    """

    classes: tuple[str, ...]
    words: tuple[str, ...]
    """Lower-cased; several words joined by spaces."""
    split: tuple[str, ...]
    """[word] train, dev or test."""
    texts: UsedTexts
    text: Int[np.ndarray, " occurrence"]
    spans: Int[np.ndarray, "occurrence 2"]
    """Start and end within its text."""
    word: Int[np.ndarray, " occurrence"]
    gold: Bool[np.ndarray, "occurrence label"]
    pairs: tuple[WordClassPair, ...]
    skipped: Counter[str]

    def of(self, split: str) -> Int[np.ndarray, " occurrence"]:
        """The occurrences of a split's words."""
        return np.flatnonzero(np.array([split_of_word == split for split_of_word in self.split])[self.word])

    @cached_property
    def places(self) -> str:
        """A fingerprint of the texts and of where the words are in them, whatever their classes."""
        arrays = (self.texts.numbers, self.text, self.spans)
        digests = [hashlib.sha256(np.ascontiguousarray(array, np.int64).data).hexdigest() for array in arrays]
        return fingerprint_of(self.texts.corpus.fingerprint, self.texts.most_pieces, digests)

    @cached_property
    def labels(self) -> str:
        """A fingerprint of classes, words and splits."""
        arrays = (self.word, self.gold)
        digests = [hashlib.sha256(np.ascontiguousarray(array, np.int64).data).hexdigest() for array in arrays]
        return fingerprint_of(self.classes, self.words, self.split, digests)


@dataclass
class _AnnotatedWords:
    """All annotated words, column by column."""

    texts: array = field(default_factory=lambda: array("q"))
    """The number of the text in the corpus."""
    starts: array = field(default_factory=lambda: array("i"))
    ends: array = field(default_factory=lambda: array("i"))
    words: array = field(default_factory=lambda: array("i"))
    keys: array = field(default_factory=lambda: array("d"))
    """What contexts are drawn by."""
    labels: array = field(default_factory=lambda: array("i"))
    """Its set of classes, by number."""
    rated: array = field(default_factory=lambda: array("i"))
    """The set of classes that annotators rated, by number."""
    known_words: dict[str, int] = field(default_factory=dict)
    known_labels: dict[tuple[str, ...], int] = field(default_factory=dict)
    known_rated: dict[frozenset[str] | None, int] = field(default_factory=dict)
    listed: dict[str, str] = field(default_factory=dict)
    """Word -> the split that a list of the corpus gives it."""

    def add(
        self, number: int, text: Text, span: Span, labels: tuple[str, ...], rated: frozenset[str] | None, seed: int
    ):
        """One occurrence."""
        word = _word(text, span)
        self.texts.append(number)
        self.starts.append(span.start)
        self.ends.append(span.end)
        self.words.append(self.known_words.setdefault(word, len(self.known_words)))
        self.keys.append(_share(seed, f"{text.id} {span.start}", word))
        self.labels.append(self.known_labels.setdefault(labels, len(self.known_labels)))
        self.rated.append(self.known_rated.setdefault(rated, len(self.known_rated)))

    def sets(self) -> Bool[np.ndarray, "set class"]:
        """[set of classes, class] Which classes a set has; classes in alphabetical order."""
        return np.array([[name in labels for name in self.classes] for labels in self.known_labels], bool).reshape(
            len(self.known_labels), len(self.classes)
        )

    @property
    def classes(self) -> list[str]:
        """All classes, in alphabetical order."""
        return sorted({name for labels in self.known_labels for name in labels})


def find_words(
    corpus: Corpus,
    encoder: Encoder,
    *,
    annotation: str | None = None,
    most_contexts: int = 100,
    most_pieces: int = 128,
    most_words: int | None = None,
    seed: int = 0,
    without: frozenset[str] = frozenset(),
) -> WordsInContext:
    """The annotated words of a corpus, sampled and split; every choice is by hash with `seed`.

    Args:
        corpus: whose texts; pooled whatever their split, since words are split, not texts.
        encoder: whose tokens are counted.
        annotation: `sclass` or, where the corpus lacks it, `supersense` by default.
        most_contexts: that a (word, class) pair may have.
        most_pieces: of a text; its end is cut.
        most_words: about how many words are drawn; all by default.
        seed: of every draw.
        without: hashes of texts that must not be used (those a model was fine-tuned on).

    Example:
        >>> from lamina.corpora import corpus_from
        >>> from lamina.testing import TinyEncoder
        >>> find_words(corpus_from([["Dogs"]], name="pets"), TinyEncoder())
        Traceback (most recent call last):
        lamina.errors.CorpusError: pets has no annotation 'sclass' or 'supersense': ...
    """
    chosen = annotation_of(corpus, annotation)
    skipped: Counter[str] = Counter()
    annotated = _collect(corpus, encoder, chosen, most_pieces, without, seed, skipped)
    rows = _fully_rated(annotated, skipped)
    split = _splits(annotated, rows, seed)
    word, sets = (np.frombuffer(column, np.int32) for column in (annotated.words, annotated.labels))
    if most_words is not None:
        rows = rows[_drawn_words(annotated, split, most_words, seed)[word[rows]]]
    usable = _usable_classes(annotated, rows, split, corpus, chosen, skipped)
    # Which usable classes an occurrence has, by the number of its set.
    has = annotated.sets()[:, usable]
    left = rows[np.any(has[sets[rows]], axis=1)]
    skipped[LOST_WORDS] += len(rows) - len(left)
    classes = tuple(np.array(annotated.classes, object)[usable].tolist())
    read = partial(UsedTexts, corpus, encoder, most_pieces)
    return _sampled(annotated, left, split, classes, has, read, most_contexts, skipped)


def annotation_of(corpus: Corpus, name: str | None) -> str:
    """The annotation that has the classes."""
    candidates = [name] if name else ["sclass", "supersense"]
    there = [name for name in candidates if name in corpus.annotations]
    if not there:
        named = " or ".join(map(repr, candidates))
        raise CorpusError(
            f"{corpus.name} has no annotation {named}: words in context need semantic classes. It has: "
            f"{', '.join(corpus.annotations) or 'none'}; use ewt, streusle, uds_wordsense_factuality or a Wiki-PSE file"
        )
    return there[0]


def _collect(
    corpus: Corpus, encoder: Encoder, annotation: str, most: int, without: frozenset[str], seed: int,
    skipped: Counter[str],
) -> _AnnotatedWords:  # fmt: skip
    annotated = _AnnotatedWords()
    for number, text in enumerate(corpus):
        if not text.edges.get(annotation):
            continue
        if without and is_among(text, without):
            skipped[SEEN] += 1
            continue
        cut = fit(encoder, text, most)
        skipped[TRUNCATED] += len(text.edges[annotation]) - len(cut.edges[annotation])
        # Several edges over one span are several classes of one occurrence.
        labels_by_span: dict[Span, set[str]] = {}
        rated: dict[Span, frozenset[str] | None] = {}
        for edge in cut.edges[annotation]:
            if edge.labels:
                labels_by_span.setdefault(edge.span, set()).update(edge.labels)
                rated[edge.span] = None if edge.rated is None else frozenset(edge.rated)
            else:
                skipped[NO_CLASS] += 1
        for span, labels in labels_by_span.items():
            annotated.add(number, cut, span, tuple(sorted(labels)), rated[span], seed)
        annotated.listed |= {_word(cut, edge.span): edge.labels[0] for edge in cut.edges.get("sclass_split", ())}
    return annotated


def _fully_rated(annotated: _AnnotatedWords, skipped: Counter[str]) -> Int[np.ndarray, " annotated"]:
    """The occurrences of which every class is known to hold or not."""
    every = set(annotated.classes)
    full = np.array([rated is None or every <= rated for rated in annotated.known_rated], bool)
    rows = np.flatnonzero(full[np.frombuffer(annotated.rated, np.int32)]) if len(full) else np.zeros(0, np.int64)
    skipped[PARTLY_RATED] += len(annotated.rated) - len(rows)
    return rows


def _word(text: Text, span: Span) -> str:
    return " ".join(text.words[span.start : span.end]).lower()


def _splits(annotated: _AnnotatedWords, rows: Int[np.ndarray, " annotated"], seed: int) -> Int[np.ndarray, " word"]:
    """Word -> the number of its split, -1 for a word without occurrence.

    As listed, with dev cut out of train where no list is called so; by hash otherwise.
    """
    split = np.full(len(annotated.known_words), -1)
    listed, cut_dev = annotated.listed, "dev" not in annotated.listed.values()
    there = np.zeros(len(split), bool)
    there[np.frombuffer(annotated.words, np.int32)[rows]] = True
    for word, number in annotated.known_words.items():
        if not there[number]:
            continue
        share = _share(seed, "split", word)
        if not listed:
            given = "dev" if share < DEV_SHARE else "test" if share < DEV_SHARE + TEST_SHARE else "train"
        else:
            # A word that no list has is learned from: what is scored stays as it was given.
            given = listed.get(word, "train")
            given = "dev" if given == "train" and cut_dev and share < _LISTED_DEV_SHARE else given
        split[number] = SPLITS.index(given)
    return split


def _drawn_words(annotated: _AnnotatedWords, split: np.ndarray, most: int, seed: int) -> Bool[np.ndarray, " word"]:
    there = [word for word, number in annotated.known_words.items() if split[number] >= 0]
    drawn = np.zeros(len(split), bool)
    for word in sorted(there, key=lambda word: _share(seed, "word", word))[:most]:
        drawn[annotated.known_words[word]] = True
    return drawn


def _usable_classes(
    annotated: _AnnotatedWords,
    rows: np.ndarray,
    split: np.ndarray,
    corpus: Corpus,
    annotation: str,
    skipped: Counter[str],
) -> Bool[np.ndarray, " class"]:
    """The classes that have a word in every split."""
    word, sets = (np.frombuffer(column, np.int32)[rows] for column in (annotated.words, annotated.labels))
    seen = np.zeros((len(SPLITS), len(annotated.known_labels)), bool)
    seen[split[word], sets] = True
    in_split = np.stack([annotated.sets()[in_one_split].any(0) for in_one_split in seen])
    usable = np.asarray(in_split.all(0))
    skipped[LOST_CLASSES] += int(in_split.any(0).sum() - usable.sum())
    if not usable.any():
        raise CorpusError(
            f"{corpus.name}: no class of {annotation!r} has a word in each of train, dev and test; words are split, so "
            f"a class needs several words. Found {int(in_split.any(0).sum())} classes over {int((split >= 0).sum())} "
            "words; give more text"
        )
    return usable


def _sampled(
    annotated: _AnnotatedWords,
    rows: np.ndarray,
    split: np.ndarray,
    classes: tuple[str, ...],
    has: Bool[np.ndarray, "set class"],
    read: Callable[[np.ndarray], UsedTexts],
    most: int,
    skipped: Counter[str],
) -> WordsInContext:
    """At most `most` contexts of each pair, those with the lowest keys."""
    word, sets = (np.frombuffer(column, np.int32)[rows] for column in (annotated.words, annotated.labels))
    key = np.frombuffer(annotated.keys, np.float64)[rows]
    used_rows = np.zeros(len(rows), bool)
    chosen: list[tuple[int, np.ndarray, np.ndarray]] = []
    for label in range(len(classes)):
        of_class = np.flatnonzero(has[sets, label])
        # By word, then by key; the contexts of lowest rank within the word stay.
        of_class = of_class[np.lexsort((key[of_class], word[of_class]))]
        first = np.r_[True, np.diff(word[of_class]) != 0]
        starts = np.flatnonzero(first)
        rank = np.arange(len(of_class)) - np.repeat(starts, np.diff(np.r_[starts, len(of_class)]))
        of_class = of_class[rank < most]
        used_rows[of_class] = True
        chosen.append((label, of_class, word[of_class]))
    skipped[OVER_THE_CAP] += int(len(rows) - used_rows.sum())
    used = rows[used_rows]
    number = np.cumsum(used_rows) - 1
    spoken = list(annotated.known_words)
    old_words = np.unique(word[used_rows])
    order = sorted(old_words.tolist(), key=spoken.__getitem__)
    word_at = np.full(len(spoken), -1)
    word_at[order] = np.arange(len(order))
    numbers, text = np.unique(np.frombuffer(annotated.texts, np.int64)[used], return_inverse=True)
    spans = np.stack([np.frombuffer(column, np.int32)[used] for column in (annotated.starts, annotated.ends)], 1)
    return WordsInContext(
        classes,
        tuple(spoken[spoken_number] for spoken_number in order),
        tuple(SPLITS[split[spoken_number]] for spoken_number in order),
        read(numbers),
        text.astype(np.int32),
        spans,
        word_at[word[used_rows]].astype(np.int32),
        has[sets[used_rows]],
        tuple(_pairs(chosen, number, word_at)),
        skipped,
    )


def _pairs(
    chosen: Sequence[tuple[int, np.ndarray, np.ndarray]], number: np.ndarray, word_at: np.ndarray
) -> list[WordClassPair]:
    """Every word with every class it has, by word and then by class; contexts in the order of the texts."""
    pairs = []
    for label, rows, words in chosen:
        contexts = number[rows].astype(np.int32)
        order = np.lexsort((contexts, words))
        contexts, words = contexts[order], words[order]
        starts = np.flatnonzero(np.r_[True, np.diff(words) != 0]) if len(words) else np.zeros(0, int)
        for part, word in zip(np.split(contexts, starts[1:]), words[starts].tolist(), strict=True):
            pairs.append(WordClassPair(int(word_at[word]), label, part))
    return sorted(pairs, key=lambda pair: (pair.word, pair.label))


def _share(seed: int, what: str, name: str) -> float:
    digest = hashlib.sha256(f"{seed} {what} {name}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "little") / 2**64


# Where a word occurs: every word of a corpus as a number, the classes of those that have one, their sentences.

CLASSED = ("sclass", "supersense")
"""Annotations that give a word its class; the first one in the corpus is used."""

AND = "+"
"""Between the classes of a word that has several at once."""

_AROUND = 15
"""Words each side of a word that are shown with it."""


@dataclass(frozen=True, eq=False)
class WordOccurrences:
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
        """Where a word occurs, whatever its case; an error with similar words where it does not."""
        lowered = word.strip().lower()
        if len(lowered.split()) != 1:
            raise InputError(f"one word is looked at, not {word!r}; name a single word of the corpus")
        if lowered not in self.types:
            near = get_close_matches(lowered, self.types, n=5)
            like = f"similar words: {', '.join(near)}" if near else "no word of it is similar"
            raise InputError(
                f"{lowered!r} does not occur among the {len(self.types):,} words of {self.name}; {like}. Name another "
                "word, split or corpus, or raise --limit"
            )
        return np.flatnonzero(self.type_of == self.types.index(lowered))

    def place(self, word: int) -> tuple[int, int]:
        """The text of a word, and where in it."""
        text = int(np.searchsorted(self.starts, word, side="right")) - 1
        return text, word - int(self.starts[text])


def read_words(corpus: Corpus, annotation: str | None = None) -> WordOccurrences:
    """One pass over a corpus; classes of `annotation`, by default of `sclass` or `supersense` if the corpus has one.

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
    return WordOccurrences(f"{corpus.name}{split}", tuple(numbers), np.array(spoken), tuple(lengths), classes)


def _classes(text: Text, annotation: str) -> dict[int, str]:
    """Of single words only: an annotation of several words together is of none of them."""
    labels_by_word: defaultdict[int, set[str]] = defaultdict(set)
    for edge in text.edges.get(annotation, ()):
        if len(edge.span) == 1:
            labels_by_word[edge.span.start].update(edge.labels)
    return {word: AND.join(sorted(labels)) for word, labels in labels_by_word.items() if labels}


def sentences_around(corpus: Corpus, words: WordOccurrences, wanted: Iterable[int]) -> dict[int, tuple[str, str]]:
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
