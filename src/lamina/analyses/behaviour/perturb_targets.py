"""What a language model says of perturbed texts: its loss, and which sentence of a minimal pair it prefers."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple, TypeVar

import numpy as np

from lamina.analyses.behaviour.perturb_items import PerturbedItems
from lamina.analyses.behaviour.perturbations import (
    RANDOM,
    Lexicon,
    PerturbableText,
    Perturbation,
    joined,
    missing,
    order_of,
    pair_of,
    share_left_out,
)
from lamina.corpora.minimal_pairs import Pair
from lamina.encoders.language_model import LanguageModel
from lamina.encoders.passages import Passage
from lamina.encoders.positions import with_model_shifted
from lamina.encoders.scoring import score
from lamina.errors import ModelError
from lamina.progress import progress
from lamina.stats.units import unit_of
from lamina.types import Text

LOSS, PAIRS = "loss", "pairs"
_Shifted = TypeVar("_Shifted")


class PerturbationPlan(NamedTuple):
    """How perturbations are drawn, and what they could not be done to."""

    plan: Sequence[Perturbation]
    seed: int
    draws: int
    skipped: Counter[str]
    """Why something was left out -> how many times."""

    def orders(self, perturbation: Perturbation, written: Sequence[PerturbableText], what: str) -> WordOrders:
        """The new order of the words of every text, once per draw; texts that cannot be perturbed so are counted."""
        found: dict[int, list[list[int]]] = {}
        left_out: Counter[str] = Counter()
        for at, each in enumerate(written):
            lacking = missing(perturbation, each)
            if lacking is not None:
                left_out[f"{what} without {lacking}: not perturbed by {perturbation.how}"] += 1
                continue
            draws = range(self.draws if perturbation.how in RANDOM else 1)
            orders = [order_of(perturbation, each, seed=self.seed, draw=draw) for draw in draws]
            if _says(each, range(len(each.words))) and not all(_says(each, order) for order in orders):
                left_out[f"{what} of which {perturbation.how} leaves no word"] += 1
                continue
            found[at] = orders
        self.note(left_out)
        if found and np.isnan(perturbation.strength):
            sizes = ((order, len(written[at].words)) for at, own in found.items() for order in own)
            perturbation = perturbation._replace(strength=share_left_out(sizes))
        return WordOrders(perturbation, found)

    def note(self, left_out: Mapping[str, int]) -> None:
        """Count what was left out; the same texts, left out at another strength or for the twin, are counted once."""
        for why, count in left_out.items():
            if count:
                self.skipped[why] = max(self.skipped[why], count)

    def shifted(self, perturbation: Perturbation, shift: Callable[[int], _Shifted], plain: _Shifted) -> _Shifted | None:
        """The model with its positions shifted where that is the perturbation, else as it is; None if impossible."""
        if perturbation.how != "positions":
            return plain
        try:
            return shift(int(perturbation.strength))
        except ModelError as error:
            self.note({f"positions not shifted: {error}": 1})
            return None


class WordOrders(NamedTuple):
    """The new order of words, by the number of the text; one per draw."""

    perturbation: Perturbation
    """With the share of words left out where the texts decide that."""
    found: dict[int, list[list[int]]]


def _says(written: PerturbableText, order: Sequence[int]) -> bool:
    """Whether there is a word among these, and not punctuation alone."""
    return any(letter.isalnum() for word in order for letter in written.words[word])


def some_texts(texts: Iterable[Text], most: int, seed: int) -> list[Text]:
    """At most so many texts, drawn by the hash of their ids, in the order of the corpus.

    Example:
        >>> texts = [Text(str(number), ("word",)) for number in range(9)]
        >>> len(some_texts(texts, 4, seed=0)), some_texts(texts, 20, seed=0) == texts
        (4, True)
    """
    held = list(texts)
    chosen = sorted(range(len(held)), key=lambda at: _share(seed, held[at].id))[:most]
    return [held[at] for at in sorted(chosen)]


def some_pairs(pairs: Iterable[Pair], most: int, seed: int) -> list[Pair]:
    """At most so many pairs, as many of every paradigm as can be, drawn by the hash of their ids."""
    by_paradigm: dict[str, list[Pair]] = defaultdict(list)
    for pair in sorted(pairs, key=lambda pair: _share(seed, pair.item)):
        by_paradigm[pair.paradigm].append(pair)
    rounds = zip_longest(*by_paradigm.values())
    return [pair for each in rounds for pair in each if pair is not None][:most]


def _share(seed: int, name: str) -> bytes:
    return hashlib.blake2b(f"{seed}:{name}".encode("utf-8", "surrogatepass"), digest_size=8).digest()


class _WordLosses(NamedTuple):
    """The words of a text as a model finds them."""

    surprisal: np.ndarray
    """[word] Minus the log-probability of its pieces."""
    pieces: np.ndarray
    """[word] How many they are."""
    windows: int
    """In which the text was read."""

    def of(self, words: Sequence[int]) -> tuple[float, int]:
        """Surprisal and pieces of some words."""
        return float(self.surprisal[words].sum()), int(self.pieces[words].sum())


def loss_items(model: LanguageModel, texts: Sequence[Text], drawing: PerturbationPlan) -> Iterator[PerturbedItems]:
    """Minus the log-probability per piece of the words that stay, in the perturbed text and in the text as it is.

    Words are joined by one space each in both, so that the two differ in nothing but the perturbation.
    """
    written = [PerturbableText.of(text) for text in texts]
    unit = unit_of(texts)
    known: dict[tuple[str, ...], _WordLosses] = {}
    clean = _surprisals(model, [(each.id, each.words) for each in written], f"loss of {model.name}", known)
    for asked in drawing.plan:
        perturbation, orders = drawing.orders(asked, written, "texts")
        reading = drawing.shifted(perturbation, lambda by: with_model_shifted(model, by), model)
        if reading is None or not orders:
            continue
        moved = [(written[at].id, [written[at].words[n] for n in order]) for at, own in orders.items() for order in own]
        what = f"loss of {model.name}, {in_words(perturbation)}"
        told = _surprisals(reading, moved, what, known if reading is model else {})
        drawing.note({"texts longer than the model's limit, read in windows": sum(each.windows > 1 for each in told)})
        said = iter(told)
        sums = np.zeros((4, len(written)))
        for at, own in orders.items():
            for order in own:
                sums[:, at] += *next(said).of(range(len(order))), *clean[at].of(order)
            # Draws are averaged: a text counts once.
            sums[:, at] /= len(own)
        kept = list(orders)
        names, units = tuple(written[at].id for at in kept), tuple(unit.of(texts[at]) for at in kept)
        yield PerturbedItems(LOSS, perturbation, names, units, *sums[:, kept], kind=unit.by)


def _surprisals(
    model: LanguageModel,
    texts: Sequence[tuple[str, Sequence[str]]],
    what: str,
    known: dict[tuple[str, ...], _WordLosses],
) -> list[_WordLosses]:
    """What the model makes of each text; those that are known already are not read again."""
    new = {tuple(words): id for id, words in texts if tuple(words) not in known}
    passages = [Passage.regions(id, [words[0], *(f" {word}" for word in words[1:])]) for words, id in new.items()]
    with progress(what, len(passages)) as advance:
        for words, scored in zip(new, score(model, passages), strict=True):
            inside = scored.spans >= 0
            pieces = np.bincount(scored.spans[inside], minlength=scored.parts)
            known[words] = _WordLosses(-np.nan_to_num(scored.by_span), pieces, scored.windows)
            advance()
    return [known[tuple(words)] for _, words in texts]


def pair_items(
    model: LanguageModel, pairs: Sequence[Pair], drawing: PerturbationPlan, lexicon: Lexicon | None
) -> Iterator[PerturbedItems]:
    """Whether the good sentence is more likely, both perturbed alike; one half where perturbing makes them equal."""
    written = [pair_of(pair.item, pair.good, pair.bad, lexicon) for pair in pairs]
    names = [pair.item for pair in pairs]
    known: dict[str, float] = {}
    clean = _preferred(model, [(good.words, bad.words) for good, bad in written], f"pairs for {model.name}", known)
    for asked in drawing.plan:
        (perturbation, good), (_, bad) = (
            drawing.orders(asked, [both[side] for both in written], "sentences of pairs") for side in (0, 1)
        )
        reading = drawing.shifted(perturbation, lambda by: with_model_shifted(model, by), model)
        kept = [at for at in good if at in bad]
        if reading is None or not kept:
            continue
        moved = [
            ([written[at][0].words[n] for n in one], [written[at][1].words[n] for n in two])
            for at in kept
            for one, two in zip(good[at], bad[at], strict=True)
        ]
        what = f"pairs for {model.name}, {in_words(perturbation)}"
        told = _preferred(reading, moved, what, known if reading is model else {})
        equal = {at for at, (one, two) in enumerate(moved) if joined(one) == joined(two)}
        drawing.note(
            {f"pairs that {perturbation.how} makes equal, scored one half": len(equal) * len(kept) // len(moved)}
        )
        own = told.reshape(len(kept), -1).mean(1)
        one = np.ones(len(kept))
        items = tuple(names[at] for at in kept)
        yield PerturbedItems(PAIRS, perturbation, items, items, own, one, clean[kept], one, chance=0.5, kind="item")


def _preferred(
    model: LanguageModel, pairs: Sequence[tuple[Sequence[str], Sequence[str]]], what: str, known: dict[str, float]
) -> np.ndarray:
    """[pair] 1 where the first is more likely, 0 where the second is, one half where neither is.

    Sentences whose log-probability is known already are not read again.
    """
    sentences = [joined(words) for pair in pairs for words in pair]
    new = [sentence for sentence in dict.fromkeys(sentences) if sentence not in known]
    with progress(what, len(new)) as advance:
        for sentence, scored in zip(new, score(model, (Passage(each, each, ()) for each in new)), strict=True):
            known[sentence] = scored.total
            advance()
    good, bad = np.array([known[sentence] for sentence in sentences]).reshape(-1, 2).T
    return np.where(good == bad, 0.5, good > bad).astype(float)


def in_words(perturbation: Perturbation) -> str:
    """A perturbation in words.

    Example:
        >>> in_words(Perturbation("shuffled", 1)), in_words(Perturbation("shuffled", 3)), in_words(Perturbation("cut_last", 0.5))
        ('all words shuffled', 'n-grams of 3 words shuffled', 'the last 50 % of words cut')
    """
    how, strength = perturbation
    if how == "shuffled":
        return "all words shuffled" if strength == 1 else f"n-grams of {strength:g} words shuffled"
    return {
        "shuffled_within": f"words shuffled within n-grams of {strength:g}",
        "phrases": f"words shuffled within phrases (depth {strength:g})",
        "cut_first": f"the first {strength:.0%} of words cut".replace("%", " %"),
        "cut_last": f"the last {strength:.0%} of words cut".replace("%", " %"),
        "content": "content words only",
        "function": "function words only",
        "positions": f"positions shifted by {strength:g}",
    }[how]
