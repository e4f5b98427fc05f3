"""Perturbed input: words in another order, words left out; each word keeps its identity.

A perturbation of some words is the numbers of those that stay, in their new order. Punctuation that ends a sentence
stays where it is, so that the sentence does not merely seem to end early.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, NamedTuple, get_args

import numpy as np

from lamina.types import Span, Text

Way = Literal[
    "shuffled", "shuffled_within", "phrases", "cut_first", "cut_last", "content", "function", "positions", "subject",
    "object", "arguments", "no_question", "no_context",
]  # fmt: skip
HOWS: tuple[Way, ...] = get_args(Way)
FUNCTION = frozenset({"ADP", "AUX", "CCONJ", "CONJ", "DET", "PART", "PRON", "SCONJ"})
CONTENT = frozenset({"ADJ", "ADV", "INTJ", "NOUN", "NUM", "PROPN", "VERB"})
_NEITHER = frozenset({"PUNCT", "SYM", "X"})
UPOS = FUNCTION | CONTENT | _NEITHER
"""The universal parts of speech, which distinguish content words from function words; CONJ is of the first version."""
RANDOM: frozenset[Way] = frozenset({"shuffled", "shuffled_within", "phrases"})
"""What is drawn at random, so that it can be drawn more than once."""
PARTIAL: frozenset[Way] = frozenset({"no_question", "no_context"})
"""One of the two parts of a question's input alone; nothing else has two parts."""
REMOVED: frozenset[Way] = frozenset({"content", "function", "subject", "object", "arguments"})
"""What leaves out as many words as a text has of a kind: its strength comes from the texts."""
_SUBJECTS, _OBJECTS = frozenset({"nsubj", "nsubjpass", "csubj", "csubjpass"}), frozenset({"obj", "dobj", "iobj"})
_RELATIONS: dict[str, frozenset[str]] = {
    "subject": _SUBJECTS,
    "object": _OBJECTS,
    "arguments": _SUBJECTS | _OBJECTS,
}
"""What is removed from the main clause -> the relations of its phrases, without subtypes."""
_DEPTHS = (1, 2)
"""Phrases whose words are shuffled: those right below the root, and those one step further down."""


class Perturbation(NamedTuple):
    """One way to perturb words, and how strongly."""

    how: Way
    strength: float
    """Words of an n-gram, steps from the root down to a phrase, share of words left out, positions shifted."""


@dataclass(frozen=True)
class PerturbableText:
    """The words of a text as perturbations see them.

    Example:
        >>> PerturbableText("s1", ("The", "dog", "barks", "."), (Span(0, 4),)).parts
        (Span(start=0, end=4),)
    """

    id: str
    """What random order is drawn by, beside the seed."""
    words: tuple[str, ...]
    parts: tuple[Span, ...]
    """Sentences: words leave their sentence under no perturbation."""
    alike: tuple[int, ...] | None = None
    """[word] Words of equal number are moved alike: those that two sentences of a pair share; None: each by itself."""
    tags: tuple[str, ...] | None = None
    """[word] Universal parts of speech; None where they are not known."""
    heads: tuple[int, ...] | None = None
    """[word] Its head, itself for a root; None where dependencies are not known."""
    relations: tuple[str, ...] | None = None
    """[word] Its relation to its head, without its subtype."""

    @classmethod
    def of(cls, text: Text) -> PerturbableText:
        """The words of a text, with its parts of speech and dependencies where it has them for every word."""
        return cls(text.id, text.words, _sentences(text), None, _tags(text), *_dependencies(text))


def plan(
    ways: Iterable[Way], *, ngrams: Sequence[int], cuts: Sequence[float], shifts: Sequence[int]
) -> list[Perturbation]:
    """Every perturbation that is asked for; content and function words have their strength from the texts.

    Example:
        >>> [tuple(each) for each in plan(["shuffled", "cut_last"], ngrams=[1, 2], cuts=[0.5], shifts=[])]
        [('shuffled', 1), ('shuffled', 2), ('cut_last', 0.5)]
    """
    strengths: dict[Way, Sequence[float]] = {
        "shuffled": ngrams, "shuffled_within": ngrams, "phrases": _DEPTHS, "cut_first": cuts, "cut_last": cuts,
        **dict.fromkeys(REMOVED, (np.nan,)), "positions": shifts, **dict.fromkeys(PARTIAL, (1,)),
    }  # fmt: skip
    wanted = set(ways)
    return [Perturbation(how, strength) for how in HOWS if how in wanted for strength in dict.fromkeys(strengths[how])]


