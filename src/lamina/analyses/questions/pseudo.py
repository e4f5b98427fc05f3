"""Nulls of the same shape: what is no support and no answer, but as long, as contiguous and in such places."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from jaxtyping import Bool, Float

from lamina.analyses.questions.roles import Roles
from lamina.corpora.questions import Question
from lamina.types import Span

_BINS = 20
"""Parts of a context that positions of answers are counted in."""


class Positions:
    """Where in their contexts the answers of a data set start, from 0 (as early as possible) to 1 (as late).

    Example:
        >>> positions = Positions()
        >>> for _ in range(3):
        ...     positions.add(Span(9, 10), Span(0, 10))
        >>> rng = np.random.default_rng(0)
        >>> positions.draw(2, np.ones(10, bool), rng)
        Span(start=8, end=10)
    """

    def __init__(self) -> None:
        self._counts = np.zeros(_BINS)

    def add(self, answer: Span, context: Span) -> None:
        """Count one answer."""
        free = len(context) - len(answer)
        self._counts[_bin((answer.start - context.start) / free if free > 0 else 0.0)] += 1

    def draw(self, length: int, free: Bool[np.ndarray, " word"], rng: np.random.Generator) -> Span | None:
        """So many neighbouring words that are free, placed as answers are; anywhere where none of these places is."""
        size = len(free)
        taken = np.r_[0, np.cumsum(~free)]
        starts = np.arange(size - length + 1)
        starts = starts[taken[starts + length] == taken[starts]] if size >= length else starts[:0]
        if not len(starts):
            return None
        bins = _bin(starts / max(size - length, 1))
        chances = self._counts[bins] / np.bincount(bins, minlength=_BINS)[bins]
        chances = chances if chances.sum() > 0 else np.ones(len(starts))
        start = int(rng.choice(starts, p=chances / chances.sum()))
        return Span(start, start + length)


def _bin(place):
    return np.minimum((np.asarray(place) * _BINS).astype(int), _BINS - 1)


def note_answers(question: Question, positions: Positions) -> None:
    """Count where the accepted answers of a question are."""
    if len(question.text.segments) > 1:
        for edge in question.text.edges.get("answer", ()):
            positions.add(edge.span, question.text.segments[1])


def pseudo_groups(
    question: Question, roles: Roles, positions: Positions, rng: np.random.Generator
) -> Float[np.ndarray, "group word"]:
    """The groups of `groups_of`, with other words in the parts of support, answer and prediction.

    The real answer, prediction and support belong to none of them: what is measured is what a sentence and a span have
    in common with their context where they are neither. A group is empty where the context has no room for it.
    """
    context = ~roles.question
    support = _another_support(question, roles, rng)
    told = roles.gold | roles.predicted
    # The question comes first in a text: the context is what follows it.
    first = int(roles.question.sum())
    answer, predicted = np.zeros_like(told), np.zeros_like(told)
    answer[first:] = _elsewhere(roles.gold[first:], told[first:], positions, rng)
    predicted[first:] = _elsewhere(roles.predicted[first:], (told | answer)[first:], positions, rng)
    rows = (
        roles.question,
        support & ~answer & ~told & context,
        answer,
        context & ~roles.support & ~support & ~answer & ~told,
        predicted,
        ~told,
    )
    return np.stack(rows).astype(np.float32)


def _another_support(question: Question, roles: Roles, rng: np.random.Generator) -> Bool[np.ndarray, " word"]:
    """As many sentences that support nothing, as far from each other as those that do."""
    spans = {int(edge.labels[0]): edge.span for edge in question.text.edges["sentence"]}
    own = [number for number, span in spans.items() if roles.support[span.start : span.end].any()]
    marks = np.zeros(len(roles.support), bool)
    for number in _moved(own, spans.keys() - own, rng):
        marks[spans[number].start : spans[number].end] = True
    return marks


def _moved(numbers: list[int], free: Iterable[int], rng: np.random.Generator) -> list[int]:
    """The same pattern elsewhere; where it fits nowhere, any free sentences, unless neighbours are to stay together."""
    free = sorted(free)
    if not numbers:
        return []
    steps = [number - numbers[0] for number in numbers]
    starts = [start for start in free if all(start + step in free for step in steps)]
    if starts:
        start = int(rng.choice(starts))
        return [start + step for step in steps]
    together = any(after - before == 1 for before, after in pairwise(steps))
    if together or len(free) < len(numbers):
        return []
    return sorted(rng.choice(free, len(numbers), replace=False).tolist())


def _elsewhere(
    marked: Bool[np.ndarray, " word"],
    taken: Bool[np.ndarray, " word"],
    positions: Positions,
    rng: np.random.Generator,
) -> Bool[np.ndarray, " word"]:
    """For each run of marked words another one of its length; nothing where one does not fit."""
    found = np.zeros_like(marked)
    for run in runs_of(marked):
        span = positions.draw(len(run), ~(taken | found), rng)
        if span is None:
            return np.zeros_like(marked)
        found[span.start : span.end] = True
    return found


def runs_of(marked: Bool[np.ndarray, " word"]) -> list[Span]:
    """The runs of neighbouring marked words.

    Example:
        >>> runs_of(np.array([True, True, False, True]))
        [Span(start=0, end=2), Span(start=3, end=4)]
    """
    edges = np.flatnonzero(np.diff(np.r_[0, marked.astype(int), 0]))
    return [Span(int(start), int(end)) for start, end in edges.reshape(-1, 2)]


def moved_around(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Labels of words moved along by a random number of words, those at the end to the start; -1 stays.

    Runs of one label keep their length (but for the one that is cut), while what they cover changes.

    Example:
        >>> moved_around(np.array([-1, 0, 0, 0, 1, 1]), np.random.default_rng(0)).tolist()
        [-1, 0, 0, 1, 1, 0]
    """
    moved = labels.copy()
    there = labels != -1
    size = int(there.sum())
    if size > 1:
        moved[there] = np.roll(labels[there], int(rng.integers(1, size)))
    return moved
