"""Families of tests corrected by shared resampling: step-down max-T, with simultaneous intervals from the same draws.

The statistics of all members are drawn together, so a family of many alike members costs little, and the smallest
reachable p does not depend on how many members there are (Westfall and Young 1993; Romano and Wolf 2005).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Real

from lamina.stats.intervals import as_normal, from_normal, share_interval
from lamina.stats.status import LEAST_UNITS, SURE, Contrast

Alternative = Literal["two-sided", "greater"]
_ALL_FLIPS = 14
"""Up to this number of units, all sign flips are tried ..."""
_FLIPS = 10_000
"""... with more, as many at random."""
_MOST_ROWS = 2000
"""Units whose signs are flipped one by one; of more, several are flipped together, so that memory does not grow."""
_NORMAL = 1.96
"""Of an interval for a single share: counts are too coarse for their own critical value."""
_AT_ONCE = 2**23
"""Numbers held while draws are compared."""
_ROUNDING = 1e-5
"""Statistics this close are equal: the same terms summed in another order."""


class Contrasts(NamedTuple):
    """What a family of contrasts shows, one entry per member."""

    estimate: Float[np.ndarray, " *member"]
    low: Float[np.ndarray, " *member"]
    """95 %, simultaneous: all intervals of the family hold together."""
    high: Float[np.ndarray, " *member"]
    p: Float[np.ndarray, " *member"]
    """Adjusted for the family; NaN where the test could not succeed, or the contrast could not vary."""
    units: Float[np.ndarray, " *member"]
    """How many units have the thing."""
    needed: Float[np.ndarray, " *member"]
    """0; where even the best outcome could not reach .05, how many units would be needed at least."""

    def columns(self, prefix: str = "") -> dict[str, np.ndarray]:
        """The standard columns of a table of tests; `prefix` is put before estimate, low and high.

        Example:
            >>> tests = sign_flip_family(np.eye(8, 2) + 1, np.ones((8, 2)))
            >>> list(tests.columns("difference_"))
            ['difference_estimate', 'difference_low', 'difference_high', 'p_adjusted', 'units', 'needed']
        """
        named = {"estimate": self.estimate, "low": self.low, "high": self.high}
        flat = {f"{prefix}{name}": np.ravel(values) for name, values in named.items()}
        rest = {"p_adjusted": self.p, "units": self.units, "needed": self.needed}
        return flat | {name: np.ravel(values) for name, values in rest.items()}

    def member(self, place: int | tuple[int, ...]) -> Contrast:
        """One member by its place, as values of one row.

        Example:
            >>> sign_flip_family(np.eye(8, 2) + 1, np.ones((8, 2))).member(1).units
            8
        """
        estimate, low, high, p, units, needed = (float(values[place]) for values in self)
        return Contrast(estimate, low, high, p, int(units), int(needed))

    def members(self) -> list[Contrast]:
        """All members of a family along one axis."""
        return [self.member(place) for place in range(len(self.estimate))]

    def one(self) -> Contrast:
        """The only member of a family of one."""
        return Contrasts(*map(np.ravel, self)).member(0)


def sign_flip_family(
    differences: Real[np.ndarray, " unit *member"],
    counts: Real[np.ndarray, " unit *member"] | Real[np.ndarray, " unit"],
    *,
    alternative: Alternative = "two-sided",
    bounds: tuple[float, float] = (-np.inf, np.inf),
    seed: int = 0,
) -> Contrasts:
    """Paired differences of many pairs of systems on the same units: is each mean difference 0?

    Where two systems are alike, a unit is as likely to be ahead as behind: signs of whole units are flipped, the same
    flips for all members. The statistic is `sum(d) / sqrt(sum(d ** 2))` over all units, a unit without the thing being
    0. All flips are tried up to 14 units, else 10,000 of them. The simultaneous interval inverts the same test: it has
    the mean differences at which no statistic would be larger than the family's critical value.

    Args:
        differences: summed over each unit: of one system minus the other.
        counts: how many things each sum is over; the estimate is the mean over all of them.
        alternative: `greater` asks whether the difference is above 0.
        bounds: what the difference lies between whatever the data.
        seed: of the flips, where they are drawn.

    Example:
        >>> ahead = np.array([[2.0, 0], [1, 1], [2, -1], [1, 0], [2, 1], [1, -1], [1, 0]])
        >>> tests = sign_flip_family(ahead, np.full(7, 4))
        >>> tests.p.round(3).tolist(), tests.low.round(2).tolist()
        ([0.016, 1.0], [0.21, -0.22])
    """
    differences = np.asarray(differences, float)
    shape, units = differences.shape[1:], len(differences)
    values = differences.reshape(units, -1)
    counted = np.asarray(counts, float)
    counted = counted.reshape(units, *[1] * (differences.ndim - counted.ndim), *counted.shape[1:])
    counted = np.broadcast_to(counted, differences.shape).reshape(units, -1)
    total, present = counted.sum(0), (counted > 0).sum(0)
    known = total > 0
    if units > _MOST_ROWS:
        values, counted = (np.stack([part[row::_MOST_ROWS].sum(0) for row in range(_MOST_ROWS)]) for part in
                           (values, counted))  # fmt: skip
        units = _MOST_ROWS
    estimate = np.divide(values.sum(0), total, out=np.full(len(total), np.nan), where=known)
    squares = np.square(values).sum(0)
    scaled = values / np.where(squares > 0, np.sqrt(squares), 1)
    reached = scaled.sum(0)
    flips, complete = _flips(units, seed)
    flipped = scaled.astype(flips.dtype)
    below, largest = _step_down(reached, known, lambda rows: flips[rows] @ flipped, len(flips), alternative)
    p = (below + (not complete)) / (len(flips) + (not complete))
    critical = _critical(largest, complete)
    # All units on one side, each as far: no statistic of this member can be larger. Units of unequal size reach less,
    # so few of them are counted, not measured.
    hopeless = (present < LEAST_UNITS) | (np.sqrt(present) <= critical)
    needed = np.where(hopeless & known, np.maximum(max(LEAST_UNITS, int(critical**2) + 1), present + 1), 0)
    low, high = _inverted(values, counted, critical, alternative)
    p = np.where(known & ~hopeless, p, np.nan)
    low, high = (np.where(known, ends.clip(*bounds), np.nan) for ends in (low, high))
    return Contrasts(
        *(column.reshape(shape) for column in (estimate, low, high, p, present.astype(float), needed.astype(float)))
    )


def sign_flip_strata(
    strata: Sequence[Real[np.ndarray, "_ pair"]], *, bounds: tuple[float, float] = (-np.inf, np.inf), seed: int = 0
) -> tuple[Contrasts, Contrasts]:
    """Paired differences within strata, and the mean over strata: two families, two-sided, each corrected by itself.

    As `sign_flip_family` where every unit belongs to one stratum (an item to its paradigm), without a table of all
    units by all strata.

    Args:
        strata: the differences of each stratum, one row per unit and one column per pair of systems.
        bounds: what differences lie between whatever the data.
        seed: of the flips, where they are drawn.

    Returns:
        Mean differences, [stratum, member]; the mean over strata, in which all count alike, [member].

    Example:
        >>> one, other = np.full((8, 1), 0.5), np.array([[0.5]] * 4 + [[-0.5]] * 4)
        >>> within, overall = sign_flip_strata([one, other])
        >>> within.p.round(2).ravel().tolist(), overall.estimate.tolist()
        ([0.02, 1.0], [0.25])
    """
    given = [np.asarray(differences, float) for differences in strata]
    sizes, members = [len(differences) for differences in given], given[0].shape[1]
    shares = [differences / len(differences) for differences in given]
    complete = sum(sizes) <= _ALL_FLIPS
    flips = _flips(sum(sizes), seed)[0] if complete else None
    samples = len(flips) if flips is not None else _FLIPS
    drawn = np.empty((samples, len(given), members), np.float32)
    mean = np.zeros((samples, members))
    starts = np.cumsum([0, *sizes])
    for number, (values, weighed) in enumerate(zip(given, shares, strict=True)):
        rng = np.random.default_rng([seed, number, len(values)])
        step = max(1, _AT_ONCE // len(values))
        for start in range(0, samples, step):
            rows = slice(start, min(start + step, samples))
            if flips is not None:
                signs = flips[rows, starts[number] : starts[number + 1]]
            else:
                shape = (rows.stop - rows.start, len(values))
                signs = (2 * rng.integers(0, 2, shape, dtype=np.int8) - 1).astype(np.float32)
            drawn[rows, number] = signs @ _scaled(values)
            mean[rows] += signs @ weighed
    size = np.sqrt(sum(np.square(share).sum(0) for share in shares))
    mean /= np.where(size > 0, size, 1)
    within = np.stack([_scaled(values).sum(0) for values in given])
    whole = np.concatenate(shares)
    counts = np.concatenate([np.full((len(values), members), 1 / len(values)) for values in given])
    several = [(values, np.ones_like(values)) for values in given]
    return (
        _contrasts(within, drawn, several, complete, bounds),
        _contrasts(_scaled(whole).sum(0)[None], mean[:, None], [(whole, counts)], complete, bounds, one=True),
    )


def _scaled(values: Float[np.ndarray, "_ pair"]) -> Float[np.ndarray, "_ pair"]:
    size = np.sqrt(np.square(values).sum(0))
    return values / np.where(size > 0, size, 1)


def _contrasts(
    reached: Float[np.ndarray, "stratum pair"],
    drawn: Float[np.ndarray, "sample stratum pair"],
    strata: Sequence[tuple[np.ndarray, np.ndarray]],
    complete: bool,
    bounds: tuple[float, float],
    *,
    one: bool = False,
) -> Contrasts:
    """Of strata, each with its differences and the counts that they are sums over; of `one`, without the first axis."""
    flat = drawn.reshape(len(drawn), -1)
    known = np.ones(flat.shape[1], bool)
    below, largest = _step_down(reached.ravel(), known, lambda rows: flat[rows], len(flat), "two-sided")
    p = ((below + (not complete)) / (len(flat) + (not complete))).reshape(reached.shape)
    critical = _critical(largest, complete)
    units = np.broadcast_to(np.array([[len(values)] for values, _ in strata], float), reached.shape)
    hopeless = (np.sqrt(units) <= critical) | (units < LEAST_UNITS)
    needed = np.where(hopeless, np.maximum(max(LEAST_UNITS, int(critical**2) + 1), units + 1), 0)
    low, high = (
        np.stack(ends).clip(*bounds)
        for ends in zip(*(_inverted(*both, critical, "two-sided") for both in strata), strict=True)
    )
    estimate = np.stack([values.sum(0) / counts.sum(0) for values, counts in strata])
    columns = (estimate, low, high, np.where(hopeless, np.nan, p), units, needed)
    return Contrasts(*(column[0] if one else column for column in columns))


def bootstrap_family(
    estimates: Float[np.ndarray, " *member"],
    draws: Float[np.ndarray, " sample *member"],
    units: int | Float[np.ndarray, " *member"],
    *,
    alternative: Alternative = "two-sided",
    bounds: tuple[float, float] = (-np.inf, np.inf),
    least: int = LEAST_UNITS,
    widen: bool = True,
) -> Contrasts:
    """Contrasts that are no sums over units: is each different from 0? The draws of all members are shared.

    Draws are centred on the estimate and divided by their standard error. A member whose draws do not vary could not
    have moved: it has neither interval nor p.

    Args:
        estimates: of the contrasts.
        draws: the same from resampled units, the same draws for all members.
        units: how many units were resampled.
        alternative: `greater` asks whether the contrast is above 0.
        bounds: what the contrast lies between.
        least: fewer units are untested.
        widen: whether to make up for few units (see `as_normal`); not where draws follow Student's t already.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> tests = bootstrap_family(np.array([3.0, 0.1]), rng.normal([3.0, 0.1], 1, (1000, 2)), 100)
        >>> tests.p.round(2).tolist()
        [0.01, 0.92]
    """
    estimate, drawn = np.asarray(estimates, float), np.asarray(draws, float)
    shape, samples = estimate.shape, len(drawn)
    estimate, drawn = estimate.reshape(-1), drawn.reshape(samples, -1)
    count = np.broadcast_to(np.asarray(units, float), shape).reshape(-1)
    finite = np.isfinite(drawn)
    error = np.array(
        [column[mask].std() if mask.any() else 0.0 for column, mask in zip(drawn.T, finite.T, strict=True)]
    )
    moved = np.isfinite(estimate) & (error > 1e-12)
    enough = count >= least
    known = moved & enough
    reached = np.where(known, estimate / np.where(moved, error, 1), 0)
    reached = as_normal(reached, count) if widen else reached
    centred = np.where(finite & known, (drawn - estimate) / np.where(moved, error, 1), 0)
    below, largest = _step_down(reached, known, lambda rows: centred[rows], samples, alternative)
    p = np.where(known, (below + 1) / (samples + 1), np.nan)
    critical = _critical(largest, complete=False) if known.any() else np.nan
    reach = error * (from_normal(critical, count) if widen else critical)
    low = np.where(known, estimate - reach, np.nan)
    high = np.where(known, estimate + reach, np.nan) if alternative == "two-sided" else np.full(len(p), np.inf)
    low, high = (np.where(known, ends.clip(*bounds), np.nan) for ends in (low, high))
    needed = np.where(np.isfinite(estimate) & ~enough, least, 0).astype(float)
    return Contrasts(*(column.reshape(shape) for column in (estimate, low, high, p, count, needed)))


def alike_in_all_units(estimate: float, units: int, members: int) -> Contrast:
    """A contrast that every draw shows alike, as a perfect score beside none: resampling cannot test it.

    All units have the same sign, the most extreme outcome of a sign test; p is corrected by Bonferroni. The interval is
    Clopper and Pearson's, for the share of other units that are at 0.

    Args:
        estimate: of the contrast, between -1 and 1; not 0.
        units: how many there are.
        members: of the family.

    Example:
        >>> test = alike_in_all_units(1.0, 30, 4)
        >>> round(test.low, 2), test.high, test.p < 0.001, alike_in_all_units(1.0, 5, 1).needed
        (0.88, 1.0, True, 6)
    """
    if units < LEAST_UNITS:
        return Contrast(estimate, np.nan, np.nan, np.nan, units, LEAST_UNITS)
    p = min(1.0, members * 2.0 ** (1 - units))
    nearest = estimate * share_interval(units, units)[0]
    return Contrast(estimate, min(nearest, estimate), max(nearest, estimate), p, units)


def permutation_family(
    observed: Float[np.ndarray, " *member"],
    permuted: Float[np.ndarray, " sample *member"],
    *,
    alternative: Alternative = "greater",
) -> Float[np.ndarray, " *member"]:
    """Adjusted p of measures beside those of permuted labels, the same permutations for all members.

    Measures are standardised by mean and spread of their permutations, so that none dominates.

    Example:
        >>> permuted = np.random.default_rng(0).normal(0, 1, (999, 2))
        >>> permutation_family(np.array([5.0, 0.0]), permuted).round(3).tolist()
        [0.001, 0.482]
    """
    observed, permuted = np.asarray(observed, float), np.asarray(permuted, float)
    shape, samples = observed.shape, len(permuted)
    flat, null = observed.reshape(-1), permuted.reshape(samples, -1)
    spread = null.std(0)
    known = np.isfinite(flat) & np.isfinite(null).all(0) & (spread > 1e-12)
    scale, centre = np.where(known, spread, 1), np.where(known, null.mean(0), 0)
    standard = np.where(known, (null - centre) / scale, 0)
    reached = np.where(known, (flat - centre) / scale, 0)
    below, _ = _step_down(reached, known, lambda rows: standard[rows], samples, alternative)
    return np.where(known, (below + 1) / (samples + 1), np.nan).reshape(shape)


def chance_family(
    right: Real[np.ndarray, " stratum"],
    counts: Int[np.ndarray, " stratum"],
    chances: Float[np.ndarray, " stratum"],
    members: Sequence[Sequence[int]],
    *,
    seed: int = 0,
) -> Contrasts:
    """Shares of right items minus those by chance, averaged over strata: is each different from 0?

    What chance alone gives is known, so it is drawn: all items answered at random, the same draws for all members. This
    is the exact binomial test where a member is one stratum, and holds where all items are right or none is. The
    simultaneous intervals are Wilson's, with the effective number of items of a mean over strata.

    Args:
        right: items that are right, by stratum (a paradigm, a part of a suite); ties are left out.
        counts: items that are right or wrong.
        chances: how often an item is right by chance; NaN where that is not known.
        members: the strata that each member averages, each counting the same.
        seed: of the draws.

    Example:
        >>> tests = chance_family(np.array([18, 9]), np.array([18, 18]), np.array([0.5, 0.5]), [[0], [1], [0, 1]])
        >>> tests.estimate.tolist(), (tests.p < 0.05).tolist()
        ([0.5, 0.0, 0.25], [True, False, True])
    """
    right, counts, chances = np.asarray(right, float), np.asarray(counts, int), np.asarray(chances, float)
    there = counts > 0
    mean = np.zeros((len(counts), len(members)))
    for member, strata in enumerate(members):
        present = [stratum for stratum in strata if there[stratum]]
        mean[present, member] = 1 / max(len(present), 1)
    known = mean.sum(0) > 0.5
    known &= ~((there & ~np.isfinite(chances))[:, None] & (mean > 0)).any(0)
    items, by_chance = np.where(there, counts, 1), np.where(np.isfinite(chances), chances, 0.5)
    share = np.where(there, right / items, 0.5)
    value, expected = share @ mean, by_chance @ mean
    error = np.sqrt((by_chance * (1 - by_chance) / items) @ mean**2)
    known &= error > 0
    scale = np.where(known, error, 1)
    drawn = (np.random.default_rng([seed, len(counts)]).binomial(items, by_chance, (_FLIPS, len(items))) / items) @ mean
    null = (drawn - expected) / scale
    below, largest = _step_down((value - expected) / scale, known, lambda rows: null[rows], _FLIPS, "two-sided")
    critical = _critical(largest, complete=False)
    total = (items @ (mean > 0)).clip(1)
    rarer = np.minimum(expected, 1 - expected).clip(1e-9)
    hopeless = known & (np.maximum(expected, 1 - expected) / scale <= critical)
    alike = len(members) * np.where(np.abs(expected - 0.5) < 1e-9, 2, 1)
    least = np.maximum(np.ceil(np.log(SURE / alike) / np.log(rarer)), total + 1)
    low, high = _wilson(value, (share * (1 - share) / items) @ mean**2, total, max(critical, _NORMAL))
    numbers = (
        value - expected, low - expected, high - expected, np.where(hopeless, np.nan, (below + 1) / (_FLIPS + 1))
    )  # fmt: skip
    numbers = (np.where(known, number, np.nan) for number in numbers)
    return Contrasts(*numbers, np.where(known, total, 0).astype(float), np.where(hopeless, least, 0).astype(float))


def random_signs(units: int, *, samples: int, seed: int) -> Float[np.ndarray, "sample unit"]:
    """Signs of whole units, for a statistic that is fitted again for every flip (a wild cluster bootstrap).

    Example:
        >>> signs = random_signs(3, samples=1000, seed=0)
        >>> signs.shape, sorted(set(signs.ravel().tolist())), bool((abs(signs.mean(0)) < 0.1).all())
        ((1000, 3), [-1.0, 1.0], True)
    """
    return 2.0 * np.random.default_rng([seed, units]).integers(0, 2, (samples, units)) - 1


def _flips(units: int, seed: int) -> tuple[Float[np.ndarray, "flip unit"], bool]:
    """Signs of units; whether these are all there are."""
    if units <= _ALL_FLIPS:
        return np.array([*product((1.0, -1.0), repeat=units)]).reshape(2**units, units), True
    drawn = np.random.default_rng([seed, units]).integers(0, 2, (_FLIPS, units), dtype=np.int8)
    return (2 * drawn - 1).astype(np.float32), False


def _step_down(
    reached: Float[np.ndarray, " member"],
    known: Bool[np.ndarray, " member"],
    draw: Callable[[slice], Float[np.ndarray, "some member"]],
    samples: int,
    alternative: Alternative,
) -> tuple[Float[np.ndarray, " member"], Float[np.ndarray, " sample"]]:
    """How many draws reach each member's statistic by it or any with a smaller one; the largest of each draw.

    Counts never fall from a larger statistic to a smaller one, so adjusted p-values are monotone.
    """
    side = np.abs if alternative == "two-sided" else np.asarray
    members = np.flatnonzero(known)
    members = members[np.argsort(-side(reached[members]), kind="stable")]
    if not len(members):
        return np.zeros(len(reached)), np.zeros(samples)
    height = side(reached[members]) - _ROUNDING
    counts, largest = np.zeros(len(members)), np.zeros(samples)
    step = max(1, _AT_ONCE // len(known))
    for start in range(0, samples, step):
        drawn = side(draw(slice(start, start + step))[:, members])
        maxima = np.maximum.accumulate(drawn[:, ::-1], axis=1)[:, ::-1]
        counts += (maxima >= height).sum(0)
        largest[start : start + step] = maxima[:, 0]
    reaching = np.zeros(len(reached))
    reaching[members] = np.maximum.accumulate(counts)
    return reaching, largest


def _critical(largest: Float[np.ndarray, " sample"], complete: bool) -> float:
    """The value that the largest statistic of a family has to exceed for an adjusted p below .05."""
    samples = len(largest)
    allowed = SURE * samples if complete else SURE * (samples + 1) - 1
    rank = int(np.ceil(allowed - 1e-9))
    return float(np.sort(largest)[::-1][max(rank, 1) - 1]) + _ROUNDING


def _wilson(
    value: Float[np.ndarray, " member"],
    variance: Float[np.ndarray, " member"],
    items: Real[np.ndarray, " member"],
    critical: float,
) -> tuple[Float[np.ndarray, " member"], Float[np.ndarray, " member"]]:
    """Wilson's interval of shares; means over strata have as many items as would vary alike (Korn, Graubard)."""
    spread = value * (1 - value)
    varies = (variance > 0) & (spread > 0)
    n = np.where(varies, spread / np.where(varies, variance, 1), items)
    limit = critical**2 / n
    centre = (value + limit / 2) / (1 + limit)
    reach = np.sqrt(np.maximum(spread * limit + limit**2 / 4, 0)) / (1 + limit)
    return (centre - reach).clip(0, 1), (centre + reach).clip(0, 1)


