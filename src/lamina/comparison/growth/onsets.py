"""When an ability begins: onsets between two checkpoints, half-way steps, and the order of abilities."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from lamina.comparison.growth.trajectories import SETTLING, Measured, Measurement, Quantity
from lamina.comparison.predictions import ALL
from lamina.stats.correlations import rank_correlation
from lamina.stats.family import Contrasts, alike_in_all_units, bootstrap_family, permutation_family
from lamina.stats.intervals import interval
from lamina.stats.status import Contrast, status_of

_STILL = 1e-9
"""Draws this close are equal."""
_PERMUTATIONS = 5000
_LEAST_LAYERS = 5
"""With fewer, no order of layers has a chance below .05, two-sided."""


class Onset(NamedTuple):
    """One row of `onsets.csv`."""

    series: str
    seed: str
    """The trainings that it is of: a name, or all."""
    analysis: str
    task: str
    layer: int | None
    """None for a number of the whole model."""
    measure: str
    kind: str
    """ability (more of it is knowing more), measure, or settling (likeness to the end)."""
    onset: float
    """The first checkpoint from which on the ability stays above the untrained model and above chance; NaN where it
    was not shown to be above them at the end, and of measures that are no abilities."""
    low: float
    """The ability begins after this step ..."""
    high: float
    """... and at this step at the latest: 95 %, never narrower than the steps of two checkpoints in a row."""
    half: float
    """The step at which it is half-way from the untrained model to the end, by the logarithm of steps."""
    half_low: float
    half_high: float
    untrained: float
    end: float
    chance: float
    """NaN where it is not known."""
    above: float
    """At the end: the value minus that of the untrained model, or minus chance if that is higher; of measures that are
    no abilities, minus the untrained model's."""
    above_low: float
    """95 %, simultaneous over its family."""
    above_high: float
    p_adjusted: float
    """Two-sided, by max-T over its family: of a series, the numbers of the whole model, or those of single layers and
    of groups of items."""
    units: int
    needed: int
    reason: str
    """Why there is no onset."""


class Order(NamedTuple):
    """One row of `orders.csv`: two abilities of one series that both have an onset."""

    series: str
    seed: str
    analysis_a: str
    task_a: str
    analysis_b: str
    task_b: str
    earlier: float
    """Share of bootstrap draws in which a's onset comes first."""
    same: float
    """In which both have it at the same checkpoint."""
    later: float
    difference: float
    """Expected step of b over that of a, in doublings: above 0 where a grows first."""
    low: float
    """95 %, simultaneous over all pairs of the series."""
    high: float
    p_adjusted: float
    """Two-sided, by max-T over all pairs of the series."""
    units: int
    needed: int


class Grown(NamedTuple):
    """What a training shows of one quantity, with its draws."""

    quantity: Quantity
    onset: Onset
    first: Int[np.ndarray, " sample"]
    """The number of the onset's step in every draw; as many as there are steps where it never stays above."""
    half: Float[np.ndarray, " sample"]
    """The half-way step in every draw, as a logarithm."""
    expected: tuple[float, Float[np.ndarray, " sample"]]
    """The expected step and its draws, as logarithms."""


def position(steps: Sequence[int]) -> Float[np.ndarray, " step"]:
    """Steps on a scale on which a doubling is 1; step 0 is put before step 1.

    Example:
        >>> position([0, 1, 3]).tolist()
        [0.0, 1.0, 2.0]
    """
    return np.log2(1 + np.asarray(steps, float))


def first_staying(above: Bool[np.ndarray, "*draws step"]) -> Int[np.ndarray, "*draws"]:
    """The first step from which on all are above; their number where the last is not.

    Example:
        >>> first_staying(np.array([[True, False, True, True], [True, True, True, False]])).tolist()
        [2, 4]
    """
    steps = above.shape[-1]
    return steps - np.cumprod(above[..., ::-1], axis=-1).sum(-1)


