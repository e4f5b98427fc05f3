"""Answers that turn when states of another context are put in: by layer, and by what a token is to the question.

In the other context two strings have changed places: what the question names and another string of its class, so that
the answer is at another place; or the answer itself and another one. A model that answers with a span says a place. In
the second case that is the same place in both contexts, and states follow the strings: those of a string go to where
the same string is.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Int

from lamina.analyses.answering.roles import NOWHERE, roles_of
from lamina.analyses.cause.effects import (
    PatchTokens,
    ScoreChange,
    effects_of,
    put_back,
    put_in,
    random_tokens,
    share_of,
)
from lamina.corpora.questions.exchanged_answers import Exchange, asked_exchanges, exchanged, exchanges, known_answers
from lamina.corpora.questions.question import Question, answer_text
from lamina.models.contract import SPECIAL
from lamina.models.interventions.edited_runs import Edit
from lamina.models.interventions.interventions import Interventions
from lamina.models.running.batching import InputRow
from lamina.models.running.task_heads import HeadOnStates
from lamina.progress import progress
from lamina.stats.units import unit_of
from lamina.targets.target import TargetScores
from lamina.tasks.task import best
from lamina.training.answering import Answer, Answerer
from lamina.training.objective import TrainingRow as Window
from lamina.training.spans import best_spans
from lamina.types import Span

Swap = Literal["asked", "answer"]
"""What changes places with another string: what the question names, or the answer."""
SWAPS: tuple[Swap, ...] = get_args(Swap)
ROLES = ("question", "support", "answer", "rest", "special")
"""Groups of tokens, which share none: `answer` is the answers to both contexts, `support` the sentences that hold or
support these, without them, `special` tokens that are no text, `rest` everything else."""
SUPPORT, ANSWER = "support", "answer"
ALL = "all"
"""All tokens, in place of a role."""
PATCH = ("layer", "role", "turned", "low", "high", "n")
OUTCOMES = ("swapped", "layer", "role", "outcome", "share", "low", "high", "n")
CONTROLS = ("swapped", "control", *PATCH)
DIFFERENCES = (
    "swapped", "layer", "role", "against", "turned", "other", "difference", "low", "high", "p_adjusted", "units",
    "needed", "n",
)  # fmt: skip
ROLE_TOKENS, RANDOM, UNCHANGED = "", "random tokens", "unchanged context"
"""What is patched: the tokens of a role; as many others; all tokens, from the same context."""
_TURNED, _SAME, _OTHER = _OUTCOMES = ("turned", "kept", "other")
"""The answer is that of the other context, that of its own, or neither."""
_AT_ONCE = 16
"""Questions that are answered in both contexts together."""
_TRIES = 4
"""Other contexts of a question that are tried."""
_NO_RIVAL: dict[Swap, str] = {
    "asked": "naming nothing of which the context has another of the same class",
    "answer": "without another string in the context that is of the answer's class (year, number, name; story: word)",
}
_PIECES = "of which the strings to exchange have different numbers of tokens"
_WINDOWS = "that take several windows"
_WRONG: dict[Swap, str] = {
    "asked": "that are answered incorrectly, or alike in both contexts",
    "answer": "that are not answered correctly in both contexts",
}


@dataclass(frozen=True, eq=False)
class TwoContexts:
    """A question about two contexts."""

    question: Question
    exchanged: Question
    """In its context two strings have changed places."""
    exchange: Exchange
    window: Window
    donor: Window
    """What the model reads of the other context: as many tokens."""
    other_answer: Span | None = None
    """The words of the answer to the other context, where these are the same in both; else the strings are answers."""

    @property
    def turned(self) -> tuple[str, ...]:
        """Answers, as they are in its own context, that are those to the other context."""
        return self.exchanged.answers if self.other_answer is None else (answer_text(self.question, self.other_answer),)


@dataclass
class TurningQuestions:
    """Questions whose answer can turn, and why others are left out."""

    pairs: list[TwoContexts] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)


class TurnTables(NamedTuple):
    """Rows of tables."""

    patch: list[tuple[Any, ...]]
    outcomes: list[tuple[Any, ...]]
    controls: list[tuple[Any, ...]]
    differences: list[tuple[Any, ...]]


def find_pairs(
    answerer: Answerer, questions: Sequence[Question], swap: Swap, *, most: int, seed: int
) -> TurningQuestions:
    """Questions, in a random order, until enough of them are answered differently in two contexts."""
    turning = TurningQuestions()
    ranked = sorted(questions, key=lambda question: hashlib.sha256(f"{seed}:{question.text.id}".encode()).digest())
    remaining = _exchangeable(answerer, ranked, swap, known_answers(questions), turning.skipped, seed)
    with progress(f"questions that {answerer.encoder.name} answers in two contexts", most) as advance:
        while len(turning.pairs) < most and (some := list(islice(remaining, min(_AT_ONCE, most - len(turning.pairs))))):
            for chosen in _answered(answerer, some, swap):
                if chosen is None:
                    turning.skipped[f"questions {_WRONG[swap]} ({swap})"] += 1
                else:
                    turning.pairs.append(chosen)
                    advance()
    if beyond := len(questions) - len(turning.pairs) - turning.skipped.total():
        turning.skipped[f"questions beyond those asked for with --items ({swap})"] = beyond
    return turning


def _exchangeable(
    answerer: Answerer,
    questions: Sequence[Question],
    swap: Swap,
    known: Mapping[str, Collection[str]],
    skipped: Counter[str],
    seed: int,
) -> Iterator[list[TwoContexts]]:
    """Each question with a few other contexts, as the model reads them."""
    for question in questions:
        if not question.context or not question.answers:
            skipped[f"questions without a known answer in a context ({swap})"] += 1
            continue
        (window, *more) = answerer.windows(question)
        why = _WINDOWS if more else _NO_RIVAL[swap]
        contexts: list[TwoContexts] = []
        places = asked_exchanges(question, seed=seed) if swap == "asked" else exchanges(question, known, seed=seed)
        for exchange in () if more else places:
            other = exchanged(question, exchange)
            donor = answerer.windows(other)[0]
            if _aligned(window, donor, exchange):
                contexts.append(TwoContexts(question, other, exchange, window, donor))
            why = _PIECES
            if len(contexts) == _TRIES:
                break
        if contexts:
            yield contexts
        else:
            skipped[f"questions {why} ({swap})"] += 1


def _answered(answerer: Answerer, some: Sequence[list[TwoContexts]], swap: Swap) -> Iterator[TwoContexts | None]:
    """Of each question's other contexts the first that the model answers as it should; None where there is none."""
    first = list(answerer.answer([contexts[0].question for contexts in some]))
    right = [number for number, answer in enumerate(first) if answer.right]
    seconds = answerer.answer([pair.exchanged for number in right for pair in some[number]])
    for contexts, answer_here in zip(some, first, strict=True):
        answers = list(islice(seconds, len(contexts))) if answer_here.right else []
        turning = (_turning(pair, swap, answer_here, second) for pair, second in zip(contexts, answers, strict=False))
        yield next((pair for pair in turning if pair is not None), None)


