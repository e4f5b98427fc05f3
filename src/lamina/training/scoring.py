"""From how each text was done to scores with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lamina.training.objective import Outcome

if TYPE_CHECKING:
    import pandas

SAMPLES = 1000
ALL = "all"
"""The task of scores over all tasks together."""


Line = tuple[str, str, str, int, float, float, float]
COLUMNS = ["split", "task", "metric", "count", "value", "low", "high"]


def means(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Each metric over all texts.

    Example:
        >>> from lamina.training.objective import Sum
        >>> means([Outcome("a", {"f1": Sum(1, 1)}), Outcome("b", {"f1": Sum(0, 1)})])
        {'f1': 0.5}
    """
    metrics = outcomes[0].sums if outcomes else {}
    return {metric: _ratio(*_totals(outcomes, metric)) for metric in metrics}


def score_table(split: str, outcomes: Sequence[Outcome], *, seed: int, samples: int = SAMPLES) -> pandas.DataFrame:
    """Every metric with the middle 95 % of its values over resampled documents; by task where there are several."""
    import pandas as pd

    tasks = sorted({each.task for each in outcomes if each.task}, key=lambda name: (len(name), name))
    rows = list(_scores(split, ALL, outcomes, seed, samples))
    for task in tasks:
        rows += _scores(split, task, [each for each in outcomes if each.task == task], seed, samples)
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table if tasks else table.drop(columns="task")


def _scores(split: str, task: str, outcomes: Sequence[Outcome], seed: int, samples: int) -> Iterator[Line]:
    units = {unit: number for number, unit in enumerate(dict.fromkeys(each.unit for each in outcomes))}
    draw = np.random.default_rng(seed)
    weights = draw.multinomial(len(units), np.full(len(units), 1 / len(units)), size=samples)
    for metric in outcomes[0].sums:
        sums = np.zeros((len(units), 2))
        for each in outcomes:
            sums[units[each.unit]] += each.sums[metric][:2]
        drawn = weights @ sums
        values = np.divide(drawn[:, 0], drawn[:, 1], out=np.full(samples, np.nan), where=drawn[:, 1] > 0)
        real = values[np.isfinite(values)]
        low, high = np.quantile(real, [0.025, 0.975]) if len(real) else (np.nan, np.nan)
        count = sum(each.sums[metric].judged for each in outcomes)
        yield split, task, metric, count, _ratio(*_totals(outcomes, metric)), float(low), float(high)


def _totals(outcomes: Iterable[Outcome], metric: str) -> tuple[float, float]:
    pairs = [each.sums[metric][:2] for each in outcomes]
    return sum(top for top, _ in pairs), sum(bottom for _, bottom in pairs)


def _ratio(top: float, bottom: float) -> float:
    return float(top / bottom) if bottom else 0.0
