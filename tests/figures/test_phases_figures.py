"""The token map and the curves of the phases."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from lamina.figures import to_svg
from lamina.figures.phases import draw as draw_phases
from lamina.figures.token_map import MOST_DRAWN, drawn_rows
from lamina.figures.token_map import draw as draw_map
from lamina.results import Provenance, Result

WORDS = ["[CLS]", "Who", "barks", "[SEP]", "Dogs", "bark", "Cats", "mew", "[SEP]"]


def tokens(predicted: tuple[int, ...] = (4,), layers: int = 3, fit: str = "layer") -> pd.DataFrame:
    draw = np.random.default_rng(0)
    rows = []
    for layer in range(layers):
        for at, word in enumerate(WORDS):
            sentence = {4: 0, 5: 0, 6: 1, 7: 1}.get(at, -1)
            x, y = draw.normal(size=2) * 10**layer
            roles = (at in (1, 2), sentence == 0, at == 4, at in predicted)
            rows.append(("q", "pca", fit, layer, at, word, sentence, *roles, x, y, at % 2))
    columns = "example,method,fit,layer,token,word,sentence,question,support,gold,predicted,x,y,cluster"
    return pd.DataFrame(rows, columns=columns.split(","))


def mapped(table: pd.DataFrame, **settings: object) -> Result:
    layers = int(table["layer"].max()) + 1
    projection = pd.DataFrame(
        {
            "layer": range(layers),
            "tokens": 9,
            "left_out": [0] * (layers - 1) + [1],
            "explained_x": 0.2,
            "explained_y": 0.1,
            "clusters": 2,
            "silhouette": 0.5,
        }
    )
    said = ("q", "Who barks?", "Dogs", "Dogs", 0.8, 1.0, 1.0)
    columns = ["example", "question", "accepted", "predicted", "confidence", "exact_match", "f1"]
    parameters = {"example": "q", "method": "pca", "fit": "layer", "clusters": None, "seed": 0, **settings}
    provenance = Provenance({"name": "minilm", "fingerprint": "f"}, {"name": "pets", "fingerprint": "g"}, parameters)
    tables = {"tokens": table, "projection": projection, "answer": pd.DataFrame([said], columns=columns)}
    return Result("token_map", tables, provenance)


def test_the_map_has_a_slider_over_layers_and_a_choice_of_colours() -> None:
    chart = draw_map(mapped(tokens()))["map"].to_dict()
    bound = {each["name"]: each["bind"] for each in chart["params"]}
    assert (bound["layer"]["min"], bound["layer"]["max"]) == (0, 2)
    assert bound["colouring"]["options"] == ["role", "sentence", "cluster"]
    assert "hold 30% to 30%" in " ".join(chart["title"]["subtitle"])
    assert "1 outlier token per layer left out" in " ".join(chart["title"]["subtitle"])
    assert "silhouette 0.50" in chart["description"]


def test_the_page_for_print_has_every_layer() -> None:
    charts = draw_map(mapped(tokens()))
    page = charts["layers"].to_dict()
    assert [panel["title"] for panel in page["concat"]] == [f"Layer {layer}: 30% of variance" for layer in range(3)]
    for chart in charts.values():
        assert to_svg(chart).startswith("<svg")


def test_both_axes_are_to_the_same_scale_and_fill_each_panel() -> None:
    table = tokens()
    rows = drawn_rows(table)
    for layer, own in rows.groupby("layer"):
        spans = own[["x", "y"]].max() - own[["x", "y"]].min()
        assert spans.max() == pytest.approx(2, abs=0.01)
        given = table[table["layer"] == layer][["x", "y"]]
        before = given.max() - given.min()
        assert spans["x"] / spans["y"] == pytest.approx(before["x"] / before["y"], rel=0.01)
    together = drawn_rows(tokens(fit="all"))
    small = together[together["layer"] == 0][["x", "y"]]
    assert (small.max() - small.min()).max() < 0.2


def test_roles_shapes_and_the_sentence_of_a_wrong_answer() -> None:
    right = drawn_rows(tokens())
    by_word = dict(zip(right["word"], right["role"], strict=True))
    assert by_word == {
        "[CLS]": "special token",
        "[SEP]": "special token",
        "Who": "question",
        "barks": "question",
        "Dogs": "predicted answer",
        "bark": "supporting fact",
        "Cats": "other",
        "mew": "other",
    }
    wrong = drawn_rows(tokens(predicted=(6,)))
    by_word = dict(zip(wrong["word"], wrong["role"], strict=True))
    assert by_word["Cats"] == "predicted answer"
    assert by_word["mew"] == "sentence of the wrong answer"
    assert by_word["Dogs"] == "supporting fact"
    assert wrong.loc[wrong["gold"], "word"].unique().tolist() == ["Dogs"]


def test_a_long_context_is_thinned_out_but_not_its_answer() -> None:
    base = tokens(layers=1)
    more = base[base["token"] == 7]
    extra = pd.concat([more.assign(token=9 + at, word="mew") for at in range(1500)])
    rows = drawn_rows(pd.concat([base, extra]))
    assert len(rows) <= MOST_DRAWN + 20
    assert "predicted answer" in set(rows["role"])


def phased(*, answers: bool) -> Result:
    groups = ("all", "right", "confident wrong", "low confidence") if answers else ("all",)
    rows = []
    for model in ("minilm", "minilm (shuffled roles)", "minilm (random)"):
        for layer in range(3):
            for group in groups:
                for measure in ("within_question", "within_question_adjusted", "answer_apart", "ami_roles"):
                    value = 0.1 * layer + 0.5 * (measure == "within_question")
                    rows.append((model, layer, group, measure, 10, value, value - 0.05, value + 0.05))
    columns = ["model", "layer", "group", "measure", "count", "value", "low", "high"]
    tables = {"phases": pd.DataFrame(rows, columns=columns)}
    if answers:
        told = [("minilm", pd.NA, name, 10, 0.6, 0.5, 0.7, 0.1, np.nan) for name in ("confidence", "length")]
        told += [("minilm", layer, "vectors", 10, 0.55, 0.4, 0.7, 0.2, 0.6) for layer in range(3)]
        names = ["model", "layer", "feature", "count", "auc", "low", "high", "p", "p_holm"]
        tables["failure"] = pd.DataFrame(told, columns=names).astype({"layer": "Int64"})
    corpus = {"name": "pets", "split": "test", "fingerprint": "g"}
    return Result("phases", tables, Provenance({"name": "minilm", "fingerprint": "f"}, corpus, {"confident": 0.5}))


def test_curves_are_of_adjusted_similarities_beside_twin_and_shuffled_roles() -> None:
    charts = draw_phases(phased(answers=False))
    assert list(charts) == ["roles"]
    chart = charts["roles"].to_dict()
    assert [panel["title"]["text"] for panel in chart["concat"]] == [
        "Within the question",
        "Gold answer apart",
        "Clusters and roles",
    ]
    assert "0.00 at layer 0, 0.20 at layer 2" in chart["description"]
    assert "minilm (shuffled roles)" in json.dumps(chart)
    assert to_svg(charts["roles"]).startswith("<svg")


def test_answers_and_failures_are_drawn_for_a_model_that_answers() -> None:
    charts = draw_phases(phased(answers=True))
    assert list(charts) == ["roles", "answers", "failure"]
    assert "low confidence (10)" in json.dumps(charts["answers"].to_dict())
    assert "output confidence 0.60 at layer 0" in charts["failure"].to_dict()["description"]
    for chart in charts.values():
        assert to_svg(chart).startswith("<svg")
