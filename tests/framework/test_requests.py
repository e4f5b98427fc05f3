"""A request is a table: what a file says and what the app sends is checked before anything is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.errors import InputError
from lamina.framework.requests import read_request


def test_a_request_names_what_the_command_names() -> None:
    table = {
        "analysis": "geometry",
        "model": "minilm",
        "data": {"name": "ewt", "split": "test", "limit": 20},
        "settings": {"samples": 10},
        "out": "results/x",
        "device": "cpu",
    }
    request = read_request(table)
    assert request.inputs == {"model": "minilm", "data": "ewt"}
    assert request.options == {"split": "test", "limit": 20}
    assert (request.settings, request.out, request.device) == ({"samples": 10}, Path("results/x"), "cpu")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "a request names its analysis"),
        ({"analysis": 3}, "a request names its analysis"),
        ({"analysis": "geometri"}, "there is no analysis 'geometri'; did you mean geometry?"),
        ({"analysis": "geometry", "modle": "x"}, "a request has no 'modle'; it has analysis, model, data"),
        ({"analysis": "geometry", "model": 3}, "model is text in a request; got int"),
        ({"analysis": "geometry", "model": "m", "settings": 3}, "settings is a table"),
        ({"analysis": "geometry", "model": "m", "settings": {"samples": 0}}, "samples must be a whole number of at"),
        ({"analysis": "geometry", "model": "m", "settings": {"x": 0}}, "geometry has no setting 'x'"),
        ({"analysis": "geometry", "model": "m", "data": {"name": "ewt", "limit": "a"}}, "limit must be a whole number"),
        ({"analysis": "geometry", "model": "m", "data": {"name": "ewt", "y": 1}}, "geometry has no setting 'y'"),
    ],
)
def test_a_wrong_request_gives_a_sentence(table: dict, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read_request(table)
    assert said in str(caught.value)


def test_an_input_that_was_not_given_is_not_in_the_command() -> None:
    table: dict = {"analysis": "trace", "result": "results/probe"}
    assert read_request(table).command == "lamina trace results/probe"
    table |= {"sentence": "A dog.", "model": "minilm", "settings": {"marks": ["dep:1:0"]}}
    assert read_request(table).command == "lamina trace results/probe 'A dog.' --model minilm --mark dep:1:0"
