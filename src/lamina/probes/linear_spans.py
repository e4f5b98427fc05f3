"""Softmax regression on the mean of every span, one per layer: the probe of SentEval and of Lin et al. (2019)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lamina.probes.edge import Cut
from lamina.probes.learner import Learned
from lamina.probes.softmax import Examples, SoftmaxProbe, fit
from lamina.probes.streams import Batch, SpanTokens, Stream
from lamina.probes.targets import Targets

_LEAST = 1e-7
"""Probabilities are kept this far from 0 and 1: as logits they would not be finite."""


class LinearSpans:
    """Fitted probes, applied as edge probes are."""

    def __init__(self, probes: Sequence[SoftmaxProbe], cuts: Sequence[Cut]) -> None:
        self.cuts = list(cuts)
        self.seeds = (0,)
        """The loss is convex: there is nothing to be drawn."""
        self.gamma = torch.zeros(0)
        self._probes = list(probes)

    def __call__(self, batch: Batch) -> Float[Tensor, "member target label"]:
        """The log odds of every label: above 0 where it is more likely than all others together."""
        states = _states(batch)
        told = np.stack([_odds(probe, states[cut.layer]) for probe, cut in zip(self._probes, self.cuts, strict=True)])
        return torch.from_numpy(told)

    def weights(self) -> Float[Tensor, "mixing layer"]:
        """No layers are mixed."""
        return torch.zeros(0, 0)

    def tensors(self) -> dict[str, Tensor]:
        """What was fitted, by layer."""
        parts = {
            f"{cut.layer}/{name}": getattr(probe, name)
            for probe, cut in zip(self._probes, self.cuts, strict=True)
            for name in ("weights", "bias", "middle", "spread")
        }
        return {name: torch.from_numpy(np.ascontiguousarray(each)) for name, each in parts.items()}


def fit_linear(
    cuts: Sequence[Cut], learn: Stream, stop: Stream, labels: tuple[Targets, Targets]
) -> tuple[LinearSpans, Learned]:
    """One probe per layer; `labels` are what is learned and what chooses the penalty, target by target."""
    known, chosen = (_read(stream, own) for stream, own in zip((learn, stop), labels, strict=True))
    classes = len(labels[0].labels)
    probes, losses = [], []
    for cut in cuts:
        own, select = (Examples(vectors[cut.layer], gold) for vectors, gold in (known, chosen))
        probes.append(fit(own, select, classes))
        said = probes[-1].probabilities(select.vectors)[np.arange(len(select.gold)), select.gold]
        losses.append(float(-np.log(np.maximum(said, 1e-300)).mean()) if probes[-1].converged else np.inf)
    count = len(probes)
    converged = np.array([probe.converged for probe in probes])
    steps, gain = (np.zeros(count, int), np.zeros(count, int)), np.zeros(count)
    learned = Learned(np.array(losses), *steps, gain, converged, np.zeros(count, bool), np.zeros(count))
    return LinearSpans(probes, cuts), learned


def _read(stream: Stream, targets: Targets) -> tuple[np.ndarray, np.ndarray]:
    """[layer, target, width] The vectors of the targets that have a label, and its number."""
    vectors, rows = [], []
    for batch in stream.in_order():
        vectors.append(_states(batch))
        rows.append(batch.rows)
    every = np.concatenate(rows)
    known = targets.rated[every].all(1) & targets.gold[every].any(1)
    return np.concatenate(vectors, 1)[:, known], targets.gold[every][known].argmax(1)


def _states(batch: Batch) -> Float[np.ndarray, "layer target width"]:
    """Of every target, whose span is one vector."""
    (span,) = batch.spans
    token = span.token if isinstance(span, SpanTokens) else span.bounds[:, 0]
    return batch.states.index_select(1, token).cpu().numpy()


def _odds(probe: SoftmaxProbe, vectors: Float[np.ndarray, "target width"]) -> Float[np.ndarray, "target label"]:
    if not probe.converged:
        return np.zeros((len(vectors), len(probe.bias)), np.float32)
    likely = probe.probabilities(vectors).clip(_LEAST, 1 - _LEAST)
    return np.log(likely / (1 - likely)).astype(np.float32)
