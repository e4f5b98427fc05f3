"""SyntaxGym's formulas: parsing, printing, truth, ties and chance."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from lamina.corpora.suites.syntaxgym import (
    Arithmetic,
    Constant,
    Formula,
    FormulaError,
    FormulaRegion,
    JoinedStatement,
    Key,
    RegionComparison,
    chance,
    contradicts,
    degree,
    has_tie,
    margin,
    parse,
)

CONDITIONS = ("match_sing", "no-obj_comma", "b")
regions = some.builds(FormulaRegion, some.none() | some.integers(1, 3), some.sampled_from(CONDITIONS))
constants = some.builds(Constant, some.floats(-9, 9, allow_nan=False).map(lambda number: round(number, 3)))
amounts = some.recursive(
    regions | constants, lambda inner: some.builds(Arithmetic, inner, some.sampled_from("+-"), inner), max_leaves=4
)


def statements(relations: str) -> some.SearchStrategy[Formula]:
    """Formulas with these comparisons."""
    comparisons = some.builds(RegionComparison, amounts, some.sampled_from(relations), amounts)
    return some.recursive(
        comparisons, lambda inner: some.builds(JoinedStatement, inner, some.sampled_from("&|"), inner), max_leaves=4
    )


KEYS = [(condition, region) for condition in CONDITIONS for region in (None, 1, 2, 3)]


@given(statements("<>="))
def test_what_is_printed_is_read_as_the_same(formula: Formula) -> None:
    assert parse(str(formula)) == formula
    assert parse(str(formula).replace("[", " ( ").replace("]", " ) ")) == formula


def evaluated(formula: Formula, values: dict[tuple[str, int | None], float]) -> bool:
    """By Python itself, from the printed form."""
    code = str(formula).replace("[", "(").replace("]", ")")
    for (condition, region), value in values.items():
        code = code.replace(f"({'*' if region is None else region};%{condition}%)", f"({value})")
    return bool(eval(code))  # noqa: S307  (numbers and operators only)


@given(statements("<>"), some.lists(some.integers(0, 30), min_size=len(KEYS), max_size=len(KEYS), unique=True))
def test_truth_is_that_of_python(formula: Formula, numbers: list[int]) -> None:
    # Distinct powers of two with odd fractions: no sums or differences are equal by accident.
    values = {key: 2.0**number + 0.37 for key, number in zip(KEYS, numbers, strict=True)}
    if not has_tie([formula], values):
        assert degree([formula], values) == evaluated(formula, values) == (margin([formula], values) > 0)


def test_operators_bind_as_in_syntaxgym() -> None:
    assert str(parse("(1;%a%) - (2;%a%) + 3 > 0 | 1 < 2 & 2 < 1")) == (
        "[[[[[(1;%a%) - (2;%a%)] + 3] > 0] | [1 < 2]] & [2 < 1]]"
    )
    # Within .001 bits and 1 in 100,000 of the right side.
    equal = parse("(1;%a%) = (1;%b%)")
    assert [degree([equal], {("a", 1): 200.0, ("b", 1): 200.0 + apart}) for apart in (0.0029, 0.0031)] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("", "at character 1: expected a region"),
        ("(1;%a%)", "at character 8: expected a comparison"),
        ("(1;%a) > 2", "at character 4: expected the condition as %name%"),
        ("[(1;%a%) > (2;%a%)", "at character 19: expected an operator .* or the closing ], found the end"),
        ("(1;%a%) > (2;%a%) > 3", "at character 19: expected &, | or the end"),
        ("1 & 2", "at character 1: expected a comparison"),
        ("[(1;%a%) > 2] + 3 > 1", "at character 1: expected an amount of surprisal"),
        ("(1;%a%) >= 2", "at character 10: expected a region"),
        ("(" * 60, "nested at most 50 levels"),
        ("1 " + "+ 1 " * 300 + "> 0", "at most 200 operators"),
    ],
    ids=["empty", "amount", "condition", "bracket", "three sides", "numbers", "sum", "operator", "deep", "long"],
)
def test_what_cannot_be_read_is_placed(formula: str, said: str) -> None:
    with pytest.raises(FormulaError, match=said.replace("|", r"\|").replace("]", r"\]")):
        parse(formula)


def test_chance_is_the_share_of_orders() -> None:
    npi = "[(8;%a%) < (8;%b%)] & [(8;%c%) < (8;%d%)] & [(8;%a%) < (8;%d%)]"
    assert chance((parse(npi),), (8,)) == pytest.approx(5 / 24)
    assert chance((parse("(6;%a%) + (7;%a%) < (6;%b%) + (7;%b%)"),), (6, 7)) == 0.5
    # A garden path: counted over draws of another generator.
    a, b, c, d = np.random.default_rng(1).normal(size=(4, 400_000))
    garden = parse("[(5;%a%) > (5;%b%)] & [(5;%a%) > (5;%c%)] & [[(5;%a%) - (5;%b%)] > [(5;%c%) - (5;%d%)]]")
    assert chance((garden,), (5,)) == pytest.approx(np.mean((a > b) & (a > c) & (a - b > c - d)), abs=0.005)
    assert math.isnan(chance((parse("(1;%a%) = (1;%b%)"),), (1,)))
    assert math.isnan(chance((parse("(1;%a%) - (1;%b%) > 2"),), (1,)))


def test_ties_are_broken_at_random() -> None:
    both = [parse("[(1;%a%) < (1;%b%)] & [(1;%a%) < (1;%c%)]")]
    values: dict[Key, float] = {("a", 1): 5.0, ("b", 1): 5.0 + 3e-5, ("c", 1): 5.0}
    assert degree(both, values) == pytest.approx(1 / 3, abs=0.01)
    assert degree(both, values | {("c", 1): 9.0}) == 0.5
    assert degree(both, values | {("c", 1): 2.0}) == 0.0


def test_a_prediction_that_contradicts_another() -> None:
    """As the second of SyntaxGym's fgd_hierarchy: no surprisals meet both."""
    first = parse("[(6;%what%) > (6;%that%)] & [(7;%what%) < (7;%that%)]")
    assert contradicts(parse("[(9;%what%) = (9;%that%)] & [(7;%that%) = (7;%what%)]"), [first])
    assert not contradicts(parse("[(9;%what%) = (9;%that%)] | [(7;%that%) = (7;%what%)]"), [first])
