"""What several models said about the same items (minimal pairs, clozes), compared item by item."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from lamina.errors import InputError
from lamina.results import Result
from lamina.stats.bootstrap import ratio_draws
from lamina.stats.family import Contrasts, sign_flip_strata
from lamina.stats.intervals import interval, share_interval, widening
from lamina.stats.units import Units

ALL = "all"
"""In place of a group: the mean over groups."""
ITEMS = ("item", "group", "value")
"""The columns that every table of items begins with."""
_HARMLESS = frozenset({"samples", "seed", "twin", "twin_limit", "ngrams", "order", "limit", "only"})
"""Settings that do not change what a model says about an item."""


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


def has_items(result: Result) -> bool:
    """Whether a result has a table of items that can be paired with another's."""
    table = result.tables.get("items")
    return table is not None and {*ITEMS} <= {*table.columns}


@dataclass(frozen=True, eq=False)
class ItemResults:
    """One model with all its results, one per suite."""

    name: str
    results: tuple[Result, ...]

    def describe(self) -> dict[str, Any]:
        """What provenance says of it."""
        about = [each.provenance for each in self.results]
        return {
            "name": self.name,
            "model": dict(about[0].model),
            "keys": [each.key for each in self.results],
            "suites": [each.corpus.get("name", "") for each in about],
            "parameters": [dict(each.parameters) for each in about],
        }


def models_with_items(results: Sequence[Result]) -> list[ItemResults]:
    """The results by model, in the order given; results of one model alone are compared with each other.

    Results of different analyses are refused: a right cloze is not a right pair.
    """
    kinds = list(dict.fromkeys(each.analysis for each in results))
    if len(kinds) > 1:
        raise InputError(
            f"results of {' and '.join(kinds)} cannot be compared with each other; name results of one of them"
        )
    if len(results) < 2:
        raise InputError(f"a comparison needs two results; name another folder that `lamina {kinds[0]}` wrote")
    by_model: dict[str, list[Result]] = {}
    for result in results:
        by_model.setdefault(str(result.provenance.model.get("fingerprint", "")), []).append(result)
    models = list(by_model.values()) if len(by_model) > 1 else [[each] for each in results]
    for own in models:
        suites = [str(each.provenance.corpus.get("fingerprint", "")) for each in own]
        if len({*suites}) < len(suites):
            name, suite = own[0].provenance.model.get("name"), own[0].provenance.corpus.get("name")
            raise InputError(
                f"{name} was asked {suite} twice; name one of these results when several models are compared"
            )
    names = [str(own[0].provenance.model.get("name", "")) for own in models]
    shown = [f"{name} ({at})" if names.count(name) > 1 else name for at, name in enumerate(names, start=1)]
    return [ItemResults(name, tuple(own)) for name, own in zip(shown, models, strict=True)]


def shared_items(models: Sequence[ItemResults]) -> SharedItems:
    """The items that all models were asked and answered; those of some models alone are counted."""
    tables = [_items(each, several=len(models[0].results) > 1) for each in models]
    joined = pd.concat(tables, axis="columns", join="outer", sort=False, keys=range(len(models)))
    # In the order of the first model, whatever the others have.
    order = [*tables[0].index, *joined.index.difference(tables[0].index)]
    joined = joined.loc[order]
    whole = joined.dropna().reset_index()
    if whole.empty:
        said = " and ".join(f"{each.name} on {each.results[0].provenance.corpus.get('name', '?')}" for each in models)
        kind = models[0].results[0].analysis
        raise InputError(f"{said} have no item in common; run `lamina {kind}` of all models on the same --suite")
    lost = {
        f"items of {each.name} that not all models answered": own.notna().sum() - len(whole)
        for each, own in zip(models, tables, strict=True)
    }
    kept = {why: int(count) for why, count in lost.items() if count}
    return SharedItems(tuple(each.name for each in models), whole, kept)


def _items(model: ItemResults, *, several: bool) -> pd.Series:
    """[group, item] -> value, of all results of a model."""
    parts = []
    for result in model.results:
        suite = result.provenance.corpus.get("name", "")
        named = f"{model.name} on {suite}"
        table = result.tables["items"]
        values = pd.to_numeric(table["value"], errors="coerce").astype(float)
        groups = table["group"].map(lambda group, suite=suite: f"{group} ({suite})" if several else str(group))
        own = pd.Series(
            values.to_numpy(),
            index=pd.MultiIndex.from_arrays([groups, table["item"].map(str)], names=["group", "item"]),
        )
        if own.index.has_duplicates:
            group, item = own.index[own.index.duplicated()][0]
            raise InputError(f"{named}: the item {item!r} of {group} is there twice; make the result again")
        parts.append(own)
    return pd.concat(parts)


def unlike_settings(models: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings in which models (`Asked.describe`) were asked differently, with what each model has.

    Example:
        >>> asked = [("a", "word"), ("b", "piece")]
        >>> unlike_settings([{"name": name, "parameters": [{"masking": masking}]} for name, masking in asked])
        ['masking: a word, b piece']
    """
    found: dict[str, dict[str, str]] = {}
    for model in models:
        for name in sorted({name for each in model["parameters"] for name in each} - _HARMLESS):
            values = dict.fromkeys(str(each.get(name)) for each in model["parameters"])
            found.setdefault(name, {})[model["name"]] = " and ".join(values)
    unlike = {name: said for name, said in found.items() if len({*said.values()}) > 1}
    return [
        f"{name}: {', '.join(f'{model} {value}' for model, value in said.items())}" for name, said in unlike.items()
    ]