def _turning(pair: TwoContexts, swap: Swap, first: Answer, second: Answer) -> TwoContexts | None:
    """The pair, where the answer to the other context is another; else None."""
    if swap == "answer":
        return pair if second.right else None
    if first.span is None or second.span is None:
        return None
    # What is right in the other context is not known; what counts is that the model answers otherwise, in words that
    # are the same in both contexts.
    same = answer_text(pair.question, second.span) == second.text
    apart = second.span.end <= first.span.start or first.span.end <= second.span.start
    another = best(second.text, pair.question.answers).exact == 0
    return replace(pair, other_answer=second.span) if same and apart and another else None


def _aligned(window: Window, donor: Window, exchange: Exchange) -> bool:
    """Whether two windows differ in nothing but strings of equal length that have changed places."""
    if not np.array_equal(window.words, donor.words):
        return False
    expected = window.ids.copy()
    for places, others in ((exchange.one, exchange.other), (exchange.other, exchange.one)):
        source = _tokens_in(window, others[0])
        for place in places:
            tokens = _tokens_in(window, place)
            if not len(tokens) or len(tokens) != len(source):
                return False
            expected[tokens] = window.ids[source]
    return np.array_equal(expected, donor.ids)


def _tokens_in(window: Window, *spans: Span) -> Int[np.ndarray, " token"]:
    tokens = [np.flatnonzero((window.words >= span.start) & (window.words < span.end)) for span in spans]
    return np.concatenate(tokens)


