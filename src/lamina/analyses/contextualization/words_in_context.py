"""Words in context with their semantic classes: which occurrences are used, and which words teach, choose and score."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from lamina.analyses.watching import fit
from lamina.corpora import Corpus
from lamina.encoders import Encoder
from lamina.errors import CorpusError
from lamina.training.provenance import text_hash
from lamina.types import Edge, Span, Text

SPLITS = ("train", "dev", "test")
DEV_SHARE, TEST_SHARE = 0.15, 0.25
"""Of the words, where a corpus has no lists of its own; dev is a fifth of train where it lists train and test."""
_LISTED_DEV_SHARE = 0.2

SEEN = "texts that a model was fine-tuned on, left out"
TRUNCATED = "annotated words cut off with the end of their text (more than the most pieces)"
NO_CLASS = "annotated words without any class, left out"
PARTLY_RATED = "annotated words not rated for every class, left out"
OVER_THE_CAP = "contexts beyond the most a word and class may have, left out"
LOST_CLASSES = "classes without a word in each of train, dev and test, left out"
LOST_WORDS = "contexts whose only classes were left out"


class Pair(NamedTuple):
    """A word with one of its classes."""

    word: int
    label: int
    contexts: tuple[int, ...]
    """Its occurrences."""


@dataclass(frozen=True, eq=False)
class WordsInContext:
    """Occurrences of words, each with all its classes.

    An occurrence with several classes is a context of each of its (word, class) pairs.
    """

    classes: tuple[str, ...]
    words: tuple[str, ...]
    """Lower-cased; several words joined by spaces."""
    split: tuple[str, ...]
    """[word] train, dev or test."""
    texts: tuple[Text, ...]
    """Cut to what is encoded."""
    text: Int[np.ndarray, " occurrence"]
    spans: tuple[Span, ...]
    """[occurrence] Within its text."""
    word: Int[np.ndarray, " occurrence"]
    gold: Bool[np.ndarray, "occurrence label"]
    pairs: tuple[Pair, ...]
    skipped: Counter[str]

    def of(self, split: str) -> Int[np.ndarray, " occurrence"]:
        """The occurrences of a split's words."""
        return np.flatnonzero(np.isin(self.word, [at for at, own in enumerate(self.split) if own == split]))


class _Found(NamedTuple):
    text: int
    span: Span
    word: str
    labels: tuple[str, ...]
    rated: frozenset[str] | None
    """The classes that annotators were asked about; None: all."""


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
        corpus: whose texts; pooled whatever their own split, since words are split, not texts.
        encoder: whose pieces are counted.
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
    texts, found, listed = _collect(corpus, encoder, chosen, most_pieces, without, skipped)
    split_of = _split(found, listed, seed)
    if most_words is not None:
        drawn = set(sorted(split_of, key=lambda word: _share(seed, "word", word))[:most_words])
        found = [each for each in found if each.word in drawn]
    classes = _usable_classes(found, split_of, corpus, chosen, skipped)
    return _sampled(texts, found, split_of, classes, most_contexts, seed, skipped)


def annotation_of(corpus: Corpus, asked: str | None) -> str:
    """The annotation that has the classes."""
    candidates = [asked] if asked else ["sclass", "supersense"]
    there = [name for name in candidates if name in corpus.annotations]
    if not there:
        named = " or ".join(map(repr, candidates))
        raise CorpusError(
            f"{corpus.name} has no annotation {named}: words in context need semantic classes. It has: "
            f"{', '.join(corpus.annotations) or 'none'}; use ewt, streusle, uds_wordsense_factuality or a Wiki-PSE file"
        )
    return there[0]


def _collect(
    corpus: Corpus, encoder: Encoder, annotation: str, most: int, without: frozenset[str], skipped: Counter[str]
) -> tuple[list[Text], list[_Found], dict[str, str]]:
    """Texts that have annotated words, those words, and the split that lists of the corpus give them."""
    texts: list[Text] = []
    found: list[_Found] = []
    listed: dict[str, str] = {}
    for text in corpus:
        if not text.edges.get(annotation):
            continue
        if without and text_hash(text) in without:
            skipped[SEEN] += 1
            continue
        cut = fit(encoder, text, most)
        skipped[TRUNCATED] += len(text.edges[annotation]) - len(cut.edges[annotation])
        # Several edges over one span are several classes of one occurrence.
        said: dict[Span, Edge] = {}
        for edge in cut.edges[annotation]:
            if edge.labels:
                before = said[edge.span].labels if edge.span in said else ()
                said[edge.span] = Edge(tuple(sorted({*before, *edge.labels})), edge.span, rated=edge.rated)
            else:
                skipped[NO_CLASS] += 1
        found += [_found(len(texts), cut, edge) for edge in said.values()]
        listed |= {_word(cut, edge.span): edge.labels[0] for edge in cut.edges.get("sclass_split", ())}
        texts.append(cut)
    every = {label for each in found for label in each.labels}
    rated = [each for each in found if each.rated is None or every <= each.rated]
    skipped[PARTLY_RATED] += len(found) - len(rated)
    return texts, rated, listed


