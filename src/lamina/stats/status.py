"""The verdict of a test: clear, null, open or untested. Defined here and nowhere else."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

Status = Literal["clear", "null", "open", "untested"]
"""*clear*: the adjusted p of the contrast that the sentence states is below .05. *null*: its simultaneous interval lies
inside a declared margin. *open*: neither. *untested*: even the best outcome could not have reached .05."""
SURE = 0.05
"""The adjusted p below which a contrast is clear."""
NEGLIGIBLE = 0.02
"""The margin of no effect, on a scale from 0 to 1, where an analysis declares no other."""
LEAST_UNITS = 6
"""With fewer, no two-sided test that flips signs can reach .05: 2 of 2 ** 5 flips are .0625."""


def status_of(
    low: float, high: float, p: float, *, needed: float | int = 0, margin: float | int = NEGLIGIBLE
) -> Status:
    """The status of a contrast with this simultaneous interval and adjusted p.

    Args:
        low: lower end of the interval.
        high: upper end.
        p: adjusted; NaN where there is none.
        needed: above 0 where the test could not succeed: the units that would be needed.
        margin: how far from 0 a contrast may be and still mean nothing; a difference known to be that small is null,
            however small its p.

    Example:
        >>> status_of(0.1, 0.3, 0.01), status_of(-0.01, 0.01, 0.6), status_of(-0.1, 0.3, 0.4)
        ('clear', 'null', 'open')
        >>> status_of(0.1, 0.3, float("nan"), needed=6)
        'untested'
    """
    if needed > 0:
        return "untested"
    inside = -margin <= low and high <= margin
    if p < SURE and not inside:
        return "clear"
    return "null" if inside else "open"


class Contrast(NamedTuple):
    """One contrast that was tested; NaN where something is not available."""

    estimate: float
    low: float
    """95 %, simultaneous over the family it was tested in."""
    high: float
    p: float
    """Adjusted for the family."""
    units: int = 0
    """How many were resampled or flipped."""
    needed: int = 0
    """0; where even the best outcome could not reach .05, how many units would be needed at least."""

    @classmethod
    def of(cls, row: Any, estimate: str = "estimate", low: str = "low", high: str = "high") -> Contrast:
        """A row of a table of contrasts, its values being attributes; numbers of units where it has them."""
        units, needed = (getattr(row, name, 0) for name in ("units", "needed"))
        return cls(
            float(getattr(row, estimate)),
            float(getattr(row, low)),
            float(getattr(row, high)),
            float(row.p_adjusted),
            int(units) if units == units else 0,
            int(needed) if needed == needed else 0,
        )
