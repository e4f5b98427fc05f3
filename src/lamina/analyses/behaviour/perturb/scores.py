"""A model's loss, judgements, probes and answers on perturbed texts, each paired with its score on the original text.

Pairs are by item, resampled by document.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice, pairwise
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from lamina.activations import Runtime
from lamina.analyses.behaviour.perturb.perturbations import (
    PARTIAL,
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
from lamina.analyses.layers.probe.planning import ProbePlan, TaskSource, TrainingAmounts, plan_run
from lamina.analyses.layers.probe.training import ProbeSetup, loss_of
from lamina.corpora.questions.question import Question
from lamina.corpora.splits import Splits
from lamina.corpora.suites.minimal_pairs import MinimalPair
from lamina.errors import ModelError, TaskError
from lamina.models import Activations, Encoder
from lamina.models.language.language_model import LanguageModel, WrittenPassage, score_passages
from lamina.models.running.variants import with_positions_shifted
from lamina.probes.bank import ProbeGroup, train_probes
from lamina.probes.edge import EdgeProbes
from lamina.probes.streams import Standard, Stream, find_targets
from lamina.progress import progress
from lamina.stats.family import Alternative, Contrasts, sign_flip_family
from lamina.stats.intervals import interval
from lamina.stats.status import SURE
from lamina.stats.units import Units, unit_of
from lamina.targets.target import LOSS, PAIRS, PROBE, QA
from lamina.tasks import Task, label_set
from lamina.tasks.task import best
from lamina.training.answering import Answerer
from lamina.types import Edge, Span, Text

_HOW = ("how", "strength", "target")
TEST = ("difference", "diff_low", "diff_high", "p_adjusted", "units", "needed", "unit")
PERTURB = (*_HOW, "value", "low", "high", "baseline", *TEST)
REMAINS = (*_HOW, "chance", "remains", "low", "high", *TEST)
CONTRASTS = (*_HOW, "against", *TEST)
ITEMS = ("item", "group", "value", "baseline", "target", "how", "strength", "unit")


@dataclass(frozen=True)
class PerturbedItems:
    """One target under one perturbation: a score is the sum of `hits` by the sum of `counts`.

    Example:
        >>> one = np.ones(2)
        >>> items = PerturbedItems("pairs", Perturbation("shuffled", 1), ("a", "b"), ("a", "b"), one / 2, one, one, one)
        >>> items.value, items.baseline
        (0.5, 1.0)
    """

    target: str
    perturbation: Perturbation
    names: tuple[str, ...]
    """Texts, pairs or questions: equal whatever the model."""
    units: tuple[str, ...]
    """What is drawn with replacement: the document of each item, or the item."""
    hits: Float[np.ndarray, " item"]
    """Perturbed: right answers, or minus the log-probability."""
    counts: Float[np.ndarray, " item"]
    """Of how many answers or tokens."""
    base_hits: Float[np.ndarray, " item"]
    """The same of the same words as they are written."""
    base_counts: Float[np.ndarray, " item"]
    chance: float | None = None
    """What needs no model scores on these words; None where a score has no such level."""
    kind: str = "document"
    """What the units are: document, text or item."""

    @property
    def value(self) -> float:
        """The score under the perturbation."""
        return float(_ratio(self.hits.sum(), self.counts.sum()))

    @property
    def baseline(self) -> float:
        """The score of the same words without it."""
        return float(_ratio(self.base_hits.sum(), self.base_counts.sum()))

    def sampled(self, samples: int, seed: int) -> Float[np.ndarray, "2 sample"]:
        """The score and the baseline in each bootstrap sample; the same documents are drawn for both."""
        columns = (self.hits, self.counts, self.base_hits, self.base_counts)
        drawn = _sums(self.units, columns, samples, seed)
        return np.stack([_ratio(drawn[0], drawn[1]), _ratio(drawn[2], drawn[3])])


def score_of(
    units: Sequence[str], hits: np.ndarray, counts: np.ndarray, *, samples: int, seed: int
) -> tuple[float, float, float]:
    """A score that has no perturbation, with its interval over units.

    Example:
        >>> score_of(["a", "b"], np.array([1.0, 1.0]), np.array([2.0, 2.0]), samples=20, seed=0)
        (0.5, 0.5, 0.5)
    """
    drawn = _sums(units, (hits, counts), samples, seed)
    return float(_ratio(hits.sum(), counts.sum())), *interval(_ratio(drawn[0], drawn[1]))


def _sums(units: Sequence[str], columns: Sequence[np.ndarray], samples: int, seed: int) -> np.ndarray:
    """[column, sample] Sums over units drawn with replacement."""
    every = Units.of(units, "document")
    return (every.weights(samples=samples, seed=seed).astype(float) @ every.sums(np.column_stack(columns))).T


class PerturbRows(NamedTuple):
    """What a model's items say, as rows of tables."""

    scores: list[tuple]
    remains: list[tuple]


