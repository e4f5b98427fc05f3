"""SyntaxGym's formulas, read and evaluated: what a suite predicts about the surprisals of regions.

`(6;%match%)` is the surprisal of region 6 in the condition `match`, `(*;%match%)` that of the whole sentence. `+` and
`-` join amounts, `<`, `>` and `=` compare two of them, `&` and `|` join comparisons; square and round brackets group.
As in SyntaxGym, `+ -` bind closest, then comparisons, then `&` and `|`, which bind alike and from the left, and `=`
holds within .001 bits and 1 in 100,000.

Two amounts that are equal to the last ten-thousandth of a bit are neither more nor less: the formula then counts as far
as it would hold with ties broken at random, as Hu et al. (2020) break those of n-gram models.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import permutations
from typing import Literal, NamedTuple, cast, get_args

import numpy as np

from lamina.errors import InputError

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


class FormulaRegion(NamedTuple):
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


class RegionComparison(NamedTuple):
    """One amount is less than, more than or equal to another."""

    left: Amount
    relation: Relation
    right: Amount

    def __str__(self) -> str:
        return f"[{self.left} {self.relation} {self.right}]"


class JoinedStatement(NamedTuple):
    """Both hold, or at least one."""

    left: Statement
    connective: Connective
    right: Statement

    def __str__(self) -> str:
        return f"[{self.left} {self.connective} {self.right}]"


Amount = FormulaRegion | Constant | Arithmetic
Statement = RegionComparison | JoinedStatement
Formula = Statement
"""What a suite predicts is a statement."""


def regions_in(formula: Formula | Amount) -> Iterator[FormulaRegion]:
    """The regions that a formula names, from the left, each as often as it is named.

    Example:
        >>> from lamina.corpora.suites.formulas import parse
        >>> [str(region) for region in regions_in(parse("(1;%a%) + (2;%a%) < (*;%b%)"))]
        ['(1;%a%)', '(2;%a%)', '(*;%b%)']
    """
    if isinstance(formula, FormulaRegion):
        yield formula
    elif not isinstance(formula, Constant):
        yield from regions_in(formula.left)
        yield from regions_in(formula.right)


def comparisons_in(formula: Formula) -> Iterator[RegionComparison]:
    """The comparisons that a formula joins."""
    if isinstance(formula, RegionComparison):
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
        >>> from lamina.corpora.suites.formulas import parse
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
        >>> from lamina.corpora.suites.formulas import parse
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
        >>> from lamina.corpora.suites.formulas import parse
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
        >>> from lamina.corpora.suites.formulas import parse
        >>> more, same = parse("(1;%a%) > (1;%b%)"), parse("(1;%b%) = (1;%a%)")
        >>> contradicts(same, [more]), contradicts(more, [more])
        (True, False)
    """
    said = {kind for each in earlier for kind in _demands(each)}
    return any((form, not equal) in said for form, equal in _demands(formula))


def _margin(formula: Formula, values: Values) -> float:
    if isinstance(formula, JoinedStatement):
        return (min if formula.connective == "&" else max)(
            _margin(formula.left, values), _margin(formula.right, values)
        )
    left, right = (float(_amount(side, values)) for side in (formula.left, formula.right))
    if formula.relation == "=":
        return _CLOSE + _RELATIVE * abs(right) - abs(left - right)
    return left - right if formula.relation == ">" else right - left


def _demands(formula: Formula) -> Iterator[tuple[frozenset[tuple[str, float]], bool]]:
    """What holds wherever the formula holds: the difference of two sides, up to its sign, and whether it is none."""
    if isinstance(formula, JoinedStatement):
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
    return all(isinstance(side, FormulaRegion) and side.number is not None for side in sides)


def _surprisals_by_chance(named: Sequence[Key], regions: Sequence[int]) -> dict[Key, np.ndarray]:
    """Independent draws; that of a whole sentence is the sum of those of its regions."""
    whole = [condition for condition, region in named if region is None]
    single = [key for key in named if key[1] is not None]
    keys = dict.fromkeys([*single, *((condition, region) for condition in whole for region in regions)])
    drawn = dict(_tie_breaks(tuple(keys)))
    for condition in whole:
        drawn[condition, None] = np.sum([drawn[condition, region] for region in regions], axis=0)
    return drawn


def _is_free_of_scale(comparison: RegionComparison) -> bool:
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
    if isinstance(formula, JoinedStatement):
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
    if isinstance(amount, FormulaRegion):
        return values[amount.key]
    if isinstance(amount, Constant):
        return amount.bits
    left, right = _amount(amount.left, values), _amount(amount.right, values)
    return left + right if amount.sign == "+" else left - right


# The parser of formulas.