def _inverted(
    values: Float[np.ndarray, "unit member"],
    counts: Float[np.ndarray, "unit member"],
    critical: float,
    alternative: Alternative,
) -> tuple[Float[np.ndarray, " member"], Float[np.ndarray, " member"]]:
    """The mean differences m at which `sum(d - m n) / sqrt(sum((d - m n) ** 2))` is at most the critical value."""
    limit = critical**2
    top, bottom = values.sum(0), counts.sum(0)
    a = bottom**2 - limit * np.square(counts).sum(0)
    b = top * bottom - limit * (values * counts).sum(0)
    c = top**2 - limit * np.square(values).sum(0)
    root = np.sqrt(np.maximum(b**2 - a * c, 0))
    bounded = a > 1e-9 * np.maximum(bottom**2, 1)
    safe = np.where(bounded, a, 1)
    low = np.where(bounded, (b - root) / safe, -np.inf)
    high = np.where(bounded, (b + root) / safe, np.inf)
    return low, high if alternative == "two-sided" else np.full_like(high, np.inf)


def paired_difference(
    differences: Real[np.ndarray, " unit"], counts: Real[np.ndarray, " unit"], *, seed: int = 0
) -> Contrast:
    """The mean of differences over everything counted; units vary as wholes. A family of one.

    Example:
        >>> found = paired_difference(np.array([2.0, 1, 0, 3, 2, 1, 2]), np.full(7, 4))
        >>> [round(float(number), 2) for number in found[:4]]
        [0.39, 0.17, 0.62, 0.03]
    """
    return sign_flip_family(np.asarray(differences, float), np.asarray(counts, float), seed=seed).one()


