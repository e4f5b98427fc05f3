"""Concepts taken out of states in closed form, so that no linear probe can read them: LEACE (Belrose et al. 2023).

States are whitened, what lies in the span of the classes' mean differences is projected out, and the rest is put back:
of all affine maps after which every class has the same mean, the one that changes states least. Everything is computed
in float64 from sums over batches; states are not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

_FLAT = 1e-12
"""Variance, as a share of the largest, below which a direction counts as one that states do not vary in."""
_NO_DIRECTION = 1e-9
"""The same of the spread of the classes' means."""
_FLATTEST, _STEEPEST, _BISECTIONS = -2.0, 4.0, 40
"""Of the search for a random subspace with a given variance: powers of the variances that directions are drawn by."""


class StateMoments:
    """Sums over states of several layers, from which erasers are made.

    Labelled states say what is erased; states are changed as little as possible over all states added. The two sets are
    the same if every state has a label.

    Example:
        >>> moments, states = StateMoments(layers=1, width=2, labels=[2]), torch.tensor([[[0.0, 1.0]], [[2.0, 1.0]]])
        >>> moments.add(states)
        >>> moments.add_labelled(states, [torch.tensor([0, 1])])
        >>> moments.mean(0).tolist(), moments.class_means(0, 0).tolist()
        ([1.0, 1.0], [[0.0, 1.0], [2.0, 1.0]])
    """

    def __init__(self, layers: int, width: int, labels: Sequence[int]) -> None:
        """`labels`: the number of classes of each of the labellings."""
        self._states = 0
        self._total = torch.zeros(layers, width, dtype=torch.float64)
        self._squares = torch.zeros(layers, width, width, dtype=torch.float64)
        self._sums = [torch.zeros(many, layers, width, dtype=torch.float64) for many in labels]
        self._counts = [torch.zeros(many, dtype=torch.float64) for many in labels]

    def add(self, states: Float[Tensor, "state layer width"]) -> None:
        """Some of the states that erasers will change."""
        states = states.to(self._total)
        self._states += len(states)
        self._total += states.sum(0)
        by_layer = states.transpose(0, 1)
        self._squares += by_layer.transpose(1, 2) @ by_layer

    def add_labelled(
        self, states: Float[Tensor, "example layer width"], labellings: Sequence[Int[Tensor, " example"]]
    ) -> None:
        """Some states with their class in each labelling."""
        states = states.to(self._total)
        for sums, counts, classes in zip(self._sums, self._counts, labellings, strict=True):
            sums.index_add_(0, classes, states)
            counts += torch.bincount(classes, minlength=len(counts))

    def mean(self, layer: int) -> Float[Tensor, " width"]:
        """Of all states of a layer."""
        return self._total[layer] / self._states

    def covariance(self, layer: int) -> Float[Tensor, "width width"]:
        """Of all states of a layer."""
        mean = self.mean(layer)
        return self._squares[layer] / self._states - torch.outer(mean, mean)

    def class_means(self, labelling: int, layer: int) -> Float[Tensor, "label width"]:
        """Of the states of each class; not available for one without examples."""
        return self._sums[labelling][:, layer] / self._counts[labelling][:, None]

    def cross_covariance(self, labelling: int, layer: int) -> Float[Tensor, "width label"]:
        """Between the labelled states of a layer and the classes of a labelling, each 0 or 1."""
        sums, counts = self._sums[labelling][:, layer], self._counts[labelling]
        examples = counts.sum()
        return (sums - torch.outer(counts, sums.sum(0) / examples)).T / examples


class Eraser(NamedTuple):
    """An affine map that takes a subspace out of states and leaves their mean where it is."""

    left: Float[Tensor, "width rank"]
    right: Float[Tensor, "rank width"]
    middle: Float[Tensor, " width"]
    variance: float
    """The share of the states' variance that it takes away."""

    @property
    def rank(self) -> int:
        """Dimensions that it takes away."""
        return self.left.shape[1]

    def __call__(self, states: Float[Tensor, "*any width"]) -> Float[Tensor, "*any width"]:
        """The states without the subspace, in their own precision."""
        # Directions of little variance are scaled up a lot: rounding errors of float32 would grow with them.
        precise = torch.float32 if states.device.type == "mps" else torch.float64
        left, right, middle = (tensor.to(states.device, precise) for tensor in self[:3])
        taken = ((states.to(precise) - middle) @ right.T) @ left.T
        return (states.to(precise) - taken).to(states.dtype)