def places_of(pair: TwoContexts) -> dict[str, PatchTokens]:
    """Role -> its tokens, and the tokens of the other context whose states they get."""
    window, text = pair.window, pair.question.text
    roles, special = roles_of(pair.question), window.words == SPECIAL
    words = np.where(special, 0, window.words)
    if pair.other_answer is None:
        one, other = _tokens_in(window, *pair.exchange.one), _tokens_in(window, *pair.exchange.other)
        answer = PatchTokens(np.r_[one, other], np.r_[other, one])
        support = roles.support
    else:
        answers = [edge.span for edge in text.edges["answer"]]
        answer = PatchTokens.alike(np.unique(_tokens_in(window, *answers, pair.other_answer)))
        support = roles.support | np.isin(roles.sentence, [*_sentences(roles.sentence, [*answers, pair.other_answer])])
    left = ~special
    left[answer.to] = False
    in_question = left & roles.question[words]
    supporting = left & support[words] & ~in_question
    return {
        "question": PatchTokens.alike(np.flatnonzero(in_question)),
        "support": PatchTokens.alike(np.flatnonzero(supporting)),
        "answer": answer,
        "rest": PatchTokens.alike(np.flatnonzero(left & ~in_question & ~supporting)),
        "special": PatchTokens.alike(np.flatnonzero(special)),
    }


def _sentences(sentence: Int[np.ndarray, " word"], spans: Sequence[Span]) -> set[int]:
    """The sentences that hold some spans."""
    return {int(number) for span in spans for number in sentence[span.start : span.end]} - {NOWHERE}


def _random_places(pair: TwoContexts, role: str, patched: PatchTokens, seed: int) -> PatchTokens:
    """As many tokens as a role has, of all; of exchanged answers, which always turn, none is among them."""
    among = np.ones(len(pair.window.ids), bool)
    if pair.other_answer is None:
        among[_tokens_in(pair.window, *pair.exchange.one, *pair.exchange.other)] = False
    return PatchTokens.alike(random_tokens(among, len(patched.to), seed=seed, key=f"{role}:{pair.question.text.id}"))


def measure_turns(
    parts: Interventions,
    head: HeadOnStates,
    pairs: Sequence[TwoContexts],
    swap: Swap,
    layers: Sequence[int],
    *,
    samples: int,
    seed: int,
) -> TurnTables:
    """What becomes of the answers when a role of a layer is patched, and the same with as many random tokens."""
    by_pair = [places_of(pair) for pair in pairs]
    places = {role: [tokens[role] for tokens in by_pair] for role in ROLES}
    drawn = {
        role: [_random_places(pair, role, patched, seed) for pair, patched in zip(pairs, places[role], strict=True)]
        for role in ROLES
    }
    edits: dict[tuple[str, int, str], Edit] = {}
    for layer in layers:
        edits |= {(ROLE_TOKENS, layer, role): put_in(layer, places[role]) for role in ROLES}
        edits |= {(RANDOM, layer, role): put_in(layer, drawn[role]) for role in ROLES}
        edits[UNCHANGED, layer, ALL] = put_back(layer)
    outcomes = dict(zip(edits, _outcomes(parts, head, pairs, list(edits.values())), strict=True))
    texts = [pair.question.text for pair in pairs]
    unit = unit_of(texts)
    units = np.array([unit.of(text) for text in texts])
    there = {role: np.array([bool(len(tokens.to)) for tokens in places[role]]) for role in ROLES}
    there[ALL] = np.ones(len(pairs), bool)
    return turned_tables(swap, outcomes, there, units, samples=samples, seed=seed)


