"""Texts with a slot of one's own: accuracy at 1, 5 and 10, and the choice among candidates."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from lamina.analyses.behaviour.cloze_scores import SAID, AnswerRow, Outcome, Outcomes
from lamina.corpora.cloze import Cloze, Clozes
from lamina.encoders.candidates import Rated, rate
from lamina.encoders.language_model import LanguageModel
from lamina.encoders.slots import Slot, cannot_spell
from lamina.errors import InputError

AT = (1, 5, 10)
CHOICE = "choice"
"""The share of items of which an answer is the likeliest candidate."""
FOLLOWED = "items whose slot is followed by words, which a causal model does not see"


def ask_clozes(model: LanguageModel, suite: Clozes, *, answers: bool) -> Outcomes:
    """Ask every item; a causal model those whose slot comes last."""
    items = [item for item in suite.items if model.kind == "masked" or not re.search(r"\w", item.after)]
    left_out = len(suite.items) - len(items)
    if not items:
        raise InputError(
            f"{suite.name}: words follow every slot, which {model.name} (a causal model) does not see; ask a masked "
            "model, or write texts that end with their slot"
        )
    _refuse_unspelt(model, suite.name, items)
    outcomes = Outcomes(skipped={FOLLOWED: left_out} if left_out else {})
    slots = [Slot(item.item, item.before, item.after) for item in items]
    words = [item.candidates or item.answers for item in items]
    for item, rated in zip(items, rate(model, slots, words), strict=True):
        outcomes.scores.extend(_outcomes(item, rated, model.vocabulary))
        if answers:
            outcomes.answers.append(_answer(model, item, rated))
    return outcomes


def most_frequent_answer(items: Iterable[Cloze], outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The same outcomes for a baseline that always says the answer that most other items of the part have."""
    known = {(item.part, item.id): item for item in items}
    counts: dict[str, Counter[str]] = {}
    for item in known.values():
        counts.setdefault(item.part, Counter()).update(item.answers)
    baseline = []
    for outcome in outcomes:
        item = known[outcome.part, outcome.id]
        others = counts[outcome.part] - Counter(item.answers)
        offered = [(-count, word) for word, count in others.items() if not item.candidates or word in item.candidates]
        if outcome.measure == CHOICE:
            # Where nothing that others say is offered, it guesses.
            value = float(min(offered)[1] in item.answers) if offered else outcome.chance
            baseline.append(outcome._replace(value=value))
        elif outcome.measure.startswith("accuracy_at_"):
            first = [word for _, word in sorted((-count, word) for word, count in others.items())]
            guesses = first[: int(outcome.measure.rpartition("_")[2])]
            baseline.append(outcome._replace(value=float(any(word in item.answers for word in guesses))))
    return baseline


def _refuse_unspelt(model: LanguageModel, name: str, items: Iterable[Cloze]) -> None:
    every = list(dict.fromkeys(word for item in items for word in (*item.answers, *item.candidates)))
    if unspelt := cannot_spell(model, every):
        listed = ", ".join(map(repr, unspelt[:8])) + (f" and {len(unspelt) - 8:,} more" if len(unspelt) > 8 else "")
        raise InputError(f"{name}: the vocabulary of {model.name} cannot spell {listed}; leave these out")


def _outcomes(item: Cloze, rated: Rated, vocabulary: int) -> Iterator[Outcome]:
    # The answers come first among the candidates.
    count = len(item.answers)
    one_piece = bool((rated.pieces[:count] == 1).any())
    rank = min(rated.rank(number) for number in range(count))
    for k in AT:
        group = item.part if k == 1 and not item.candidates else ""
        chance = min(1.0, k * count / vocabulary)
        yield Outcome(item.part, item.id, f"accuracy_at_{k}", float(rank <= k), one_piece, chance, group=group)
    yield Outcome(item.part, item.id, "probability", float(np.exp(rated.logprobs[:count]).sum()), one_piece)
    if item.candidates:
        same = bool((rated.pieces == 1).all())
        value = float(rated.logprobs.argmax() < count)
        chance = count / len(item.candidates)
        yield Outcome(item.part, item.id, CHOICE, value, same, chance, group=item.part)


def _answer(model: LanguageModel, item: Cloze, rated: Rated) -> AnswerRow:
    count = len(item.answers)
    best = min(range(count), key=rated.rank)
    top = " | ".join(rated.top(model, SAID))
    probability = float(np.exp(rated.logprobs[:count]).sum())
    text = f"{item.before}___{item.after}"
    return AnswerRow(
        item.item, item.part, text, "|".join(item.answers), len(rated.ids[best]), rated.rank(best), probability, top
    )
