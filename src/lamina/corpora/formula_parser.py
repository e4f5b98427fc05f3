"""Reads SyntaxGym's formulas; `formulas` says what they mean."""

from __future__ import annotations

import re
from typing import cast, get_args

from lamina.corpora.formulas import (
    Amount,
    Arithmetic,
    Comparison,
    Connective,
    Constant,
    Formula,
    Logic,
    Region,
    Relation,
    Sign,
    Statement,
)
from lamina.errors import InputError

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
        lamina.corpora.formula_parser.FormulaError: at character 19: expected a region such as ..., found ']'
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
            left = Logic(self._statement(left, start), cast(Connective, sign), self._statement(right, at))
        return left

    def _comparison(self) -> Amount | Statement:
        start = self._next()
        left = self._sum()
        if sign := self._operator(Relation):
            at = self._next()
            right = self._sum()
            left = Comparison(self._quantity(left, start), cast(Relation, sign), self._quantity(right, at))
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
            return Region(None if region[1] == "*" else int(region[1]), region[2].strip())
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
