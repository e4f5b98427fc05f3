"""Outcomes of cloze items, and their means: shares with intervals that resample items, compared with baselines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from lamina.stats.family import Contrasts, chance_family, drawn_contrast, sign_flip_family
from lamina.stats.intervals import interval, share_interval
from lamina.stats.units import weights_of

ALL = "all"
"""In place of a part: the mean over parts."""
ONE_PIECE = "one_piece"
"""Added to a measure that is of items whose words are one token each."""
NAMED, UNNAMED = "_named", "_unnamed"
"""Added to a measure that is of facts whose object is in the subject's name, or of all others."""
TWIN, CHANCE, MOST_FREQUENT = "twin", "chance", "most_frequent"
BESIDE = (TWIN, MOST_FREQUENT)
"""Baselines that are scored item by item."""
CLOZE = ("suite", "part", "measure", "value", "low", "high", "n")
TEST = ("difference", "diff_low", "diff_high", "p_adjusted", "units", "needed")
BASELINES = ("suite", "part", "measure", "baseline", "value", "low", "high", *TEST, "n")
CONTRASTS = ("part", "contrast", *TEST)
PREFERRED = "sensitivity"
"""Prefix of measures that are tested against chance as one family."""
ITEMS = ("item", "group", "value", "measure", "one_piece", "twin", "most_frequent")
SCORES = ("part", "id", "measure", "value", "one_piece", "twin", "most_frequent")
ANSWERS = ("item", "part", "text", "answer", "pieces", "rank", "probability", "top")
PARTS = ("part", "name", "items", "texts", "one_piece", "several_pieces")
TOP_WORDS = 5
"""Most likely tokens in the table of answers."""


class ClozeOutcome(NamedTuple):
    """How one item came out by one measure."""

    part: str
    id: str
    """Within its part."""
    measure: str
    value: float
    one_piece: bool | None
    """Whether every word that it depends on is one token of the vocabulary; None where no difference is made."""
    chance: float = math.nan
    """What drawing at random would give on average; NaN where that is not defined."""
    unit: str = ""
    """What is resampled with it, where that is not the item alone."""
    within: str = ""
    """The subset of the part that it belongs to, such as high; empty for none."""
    group: str = ""
    """Among which items it is averaged when models are compared; empty where the measure is not the item's main one."""

    @property
    def key(self) -> tuple[str, str, str]:
        """Equal for the same item and measure whatever the model."""
        return self.part, self.id, self.measure


class AnswerRow(NamedTuple):
    """Predictions of a model in one gap."""

    item: str
    part: str
    text: str
    answer: str
    pieces: int
    rank: int
    """Of the answer among the tokens of the vocabulary."""
    probability: float
    top: str
    """The most likely tokens, best first."""


@dataclass
class ClozeOutcomes:
    """Outcomes of a suite before averaging."""

    scores: list[ClozeOutcome] = field(default_factory=list)
    answers: list[AnswerRow] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)


class ClozeEstimate(NamedTuple):
    """A mean over items, and the same mean over resampled items; estimates of the same items are paired by draw."""

    value: float
    draws: Float[np.ndarray, " sample"]
    n: int
    exact: tuple[float, float] | None = None
    """The exact interval where all items have the same value, which resampling cannot estimate."""
    units: int = 0
    """How many are resampled."""

    @property
    def interval(self) -> tuple[float, float]:
        """95 %."""
        if self.exact is not None:
            return self.exact
        return interval(self.draws) if self.n > 1 else (math.nan, math.nan)


def estimate(
    values: Iterable[float], units: Iterable[str], *, samples: int, seed: int, certain: bool = False
) -> ClozeEstimate:
    """The mean over items; units are drawn with replacement, by their name.

    Where all items came out alike, the interval is that of Clopper and Pearson, over units; or none, where the values
    are `certain`, as chance is.

    Example:
        >>> found = estimate([1.0] * 18, map(str, range(18)), samples=100, seed=0)
        >>> found.value, [round(each, 3) for each in found.interval]
        (1.0, [0.815, 1.0])
    """
    sums: dict[str, list[float]] = {}
    for value, unit in zip(values, units, strict=True):
        if np.isfinite(value):
            sums.setdefault(unit, []).append(value)
    every = [value for of_unit in sums.values() for value in of_unit]
    if not every:
        return ClozeEstimate(float("nan"), np.full(samples, np.nan), 0)
    totals, counts = (np.array([make(of_unit) for of_unit in sums.values()], float) for make in (sum, len))
    drawn = np.array([weights_of(unit, samples=samples, seed=seed) for unit in sums]).reshape(len(sums), samples)
    weighed = counts @ drawn
    draws = np.divide(totals @ drawn, weighed, out=np.full(samples, np.nan), where=weighed > 0)
    return ClozeEstimate(
        float(totals.sum() / counts.sum()),
        draws,
        len(every),
        None if certain else _exact(every, len(sums)),
        len(sums),
    )


