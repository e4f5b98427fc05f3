"""Words in context drawn: axes, intervals, series told apart, words for screen readers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lamina.analyses.words.contextualize.finetuning import FINETUNING, SIMILARITY
from lamina.figures import to_svg
from lamina.figures.contextualize import draw
from lamina.results import Provenance, Result

COLUMNS = ["representation", "layer", "context", "class", "seed", "split", "chose", "count", "value", "low", "high"]


def score(name: str, layer: int | None, context: str, value: float, *, chose: bool = True) -> list[tuple]:
    """`chose`: dev words chose the epoch."""
    rows = []
    for label in ("food", "all"):
        for split, shift in (("dev", 0.05), ("test", 0.0)):
            at = value + shift
            rows.append(
                (name, layer, context, label, "all", split, split == "dev" and chose, 10, at, at - 0.03, at + 0.03)
            )
    return rows


def made(*, finetuned: bool = False, sizes: tuple[int, ...] = (0, 2), **parameters) -> Result:
    rows = [row for layer in range(3) for row in score("minilm", layer, "full", 0.5 + 0.1 * layer)]
    rows += [row for layer in range(3) for row in score("AVG-minilm", layer, "full", 0.4 + 0.1 * layer)]
    for name in ("glove", "random", "P-minilm input"):
        rows += score(name, None, "full", 0.3)
    rows += score("permuted minilm", 2, "full", 0.1)
    context = [row for size in sizes for layer in range(3) for row in score("minilm", layer, str(size), 0.4)]
    context += [row for size in sizes for row in score("P-minilm input", None, str(size), 0.2)]
    tables = {
        "sclass": pd.DataFrame(rows, columns=COLUMNS).astype({"layer": "Int64"}),
        "context": pd.DataFrame(context, columns=COLUMNS).astype({"layer": "Int64"}),
        "contexts": pd.DataFrame({"split": ["train", "test", "test"], "contexts": [1, 1, 7], "pairs": [30, 10, 5]}),
    }
    if finetuned:
        each = [
            (task, window, setup, layer, seed, 0.5, 0.4, 0.6)
            for task, window in (("pos", "all"), ("near", "2"))
            for setup in ("pretrained", "a", "b")
            for layer in range(3)
            for seed in (("all",) if setup == "pretrained" else ("0", "1", "all"))
        ]
        tables["finetuning"] = pd.DataFrame(each, columns=list(FINETUNING))
        heads = [
            ("pos", seed, layer, head, value, 0.3)
            for seed, value in (("0", 0.8), ("1", 1.0))
            for layer in (1, 2)
            for head in (1, 2)
        ]
        tables["attention_similarity"] = pd.DataFrame(heads, columns=list(SIMILARITY))
    if parameters.get("faithful"):
        tables |= {name: tables[name].assign(chose=False) for name in ("sclass", "context")}
    told = Provenance({"name": "minilm", "fingerprint": "f"}, {"name": "ewt", "fingerprint": "c"}, parameters)
    return Result("contextualize", tables, told)


def values(panel: dict, spec: dict) -> list[dict]:
    return spec["datasets"][panel["data"]["name"]]


def test_layers_has_a_panel_for_words_and_one_for_contexts():
    spec = draw(made())["layers"].to_dict()
    left, right = spec["concat"]
    assert {row["model"] for row in values(left, spec)} == {"AVG-minilm", "glove", "random"}
    assert {row["model"] for row in values(right, spec)} == {"minilm", "P-minilm input", "permuted minilm"}
    flat = [row["layer"] for row in values(left, spec) if row["model"] == "glove"]
    assert flat == [0, 2]
    assert left["layer"][0]["encoding"]["y2"]["field"] == "high"
    assert left["layer"][1]["encoding"]["y"]["title"] == "micro-F1"
    assert "minilm 0.70 at layer 2" in spec["description"]


def test_faithful_draws_dev():
    spec = draw(made(faithful=True))["layers"].to_dict()
    assert "minilm 0.75 at layer 2" in spec["description"]


def test_context_sizes_end_with_the_whole_text_in_order():
    spec = draw(made(sizes=(16, 2)))["context"].to_dict()
    x = spec["concat"][0]["layer"][1]["encoding"]["x"]
    assert x["sort"] == ["2", "16", "whole text"]
    rows = spec["concat"][0]["layer"][1]["encoding"]["color"]["scale"]
    assert rows["domain"] == ["layer 0", "layer 1", "layer 2", "P-minilm input"]
    assert len(set(rows["range"])) == 2, "layers share a colour; vectors without a layer have another"
    assert "0.40 with 2 words on each side" in spec["description"]


def test_no_sweep_no_chart():
    assert set(draw(made(sizes=()))) == {"layers", "contexts"}


def test_the_histogram_counts_all_splits():
    spec = draw(made())["contexts"].to_dict()
    assert spec["description"] == "A bar counts the pairs of all splits that occur this often."
    (rows,) = spec["datasets"].values()
    assert sum(row["pairs"] for row in rows) == 45


@pytest.mark.parametrize("finetuned", [False, True])
def test_everything_draws(finetuned):
    charts = draw(made(finetuned=finetuned))
    assert set(charts) == {"layers", "context", "contexts"} | ({"finetuning", "attention"} if finetuned else set())
    for chart in charts.values():
        assert "<svg" in to_svg(chart)


def test_vectors_without_context_are_drawn_on_the_grid_of_words():
    result = made()
    charts = draw(replace(result, tables={**result.tables, "words": result.tables["sclass"]}))
    assert list(charts)[:2] == ["layers", "words"]
    words = charts["words"].to_dict()
    assert words["title"]["subtitle"] == "as in the paper's figure 3"
    assert words["description"].startswith("Micro-F1: ")


def test_seeds_are_marks_beside_their_mean_and_a_window_is_named():
    spec = draw(made(finetuned=True))["finetuning"].to_dict()
    assert [panel["title"]["subtitle"] for panel in spec["concat"]] == [
        "", "both models through a window of 2 words on each side",
    ]  # fmt: skip
    for panel in spec["concat"]:
        *_, line, _, marks = panel["layer"]
        assert {row["seed"] for row in values(line if "data" in line else panel, spec)} == {"all"}
        assert {row["seed"] for row in values(marks, spec)} == {"0", "1"}
    attention = draw(made(finetuned=True))["attention"].to_dict()
    assert attention["description"] == "Mean cosine of attention: pos 0.90 (other heads 0.30)."


def test_results_without_seeds_and_marks_still_draw():
    result = made(finetuned=True)
    old = {name: table.drop(columns="chose", errors="ignore") for name, table in result.tables.items()}
    table = old["finetuning"]
    old["finetuning"] = table[table["seed"] == "all"].drop(columns=["seed", "window"])
    old["attention_similarity"] = old["attention_similarity"].drop(columns="seed")
    charts = draw(replace(result, tables=old))
    assert "minilm 0.70 at layer 2" in charts["layers"].to_dict()["description"]
    assert set(charts) == {"layers", "context", "contexts", "finetuning", "attention"}


def test_missing_values_draw():
    result = made()
    result.tables["sclass"].loc[3, ["value", "low", "high"]] = np.nan
    assert "<svg" in to_svg(draw(result)["layers"])


def test_descriptions_are_of_the_layer_that_findings_are_about():
    """The finding said layer 5 (.55), the caption beside it layer 6 (.52)."""
    result = made()
    contrasts = pd.DataFrame({"family": ["layers", "chosen layer"], "layer": pd.array([0, 1], "Int64")})
    charts = draw(replace(result, tables={**result.tables, "contrasts": contrasts}))
    assert "minilm 0.60 at layer 1" in charts["layers"].to_dict()["description"]
    assert charts["context"].to_dict()["description"].startswith("Micro-F1 of layer 1: ")