def score_rows(items: Iterable[PerturbedItems], *, samples: int, seed: int) -> PerturbRows:
    """Scores with paired differences; and, of a target whose chance is known, the share above chance that remains.

    Example:
        >>> one, names = np.ones(6), tuple("abcdef")
        >>> shuffled = Perturbation("shuffled", 1)
        >>> items = PerturbedItems("pairs", shuffled, names, names, one * 0.75, one, one, one, chance=0.5)
        >>> told = score_rows([items], samples=50, seed=0)
        >>> told.scores[0][3], told.scores[0][7], told.remains[0][4]
        (0.75, -0.25, 0.5)
    """
    by_target: dict[str, list[PerturbedItems]] = {}
    for member in items:
        by_target.setdefault(member.target, []).append(member)
    rows = PerturbRows([], [])
    for family in by_target.values():
        drawn = [member.sampled(samples, seed) for member in family]
        for member, (draws, _), test in zip(family, drawn, _members(changes(family)), strict=True):
            head = (*member.perturbation, member.target, member.value, *interval(draws), member.baseline)
            rows.scores.append((*head, *test, member.kind))
        known = [(member, draws) for member, draws in zip(family, drawn, strict=True) if member.chance is not None]
        if not known:
            continue
        above = _members(above_chance([member for member, _ in known]))
        before = above_chance([member for member, _ in known], unperturbed=True).p
        for (member, draws), test, p in zip(known, above, before, strict=True):
            left = _remaining(member, *draws) if p < SURE else (np.nan,) * 3
            rows.remains.append((*member.perturbation, member.target, member.chance, *left, *test, member.kind))
    return rows


def _members(tests: Contrasts) -> list[tuple[float, ...]]:
    """Difference, interval, p, units and how many are needed, member by member."""
    return [tuple(map(float, member)) for member in zip(*tests, strict=True)]


def _by_unit(items: Sequence[PerturbedItems], columns: Sequence[np.ndarray]) -> np.ndarray:
    """[unit, member] Sums of one column per member over units; units that a member does not have are 0."""
    names = sorted({unit for member_items in items for unit in member_items.units})
    number = {name: index for index, name in enumerate(names)}
    sums = np.zeros((len(names), len(items)))
    for member, (member_items, column) in enumerate(zip(items, columns, strict=True)):
        np.add.at(sums[:, member], [number[unit] for unit in member_items.units], column)
    return sums


def _lost(items: PerturbedItems) -> Float[np.ndarray, " item"]:
    """Perturbed minus unperturbed; where they differ in how much is counted, the latter as much as the former."""
    return items.hits - items.base_hits * _ratio(items.counts.sum(), items.base_counts.sum())


def changes(items: Sequence[PerturbedItems]) -> Contrasts:
    """Score under each perturbation of a target minus that of the same words without it; one family."""
    return sign_flip_family(
        _by_unit(items, [_lost(member) for member in items]), _by_unit(items, [member.counts for member in items])
    )


def above_chance(items: Sequence[PerturbedItems], *, unperturbed: bool = False) -> Contrasts:
    """Score under each perturbation of a target minus chance; one family. `unperturbed`: of the same words."""
    pairs = [
        (member.base_hits, member.base_counts) if unperturbed else (member.hits, member.counts) for member in items
    ]
    ahead = [hits - (member.chance or 0.0) * counts for member, (hits, counts) in zip(items, pairs, strict=True)]
    how: Alternative = "greater" if unperturbed else "two-sided"
    return sign_flip_family(
        _by_unit(items, ahead), _by_unit(items, [counts for _, counts in pairs]), alternative=how, bounds=(-1.0, 1.0)
    )


