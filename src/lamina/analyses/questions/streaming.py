"""Measures of questions that stream past, summed for every group of answers, with intervals over documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from lamina.analyses.questions.agreement import AGREEMENTS
from lamina.analyses.questions.measures import MEASURES, SIMILARITIES, Before
from lamina.analyses.resampling import StreamedBootstrap

ALL, RIGHT, WRONG, SURE_WRONG, UNSURE = "all", "right", "wrong", "confident wrong", "low confidence"
ANSWERS = (ALL, RIGHT, WRONG, SURE_WRONG, UNSURE)
"""Groups of questions: by exact match, and of the wrong ones those the model was and was not confident about."""
COLUMNS = (*MEASURES, *AGREEMENTS)
_ANISOTROPY = COLUMNS.index("anisotropy")

Line = tuple[str, int, str, str, int, float, float, float]


class Given(NamedTuple):
    """What is known of one answer."""

    right: bool
    confidence: float


def memberships(given: Given | None, confident: float) -> list[int]:
    """The groups of ANSWERS a question belongs to.

    Example:
        >>> [ANSWERS[group] for group in memberships(Given(False, 0.9), 0.5)]
        ['all', 'wrong', 'confident wrong']
    """
    if given is None:
        return [0]
    if given.right:
        return [0, ANSWERS.index(RIGHT)]
    return [0, ANSWERS.index(WRONG), ANSWERS.index(SURE_WRONG if given.confidence >= confident else UNSURE)]


class PhaseSums:
    """Sums and counts of every measure at every layer; memory does not grow with the number of questions."""

    def __init__(self, layers: int, *, samples: int, seed: int, by_document: bool) -> None:
        self._shape = (len(ANSWERS), layers, len(COLUMNS), 2)
        self._bootstrap = StreamedBootstrap(int(np.prod(self._shape)), samples=samples, seed=seed)
        self._by_document = by_document
        self._document: str | None = None
        self._held = np.zeros(self._shape)

    def add(self, document: str, groups: list[int], values: Float[np.ndarray, "layer column"]) -> None:
        """One question's measures; not a number where there is none."""
        if document != self._document or not self._by_document:
            self._finish()
            self._document = document
        there = np.isfinite(values)
        self._held[groups] += np.stack([np.where(there, values, 0), there], axis=-1)

    def _finish(self) -> None:
        if self._document is not None:
            self._bootstrap.add(self._held.ravel())
            self._held = np.zeros(self._shape)

    def lines(self, model: str) -> Iterator[Line]:
        """A row a layer, group and measure; similarities as they are and minus the layer's anisotropy."""
        self._finish()
        self._document = None
        whole = self._bootstrap.value.reshape(self._shape)
        drawn = self._bootstrap.samples.reshape(-1, *self._shape)
        with np.errstate(invalid="ignore", divide="ignore"):
            means, spread = whole[..., 0] / whole[..., 1], drawn[..., 0] / drawn[..., 1]
        counts = whole[..., 1].astype(int)
        # What unrelated words are like is a fact of the layer, whichever answers are looked at.
        alike, alikes = means[0, :, _ANISOTROPY], spread[:, 0, :, _ANISOTROPY]
        for at in np.ndindex(counts.shape):
            group, layer, column = at
            if not counts[at]:
                continue
            name, here = COLUMNS[column], (model, layer, ANSWERS[group])
            yield *here, name, int(counts[at]), *_interval(float(means[at]), spread[:, *at])
            if name in SIMILARITIES and counts[0, layer, _ANISOTROPY]:
                adjusted = spread[:, *at] - alikes[:, layer]
                yield *here, f"{name}_adjusted", int(counts[at]), *_interval(float(means[at] - alike[layer]), adjusted)


def _interval(value: float, spread: np.ndarray) -> tuple[float, float, float]:
    real = spread[np.isfinite(spread)]
    low, high = np.quantile(real, [0.025, 0.975]) if len(real) else (np.nan, np.nan)
    return value, float(low), float(high)


class Unrelated:
    """Sums of the words of earlier documents, for what two unrelated words are like."""

    def __init__(self, layers: int, width: int) -> None:
        self._finished = Before(torch.zeros(layers, width), torch.zeros(layers))
        self._held = Before(torch.zeros(layers, width), torch.zeros(layers))
        self._document: str | None = None

    def before(self, document: str) -> Before:
        """Of all documents before this one."""
        if document != self._document:
            self._finished = Before(*(done + held for done, held in zip(self._finished, self._held, strict=True)))
            self._held = Before(*(torch.zeros_like(part) for part in self._held))
            self._document = document
        return self._finished

    def add(self, sums: torch.Tensor, counts: torch.Tensor) -> None:
        """The words of one text of the document asked about last."""
        self._held = Before(self._held.sums + sums, self._held.counts + counts)