def _found(text: int, cut: Text, edge: Edge) -> _Found:
    rated = None if edge.rated is None else frozenset(edge.rated)
    return _Found(text, edge.span, _word(cut, edge.span), edge.labels, rated)


def _word(text: Text, span: Span) -> str:
    return " ".join(text.words[span.start : span.end]).lower()


def _split(found: list[_Found], listed: dict[str, str], seed: int) -> dict[str, str]:
    """Word -> its split: as listed, with dev cut out of train where no list is called so; by hash otherwise."""
    split_of = {}
    cut_dev = "dev" not in listed.values()
    for word in dict.fromkeys(each.word for each in found):
        share = _share(seed, "split", word)
        if not listed:
            given = "dev" if share < DEV_SHARE else "test" if share < DEV_SHARE + TEST_SHARE else "train"
        else:
            # A word that no list has is learned from: what is scored stays as it was given.
            given = listed.get(word, "train")
            given = "dev" if given == "train" and cut_dev and share < _LISTED_DEV_SHARE else given
        split_of[word] = given
    return split_of


def _usable_classes(
    found: list[_Found], split_of: dict[str, str], corpus: Corpus, annotation: str, skipped: Counter[str]
) -> tuple[str, ...]:
    where: defaultdict[str, set[str]] = defaultdict(set)
    for each in found:
        for label in each.labels:
            where[label].add(split_of[each.word])
    usable = tuple(sorted(label for label, splits in where.items() if len(splits) == len(SPLITS)))
    skipped[LOST_CLASSES] += len(where) - len(usable)
    if not usable:
        raise CorpusError(
            f"{corpus.name}: no class of {annotation!r} has a word in each of train, dev and test; words are split, so "
            f"a class needs several words. Found {len(where)} classes over {len(split_of)} words; give more text"
        )
    return usable


def _sampled(
    texts: list[Text], found: list[_Found], split_of: dict[str, str], classes: tuple[str, ...], most: int, seed: int,
    skipped: Counter[str],
) -> WordsInContext:  # fmt: skip
    place = {label: at for at, label in enumerate(classes)}
    usable = [each for each in found if any(label in place for label in each.labels)]
    skipped[LOST_WORDS] += len(found) - len(usable)
    contexts: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for at, each in enumerate(usable):
        for label in each.labels:
            if label in place:
                contexts[each.word, place[label]].append(at)
    keyed = {pair: sorted(own, key=lambda at: _key(texts, usable[at], seed))[:most] for pair, own in contexts.items()}
    kept = sorted({at for own in keyed.values() for at in own})
    skipped[OVER_THE_CAP] += len(usable) - len(kept)
    renumbered = {at: number for number, at in enumerate(kept)}
    words = tuple(sorted({usable[at].word for at in kept}))
    word_at = {word: number for number, word in enumerate(words)}
    text_at = {old: new for new, old in enumerate(sorted({usable[at].text for at in kept}))}
    gold = np.zeros((len(kept), len(classes)), bool)
    for number, at in enumerate(kept):
        gold[number, [place[label] for label in usable[at].labels if label in place]] = True
    return WordsInContext(
        classes,
        words,
        tuple(split_of[word] for word in words),
        tuple(texts[old] for old in text_at),
        np.array([text_at[usable[at].text] for at in kept]),
        tuple(usable[at].span for at in kept),
        np.array([word_at[usable[at].word] for at in kept]),
        gold,
        tuple(
            Pair(word_at[word], label, tuple(sorted(renumbered[at] for at in own)))
            for (word, label), own in sorted(keyed.items())
        ),
        skipped,
    )


def _key(texts: list[Text], each: _Found, seed: int) -> float:
    return _share(seed, f"{texts[each.text].id} {each.span.start}", each.word)


def _share(seed: int, what: str, name: str) -> float:
    digest = hashlib.sha256(f"{seed} {what} {name}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "little") / 2**64
