"""Whether a linear probe reads a concept from a layer, before and after the concept is erased there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from lamina.analyses.cause.effects import MISSING, Effect, ScoreChange, effects_of, score_interval
from lamina.analyses.cause.erase_concepts import Concept, ConceptTargets, LayerStates
from lamina.analyses.cause.targets import TargetScores
from lamina.probes.leace import Eraser
from lamina.probes.softmax import Examples, fit
from lamina.stats.status import SURE

READABLE = (
    "task", "layer", "targets", "constant", "before", "before_low", "before_high", "after", "after_low", "after_high",
    "elsewhere", "elsewhere_low", "elsewhere_high", "ahead", "ahead_low", "ahead_high", "p_adjusted", "units", "needed",
    "left", "left_low", "left_high", "known", "gone",
)  # fmt: skip
_LEFT = 0.05
"""How far above the constant answer a probe may come after erasing, at most: the upper end of the interval."""


class ReadableLayer(NamedTuple):
    """What linear probes read at one layer; scores are accuracies on held-out documents, with 95 % intervals."""

    targets: int
    constant: float
    """What answering the most frequent class of the training targets scores."""
    before: tuple[float, float, float]
    after: tuple[float, float, float]
    """Of a probe that learned from the erased states of the targets that the eraser was fitted on."""
    elsewhere: tuple[float, float, float]
    """Of one that learned from the erased states of other documents: what an eraser fitted on few targets leaves."""
    ahead: Effect
    """Before minus the constant answer; p is one-sided."""
    left: Effect
    """After minus the constant answer."""
    known: bool
    """Whether the concept is readable before: surely more than the constant answer."""
    gone: bool
    """Whether it is not readable after: at most little more than the constant answer."""
    unconverged: int
    """Probes that did not converge; their scores are missing."""

    def row(self, task: str, layer: int) -> tuple[Any, ...]:
        """Of the table."""
        scores = (*self.before, *self.after, *self.elsewhere)
        tests = (*self.ahead[2:], *self.left[2:5])
        return task, layer, self.targets, self.constant, *scores, *tests, self.known, self.gone


class ProbeHits(NamedTuple):
    """Which scored targets probes of one layer are right about; None where a probe did not converge."""

    before: Float[np.ndarray, " target"] | None
    after: Float[np.ndarray, " target"] | None
    elsewhere: Float[np.ndarray, " target"] | None


def probe_layer(concept: Concept, states: LayerStates, eraser: Eraser, device: torch.device) -> ProbeHits:
    """Fresh probes before and after the concept is erased."""
    erased = LayerStates(*(eraser(torch.from_numpy(each)).numpy() for each in states))
    return ProbeHits(
        _hits(concept, concept.fitted, states.fitted, states, device),
        _hits(concept, concept.fitted, erased.fitted, erased, device),
        _hits(concept, concept.elsewhere, erased.elsewhere, erased, device),
    )


def readable_layers(
    probed: Mapping[int, ProbeHits],
    constant: Float[np.ndarray, " target"],
    units: Sequence[str],
    *,
    samples: int,
    seed: int,
) -> dict[int, ReadableLayer]:
    """What is readable at each layer, tested over all of them together.

    Args:
        probed: layer -> what its probes are right about.
        constant: which targets the constant answer is right about.
        units: the document of each target.
        samples: bootstrap samples.
        seed: of the draw.
    """
    ahead, left = (_against(constant, probed, units, name) for name in ("before", "after"))
    found = {}
    for layer, hits in probed.items():
        before, after, elsewhere = (_score(each, units, samples=samples, seed=seed) for each in hits)
        found[layer] = ReadableLayer(
            len(units),
            float(constant.mean()),
            before,
            after,
            elsewhere,
            ahead[layer],
            left[layer],
            bool(ahead[layer].p < SURE),
            bool(left[layer].high < _LEFT),
            sum(each is None for each in hits),
        )
    return found


def _against(
    constant: Float[np.ndarray, " target"], probed: Mapping[int, ProbeHits], units: Sequence[str], name: str
) -> dict[int, Effect]:
    """Of the probes of all layers, how much more they are right than the constant answer."""
    one = np.ones(len(constant))
    hits = {layer: getattr(each, name) for layer, each in probed.items()}
    changes = {
        layer: ScoreChange(TargetScores(constant, one), TargetScores(own, one), units)
        for layer, own in hits.items()
        if own is not None
    }
    made = iter(effects_of(list(changes.values()), harm=1 if name == "before" else 0))
    return {layer: next(made) if layer in changes else MISSING for layer in hits}


def _hits(
    concept: Concept,
    learned: ConceptTargets,
    vectors: Float[np.ndarray, "target width"],
    states: LayerStates,
    device: torch.device,
) -> Float[np.ndarray, " target"] | None:
    """Which scored targets a probe is right about; None where it did not converge."""
    known, select = learned.gold >= 0, concept.select.gold >= 0
    probe = fit(
        Examples(vectors[known], learned.gold[known]),
        Examples(states.select[select], concept.select.gold[select]),
        len(concept.labels),
        device,
    )
    if not probe.converged:
        return None
    return (probe.probabilities(states.scored).argmax(1) == concept.scored.gold).astype(float)


def _score(
    hits: Float[np.ndarray, " target"] | None, units: Sequence[str], *, samples: int, seed: int
) -> tuple[float, float, float]:
    if hits is None:
        return np.nan, np.nan, np.nan
    scores = TargetScores(hits, np.ones_like(hits))
    return scores.value, *score_interval(scores, units, samples=samples, seed=seed)