class Whitened:
    """The states of a layer, seen where they vary alike in all directions: erasers are projections there.

    Example:
        >>> moments = StateMoments(layers=1, width=2, labels=[2])
        >>> states = torch.tensor([[0.0, 1.0], [2.0, 0.0], [0.0, 0.0], [2.0, 2.0], [1.0, 1.0]])
        >>> moments.add(states[:, None])
        >>> moments.add_labelled(states[:, None], [torch.tensor([0, 1, 0, 1, 0])])
        >>> eraser = Whitened(moments, layer=0).concept(labelling=0)
        >>> erased = eraser(states)
        >>> eraser.rank, torch.allclose(erased[[0, 2, 4]].mean(0), erased[[1, 3]].mean(0))
        (1, True)
    """

    def __init__(self, moments: StateMoments, layer: int) -> None:
        self._moments, self._layer = moments, layer
        variances, directions = torch.linalg.eigh(moments.covariance(layer))
        varied = variances > _FLAT * variances[-1].clamp_min(torch.finfo(variances.dtype).tiny)
        self._variances, self._directions = variances[varied], directions[:, varied]

    def concept(self, labelling: int) -> Eraser:
        """Takes away what tells the classes of a labelling apart: afterwards all of them have the same mean."""
        return self._eraser(self._separating(labelling))

    def random(self, like: Eraser, generator: torch.Generator, *, variance: bool = False) -> Eraser:
        """A random subspace of the same rank, uncorrelated with what another eraser takes away.

        It is drawn where states vary alike in all directions. With `variance`, it takes away as much variance as the
        other does: directions are drawn with a power of their variance that makes it so; where none reaches it, the
        nearest is taken. The rank is lower where too few dimensions are left.
        """
        taken = torch.linalg.qr(self._whiten @ like.left.to(self._variances)).Q
        free = len(self._variances) - like.rank
        size = (len(self._directions), min(like.rank, free))
        # Drawn in the states' own coordinates: the sign of a direction found by a solver is arbitrary.
        drawn = self._directions.T @ torch.randn(size, generator=generator, dtype=torch.float64)
        eraser = self._eraser(self._drawn_by(0.0, drawn, taken))
        low, high = _FLATTEST, _STEEPEST
        for _ in range(_BISECTIONS if variance else 0):
            power = (low + high) / 2
            eraser = self._eraser(self._drawn_by(power, drawn, taken))
            low, high = (power, high) if eraser.variance < like.variance else (low, power)
        return eraser

    def _separating(self, labelling: int) -> Float[Tensor, "varied rank"]:
        """An orthonormal basis of the whitened mean differences."""
        cross = self._moments.cross_covariance(labelling, self._layer)
        basis, spread, _ = torch.linalg.svd(self._whiten @ cross, full_matrices=False)
        return basis[:, spread > _NO_DIRECTION * max(float(spread[0]), _NO_DIRECTION)]

    @property
    def _whiten(self) -> Float[Tensor, "varied width"]:
        return (self._directions / self._variances.sqrt()).T

    def _drawn_by(self, power: float, drawn: Tensor, taken: Tensor) -> Float[Tensor, "varied rank"]:
        scale = (self._variances / self._variances[-1]) ** (power / 2)
        scaled = scale[:, None] * drawn
        scaled = scaled - taken @ (taken.T @ scaled)
        basis = torch.linalg.qr(scaled).Q
        # Once more: steep scales leave rounding errors along what must not be touched.
        return torch.linalg.qr(basis - taken @ (taken.T @ basis)).Q

    def _eraser(self, basis: Float[Tensor, "varied rank"]) -> Eraser:
        left = (self._directions * self._variances.sqrt()) @ basis
        variance = float(left.square().sum() / self._variances.sum()) if basis.shape[1] else 0.0
        return Eraser(left, basis.T @ self._whiten, self._moments.mean(self._layer), variance)
