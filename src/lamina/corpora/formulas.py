"""SyntaxGym's formulas: what a suite predicts about the surprisals of regions.

`(6;%match%)` is the surprisal of region 6 in the condition `match`, `(*;%match%)` that of the whole sentence. `+` and
`-` join amounts, `<`, `>` and `=` compare two of them, `&` and `|` join comparisons; square and round brackets group.
As in SyntaxGym, `+ -` bind closest, then comparisons, then `&` and `|`, which bind alike and from the left, and `=`
holds within .001 bits and 1 in 100,000.

Two amounts that are equal to the last ten-thousandth of a bit are neither more nor less: the formula then counts as far
as it would hold with ties broken at random, as Hu et al. (2020) break those of n-gram models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import permutations
from typing import Literal, NamedTuple

import numpy as np

Key = tuple[str, int | None]
"""Condition and region; the region None is the whole sentence."""
Values = Mapping[Key, float]
"""The surprisals of one item, in bits."""

_CLOSE, _RELATIVE = 1e-3, 1e-5
"""SyntaxGym's tolerance of `=`, in bits and as a share of the right side."""
TIE = 1e-4
"""Bits within which two amounts are tied: rounding in batches of different shapes gives as much."""
_DRAWS = 2**15
"""Random ways to break ties, each of them used with both signs."""
_MOST_ORDERED = 7
"""Regions whose orders are all looked at, 5,040 of them; for more, orders are drawn."""

Sign = Literal["+", "-"]
Relation = Literal["<", ">", "="]
Connective = Literal["&", "|"]


class Region(NamedTuple):
    """The surprisal of a region in a condition."""

    number: int | None
    """None for the whole sentence."""
    condition: str

    @property
    def key(self) -> Key:
        """Where its value is looked up."""
        return self.condition, self.number

    def __str__(self) -> str:
        return f"({'*' if self.number is None else self.number};%{self.condition}%)"


class Constant(NamedTuple):
    """A number of bits."""

    bits: float

    def __str__(self) -> str:
        return f"{self.bits:g}" if float(f"{self.bits:g}") == self.bits else repr(self.bits)


class Arithmetic(NamedTuple):
    """A sum or a difference."""

    left: Amount
    sign: Sign
    right: Amount

    def __str__(self) -> str:
        return f"[{self.left} {self.sign} {self.right}]"


class Comparison(NamedTuple):
    """One amount is less than, more than or equal to another."""

    left: Amount
    relation: Relation
    right: Amount

    def __str__(self) -> str:
        return f"[{self.left} {self.relation} {self.right}]"


class Logic(NamedTuple):
    """Both hold, or at least one."""

    left: Statement
    connective: Connective
    right: Statement

    def __str__(self) -> str:
        return f"[{self.left} {self.connective} {self.right}]"


Amount = Region | Constant | Arithmetic
Statement = Comparison | Logic
Formula = Statement
"""What a suite predicts is a statement."""


def regions_in(formula: Formula | Amount) -> Iterator[Region]:
    """The regions that a formula names, from the left, each as often as it is named.

    Example:
        >>> from lamina.corpora.formula_parser import parse
        >>> [str(region) for region in regions_in(parse("(1;%a%) + (2;%a%) < (*;%b%)"))]
        ['(1;%a%)', '(2;%a%)', '(*;%b%)']
    """
    if isinstance(formula, Region):
        yield formula
    elif not isinstance(formula, Constant):
        yield from regions_in(formula.left)
        yield from regions_in(formula.right)


def comparisons_in(formula: Formula) -> Iterator[Comparison]:
    """The comparisons that a formula joins."""
    if isinstance(formula, Comparison):
        yield formula
    else:
        yield from comparisons_in(formula.left)
        yield from comparisons_in(formula.right)


def named_regions(formulas: Sequence[Formula]) -> list[Key]:
    """Condition and number of each region that is named, once, from the left."""
    return list(dict.fromkeys(region.key for formula in formulas for region in regions_in(formula)))