def mean_of(parts: Sequence[ClozeEstimate]) -> ClozeEstimate:
    """The mean over parts, each counting the same."""
    known = [part for part in parts if part.n]
    if not known:
        return ClozeEstimate(float("nan"), np.zeros(0), 0)
    draws = np.array([part.draws for part in known])
    # A part of which a sample has no item does not count in that sample.
    there = np.isfinite(draws)
    drawn = np.where(there, draws, 0).sum(0) / there.sum(0).clip(1)
    value = float(np.mean([part.value for part in known]))
    count = sum(part.n for part in known)
    # Where each part came out alike, resampling shows no spread in their mean either.
    alike = 0 <= value <= 1 and all(part.exact is not None for part in known)
    exact = share_interval(round(value * count), count) if alike else None
    return ClozeEstimate(value, drawn, count, exact, sum(part.units for part in known))


def _exact(values: Sequence[float], units: int) -> tuple[float, float] | None:
    """The exact interval of a share that is the same for all items, so that resampling would show no spread."""
    alike = set(values)
    if len(alike) > 1 or not 0 <= (share := alike.pop()) <= 1:
        return None
    return share_interval(round(share * units), units)


ClozeEstimates = dict[tuple[str, str], ClozeEstimate]
"""Part and measure -> what it came to."""


def estimates(outcomes: Iterable[ClozeOutcome], *, samples: int, seed: int, certain: bool = False) -> ClozeEstimates:
    """Every measure of every part: of all items, of its subsets (`part/high`), and of items of one token."""
    return {
        key: estimate(
            (outcome.value for outcome in members),
            (f"{outcome.part}/{outcome.unit or outcome.id}" for outcome in members),
            samples=samples,
            seed=seed,
            certain=certain,
        )
        for key, members in _grouped(outcomes).items()
    }


def _grouped(outcomes: Iterable[ClozeOutcome]) -> dict[tuple[str, str], list[ClozeOutcome]]:
    grouped: dict[tuple[str, str], list[ClozeOutcome]] = {}
    for outcome in outcomes:
        measures = [outcome.measure, f"{outcome.measure}_{ONE_PIECE}"] if outcome.one_piece else [outcome.measure]
        parts = [outcome.part, f"{outcome.part}/{outcome.within}"] if outcome.within else [outcome.part]
        for part in parts:
            for measure in measures if part == outcome.part else measures[:1]:
                grouped.setdefault((part, measure), []).append(outcome)
    return grouped


def with_mean(means: ClozeEstimates) -> ClozeEstimates:
    """The same with the mean over parts of every measure, in front."""
    measures = dict.fromkeys(measure for _, measure in means)
    overall = {
        (ALL, measure): mean_of([mean for (_, name), mean in means.items() if name == measure]) for measure in measures
    }
    return overall | means


def cloze_table(suite: str, means: ClozeEstimates) -> pd.DataFrame:
    """The table `cloze`."""
    rows = [(suite, *key, mean.value, *mean.interval, mean.n) for key, mean in means.items()]
    return pd.DataFrame(rows, columns=list(CLOZE))


def baseline_table(
    suite: str,
    outcomes: Sequence[ClozeOutcome],
    baselines: Mapping[str, Sequence[ClozeOutcome]],
    summarise: Summarise,
    seed: int,
) -> pd.DataFrame:
    """The table `baselines`: every measure and baseline on the items that both scored, paired."""
    rows: list[tuple[object, ...]] = []
    for name, others in baselines.items():
        ours, other = shared(outcomes, others)
        means = summarise(other, name == CHANCE)
        tests = beside_baseline(ours, other, list(means), by_chance=name == CHANCE, seed=seed)
        for key, against in means.items():
            rows.append((suite, *key, name, against.value, *against.interval, *tests[key], against.n))
    return pd.DataFrame(rows, columns=list(BASELINES))


Key = tuple[str, str]
"""Part and measure."""


