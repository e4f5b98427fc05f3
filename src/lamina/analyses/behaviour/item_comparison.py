"""What several models said about the same items (minimal pairs, clozes), compared item by item."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.stats import binom

from lamina.analyses.behaviour.accuracies import exact_interval
from lamina.analyses.probing.statistics import interval
from lamina.errors import InputError
from lamina.results import Result
from lamina.stats.family import holm
from lamina.stats.units import weights_of

ALL = "all"
"""In place of a group: the mean over groups."""
ITEMS = ("item", "group", "value")
"""The columns that every table of items begins with."""
_HARMLESS = frozenset({"samples", "seed", "twin", "twin_limit", "ngrams", "order", "limit", "only"})
"""Settings that do not change what a model says about an item."""


class Estimate(NamedTuple):
    """The mean of one model over the items of a group, with its 95 % interval."""

    group: str
    items: int
    model: str
    value: float
    low: float
    high: float


class Apart(NamedTuple):
    """How far two models are apart on the items of a group: a - b, paired by item."""

    group: str
    items: int
    a: str
    b: str
    difference: float
    low: float
    """95 %, from items drawn with replacement within their group, the same for both models."""
    high: float
    p: float
    """Two-sided: the share of flipped signs (a and b exchanged, item by item) that are as far apart."""
    p_adjusted: float
    """Corrected by Holm over all groups and pairs of models; of the mean over groups, over pairs of models."""


@dataclass(frozen=True, eq=False)
class Answers:
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

    def compare(self, *, samples: int, seed: int) -> tuple[list[Estimate], list[Apart]]:
        """Every model and every pair of models, by group and over all groups."""
        drawn = [self._drawn(name, own, samples=samples, seed=seed) for name, own in self.groups()]
        if len(drawn) > 1:
            drawn = [_overall(drawn), *drawn]
        shares = self.metric == "accuracy"
        estimates = [row for each in drawn for row in each.estimates(self.models, shares=shares)]
        apart = [row for each in drawn for row in each.pairs(self.models, samples, shares=shares)]
        return estimates, _corrected(apart)

    def long(self) -> pd.DataFrame:
        """One row per item and model."""
        named = dict(enumerate(self.models))
        made = self.table.melt(["item", "group"], list(named), "model", "value")
        return made.assign(model=made["model"].map(named))[["item", "group", "model", "value"]]

    def _drawn(self, group: str, own: pd.DataFrame, *, samples: int, seed: int) -> _Drawn:
        values = self._values(own)
        keys = list(own["item"])
        weights = np.stack([weights_of(key, samples=samples, seed=seed) for key in keys], axis=1)
        counts = weights.sum(1, keepdims=True)
        with np.errstate(invalid="ignore"):
            draws = weights @ values / counts
        signs = np.stack([_signs(key, samples=samples, seed=seed) for key in keys], axis=1)
        apart = _differences(values)
        exact = _exact_p(apart) if np.isin(values, (0.0, 1.0)).all() else None
        return _Drawn(group, len(own), values.mean(0), draws, apart.mean(0), signs @ apart / len(own), exact)


@dataclass(frozen=True, eq=False)
class _Drawn:
    """The means of all models over the items of one group, and what chance makes of them."""

    group: str
    items: int
    value: Float[np.ndarray, " model"]
    draws: Float[np.ndarray, "sample model"]
    apart: Float[np.ndarray, " pair"]
    flipped: Float[np.ndarray, "sample pair"]
    """The differences with flipped signs."""
    exact: Float[np.ndarray, " pair"] | None
    """p-values of right and wrong answers, which need no drawing of signs."""

    def estimates(self, models: Sequence[str], *, shares: bool) -> Iterator[Estimate]:
        for at, model in enumerate(models):
            value, (low, high) = float(self.value[at]), interval(self.draws[:, at])
            if shares and low == high and value in (0, 1):
                # Where all items came out alike, drawing them again shows no spread.
                low, high = exact_interval(round(value) * self.items, self.items)
            yield Estimate(self.group, self.items, model, value, low, high)

    def pairs(self, models: Sequence[str], samples: int, *, shares: bool) -> Iterator[Apart]:
        draws = _differences(self.draws)
        for at, (a, b) in enumerate(combinations(models, 2)):
            far = abs(self.apart[at])
            # Sums of the same numbers in another order may differ in their last digit.
            reached = int((np.abs(self.flipped[:, at]) >= far - 1e-9 * max(far, 1.0)).sum())
            p = float(self.exact[at]) if self.exact is not None else (reached + 1) / (samples + 1)
            apart, (low, high) = float(self.apart[at]), interval(draws[:, at])
            if shares and low == high:
                low, high = _exact_apart(apart, self.items)
            yield Apart(self.group, self.items, a, b, apart, low, high, p, np.nan)


def _overall(groups: Sequence[_Drawn]) -> _Drawn:
    """The mean over groups: every group counts as much as any other."""
    total = sum(each.items for each in groups)
    # A group of which a draw has no item does not count in that draw.
    drawn = np.stack([each.draws for each in groups])
    there = np.isfinite(drawn)
    with np.errstate(invalid="ignore"):
        draws = np.where(there, drawn, 0).sum(0) / there.sum(0)
    value, apart, flipped = (
        np.mean([getattr(each, name) for each in groups], axis=0) for name in ("value", "apart", "flipped")
    )
    return _Drawn(ALL, total, value, draws, apart, flipped, None)


def _differences(values: Float[np.ndarray, "row model"]) -> Float[np.ndarray, "row pair"]:
    """a - b of every pair of columns."""
    pairs = list(combinations(range(values.shape[1]), 2))
    return values[:, [a for a, _ in pairs]] - values[:, [b for _, b in pairs]]


def _exact_apart(apart: float, items: int) -> tuple[float, float]:
    """The interval of a difference that is the same on every item: how many others may differ is a share.

    Example:
        >>> [round(end, 2) for end in _exact_apart(0.0, 20)], [round(end, 2) for end in _exact_apart(-1.0, 20)]
        ([-0.17, 0.17], [-1.0, -0.83])
    """
    if apart == 0:
        _, most = exact_interval(0, items)
        return -most, most
    if abs(apart) != 1:
        return apart, apart
    least, most = exact_interval(items, items)
    return (least, most) if apart > 0 else (-most, -least)


def _exact_p(apart: Float[np.ndarray, "item pair"]) -> Float[np.ndarray, " pair"]:
    """Of right and wrong answers all sign flips can be counted: McNemar's exact test."""
    ahead, behind = (apart > 0).sum(0), (apart < 0).sum(0)
    return np.minimum(2 * binom.cdf(np.minimum(ahead, behind), ahead + behind, 0.5), 1.0)


