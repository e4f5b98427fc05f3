"""A linear probe that points at one token of every text, such as where an answer starts.

Softmax regression over the tokens of a text: each token gets one number from its vector. As in `softmax`, the loss is
convex and has a penalty that is chosen on texts of their own, so there is one answer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lamina.probes.softmax import PENALTIES, minimised


class PointingProbe(NamedTuple):
    """A fitted probe."""

    weights: Float[np.ndarray, " width"]
    """Of vectors as they are; adding the same number to all tokens of a text changes nothing, so there is no bias."""
    penalty: float
    converged: bool
    """Whether the loss could not fall any further with any penalty; otherwise its answers should not be used."""

    def logits(self, vectors: Float[np.ndarray, "token width"]) -> Float[np.ndarray, " token"]:
        """Of each token: the highest of a text is what it points at."""
        return vectors @ self.weights


class Pointed(NamedTuple):
    """Texts, one after the other, with the token of each that is to be found."""

    vectors: Float[np.ndarray, "token width"]
    sizes: Int[np.ndarray, " text"]
    """Tokens of each text."""
    gold: Int[np.ndarray, " text"]
    """The token of each text, counted from its first."""


def fit(learn: Pointed, select: Pointed, device: torch.device | str = "cpu") -> PointingProbe:
    """Fit a probe; of the penalties with which it converges, the one with the lowest loss on `select` is kept.

    In float64: with so few answers for so many tokens, the search would not end in float32.

    Example:
        >>> vectors = np.array([[0.0], [2.0], [1.0], [3.0], [0.0]])
        >>> texts = Pointed(vectors, np.array([2, 3]), np.array([1, 1]))
        >>> probe = fit(texts, texts)
        >>> probe.converged, int(probe.logits(np.array([[1.0], [5.0], [2.0]])).argmax())
        (True, 1)
    """
    spread = learn.vectors.std(0, dtype=np.float64)
    # A feature that never varies tells nothing; divided by its rounding errors it would seem to.
    spread = np.where(spread > 1e-6 * max(float(spread.max()), 1e-30), spread, np.inf)
    # A mean that all tokens share points at none of them.
    middle = learn.vectors.mean(0, dtype=np.float64)
    tasks = [
        _Task.of(each._replace(vectors=(each.vectors - middle) / spread), torch.device(device))
        for each in (learn, select)
    ]
    parameters = np.zeros(learn.vectors.shape[1])
    best, lowest = None, np.inf
    for penalty in PENALTIES:
        parameters, converged = minimised(tasks[0], penalty, parameters)
        if not converged:
            # A weaker penalty would take longer still.
            break
        loss, _ = tasks[1].loss(parameters, 0.0)
        if loss >= lowest:
            break
        lowest, best = loss, PointingProbe(parameters / spread, penalty, True)
    return best or PointingProbe(np.full_like(parameters, np.nan), np.nan, False)


class _Task(NamedTuple):
    """What is to be fitted, where it is computed."""

    vectors: Float[Tensor, "token width"]
    owner: Int[Tensor, " token"]
    """The number of each token's text."""
    found: Int[Tensor, " text"]
    """The token of each text that is to be found, among all tokens."""

    @classmethod
    def of(cls, texts: Pointed, device: torch.device) -> _Task:
        owner = np.repeat(np.arange(len(texts.sizes)), texts.sizes)
        found = np.cumsum(texts.sizes) - texts.sizes + texts.gold
        made = [torch.from_numpy(np.asarray(each)).to(device) for each in (owner, found)]
        return cls(torch.from_numpy(texts.vectors.astype(np.float64)).to(device), made[0], made[1])

    def loss(self, weights: np.ndarray, penalty: float) -> tuple[float, np.ndarray]:
        """See `Convex.loss`."""
        own = torch.from_numpy(weights).to(self.vectors.device)
        logits = self.vectors @ own
        texts = len(self.found)
        # Subtracting each text's highest keeps exponentials in range and changes no probability.
        top = torch.full((texts,), -torch.inf, dtype=torch.float64, device=logits.device)
        top = top.scatter_reduce(0, self.owner, logits, "amax")
        raised = (logits - top[self.owner]).exp()
        sums = torch.zeros_like(top).scatter_add(0, self.owner, raised)
        value = (sums.log() + top - logits[self.found]).mean().item()
        error = raised / sums[self.owner]
        error[self.found] -= 1
        slope = (self.vectors.T @ (error / texts)).cpu().numpy()
        return value + penalty / 2 * float(np.square(weights).sum()), slope + penalty * weights
