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
from lamina.analyses.cause.edits import PatchTokens, put_back, put_in, random_tokens, share_of
from lamina.analyses.cause.effects import ScoreChange, effects_of
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
from lamina.tasks.scoring import best
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
_PIECES = "of which the strings to exchange have different numbers of pieces"
_WINDOWS = "that take several windows"
_WRONG: dict[Swap, str] = {
    "asked": "that are answered wrongly, or alike in both contexts",
    "answer": "that are not answered rightly in both contexts",
}


@dataclass(frozen=True, eq=False)
class TwoContexts:
    """A question about two contexts."""

    own: Question
    other: Question
    """In its context two strings have changed places."""
    exchange: Exchange
    window: Window
    donor: Window
    """What the model reads of the other context: as many tokens."""
    told: Span | None = None
    """The words of the answer to the other context, where these are the same in both; else the strings are answers."""

    @property
    def turned(self) -> tuple[str, ...]:
        """Answers, as they are in its own context, that are those to the other context."""
        return self.other.answers if self.told is None else (answer_text(self.own, self.told),)


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
    """Questions, in a random order, until so many are answered differently in two contexts."""
    found = TurningQuestions()
    ranked = sorted(questions, key=lambda each: hashlib.sha256(f"{seed}:{each.text.id}".encode()).digest())
    remaining = _exchangeable(answerer, ranked, swap, known_answers(questions), found.skipped, seed)
    with progress(f"questions that {answerer.encoder.name} answers in two contexts", most) as advance:
        while len(found.pairs) < most and (some := list(islice(remaining, min(_AT_ONCE, most - len(found.pairs))))):
            for chosen in _answered(answerer, some, swap):
                if chosen is None:
                    found.skipped[f"questions {_WRONG[swap]} ({swap})"] += 1
                else:
                    found.pairs.append(chosen)
                    advance()
    if beyond := len(questions) - len(found.pairs) - found.skipped.total():
        found.skipped[f"questions beyond those asked for with --items ({swap})"] = beyond
    return found


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
        made: list[TwoContexts] = []
        places = asked_exchanges(question, seed=seed) if swap == "asked" else exchanges(question, known, seed=seed)
        for exchange in () if more else places:
            other = exchanged(question, exchange)
            donor = answerer.windows(other)[0]
            if _aligned(window, donor, exchange):
                made.append(TwoContexts(question, other, exchange, window, donor))
            why = _PIECES
            if len(made) == _TRIES:
                break
        if made:
            yield made
        else:
            skipped[f"questions {why} ({swap})"] += 1


def _answered(answerer: Answerer, some: Sequence[list[TwoContexts]], swap: Swap) -> Iterator[TwoContexts | None]:
    """Of each question's other contexts the first that the model answers as it should; None where there is none."""
    first = list(answerer.answer([contexts[0].own for contexts in some]))
    right = [at for at, answer in enumerate(first) if answer.right]
    seconds = answerer.answer([pair.other for at in right for pair in some[at]])
    for contexts, own in zip(some, first, strict=True):
        answers = list(islice(seconds, len(contexts))) if own.right else []
        turning = (_turning(pair, swap, own, second) for pair, second in zip(contexts, answers, strict=False))
        yield next((pair for pair in turning if pair is not None), None)


def _turning(pair: TwoContexts, swap: Swap, first: Answer, second: Answer) -> TwoContexts | None:
    """The pair, where the answer to the other context is another; else None."""
    if swap == "answer":
        return pair if second.right else None
    if first.span is None or second.span is None:
        return None
    # What is right in the other context is not known; what counts is that the model answers otherwise, in words that
    # are the same in both contexts.
    same = answer_text(pair.own, second.span) == second.text
    apart = second.span.end <= first.span.start or first.span.end <= second.span.start
    another = best(second.text, pair.own.answers).exact == 0
    return replace(pair, told=second.span) if same and apart and another else None


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
    found = [np.flatnonzero((window.words >= span.start) & (window.words < span.end)) for span in spans]
    return np.concatenate(found)


def places_of(pair: TwoContexts) -> dict[str, PatchTokens]:
    """Role -> its tokens, and the tokens of the other context whose states they get."""
    window, text = pair.window, pair.own.text
    roles, special = roles_of(pair.own), window.words == SPECIAL
    words = np.where(special, 0, window.words)
    if pair.told is None:
        one, other = _tokens_in(window, *pair.exchange.one), _tokens_in(window, *pair.exchange.other)
        answer = PatchTokens(np.r_[one, other], np.r_[other, one])
        support = roles.support
    else:
        answers = [edge.span for edge in text.edges["answer"]]
        answer = PatchTokens.alike(np.unique(_tokens_in(window, *answers, pair.told)))
        support = roles.support | np.isin(roles.sentence, [*_sentences(roles.sentence, [*answers, pair.told])])
    left = ~special
    left[answer.to] = False
    asked = left & roles.question[words]
    supporting = left & support[words] & ~asked
    return {
        "question": PatchTokens.alike(np.flatnonzero(asked)),
        "support": PatchTokens.alike(np.flatnonzero(supporting)),
        "answer": answer,
        "rest": PatchTokens.alike(np.flatnonzero(left & ~asked & ~supporting)),
        "special": PatchTokens.alike(np.flatnonzero(special)),
    }


