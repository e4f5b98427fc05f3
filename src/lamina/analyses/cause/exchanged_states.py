"""States of one run put into another: between two contexts of a question, and between the sentences of a minimal pair.

Questions: in the other context two strings have changed places, either what the question names and another string of
its class, so that the answer is at another place, or the answer itself and another one. A model that answers with a
span says a place. In the second case that is the same place in both contexts, and states follow the strings: those of a
string go to where the same string is.

Pairs: the log-probabilities of tokens that both sentences have, each at the same place, can change. The first token
that differs is predicted from what both have. So the difference of log-probabilities is that over shared tokens, and a
patch shrinks it by as much as it makes the shared words of the bad sentence likelier.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from jaxtyping import Float, Int

from lamina.analyses.answering.roles import NOWHERE, roles_of
from lamina.analyses.cause.effects import (
    TESTED,
    PatchTokens,
    ScoreChange,
    effect_of,
    effects_of,
    put_back,
    put_in,
    random_tokens,
    share_of,
)
from lamina.corpora.questions.exchanged_answers import Exchange, asked_exchanges, exchanged, exchanges, known_answers
from lamina.corpora.questions.question import Question, answer_text
from lamina.corpora.suites.minimal_pairs import MinimalPair
from lamina.errors import CorpusError
from lamina.models.contract import SPECIAL
from lamina.models.interventions.edited_runs import Edit
from lamina.models.interventions.interventions import Interventions
from lamina.models.language.language_model import LanguageModel, TokenQueries, cut_passages, query_every_token
from lamina.models.running.batching import InputRow
from lamina.models.running.task_heads import HeadOnStates
from lamina.models.running.tokens import TokenizedText
from lamina.progress import progress
from lamina.stats.units import unit_of
from lamina.targets.loss import TokenSums, written
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


POSITIONS = ("before", "word", "after", "last", "special")
"""Where states are put in: all words before the first that differs; from the first word that differs to the last; the
words after these but the last of the sentence; the last word; tokens that are no text."""
EVERYWHERE = "all"
"""At all tokens: the difference over shared tokens is then gone, whatever the layer."""
EFFECTS = ("layer", "position", *TESTED, "n")
CONTRASTS = (
    "layer", "position", "effect", "other", "difference", "low", "high", "p_adjusted", "units", "needed", "n",
)  # fmt: skip
GAPS = ("words", "gap", "low", "high", "p_adjusted", "units", "needed", "n")
_SHARED, _DIFFERING = range(2)
_SIZES = "pairs whose sentences have different numbers of tokens"
_LONG = "pairs with a sentence longer than the model's limit"
_SPELLED = "pairs whose sentences have the same tokens, or none"


@dataclass(frozen=True, eq=False)
class PairRows:
    """Pairs as a language model reads them: the rows of bad sentences, and those of the good ones beside them."""

    pairs: list[MinimalPair]
    rows: list[InputRow]
    """Of bad sentences: one per sentence, or from a masked model one per token, which is hidden."""
    donors: list[InputRow]
    """Of good sentences, in the same order and as long."""
    owners: Int[np.ndarray, " row"]
    """The pair of each row."""
    bad: TokenSums
    """Tokens of bad sentences; those that both sentences have at the same place are summed apart from the others."""
    good: TokenSums
    """The same of good sentences."""
    places: list[dict[str, Int[np.ndarray, " token"]]]
    """[pair] Position -> its tokens."""


class PairPatchTables(NamedTuple):
    """Rows of tables."""

    effects: list[tuple[Any, ...]]
    random: list[tuple[Any, ...]]
    contrasts: list[tuple[Any, ...]]
    gaps: list[tuple[Any, ...]]


class PairPatch(NamedTuple):
    """Pairs with states put in at one layer and place."""

    layer: int
    position: str
    pairs: Int[np.ndarray, " held"]
    """Numbers of the pairs that have tokens there."""
    after: Float[np.ndarray, " held"]
    """Their differences of log-probabilities over shared tokens."""
    random: Float[np.ndarray, " held"] | None
    """The same with as many random tokens; None at all tokens."""


def ask_pairs(model: LanguageModel, pairs: Sequence[MinimalPair], skipped: Counter[str]) -> PairRows:
    """The pairs whose sentences have equally many tokens; others are counted in `skipped`."""
    cuts = cut_passages(model, [written(sentence) for pair in pairs for sentence in (pair.good, pair.bad)])
    fitting: list[MinimalPair] = []
    places: list[dict[str, np.ndarray]] = []
    rows: tuple[list[InputRow], list[InputRow]] = ([], [])
    parts: tuple[list[TokenQueries], list[TokenQueries]] = ([], [])
    owners: list[int] = []
    for pair, good, bad in zip(pairs, cuts[::2], cuts[1::2], strict=True):
        if why := _unfit(model, good, bad):
            skipped[why] += 1
            continue
        for side, cut in enumerate((good, bad)):
            wanted = query_every_token(model, [cut])[1]
            parts[side].append(wanted._replace(row=wanted.row + len(rows[side])))
            rows[side].extend(wanted.rows)
        owners += [len(fitting)] * (len(rows[1]) - len(owners))
        fitting.append(pair)
        places.append(positions_of(good, bad))
    if not fitting:
        why = "; ".join(f"{reason}: {count:,}" for reason, count in skipped.items())
        raise CorpusError(f"no pair can be patched ({why}); name a suite whose sentences differ in single words")
    every = [np.concatenate([sentence.target for sentence in wanted_of_side]) for wanted_of_side in parts]
    column = np.where(every[0] == every[1], _SHARED, _DIFFERING)
    good, bad = (
        TokenSums(_joined(sentence, wanted_of_side), column)
        for sentence, wanted_of_side in zip(parts, rows, strict=True)
    )
    return PairRows(fitting, rows[1], rows[0], np.array(owners), bad, good, places)


def _unfit(model: LanguageModel, good: TokenizedText, bad: TokenizedText) -> str:
    """Why the states of one sentence cannot be put into the other; nothing where they can."""
    sizes = [len(cut.tokens.ids) for cut in (good, bad)]
    if sizes[0] != sizes[1]:
        return _SIZES
    if sizes[0] > model.encoder.limit:
        return _LONG
    return _SPELLED if np.array_equal(good.tokens.ids, bad.tokens.ids) else ""


def _joined(parts: Sequence[TokenQueries], rows: list[InputRow]) -> TokenQueries:
    return TokenQueries(
        rows, *(np.concatenate([getattr(part, name) for part in parts]) for name in ("row", "place", "target"))
    )


def positions_of(good: TokenizedText, bad: TokenizedText) -> dict[str, Int[np.ndarray, " token"]]:
    """Position -> its tokens, in two sentences of equally many tokens.

    Example:
        >>> from lamina.models.contract import Tokens
        >>> words = np.array([-1, 0, 1, 2, 3, -1])
        >>> pieces = np.array([0, 5, 6, 7, 8, 1]), np.array([0, 5, 9, 7, 8, 1])
        >>> one, two = (TokenizedText(Tokens(ids, words), words, 1, 1) for ids in pieces)
        >>> {name: tokens.tolist() for name, tokens in positions_of(one, two).items()}
        {'before': [1], 'word': [2], 'after': [3], 'last': [4], 'special': [0, 5]}
    """
    text = np.arange(good.head, len(good.tokens.ids) - good.tail)
    apart = np.flatnonzero(good.tokens.ids != bad.tokens.ids)
    first, last = int(apart[0]), int(apart[-1])
    # To the borders of words, in either sentence.
    while first > text[0] and any(_same_word(cut, first, first - 1) for cut in (good, bad)):
        first -= 1
    while last < text[-1] and any(_same_word(cut, last, last + 1) for cut in (good, bad)):
        last += 1
    ending = int(text[-1])
    while ending > last + 1 and _same_word(bad, ending, ending - 1):
        ending -= 1
    return {
        "before": text[text < first],
        "word": text[(text >= first) & (text <= last)],
        "after": text[(text > last) & (text < ending)],
        "last": text[(text > last) & (text >= ending)],
        "special": np.setdiff1d(np.arange(len(good.tokens.ids)), text),
    }


def _same_word(cut: TokenizedText, one: int, other: int) -> bool:
    words = cut.tokens.words
    return bool(words[one] == words[other] != SPECIAL)


def measure_pairs(
    parts: Interventions, model: LanguageModel, pair_rows: PairRows, layers: Sequence[int], *, seed: int
) -> PairPatchTables:
    """How much each patch changes the difference of log-probabilities, and what that difference is made of."""
    edits: dict[tuple[bool, int, str], Edit] = {}
    for position in (*POSITIONS, EVERYWHERE):
        values = [_tokens(pair_rows, row, position) for row in range(len(pair_rows.rows))]
        edits |= {(False, layer, position): put_in(layer, list(map(PatchTokens.alike, values))) for layer in layers}
        if position != EVERYWHERE:
            drawn = _random(pair_rows, position, seed)
            edits |= {(True, layer, position): put_in(layer, drawn) for layer in layers}
    (good,) = _sums(parts, model, pair_rows, pair_rows.good, pair_rows.donors)
    bad, *changed = _sums(
        parts, model, pair_rows, pair_rows.bad, pair_rows.rows, list(edits.values()), pair_rows.donors
    )
    after = dict(zip(edits, changed, strict=True))
    patches = []
    for (random, layer, position), values in after.items():
        with_tokens = [
            number for number, places in enumerate(pair_rows.places) if position == EVERYWHERE or len(places[position])
        ]
        if with_tokens and not random:
            other = after.get((True, layer, position))
            drawn = None if other is None else (good - other)[with_tokens, _SHARED]
            patches.append(
                PairPatch(layer, position, np.array(with_tokens), (good - values)[with_tokens, _SHARED], drawn)
            )
    return pair_tables(good - bad, patches, [pair.item for pair in pair_rows.pairs])


def pair_tables(
    differences: Float[np.ndarray, "pair 2"], patches: Sequence[PairPatch], units: Sequence[str]
) -> PairPatchTables:
    """Rows of tables from the differences of log-probabilities of pairs, on shared tokens and on those that differ.

    All layers and positions are one family: of patches, of random tokens, and of patches minus random tokens, where p
    is one-sided, that states take more of the difference away than random tokens do.
    """
    before = differences[:, _SHARED]
    drawn = [(patch, patch.random) for patch in patches if patch.random is not None]
    effects = effects_of([_changed(before[patch.pairs], patch.after, patch, units) for patch in patches])
    random = effects_of([_changed(before[patch.pairs], values, patch, units) for patch, values in drawn])
    compared = effects_of([_changed(values, patch.after, patch, units) for patch, values in drawn], harm=-1)
    both = {(patch.layer, patch.position): effect.effect for patch, effect in zip(patches, effects, strict=True)}
    rows = [
        (patch.layer, patch.position, both[patch.layer, patch.position], other.effect, *test[2:], len(patch.pairs))
        for (patch, _), other, test in zip(drawn, random, compared, strict=True)
    ]
    return PairPatchTables(
        [
            (patched.layer, patched.position, *effect_row[2:], len(patched.pairs))
            for patched, effect_row in zip(patches, effects, strict=True)
        ],
        [
            (patched.layer, patched.position, *effect_row[2:], len(patched.pairs))
            for (patched, _), effect_row in zip(drawn, random, strict=True)
        ],
        rows,
        _gaps(differences, units),
    )


def _changed(before: np.ndarray, after: np.ndarray, patch: PairPatch, units: Sequence[str]) -> ScoreChange:
    one = np.ones(len(patch.pairs))
    return ScoreChange(TargetScores(before, one), TargetScores(after, one), np.array(units)[patch.pairs].tolist())


def _tokens(pair_rows: PairRows, row: int, position: str) -> Int[np.ndarray, " token"]:
    if position == EVERYWHERE:
        return np.arange(len(pair_rows.rows[row].ids))
    return pair_rows.places[pair_rows.owners[row]][position]


def _random(pair_rows: PairRows, position: str, seed: int) -> list[PatchTokens]:
    """For each row as many tokens as the position has, of the others."""
    tokens = []
    for row in range(len(pair_rows.rows)):
        patched, among = _tokens(pair_rows, row, position), np.ones(len(pair_rows.rows[row].ids), bool)
        among[patched] = False
        key = f"{position}:{pair_rows.pairs[pair_rows.owners[row]].item}"
        tokens.append(PatchTokens.alike(random_tokens(among, len(patched), seed=seed, key=key)))
    return tokens


def _sums(
    parts: Interventions,
    model: LanguageModel,
    pair_rows: PairRows,
    spoken: TokenSums,
    rows: Sequence[InputRow],
    edits: Sequence[Edit] = (),
    donors: Sequence[InputRow] | None = None,
) -> list[Float[np.ndarray, "pair 2"]]:
    """Log-probabilities of sentences as they are, then under each edit: of shared tokens, and of those that differ."""
    last = parts.encoder.blocks
    by_run = [np.zeros((len(pair_rows.pairs), 2)) for _ in range(len(edits) + 1)]
    with progress(f"pairs for {model.name}", len(rows) * len(by_run)) as advance, torch.no_grad():
        for batch in parts.run(rows, edits, donors=donors):
            logprobs = spoken.logprobs(model, batch.rows, batch.states[last]).cpu().numpy()
            sums = by_run[0 if batch.edit is None else batch.edit + 1]
            np.add.at(sums, pair_rows.owners[list(batch.rows)], np.pad(logprobs, ((0, 0), (0, 2 - logprobs.shape[1]))))
            advance(len(batch.rows))
    return by_run


def _gaps(differences: Float[np.ndarray, "pair 2"], units: Sequence[str]) -> list[tuple[Any, ...]]:
    """By how much good sentences are likelier: in all, on the tokens that both have, and on the others."""
    one, nothing = np.ones(len(differences)), np.zeros(len(differences))
    parts = {
        "all": differences.sum(1),
        "shared": differences[:, _SHARED],
        "differing": differences[:, _DIFFERING],
    }
    tests = (effect_of(TargetScores(nothing, one), TargetScores(gap, one), units) for gap in parts.values())
    return [(words, *test[2:], len(one)) for words, test in zip(parts, tests, strict=True)]
