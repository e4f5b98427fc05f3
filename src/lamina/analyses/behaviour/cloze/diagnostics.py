"""Ettinger's diagnostics, scored as in her paper: accuracy at k, sensitivity, and the effect of negation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from lamina.analyses.behaviour.cloze.scores import TOP_WORDS, AnswerRow, ClozeOutcome, ClozeOutcomes
from lamina.corpora.suites.lm_diagnostics import Completion, Diagnostics, Negation, Polarity, RolePair
from lamina.models.language.language_model import LanguageModel
from lamina.models.language.slots import Gap, RatedCandidates, rate

AT = (1, 5)
"""How many of the most likely words are looked at."""
THRESHOLD = 0.01
"""Least difference in probability of the stricter sensitivity."""
OVER = f"_over_{str(THRESHOLD).removeprefix('0')}"
LICENSED = {True: "licensed", False: "unlicensed", None: ""}
_POLARITIES: tuple[Polarity, ...] = ("affirmative", "negative")
_MOST = 10


class ClozeContext(NamedTuple):
    """One context, and the words that are scored in it."""

    id: str
    context: str
    words: tuple[str, ...]
    expected: tuple[str, ...]
    """The words that are right; they are among the words."""


class WordRatings(NamedTuple):
    """Scores of words after one context."""

    logprob: dict[str, float]
    one_piece: dict[str, bool]
    rank: dict[str, int]


def ask_diagnostics(model: LanguageModel, suite: Diagnostics, *, answers: bool) -> ClozeOutcomes:
    """Score every item; with `answers`, the most likely words are recorded."""
    outcomes = ClozeOutcomes()
    for part, items in suite.parts.items():
        contexts = [context for item in items for context in _contexts(item)]
        ratings = _ask(model, part, contexts, outcomes.answers if answers else None)
        for item in items:
            outcomes.scores.extend(_outcomes(part, item, ratings, model.vocabulary))
    return outcomes


def _contexts(item: Completion | RolePair | Negation) -> Iterator[ClozeContext]:
    if isinstance(item, Completion):
        words = (item.expected, item.within, item.between)
        yield ClozeContext(item.id, item.context, words, (item.expected,))
    elif isinstance(item, RolePair):
        for condition, context, expected in (
            ("a", item.good, item.expected_good), ("b", item.reversed, item.expected_reversed)
        ):  # fmt: skip
            yield ClozeContext(
                f"{item.id}-{condition}", context, tuple(dict.fromkeys((item.target, *expected))), expected
            )
    else:
        for polarity in _POLARITIES:
            true = item.true_affirmative if polarity == "affirmative" else item.true_negative
            # The article may differ from word to word, and then the context does.
            by_context: dict[str, list[str]] = {}
            for word in (item.true_affirmative, item.true_negative):
                by_context.setdefault(item.context(polarity, word), []).append(word)
            for context, words in by_context.items():
                yield ClozeContext(f"{item.id} {polarity}", context, tuple(words), (true,) if true in words else ())


def _ask(
    model: LanguageModel, part: str, contexts: Sequence[ClozeContext], answers: list[AnswerRow] | None
) -> dict[str, WordRatings]:
    """Scores by the context's id; contexts that differ in the article alone are one."""
    slots = [Gap(f"{part}/{context.id}", f"{context.context} ", ".") for context in contexts]
    ratings: dict[str, WordRatings] = {}
    for context, rated in zip(contexts, rate(model, slots, [context.words for context in contexts]), strict=True):
        rating = ratings.setdefault(context.id, WordRatings({}, {}, {}))
        for number, word in enumerate(context.words):
            rating.logprob[word] = float(rated.logprobs[number])
            rating.one_piece[word] = len(rated.ids[number]) == 1
            rating.rank[word] = rated.rank(number)
        if answers is not None and context.expected:
            answers.append(_answer(model, part, context, rated))
    return ratings


def _answer(model: LanguageModel, part: str, context: ClozeContext, rated: RatedCandidates) -> AnswerRow:
    expected = [context.words.index(word) for word in context.expected]
    best = min(expected, key=rated.rank)
    top = " | ".join(rated.top(model, TOP_WORDS))
    probability = float(np.exp(rated.logprobs[expected]).sum())
    return AnswerRow(
        f"{part}/{context.id}", part, f"{context.context} ___", "|".join(context.expected), len(rated.ids[best]),
        rated.rank(best), probability, top,
    )  # fmt: skip