def beside_baseline(
    outcomes: Sequence[ClozeOutcome], other: Sequence[ClozeOutcome], keys: Sequence[Key], *, by_chance: bool, seed: int
) -> dict[Key, tuple[float, ...]]:
    """Part and measure -> the difference from a baseline on the same items, as `TEST` names it.

    A family is a measure (all that begin with `PREFERRED`: one) over all parts, their subsets, or their mean. Items
    that are right or wrong are tested against what chance gives; otherwise signs are flipped, unit by unit.
    """
    groups = _grouped(outcomes)
    beside = {outcome.key: outcome.value for outcome in other}
    families: dict[tuple[str, str], list[Key]] = {}
    for key in keys:
        level = ALL if key[0] == ALL else "subset" if "/" in key[0] else "part"
        one_piece = key[1].endswith(ONE_PIECE)
        measure = f"{PREFERRED} {one_piece}" if key[1].startswith(PREFERRED) else key[1]
        families.setdefault((measure, level), []).append(key)
    tests_by_key: dict[Key, tuple[float, ...]] = {}
    for members in families.values():
        parts = [_strata(groups, key) for key in members]
        known = by_chance and all(_is_share(part) for strata in parts for part in strata)
        tests = _beside_chance(parts, beside, seed) if known else _beside_items(parts, beside, seed)
        columns = [np.ravel(values).tolist() for values in tests]
        tests_by_key |= {key: tuple(column[number] for column in columns) for number, key in enumerate(members)}
    return tests_by_key


def _strata(groups: Mapping[Key, list[ClozeOutcome]], key: Key) -> list[list[ClozeOutcome]]:
    """The outcomes of a part; of the mean over parts, those of every part."""
    if key[0] != ALL:
        return [groups[key]]
    return [stratum for (part, measure), stratum in groups.items() if measure == key[1] and "/" not in part]


def _is_share(part: Sequence[ClozeOutcome]) -> bool:
    """Whether items are right, wrong or half right, and each varies by itself."""
    return {outcome.value for outcome in part} <= {0.0, 0.5, 1.0} and len(
        {outcome.unit or outcome.id for outcome in part}
    ) == len(part)


def _beside_chance(
    members: Sequence[Sequence[Sequence[ClozeOutcome]]], chance: Mapping[tuple[str, str, str], float], seed: int
) -> Contrasts:
    """Members (strata of items) against chance; items that are half right are left out."""
    strata = [part for member in members for part in member]
    right = np.array([sum(outcome.value == 1 for outcome in part) for part in strata])
    counts = np.array([sum(outcome.value in (0, 1) for outcome in part) for part in strata])
    chances = np.array([np.mean([chance[outcome.key] for outcome in part]) for part in strata])
    ends = np.cumsum([0, *(len(member) for member in members)]).tolist()
    return chance_family(right, counts, chances, [range(*pair) for pair in pairwise(ends)], seed=seed)


def _beside_items(
    members: Sequence[Sequence[Sequence[ClozeOutcome]]], beside: Mapping[tuple[str, str, str], float], seed: int
) -> Contrasts:
    """Paired differences; of means over parts, an item counts one over the number of its part's items."""
    units = sorted(
        {f"{outcome.part}/{outcome.unit or outcome.id}" for member in members for part in member for outcome in part}
    )
    number = {name: number for number, name in enumerate(units)}
    ahead, shares = np.zeros((2, len(units), len(members)))
    for column, member in enumerate(members):
        for part in member:
            share = 1 / len(part) / len(member)
            for outcome in part:
                row = number[f"{outcome.part}/{outcome.unit or outcome.id}"]
                ahead[row, column] += share * (outcome.value - beside[outcome.key])
                shares[row, column] += share
    return sign_flip_family(ahead, shares, seed=seed)