def degree(formulas: Sequence[Formula], values: Values) -> float:
    """1 if all formulas hold for these surprisals, 0 if not; with ties, the share of ways to break them that do.

    Values of whole sentences are looked up like those of regions.

    Example:
        >>> from lamina.corpora.formula_parser import parse
        >>> formulas = [parse("(1;%good%) < (1;%bad%)")]
        >>> degree(formulas, {("good", 1): 2.0, ("bad", 1): 3.5}), degree(formulas, {("good", 1): 2, ("bad", 1): 2})
        (1.0, 0.5)
    """
    broken = _tie_breaks(tuple(named_regions(formulas))) if has_tie(formulas, values) else {}
    found = np.asarray(True)
    for formula in formulas:
        found = found & _holds(formula, values, broken)
    return float(np.mean(found))


def margin(formulas: Sequence[Formula], values: Values) -> float:
    """Bits by which the tightest of several formulas holds; negative if one does not.

    Example:
        >>> from lamina.corpora.formula_parser import parse
        >>> formulas = [parse("(1;%good%) < (1;%bad%)"), parse("(2;%good%) < (2;%bad%)")]
        >>> margin(formulas, {("good", 1): 2.0, ("bad", 1): 3.5, ("good", 2): 4.0, ("bad", 2): 1.0})
        -3.0
    """
    return min(_margin(formula, values) for formula in formulas)


def has_tie(formulas: Sequence[Formula], values: Values) -> bool:
    """Whether a comparison by < or > has two sides that are tied."""
    return any(
        each.relation != "=" and abs(_amount(each.left, values) - _amount(each.right, values)) <= TIE
        for formula in formulas
        for each in comparisons_in(formula)
    )


@cache
def chance(formulas: tuple[Formula, ...], regions: tuple[int, ...]) -> float:
    """How often all formulas hold by chance: for surprisals that are drawn independently from one distribution.

    Where every comparison is between two regions only their order counts, so that the share of orders is exact for any
    distribution. Otherwise surprisals are drawn from a normal distribution. NaN where chance depends on the spread of
    surprisals: with `=`, or with a constant other than 0. `regions` are those of a sentence, for `*`.

    Example:
        >>> from lamina.corpora.formula_parser import parse
        >>> both = parse("[(1;%a%) < (1;%b%)] & [(1;%a%) < (1;%c%)]")
        >>> round(chance((both,), (1,)), 4), chance((parse("(*;%a%) - (*;%b%) > 0"),), (1, 2))
        (0.3333, 0.5)
    """
    if not all(_is_free_of_scale(each) for formula in formulas for each in comparisons_in(formula)):
        return float("nan")
    named = named_regions(formulas)
    if len(named) <= _MOST_ORDERED and all(map(_orders_regions, formulas)):
        orders = np.array(list(permutations(range(len(named)))), float).T
        drawn: Mapping[Key, np.ndarray] = dict(zip(named, orders, strict=True))
    else:
        drawn = _surprisals_by_chance(named, regions)
    equal = dict.fromkeys(drawn, 0.0)
    return float(np.mean(np.all([_holds(formula, equal, drawn) for formula in formulas], axis=0)))


def contradicts(formula: Formula, earlier: Sequence[Formula]) -> bool:
    """Whether a formula asks for two amounts to be equal that an earlier one asks to differ, or the other way round.

    Example:
        >>> from lamina.corpora.formula_parser import parse
        >>> more, same = parse("(1;%a%) > (1;%b%)"), parse("(1;%b%) = (1;%a%)")
        >>> contradicts(same, [more]), contradicts(more, [more])
        (True, False)
    """
    said = {kind for each in earlier for kind in _demands(each)}
    return any((form, not equal) in said for form, equal in _demands(formula))


def _margin(formula: Formula, values: Values) -> float:
    if isinstance(formula, Logic):
        return (min if formula.connective == "&" else max)(
            _margin(formula.left, values), _margin(formula.right, values)
        )
    left, right = (float(_amount(side, values)) for side in (formula.left, formula.right))
    if formula.relation == "=":
        return _CLOSE + _RELATIVE * abs(right) - abs(left - right)
    return left - right if formula.relation == ">" else right - left


