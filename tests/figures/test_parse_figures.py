"""The figures of parsers out of attention."""

from __future__ import annotations

import json
from dataclasses import replace

import pandas as pd
import pytest

from lamina.figures import captions_for, to_svg
from lamina.figures.parse import DIRECTIONS, describe, draw
from lamina.results import Provenance, Result

NAN = float("nan")


@pytest.fixture
def result() -> Result:
    uas = pd.DataFrame(
        [
            ("right-branching", 0.32, 0.43, 0.31, 0.33),
            ("attention-only", 0.5, 0.6, 0.49, 0.51),
            ("attention+words", 0.7, 0.76, 0.69, 0.71),
            ("spanning tree, best head", NAN, 0.53, 0.52, 0.54),
            ("argmax, best head", 0.4, NAN, 0.39, 0.41),
            ("attention+words, random blocks", 0.3, 0.5, 0.29, 0.31),
        ],
        columns=["system", "uas", "uuas", "low", "high"],
    )
    weights = pd.DataFrame(
        [
            (system, layer, head, direction, (layer - head) / 3 + (direction == "separator") / 9)
            for system in ("attention-only", "attention+words", "attention+words, random blocks")
            for layer in (1, 2)
            for head in (1, 2, 3)
            for direction in DIRECTIONS
        ],
        columns=["system", "layer", "head", "direction", "weight"],
    )
    provenance = Provenance({"name": "a<b>"}, {"name": "ewt", "split": "dev"}, {})
    return Result("parse", {"uas": uas, "weights": weights}, provenance)


def test_every_system_has_its_dots_and_the_interval_of_one_of_them(result: Result):
    spec = draw(result)["systems"].to_dict()
    rules, dots = spec["concat"][0]["layer"]
    assert (rules["encoding"]["x"]["field"], rules["encoding"]["x2"]["field"]) == ("low", "high")
    rows = next(iter(spec["datasets"].values()))
    assert len(rows) == 10
    assert sum(row["low"] is not None for row in rows) == 6
    assert dots["encoding"]["color"]["scale"]["range"] != dots["encoding"]["shape"]["scale"]["range"]
    assert dots["encoding"]["x"]["title"]
    assert dots["encoding"]["y"]["sort"] == list(result.tables["uas"]["system"])


def test_weights_are_drawn_around_zero_for_the_trained_model_alone(result: Result):
    charts = draw(result)
    assert list(charts) == ["systems", "weights_attention_only", "weights_attention_words"]
    spec = charts["weights_attention_words"].to_dict()
    assert [panel["title"] for panel in spec["concat"]] == list(DIRECTIONS.values())
    low, zero, high = spec["concat"][0]["encoding"]["color"]["scale"]["domain"]
    assert (low, zero) == (-high, 0)
    assert "means over scored words" in spec["title"]["subtitle"]


def test_separators_that_a_decoder_does_not_have_are_not_drawn(result: Result):
    weights = result.tables["weights"]
    own = weights.assign(weight=(weights["layer"] - weights["head"]) / 3)
    decoder = replace(result, tables={**result.tables, "weights": own})
    titles = [panel["title"] for panel in draw(decoder)["weights_attention_only"].to_dict()["concat"]]

    assert titles == [said for name, said in DIRECTIONS.items() if name != "separator"]
    assert "no separators into a text" in captions_for(decoder)["weights_attention_only"]
    assert "no separators" not in captions_for(result)["weights_attention_only"]


def test_words_say_what_is_there_and_nothing_else(result: Result):
    said = describe(result.tables["uas"])
    assert "spanning tree, best head: UUAS 0.53." in said
    assert "argmax, best head: UAS 0.40." in said
    assert "nan" not in said


def test_charts_become_pictures(result: Result):
    for chart in draw(result).values():
        assert "NaN" not in json.dumps(chart.to_dict())
        svg = to_svg(chart)
        assert "a&lt;b&gt;" in svg