def halfway(
    values: Float[np.ndarray, "*draws step"], places: Float[np.ndarray, " step"]
) -> tuple[Float[np.ndarray, "*draws"], Int[np.ndarray, "*draws"]]:
    """Where values are first half-way from the first to the last, and the number of the step at or after it.

    Example:
        >>> place, step = halfway(np.array([0.0, 0.2, 0.8, 1.0]), np.array([0.0, 1.0, 2.0, 3.0]))
        >>> round(float(place), 2), int(step)
        (1.5, 2)
    """
    change = values[..., -1:] - values[..., :1]
    with np.errstate(invalid="ignore", divide="ignore"):
        progress = (values - values[..., :1]) / change
    reached = progress >= 0.5
    step = np.where(reached.any(-1), reached.argmax(-1), values.shape[-1] - 1)
    before = np.maximum(step - 1, 0)
    there, earlier = (np.take_along_axis(progress, index[..., None], -1)[..., 0] for index in (step, before))
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(there > earlier, (0.5 - earlier) / (there - earlier), 1.0)
    place = places[before] + share.clip(0, 1) * (places[step] - places[before])
    return np.where(np.isfinite(change[..., 0]) & (change[..., 0] != 0), place, np.nan), step


def expected_place(
    values: Float[np.ndarray, "*draws step"], places: Float[np.ndarray, " step"]
) -> Float[np.ndarray, "*draws"]:
    """Where a value is gained on average: what each step gains, placed in the middle between it and the step before.

    Example:
        >>> float(expected_place(np.array([0.0, 0.5, 1.0]), np.array([0.0, 1.0, 3.0])))
        1.25
    """
    middles = (places[1:] + places[:-1]) / 2
    gains = values[..., -1] - values[..., 0]
    with np.errstate(invalid="ignore", divide="ignore"):
        place = (np.diff(values, axis=-1) @ middles) / gains
    return np.where(gains != 0, place, np.nan)


def above_reference(quantity: Quantity, values: Float[np.ndarray, "*draws step"]) -> Float[np.ndarray, "*draws step"]:
    """Values minus the untrained model's, or minus chance where that is higher; the untrained model comes first.

    Where the untrained model's is not available, as of a probe that had not converged, chance stands for it.
    """
    reference = values[..., :1]
    if quantity.ability and np.isfinite(quantity.chance):
        reference = np.fmax(reference, quantity.chance)
    return values[..., 1:] - reference


def grown(series: str, seed: str, steps: Sequence[int], training: Measured) -> list[Grown]:
    """Onset and half-way step of every quantity; the first of the steps is the untrained model's.

    That a quantity is above its reference (or, where it is no ability, differs from it) at the end is tested: numbers
    of the whole model are one family, those of layers and groups another. Where that is clear, its onset is the first
    checkpoint from which on it stays above by more than the margin. The same in every draw of texts gives the interval,
    and since nothing is known between two checkpoints, its lower end is the checkpoint before.
    """
    complete = {
        quantity: part
        for quantity, part in training.items()
        if np.isfinite(above_reference(quantity, part.value)[-1]) and quantity.analysis != SETTLING
    }
    headlines = {quantity: part for quantity, part in complete.items() if is_headline(quantity, complete)}
    others = {quantity: part for quantity, part in complete.items() if quantity not in headlines}
    complete, tests = headlines | others, _at_the_end(headlines) + _at_the_end(others)
    growths = [
        _grown((series, seed), steps, quantity, part, test)
        for (quantity, part), test in zip(complete.items(), tests, strict=True)
    ]
    for quantity, part in training.items():
        if quantity.analysis == SETTLING and np.isfinite(part.value).all():
            none = Contrast(float(part.value[-1] - part.value[0]), np.nan, np.nan, np.nan)
            growths.append(_grown((series, seed), steps, quantity, part, none, settling=True))
    return growths