def _outcomes(
    part: str, item: Completion | RolePair | Negation, ratings: dict[str, WordRatings], vocabulary: int
) -> Iterator[ClozeOutcome]:
    if isinstance(item, Completion):
        measures = (_accuracies(ratings[item.id], (item.expected,)), _completion(item, ratings[item.id]))
        ids, within = (item.id, item.id), item.constraint
    elif isinstance(item, RolePair):
        expected = {"a": item.expected_good, "b": item.expected_reversed}
        contexts = [f"{item.id}-{condition}" for condition in expected]
        measures = (*(_accuracies(ratings[id], expected[id[-1]]) for id in contexts), _roles(item, ratings))
        ids, within = (*contexts, item.id), ""
    else:
        measures, ids, within = (_negation(item, ratings),), (item.id,), LICENSED[item.licensed]
    for id, measured in zip(ids, measures, strict=True):
        for measure, result in measured:
            chance = result.chance / vocabulary if measure.startswith("accuracy") else result.chance
            group = {"sensitivity": part, "sensitivity_affirmative": f"{part} affirmative",
                     "sensitivity_negative": f"{part} negative"}.get(measure, "")  # fmt: skip
            if isinstance(item, Negation) and measure == "sensitivity":
                group = ""
            yield ClozeOutcome(part, id, measure, result.value, result.one_piece, chance, item.id, within, group)


class _ItemMeasure(NamedTuple):
    value: float
    one_piece: bool
    chance: float = math.nan


ItemMeasures = Iterator[tuple[str, _ItemMeasure]]
"""Measures of one item, with their values."""


def _accuracies(rating: WordRatings, expected: Sequence[str], suffix: str = "") -> ItemMeasures:
    """Whether an expected word is among the k most likely; one of several tokens has to beat the k-th token.

    Chance still has to be divided by the size of the vocabulary.
    """
    one_piece = any(rating.one_piece[word] for word in expected)
    best = min(rating.rank[word] for word in expected)
    for k in AT:
        yield f"accuracy_at_{k}{suffix}", _ItemMeasure(float(best <= k), one_piece, k * len(expected))


def _completion(item: Completion, rating: WordRatings) -> ItemMeasures:
    good, *bad = (math.exp(rating.logprob[word]) for word in (item.expected, item.within, item.between))
    one_piece = all(rating.one_piece.values())
    yield "sensitivity", _ItemMeasure(float(all(good > other for other in bad)), one_piece, 1 / 3)
    yield f"sensitivity{OVER}", _ItemMeasure(float(all(good - other > THRESHOLD for other in bad)), one_piece)


def _roles(item: RolePair, ratings: dict[str, WordRatings]) -> ItemMeasures:
    both = [ratings[f"{item.id}-{condition}"] for condition in "ab"]
    good, bad = (math.exp(rating.logprob[item.target]) for rating in both)
    one_piece = both[0].one_piece[item.target]
    yield "sensitivity", _ItemMeasure(float(good > bad), one_piece, 0.5)
    yield f"sensitivity{OVER}", _ItemMeasure(float(good - bad > THRESHOLD), one_piece)


def _negation(item: Negation, ratings: dict[str, WordRatings]) -> ItemMeasures:
    words = (item.true_affirmative, item.true_negative)
    one_piece = all(ratings[f"{item.id} {polarity}"].one_piece[word] for polarity in _POLARITIES for word in words)
    effects: dict[str, float] = {}
    preferred: dict[str, list[float]] = {"": [], OVER: []}
    for polarity, true, false in zip(_POLARITIES, words, words[::-1], strict=True):
        rating = ratings[f"{item.id} {polarity}"]
        yield from _accuracies(rating, (true,), "" if polarity == "affirmative" else "_negative")
        good, bad = (math.exp(rating.logprob[word]) for word in (true, false))
        for how, right in (("", good > bad), (OVER, good - bad > THRESHOLD)):
            preferred[how].append(float(right))
            yield f"sensitivity_{polarity}{how}", _ItemMeasure(float(right), one_piece, math.nan if how else 0.5)
        effects[polarity] = (rating.logprob[true] - rating.logprob[false]) / math.log(2)
        yield f"surprisal_effect_{polarity}", _ItemMeasure(effects[polarity], one_piece, 0.0)
    for how, both in preferred.items():
        yield f"sensitivity{how}", _ItemMeasure(sum(both) / 2, one_piece, math.nan if how else 0.5)
    # By how many bits negation moves the preference towards what is true under it.
    yield "negation_effect", _ItemMeasure(sum(effects.values()), one_piece, 0.0)
    if item.licensed is not False:
        people = effects["affirmative"] > 0 and _agrees_with_people(item, effects["negative"])
        yield "n400_agreement", _ItemMeasure(float(people), one_piece, 0.25)


def _agrees_with_people(item: Negation, negative: float) -> bool:
    """Whether the easier word in the negative context is the one with the smaller N400.

    In bare sentences that is the associated word, although it is false (Fischler et al. 1983); where negation is
    licensed by the context, the true one (Nieuwland & Kuperberg 2008), who found no difference where it is not.
    """
    return negative < 0 if item.licensed is None else negative > 0
