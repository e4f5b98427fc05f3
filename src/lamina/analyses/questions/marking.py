"""A context as a page shows it: its words in order, each with what it is to the question."""

from __future__ import annotations

from typing import NamedTuple

from lamina.analyses.questions.roles import NOWHERE, roles_of
from lamina.corpora.questions import Question


class Part(NamedTuple):
    """A word of the context, or what stands between two words."""

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

    What stands between two words is in the answer, or the sentence, that both are in, so that a mark runs through.

    Args:
        question: with its context.
        predicted: where the predicted answer starts and ends, in characters of the context.

    Example:
        >>> from lamina.analyses.questions.reading import typed_question
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
