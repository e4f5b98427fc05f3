"""A task's targets in a list of texts, as arrays: tokens, labels, and which decisions count."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from lamina.encoders import Tokens
from lamina.tasks import Task, decisions
from lamina.tasks.task import Average
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

    def __len__(self) -> int:
        return len(self.text)

    @property
    def arity(self) -> int:
        """Spans per target."""
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


@dataclass(frozen=True, eq=False)
class Counts:
    """Decisions of each member on each text: enough for F1 on any resampling of the texts.

    With one number per text, the score is micro-F1. With one per label (labels unseen in training come last), it is
    macro-F1: the mean over the labels that are gold in some text.
    """

    right: Float[np.ndarray, "member text *label"]
    """Predicted and gold."""
    said: Float[np.ndarray, "member text *label"]
    """Predicted."""
    gold: Float[np.ndarray, "member text *label"]
    """Gold, including labels unseen in training."""

    @classmethod
    def none(cls, members: int, texts: int) -> Counts:
        """Nothing counted yet, for micro-F1."""
        return cls(*(np.zeros((members, texts)) for _ in range(3)))

    @classmethod
    def for_average(cls, average: Average, members: int, targets: Targets) -> Counts:
        """Nothing counted yet, for micro- or macro-F1 on these targets."""
        if average == "micro":
            return cls.none(members, targets.texts)
        shape = (members, targets.texts, len(targets.labels) + len(targets.unseen_labels))
        # One number per label: single precision saves memory and counts exactly up to 16 million.
        return cls(*(np.zeros(shape, np.float32) for _ in range(3)))

    @property
    def by_label(self) -> bool:
        """Whether labels are counted separately."""
        return self.right.ndim == 3

    def among(self, texts: np.ndarray) -> Counts:
        """The counts of these texts only."""
        return Counts(*(part[:, texts] for part in (self.right, self.said, self.gold)))

    def touched(self) -> np.ndarray:
        """The texts with any counted decision."""
        some = (self.said > 0) | (self.gold > 0)
        return np.flatnonzero(some.any((0, 2) if self.by_label else 0))

    def f1(self, weights: Float[np.ndarray, "sample text"] | None = None) -> np.ndarray:
        """F1 of each member: [member], or [sample, member] when texts are weighted."""
        parts = (self.right, self.said, self.gold)
        if weights is None:
            right, said, gold = (part.sum(1, dtype=float) for part in parts)
        else:
            right, said, gold = (np.tensordot(weights, part, (1, 1)) for part in parts)
        asked = said + gold
        each = np.divide(2 * right, asked, out=np.zeros_like(right), where=asked > 0)
        if not self.by_label:
            return each
        held = gold > 0
        return np.where(held, each, 0).sum(-1) / held.sum(-1).clip(min=1)


def count_decisions(
    counts: Counts, decided: Bool[torch.Tensor, "member target label"], targets: Targets, rows: np.ndarray
) -> None:
    """Add one batch's decisions about these rows of the targets; only scored decisions count."""
    device = decided.device
    scored = torch.from_numpy(targets.scored[rows]).to(device)
    true = torch.from_numpy(targets.gold[rows]).to(device) & scored
    said = decided & scored
    text = targets.text[rows]
    gold = np.concatenate([true.cpu().numpy(), targets.unseen[rows]], axis=1)
    if counts.by_label:
        known = len(targets.labels)
        for into, part in ((counts.right, said & true), (counts.said, said)):
            np.add.at(into[:, :, :known].swapaxes(0, 1), text, part.swapaxes(0, 1).cpu().numpy())
        np.add.at(counts.gold.swapaxes(0, 1), text, gold[:, None])
        return
    for into, part in ((counts.right, said & true), (counts.said, said)):
        np.add.at(into.T, text, part.sum(-1).T.cpu().numpy())
    np.add.at(counts.gold.T, text, gold.sum(1)[:, None])
