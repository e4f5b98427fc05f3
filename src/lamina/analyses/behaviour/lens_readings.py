"""What the head makes of every layer at the positions asked for, beside what it makes of the last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lamina.encoders.lens import layer_states, lens_logits
from lamina.progress import progress
from lamina.stats.intervals import column_intervals, share_interval

if TYPE_CHECKING:
    from lamina.encoders.language_model import LanguageModel
    from lamina.encoders.scoring import Wanted
    from lamina.probes.translators import Translators

Lens = Literal["plain", "tuned"]
_LOGITS = {"cpu": 2**23, "cuda": 2**28}
"""Numbers that the head makes at a time, on a CPU and on a GPU."""


class Readings(NamedTuple):
    """What one lens says, [position, layer]."""

    kl: np.ndarray
    """KL(final || lens), in nats."""
    logprob: np.ndarray
    """Of the piece that is there."""
    rank: np.ndarray
    """Of that piece; 1 is the most likely one."""
    top: np.ndarray
    """Id of the most likely piece."""
    target: np.ndarray
    """[position] Id of the piece that is there."""

    @property
    def measures(self) -> dict[str, np.ndarray]:
        """Measure -> [position, layer]."""
        return {
            "kl": self.kl,
            "accuracy": (self.top == self.target[:, None]).astype(float),
            "probability": np.exp(self.logprob),
            "agreement": (self.top == self.top[:, -1:]).astype(float),
        }

    @property
    def reached(self) -> np.ndarray:
        """[position] The first layer from which on the most likely piece stays the final one.

        Example:
            >>> top = np.array([[5, 7, 5, 7, 7], [1, 2, 3, 4, 9], [8, 8, 8, 8, 8]])
            >>> Readings(*[np.zeros(top.shape)] * 3, top, top[:, 0]).reached.tolist()
            [3, 4, 0]
        """
        differs = self.top != self.top[:, -1:]
        behind = np.argmax(differs[:, ::-1], axis=1)
        return np.where(differs.any(1), differs.shape[1] - behind, 0)


def _empty(targets: np.ndarray, layers: int) -> Readings:
    """To be filled in."""
    shape = (len(targets), layers)
    return Readings(np.zeros(shape), np.zeros(shape), np.zeros(shape, np.int32), np.zeros(shape, np.int32), targets)


class _Final(NamedTuple):
    """The final distribution at some positions, which every layer is compared with."""

    numbers: np.ndarray
    """Of the positions."""
    there: Tensor
    """Ids of the pieces that are there."""
    logprobs: Tensor
    """[position, piece]"""
    weights: Tensor
    """[position, piece] Probabilities."""
    negentropy: Tensor

    @classmethod
    def of(cls, logits: Tensor, numbers: np.ndarray, targets: np.ndarray) -> _Final:
        logprobs = logits.log_softmax(-1)
        weights = logprobs.exp()
        there = torch.from_numpy(targets[numbers]).to(logits.device)
        return cls(numbers, there, logprobs, weights, (weights * logprobs).sum(-1))

    def note(self, readings: Readings, layer: int, logits: Tensor) -> None:
        """Compare logits [position, piece] with it."""
        actual, total = logits.gather(1, self.there[:, None]), logits.logsumexp(-1)
        # Without a second table of log-probabilities: the sum over p (log p - logits), and what normalises them.
        kl = self.negentropy - (self.weights * logits).sum(-1) + total
        readings.kl[self.numbers, layer] = kl.clamp_min(0).double().cpu().numpy()
        readings.logprob[self.numbers, layer] = (actual[:, 0] - total).double().cpu().numpy()
        readings.rank[self.numbers, layer] = (1 + (logits > actual).sum(-1)).cpu().numpy()
        readings.top[self.numbers, layer] = logits.argmax(-1).cpu().numpy()


def read_layers(
    model: LanguageModel,
    wanted: Wanted,
    translators: Translators | None = None,
    fixed: Mapping[str, Tensor] | None = None,
) -> tuple[dict[Lens, Readings], dict[str, Readings]]:
    """Every layer through the plain lens and, with translators, the tuned one; at the positions asked for.

    Args:
        model: with its head.
        wanted: the positions, and the pieces that are there.
        translators: of the tuned lens; without them, the plain lens alone.
        fixed: name -> logarithms of a distribution over pieces that is the same everywhere; each is read like a layer.
    """
    layers, fixed = model.encoder.layers, fixed or {}
    lenses: tuple[Lens, ...] = ("plain",) if translators is None else ("plain", "tuned")
    by_lens: dict[Lens, Readings] = {lens: _empty(wanted.target, layers) for lens in lenses}
    others = {name: _empty(wanted.target, 1) for name in fixed}
    most = most_at_once(model)
    with torch.no_grad(), progress(f"layers of {model.name} through its head", len(wanted.target)) as advance:
        for numbers, states in layer_states(model, wanted):
            for some, part in zip(np.split(numbers, range(most, len(numbers), most)), states.split(most), strict=True):
                final = _Final.of(model.logits(part[:, -1]), some, wanted.target)
                for lens, readings in by_lens.items():
                    for layer in range(layers - 1):
                        final.note(readings, layer, lens_says(model, part[:, layer], layer, lens, translators))
                    final.note(readings, layers - 1, final.logprobs)
                for name, logprobs in fixed.items():
                    final.note(others[name], 0, logprobs.to(final.logprobs)[None].expand_as(final.logprobs))
                advance(len(some))
    return by_lens, others


def lens_says(model: LanguageModel, states: Tensor, layer: int, lens: Lens, translators: Translators | None) -> Tensor:
    """The logits of one layer's states through one lens."""
    if lens == "tuned" and translators is not None:
        states = translators(states, layer)
    return lens_logits(model, states, layer)


def most_at_once(model: LanguageModel) -> int:
    """Positions whose logits are in memory together."""
    return max(1, _LOGITS["cpu" if model.encoder.device.type == "cpu" else "cuda"] // model.vocabulary)


def intervals_of(
    value: np.ndarray, samples: np.ndarray, units: int, *, exact: bool
) -> list[tuple[float, float, float]]:
    """Mean, low and high of each column, 95 %, given its resampled means [sample, column].

    With `exact`, shares of 0 and 1 get the exact interval of so many units: resampling equal units shows no spread.

    Example:
        >>> intervals_of(np.array([1.0]), np.ones((9, 1)), 20, exact=True)[0][2]
        1.0
    """
    rows = []
    for mean, low, high in zip(value.tolist(), *(ends.tolist() for ends in column_intervals(samples)), strict=True):
        if exact and low == high and mean in (0, 1):
            low, high = share_interval(round(mean) * units, units)
        rows.append((mean, low, high))
    return rows
