"""Negative polarity items as probing tasks: is there one, is there a licensor, is the item in its scope?

After Warstadt et al. (2019), made of BLiMP's paradigms, in which both sentences of a pair differ in nothing else.
Function words, and words that occur in many sentences of a paradigm (only, ever), are its frame; all other words are
lexical items, and no lexical item of a task is in both its training and its scored texts.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from lamina.corpora.corpus import Corpus, fingerprint_of
from lamina.corpora.reading import Notes
from lamina.corpora.splits import Splits
from lamina.corpora.suites.minimal_pairs import MinimalPair, MinimalPairs, read_pairs
from lamina.corpora.tokenising import words_in
from lamina.errors import CorpusError
from lamina.types import Edge, Span, Text

TASKS = {
    "npi_presence": {"npi_present_1": ("0", "1"), "npi_present_2": ("0", "1")},
    "npi_licensor": {
        "only_npi_licensor_present": ("1", "0"),
        "sentential_negation_npi_licensor_present": ("1", "0"),
        "matrix_question_npi_licensor_present": ("1", "0"),
    },
    "npi_scope": {"only_npi_scope": ("1", "0"), "sentential_negation_npi_scope": ("1", "0")},
}
"""Task -> its paradigms, with the labels of the good and of the bad sentence."""
_FRAME = 0.15
"""Share of a paradigm's sentences from which on a word is part of its frame."""
_FUNCTION = frozenset(
    (
        "a", "an", "the", "this", "that", "these", "those", "some", "most", "many", "all", "every", "each", "lot", "of",
        "to", "up", "down", "at", "from", "about", "around", "with", "in", "on", "by", "for", "out", "over", "through",
        "away", "off", "into", "like", "who", "what", "which", "whose", "there", "here", "and", "or", "as", "while",
        "before", "after", "is", "are", "was", "were", "be", "been", "had", "has", "have", "having", "do", "does",
        "did", "can", "could", "will", "would", "shall", "should", "may", "might", "must", "not", "he", "she", "it",
        "they", "his", "her", "its", "their", "ex",
    )
)  # fmt: skip
"""Words of the frame, however rare."""
_TRIED = 200
"""Ways to deal lexical items out that are tried; the one that leaves most pairs is taken."""
_LEAST = 20
"""Pairs of a task that each set needs."""
_TRAIN = 0.6
"""Share of the lexical items that training texts may have."""


class _NpiPair(NamedTuple):
    pair: MinimalPair
    labels: tuple[str, str]
    items: frozenset[str]
    """Its lexical items, in lower case."""


def npi_splits(suite: str | Path = "blimp", *, seed: int = 0) -> Splits:
    """Training and scored texts with the annotations of `TASKS` that the suite has enough pairs for.

    Example:
        >>> splits = npi_splits("blimp")  # doctest: +SKIP
        >>> sorted(splits.scored.annotations)  # doctest: +SKIP
        ['npi_licensor', 'npi_presence', 'npi_scope']
    """
    pairs = read_pairs(suite)
    parts: dict[bool, list[Text]] = {False: [], True: []}
    notes = Notes()
    declared: list[str] = []
    for task, paradigms in TASKS.items():
        candidates = _pairs_of(pairs, paradigms)
        dealt = _deal(task, candidates, seed)
        enough = min(len(dealt[False]), len(dealt[True])) >= _LEAST
        taken = {one.pair.item for of_set in dealt.values() for one in of_set} if enough else set()
        for one in candidates:
            if one.pair.item not in taken:
                why = "pairs with words of both sets" if enough else "too few pairs without a word of the other set"
                notes.add(f"{task}: {why}", one.pair.item)
        if enough:
            declared.append(task)
            for scored, chosen in dealt.items():
                parts[scored] += [text for one in chosen for text in _texts(task, one)]
    if not declared:
        raise CorpusError(
            f"{pairs.name} has fewer than {_LEAST} pairs of each of BLiMP's NPI paradigms for either set; give a suite "
            f"with {', '.join(TASKS['npi_presence'])} and the like, such as blimp"
        )
    splits = ("train", parts[False]), ("test", parts[True])
    train, scored_texts = (_corpus(pairs, split, tuple(texts), declared, seed, notes) for split, texts in splits)
    return Splits(train, scored_texts)


def _pairs_of(pairs: Iterable[MinimalPair], paradigms: dict[str, tuple[str, str]]) -> list[_NpiPair]:
    by_paradigm: dict[str, list[MinimalPair]] = defaultdict(list)
    for pair in pairs:
        if pair.paradigm in paradigms:
            by_paradigm[pair.paradigm].append(pair)
    npi_pairs: list[_NpiPair] = []
    for paradigm, chosen in by_paradigm.items():
        words = [frozenset(word.lower() for word in words_in(f"{pair.good} {pair.bad}")) for pair in chosen]
        often = Counter(word for one in words for word in one)
        frame = {word for word, count in often.items() if count > _FRAME * len(chosen) or not word.isalpha()}
        frame |= _FUNCTION
        npi_pairs += [_NpiPair(pair, paradigms[paradigm], one - frame) for pair, one in zip(chosen, words, strict=True)]
    return npi_pairs


def _deal(task: str, pairs: Sequence[_NpiPair], seed: int) -> dict[bool, list[_NpiPair]]:
    """Pairs all of whose lexical items are dealt to one set: training (False), or scored (True)."""
    best: dict[bool, list[_NpiPair]] = {False: [], True: []}
    for trial in range(_TRIED):
        dealt: dict[bool, list[_NpiPair]] = {False: [], True: []}
        for one in pairs:
            sides = {_is_scored(f"{seed} {task} {trial} {item}") for item in one.items}
            if len(sides) == 1:
                dealt[sides.pop()].append(one)
        # Twice as many training pairs as scored ones are wanted.
        if _worth(dealt) > _worth(best):
            best = dealt
    return best


def _worth(dealt: dict[bool, list[_NpiPair]]) -> float:
    return min(len(dealt[False]) / 2, len(dealt[True]))


def _is_scored(key: str) -> bool:
    drawn = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(drawn) / 2**64 >= _TRAIN


def _texts(task: str, one: _NpiPair) -> Iterable[Text]:
    """Both sentences; they are resampled together."""
    for side, sentence, label in zip(("good", "bad"), (one.pair.good, one.pair.bad), one.labels, strict=True):
        words = words_in(sentence)
        edge = Edge((label,), Span(0, len(words)))
        yield Text(f"{one.pair.item} {side}", words, edges={task: (edge,)}, doc=one.pair.item)


def _corpus(
    pairs: MinimalPairs, split: str, texts: tuple[Text, ...], declared: Sequence[str], seed: int, notes: Notes
) -> Corpus:
    return Corpus(
        f"NPIs of {pairs.name}",
        split,
        "sentence",
        "as given",
        fingerprint_of("npi 1", pairs.fingerprint, split, seed),
        lambda: iter(texts),
        files=dict(pairs.files),
        declared=tuple(declared),
        notes=notes,
    )
