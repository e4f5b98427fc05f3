"""Suites of clozes: Ettinger's diagnostics, scored as in her paper, and facts in patterns (ParaRel, LAMA)."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd

from lamina.analyses.behaviour.cloze.scores import (
    ALL,
    NAMED,
    TOP_WORDS,
    UNNAMED,
    AnswerRow,
    ClozeEstimate,
    ClozeEstimates,
    ClozeOutcome,
    ClozeOutcomes,
)
from lamina.corpora.suites.cloze import (
    Completion,
    Diagnostics,
    Fact,
    Negation,
    Pattern,
    Polarity,
    Relation,
    Relations,
    RolePair,
)
from lamina.errors import InputError
from lamina.models.language.language_model import LanguageModel
from lamina.models.language.slots import Gap, RatedCandidates, Spelling, cannot_spell, rate, rate_shared
from lamina.progress import progress
from lamina.stats.correlations import Correlations
from lamina.types import Text

DIAGNOSTIC_RANKS = (1, 5)
"""How many of the most likely words are looked at."""
THRESHOLD = 0.01
"""Least difference in probability of the stricter sensitivity."""
OVER = f"_over_{str(THRESHOLD).removeprefix('0')}"
WITHIN = "within_over_between"
"""Whether an unexpected word of the expected one's category is likelier than one of another category."""
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
        ratings = _ask_diagnostic(model, part, contexts, outcomes.answers if answers else None)
        for item in items:
            outcomes.scores.extend(_diagnostic_outcomes(part, item, ratings, model.vocabulary))
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


