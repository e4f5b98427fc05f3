"""Small results that fill the report's first screen."""

from __future__ import annotations

import pandas as pd

from lamina.results import Provenance, Result
from lamina.results.finding import Finding

_WHERE = Provenance({"name": "minilm"}, {"name": "ewt", "split": "dev"}, {}, command="lamina report minilm")


def at_a_glance_results() -> list[Result]:
    """One task at three layers, and heads of two layers; their own charts are not drawn."""
    rows = [
        ("minilm", "pos", "layer", of, layer, "all", "f1", 100, value, value - 0.01, value + 0.01)
        for of, values in (("model", (0.5, 0.8, 0.79)), ("random", (0.1, 0.3, 0.2)))
        for layer, value in enumerate(values)
    ]
    columns = ["model", "task", "probe", "of", "layer", "seed", "metric", "count", "value", "low", "high"]
    scores = pd.DataFrame(rows, columns=columns)
    looks = [
        (layer, head, "to_previous", value, value - 0.05, value + 0.05, 0.1)
        for layer, values in ((1, (0.9, 0.2)), (2, (0.52, 0.1)))
        for head, value in enumerate(values, start=1)
    ]
    names = ["layer", "head", "measure", "value", "low", "high", "baseline"]
    found = Finding("Part of speech is best read at layer 1", "lead", "clear", 0.5, 0.49, 0.51, 0.01)
    return [
        Result("probe", {"scores": scores}, _WHERE, findings=(found,)),
        Result("attention", {"surface": pd.DataFrame(looks, columns=names)}, _WHERE),
    ]