def beyond(items: Sequence[PerturbedItems], others: Sequence[PerturbedItems]) -> Contrasts:
    """How much more the score changes under each perturbation than another model's, on the same items; one family."""
    apart = [_lost(one) - _lost(other) for one, other in zip(items, others, strict=True)]
    return sign_flip_family(_by_unit(items, apart), _by_unit(items, [member.counts for member in items]))


def ahead_of(items: Sequence[PerturbedItems], hits: Sequence[Float[np.ndarray, " item"]]) -> Contrasts:
    """Score under each perturbation minus that of answers that need no model, on the same items; one family."""
    apart = [member.hits - other for member, other in zip(items, hits, strict=True)]
    return sign_flip_family(
        _by_unit(items, apart), _by_unit(items, [member.counts for member in items]), bounds=(-1.0, 1.0)
    )


def contrast_rows(items: Sequence[PerturbedItems], tests: Contrasts, against: str) -> list[tuple]:
    """Of the table `contrasts`."""
    return [
        (*member.perturbation, member.target, against, *test, member.kind)
        for member, test in zip(items, _members(tests), strict=True)
    ]


def item_rows(items: Sequence[PerturbedItems]) -> pd.DataFrame:
    """One row per item and perturbation; the mean of an item's words or tokens."""
    rows = (row for member in items for row in _rows(member))
    return pd.DataFrame(list(rows), columns=list(ITEMS))


def _rows(items: PerturbedItems) -> Iterator[tuple]:
    (how, strength), target = items.perturbation, items.target
    group = f"{target} {how} {strength:g}"
    values, base = _ratio(items.hits, items.counts), _ratio(items.base_hits, items.base_counts)
    for name, unit, value, before in zip(items.names, items.units, values.tolist(), base.tolist(), strict=True):
        yield f"{group}: {name}", group, value, before, target, how, strength, unit


def _remaining(items: PerturbedItems, drawn: np.ndarray, base: np.ndarray) -> tuple[float, float, float]:
    chance = items.chance or 0.0
    share = (items.value - chance) / (items.baseline - chance)
    return share, *interval((drawn - chance) / np.where(base > chance, base - chance, np.nan))