def missing(perturbation: Perturbation, written: PerturbableText) -> str | None:
    """What the text lacks to be perturbed so; None if it lacks nothing."""
    how = perturbation.how
    if (how == "phrases" or how in _RELATIONS) and written.heads is None:
        return "dependencies"
    if how in _RELATIONS:
        kinds = {"subject": (_SUBJECTS,), "object": (_OBJECTS,), "arguments": (_SUBJECTS, _OBJECTS)}[how]
        there = {relation for word, relation in enumerate(written.relations or ()) if _below_root(written, word)}
        if any(kind.isdisjoint(there) for kind in kinds):
            return {"subject": "a subject", "object": "an object"}.get(how, "a subject and an object")
    if how in ("content", "function") and written.tags is None:
        return "universal parts of speech"
    return None


def order_of(perturbation: Perturbation, written: PerturbableText, *, seed: int, draw: int = 0) -> list[int]:
    """The numbers of the words that stay, in their new order; none if nothing is left but closing punctuation.

    Example:
        >>> words = PerturbableText("s1", ("a", "b", "c", "d", "e", "."), (Span(0, 6),))
        >>> order_of(Perturbation("cut_first", 0.4), words, seed=0)
        [2, 3, 4, 5]
        >>> drawn = order_of(Perturbation("shuffled", 1), words, seed=0)
        >>> sorted(drawn), drawn[-1]
        ([0, 1, 2, 3, 4, 5], 5)
    """
    how, strength = perturbation
    if how in ("cut_first", "cut_last"):
        return _cut(written, strength, first=how == "cut_first")
    keys = _keys(written, f"{seed}:{draw}:{how}:{strength:g}:{written.id}")
    order: list[int] = []
    for part in written.parts:
        inner, closing = _closed(written.words, part)
        order += [*_WAYS[how](written, inner, strength, keys), *closing]
    return order


def share_left_out(orders: Iterable[tuple[Sequence[int], int]]) -> float:
    """The share of words that perturbing left out, given the words that stayed and how many there were."""
    stayed, there = np.sum([(len(order), size) for order, size in orders], axis=0)
    return float(np.round(1 - stayed / there, 3))


def _keys(written: PerturbableText, key: str) -> np.ndarray:
    """[word] Random numbers that words are ordered by, from a key alone; words that are alike have the same."""
    alike = np.arange(len(written.words)) if written.alike is None else np.array(written.alike)
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    drawn = np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "big"))).random(int(alike.max()) + 1)
    return drawn[alike]


def _closed(words: Sequence[str], part: Span) -> tuple[list[int], list[int]]:
    """The words of a sentence, and the punctuation that ends it."""
    end = part.end
    while end > part.start and not _spoken(words[end - 1]):
        end -= 1
    return list(range(part.start, end)), list(range(end, part.end))


def _spoken(word: str) -> bool:
    return any(letter.isalnum() for letter in word)


def _shuffled(_: PerturbableText, inner: list[int], strength: float, keys: np.ndarray) -> list[int]:
    """N-grams stay whole, one after the other from the first word on; their order is drawn."""
    size = int(strength)
    grams = [inner[start : start + size] for start in range(0, len(inner), size)]
    return [word for gram in sorted(grams, key=lambda gram: keys[gram[0]]) for word in gram]


def _shuffled_within(_: PerturbableText, inner: list[int], strength: float, keys: np.ndarray) -> list[int]:
    """N-grams stay in their places; the order of their words is drawn."""
    size = int(strength)
    grams = (inner[start : start + size] for start in range(0, len(inner), size))
    return [word for gram in grams for word in sorted(gram, key=lambda word: keys[word])]


def _phrases(written: PerturbableText, inner: list[int], strength: float, keys: np.ndarray) -> list[int]:
    """The words of each phrase (a word with all that depends on it) change places with each other."""
    order = list(inner)
    places = {word: place for place, word in enumerate(inner)}
    for phrase in phrases_of(written.heads or (), int(strength)):
        movable = [word for word in phrase if word in places]
        for word, moved in zip(movable, sorted(movable, key=lambda word: keys[word]), strict=True):
            order[places[word]] = moved
    return order