def _sentences(sentence: Int[np.ndarray, " word"], spans: Sequence[Span]) -> set[int]:
    """The sentences that hold some spans."""
    return {int(number) for span in spans for number in sentence[span.start : span.end]} - {NOWHERE}


def _random_places(pair: TwoContexts, role: str, own: PatchTokens, seed: int) -> PatchTokens:
    """As many tokens as a role has, of all; of exchanged answers, which always turn, none is among them."""
    among = np.ones(len(pair.window.ids), bool)
    if pair.told is None:
        among[_tokens_in(pair.window, *pair.exchange.one, *pair.exchange.other)] = False
    return PatchTokens.alike(random_tokens(among, len(own.to), seed=seed, key=f"{role}:{pair.own.text.id}"))


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
    places = {role: [each[role] for each in by_pair] for role in ROLES}
    drawn = {
        role: [_random_places(pair, role, own, seed) for pair, own in zip(pairs, places[role], strict=True)]
        for role in ROLES
    }
    edits: dict[tuple[str, int, str], Edit] = {}
    for layer in layers:
        edits |= {(ROLE_TOKENS, layer, role): put_in(layer, places[role]) for role in ROLES}
        edits |= {(RANDOM, layer, role): put_in(layer, drawn[role]) for role in ROLES}
        edits[UNCHANGED, layer, ALL] = put_back(layer)
    outcomes = dict(zip(edits, _outcomes(parts, head, pairs, list(edits.values())), strict=True))
    texts = [pair.own.text for pair in pairs]
    unit = unit_of(texts)
    units = np.array([unit.of(text) for text in texts])
    there = {role: np.array([bool(len(each.to)) for each in places[role]]) for role in ROLES}
    there[ALL] = np.ones(len(pairs), bool)
    return turned_tables(swap, outcomes, there, units, samples=samples, seed=seed)


def _outcomes(
    parts: Interventions, head: HeadOnStates, pairs: Sequence[TwoContexts], edits: Sequence[Edit]
) -> list[np.ndarray]:
    """For each edit, what becomes of each answer."""
    rows, donors = ([_row(at, getattr(pair, of)) for at, pair in enumerate(pairs)] for of in ("window", "donor"))
    told = [np.full(len(pairs), _SAME, object) for _ in edits]
    last = parts.encoder.blocks
    with progress(f"patches of {parts.encoder.name}", len(pairs) * (len(edits) + 1)) as advance:
        for made in parts.run(rows, edits, donors=donors):
            if made.edit is not None:
                starts, ends = head([rows[row] for row in made.rows], made.states[last])
                guesses = best_spans([pairs[row].window for row in made.rows], starts, ends)
                for row, guess in zip(made.rows, guesses, strict=True):
                    told[made.edit][row] = _outcome(pairs[row], answer_text(pairs[row].own, guess.span))
            advance(len(made.rows))
    return told


def _outcome(pair: TwoContexts, answer: str) -> str:
    if best(answer, pair.turned).exact == 1:
        return _TURNED
    return _SAME if best(answer, pair.own.answers).exact == 1 else _OTHER


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
    found = TurnTables([], [], [], [])
    for (kind, layer, role), said in outcomes.items():
        held = there[role]
        own, count, keys = said[held], int(held.sum()), units[held].tolist()
        shares = {each: share_of(own == each, keys, samples=samples, seed=seed) for each in _OUTCOMES}
        if kind != ROLE_TOKENS:
            found.controls.append((swap, kind, layer, role, *shares[_TURNED], count))
            continue
        found.patch.append((layer, role, *shares[_TURNED], count))
        found.outcomes.extend((swap, layer, role, each, *share, count) for each, share in shares.items())
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
        kept = [member for member in members if member[3].any()]
        changes = []
        for layer, role, other, held in kept:
            before, after = (
                TargetScores((outcomes[each][held] == _TURNED).astype(float), np.ones(int(held.sum())))
                for each in (other, (ROLE_TOKENS, layer, role))
            )
            changes.append(ScoreChange(before, after, units[held].tolist()))
        for (layer, role, _, held), effect in zip(kept, effects_of(changes), strict=True):
            shares = effect.value, effect.baseline
            found.differences.append((swap, layer, role, against, *shares, *effect[2:], int(held.sum())))
    return found
