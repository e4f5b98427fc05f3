"""Settings as data: what a signature declares is checked, described and told in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pytest

from lamina.errors import InputError
from lamina.framework.settings import Checker, Samples, Seed, Setting, settings_of
from lamina.results import Provenance, Result


def function(
    encoder: object,
    *,
    samples: Samples = 500,
    rows: Annotated[Literal["mean", "first"], Setting("How.", option="--from")] = "mean",
    sizes: Annotated[Sequence[int] | None, Setting("Words each side.", min=0)] = None,
    names: Annotated[Sequence[str], Setting("Which.", file=True)] = ("glove",),
    rate: Annotated[float, Setting("Share.", min=0, max=1)] = 0.5,
    word: Annotated[str | None, Setting("A word.")] = None,
    twin: Annotated[bool, Setting("Beside.")] = True,
    seed: Seed = 0,
    runtime: object = None,
) -> None:
    """What it does."""


DECLARED = settings_of(function, ("runtime",))
CHECKER = Checker("demo", DECLARED)


def test_defaults_are_filled_in_and_lists_are_tuples() -> None:
    assert CHECKER.check({"sizes": [0, 4], "samples": np.int64(7)}) == {
        "samples": 7, "rows": "mean", "sizes": (0, 4), "names": ("glove",), "rate": 0.5, "word": None, "twin": True,
        "seed": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"samples": 0}, "samples must be a whole number of at least 1; got 0"),
        ({"samples": "many"}, "samples must be a whole number of at least 1; got 'many'"),
        ({"samples": 1.5}, "samples must be a whole number"),
        ({"samples": True}, "samples must be a whole number"),
        ({"rows": "last"}, "rows must be one of mean, first; got 'last'"),
        ({"sizes": 3}, "sizes takes a list, each item a whole number of at least 0 or None; got 3"),
        ({"sizes": [1, -1]}, "sizes takes a list"),
        ({"names": "glove"}, "names takes a list, each item text; got 'glove'"),
        ({"rate": 1.5}, "rate must be a number from 0 to 1; got 1.5"),
        ({"twin": "no"}, "twin must be true or false; got 'no'"),
        ({"sample": 3}, "demo has no setting 'sample'; did you mean samples? It has: samples, rows"),
        ({"x": 3}, "demo has no setting 'x'; It has"),
    ],
)
def test_what_does_not_fit_is_said_in_a_sentence(given: dict, said: str) -> None:
    with pytest.raises(InputError) as caught:
        CHECKER.check(given)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_setting_without_a_default_has_to_be_given() -> None:
    def needs(*, task: Annotated[Literal["pos", "ner"], Setting("Which.")]) -> None: ...

    with pytest.raises(InputError, match=r"demo: task has to be given \(pos, ner\)"):
        Checker("demo", settings_of(needs)).check({})


def test_a_parameter_that_says_nothing_of_itself_is_a_fault_of_the_declaration() -> None:
    def silent(*, seed: int = 0) -> None: ...

    with pytest.raises(TypeError, match="annotate seed as Annotated"):
        settings_of(silent)


def test_the_schema_says_all_that_the_signature_says() -> None:
    schema = CHECKER.schema()
    assert schema["additionalProperties"] is False
    assert schema["properties"]["samples"] == {
        "default": 500, "description": "Bootstrap samples for the intervals.", "minimum": 1, "title": "Samples",
        "type": "integer", "option": "--samples",
    }  # fmt: skip
    assert schema["properties"]["rows"]["enum"] == ["mean", "first"]
    assert schema["properties"]["rows"]["option"] == "--from"


def test_options_of_the_command_line_follow_the_names() -> None:
    assert DECLARED["sizes"].option == "--sizes"
    assert (DECLARED["sizes"].many, DECLARED["sizes"].item) == (True, int)
    assert (DECLARED["rows"].choices, DECLARED["word"].item) == (("mean", "first"), str)


def test_an_object_may_be_given_in_place_of_text_and_is_not_looked_into() -> None:
    def reading(*, probed: Annotated[Sequence[str | Result] | None, Setting("Two results.")] = None) -> None: ...

    declared = settings_of(reading)
    checker = Checker("demo", declared)
    result = Result("probe", {}, Provenance({}, {}, {}))
    assert declared["probed"].text
    assert declared["probed"].many
    (kept, folder) = checker.check({"probed": [result, Path("results/a")]})["probed"]
    assert kept is result
    assert folder == "results/a"
    with pytest.raises(InputError, match="probed takes a list, each item text or None; got 3"):
        checker.check({"probed": [3]})
    assert checker.schema()["properties"]["probed"]["anyOf"][0] == {"items": {"type": "string"}, "type": "array"}


def test_what_none_stands_for_on_this_machine_is_said() -> None:
    def reading(*, vectors: Annotated[str | None, Setting("Vectors.", stands_for=lambda: "glove")] = None) -> None: ...

    checker = Checker("demo", settings_of(reading))
    assert checker.check({}) == {"vectors": "glove"}
    assert checker.check({"vectors": "own.txt"}) == {"vectors": "own.txt"}
