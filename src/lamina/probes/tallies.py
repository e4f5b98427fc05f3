"""What probes decided, summed by text: enough for their score on any resampling of the texts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float

from lamina.probes.streams import ProbeTargets
from lamina.tasks.task import Metric

_PARTS = {"f1": 3, "macro_f1": 3, "accuracy": 2, "r2": 6, "correlation": 6}
"""Metric -> sums that it is made of."""


@dataclass(frozen=True, eq=False)
class DecisionTally:
    """Sums over the decisions of each member on each text, and the score that they give.

    The parts are: predicted and gold, predicted, gold for `f1`, and the same label by label for `macro_f1` (labels
    unseen in training come last); right and asked for `accuracy`; for `r2` and `correlation` the number of targets and
    the sums of gold, gold squared, predicted, predicted squared and their product.
    """

    metric: Metric
    sums: Float[np.ndarray, "part member text *label"]

    @classmethod
    def none(cls, metric: Metric, members: int, targets: ProbeTargets) -> DecisionTally:
        """Nothing counted yet."""
        shape = (_PARTS[metric], members, targets.texts)
        if metric != "macro_f1":
            return cls(metric, np.zeros(shape))
        # One number per label: single precision saves memory and counts exactly up to 16 million.
        return cls(metric, np.zeros((*shape, len(targets.labels) + len(targets.unseen_labels)), np.float32))

    def add(self, logits: Float[torch.Tensor, "member target label"], targets: ProbeTargets, rows: np.ndarray) -> None:
        """Count what members told of these rows of the targets: logits, or values where targets are graded."""
        text = targets.text[rows]
        for into, part in zip(self.sums, self._parts(logits, targets, rows), strict=True):
            # [member, target, ...] -> the sum of every text's own.
            np.add.at(into.swapaxes(0, 1), text, part.swapaxes(0, 1))

    def value(self, weights: Float[np.ndarray, "sample text"] | None = None) -> np.ndarray:
        """The score of each member: [member], or [sample, member] when texts are weighted; NaN where there is none."""
        if weights is None:
            parts = self.sums.sum(2, dtype=float)
        else:
            # One product for all parts: [sample, text] by [text, part, member, ...].
            parts = np.moveaxis(np.tensordot(weights, self.sums, (1, 2)), 1, 0)
        return _SCORES[self.metric](*parts)

    def among(self, texts: np.ndarray) -> DecisionTally:
        """The sums of these texts only."""
        return DecisionTally(self.metric, self.sums[:, :, texts])

    def touched(self) -> np.ndarray:
        """The texts with anything counted."""
        some = (self.sums != 0).any((0, 1))
        return np.flatnonzero(some.any(-1) if some.ndim == 2 else some)

    def _parts(self, logits: torch.Tensor, targets: ProbeTargets, rows: np.ndarray) -> list[np.ndarray]:
        if self.metric == "accuracy":
            return _right(logits, targets, rows)
        if self.metric in ("r2", "correlation"):
            return _moments(logits, targets, rows)
        right, predicted, gold = _decisions(logits, targets, rows)
        if self.metric == "f1":
            return [right.sum(-1), predicted.sum(-1), gold.sum(-1)]
        unseen = len(targets.unseen_labels)
        widened = [np.pad(part, ((0, 0), (0, 0), (0, unseen))) for part in (right, predicted)]
        return [*widened, gold]


def _decisions(logits: torch.Tensor, targets: ProbeTargets, rows: np.ndarray) -> list[np.ndarray]:
    """Predicted and gold, predicted, gold (unseen labels among them); a label is predicted from a logit of 0 on."""
    scored = targets.scored[rows]
    true = targets.gold[rows] & scored
    predicted = (logits >= 0).cpu().numpy() & scored
    gold = np.concatenate([true, targets.unseen[rows]], axis=1)
    return [predicted & true, predicted, gold[None]]


def _right(logits: torch.Tensor, targets: ProbeTargets, rows: np.ndarray) -> list[np.ndarray]:
    """The label with the highest logit holds; an unseen label cannot be predicted, so its target counts as wrong."""
    best = logits.argmax(-1).cpu().numpy()
    right = targets.gold[rows][np.arange(len(rows)), best]
    return [right, np.ones((1, len(rows)))]


def _moments(values: torch.Tensor, targets: ProbeTargets, rows: np.ndarray) -> list[np.ndarray]:
    if targets.values is None:
        raise ValueError("only graded targets have values to compare with")
    predicted, gold = values[..., 0].double().cpu().numpy(), targets.values[rows][None]
    return [np.ones_like(gold), gold, gold**2, predicted, predicted**2, predicted * gold]


def _f1(right: np.ndarray, predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    both = predicted + gold
    return np.divide(2 * right, both, out=np.zeros_like(right), where=both > 0)


def _macro_f1(right: np.ndarray, predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """The mean over the labels that are gold in some text."""
    present = gold > 0
    return np.where(present, _f1(right, predicted, gold), 0).sum(-1) / present.sum(-1).clip(min=1)


def _accuracy(right: np.ndarray, total: np.ndarray) -> np.ndarray:
    return np.divide(right, total, out=np.zeros_like(right), where=total > 0)


def _r2(count: np.ndarray, y: np.ndarray, yy: np.ndarray, _: np.ndarray, pp: np.ndarray, py: np.ndarray) -> np.ndarray:
    """1 - squared error / squared distance from the mean; none where all gold values are equal."""
    spread = yy - y**2 / count.clip(min=1)
    return 1 - np.divide(yy - 2 * py + pp, spread, out=np.full_like(spread, np.nan), where=spread > 1e-12)


def _correlation(
    count: np.ndarray, y: np.ndarray, yy: np.ndarray, p: np.ndarray, pp: np.ndarray, py: np.ndarray
) -> np.ndarray:
    """Pearson's; none where either side is constant."""
    many = count.clip(min=1)
    square = (yy - y**2 / many) * (pp - p**2 / many)
    return np.divide(py - p * y / many, np.sqrt(square.clip(min=0)), out=np.full_like(py, np.nan), where=square > 1e-12)


_SCORES = {"f1": _f1, "macro_f1": _macro_f1, "accuracy": _accuracy, "r2": _r2, "correlation": _correlation}


def constant_tally(metric: Metric, answer: Bool[np.ndarray, " label"] | float, targets: ProbeTargets) -> DecisionTally:
    """The tally of one member that tells the same of every target: these labels, or this value."""
    row = np.array([answer]) if isinstance(answer, float) else np.where(answer, 1.0, -1.0)
    tally = DecisionTally.none(metric, 1, targets)
    answers = torch.from_numpy(row).expand(1, len(targets), -1)
    tally.add(answers, targets, np.arange(len(targets)))
    return tally
