"""Many faults as a short answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.corpora.reading import Fault, FaultKinds, kind_of


def fault(what: str, line: int = 1) -> Fault:
    return Fault(Path("a.txt"), line, what, "something else")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("12 columns", "3 columns"),
        ("word 'it\\'s' at 3", 'word "x y" at 4'),
        ("question 56be4db0acb: the id is used twice", "question 7fd0: the id is used twice"),
        ("file not found in /a/b", "file not found in /c/d"),
        ("I-PER after O, with nothing to continue", "I-LOC after O, with nothing to continue"),
    ],
)
def test_one_kind(one: str, other: str) -> None:
    assert kind_of(fault(one)) == kind_of(fault(other))


def test_two_kinds() -> None:
    assert kind_of(fault("2 columns")) != kind_of(fault("2 roots"))


def test_the_first_of_each_kind_and_the_number_of_the_others() -> None:
    kinds = FaultKinds()
    for line in range(1, 1001):
        kinds.add(fault(f"{line} columns", line))
        if line <= 5:
            kinds.add(fault("no root", line))

    lines = list(kinds.lines())

    assert lines[4:6] == ["a.txt:5: 5 columns; expected something else", "  ... and 995 more like these"]
    assert lines[6:] == [f"a.txt:{line}: no root; expected something else" for line in range(1, 6)]
    assert (kinds.total, kinds.kinds, kinds.complete) == (1005, "2 kinds", False)


def test_kinds_are_bounded_too() -> None:
    kinds = FaultKinds()
    letters = [chr(97 + n // 26) + chr(97 + n % 26) for n in range(500)]
    for word in letters:
        kinds.add(fault(f"odd {word}"))

    lines = list(kinds.lines())

    assert len(lines) == 21
    assert lines[-1] == "  ... and 480 of other kinds"
    assert (kinds.total, kinds.kinds, kinds.complete) == (500, "more than 20 kinds", False)
