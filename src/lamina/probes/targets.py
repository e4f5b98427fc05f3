"""A task's targets in a list of texts, as arrays: tokens, labels, and which decisions count."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from lamina.encoders import Tokens
from lamina.tasks import Task, decisions
from lamina.types import Edge, Text


@dataclass(frozen=True, eq=False)
class Targets:
    """All targets of one task. Texts are numbered in the order they were given."""

    labels: tuple[str, ...]
    """The columns of `gold`: the labels a probe predicts."""
    text: np.ndarray
    """[target] Number of its text."""
    tokens: Int[np.ndarray, "target span 2"]
    """First token and one past the last, within the text's own tokens, for each span."""
    words: Int[np.ndarray, "target span 2"]
    """The same in words."""
    gold: Bool[np.ndarray, "target label"]
    """Which labels hold."""
    rated: Bool[np.ndarray, "target label"]
    """Which labels annotators were asked about; training uses these."""
    scored: Bool[np.ndarray, "target label"]
    """Which decisions count in the score: rated, and not left out by the metric."""
    unseen: Bool[np.ndarray, "target unseen_label"]
    """Which scored labels without a column hold: labels unseen in training, which no probe can predict."""
    texts: int
    """Number of texts, with or without targets."""
    unseen_labels: tuple[str, ...] = ()
    """The columns of `unseen`."""
    values: Float[np.ndarray, " target"] | None = None
    """What graded targets were judged at; None where targets have labels."""

    def __len__(self) -> int:
        return len(self.text)

    @property
    def arity(self) -> int:
        """Spans per target."""
        return self.tokens.shape[1]

    def among(self, texts: Iterable[int]) -> Targets:
        """Only the targets of these texts; texts keep their numbers."""
        kept = np.isin(self.text, np.fromiter(texts, dtype=np.int64))
        return self.chosen(kept)

    def chosen(self, rows: np.ndarray) -> Targets:
        """Only these targets: numbers, or one yes or no for each."""
        parts = ("text", "tokens", "words", "gold", "rated", "scored", "unseen", "values")
        held = {name: each for name in parts if (each := getattr(self, name)) is not None}
        return replace(self, **{name: each[rows] for name, each in held.items()})

    @property
    def graded(self) -> bool:
        """Whether targets have a value instead of labels."""
        return self.values is not None

    @property
    def single_label(self) -> bool:
        """Whether every target has one label out of all, so that the highest answer is the answer."""
        labels = self.gold.sum(1) + self.unseen.sum(1)
        return not self.graded and len(self.labels) > 1 and bool(self.rated.all() and (labels == 1).all())


def find_targets(task: Task, texts: Iterable[Text], tokens: Iterable[Tokens], labels: tuple[str, ...]) -> Targets:
    """The targets of `task`; `tokens` are the texts' own, in the same order. Labels not in `labels` count as unseen."""
    known = set(labels)
    edges: list[Edge] = []
    owners: list[int] = []
    places: list[list[tuple[int, int]]] = []
    unseen: list[set[str]] = []
    number = -1
    for number, (text, cut) in enumerate(zip(texts, tokens, strict=True)):
        found = task.targets(text)
        if not found:
            continue
        first, last = _token_ranges(cut.words, len(text.words))
        for edge in found:
            spans = (edge.span,) if edge.other is None else (edge.span, edge.other)
            places.append([(first[span.start], last[span.end - 1] + 1) for span in spans])
            kept = tuple(label for label in edge.labels if label in known)
            # Most edges have no label that is unknown: they are taken as they are, which is much faster.
            whole = len(kept) == len(edge.labels)
            unseen.append(set() if whole else set(task.scored(edge.labels)) - known)
            edges.append(edge if whole else replace(edge, labels=kept))
            owners.append(number)
    gold, scored = decisions(task, edges, labels)
    rated = decisions(replace(task, unscored=frozenset()), edges, labels).mask
    words = [[(s.start, s.end) for s in (e.span, e.other) if s is not None] for e in edges]
    shape = (len(edges), task.arity, 2)
    unseen_labels = tuple(sorted(set().union(*unseen)))
    missed = [[label in each for label in unseen_labels] for each in unseen]
    return Targets(
        labels,
        np.array(owners, np.int64),
        np.array(places, np.int64).reshape(shape),
        np.array(words, np.int64).reshape(shape),
        gold,
        rated,
        scored,
        np.array(missed, bool).reshape(len(edges), len(unseen_labels)),
        number + 1,
        unseen_labels,
        np.array([edge.value for edge in edges], float) if task.graded else None,
    )


def _token_ranges(words: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last token of every word."""
    first, last = np.zeros(count, np.int64), np.zeros(count, np.int64)
    at = np.flatnonzero(words >= 0)
    last[words[at]] = at
    first[words[at[::-1]]] = at[::-1]
    return first, last