def contrast_table(
    outcomes: Sequence[ClozeOutcome], means: ClozeEstimates, correlations: Iterable[str], seed: int
) -> pd.DataFrame:
    """The table `contrasts`.

    Negative beside affirmative contexts, words of one token beside others, facts with and
    without those whose object is in the subject's name, correlations.
    """
    rows = [(part, NEGATION, *test) for part, test in _negated(outcomes, seed).items()]
    for (part, measure), one in means.items():
        stem = measure.removesuffix(f"_{ONE_PIECE}")
        several = means.get((part, f"{stem}_several_pieces"))
        if stem != measure and several is not None and (part == ALL or (ALL, measure) not in means):
            test = drawn_contrast(one.value - several.value, one.draws - several.draws, min(one.units, several.units))
            rows.append((part, PIECES, *test))
        others = means.get((part, f"{measure}{UNNAMED}"))
        named = means.get((part, f"{measure}{NAMED}"))
        if named is not None and others is not None and (part == ALL or (ALL, measure) not in means):
            test = drawn_contrast(one.value - others.value, one.draws - others.draws, min(one.units, others.units))
            rows.append((part, GIVEN_AWAY, *test))
    for measure in correlations:
        by_part = [(part, item) for (part, name), item in means.items() if name == measure]
        whole = [pair for pair in by_part if pair[0] == ALL] or by_part[:1]
        for part, mean in whole:
            rows.append((part, measure, *drawn_contrast(mean.value, mean.draws, mean.units)))
    return pd.DataFrame(rows, columns=list(CONTRASTS))


NEGATION, PIECES = "negative minus affirmative", "one token minus several"
GIVEN_AWAY = "all facts minus those whose object is not in the subject's name"
"""Contrasts of diagnostics and of facts."""


def _negated(outcomes: Sequence[ClozeOutcome], seed: int) -> dict[str, tuple[float, ...]]:
    """Part -> how much more often the true word is the likelier one in negative contexts; all parts are one family."""
    values: dict[str, dict[str, dict[str, float]]] = {}
    for outcome in outcomes:
        if outcome.measure in (f"{PREFERRED}_negative", f"{PREFERRED}_affirmative"):
            values.setdefault(outcome.part, {}).setdefault(outcome.id, {})[outcome.measure] = outcome.value
    if not values:
        return {}
    units = [(part, id) for part, items in values.items() for id in items]
    ahead, counts = np.zeros((2, len(units), len(values)))
    for row, (part, id) in enumerate(units):
        scores, column = values[part][id], list(values).index(part)
        ahead[row, column] = scores[f"{PREFERRED}_negative"] - scores[f"{PREFERRED}_affirmative"]
        counts[row, column] = 1
    tests = [np.ravel(column).tolist() for column in sign_flip_family(ahead, counts, seed=seed, bounds=(-1.0, 1.0))]
    return {part: tuple(column[number] for column in tests) for number, part in enumerate(values)}


Summarise = Callable[[Sequence[ClozeOutcome], bool], ClozeEstimates]
"""Outcomes, and whether they are certain -> their means, by part and measure."""


def shared(
    outcomes: Iterable[ClozeOutcome], others: Iterable[ClozeOutcome]
) -> tuple[list[ClozeOutcome], list[ClozeOutcome]]:
    """The outcomes of the same items and measures, in the same order."""
    by_key = {outcome.key: outcome for outcome in others}
    ours = [outcome for outcome in outcomes if outcome.key in by_key]
    return ours, [by_key[outcome.key]._replace(one_piece=outcome.one_piece) for outcome in ours]


def by_chance(outcomes: Iterable[ClozeOutcome]) -> list[ClozeOutcome]:
    """What drawing at random would give, where that is defined."""
    return [outcome._replace(value=outcome.chance) for outcome in outcomes if not math.isnan(outcome.chance)]


def score_table(outcomes: Iterable[ClozeOutcome], beside: Mapping[str, Iterable[ClozeOutcome]]) -> pd.DataFrame:
    """The table `scores`; baselines that are not there are missing."""
    others = {name: {outcome.key: outcome.value for outcome in of_baseline} for name, of_baseline in beside.items()}
    rows = [
        (
            *outcome.key,
            float(outcome.value),
            outcome.one_piece,
            *(others.get(name, {}).get(outcome.key, np.nan) for name in BESIDE),
        )
        for outcome in outcomes
    ]
    return pd.DataFrame(rows, columns=list(SCORES))


def item_table(outcomes: Iterable[ClozeOutcome], scores: pd.DataFrame) -> pd.DataFrame:
    """The table `items`: of every item the measure that models are compared by."""
    main = [(row, outcome) for row, outcome in enumerate(outcomes) if outcome.group]
    of_main = scores.iloc[[row for row, _ in main]].drop(columns=["part", "id"])
    names = {
        "item": [f"{outcome.group}/{outcome.id}" for _, outcome in main],
        "group": [outcome.group for _, outcome in main],
    }
    return pd.DataFrame({**names, **{column: of_main[column].to_numpy() for column in of_main}})[list(ITEMS)]