def _content(written: PerturbableText, inner: list[int], _: float, __: np.ndarray) -> list[int]:
    return [word for word in inner if (written.tags or ())[word] in CONTENT]


def _function(written: PerturbableText, inner: list[int], _: float, __: np.ndarray) -> list[int]:
    return [word for word in inner if (written.tags or ())[word] in FUNCTION]


def _without(how: str) -> Callable[[PerturbableText, list[int], float, np.ndarray], list[int]]:
    """Leaves out the main clause's phrases of some relations."""

    def stay(written: PerturbableText, inner: list[int], _: float, __: np.ndarray) -> list[int]:
        heads, relations = written.heads or (), written.relations or ()
        gone: set[int] = set()
        for phrase in phrases_of(heads, 1):
            top = next(word for word in phrase if _below_root(written, word))
            if relations[top] in _RELATIONS[how]:
                gone.update(phrase)
        return [word for word in inner if word not in gone]

    return stay


def _below_root(written: PerturbableText, word: int) -> bool:
    """Whether a word depends on the root."""
    heads = written.heads or ()
    return heads[word] != word and heads[heads[word]] == heads[word]


def _as_it_is(_: PerturbableText, inner: list[int], __: float, ___: np.ndarray) -> list[int]:
    return inner


_WAYS: dict[str, Callable[[PerturbableText, list[int], float, np.ndarray], list[int]]] = {
    "shuffled": _shuffled,
    "shuffled_within": _shuffled_within,
    "phrases": _phrases,
    "content": _content,
    "function": _function,
    "positions": _as_it_is,
    **{how: _without(how) for how in _RELATIONS},
}


def _cut(written: PerturbableText, share: float, *, first: bool) -> list[int]:
    """The first or last share of the words is left out; one word stays at least, and what ends the last sentence."""
    inner, closing = _closed(written.words, Span(0, len(written.words)))
    gone = min(int(share * len(inner) + 0.5), max(0, len(inner) - 1))
    return [*(inner[gone:] if first else inner[: len(inner) - gone]), *closing]


def phrases_of(heads: Sequence[int], depth: int) -> list[list[int]]:
    """The words of each phrase whose head is `depth` steps below a root, in the order of the text.

    Example:
        >>> heads = (1, 2, 2, 4, 2)  # the dog sees a cat
        >>> phrases_of(heads, 1), phrases_of(heads, 2)
        ([[0, 1], [3, 4]], [[0], [3]])
    """
    phrases: dict[int, list[int]] = defaultdict(list)
    for word in range(len(heads)):
        path = [word]
        while heads[path[-1]] != path[-1] and len(path) <= len(heads):
            path.append(heads[path[-1]])
        if len(path) > depth:
            phrases[path[-1 - depth]].append(word)
    return list(phrases.values())


def _sentences(text: Text) -> tuple[Span, ...]:
    """The sentences of a text, where it says them and they cover it; else its segments."""
    spans = tuple(sorted(edge.span for edge in text.edges.get("sentence", ())))
    ends = [0, *(span.end for span in spans)]
    covered = (
        bool(spans) and ends[-1] == len(text.words) and all(s.start == e for s, e in zip(spans, ends, strict=False))
    )
    return spans if covered else text.segments


def _tags(text: Text) -> tuple[str, ...] | None:
    by_word: dict[int, str] = {
        edge.span.start: edge.labels[0] for edge in text.edges.get("pos", ()) if len(edge.span) == 1 and edge.labels
    }
    tags = tuple(by_word.get(word, "") for word in range(len(text.words)))
    return tags if UPOS.issuperset(tags) else None


def _dependencies(text: Text) -> tuple[tuple[int, ...] | None, tuple[str, ...] | None]:
    """Heads and relations, where every word has them."""
    by_word = {
        edge.span.start: (edge.other.start, edge.labels[0].partition(":")[0])
        for edge in text.edges.get("dep", ())
        if edge.other is not None and len(edge.span) == len(edge.other) == 1 and edge.labels
    }
    if len(by_word) != len(text.words):
        return None, None
    heads, relations = zip(*(by_word[word] for word in range(len(text.words))), strict=True)
    return heads, relations