def _outcomes(
    parts: Interventions, head: HeadOnStates, pairs: Sequence[TwoContexts], edits: Sequence[Edit]
) -> list[np.ndarray]:
    """For each edit, what becomes of each answer."""
    rows, donors = (
        [_row(number, getattr(pair, of)) for number, pair in enumerate(pairs)] for of in ("window", "donor")
    )
    by_edit = [np.full(len(pairs), _SAME, object) for _ in edits]
    last = parts.encoder.blocks
    with progress(f"patches of {parts.encoder.name}", len(pairs) * (len(edits) + 1)) as advance:
        for batch in parts.run(rows, edits, donors=donors):
            if batch.edit is not None:
                starts, ends = head([rows[row] for row in batch.rows], batch.states[last])
                guesses = best_spans([pairs[row].window for row in batch.rows], starts, ends)
                for row, guess in zip(batch.rows, guesses, strict=True):
                    by_edit[batch.edit][row] = _outcome(pairs[row], answer_text(pairs[row].question, guess.span))
            advance(len(batch.rows))
    return by_edit


def _outcome(pair: TwoContexts, answer: str) -> str:
    if best(answer, pair.turned).exact == 1:
        return _TURNED
    return _SAME if best(answer, pair.question.answers).exact == 1 else _OTHER


def _row(number: int, window: Window) -> InputRow:
    whole = slice(0, len(window.ids))
    return InputRow(number, window.ids, window.types, window.words, whole, whole)


def turned_tables(
    swap: Swap,
    outcomes: Mapping[tuple[str, int, str], np.ndarray],
    there: Mapping[str, np.ndarray],
    units: np.ndarray,
    *,
    samples: int,
    seed: int,
) -> TurnTables:
    """Shares with intervals, and their differences; roles that a question has no tokens of are not counted.

    Every role is compared with as many random tokens, and the answers with the support; each is a family over layers
    (and roles).

    Args:
        swap: what has changed places.
        outcomes: what is patched, layer, role -> what becomes of each answer.
        there: role -> which questions have tokens of it.
        units: the document of each question.
        samples: bootstrap samples.
        seed: of the draw.
    """
    rows = TurnTables([], [], [], [])
    for (kind, layer, role), answers in outcomes.items():
        has_tokens = there[role]
        here, count, keys = answers[has_tokens], int(has_tokens.sum()), units[has_tokens].tolist()
        shares = {outcome: share_of(here == outcome, keys, samples=samples, seed=seed) for outcome in _OUTCOMES}
        if kind != ROLE_TOKENS:
            rows.controls.append((swap, kind, layer, role, *shares[_TURNED], count))
            continue
        rows.patch.append((layer, role, *shares[_TURNED], count))
        rows.outcomes.extend((swap, layer, role, outcome, *share, count) for outcome, share in shares.items())
    owns = [(layer, role) for kind, layer, role in outcomes if kind == ROLE_TOKENS]
    families = {
        RANDOM: [(layer, role, (RANDOM, layer, role), there[role]) for layer, role in owns],
        SUPPORT: [
            (layer, role, (ROLE_TOKENS, layer, SUPPORT), there[ANSWER] & there[SUPPORT])
            for layer, role in owns
            if role == ANSWER and (ROLE_TOKENS, layer, SUPPORT) in outcomes
        ],
    }
    for against, members in families.items():
        compared = [member for member in members if member[3].any()]
        changes = []
        for layer, role, other, has_tokens in compared:
            before, after = (
                TargetScores((outcomes[outcome][has_tokens] == _TURNED).astype(float), np.ones(int(has_tokens.sum())))
                for outcome in (other, (ROLE_TOKENS, layer, role))
            )
            changes.append(ScoreChange(before, after, units[has_tokens].tolist()))
        for (layer, role, _, has_tokens), effect in zip(compared, effects_of(changes), strict=True):
            shares = effect.value, effect.baseline
            rows.differences.append((swap, layer, role, against, *shares, *effect[2:], int(has_tokens.sum())))
    return rows
