"""Saying what was found: numbers in words, and whether an interval carries the claim."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from lamina.results import Finding, Status

if TYPE_CHECKING:
    import pandas

NEGLIGIBLE = 0.02
"""A difference that means nothing on a scale from 0 to 1."""


Interval = tuple[float, float]
"""Lower and upper end, 95 %."""


def status_of(
    low: float, high: float, against: float, interval: Interval | None = None, *, negligible: float = NEGLIGIBLE
) -> Status:
    """Clear where the interval does not hold `against`, null where it lies close around it, open otherwise.

    Where `against` has an interval too, clear means that the two do not overlap.

    Example:
        >>> status_of(0.89, 0.91, 0.51), status_of(0.4, 0.7, 0.51), status_of(0.50, 0.52, 0.51)
        ('clear', 'open', 'null')
        >>> status_of(0.89, 0.91, 0.86, (0.83, 0.90))
        'open'
    """
    bottom, top = interval or (against, against)
    if not all(map(math.isfinite, (low, high, against, bottom, top))):
        return "open"
    if top - negligible <= low and high <= bottom + negligible:
        return "null"
    return "open" if low <= top and bottom <= high else "clear"


def finding(
    text: str,
    value: float,
    low: float,
    high: float,
    against: float,
    interval: Interval | None = None,
    *,
    negligible: float = NEGLIGIBLE,
) -> Finding:
    """A finding whose status the interval decides; `{number}`, `{against}` in the text are filled in.

    `interval` is that of `against`, where it has one.

    Example:
        >>> finding("Layer 3 is best: F1 {number}; its twin reaches {against}.", 0.9, 0.89, 0.91, 0.51).text
        'Layer 3 is best: F1 .90 [.89, .91]; its twin reaches .51.'
    """
    beside = number(against, *(interval or (None, None)))
    said = text.format(number=number(value, low, high), against=beside)
    return Finding(said, status_of(low, high, against, interval, negligible=negligible), value, low, high, against)


def number(value: float, low: float | None = None, high: float | None = None, digits: int = 2) -> str:
    """A number as findings say it, with its interval where it has one.

    Example:
        >>> number(0.9, 0.89, 0.91), number(-0.04), number(12.345), number(float("nan"))
        ('.90 [.89, .91]', '-.04', '12.35', 'n/a')
    """
    if not math.isfinite(value):
        return "n/a"
    shown = f"{value:.{digits}f}"
    shown = shown.replace("0.", ".", 1) if shown.lstrip("-").startswith("0.") else shown
    shown = shown.lstrip("-") if float(shown) == 0 else shown
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return shown
    return f"{shown} [{number(low, digits=digits)}, {number(high, digits=digits)}]"


def rows_of(table: pandas.DataFrame) -> Iterator[Any]:
    """The rows of a table, whose values are attributes; without types, since what pandas guesses refuses numbers.

    Example:
        >>> import pandas as pd
        >>> [row.value for row in rows_of(pd.DataFrame({"value": [0.5, 0.25]}))]
        [0.5, 0.25]
    """
    return table.itertuples(index=False)


def layers_in_words(layers: Iterable[int]) -> str:
    """Layers in order, runs of them in short.

    Example:
        >>> layers_in_words([4, 2, 5, 6]), layers_in_words([3])
        ('layers 2, 4-6', 'layer 3')
    """
    ordered = sorted(map(int, layers))
    runs = [[each for _, each in run] for _, run in groupby(enumerate(ordered), lambda pair: pair[1] - pair[0])]
    shown = [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    return f"layer{'s' * (len(ordered) > 1)} {', '.join(shown)}"


def cell(value: float, low: float | None = None, high: float | None = None) -> str:
    """A number as terminal tables show it: three places, a dash where it is not available.

    Example:
        >>> cell(0.5), cell(0.5, 0.25, 0.75), cell(float("nan"), 0, 1)
        ('0.500', '0.500 [0.250, 0.750]', '-')
    """
    if math.isnan(value):
        return "-"
    spread = "" if low is None or high is None or math.isnan(low) else f" [{low:.3f}, {high:.3f}]"
    return f"{value:.3f}{spread}"
