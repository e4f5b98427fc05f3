"""Whether a linear probe reads a concept from a layer, before and after the concept is erased there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from lamina.analyses.behaviour.perturb_items import score_of
from lamina.analyses.cause.erase_concepts import Concept, LayerStates, Targets
from lamina.analyses.legacy import paired_difference
from lamina.probes.leace import Eraser
from lamina.probes.softmax import Examples, fit

READABLE = (
    "task", "layer", "targets", "constant", "before", "before_low", "before_high", "after", "after_low", "after_high",
    "elsewhere", "elsewhere_low", "elsewhere_high", "known", "gone",
)  # fmt: skip


class Readable(NamedTuple):
    """What linear probes read at one layer; scores are accuracies on held-out documents, with 95 % intervals."""

    targets: int
    constant: float
    """What answering the most frequent class of the training targets scores."""
    before: tuple[float, float, float]
    after: tuple[float, float, float]
    """Of a probe that learned from the erased states of the targets that the eraser was fitted on."""
    elsewhere: tuple[float, float, float]
    """Of one that learned from the erased states of other documents: what an eraser fitted on few targets leaves."""
    known: bool
    """Whether the concept is readable before: more than the constant answer by a paired interval."""
    gone: bool
    """Whether it is not readable after: no more than the constant answer."""
    unconverged: int
    """Probes that did not converge; their scores are missing."""

    def row(self, task: str, layer: int) -> tuple[Any, ...]:
        """Of the table."""
        scores = (*self.before, *self.after, *self.elsewhere)
        return task, layer, self.targets, self.constant, *scores, self.known, self.gone


def read_layer(
    concept: Concept, states: LayerStates, eraser: Eraser, device: torch.device, *, samples: int, seed: int
) -> Readable:
    """Fresh probes before and after the concept is erased."""
    scored = concept.scored
    erased = LayerStates(*(eraser(torch.from_numpy(each)).numpy() for each in states))
    runs = [
        _hits(concept, concept.fitted, states.fitted, states, device),
        _hits(concept, concept.fitted, erased.fitted, erased, device),
        _hits(concept, concept.elsewhere, erased.elsewhere, erased, device),
    ]
    constant = (scored.gold == concept.constant).astype(float)
    scores = [_score(hits, scored.units, samples=samples, seed=seed) for hits in runs]
    return Readable(
        len(scored),
        float(constant.mean()),
        scores[0],
        scores[1],
        scores[2],
        _ahead(runs[0], constant, scored.units),
        runs[1] is not None and not _ahead(runs[1], constant, scored.units),
        sum(hits is None for hits in runs),
    )


def _hits(
    concept: Concept,
    learned: Targets,
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
    return score_of(units, hits, np.ones_like(hits), samples=samples, seed=seed)


def _ahead(
    hits: Float[np.ndarray, " target"] | None, constant: Float[np.ndarray, " target"], units: Sequence[str]
) -> bool:
    """Whether a probe is right more often than the constant answer, by an interval paired by document."""
    if hits is None:
        return False
    names, owner = np.unique(units, return_inverse=True)
    sums = np.bincount(owner, hits - constant, len(names))
    found = paired_difference(sums, np.bincount(owner, minlength=len(names)))
    return bool(found.low > 0)
