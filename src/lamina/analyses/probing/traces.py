"""How a decision about one target comes about, layer by layer: the probability of its labels under P(0)..P(L)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

UNSURE = 0.7
"""A target is ambiguous where even its best label's mean probability over layers is not above this."""
_READABLE = 20
"""Words of a sentence that is easily shown; longer ones come last."""


class Trace(NamedTuple):
    """One row of `traces.csv`."""

    text_id: str
    task: str
    seed: int
    span1: str
    """Words, as start:end."""
    span2: str
    """The same of the second span; empty where there is none."""
    label: str
    gold: bool | None
    """Whether the label holds; None where nobody knows, as in a sentence the user typed."""
    layer: int
    """The last layer the probe may look at."""
    probability: float


def ambiguous_targets(probabilities: Float[np.ndarray, "layer target label"]) -> Bool[np.ndarray, " target"]:
    """Which targets are ambiguous by the paper's rule.

    Example:
        >>> ambiguous_targets(np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.1], [0.8, 0.2]]])).tolist()
        [False, True]
    """
    return np.mean(probabilities, axis=0, dtype=np.float64).max(-1) <= UNSURE


def ambiguous_texts(
    text: Int[np.ndarray, " target"],
    ambiguous: Bool[np.ndarray, " target"],
    lengths: Sequence[int],
    most: int = 8,
) -> list[int]:
    """The texts with more than one ambiguous target: at most `most`, short ones with many such targets first.

    Example:
        >>> owners = np.array([0, 0, 1, 2, 2, 2])
        >>> ambiguous_texts(owners, np.array([True, True, True, True, True, True]), [5, 5, 5])
        [2, 0]
    """
    unsure = np.bincount(text[ambiguous], minlength=len(lengths))
    found = np.flatnonzero(unsure > 1).tolist()
    return sorted(found, key=lambda number: (lengths[number] > _READABLE, -unsure[number], number))[:most]


def trace_rows(
    task: str,
    text_id: str,
    words: Int[np.ndarray, "target span 2"],
    probabilities: Float[np.ndarray, "layer target label"],
    labels: Sequence[str],
    gold: Bool[np.ndarray, "target label"] | None,
    seed: int,
    *,
    rated: Bool[np.ndarray, "target label"] | None = None,
) -> list[Trace]:
    """For each target its gold labels and the wrong one with the highest mean probability over layers.

    Where nobody knows the gold labels, the two labels with the highest mean probability. A label that was not
    `rated` is neither right nor wrong, and is not shown.

    Example:
        >>> rows = trace_rows("pos", "s1", np.array([[[0, 1]]]), np.array([[[0.9, 0.4]], [[0.2, 0.7]]]),
        ...                   ["X", "Y"], np.array([[False, True]]), seed=0)
        >>> [(row.label, row.gold, row.layer, row.probability) for row in rows]
        [('Y', True, 0, 0.4), ('Y', True, 1, 0.7), ('X', False, 0, 0.9), ('X', False, 1, 0.2)]
    """
    rows = []
    for target, spans in enumerate(words):
        said = [f"{start}:{end}" for start, end in spans.tolist()]
        places = (text_id, task, seed, said[0], said[1] if len(said) > 1 else "")
        own = probabilities[:, target]
        mask = None if rated is None else rated[target]
        for column, holds in _shown(own, None if gold is None else gold[target], mask):
            series = np.round(own[:, column].astype(np.float64), 5).tolist()
            rows += [Trace(*places, labels[column], holds, layer, each) for layer, each in enumerate(series)]
    return rows


def _shown(
    probabilities: Float[np.ndarray, "layer label"], gold: np.ndarray | None, rated: np.ndarray | None
) -> list[tuple[int, bool | None]]:
    """The columns to show of one target, and whether each holds."""
    order = np.argsort(-np.mean(probabilities, axis=0, dtype=np.float64), kind="stable")
    if rated is not None:
        order = order[rated[order]]
    if gold is None:
        return [(column, None) for column in order[:2].tolist()]
    shown = np.concatenate([np.flatnonzero(gold), order[~gold[order]][:1]])
    return [(column, bool(gold[column])) for column in shown.tolist()]
