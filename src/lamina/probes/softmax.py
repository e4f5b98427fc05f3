"""A linear probe with several classes: softmax regression with a penalty, fitted until nothing changes any more.

The loss is convex, so there is one answer, whatever the order of examples and without a seed. The penalty is chosen on
examples of their own.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

PENALTIES = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4)
"""Tried from strong to weak, until a weaker one does worse; of the mean loss per example."""
_ROUNDS = 1000
_TOLERANCE = 1e-4
"""Largest slope of the mean loss at which a fit counts as done; scikit-learn's default, too."""


class SoftmaxProbe(NamedTuple):
    """A fitted probe."""

    weights: Float[np.ndarray, "width label"]
    bias: Float[np.ndarray, " label"]
    middle: Float[np.ndarray, " width"]
    """Subtracted from vectors first."""
    spread: Float[np.ndarray, " width"]
    """Divided by."""
    penalty: float
    converged: bool
    """Whether the loss could not fall any further with any penalty; otherwise its answers should not be used."""

    def probabilities(self, vectors: Float[np.ndarray, "example width"]) -> Float[np.ndarray, "example label"]:
        """Of each class."""
        return _softmax(((vectors - self.middle) / self.spread) @ self.weights + self.bias)


class Examples(NamedTuple):
    """Vectors with their classes."""

    vectors: Float[np.ndarray, "example width"]
    gold: Int[np.ndarray, " example"]


def fit(learn: Examples, select: Examples, labels: int, device: torch.device | str = "cpu") -> SoftmaxProbe:
    """Fit a probe; of the penalties with which it converges, the one with the lowest loss on `select` is kept.

    Products run in float32 on `device`, sums of parameters in float64.

    Example:
        >>> vectors, gold = np.array([[-1.0], [-2.0], [1.0], [2.0]]), np.array([0, 0, 1, 1])
        >>> probe = fit(Examples(vectors, gold), Examples(vectors, gold), 2)
        >>> probe.converged, probe.probabilities(np.array([[3.0]])).argmax(1).tolist()
        (True, [1])
    """
    middle = learn.vectors.mean(0, dtype=np.float64)
    spread = learn.vectors.std(0, dtype=np.float64)
    # A feature that never varies tells nothing; divided by its rounding errors it would seem to.
    spread = np.where(spread > 1e-6 * max(float(spread.max()), 1e-30), spread, np.inf)
    known, asked = ((each.vectors - middle) / spread for each in (learn, select))
    task = _Task.of(known, learn.gold, labels, torch.device(device))
    parameters = np.zeros((known.shape[1] + 1, labels))
    best, lowest = None, np.inf
    for penalty in PENALTIES:
        parameters, converged = minimised(task, penalty, parameters)
        if not converged:
            # A weaker penalty would take longer still.
            break
        said = _softmax(asked @ parameters[:-1] + parameters[-1])
        loss = float(-np.log(np.maximum(said[np.arange(len(said)), select.gold], 1e-300)).mean())
        if loss >= lowest:
            break
        lowest = loss
        best = SoftmaxProbe(parameters[:-1], parameters[-1], middle, spread, penalty, True)
    if best is None:
        nothing = np.full_like(parameters, np.nan)
        return SoftmaxProbe(nothing[:-1], nothing[-1], middle, spread, np.nan, False)
    return best


class _Task(NamedTuple):
    """What is to be fitted, where it is computed."""

    vectors: Float[Tensor, "example width"]
    told: Float[Tensor, "example label"]
    """1 for the class, 0 for the others."""

    @classmethod
    def of(cls, vectors: np.ndarray, gold: np.ndarray, labels: int, device: torch.device) -> _Task:
        told = torch.zeros(len(gold), labels)
        told[torch.arange(len(gold)), torch.from_numpy(np.asarray(gold))] = 1
        return cls(torch.from_numpy(vectors.astype(np.float32)).to(device), told.to(device))

    def loss(self, weights: np.ndarray, penalty: float) -> tuple[float, np.ndarray]:
        """The mean loss with its penalty, and its slope."""
        own = torch.from_numpy(weights.astype(np.float32)).to(self.vectors.device)
        said = (self.vectors @ own[:-1] + own[-1]).log_softmax(1)
        value = -(said * self.told).sum(dtype=torch.float64).item() / len(said)
        error = (said.exp() - self.told) / len(said)
        slope = torch.cat([self.vectors.T @ error, error.sum(0, keepdim=True)]).double().cpu().numpy()
        slope[:-1] += penalty * weights[:-1]
        return value + penalty / 2 * float(np.square(weights[:-1]).sum()), slope.ravel()


@runtime_checkable
class Convex(Protocol):
    """A loss with one lowest place."""

    def loss(self, weights: np.ndarray, penalty: float) -> tuple[float, np.ndarray]:
        """The mean loss with its penalty, and its slope as one row of numbers."""
        ...


def minimised(task: Convex, penalty: float, start: np.ndarray) -> tuple[np.ndarray, bool]:
    """The weights with the lowest loss, searched for from `start`, and whether the search ended there."""
    from scipy.optimize import minimize

    settings = {"maxiter": _ROUNDS, "maxfun": 2 * _ROUNDS, "gtol": _TOLERANCE, "ftol": 0.0}
    found = minimize(
        lambda flat: task.loss(flat.reshape(start.shape), penalty),
        start.ravel(), jac=True, method="L-BFGS-B", options=settings,
    )  # fmt: skip
    return found.x.reshape(start.shape), bool(np.abs(found.jac).max() <= _TOLERANCE)


def _softmax(logits: Float[np.ndarray, "example label"]) -> Float[np.ndarray, "example label"]:
    raised = np.exp(logits - logits.max(1, keepdims=True))
    return raised / raised.sum(1, keepdims=True)