def _ratio(hits: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return np.divide(hits, counts, out=np.full(np.shape(counts), np.nan), where=np.asarray(counts) > 0)


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
        orders_of: dict[int, list[list[int]]] = {}
        left_out: Counter[str] = Counter()
        if perturbation.how in PARTIAL:
            return WordOrders(perturbation, orders_of)
        for number, text in enumerate(written):
            lacking = missing(perturbation, text)
            if lacking is not None:
                left_out[f"{what} without {lacking}: not perturbed by {perturbation.how}"] += 1
                continue
            draws = range(self.draws if perturbation.how in RANDOM else 1)
            orders = [order_of(perturbation, text, seed=self.seed, draw=draw) for draw in draws]
            if _says(text, range(len(text.words))) and not all(_says(text, order) for order in orders):
                left_out[f"{what} of which {perturbation.how} leaves no word"] += 1
                continue
            orders_of[number] = orders
        self.note(left_out)
        if orders_of and np.isnan(perturbation.strength):
            sizes = ((order, len(written[number].words)) for number, of_text in orders_of.items() for order in of_text)
            perturbation = perturbation._replace(strength=share_left_out(sizes))
        return WordOrders(perturbation, orders_of)

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
    by_text: dict[int, list[list[int]]]


def _says(written: PerturbableText, order: Sequence[int]) -> bool:
    """Whether there is a word among these, and not punctuation alone."""
    return any(letter.isalnum() for word in order for letter in written.words[word])


class _WordLosses(NamedTuple):
    """The words of a text as a model finds them."""

    surprisal: np.ndarray
    """[word] Minus the log-probability of its tokens."""
    pieces: np.ndarray
    """[word] How many they are."""
    windows: int
    """In which the text was read."""

    def of(self, words: Sequence[int]) -> tuple[float, int]:
        """Surprisal and tokens of some words."""
        return float(self.surprisal[words].sum()), int(self.pieces[words].sum())


def loss_items(model: LanguageModel, texts: Sequence[Text], drawing: PerturbationPlan) -> Iterator[PerturbedItems]:
    """Minus the log-probability per token of the words that stay, in the perturbed text and in the text as it is.

    Words are joined by one space each in both, so that the two differ in nothing but the perturbation.
    """
    written = [PerturbableText.of(text) for text in texts]
    unit = unit_of(texts)
    known: dict[tuple[str, ...], _WordLosses] = {}
    clean = _surprisals(model, [(text.id, text.words) for text in written], f"loss of {model.name}", known)
    for planned in drawing.plan:
        perturbation, orders = drawing.orders(planned, written, "texts")
        reading = drawing.shifted(perturbation, model.shifted, model)
        if reading is None or not orders:
            continue
        moved = [
            (written[number].id, [written[number].words[n] for n in order])
            for number, of_text in orders.items()
            for order in of_text
        ]
        what = f"loss of {model.name}, {in_words(perturbation)}"
        losses = _surprisals(reading, moved, what, known if reading is model else {})
        drawing.note(
            {"texts longer than the model's limit, read in windows": sum(scored.windows > 1 for scored in losses)}
        )
        moved_losses = iter(losses)
        sums = np.zeros((4, len(written)))
        for number, of_text in orders.items():
            for order in of_text:
                sums[:, number] += *next(moved_losses).of(range(len(order))), *clean[number].of(order)
            # Draws are averaged: a text counts once.
            sums[:, number] /= len(of_text)
        perturbed = list(orders)
        names, units = (
            tuple(written[number].id for number in perturbed),
            tuple(unit.of(texts[number]) for number in perturbed),
        )
        yield PerturbedItems(LOSS, perturbation, names, units, *sums[:, perturbed], kind=unit.by)


def _surprisals(
    model: LanguageModel,
    texts: Sequence[tuple[str, Sequence[str]]],
    what: str,
    known: dict[tuple[str, ...], _WordLosses],
) -> list[_WordLosses]:
    """What the model makes of each text; those that are known already are not read again."""
    new = {tuple(words): id for id, words in texts if tuple(words) not in known}
    passages = [
        WrittenPassage.regions(id, [words[0], *(f" {word}" for word in words[1:])]) for words, id in new.items()
    ]
    with progress(what, len(passages)) as advance:
        for words, scored in zip(new, score_passages(model, passages), strict=True):
            inside = scored.spans >= 0
            pieces = np.bincount(scored.spans[inside], minlength=scored.parts)
            known[words] = _WordLosses(-np.nan_to_num(scored.by_span), pieces, scored.windows)
            advance()
    return [known[tuple(words)] for _, words in texts]


def pair_items(
    model: LanguageModel, pairs: Sequence[MinimalPair], drawing: PerturbationPlan, lexicon: Lexicon | None
) -> Iterator[PerturbedItems]:
    """Whether the good sentence is more likely, both perturbed alike; one half where perturbing makes them equal."""
    written = [pair_of(pair.item, pair.good, pair.bad, lexicon) for pair in pairs]
    names = [pair.item for pair in pairs]
    known: dict[str, float] = {}
    clean = _preferred(model, [(good.words, bad.words) for good, bad in written], f"pairs for {model.name}", known)
    for planned in drawing.plan:
        (perturbation, good), (_, bad) = (
            drawing.orders(planned, [both[side] for both in written], "sentences of pairs") for side in (0, 1)
        )
        reading = drawing.shifted(perturbation, model.shifted, model)
        perturbed = [number for number in good if number in bad]
        if reading is None or not perturbed:
            continue
        moved = [
            ([written[number][0].words[n] for n in one], [written[number][1].words[n] for n in two])
            for number in perturbed
            for one, two in zip(good[number], bad[number], strict=True)
        ]
        what = f"pairs for {model.name}, {in_words(perturbation)}"
        preferred = _preferred(reading, moved, what, known if reading is model else {})
        equal = {number for number, (one, two) in enumerate(moved) if joined(one) == joined(two)}
        drawing.note(
            {f"pairs that {perturbation.how} makes equal, scored one half": len(equal) * len(perturbed) // len(moved)}
        )
        values = preferred.reshape(len(perturbed), -1).mean(1)
        one = np.ones(len(perturbed))
        items = tuple(names[number] for number in perturbed)
        yield PerturbedItems(
            PAIRS, perturbation, items, items, values, one, clean[perturbed], one, chance=0.5, kind="item"
        )


def _preferred(
    model: LanguageModel, pairs: Sequence[tuple[Sequence[str], Sequence[str]]], what: str, known: dict[str, float]
) -> np.ndarray:
    """[pair] 1 where the first is more likely, 0 where the second is, one half where neither is.

    Sentences whose log-probability is known already are not read again.
    """
    sentences = [joined(words) for pair in pairs for words in pair]
    new = [sentence for sentence in dict.fromkeys(sentences) if sentence not in known]
    with progress(what, len(new)) as advance:
        for sentence, scored in zip(
            new,
            score_passages(model, (WrittenPassage(new_sentence, new_sentence, ()) for new_sentence in new)),
            strict=True,
        ):
            known[sentence] = scored.total
            advance()
    good, bad = np.array([known[sentence] for sentence in sentences]).reshape(-1, 2).T
    return np.where(good == bad, 0.5, good > bad).astype(float)


def in_words(perturbation: Perturbation) -> str:
    """A perturbation in words.

    Example:
        >>> in_words(Perturbation("shuffled", 3)), in_words(Perturbation("cut_last", 0.5))
        ('n-grams of 3 words shuffled', 'the last 50 % of words cut')
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
        "subject": "the subject removed",
        "object": "the object removed",
        "arguments": "subject and object removed",
        "no_question": "the context without its question",
        "no_context": "the question without its context",
    }[how]


# What a model with a span head answers when the context of a question is perturbed.

_POSITIONS = "positions not shifted: questions are answered in windows, each at the model's first positions"


def answer_items(
    answerer: Answerer, questions: Sequence[Question], drawing: PerturbationPlan, lexicon: Lexicon | None
) -> Iterator[PerturbedItems]:
    """F1 of the answers, the context perturbed sentence by sentence and as it is, words joined by one space in both."""
    written = [_context(question, lexicon) for question in questions]
    units = tuple(question.text.doc or question.text.id for question in questions)
    as_it_is = [
        perturbed_question(question, list(range(len(of_question.words))))
        for question, of_question in zip(questions, written, strict=True)
    ]
    clean = _f1(answerer, as_it_is, f"answers of {answerer.encoder.name}")
    for planned in drawing.plan:
        if planned.how == "positions":
            drawing.note({_POSITIONS: len(questions)})
            continue
        if planned.how in PARTIAL:
            scores = _f1(
                answerer, [partial_question(question, planned.how) for question in as_it_is], in_words(planned)
            )
            one = np.ones(len(questions))
            names = tuple(question.text.id for question in questions)
            yield PerturbedItems(QA, planned, names, units, scores, one, clean, one, chance=0.0)
            continue
        perturbation, orders = drawing.orders(planned, written, "contexts")
        if not orders:
            continue
        moved = [
            perturbed_question(questions[number], order)
            for number, of_question in orders.items()
            for order in of_question
        ]
        scores = _f1(answerer, moved, f"answers of {answerer.encoder.name}, {in_words(perturbation)}")
        perturbed = list(orders)
        one = np.ones(len(perturbed))
        names = tuple(questions[number].text.id for number in perturbed)
        of_question = scores.reshape(len(perturbed), -1).mean(1)
        # No guess has an F1 worth naming.
        yield PerturbedItems(
            QA,
            perturbation,
            names,
            tuple(units[number] for number in perturbed),
            of_question,
            one,
            clean[perturbed],
            one,
            chance=0.0,
        )


def _context(question: Question, lexicon: Lexicon | None) -> PerturbableText:
    """The words of the context; sentences as the question's text says."""
    segment = question.text.segments[1]
    words = question.text.words[segment.start : segment.end]
    spans = sorted(edge.span.shift(-segment.start) for edge in question.text.edges.get("sentence", ()))
    # Between two sentences nothing may be left over.
    whole = [0, *(span.end for span in spans[:-1]), len(words)] if spans else [0, len(words)]
    parts = tuple(Span(start, end) for start, end in pairwise(whole) if start < end)
    return PerturbableText(question.text.id, words, parts, tags=lexicon.tags(words) if lexicon else None)


def perturbed_question(question: Question, order: Sequence[int]) -> Question:
    """The question about a context whose words are in another order, with what is accepted as it was."""
    question_span, context = question.text.segments
    words = [question.text.words[context.start + word] for word in order]
    ends = list(accumulate(len(word) + 1 for word in words))
    offsets = tuple((end - len(word) - 1, end - 1) for word, end in zip(words, ends, strict=True))
    every_word = (*question.text.words[: question_span.end], *words)
    text = Text(
        question.text.id,
        every_word,
        (question_span, Span(question_span.end, len(every_word))),
        {},
        question.text.doc,
        question.text.origin,
    )
    return replace(question, text=text, context=" ".join(words), offsets=offsets)


_NOTHING = "the"
"""A word that says nothing, in the place of words that are not shown."""


def partial_question(question: Question, how: str) -> Question:
    """One part of the input alone (partial-input baselines of reading comprehension).

    Without its question, a context has one word in the question's place. Without its context, a question has the same
    word in the place of every word there; what an answer says is read off the words that were there, so that only
    where answers stand, and how long they are, can be known.

    Example:
        >>> text = Text("q", ("Who", "left", "?", "Ann", "left", "."), (Span(0, 3), Span(3, 6)))
        >>> question = Question(text, "Who left?", "Ann left .", ((0, 3), (4, 8), (9, 10)), ())
        >>> partial_question(question, "no_context").text.words, partial_question(question, "no_question").text.words
        (('Who', 'left', '?', 'the', 'the', 'the'), ('the', 'Ann', 'left', '.'))
    """
    first, context = question.text.segments
    before = question.text.words[: first.end] if how == "no_context" else (_NOTHING,)
    there = question.text.words[context.start :]
    words = (*before, *((_NOTHING,) * len(there) if how == "no_context" else there))
    segments = (Span(0, len(before)), Span(len(before), len(words)))
    return replace(question, text=replace(question.text, words=words, segments=segments, edges={}, glued=()))


def _f1(answerer: Answerer, questions: Sequence[Question], what: str) -> np.ndarray:
    with progress(what, len(questions)) as advance:
        scores = []
        for question, answer in zip(questions, answerer.answer(questions), strict=True):
            scores.append(best(answer.text, question.answers).f1)
            advance()
    return np.array(scores)


# What a probe reads from perturbed texts: trained on texts as they are, asked about the same words elsewhere.

CONSTANT, BY_WORD = "most frequent label", "most frequent label of the word"
"""Baselines: what training says of nothing, and of the word alone."""
_TARGETS = "targets"
"""The annotation that holds the targets, wherever their words are."""
_AT_ONCE = 64
"""Texts whose states are held at a time."""


class ProbedTask(NamedTuple):
    """A task, the texts it is learned from, and the words it is asked about."""

    task: Task
    setup: ProbeSetup
    labels: tuple[str, ...]
    texts: tuple[Text, ...]
    """Those that have targets."""
    targets: tuple[tuple[Edge, ...], ...]
    """Of each text: those whose spans are single words, which stay whole wherever they go."""
    longer: int
    """Targets left out because they are of several words."""

    @property
    def name(self) -> str:
        """In tables."""
        return f"{PROBE}{self.task.name}"


def plan_task(name: str, splits: Splits, *, layers: int, steps: int | None, seed: int, device: str) -> ProbePlan:
    """How a probe of a mix of all layers learns a task: with the quick preset of `lamina probe`, one seed."""
    amounts = TrainingAmounts(seeds=1, steps=steps)
    return plan_run(
        layers, TaskSource(splits, (name,)), probes=["mix"], preset="quick", amounts=amounts, faithful=False,
        metric=None, seed=seed, device=device,
    )  # fmt: skip


def ask_task(plan: ProbePlan, texts: Sequence[Text]) -> ProbedTask:
    """What is learned and asked; a TaskError where the texts have no target of single words with one label."""
    (task,) = plan.tasks
    targets = [task.targets(text) for text in texts]
    single = [tuple(edge for edge in edges if len(edge.span) == len(edge.other or edge.span) == 1) for edges in targets]
    with_targets = [(text, edges) for text, edges in zip(texts, single, strict=True) if edges]
    if task.graded or not with_targets or any(len(edge.labels) != 1 for _, edges in with_targets for edge in edges):
        raise TaskError(
            f"{PROBE}{task.name}: the texts of {plan.setup.splits.name} have no targets of single words with one label "
            "each"
        )
    longer = sum(map(len, targets)) - sum(map(len, single))
    labels = label_set(task, plan.setup.learned)
    return ProbedTask(
        task, plan.setup, labels, tuple(t for t, _ in with_targets), tuple(e for _, e in with_targets), longer
    )


class PerturbProbe(NamedTuple):
    """A trained probe of an encoder."""

    encoder: Encoder
    probes: EdgeProbes
    standard: Standard
    probed: ProbedTask
    converged: bool
    """Whether training ended because the loss fell no more."""

    def right(self, texts: Sequence[Text]) -> list[np.ndarray]:
        """[text][target] Whether the highest answer is right; targets are in the annotation `targets`."""
        task, labels = self.probed.task, self.probed.labels
        bare = Task(task.name, task.title, _TARGETS, task.arity)
        device = self.probed.setup.device
        by_text: list[np.ndarray] = []
        waiting = iter(texts)
        while some := list(islice(waiting, _AT_ONCE)):
            batch_activations = list(self.encoder.encode(some))
            targets = find_targets(bare, some, [encoded.tokens for encoded in batch_activations], labels)
            right = np.zeros(len(targets), bool)
            with torch.no_grad():
                for batch in Stream(
                    _EncodedTexts(batch_activations), targets, device=device, standard=self.standard
                ).in_order():
                    answers = self.probes(batch)[0].argmax(-1).cpu().numpy()
                    right[batch.rows] = targets.gold[batch.rows, answers]
            by_text += [right[targets.text == number] for number in range(len(some))]
        return by_text


def train_reader(encoder: Encoder, probed: ProbedTask, runtime: Runtime) -> PerturbProbe:
    """A probe over a mix of all layers, trained on texts as they are with the quick schedule of `lamina probe`."""
    task, setup = probed.task, probed.setup
    stored = runtime.extract(encoder, setup.splits.train)
    targets = find_targets(task, setup.splits.train, stored.tokenized(), probed.labels)
    learn, stop = targets.among(setup.division.learn), targets.among(setup.division.stop)
    schedule = setup.schedule(learn)
    stream = Stream(stored, learn, device=setup.device, batch_texts=schedule.texts_of(learn))
    standard = stream.look().standard
    streams = (
        stream.standardised(standard),
        Stream(stored, stop, device=setup.device, batch_texts=_AT_ONCE, standard=standard),
    )
    shape = {"layers": encoder.layers, "width": encoder.width, "labels": len(probed.labels), "arity": task.arity}
    probes = EdgeProbes(setup.cuts, **shape, seed=setup.seed, hidden=schedule.hidden)
    group = ProbeGroup(probes, learn, stop, streams, loss_of(task))
    (learned,) = train_probes([group], schedule, order_seed=setup.seed, what=f"{task.name}: a probe of {encoder.name}")
    return PerturbProbe(encoder, probes.requires_grad_(False), standard, probed, bool(learned.converged.all()))


def probe_items(reader: PerturbProbe, drawing: PerturbationPlan) -> Iterator[PerturbedItems]:
    """The share of words the probe is right about, in the perturbed texts and in the texts as they are."""
    probed = reader.probed
    if not reader.converged:
        drawing.note({f"{probed.name}: probes that had not converged, whose scores would mean nothing (--steps)": 1})
        return
    written = [PerturbableText.of(text) for text in probed.texts]
    unit = unit_of(probed.texts)
    as_it_is = [list(range(len(text.words))) for text in written]
    clean = reader.right([_moved(*moving) for moving in zip(probed.texts, probed.targets, as_it_is, strict=True)])
    constant = guesses(probed)[CONSTANT]
    for planned in drawing.plan:
        perturbation, orders = drawing.orders(planned, written, "texts")
        encoder = drawing.shifted(perturbation, lambda by: with_positions_shifted(reader.encoder, by), reader.encoder)
        if encoder is None or not orders:
            continue
        sums = np.zeros((5, len(written)))
        moved = [
            _moved(probed.texts[number], probed.targets[number], order)
            for number, of_text in orders.items()
            for order in of_text
        ]
        with progress(f"{probed.name} of {encoder.name}, {in_words(perturbation)}"):
            right = iter(reader._replace(encoder=encoder).right(moved))
        for number, of_text in orders.items():
            for order in of_text:
                stay = np.array([_stays(edge, set(order)) for edge in probed.targets[number]], bool)
                sums[:, number] += (
                    next(right).sum(),
                    stay.sum(),
                    clean[number][stay].sum(),
                    stay.sum(),
                    constant[number][stay].sum(),
                )
            sums[:, number] /= len(of_text)
        perturbed = [number for number in orders if sums[1, number]]
        if perturbed:
            names, units = (
                tuple(probed.texts[number].id for number in perturbed),
                tuple(unit.of(probed.texts[number]) for number in perturbed),
            )
            chance = float(sums[4, perturbed].sum() / sums[3, perturbed].sum())
            yield PerturbedItems(
                probed.name, perturbation, names, units, *sums[:4, perturbed], chance=chance, kind=unit.by
            )


def guesses(probed: ProbedTask) -> dict[str, list[np.ndarray]]:
    """Answers that need no model -> [text][target] whether they are right: the most frequent label, and the word's own.

    A pair of words is looked up as a pair.
    """
    counts: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for text in probed.setup.learned:
        for edge in probed.task.targets(text):
            counts[_words(text, edge)][edge.labels[0]] += 1
    most = sum(counts.values(), Counter()).most_common(1)[0][0]
    by_word = {words: labels.most_common(1)[0][0] for words, labels in counts.items()}
    pairs = list(zip(probed.texts, probed.targets, strict=True))
    return {
        CONSTANT: [np.array([most == edge.labels[0] for edge in edges]) for _, edges in pairs],
        BY_WORD: [
            np.array([by_word.get(_words(text, edge), most) == edge.labels[0] for edge in edges])
            for text, edges in pairs
        ],
    }


def _words(text: Text, edge: Edge) -> tuple[str, ...]:
    spans = (edge.span,) if edge.other is None else (edge.span, edge.other)
    return tuple(" ".join(text.words[span.start : span.end]).lower() for span in spans)


def _stays(edge: Edge, staying: set[int]) -> bool:
    return edge.span.start in staying and (edge.other is None or edge.other.start in staying)


def _moved(text: Text, targets: Sequence[Edge], order: Sequence[int]) -> Text:
    """The words in their new order, and the targets whose words stay, where these are now."""
    place = {word: place_now for place_now, word in enumerate(order)}

    def span(old: Span) -> Span:
        return Span(place[old.start], place[old.start] + 1)

    edges = tuple(
        Edge(edge.labels, span(edge.span), None if edge.other is None else span(edge.other))
        for edge in targets
        if _stays(edge, set(order))
    )
    return Text(text.id, tuple(text.words[word] for word in order), edges={_TARGETS: edges})


class _EncodedTexts:
    """The states of a few texts, as a stream of targets asks for them."""

    resident = None

    def __init__(self, encoded: Sequence[Activations]) -> None:
        states = [activations.states for activations in encoded if activations.states is not None]
        if len(states) < len(encoded):
            raise ModelError("some texts were encoded without their states")
        self._states = states
        self.token_bytes = states[0][0].nbytes

    def start(self, index: int) -> int:
        return 0

    def size(self, index: int) -> int:
        return len(self._states[index])

    def load(self, index: int) -> torch.Tensor:
        return self._states[index]