def _signs(key: str, *, samples: int, seed: int) -> Float[np.ndarray, " sample"]:
    """1 or -1 for every sample; they follow from the key alone."""
    bits = hashlib.shake_128(f"{seed}:{key}".encode("utf-8", "surrogatepass")).digest(-(-samples // 8))
    return np.unpackbits(np.frombuffer(bits, np.uint8))[:samples] * np.float32(2) - 1


def _corrected(rows: Sequence[Apart]) -> list[Apart]:
    """With Holm's correction; the mean over groups is not one test more among the groups."""
    corrected: dict[bool, Iterator[float]] = {
        overall: iter(holm([row.p for row in rows if (row.group == ALL) is overall]).tolist())
        for overall in (True, False)
    }
    return [row._replace(p_adjusted=next(corrected[row.group == ALL])) for row in rows]


def has_items(result: Result) -> bool:
    """Whether a result has a table of items that can be paired with another's."""
    table = result.tables.get("items")
    return table is not None and {*ITEMS} <= {*table.columns}


@dataclass(frozen=True, eq=False)
class Asked:
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


def asked_models(results: Sequence[Result]) -> list[Asked]:
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
    return [Asked(name, tuple(own)) for name, own in zip(shown, models, strict=True)]


def shared_items(models: Sequence[Asked]) -> Answers:
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
    return Answers(tuple(each.name for each in models), whole, kept)


def _items(model: Asked, *, several: bool) -> pd.Series:
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


def asked_unlike(models: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings in which models (`Asked.describe`) were asked differently, with what each model has.

    Example:
        >>> asked = [("a", "word"), ("b", "piece")]
        >>> asked_unlike([{"name": name, "parameters": [{"masking": masking}]} for name, masking in asked])
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
