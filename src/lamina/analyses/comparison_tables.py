"""The tables of `lamina compare`: what one row holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

SCORES = ("score_first", "score_full", "score_best_layer")
PLACES = ("center_of_gravity", "expected_layer")
STATISTICS = (*SCORES, *PLACES)
METRICS = {"f1": "F1", "macro_f1": "macro-F1", "accuracy": "accuracy", "r2": "R2", "correlation": "correlation"}
"""Metric -> what it is called."""


class Compared(NamedTuple):
    """One row of `compare.csv`; NaN where something is not available."""

    task: str
    metric: str
    statistic: str
    """score_first and score_full (of P(0) and P(L)), score_best_layer (of the single layer that the texts that decide
    when to stop choose); highest, mean_over_layers and last_layer (of a measure by layer); center_of_gravity and
    expected_layer, as shares of the depth L; items, the mean over the items of a group (of pairs and clozes)."""
    model: str
    value: float
    low: float
    high: float
    spread: str
    """What low and high are: an `interval`, or a `range` over seeds where there are too few for one."""
    layer: int | None
    """The layer of a score."""
    reason: str
    """Why something is not available."""


class Difference(NamedTuple):
    """One row of `differences.csv`: a - b, on the same draws of texts."""

    task: str
    metric: str
    statistic: str
    a: str
    b: str
    difference: float
    low: float
    high: float
    spread: str
    p: float
    """Two-sided, from the bootstrap; of measures by layer, Student's with the bootstrap's standard error."""
    p_adjusted: float
    """Corrected by Holm over all tasks and pairs of the statistic."""
    reason: str
    """Why something is not available, or not paired."""


class Depth(NamedTuple):
    """One row of `depth.csv`: the score of a probe, all seeds together."""

    model: str
    task: str
    metric: str
    probe: str
    layer: int
    relative_depth: float
    """layer / L."""
    value: float
    low: float
    high: float


class BestLayer(NamedTuple):
    """One row of `best_layers.csv`: the score of one layer of one model alone."""

    task: str
    rank: int
    """1 is the best layer of all models."""
    model: str
    layer: int
    relative_depth: float
    value: float
    low: float
    high: float
    tied: bool
    """Whether the paired interval of its difference from the best includes 0."""
    chosen: bool
    """Whether the texts that decide when to stop choose it among its model's layers."""
    normalised: float
    """0 at the model's worst layer for this task, 1 at its best; NaN where all are equal."""


def in_words(names: Iterable[str]) -> str:
    """Names in a list.

    Example:
        >>> in_words(["minilm", "mpnet", "smollm2"])
        'minilm, mpnet and smollm2'
    """
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
