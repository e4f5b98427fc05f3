"""Facts in patterns: precision at 1 and 10, consistency over paraphrases, and correlation with frequency."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd

from lamina.analyses.behaviour.cloze.scores import (
    ALL,
    TOP_WORDS,
    AnswerRow,
    ClozeEstimate,
    ClozeEstimates,
    ClozeOutcome,
    ClozeOutcomes,
)
from lamina.corpora.suites.pararel import Fact, Pattern, Relation, Relations
from lamina.errors import InputError
from lamina.models.language.language_model import LanguageModel
from lamina.models.language.slots import Gap, RatedCandidates, Spelling, cannot_spell, rate_shared
from lamina.progress import progress
from lamina.stats.correlations import Correlations
from lamina.types import Text

FACTS = 50
"""Facts of each relation that are scored by default."""
AT = (1, 10)
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
            for answers_of_fact in _ask(model, relation, limit, spelling, seed, skipped, rows):
                outcomes.scores.extend(_outcomes(relation, answers_of_fact, model.vocabulary))
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


def _ask(
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
                tuple(rank <= k for k in AT) if one_piece else None,
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


def _outcomes(relation: Relation, answers: FactOutcomes, vocabulary: int) -> Iterator[ClozeOutcome]:
    """Outcomes of one fact over its patterns; facts of one subject are resampled together."""
    fact, questions = answers.fact, answers.questions

    def outcome(measure: str, value: float, chance: float, *, split: bool = False, group: str = "") -> ClozeOutcome:
        one_piece = answers.one_piece if split else None
        return ClozeOutcome(relation.id, fact.id, measure, value, one_piece, chance, fact.subject, "", group)

    by_chance = 1 / answers.rivals
    for number, k in enumerate(AT):
        hits = [float(question.ranks[number]) for question in questions if question.ranks is not None]
        if hits:
            yield outcome(f"precision_at_{k}", float(np.mean(hits)), k / vocabulary)
    right = [float(question.right) for question in questions]
    yield outcome(OBJECTS, float(np.mean(right)), by_chance, split=True, group=relation.id)
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
