"""Neighbours drawn as a table of words, contexts as a map: what is chosen, told apart and said in words."""

from __future__ import annotations

import pandas as pd
import pytest

from lamina.analyses.words.neighbours import neighbours
from lamina.corpora import Corpus
from lamina.figures import to_svg
from lamina.figures.neighbours import around, draw, established_contexts, varied
from lamina.results import Result
from lamina.testing import TinyEncoder
from lamina.types import Edge, Span, Text

CLASSES = ("food", "act", "act", "", "group", "group", "group", "act+food", "state", "event", "time", "place")


def made(tmp_path, *, blocks: int = 2, classes: tuple[str, ...] = CLASSES) -> Result:
    texts = [
        Text(
            f"s{number}",
            ("see", "[", "the", "Suit", "]", f"number{number}", "שלום", "😀"),
            edges={"supersense": (Edge(tuple(name.split("+")) if name else (), Span(3, 4)),)},
        )
        for number, name in enumerate(classes)
    ]
    corpus = Corpus("made", "dev", "sentence", "", f"{blocks} {classes}", source=lambda: iter(texts))
    vectors = tmp_path / "own.txt"
    vectors.write_text("suit 1 0\nsee 1 0.1\n")
    return neighbours(TinyEncoder(blocks=blocks), corpus, word="suit", vectors=str(vectors), store=tmp_path)


def test_a_panel_a_context_of_different_classes(tmp_path):
    spec = draw(made(tmp_path))["neighbours"].to_dict()
    assert [panel["title"]["subtitle"] for panel in spec["concat"]] == [
        "context 0, class: food",
        "context 1, class: act",
        "context 4, class: group",
        "context 8, class: state",
    ]
    panel = spec["concat"][0]
    assert panel["title"]["text"] == "see [ the [Suit] ] number0 שלום 😀"
    columns = panel["layer"][1]["encoding"]["x"]["scale"]["domain"]
    assert columns == ["own", "layer 0", "layer 1", "layer 2"]
    data = spec["datasets"][panel["data"]["name"]]
    assert {row["kind"] for row in data if row["neighbour"] == "see"} == {"near without context too"}
    assert {row["kind"] for row in data if row["neighbour"] == "the"} <= {"near with context only"}
    assert "4 of 12 contexts" in spec["title"]["text"]
    assert "at layer 2 near " in spec["description"]


def test_many_layers_are_thinned_out(tmp_path):
    charts = draw(made(tmp_path, blocks=12))
    columns = charts["neighbours"].to_dict()["concat"][0]["layer"][1]["encoding"]["x"]["scale"]["domain"]
    assert len(columns) == 9
    assert (columns[1], columns[-1]) == ("layer 0", "layer 12")
    assert len(charts["senses"].to_dict()["concat"]) == 8


def test_classes_have_colour_and_shape_rare_ones_one_name(tmp_path):
    spec = draw(made(tmp_path))["senses"].to_dict()
    encoding = spec["concat"][0]["encoding"]
    names = encoding["color"]["scale"]["domain"]
    assert len(names) == 8
    assert names[-2:] == ["other classes", "no class"]
    assert {"group", "act"} <= set(names)
    for channel in ("color", "shape"):
        assert encoding[channel]["scale"]["domain"] == names
        assert len(set(encoding[channel]["scale"]["range"])) == len(names)
    assert spec["description"] == "12 contexts. Fewer than two classes have enough contexts to be compared."


def test_separation_is_said(tmp_path):
    spec = draw(made(tmp_path, classes=("food",) * 5 + ("act",) * 5))["senses"].to_dict()
    assert "Largest silhouette at layer " in spec["description"]
    assert spec["concat"][0]["title"]["subtitle"][0].startswith("silhouette ")


def test_shown_contexts_have_the_senses_that_were_shown_to_lie_apart(tmp_path):
    """The example "number" showed four contexts of one sense, labelled as four classes."""
    contexts = pd.DataFrame(
        {
            "context": range(6),
            "class": ["communication", "quantity", "group", "attribute", "communication", "communication"],
            "sentence": [
                "the number is dropping",
                "a number",
                "a number of rebels",
                "no",
                "call the number",
                "call the number",
            ],
            "silhouette": [-0.5, float("nan"), 0.7, float("nan"), 0.6, 0.6],
        }
    )
    assert [row["context"] for row in varied(contexts, 4)] == [2, 4]
    separation = made(tmp_path).tables["separation"].iloc[:1].assign(p_adjusted=0.01, difference=0.5)
    tables = {"contexts": contexts, "separation": separation}
    assert established_contexts(tables)["silhouette"].notna().any()
    assert established_contexts({**tables, "separation": separation.assign(p_adjusted=0.4)})["silhouette"].isna().all()


def test_titles_name_the_split_that_words_come_from(tmp_path):
    assert "on made (dev)" in draw(made(tmp_path))["senses"].to_dict()["title"]["text"]


@pytest.mark.parametrize("classes", [CLASSES, ("",), ("food",), ("food",) * 5 + ("act",) * 5])
def test_everything_draws(tmp_path, classes):
    charts = draw(made(tmp_path, classes=classes))
    assert list(charts) == ["neighbours", "senses"]
    for chart in charts.values():
        assert "<svg" in to_svg(chart)


def test_no_neighbours_no_table(tmp_path):
    result = made(tmp_path)
    empty: pd.DataFrame = result.tables["neighbours"].iloc[:0]
    tables = {**result.tables, "neighbours": empty}
    assert list(draw(Result("neighbours", tables, result.provenance))) == ["senses"]


def test_sentences_are_cut_between_words():
    long = "word " * 30 + "[Suit] " + "word " * 30
    shown = around(long.strip(), "suit")
    assert shown == f"… {'word ' * 9}[Suit]{' word' * 9} …"
