"""Right, wrong and missed decisions by text: all that any score or bootstrap of it needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float

from lamina.probes.targets import Targets


@dataclass(frozen=True, eq=False)
class Counts:
    """Decisions of each member on each text: enough for micro-F1 on any resampling of the texts."""

    right: Float[np.ndarray, "member text"]
    """Said and gold."""
    said: Float[np.ndarray, "member text"]
    """Said."""
    gold: Float[np.ndarray, "member text"]
    """Gold, labels unseen in training among them."""

    @classmethod
    def none(cls, members: int, texts: int) -> Counts:
        """Nothing counted yet."""
        return cls(*(np.zeros((members, texts)) for _ in range(3)))

    def f1(self, weights: Float[np.ndarray, "sample text"] | None = None) -> np.ndarray:
        """Micro-F1 of each member: [member], or [sample, member] when texts are weighted."""
        if weights is None:
            right, said, gold = (part.sum(1) for part in (self.right, self.said, self.gold))
        else:
            right, said, gold = (weights @ part.T for part in (self.right, self.said, self.gold))
        asked = said + gold
        return np.divide(2 * right, asked, out=np.zeros_like(right), where=asked > 0)


def count_decisions(
    counts: Counts,
    decided: Bool[torch.Tensor, "member target label"],
    gold: Bool[np.ndarray, "all_targets label"],
    targets: Targets,
    rows: np.ndarray,
) -> None:
    """Add one batch's decisions; only what the task scores counts."""
    device = decided.device
    scored = torch.from_numpy(targets.scored[rows]).to(device)
    true = torch.from_numpy(gold[rows]).to(device) & scored
    said = decided & scored
    text = targets.text[rows]
    for into, part in ((counts.right, said & true), (counts.said, said)):
        np.add.at(into.T, text, part.sum(-1).T.cpu().numpy())
    np.add.at(counts.gold.T, text, (true.sum(-1).cpu().numpy() + targets.unseen[rows])[:, None])
