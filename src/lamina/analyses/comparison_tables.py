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
    """score_first and score_full (of P(0) and P(L)), score_best_layer (of the single layer with the least loss on the
    texts that decide when to stop, which are not scored); highest, mean_over_layers and last_layer (of a measure by
    layer); center_of_gravity and expected_layer, as shares of the depth L; items, the mean over the items of a group
    (of pairs and clozes)."""
    model: str
    value: float
    low: float
    high: float
    spread: str
    """What low and high are: an `interval`, or a `range` over seeds where there are too few for one."""
    layer: int | None
    """The layer of a score."""
    reason: str
    """Why something is not available, or not compared: probes that had not converged."""


class Difference(NamedTuple):
    """One row of `differences.csv`: a - b, on the same draws of texts."""

    task: str
    metric: str
    statistic: str
    a: str
    b: str
    difference: float
    low: float
    """95 %, simultaneous over the family that `p_adjusted` is corrected for; of a `range`, the farthest that any two
    seeds are apart."""
    high: float
    spread: str
    p_adjusted: float
    """Two-sided, by max-T over all tasks (or measures) and pairs of models of the statistic; of items, over groups and
    pairs, and over pairs for the mean over groups."""
    units: int
    """How many units were resampled, or had their signs flipped."""
    needed: int
    """0; where even the best outcome could not reach .05, how many units a test needs at least."""
    unit: str
    """What these are: document, text, item, word type, seed."""
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
    p_beaten: float
    """That another layer of any of these models is better, by max-T over all of them; NaN of a probe that had not
    converged."""
    among_best: bool
    """Whether no other layer of any of these models was shown to be better."""
    chosen: bool
    """Whether it has the least loss of its model's layers on the texts that decide when to stop."""
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
