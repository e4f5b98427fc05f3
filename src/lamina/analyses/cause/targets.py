"""What a model is asked for while its parts are changed: its loss, judgements, answers, tags, what probes read.

A target says which rows the model reads and which layers are looked at, keeps some numbers of each row, and makes of
these a score for every item. It knows nothing of what is changed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.rows import Row


class TargetScores(NamedTuple):
    """How well each item is done: the score of many is the sum of `hits` by the sum of `counts`."""

    hits: Float[np.ndarray, " item"]
    """Right answers, F1, or minus the log-probability."""
    counts: Float[np.ndarray, " item"]
    """Of how many answers, or pieces."""

    @property
    def value(self) -> float:
        """Of all items together.

        Example:
            >>> TargetScores(np.array([1.0, 2.0]), np.array([2.0, 2.0])).value
            0.75
        """
        return float(self.hits.sum() / self.counts.sum())


class Target(ABC):
    """Something that a model can be asked for."""

    name: str
    """In tables: loss, pairs, qa, tags, classes, probe:TASK@LAYER."""
    lower_is_better: bool = False
    rows: Sequence[Row]
    """What the model reads: one or several rows for an item."""
    layers: tuple[int, ...]
    """Layers whose states are looked at."""
    places: Sequence[Int[np.ndarray, " place"]] | None = None
    """The tokens of each row at which the last layer is looked at, where it is not all: the others are not made."""
    items: tuple[str, ...]
    """Names of texts, pairs or questions: equal whatever the model."""
    units: tuple[str, ...]
    """What is drawn with replacement: the document of each item, or the item."""
    owners: Int[np.ndarray, " row"]
    """The item of each row."""
    skipped: Counter[str]
    """Why something was left out -> how many times."""
    chance: float | None = None
    """What needs no model scores on these items; None where a score has no such level."""

    @abstractmethod
    def read(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Float[np.ndarray, "row kept"]:
        """What is kept of some rows (by number), given their states [row, token, width], padding included."""

    @abstractmethod
    def score(self, kept: Float[np.ndarray, "row kept"]) -> TargetScores:
        """The score of every item, given what was kept of all rows."""

    @abstractmethod
    def loss(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Float[Tensor, " row"]:
        """What the model would be trained to lower, for each row; gradients go through it."""

    def of(self, encoder: HuggingFaceEncoder) -> Target:
        """The same asked of another encoder of the same shape: the twin with random weights."""
        raise NotImplementedError
