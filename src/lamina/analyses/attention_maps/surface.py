"""What every head does on the surface: where its attention goes, and how broadly it is spread."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from lamina.analyses.attention_maps.roles import TokenRoles, punctuation_ids, roles_of
from lamina.analyses.attention_maps.watching import Watched
from lamina.analyses.resampling import StreamedBootstrap
from lamina.encoders import Encoder

if TYPE_CHECKING:
    import pandas as pd

MEASURES = (
    "to_self",
    "to_previous",
    "to_next",
    "to_first",
    "to_separator",
    "to_punctuation",
    "separator_to_separator",
    "other_to_separator",
    "entropy",
    "entropy_first",
)
"""The order of every array with a `measure` axis; those named `to` are shares of attention, entropies are in nats."""

_NEED_SEPARATORS = [MEASURES.index(name) for name in MEASURES if "separator" in name]


class Measured(NamedTuple):
    """Every measure of every head, averaged over texts; NaN where no text has it."""

    value: Float[np.ndarray, "measure block head"]
    low: Float[np.ndarray, "measure block head"]
    high: Float[np.ndarray, "measure block head"]
    baseline: Float[np.ndarray, " measure"]
    """Under uniform attention over the same texts."""


class SurfaceMeter:
    """A mean over a text's tokens, then over texts, for each measure and head, with a bootstrap over texts.

    Example:
        >>> from lamina.analyses.attention_maps.watching import watch
        >>> from lamina.testing import SAMPLE_TEXTS, TinyEncoder
        >>> meter = SurfaceMeter(TinyEncoder(), samples=100)
        >>> skipped = watch(TinyEncoder(), SAMPLE_TEXTS, [meter])
        >>> meter.measured().value.shape, meter.table().columns.tolist()
        ((10, 2, 2), ['layer', 'head', 'measure', 'value', 'low', 'high', 'baseline'])
    """

    def __init__(self, encoder: Encoder, *, samples: int = 1000, seed: int = 0) -> None:
        self._causal = encoder.causal
        self._punctuation = punctuation_ids(encoder)
        self._shape = (len(MEASURES), encoder.blocks, encoder.heads)
        # Of each measure: its sum over texts for every head, its sum under uniform attention, its number of texts.
        size = len(MEASURES) * (encoder.blocks * encoder.heads + 2)
        self._sums = StreamedBootstrap(size, samples=samples, seed=seed)

    def update(self, watched: Watched) -> None:
        """See `Meter.update`."""
        roles = roles_of(watched.tokens, self._punctuation, causal=self._causal)
        size = len(watched.tokens.ids)
        selectors = _selectors(roles)
        heads = measure(watched.maps.flatten(0, 1), selectors)
        uniform = measure(uniform_map(size, causal=self._causal)[None], selectors)
        counted = np.ones((len(MEASURES), 1))
        if not roles.separators.any():
            counted[_NEED_SEPARATORS] = 0
        elif roles.separators.all():
            counted[MEASURES.index("other_to_separator")] = 0
        self._sums.add(np.concatenate([heads * counted, uniform * counted, counted], axis=1).ravel())

    def measured(self) -> Measured:
        """The means over all texts seen so far, with 95 % intervals."""
        value, baseline = self._means(self._sums.value[None])
        spread, _ = self._means(self._sums.samples)
        low, high = (np.full(self._shape, np.nan) for _ in range(2))
        for at in range(len(MEASURES)):
            # A sample may have drawn none of the few texts that have the measure.
            drawn = spread[np.isfinite(spread[:, at]).all((1, 2)), at]
            if len(drawn):
                low[at], high[at] = np.quantile(drawn, [0.025, 0.975], axis=0)
        return Measured(value[0], low, high, baseline[0])

    def table(self) -> pd.DataFrame:
        """`layer,head,measure,value,low,high,baseline`, blocks and heads counted from 1."""
        import pandas as pd

        found = self.measured()
        at, block, head = (axis.ravel() for axis in np.indices(self._shape))
        columns = {
            "layer": block + 1,
            "head": head + 1,
            "measure": np.array(MEASURES, object)[at],
            **{name: getattr(found, name).ravel() for name in ("value", "low", "high")},
            "baseline": found.baseline[at],
        }
        return pd.DataFrame(columns).sort_values(["layer", "head"], kind="stable", ignore_index=True)

    def _means(self, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of every head, and under uniform attention."""
        parts = sums.reshape(len(sums), len(MEASURES), -1).astype(float)
        counts = parts[..., -1:]
        means = np.divide(parts[..., :-1], counts, out=np.full_like(parts[..., :-1], np.nan), where=counts > 0)
        return means[..., :-1].reshape(-1, *self._shape), means[..., -1]


def measure(
    maps: Float[torch.Tensor, "head token token"], selectors: Float[torch.Tensor, "cell selector"]
) -> Float[np.ndarray, "measure head"]:
    """All measures of one text's maps; 0 where it has no such token."""
    selected = maps.flatten(1) @ selectors
    # In numpy, whose logarithm is many times faster than torch's on maps of this size; 0 log 0 is 0 here too.
    weights = maps.numpy()
    entropy = -np.vecdot(weights, np.log(np.maximum(weights, np.finfo(np.float32).tiny)))
    return np.concatenate([selected.numpy().T, entropy.mean(1)[None], entropy[:, 0][None]]).astype(float)


def uniform_map(size: int, *, causal: bool) -> Float[torch.Tensor, "token token"]:
    """Attention spread evenly over all tokens, or (`causal`) over a token and those before it.

    Example:
        >>> uniform_map(2, causal=True).tolist()
        [[1.0, 0.0], [0.5, 0.5]]
    """
    seen = torch.ones(size, size)
    seen = seen.tril() if causal else seen
    return seen / seen.sum(1, keepdim=True)


def _selectors(roles: TokenRoles) -> Float[torch.Tensor, "cell selector"]:
    """[cell of a map, measure] What each cell counts: 1 over the number of rows averaged over, or nothing."""
    separators = torch.from_numpy(roles.separators).float()
    others = 1 - separators
    size = len(separators)
    chosen = torch.zeros(len(MEASURES) - 2, size, size)
    for at, offset in enumerate((0, -1, 1)):
        chosen[at].diagonal(offset).fill_(1 / size)
    chosen[3, :, 0] = 1 / size
    chosen[4] = separators / size
    chosen[5] = torch.from_numpy(roles.punctuation).float() / size
    chosen[6] = torch.outer(separators / separators.sum().clamp_min(1), separators)
    chosen[7] = torch.outer(others / others.sum().clamp_min(1), separators)
    return chosen.flatten(1).T
