"""Right, wrong and missed decisions by text: all that any score or bootstrap of it needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float

from lamina.probes.targets import Targets
from lamina.tasks.task import Average


@dataclass(frozen=True, eq=False)
class Counts:
    """Decisions of each member on each text: enough for F1 on any resampling of the texts.

    With one number a text, the score is micro-F1. With one a label, those that training never saw last, it is
    macro-F1: the mean over the labels that are gold in some text.
    """

    right: Float[np.ndarray, "member text *label"]
    """Said and gold."""
    said: Float[np.ndarray, "member text *label"]
    """Said."""
    gold: Float[np.ndarray, "member text *label"]
    """Gold, labels unseen in training among them."""

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
        # As many numbers as there are labels: in single precision, which counts exactly to 16 million.
        return cls(*(np.zeros(shape, np.float32) for _ in range(3)))

    @property
    def by_label(self) -> bool:
        """Whether labels are counted apart."""
        return self.right.ndim == 3

    def among(self, texts: np.ndarray) -> Counts:
        """Of these texts only."""
        return Counts(*(part[:, texts] for part in (self.right, self.said, self.gold)))

    def touched(self) -> np.ndarray:
        """The texts with any decision to count."""
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
    """Add one batch's decisions about these rows of the targets; only what the task scores counts."""
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
