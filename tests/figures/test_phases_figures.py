"""The token map and the curves of the phases."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pandas as pd
import pytest

from lamina.analyses.answering.failure import CONTRAST, FAILURE
from lamina.analyses.answering.phases import phases
from lamina.analyses.answering.streaming import DIFFERENCES, PHASES
from lamina.figures import captions_for, to_svg
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
            "stability": 1.0,
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
    # The slider's layer and no other, in every mark: some have data apart, which no filter above reaches.
    panel = chart["concat"][0]
    assert (panel["width"], panel["height"]) == (460, 460)
    assert all({"filter": "datum.layer == layer"} in mark["transform"] for mark in panel["layer"])


def test_wrong_14_clusters_that_depend_on_the_seed_are_not_drawn() -> None:
    result = mapped(tokens())
    result.tables["projection"]["stability"] = [1.0, 0.5, 1.0]
    chart = draw_map(result)["map"].to_dict()
    rows = _values(chart)
    assert {row["cluster"] for row in rows if row["layer"] == 1} == {-1}
    assert {row["cluster"] for row in rows if row["layer"] == 0} == {0, 1}
    assert "layer 1: clusters depend on the seed" in chart["description"]


def _values(chart: object) -> list[dict]:
    """The rows of the first layer that has some."""
    found = [chart]
    while found:
        part = found.pop()
        if isinstance(part, dict):
            if isinstance(part.get("values"), list) and part["values"] and "cluster" in part["values"][0]:
                return part["values"]
            found += part.values()
        elif isinstance(part, list):
            found += part
    return []


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
    measures = ("within_question", "within_question_adjusted", "answer_apart", "ami_roles")
    rows, gaps = [], []
    for layer, group, measure in product(range(3), groups, measures):
        value = 0.1 * layer + 0.5 * (measure == "within_question")
        numbers = (value, value - 0.05, value + 0.05)
        for model in ("minilm", "minilm (pseudo roles)", "minilm (random)"):
            rows.append((model, layer, group, measure, 1, 10, *numbers, float("nan")))
        for against in ("pseudo roles", "random"):
            gaps.append(("minilm", against, layer, group, measure, 1, 10, value, 0.0, *numbers, 0.03, 8, 0, "document"))
    tables = {
        "phases": pd.DataFrame(rows, columns=list(PHASES)),
        "differences": pd.DataFrame(gaps, columns=list(DIFFERENCES)),
    }
    if answers:
        rows = [("qa1", 10, 6, 0.6, 0.3, 0.9, 2, 3, 1, True), ("qa2", 10, 2, 0.2, 0.0, 0.6, 2, 3, 5, True)]
        rows.append(("qa15", 5, 0, 0.0, 0.0, 0.5, 2, 5, 0, False))
        tasks = pd.DataFrame(rows, columns=list(phases.tables["tasks"].columns))
        tables |= {"tasks": tasks, "contrast": contrasted(), "failure": failing()}
    corpus = {"name": "pets", "split": "test", "fingerprint": "g"}
    return Result("phases", tables, Provenance({"name": "minilm", "fingerprint": "f"}, corpus, {"confident": 0.5}))


def contrasted() -> pd.DataFrame:
    rows = [
        (
            "minilm",
            task,
            layer,
            measure,
            1,
            *(0.4, 0.3, 0.5),
            *(0.2, 0.1, 0.3),
            *(0.2, 0.1, 0.3),
            0.04 if layer else 0.2,
            *(8, 0, "document"),
            *(8, 6, 1),
        )
        for task, layer, measure in product(("all", "qa1", "qa2"), range(3), ("answer_apart", "predicted_silhouette"))
    ]
    return pd.DataFrame(rows, columns=list(CONTRAST))


def failing() -> pd.DataFrame:
    common = {"count": 10, "documents": 5, "seeds": 1, "auc": 0.6, "low": 0.5, "high": 0.7}
    gains = {"gain_auc": 0.02, "gain_auc_low": -0.01, "gain_auc_high": 0.05}
    told = [common | {"model": "minilm", "layer": pd.NA, "feature": name} for name in ("confidence", "length")]
    told += [common | gains | {"model": "minilm", "layer": layer, "feature": "vectors"} for layer in range(3)]
    return pd.DataFrame(told, columns=list(FAILURE)).astype({"layer": "Int64"})


def test_curves_are_of_adjusted_similarities_beside_twin_and_pseudo_roles() -> None:
    charts = draw_phases(phased(answers=False))
    assert list(charts) == ["roles", "differences"]
    titles = ["Within the question", "Gold answer apart", "Clusters and roles"]
    for chart in charts.values():
        assert [panel["title"]["text"] for panel in chart.to_dict()["concat"]] == titles
        assert to_svg(chart).startswith("<svg")
    chart = charts["roles"].to_dict()
    assert "0.00 at layer 0, 0.20 at layer 2" in chart["description"]
    assert "minilm (pseudo roles)" in json.dumps(chart)
    assert "minus the random-weights twin" in json.dumps(charts["differences"].to_dict())


def test_answers_and_failures_are_drawn_for_a_model_that_answers() -> None:
    charts = draw_phases(phased(answers=True))
    assert list(charts) == ["tasks", "roles", "differences", "answers", "contrast", "failure"]
    answers = charts["answers"].to_dict()
    assert [panel["title"] for panel in answers["concat"]] == [
        {"text": "qa1: gold answer apart", "subtitle": "6 right, 4 wrong"},
        {"text": "qa2: gold answer apart", "subtitle": "2 right, 8 wrong"},
    ]
    assert "qa1: gold answer apart: right 0.40 at layer 0" in answers["description"]
    assert "output confidence 0.60 at layer 0" in charts["failure"].to_dict()["description"]
    assert (
        "Beyond the model's confidence: minilm, vectors 0.02 at layer 0" in charts["failure"].to_dict()["description"]
    )
    contrast = charts["contrast"].to_dict()
    assert [panel["title"]["text"] for panel in contrast["concat"]] == [
        "Gold answer apart",
        "Silhouette of the prediction",
    ]
    assert "datum.sure" in json.dumps(contrast)
    for chart in charts.values():
        assert to_svg(chart).startswith("<svg")


def test_answers_of_results_without_tasks_are_not_drawn_across_tasks() -> None:
    result = phased(answers=True)
    older = {**result.tables, "contrast": result.tables["contrast"].drop(columns=["task"])}
    assert "answers" not in draw_phases(Result("phases", older, result.provenance))


def test_a_wrong_answer_stands_beside_a_right_one() -> None:
    right, wrong = mapped(tokens()), mapped(tokens(predicted=(6,)))
    answer = pd.concat(
        [
            right.tables["answer"].assign(example="q"),
            right.tables["answer"].assign(example="r", predicted="Cats", exact_match=0.0, question="Who mews?"),
        ]
    )
    tables = {
        "tokens": pd.concat([right.tables["tokens"], wrong.tables["tokens"].assign(example="r")]),
        "projection": pd.concat([right.tables["projection"].assign(example=name) for name in ("q", "r")]),
        "answer": answer,
    }
    result = Result("token_map", tables, right.provenance)
    charts = draw_map(result)
    beside = charts["map"].to_dict()
    assert [panel["title"]["text"] for panel in beside["concat"]] == ["Who barks?", "Who mews?"]
    assert [panel["title"]["subtitle"][0] for panel in beside["concat"]] == [
        "Answered correctly: Dogs, confidence 0.80.",
        "Answered incorrectly: Cats, confidence 0.80.",
    ]
    assert {each["name"] for each in beside["params"]} == {"layer", "colouring"}
    layers = [panel["title"] for panel in charts["layers"].to_dict()["concat"]]
    assert layers[:2] == [
        "Layer 0, answered correctly: 30% of variance",
        "Layer 0, answered incorrectly: 30% of variance",
    ]
    assert "Who mews? Answered incorrectly: Cats, confidence 0.80." in captions_for(result)["map"]
    for chart in charts.values():
        assert to_svg(chart).startswith("<svg")


def test_several_seeds_are_said() -> None:
    result = phased(answers=False)
    many = {name: table.assign(seeds=5) for name, table in result.tables.items()}
    drawn = draw_phases(Result("phases", many, result.provenance))["roles"].to_dict()
    assert "mean over 5 seeds; shaded: 95 % interval over documents and seeds" in json.dumps(drawn)
