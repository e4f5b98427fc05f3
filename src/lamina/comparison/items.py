"""What several models said about the same items (minimal pairs, clozes), compared item by item."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from lamina.comparison.tables import ModelResults, results_by_model
from lamina.errors import InputError
from lamina.framework.declare import ComparedItems
from lamina.results import Result
from lamina.stats.bootstrap import ratio_draws
from lamina.stats.family import Contrasts, sign_flip_strata
from lamina.stats.intervals import interval, share_interval, widening
from lamina.stats.units import Units

ALL = "all"
"""In place of a group: the mean over groups."""
ITEMS = ("item", "group", "value")
"""The columns that every table of items begins with."""


class GroupMean(NamedTuple):
    """The mean of one model over the items of a group, with its 95 % interval over items."""

    group: str
    items: int
    model: str
    value: float
    low: float
    high: float


class GroupDifference(NamedTuple):
    """How far two models are apart on the items of a group: a - b, paired by item."""

    group: str
    items: int
    a: str
    b: str
    difference: float
    low: float
    """95 %, simultaneous over the family that `p_adjusted` is corrected for."""
    high: float
    p_adjusted: float
    """Two-sided, by flipped signs (a and b exchanged, item by item) and max-T over all groups and pairs of models; of
    the mean over groups, over pairs of models."""
    units: int
    """Items."""
    needed: int
    """0, or how many items a test would need at least."""


@dataclass(frozen=True, eq=False)
class SharedItems:
    """What models said about the items that all of them were asked."""

    models: tuple[str, ...]
    table: pd.DataFrame
    """`group`, `item`, and one column per model: its number."""
    left_out: Mapping[str, int]

    @property
    def metric(self) -> str:
        """accuracy where items are right (1), wrong (0) or tied, otherwise mean."""
        return "accuracy" if np.isin(self._values(self.table), (0.0, 0.5, 1.0)).all() else "mean"

    def groups(self) -> Iterator[tuple[str, pd.DataFrame]]:
        """The items by group, in the order of the first model's result."""
        return ((str(name), own) for name, own in self.table.groupby("group", sort=False))

    def _values(self, rows: pd.DataFrame) -> Float[np.ndarray, "item model"]:
        return rows[list(range(len(self.models)))].to_numpy(float)

    def compare(self, *, samples: int, seed: int) -> tuple[list[GroupMean], list[GroupDifference]]:
        """Every model and every pair of models, over all groups and by group."""
        # Items of two groups may have one name.
        groups = [(name, [f"{name}\t{item}" for item in own["item"]], self._values(own)) for name, own in self.groups()]
        means = [_means(*each, samples=samples, seed=seed) for each in groups]
        if len(means) > 1:
            means = [_overall(means), *means]
        shares = self.metric == "accuracy"
        estimates = [row for each in means for row in each.estimates(self.models, shares=shares)]
        return estimates, differences([name for name, *_ in groups], [values for *_, values in groups], self.models)

    def long(self) -> pd.DataFrame:
        """One row per item and model."""
        named = dict(enumerate(self.models))
        made = self.table.melt(["item", "group"], list(named), "model", "value")
        return made.assign(model=made["model"].map(named))[["item", "group", "model", "value"]]


def differences(
    groups: Sequence[str], values: Sequence[Float[np.ndarray, "_ model"]], models: Sequence[str]
) -> list[GroupDifference]:
    """Every pair of models over all groups (where there are several) and by group, paired by item.

    Two families: groups by pairs of models, and the means over groups of all pairs. Where two models differ by the same
    on every item, the interval is Clopper and Pearson's: how many other items may differ is a share.

    Example:
        >>> one, other = [1.0] * 8 + [0.0] * 2, [0.0] * 10
        >>> (row,) = differences(["agreement"], [np.array([one, other]).T], ["a", "b"])
        >>> row.difference, round(row.p_adjusted, 3)
        (0.8, 0.008)
    """
    scored = np.concatenate([each.ravel() for each in values])
    shares = bool(np.isin(scored, (0.0, 0.5, 1.0)).all())
    bounds = (-1.0, 1.0) if shares else (-np.inf, np.inf)
    pairs = list(combinations(models, 2))
    left, right = (list(side) for side in zip(*combinations(range(len(models)), 2), strict=True))
    apart = [each[:, left] - each[:, right] for each in values]
    within, overall = sign_flip_strata(apart, bounds=bounds)
    rows: list[GroupDifference] = []
    if len(groups) > 1:
        rows += (_row(ALL, sum(map(len, apart)), pair, overall, (at,)) for at, pair in enumerate(pairs))
    for number, (group, own) in enumerate(zip(groups, apart, strict=True)):
        for at, pair in enumerate(pairs):
            row = _row(group, len(own), pair, within, (number, at))
            if shares and np.ptp(own[:, at]) == 0:
                low, high = _share_apart(row.difference, len(own))
                row = row._replace(low=low, high=high)
            rows.append(row)
    return rows


def _row(group: str, items: int, pair: tuple[str, str], tests: Contrasts, at: tuple[int, ...]) -> GroupDifference:
    estimate, low, high, p, units, needed = (float(each[at]) for each in tests)
    return GroupDifference(group, items, *pair, estimate, low, high, p, int(units), int(needed))


