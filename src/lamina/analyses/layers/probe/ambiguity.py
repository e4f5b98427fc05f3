"""Ambiguous sentences, and the rows that show how the decisions about their words come about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

UNSURE = 0.7
"""A target is ambiguous where even its best label's mean probability over layers is not above this."""
_READABLE = 20
"""Words of a sentence that is easy to show; longer ones come last."""


class TraceRow(NamedTuple):
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
    """Whether the label holds; None where that is not known, as in a sentence the user typed."""
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


class TaskBeliefs(NamedTuple):
    """What the probes of one task say of its scored targets. Texts are numbered as in the corpus."""

    task: str
    labels: Sequence[str]
    text: Int[np.ndarray, " target"]
    """Number of its text."""
    words: Int[np.ndarray, "target span 2"]
    """First word and one past the last, for each span."""
    gold: Bool[np.ndarray, "target label"]
    rated: Bool[np.ndarray, "target label"]
    """Which labels annotators were asked about."""
    by_seed: Mapping[int, Float[np.ndarray, "layer target label"]]
    """Seed -> probabilities under P(0)..P(L)."""

    @property
    def ambiguous(self) -> Bool[np.ndarray, " target"]:
        """Which targets are ambiguous, by the probes of all seeds together."""
        return ambiguous_targets(np.concatenate(list(self.by_seed.values())))


def traces_across(
    tasks: Sequence[TaskBeliefs], texts: Sequence[tuple[str, Sequence[str]]], most: int = 8
) -> list[TraceRow]:
    """The ambiguous targets of some texts of one corpus: those in which most tasks are in doubt come first.

    A text needs more than one ambiguous target, of whichever tasks. Texts of at most 20 words come before longer ones;
    then the number of tasks in doubt decides, then that of ambiguous targets. A task that none of the `most` texts
    shows adds the first text that does.

    Args:
        tasks: the tasks of one corpus; graded ones have no labels to doubt, and are left out.
        texts: id and words of every scored text.
        most: texts to show.

    Example:
        >>> told = {0: np.full((2, 2, 2), 0.5)}
        >>> every, spans = np.ones((2, 2), bool), np.array([[[0, 1]], [[1, 2]]])
        >>> pos = TaskBeliefs("pos", ["X", "Y"], np.array([0, 1]), spans, every, every, told)
        >>> dep = TaskBeliefs("dep", ["Z", "V"], np.array([1, 1]), spans, every, every, told)
        >>> rows = traces_across([pos, dep], [("s1", ["Go", "!"]), ("s2", ["Dogs", "bark"])])
        >>> sorted({(row.text_id, row.task) for row in rows})
        [('s2', 'dep'), ('s2', 'pos')]
    """
    unsure = [each.ambiguous for each in tasks]
    doubts = np.array(
        [np.bincount(each.text[own], minlength=len(texts)) for each, own in zip(tasks, unsure, strict=True)]
    )
    rows = []
    for number in _texts_in_doubt(doubts, [len(words) for _, words in texts], most):
        for each, own in zip(tasks, unsure, strict=True):
            at = np.flatnonzero(own & (each.text == number))
            for seed, told in each.by_seed.items():
                about = (each.task, texts[number][0], each.words[at], told[:, at], each.labels, each.gold[at], seed)
                rows += trace_rows(*about, rated=each.rated[at])
    return rows


def _texts_in_doubt(doubts: Int[np.ndarray, "task text"], lengths: Sequence[int], most: int) -> list[int]:
    """The texts to show, by how many ambiguous targets of each task they have."""
    if not len(doubts):
        return []
    tasks, targets = (doubts > 0).sum(0), doubts.sum(0)
    found = np.flatnonzero(targets > 1).tolist()
    ordered = sorted(found, key=lambda at: (lengths[at] > _READABLE, -tasks[at], -targets[at], at))
    chosen = ordered[:most]
    for own in doubts:
        if not own[chosen].any():
            chosen += [at for at in ordered if own[at]][:1]
    return chosen


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
) -> list[TraceRow]:
    """For each target its gold labels and the wrong one with the highest mean probability over layers.

    Where the gold labels are not known, the two labels with the highest mean probability. A label that was not
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
        for column, holds in _columns_of(own, None if gold is None else gold[target], mask):
            series = np.round(own[:, column].astype(np.float64), 5).tolist()
            rows += [TraceRow(*places, labels[column], holds, layer, each) for layer, each in enumerate(series)]
    return rows


def _columns_of(
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


WORDS = ("text_id", "position", "word")
"""Columns of `words.csv`."""


def words_table(texts: Iterable[tuple[str, Sequence[str]]]) -> pd.DataFrame:
    """Texts, as (id, words), one row per word: what a figure marks the traced spans in.

    Example:
        >>> words_table([("s1", ["Dogs", "bark"])]).to_dict("list")
        {'text_id': ['s1', 's1'], 'position': [0, 1], 'word': ['Dogs', 'bark']}
    """
    rows = [(text_id, position, word) for text_id, words in texts for position, word in enumerate(words)]
    return pd.DataFrame(rows, columns=list(WORDS))
