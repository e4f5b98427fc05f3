"""A task's targets in a list of texts, as arrays: which tokens, which labels, what counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Int

from lamina.encoders import Tokens
from lamina.tasks import Task, decisions
from lamina.types import Edge, Text


@dataclass(frozen=True, eq=False)
class Targets:
    """All targets of one task. Texts are numbered in the order they were given."""

    labels: tuple[str, ...]
    """The columns of `gold`: the labels a probe predicts."""
    text: np.ndarray
    """[target] The text it lies in."""
    tokens: Int[np.ndarray, "target span 2"]
    """First token and one past the last, within the text's own tokens, for each span."""
    words: Int[np.ndarray, "target span 2"]
    """The same in words."""
    gold: Bool[np.ndarray, "target label"]
    """Which labels hold."""
    rated: Bool[np.ndarray, "target label"]
    """Which labels annotators were asked about: what is trained on."""
    scored: Bool[np.ndarray, "target label"]
    """Which decisions count in the score: rated, and not left out by the metric."""
    unseen: Bool[np.ndarray, "target unseen_label"]
    """Which scored labels hold that have no column: labels that training never saw, missed by any probe."""
    texts: int
    """How many texts there are, with targets or without."""
    unseen_labels: tuple[str, ...] = ()
    """The columns of `unseen`."""

    def __len__(self) -> int:
        return len(self.text)

    @property
    def arity(self) -> int:
        """Spans a target."""
        return self.tokens.shape[1]

    def among(self, texts: Iterable[int]) -> Targets:
        """Only the targets of these texts; texts keep their numbers."""
        kept = np.isin(self.text, np.fromiter(texts, dtype=np.int64))
        rows = ("text", "tokens", "words", "gold", "rated", "scored", "unseen")
        return replace(self, **{name: getattr(self, name)[kept] for name in rows})


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
            unseen.append(set(task.scored(edge.labels)) - known)
            kept = tuple(label for label in edge.labels if label in known)
            edges.append(replace(edge, labels=kept))
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
    )


def _token_ranges(words: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last token of every word."""
    first, last = np.zeros(count, np.int64), np.zeros(count, np.int64)
    at = np.flatnonzero(words >= 0)
    last[words[at]] = at
    first[words[at[::-1]]] = at[::-1]
    return first, last