def ratio_differences(
    one: Float[np.ndarray, "2 unit"], other: Float[np.ndarray, "2 unit"]
) -> tuple[Float[np.ndarray, " unit"], Float[np.ndarray, " unit"]]:
    """By unit, differences and counts of two scores that are ratios of sums: what `sign_flip_family` takes.

    Where the two do not count the same (F1, whose denominator has the predictions in it), differences are of residuals
    from the value that both have together; their sum by that of the counts is the difference of the scores either way.

    Args:
        one: hits and counts of one system, summed by unit.
        other: of the other.

    Example:
        >>> ahead, counts = ratio_differences(np.array([[2.0, 1.0], [4.0, 2.0]]), np.array([[1.0, 1.0], [2.0, 4.0]]))
        >>> round(float(ahead.sum() / counts.sum()), 6), round(3 / 6 - 2 / 6, 6)
        (0.166667, 0.166667)
    """
    if np.array_equal(one[1], other[1]):
        return one[0] - other[0], one[1]
    totals = one.sum(1), other.sum(1)
    together = (totals[0][0] + totals[1][0]) / max(totals[0][1] + totals[1][1], 1e-300)
    residuals = [
        (hits - together * counts) / max(total[1], 1e-300)
        for (hits, counts), total in zip((one, other), totals, strict=True)
    ]
    counts = (one[1] + other[1]) / 2
    return (residuals[0] - residuals[1]) * counts.sum(), counts


def drawn_contrast(
    estimate: float, draws: Float[np.ndarray, " sample"], units: int, *, least: int = LEAST_UNITS
) -> Contrast:
    """A contrast that is no sum over units, with its bootstrap draws. A family of one.

    Example:
        >>> draws = np.random.default_rng(0).normal(0.3, 0.1, 1000)
        >>> drawn_contrast(0.3, draws, 40).p < 0.05
        True
    """
    return bootstrap_family(np.array([estimate]), np.asarray(draws, float)[:, None], units, least=least).one()
