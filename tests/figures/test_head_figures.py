"""Attention lines and the map of heads, judged as a reader would."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pandas as pd
import pytest

from lamina.analyses.heads.behaviours import BEHAVIOURS
from lamina.analyses.heads.headmap import DIVERGENCES
from lamina.analyses.heads.look import ATTENTION, look
from lamina.figures import captions_of, headmap, to_svg
from lamina.figures import look as look_figure
from lamina.figures.look import ROW, Panel, lines, text_width
from lamina.figures.theme import BEHAVIOUR_LOOKS, DARK, BehaviourLook, themed
from lamina.results import Provenance, Result
from lamina.testing import TinyEncoder


def table(words: list[str], weight: float = 0.5) -> pd.DataFrame:
    pairs = itertools.product(enumerate(words), repeat=2)
    return pd.DataFrame([(1, 2, i, a, j, b, weight) for (i, a), (j, b) in pairs], columns=list(ATTENTION))


def test_every_word_has_its_own_line_in_both_columns():
    words = [f"word{at}" for at in range(40)]
    (panel,) = themed(lines(table(words))).to_dict()["concat"]
    assert panel["height"] == 40 * ROW > 40 * 12 * 1.3
    links, left, right = panel["layer"]
    assert (left["mark"]["align"], right["mark"]["align"]) == ("right", "left")
    # Words end before lines begin, and the widest word fits beside them.
    assert left["encoding"]["x"]["datum"] >= max(map(text_width, words))
    assert links["mark"]["type"] == "rule"


def test_weak_lines_are_left_out_and_it_is_said():
    chart = themed(lines(table(["a", "b"], weight=0.01), {(1, 2): Panel("One", "two")}, title="Lines"))
    spec = chart.to_dict()
    assert "weak lines not drawn" in spec["title"]["subtitle"]
    assert spec["concat"][0]["title"] == {"text": "One", "subtitle": "two", "fontSize": 13}
    name = spec["concat"][0]["layer"][0]["data"]["name"]
    assert spec["datasets"][name] == []
    assert ">a</text>" in to_svg(chart)


def test_only_lines_of_one_word():
    spec = themed(lines(table(["a", "b", "c"]), focus=1)).to_dict()
    rows = spec["datasets"][spec["concat"][0]["layer"][0]["data"]["name"]]
    assert {(row["from"], row["to"], row["kind"]) for row in rows} == {
        (1, 0, "from the word"), (1, 1, "from the word"), (1, 2, "from the word"),
        (0, 1, "to the word"), (2, 1, "to the word"),
    }  # fmt: skip


@pytest.mark.parametrize("words", [["שלום", "😀", "東京"], ["<b>", "&"], ["x" * 60], ["."]], ids=str)
def test_odd_words_draw(words: list[str]):
    svg = to_svg(themed(lines(table(words))))
    assert svg.startswith("<svg")
    assert "<b>" not in svg


def test_a_look_draws_a_panel_a_head_with_its_reason():
    result = look(TinyEncoder(), "The dogs bark.", special=False)
    spec = look_figure.draw(result)["lines"].to_dict()
    assert len(spec["concat"]) == len(result.tables["heads"])
    assert all(panel["title"]["subtitle"].startswith("most: ") for panel in spec["concat"])
    assert "special tokens not shown" in spec["title"]["text"]
    assert "strongest" in spec["description"]


def test_a_look_draws_the_rollout_at_three_depths():
    result = look(TinyEncoder(blocks=6), "The dogs bark at the dogs.", weights="norm")
    charts = look_figure.draw(result)
    assert list(charts) == list(captions_of("look"))
    spec = charts["rollout"].to_dict()
    assert [panel["title"] for panel in spec["concat"]] == ["Layers 1 to 2", "Layers 1 to 4", "Layers 1 to 6"]
    assert spec["title"]["text"].startswith("Rollout of norm-weighted attention: tiny, by word")
    assert spec["description"].startswith("Rollout to the input. Mixed most into other words")
    # A word that occurs twice has two rows and two columns in every panel.
    assert to_svg(charts["rollout"]).count(">dogs</text>") == 3 * 2 * 2


def test_a_look_of_an_older_version_has_lines_alone():
    result = look(TinyEncoder(), "The dogs bark.")
    older = replace(result, tables={name: table for name, table in result.tables.items() if name != "rollout"})
    assert list(look_figure.draw(older)) == ["lines"]


@pytest.mark.parametrize("old", [False, True])
def test_a_look_at_one_word_draws_its_lines_alone(old: bool):
    result = look(TinyEncoder(), "The dogs bark.", heads=["1-1"], focus="dogs")
    if old:
        # Format 1 had the position among the parameters.
        about = result.provenance
        corpus = {name: value for name, value in about.corpus.items() if name != "focus"}
        parameters = {**about.parameters, "focus": about.corpus["focus"]}
        result = replace(result, provenance=replace(about, corpus=corpus, parameters=parameters))
    spec = look_figure.draw(result)["lines"].to_dict()
    rows = spec["datasets"][spec["concat"][0]["layer"][0]["data"]["name"]]
    assert rows
    assert all(2 in (row["from"], row["to"]) for row in rows)


@pytest.mark.parametrize("behaviour", [["previous", "other"], ["syntactic", "broad"]])
def test_the_map_shows_every_head_twice_on_equal_scales(behaviour: list[str]):
    points = pd.DataFrame([(1, 1, 0.3, 0.1, behaviour[0]), (2, 1, -0.3, -0.1, behaviour[1])])
    points.columns = ["layer", "head", "x", "y", "behaviour"]
    tables = {"points": points, "fit": pd.DataFrame({"heads": [2], "tokens": [9], "stress": [0.125]})}
    about = {"name": "m", "fingerprint": "f"}, {"name": "c", "split": "dev", "fingerprint": "g"}
    chart = headmap.draw(Result("headmap", tables, Provenance(*about, {})))["map"]
    spec = chart.to_dict()
    assert len(spec["concat"]) == 2
    for panel in spec["concat"]:
        encoding = panel["layer"][0]["encoding"]
        (left, right), (bottom, top) = (encoding[axis]["scale"]["domain"] for axis in "xy")
        size = panel["width"], panel["height"]
        assert size[0] / (right - left) == pytest.approx(size[1] / (top - bottom), rel=0.01)
        assert encoding["x"]["axis"] is None, "directions mean nothing"
    encoding = spec["concat"][0]["layer"][0]["encoding"]
    for channel in ("color", "shape"):
        scale = encoding[channel]["scale"]
        looks = [getattr(BEHAVIOUR_LOOKS[name], {"color": "colour"}.get(channel, channel)) for name in scale["domain"]]
        assert set(scale["domain"]) == set(behaviour)
        assert scale["range"] == looks
    assert "stress 0.12" in to_svg(chart)


def test_the_map_says_how_sure_its_divergences_are():
    points = pd.DataFrame([(1, 1, 0.3, 0.1, "other"), (2, 1, -0.3, -0.1, "other")])
    points.columns = ["layer", "head", "x", "y", "behaviour"]
    apart = pd.DataFrame([(1, 1, 2, 1, 9.0, 0.30, 0.28, 0.32)], columns=list(DIVERGENCES[:8]))
    fit = pd.DataFrame({"heads": [2], "tokens": [30], "stress": [0.1]})
    about = {"name": "m", "fingerprint": "f"}, {"name": "c", "fingerprint": "g"}
    made = Result("headmap", {"points": points, "divergences": apart, "fit": fit}, Provenance(*about, {}))
    assert "±0.020 nats" in headmap.draw(made)["map"].to_dict()["title"]["subtitle"][2]


def test_every_behaviour_has_one_look_of_its_own_in_one_order():
    assert tuple(BEHAVIOUR_LOOKS) == BEHAVIOURS
    for field in BehaviourLook._fields:
        assert len({getattr(look, field) for look in BEHAVIOUR_LOOKS.values()}) == len(BEHAVIOURS)


def _luminance(colour: str) -> float:
    """Relative, as WCAG has it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_every_behaviour_stands_out_on_dark_paper(name: str):
    shown, paper = (_luminance(DARK[colour]) for colour in (BEHAVIOUR_LOOKS[name].colour, "white"))
    assert (shown + 0.05) / (paper + 0.05) >= 3


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_the_mark_of_every_behaviour_is_drawn(name: str):
    points = pd.DataFrame([(1, 1, 0.0, 0.0, name)], columns=["layer", "head", "x", "y", "behaviour"])
    tables = {"points": points, "fit": pd.DataFrame({"heads": [1], "tokens": [9], "stress": [0.0]})}
    about = {"name": "m", "fingerprint": "f"}, {"name": "c", "fingerprint": "g"}
    svg = to_svg(headmap.draw(Result("headmap", tables, Provenance(*about, {})))["map"])
    assert BEHAVIOUR_LOOKS[name].colour in svg


@pytest.mark.parametrize("name", ["attention", "heads", "headmap", "corefheads"])
def test_captions_name_panels_by_their_titles(name: str):
    for caption in captions_of(name).values():
        assert caption.endswith(".")
        assert not {"left", "right"} & set(re.findall(r"\w+", caption))