def _demands(formula: Formula) -> Iterator[tuple[frozenset[tuple[str, float]], bool]]:
    """What holds wherever the formula holds: the difference of two sides, up to its sign, and whether it is none."""
    if isinstance(formula, Logic):
        if formula.connective == "&":
            yield from _demands(formula.left)
            yield from _demands(formula.right)
        return
    weights: dict[str, float] = {}
    _weigh(formula.left, 1.0, weights)
    _weigh(formula.right, -1.0, weights)
    told = sorted((name, weight) for name, weight in weights.items() if weight)
    turn = -1.0 if told and told[0][1] < 0 else 1.0
    yield frozenset((name, turn * weight) for name, weight in told), formula.relation == "="


def _weigh(amount: Amount, weight: float, weights: dict[str, float]) -> None:
    if isinstance(amount, Arithmetic):
        _weigh(amount.left, weight, weights)
        _weigh(amount.right, weight if amount.sign == "+" else -weight, weights)
    elif isinstance(amount, Constant):
        weights[""] = weights.get("", 0.0) + weight * amount.bits
    else:
        weights[str(amount)] = weights.get(str(amount), 0.0) + weight


def _orders_regions(formula: Formula) -> bool:
    """Whether each comparison is between two single regions."""
    sides = (side for each in comparisons_in(formula) for side in (each.left, each.right))
    return all(isinstance(side, Region) and side.number is not None for side in sides)


def _surprisals_by_chance(named: Sequence[Key], regions: Sequence[int]) -> dict[Key, np.ndarray]:
    """Independent draws; that of a whole sentence is the sum of those of its regions."""
    whole = [condition for condition, region in named if region is None]
    single = [key for key in named if key[1] is not None]
    keys = dict.fromkeys([*single, *((condition, region) for condition in whole for region in regions)])
    drawn = dict(_tie_breaks(tuple(keys)))
    for condition in whole:
        drawn[condition, None] = np.sum([drawn[condition, region] for region in regions], axis=0)
    return drawn


def _is_free_of_scale(comparison: Comparison) -> bool:
    return comparison.relation != "=" and not any(_constants(side) for side in (comparison.left, comparison.right))


def _constants(amount: Amount) -> bool:
    """Whether it holds a number other than 0."""
    if isinstance(amount, Arithmetic):
        return _constants(amount.left) or _constants(amount.right)
    return isinstance(amount, Constant) and amount.bits != 0


@lru_cache(maxsize=4)
def _tie_breaks(keys: tuple[Key, ...]) -> Mapping[Key, np.ndarray]:
    """Normal draws for each surprisal, each with both signs, so that a single tie is broken evenly."""
    drawn = np.random.Generator(np.random.Philox(key=0)).standard_normal((len(keys), _DRAWS))
    return dict(zip(keys, np.concatenate([drawn, -drawn], axis=1), strict=True))


def _holds(formula: Formula, values: Values, broken: Mapping[Key, np.ndarray]) -> np.ndarray:
    """One truth value; or one per way to break ties, where one has to be broken."""
    if isinstance(formula, Logic):
        left, right = (_holds(side, values, broken) for side in (formula.left, formula.right))
        return left & right if formula.connective == "&" else left | right
    left, right = (float(_amount(side, values)) for side in (formula.left, formula.right))
    if formula.relation == "=":
        return np.asarray(abs(left - right) <= _CLOSE + _RELATIVE * abs(right))
    more = np.asarray(left - right)
    if abs(left - right) <= TIE:
        more = np.asarray(_amount(formula.left, broken)) - np.asarray(_amount(formula.right, broken))
    return more > 0 if formula.relation == ">" else more < 0


def _amount(amount: Amount, values: Mapping[Key, float] | Mapping[Key, np.ndarray]) -> float | np.ndarray:
    if isinstance(amount, Region):
        return values[amount.key]
    if isinstance(amount, Constant):
        return amount.bits
    left, right = _amount(amount.left, values), _amount(amount.right, values)
    return left + right if amount.sign == "+" else left - right