def is_headline(quantity: Quantity, among: Collection[Quantity]) -> bool:
    """Whether it is a number of the whole model: not of one layer, nor of one group of items where they have a mean."""
    grouped = any(other.analysis == quantity.analysis and other.task == ALL for other in among)
    return quantity.layer is None and (not grouped or quantity.task == ALL)


def _at_the_end(training: Measured) -> list[Contrast]:
    """Quantities of a series as one family."""
    if not training:
        return []
    estimates = np.array([above_reference(quantity, part.value)[-1] for quantity, part in training.items()])
    draws = np.stack([above_reference(quantity, part.draws)[:, -1] for quantity, part in training.items()], axis=1)
    units = np.array([part.units for part in training.values()], float)
    tests: Contrasts = bootstrap_family(estimates, draws, units, widen=False)
    contrasts = [
        Contrast(estimate, low, high, p, int(count), int(needed))
        for estimate, low, high, p, count, needed in zip(*(column.tolist() for column in tests), strict=True)
    ]
    still = np.ptp(draws, axis=0) < _STILL
    return [
        alike_in_all_units(test.estimate, test.units, len(contrasts)) if same and abs(test.estimate) > _STILL else test
        for test, same in zip(contrasts, still.tolist(), strict=True)
    ]


def _grown(
    about: tuple[str, str],
    steps: Sequence[int],
    quantity: Quantity,
    part: Measurement,
    test: Contrast,
    *,
    settling: bool = False,
) -> Grown:
    trained, places = list(steps[1:]), position(steps)
    margin = quantity.margin
    # What is not available at a step (a probe that had not converged) is not above in an onset, and may be in the lower
    # end of its interval.
    known = np.isfinite(part.value)
    above = above_reference(quantity, part.value) > margin
    exists = np.isfinite(part.draws[:, known]).all(1)
    drawn = part.draws[exists]
    above_drawn = above_reference(quantity, drawn) > margin
    first, earliest = first_staying(above_drawn), first_staying(above_drawn | ~known[1:])
    reference = quantity.chance if np.isnan(part.value[0]) else part.value[0]
    used = known | (np.arange(len(steps)) == 0)
    values, value_draws = (np.where(np.isnan(some), reference, some) for some in (part.value[used], drawn[:, used]))
    place, step = halfway(values, places[used])
    half_draws, _ = halfway(value_draws, places[used])
    expected = expected_place(value_draws, places[used])
    steps_used = np.asarray(steps)[used]
    status = status_of(test.low, test.high, test.p, needed=test.needed, margin=margin)
    clear = settling or status == "clear"
    onset = low = high = half = half_low = half_high = np.nan
    reason = ""
    if not clear:
        reason = {"null": "no change", "untested": "too few units"}.get(status, "no change was shown")
    elif quantity.ability and test.estimate < 0:
        reason = "below the untrained model or chance at the end"
    elif quantity.ability:
        number = int(first_staying(above))
        if number == len(trained):
            reason = "not above by more than the margin"
        else:
            least, most = interval(earliest.astype(float))[0], interval(first.astype(float))[1]
            lowest = min(int(least), int(first_staying(above | ~known[1:])))
            highest = max(int(np.ceil(most)), number)
            onset, low = float(trained[number]), float(steps[lowest])
            high = float(trained[highest]) if highest < len(trained) else np.inf
    if clear and np.isfinite(place):
        half = float(np.exp2(place) - 1)
        ends = interval(half_draws)
        edges = np.exp2(np.array(ends)) - 1
        before, after = (float(steps_used[max(int(step) - back, 0)]) for back in (1, 0))
        half_low, half_high = min(before, float(edges[0])), max(after, float(edges[1]))
    value = (float(part.value[0]), float(part.value[-1]), quantity.chance)
    row = Onset(
        *about,
        *quantity[:4],
        "settling" if settling else "ability" if quantity.ability else "measure",
        *(onset, low, high, half, half_low, half_high),
        *value,
        *(test.estimate, test.low, test.high, test.p, part.units, test.needed, reason),
    )
    whole_first = np.full(len(part.draws), len(trained))
    whole_half, whole_expected = (np.full(len(part.draws), np.nan) for _ in range(2))
    whole_first[exists], whole_half[exists], whole_expected[exists] = first, half_draws, expected
    centre = float(expected_place(values, places[used]))
    return Grown(quantity, row, whole_first, whole_half, (centre, whole_expected))