def _ask_diagnostic(
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


def _diagnostic_outcomes(
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
    for k in DIAGNOSTIC_RANKS:
        yield f"accuracy_at_{k}{suffix}", _ItemMeasure(float(best <= k), one_piece, k * len(expected))


def _completion(item: Completion, rating: WordRatings) -> ItemMeasures:
    good, *bad = (math.exp(rating.logprob[word]) for word in (item.expected, item.within, item.between))
    one_piece = all(rating.one_piece.values())
    yield "sensitivity", _ItemMeasure(float(all(good > other for other in bad)), one_piece, 1 / 3)
    # Neither is expected here; one is of the kind of thing that is.
    yield WITHIN, _ItemMeasure(float(bad[0] > bad[1]), one_piece, 0.5)
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


FACTS = 50
"""Facts of each relation that are scored by default."""
FACT_RANKS = (1, 10)
OBJECTS = "precision_at_1_objects"
"""The share of facts whose object is the likeliest of all objects of the relation."""
BY_KNOWLEDGE = ("consistency_known", "consistency_unknown")
"""Consistency over facts that are right by at least one pattern, and over the others."""
FOLLOWED = "patterns whose object is followed by words, which a causal model does not see"
NO_PATTERN = "relations all of whose patterns were left out"
UNSPELT = "facts whose object the vocabulary cannot spell"
BEYOND = "facts beyond the limit per relation"
ARTICLE = "questions whose article does not fit the object"
FREQUENCIES = ("frequency_correlation", "corpus_frequency_correlation")
"""Correlation of whether an object is predicted with its number of facts, or its count in texts."""
_FEWEST = 10
"""Facts that a correlation needs."""


def names_object(fact: Fact) -> bool:
    """Whether the letters of the subject give the object away: the string filter of Poerner et al. (2020).

    Example:
        >>> names_object(Fact("Apple Watch", "apple")), names_object(Fact("Mac Pro", "Apple"))
        (True, False)
    """
    return fact.object.casefold() in fact.subject.casefold()


class PatternOutcome(NamedTuple):
    """How one pattern came out for one fact."""

    ranks: tuple[bool, ...] | None
    """Whether the object is among the first k of the vocabulary, for each k; None for one of several tokens."""
    answer: tuple[int, ...]
    """The tokens of the likeliest object of the relation."""
    right: bool
    first: bool
    """Whether the pattern is the relation's first."""


@dataclass
class FactOutcomes:
    """A fact, and the outcomes of its patterns."""

    fact: Fact
    rivals: int
    """Number of candidate objects, the right one among them."""
    one_piece: bool
    questions: list[PatternOutcome] = field(default_factory=list)


def ask_relations(
    model: LanguageModel, suite: Relations, *, limit: int, spelling: Spelling, seed: int, answers: bool
) -> ClozeOutcomes:
    """Score a sample of the facts of every relation, with every pattern that the model can read."""
    outcomes = ClozeOutcomes()
    skipped: Counter[str] = Counter()
    with progress(f"facts ({model.name})", total=len(suite.relations)) as advance:
        for relation in suite.relations:
            rows = outcomes.answers if answers else None
            for answers_of_fact in _ask_facts(model, relation, limit, spelling, seed, skipped, rows):
                outcomes.scores.extend(fact_outcomes(relation, answers_of_fact, model.vocabulary))
            advance(1, note=relation.id)
    if not outcomes.scores:
        why = ", ".join(f"{count:,} {reason}" for reason, count in skipped.items())
        raise InputError(f"{suite.name}: no fact can be scored with {model.name} ({why})")
    outcomes.skipped = dict(skipped)
    return outcomes


def sampled(relation: Relation, facts: Sequence[Fact], limit: int, seed: int) -> list[Fact]:
    """Some of a relation's facts, drawn by hash, in their order; all of them with limit 0.

    Example:
        >>> facts = tuple(Fact(f"city {number}", "country") for number in range(9))
        >>> relation = Relation("P17", "country", facts, ())
        >>> len(sampled(relation, facts, 4, seed=0)), len(sampled(relation, facts, 0, seed=0))
        (4, 9)
    """
    if not limit or len(facts) <= limit:
        return list(facts)
    drawn = sorted(
        range(len(facts)),
        key=lambda number: hashlib.sha256(
            f"{seed}:{relation.id}:{facts[number].id}".encode("utf-8", "replace")
        ).digest(),
    )
    return [facts[number] for number in sorted(drawn[:limit])]


def _ask_facts(
    model: LanguageModel,
    relation: Relation,
    limit: int,
    spelling: Spelling,
    seed: int,
    skipped: Counter[str],
    answers: list[AnswerRow] | None,
) -> list[FactOutcomes]:
    patterns = [pattern for pattern in relation.patterns if model.kind == "masked" or pattern.ends]
    skipped[FOLLOWED] += len(relation.patterns) - len(patterns)
    if not patterns:
        skipped[NO_PATTERN] += 1
        return []
    unspelt = set(cannot_spell(model, list(relation.objects)))
    objects = [name for name in relation.objects if name not in unspelt]
    facts = [fact for fact in relation.facts if fact.object not in unspelt]
    skipped[UNSPELT] += len(relation.facts) - len(facts)
    chosen = sampled(relation, facts, limit, seed)
    skipped[BEYOND] += len(facts) - len(chosen)
    answers_by_fact: dict[Fact, FactOutcomes] = {}
    for pattern in patterns:
        fitting = [fact for fact in chosen if pattern.fits(fact.object)]
        skipped[ARTICLE] += len(chosen) - len(fitting)
        _ask_pattern(model, relation, pattern, fitting, objects, spelling, answers_by_fact, answers)
    return list(answers_by_fact.values())


def _ask_pattern(
    model: LanguageModel,
    relation: Relation,
    pattern: Pattern,
    facts: Sequence[Fact],
    objects: Sequence[str],
    spelling: Spelling,
    answers_by_fact: dict[Fact, FactOutcomes],
    answers: list[AnswerRow] | None,
) -> None:
    number = {name: place for place, name in enumerate(objects)}
    slots = [Gap(f"{relation.id}/{fact.id}", *pattern.of(fact.subject)) for fact in facts]
    places = [number[fact.object] for fact in facts]
    for fact, slot, rated in zip(
        facts, slots, rate_shared(model, slots, objects, always_scored=places, spelling=spelling), strict=True
    ):
        place = number[fact.object]
        # Other true answers are neither right nor wrong here, as in LAMA.
        also = [number[name] for name in relation.objects_of[fact.subject] if name != fact.object and name in number]
        one_piece = len(rated.ids[place]) == 1
        fact_answers = answers_by_fact.setdefault(fact, FactOutcomes(fact, len(objects) - len(also), one_piece))
        rank = rated.rank(place, without=also)
        best = _best(rated, spelling, also)
        fact_answers.questions.append(
            PatternOutcome(
                tuple(rank <= k for k in FACT_RANKS) if one_piece else None,
                best,
                best == tuple(rated.ids[place].tolist()),
                pattern == relation.patterns[0],
            )
        )
        if answers is not None:
            top = " | ".join(rated.top(model, TOP_WORDS))
            probability = float(np.exp(rated.logprobs[place]))
            text = f"{slot.before}___{slot.after}"
            answers.append(
                AnswerRow(slot.id, relation.id, text, fact.object, len(rated.ids[place]), rank, probability, top)
            )


def _best(rated: RatedCandidates, spelling: Spelling, without: Sequence[int]) -> tuple[int, ...]:
    compared = rated.compared(spelling).copy()
    compared[list(without)] = -np.inf
    return tuple(rated.ids[int(compared.argmax())].tolist())


def fact_outcomes(relation: Relation, answers: FactOutcomes, vocabulary: int) -> Iterator[ClozeOutcome]:
    """Outcomes of one fact over its patterns; facts of one subject are resampled together."""
    fact, questions = answers.fact, answers.questions

    def outcome(measure: str, value: float, chance: float, *, split: bool = False, group: str = "") -> ClozeOutcome:
        one_piece = answers.one_piece if split else None
        return ClozeOutcome(relation.id, fact.id, measure, value, one_piece, chance, fact.subject, "", group)

    by_chance = 1 / answers.rivals
    for number, k in enumerate(FACT_RANKS):
        hits = [float(question.ranks[number]) for question in questions if question.ranks is not None]
        if hits:
            yield outcome(f"precision_at_{k}", float(np.mean(hits)), k / vocabulary)
            if not names_object(fact):
                yield outcome(f"precision_at_{k}{UNNAMED}", float(np.mean(hits)), k / vocabulary)
    right = [float(question.right) for question in questions]
    yield outcome(OBJECTS, float(np.mean(right)), by_chance, split=True, group=relation.id)
    which = NAMED if names_object(fact) else UNNAMED
    yield outcome(f"{OBJECTS}{which}", float(np.mean(right)), by_chance)
    if not answers.one_piece:
        yield outcome(f"{OBJECTS}_several_pieces", float(np.mean(right)), by_chance)
    if first := [question.right for question in questions if question.first]:
        yield outcome(f"{OBJECTS}_first_pattern", float(first[0]), by_chance)
    yield outcome("known", float(any(right)), np.nan)
    pairs = [float(one.answer == other.answer) for one, other in combinations(questions, 2)]
    if pairs:
        yield outcome("consistency", float(np.mean(pairs)), by_chance)
        yield outcome(BY_KNOWLEDGE[0 if any(right) else 1], float(np.mean(pairs)), by_chance)
        yield outcome("consistent_and_right", float(all(right)), by_chance ** len(questions))


def most_frequent_object(relations: Iterable[Relation], outcomes: Iterable[ClozeOutcome]) -> list[ClozeOutcome]:
    """The same outcomes for a baseline that always gives the most frequent object of the relation's other facts."""
    known = {relation.id: relation for relation in relations}
    facts = {(relation.id, fact.id): fact for relation in known.values() for fact in relation.facts}
    places: dict[tuple[str, str], int] = {}
    baseline = []
    for outcome in outcomes:
        key = (outcome.part, outcome.id)
        if key not in places:
            places[key] = _place(known[outcome.part], facts[key])
        place, measure = places[key], outcome.measure
        # The same answer to everything is fully consistent, so it is no baseline for consistency.
        if not measure.startswith("consistency"):
            baseline.append(outcome._replace(value=float(place <= (10 if measure == "precision_at_10" else 1))))
    return baseline


def _place(relation: Relation, fact: Fact) -> int:
    """Where the object comes among the objects of the other facts, most frequent first.

    Example:
        >>> facts = [Fact("Lyon", "France"), Fact("Nice", "France"), Fact("Bonn", "Germany")]
        >>> [_place(Relation("P17", "country", tuple(facts), ()), fact) for fact in facts]
        [1, 1, 2]
    """
    counts = relation.objects.copy()
    counts[fact.object] -= 1
    also = relation.objects_of[fact.subject] - {fact.object}
    order = sorted((-count, name) for name, count in counts.items() if name not in also)
    return 1 + order.index((-counts[fact.object], fact.object))


def object_counts(texts: Iterable[Text], relations: Iterable[Relation]) -> dict[str, int]:
    """How often each object occurs in a corpus, word by word."""
    wanted = {tuple(name.split()): name for relation in relations for name in relation.objects}
    counts = Counter[str]()
    lengths = sorted({len(name) for name in wanted})
    for text in texts:
        for length in lengths:
            for start in range(len(text.words) - length + 1):
                if name := wanted.get(tuple(text.words[start : start + length])):
                    counts[name] += 1
    return {name: counts[name] for name in wanted.values()}


def frequency_effects(
    relations: Iterable[Relation],
    outcomes: Iterable[ClozeOutcome],
    in_corpus: Mapping[str, int] | None,
    *,
    samples: int,
    seed: int,
) -> ClozeEstimates:
    """Rank correlation of an object's frequency with its prediction: by relation, and pooled within relations."""
    frequency = {relation.id: relation.objects for relation in relations}
    rows = [outcome for outcome in outcomes if outcome.measure == OBJECTS]
    effects: ClozeEstimates = {}
    counted: dict[str, Mapping[str, Mapping[str, int]]] = {FREQUENCIES[0]: frequency}
    if in_corpus is not None:
        counted[FREQUENCIES[1]] = dict.fromkeys(frequency, in_corpus)
    for measure, counts_of in counted.items():
        ranked: list[tuple[np.ndarray, np.ndarray, list[str]]] = []
        for part in dict.fromkeys(outcome.part for outcome in rows):
            of_part = [outcome for outcome in rows if outcome.part == part]
            counts = np.array([counts_of[part][outcome.id.rpartition(" -> ")[2]] for outcome in of_part], float)
            values = np.array([outcome.value for outcome in of_part])
            if len(of_part) < _FEWEST or len(set(counts)) < 2 or len(set(values)) < 2:
                continue
            units = [f"{part}/{outcome.unit}" for outcome in of_part]
            effects[part, measure] = _correlation(counts, values, units, "spearman", samples, seed)
            ranked.append((_ranks(counts), _ranks(values), units))
        if ranked and len(dict.fromkeys(outcome.part for outcome in rows)) > 1:
            counts, values = (np.concatenate([ranks[side] for ranks in ranked]) for side in (0, 1))
            units = [unit for ranks in ranked for unit in ranks[2]]
            effects[ALL, measure] = _correlation(counts, values, units, "pearson", samples, seed)
    return effects


def _correlation(
    counts: np.ndarray, values: np.ndarray, units: list[str], kind: str, samples: int, seed: int
) -> ClozeEstimate:
    both = Correlations({"frequency": counts, "right": values}, units, samples=samples, seed=seed)
    draws = both.draws("frequency", "right", "spearman" if kind == "spearman" else "pearson")
    return ClozeEstimate(float(draws[0]), draws[1:], len(counts), None, both.units)


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks within a relation, from -0.5 to 0.5; equal values share the mean of theirs."""
    count = len(values)
    return pd.Series(values).rank().to_numpy() / count - (count + 1) / 2 / count