def _share_apart(difference: float, items: int) -> tuple[float, float]:
    """The interval of a difference that is the same on every item.

    Example:
        >>> [round(end, 2) for end in _share_apart(0.0, 20)], [round(end, 2) for end in _share_apart(-1.0, 20)]
        ([-0.17, 0.17], [-1.0, -0.83])
    """
    if abs(difference) not in (0.0, 1.0):
        return difference, difference
    low, high = share_interval(round(abs(difference)) * items, items)
    if difference == 0:
        return -high, high
    return (low, high) if difference > 0 else (-high, -low)


@dataclass(frozen=True, eq=False)
class GroupDraws:
    """The means of all models over the items of one group, and the same of resampled items."""

    group: str
    items: int
    value: Float[np.ndarray, " model"]
    draws: Float[np.ndarray, "sample model"]

    def estimates(self, models: Sequence[str], *, shares: bool) -> Iterator[GroupMean]:
        """With a 95 % interval each."""
        for at, model in enumerate(models):
            value, (low, high) = float(self.value[at]), interval(self.draws[:, at])
            if shares:
                low, high = max(low, 0.0), min(high, 1.0)
            if shares and low == high and value in (0, 1):
                # Where all items came out alike, drawing them again shows no spread.
                low, high = share_interval(round(value) * self.items, self.items)
            yield GroupMean(self.group, self.items, model, value, low, high)


def _means(
    group: str, items: Sequence[str], values: Float[np.ndarray, "item model"], *, samples: int, seed: int
) -> GroupDraws:
    units = Units.of(items, "item")
    mean, counts = values.mean(0), units.sums(np.ones(len(items)))
    drawn = ratio_draws(units.sums(values), counts, units, samples=samples, seed=seed)
    return GroupDraws(group, len(items), mean, mean + (drawn - mean) * widening(len(units)))


def _overall(groups: Sequence[GroupDraws]) -> GroupDraws:
    """The mean over groups: every group counts as much as any other."""
    drawn = np.stack([each.draws for each in groups])
    # A group of which a draw has no item does not count in that draw.
    present = np.isfinite(drawn)
    draws = np.where(present, drawn, 0).sum(0) / np.maximum(present.sum(0), 1)
    return GroupDraws(ALL, sum(each.items for each in groups), np.mean([each.value for each in groups], axis=0), draws)


def models_with_items(results: Sequence[Result]) -> list[ModelResults]:
    """The results by model; an InputError where a model has two results on the same items."""
    models = results_by_model(results)
    for model in models:
        suites = [str(result.provenance.corpus.get("fingerprint", "")) for result in model.results]
        if len({*suites}) < len(suites):
            about = model.results[0].provenance
            raise InputError(
                f"{about.model.get('name')} was asked {about.corpus.get('name')} twice; name one of these results when "
                "several models are compared"
            )
    return models


def shared_items(models: Sequence[ModelResults], declared: ComparedItems) -> SharedItems:
    """The items that all models were asked and answered; those of some models alone are counted."""
    several = len(models[0].results) > 1
    tables = [_items(model, declared, several=several) for model in models]
    joined = pd.concat(tables, axis="columns", join="outer", sort=False, keys=range(len(models)))
    # In the order of the first model.
    order = [*tables[0].index, *joined.index.difference(tables[0].index)]
    joined = joined.loc[order]
    whole = joined.dropna().reset_index()
    if whole.empty:
        names = " and ".join(
            f"{model.name} on {model.results[0].provenance.corpus.get('name', '?')}" for model in models
        )
        analysis = models[0].results[0].analysis
        raise InputError(f"{names} have no item in common; run `lamina {analysis}` of all models on the same --suite")
    lost = {
        f"items of {model.name} that not all models answered": int(table.notna().sum() - len(whole))
        for model, table in zip(models, tables, strict=True)
    }
    left_out = {reason: count for reason, count in lost.items() if count}
    return SharedItems(tuple(model.name for model in models), whole, left_out)


def _items(model: ModelResults, declared: ComparedItems, *, several: bool) -> pd.Series:
    """[group, item] -> value, of all results of a model."""
    group_column, item_column = declared.keys
    parts = []
    for result in model.results:
        suite = result.provenance.corpus.get("name", "")
        table = result.tables.get(declared.table)
        if table is None or not {*declared.keys, declared.value} <= {*table.columns}:
            raise InputError(f"{model.name} on {suite}: the result has no items; make it again with this version")
        values = pd.to_numeric(table[declared.value], errors="coerce").astype(float)
        groups = table[group_column].map(lambda group, suite=suite: f"{group} ({suite})" if several else str(group))
        items = [groups, table[item_column].map(str)]
        series = pd.Series(values.to_numpy(), index=pd.MultiIndex.from_arrays(items, names=["group", "item"]))
        if series.index.has_duplicates:
            group, item = series.index[series.index.duplicated()][0]
            raise InputError(
                f"{model.name} on {suite}: the item {item!r} of {group} occurs twice; make the result again"
            )
        parts.append(series)
    return pd.concat(parts)
