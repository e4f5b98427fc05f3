"""What the pipeline paper reports for BERT, to be compared with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pandas as pd

SOURCE = "Tenney, Das and Pavlick (2019)"

_TASKS = ("pos", "const", "dep", "ner", "srl", "coref", "spr", "rel")
_PUBLISHED = {
    ("BERT-large", 24, "expected_layer"): (3.39, 3.79, 5.69, 4.64, 6.54, 9.47, 9.93, 9.40),
    ("BERT-large", 24, "center_of_gravity"): (11.68, 13.06, 13.75, 13.16, 13.63, 15.80, 12.72, 12.83),
    ("BERT-base", 12, "expected_layer"): (1.76, 2.38, 2.52, 2.42, 2.59, 3.62, 4.29, 4.16),
}
"""Model, its layers and statistic -> the values of `_TASKS`. They are in the paper's figures only, not in its text, and
are copied from the project's notes on methods. The notes lack the centres of gravity of BERT-base: so does this."""


class Reference(NamedTuple):
    """One row of `reference.csv`: where the paper places a task."""

    task: str
    model: str
    layers: int
    """Without the embeddings."""
    statistic: str
    """expected_layer or center_of_gravity."""
    value: float
    depth: float
    """The value as a share of the layers: models of different depth are compared by it."""
    source: str


def reference_table(tasks: Iterable[str]) -> pd.DataFrame:
    """The paper's values for these tasks; it has none for tasks other than its own eight.

    Its probes learned from other texts (OntoNotes, mostly), and its tasks are not in all details ours.

    Example:
        >>> table = reference_table(["pos", "xpos"])
        >>> table["task"].tolist(), table["value"].tolist()
        (['pos', 'pos', 'pos'], [3.39, 11.68, 1.76])
    """
    asked = set(tasks)
    rows = [
        Reference(task, model, layers, statistic, value, value / layers, SOURCE)
        for (model, layers, statistic), values in _PUBLISHED.items()
        for task, value in zip(_TASKS, values, strict=True)
        if task in asked
    ]
    return pd.DataFrame(rows, columns=list(Reference._fields))