class Lexicon:
    """Each word's most frequent universal part of speech, for sentences that have none; unknown words are nouns.

    Example:
        >>> from lamina.types import Edge
        >>> tagged = Text("s", ("The", "dog"), edges={"pos": (Edge("DET", Span(0, 1)), Edge("NOUN", Span(1, 2)))})
        >>> Lexicon([tagged]).tags(["the", "cat", "."])
        ('DET', 'NOUN', 'PUNCT')
    """

    def __init__(self, texts: Iterable[Text]) -> None:
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for text in texts:
            for word, tag in zip(text.words, _tags(text) or (), strict=False):
                counts[word.lower()][tag] += 1
        self._tags = {word: max(sorted(tags), key=tags.__getitem__) for word, tags in counts.items()}

    def __bool__(self) -> bool:
        return bool(self._tags)

    def tags(self, words: Sequence[str]) -> tuple[str, ...]:
        """The parts of speech of some words."""
        return tuple(self._tags.get(word.lower(), "NOUN" if _spoken(word) else "PUNCT") for word in words)


def pair_of(id: str, good: str, bad: str, lexicon: Lexicon | None = None) -> tuple[PerturbableText, PerturbableText]:
    """Two sentences, split at white space, whose shared words are moved alike: in the same place or another.

    Closing punctuation is cut off the last word and is a word of its own.

    Example:
        >>> one, two = pair_of("p", "Cats annoy Tim.", "Cats annoys Tim.")
        >>> one.words, one.alike == two.alike
        (('Cats', 'annoy', 'Tim', '.'), True)
    """
    first, second = _split(good), _split(bad)
    numbers = _aligned(first, second)
    sentences = [
        PerturbableText(id, words, (Span(0, len(words)),), alike, lexicon.tags(words) if lexicon else None)
        for words, alike in ((first, tuple(range(len(first)))), (second, numbers))
    ]
    return sentences[0], sentences[1]


def joined(words: Sequence[str]) -> str:
    """The words of a typed sentence as it is written: closing punctuation right after the last word.

    Example:
        >>> joined(("Cats", "annoy", "Tim", "."))
        'Cats annoy Tim.'
    """
    spoken, closing = _closed(words, Span(0, len(words))) if words else ([], [])
    return " ".join(words[number] for number in spoken) + "".join(words[number] for number in closing)


def _split(sentence: str) -> tuple[str, ...]:
    words = sentence.split()
    last = words.pop()
    end = len(last)
    while end and not last[end - 1].isalnum():
        end -= 1
    return (*words, *(part for part in (last[:end], last[end:]) if part))


def _aligned(first: Sequence[str], second: Sequence[str]) -> tuple[int, ...]:
    """[word of the second] The word of the first that it stands for; a number of its own where there is none.

    Equal words stand for each other wherever they are, then words that were replaced for those in their place.

    Example:
        >>> _aligned(("Who", "left", "there"), ("There", "left", "who", "now"))
        (2, 1, 0, 3)
    """
    mine, other = ([word.lower() for word in words] for words in (first, second))
    aligned: dict[int, int] = {}
    changed: list[tuple[list[int], list[int]]] = []
    for kind, a, b, c, d in SequenceMatcher(None, mine, other, autojunk=False).get_opcodes():
        if kind == "equal":
            aligned |= dict(zip(range(c, d), range(a, b), strict=True))
        else:
            changed.append((list(range(a, b)), list(range(c, d))))
    gone: dict[str, list[int]] = defaultdict(list)
    for old, _ in changed:
        for number_of in old:
            gone[mine[number_of]].append(number_of)
    for number_of in (number_of for _, new in changed for number_of in new if gone[other[number_of]]):
        aligned[number_of] = gone[other[number_of]].pop(0)
    left, number = set(aligned.values()), len(first)
    for old, new in changed:
        replaced, by = (
            [number_of for number_of in old if number_of not in left],
            [number_of for number_of in new if number_of not in aligned],
        )
        if len(replaced) != len(by):
            replaced, number = list(range(number, number + len(by))), number + len(by)
        aligned |= dict(zip(by, replaced, strict=True))
    return tuple(aligned[number_of] for number_of in range(len(second)))