def orders(growths: Sequence[Grown]) -> list[Order]:
    """Every pair of abilities that have an onset; those by layer alone at their best layer."""
    chosen = _one_per_task([entry for entry in growths if np.isfinite(entry.onset.onset)])
    pairs = [(a, b) if a.expected[0] <= b.expected[0] else (b, a) for a, b in combinations(chosen, 2)]
    if not pairs:
        return []
    estimates = np.array([b.expected[0] - a.expected[0] for a, b in pairs])
    draws = np.stack([b.expected[1] - a.expected[1] for a, b in pairs], axis=1)
    units = np.array([min(a.onset.units, b.onset.units) for a, b in pairs], float)
    tests = bootstrap_family(estimates, draws, units, widen=False)
    rows = []
    for number, (a, b) in enumerate(pairs):
        numbers = (float(column[number]) for column in tests)
        estimate, low, high, p, count, needed = numbers
        shares = (float((a.first < b.first).mean()), float((a.first == b.first).mean()))
        rows.append(
            Order(
                *a.onset[:2],
                *(a.quantity.analysis, a.quantity.task, b.quantity.analysis, b.quantity.task),
                *(shares[0], shares[1], float((a.first > b.first).mean())),
                *(estimate, low, high, p, int(count), int(needed)),
            )
        )
    return rows


def _one_per_task(growths: Sequence[Grown]) -> list[Grown]:
    """Of each task the number of the whole model; where it is by layer alone, of its best layer at the end."""
    best: dict[tuple[str, str], Grown] = {}
    for entry in growths:
        key = (entry.quantity.analysis, entry.quantity.task)
        before = best.get(key)
        whole = entry.quantity.layer is None
        if before is None or whole or (before.quantity.layer is not None and entry.onset.end > before.onset.end):
            best[key] = entry
    return list(best.values())


class BottomUp(NamedTuple):
    """Whether lower layers settle before upper ones."""

    first: int
    """The layer that is half-way to its end first."""
    last: int
    test: Contrast
    """Rank correlation of layers with their half-way steps; p by permuted layers, its interval from resampled texts."""


def bottom_up(growths: Sequence[Grown], *, seed: int = 0) -> BottomUp | None:
    """Rank correlation of layers and the steps at which they are half-way to what they are at the end."""
    layers = [entry for entry in growths if entry.quantity.analysis == SETTLING and np.isfinite(entry.onset.half)]
    if len(layers) < 3:
        return None
    halves = np.array([entry.onset.half for entry in layers])
    numbers = np.array([entry.quantity.layer or 0 for entry in layers])
    rng = np.random.default_rng([seed, len(layers)])
    drawn = np.stack([entry.half for entry in layers], axis=1)
    shuffled = rng.permuted(np.tile(halves, (_PERMUTATIONS, 1)), axis=1)
    estimate = float(rank_correlation(numbers, halves))
    low, high = interval(rank_correlation(np.broadcast_to(numbers, drawn.shape), drawn))
    permuted = rank_correlation(np.broadcast_to(numbers, shuffled.shape), shuffled)
    p = permutation_family(np.array([estimate]), permuted[:, None], alternative="two-sided")
    needed = _LEAST_LAYERS if len(layers) < _LEAST_LAYERS else 0
    first, last = (int(numbers[int(place)]) for place in (halves.argmin(), halves.argmax()))
    return BottomUp(first, last, Contrast(estimate, low, high, float(p[0]), len(layers), needed))