_DEEPEST, _MOST_OPERATORS = 50, 200
_REGION = re.compile(r"\(\s*([0-9]{1,9}|\*)\s*;\s*%([^%]+)%\s*\)")
_REGION_START = re.compile(r"\(\s*(?:[0-9]+|\*)\s*;")
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,15}(?:\.[0-9]{0,15})?|\.[0-9]{1,15})(?:[eE][+-]?[0-9]{1,2})?")
_CLOSING = {"[": "]", "(": ")"}
_AMOUNT = "a region such as (2;%match%), a number or an opening bracket"


class FormulaError(InputError):
    """A formula that cannot be read: the character, counted from 1, and what was expected there."""


def parse(formula: str) -> Formula:
    """Read a formula.

    Example:
        >>> print(parse("(2;%mismatch%) - (2;%match%) > 0"))
        [[(2;%mismatch%) - (2;%match%)] > 0]
        >>> parse("[(2;%mismatch%) > ]")
        Traceback (most recent call last):
        lamina.corpora.suites.formulas.FormulaError: at character 19: expected a region such as ..., found ']'
    """
    return _Parser(formula).formula()


class _Parser:
    """Recursive descent; amounts and statements are told apart, so that `1 & 2` is refused."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._depth = self._operators = 0

    def formula(self) -> Formula:
        found = self._logic()
        self._space()
        if self._at < len(self._text):
            raise self._error("an operator (+ - < > = & |) or the end")
        if not isinstance(found, Statement):
            raise FormulaError(
                f"at character {len(self._text.rstrip()) + 1}: expected a comparison (< > =), found none"
            )
        return found

    def _logic(self) -> Amount | Statement:
        start = self._next()
        left = self._comparison()
        while sign := self._operator(Connective):
            at = self._next()
            right = self._comparison()
            left = JoinedStatement(self._statement(left, start), cast(Connective, sign), self._statement(right, at))
        return left

    def _comparison(self) -> Amount | Statement:
        start = self._next()
        left = self._sum()
        if sign := self._operator(Relation):
            at = self._next()
            right = self._sum()
            left = RegionComparison(self._quantity(left, start), cast(Relation, sign), self._quantity(right, at))
            if self._peek() in get_args(Relation):
                raise self._error("&, | or the end, since a comparison has two sides")
        return left

    def _sum(self) -> Amount | Statement:
        start = self._next()
        left = self._atom()
        while sign := self._operator(Sign):
            at = self._next()
            right = self._atom()
            left = Arithmetic(self._quantity(left, start), cast(Sign, sign), self._quantity(right, at))
        return left

    def _atom(self) -> Amount | Statement:
        self._space()
        if region := _REGION.match(self._text, self._at):
            self._at = region.end()
            return FormulaRegion(None if region[1] == "*" else int(region[1]), region[2].strip())
        if start := _REGION_START.match(self._text, self._at):
            self._at = start.end()
            raise self._error("the condition as %name% and a closing )")
        if number := _NUMBER.match(self._text, self._at):
            self._at = number.end()
            return Constant(float(number[0]))
        if (opened := self._peek()) in _CLOSING:
            return self._group(opened)
        raise self._error(_AMOUNT)

    def _group(self, opened: str) -> Amount | Statement:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error(f"brackets nested at most {_DEEPEST} levels deep")
        self._at += 1
        inner = self._logic()
        if self._peek() != _CLOSING[opened]:
            raise self._error(f"an operator (+ - < > = & |) or the closing {_CLOSING[opened]}")
        self._at += 1
        self._depth -= 1
        return inner

    def _operator(self, kind: object) -> str:
        """The next character if it is such an operator, otherwise empty."""
        found = self._peek()
        if found not in get_args(kind):
            return ""
        self._operators += 1
        if self._operators > _MOST_OPERATORS:
            raise self._error(f"at most {_MOST_OPERATORS} operators")
        self._at += 1
        return found

    def _statement(self, found: Amount | Statement, at: int) -> Statement:
        if isinstance(found, Statement):
            return found
        raise FormulaError(
            f"at character {at + 1}: expected a comparison such as (2;%bad%) > (2;%good%), found {found}"
        )

    def _quantity(self, found: Amount | Statement, at: int) -> Amount:
        if isinstance(found, Amount):
            return found
        raise FormulaError(f"at character {at + 1}: expected an amount of surprisal, found the comparison {found}")

    def _space(self) -> None:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1

    def _next(self) -> int:
        self._space()
        return self._at

    def _peek(self) -> str:
        self._space()
        return self._text[self._at : self._at + 1]

    def _error(self, expected: str) -> FormulaError:
        self._space()
        found = repr(self._text[self._at : self._at + 20]) if self._at < len(self._text) else "the end"
        return FormulaError(f"at character {self._at + 1}: expected {expected}, found {found}")
