"""What each token is to its question: asked, supporting, answer, or none of these."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from lamina.corpora.questions import Question
from lamina.encoders import SPECIAL, Tokens
from lamina.types import Span

NOWHERE = -1
"""The sentence number of what is in no sentence: the question, special tokens, answers appended to a story."""

GROUPS = ("question", "support", "answer", "other", "predicted", "words")
"""Groups of words that are measured: the first four share no word; `predicted` may be any of them, `words` is all."""


class Roles(NamedTuple):
    """The roles of words or of tokens; one can have several."""

    question: Bool[np.ndarray, " unit"]
    support: Bool[np.ndarray, " unit"]
    """In a supporting sentence; in SQuAD, the sentence that holds the answer."""
    gold: Bool[np.ndarray, " unit"]
    """In any of the accepted answers."""
    predicted: Bool[np.ndarray, " unit"]
    sentence: Int[np.ndarray, " unit"]
    """The number of its sentence, from 0; NOWHERE outside the context's sentences."""

    def of_tokens(self, tokens: Tokens) -> Roles:
        """Every token has the roles of its word; a special token has none."""
        special = tokens.words == SPECIAL
        at = np.where(special, 0, tokens.words)
        question, support, gold, predicted = (role[at] & ~special for role in self[:4])
        return Roles(question, support, gold, predicted, np.where(special, NOWHERE, self.sentence[at]))


def roles_of(question: Question, predicted: Span | None = None) -> Roles:
    """The roles of a text's words.

    Example:
        >>> from lamina.corpora.questions import make_question
        >>> asked = make_question("q", "Who barks?", "Dogs bark. Cats mew.", [(0, 10), (11, 20)], [(0, 4)], {0})
        >>> roles = roles_of(asked, Span(6, 7))
        >>> [asked.text.words[at] for at in np.flatnonzero(roles.support & ~roles.gold)], roles.sentence.tolist()
        (['bark', '.'], [-1, -1, -1, 0, 0, 0, 1, 1, 1])
    """
    text = question.text
    size = len(text.words)
    gold = _marked(size, (edge.span for edge in text.edges.get("answer", ())))
    if "sup" in text.edges:
        support = (edge.other for edge in text.edges["sup"] if edge.labels == ("1",) and edge.other is not None)
    else:
        # A context of one sentence: where that is known to hold the answer, it is the support.
        support = (edge.span for edge in text.edges["sentence"] if gold.any())
    sentence = np.full(size, NOWHERE)
    for edge in text.edges["sentence"]:
        sentence[edge.span.start : edge.span.end] = int(edge.labels[0])
    asked = _marked(size, text.segments[:1])
    return Roles(asked, _marked(size, support), gold, _marked(size, [predicted] if predicted else ()), sentence)


def groups_of(roles: Roles) -> Float[np.ndarray, "group word"]:
    """1 where a word belongs to one of GROUPS. The support is without the answer, which in SQuAD is part of it."""
    context = ~roles.question
    rows = (
        roles.question,
        roles.support & ~roles.gold & context,
        roles.gold & context,
        context & ~roles.support & ~roles.gold,
        roles.predicted,
        np.ones_like(context),
    )
    return np.stack(rows).astype(np.float32)


def _marked(size: int, spans: Iterable[Span]) -> Bool[np.ndarray, " unit"]:
    marks = np.zeros(size, bool)
    for span in spans:
        marks[span.start : span.end] = True
    return marks


class Part(NamedTuple):
    """A word of the context, or what is between two words."""

    text: str
    """As the raw context has it: all parts together are the context."""
    sentence: int
    """From 0; -1 between sentences."""
    support: bool
    gold: bool
    predicted: bool


_NOTHING = (NOWHERE, False, False, False)


def marked_context(question: Question, predicted: tuple[int, int] | None = None) -> list[Part]:
    """The context cut into words and what is between them, with their roles.

    What is between two words is in the answer, or the sentence, that both are in, so that a mark has no gaps.

    Args:
        question: with its context.
        predicted: where the predicted answer starts and ends, in characters of the context.

    Example:
        >>> from lamina.corpora.question_sets import typed_question
        >>> asked = next(typed_question("Who barks?", "Big dogs bark. Cats mew.", "big dogs").questions())
        >>> "".join(part.text for part in marked_context(asked) if part.gold)
        'Big dogs'
    """
    words = _words(question, predicted)
    parts: list[Part] = []
    at = 0
    for word, (start, end) in zip(words, question.offsets, strict=True):
        if at < start:
            between = question.context[at:start]
            parts.append(_between(between, parts[-1], word) if parts else Part(between, *_NOTHING))
        parts.append(word)
        at = end
    rest = question.context[at:]
    return [*parts, Part(rest, *_NOTHING)] if rest else parts


def _between(text: str, before: Part, after: Part) -> Part:
    same = before.sentence == after.sentence
    return Part(
        text,
        before.sentence if same else NOWHERE,
        same and before.support,
        before.gold and after.gold,
        before.predicted and after.predicted,
    )


def _words(question: Question, predicted: tuple[int, int] | None) -> list[Part]:
    roles, first = roles_of(question), question.text.segments[1].start
    low, high = predicted or (0, 0)
    return [
        Part(
            question.context[start:end],
            int(roles.sentence[word]),
            bool(roles.support[word]),
            bool(roles.gold[word]),
            low <= start < high,
        )
        for word, (start, end) in enumerate(question.offsets, start=first)
    ]
