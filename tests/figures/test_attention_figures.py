"""The attention figures: every head is shown, units are named, uniform attention stands beside."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from lamina.analyses.heads.attention import GRADIENTS
from lamina.analyses.heads.behaviours import FIRST
from lamina.analyses.heads.surface import MEASURES, PATTERNS, SHARE_OF_TEXTS, SURFACE
from lamina.figures import captions_for, to_svg
from lamina.figures.attention import ENTROPIES, PATTERN_COLOURS, SHARES, TARGETS, cell_width, draw
from lamina.results import Provenance, Result


def made(layers: int = 3, heads: int = 4, *, decoder: bool = False, gradients: bool = True) -> Result:
    rng = np.random.default_rng(0)
    rows, kinds, slopes = [], [], []
    for layer in range(1, layers + 1):
        for head in range(1, heads + 1):
            drawn = dict(zip(MEASURES, rng.random(len(MEASURES)), strict=True))
            if decoder:
                drawn |= {name: np.nan for name in MEASURES if "separator" in name}
            rows += [(layer, head, name, value, value - 0.01, value + 0.01, 0.1) for name, value in drawn.items()]
            kinds += [(layer, head, name, 0.2, 0.1, 0.3) for name in PATTERNS]
            targets = [name for name in TARGETS if name != ("separator" if decoder else FIRST)]
            slopes += [(layer, head, name, rng.random() / 100, 1e-4, 1e-2) for name in targets]
    tables = {
        "surface": pd.DataFrame(rows, columns=list(SURFACE[:7])),
        "patterns": pd.DataFrame(kinds, columns=list(SHARE_OF_TEXTS)),
    }
    if gradients:
        tables["gradients"] = pd.DataFrame(slopes, columns=list(GRADIENTS))
    tables["layers"] = pd.concat([layer_means(tables[name], name) for name in tables], ignore_index=True)
    corpus = {"name": "ewt", "split": "dev", "fingerprint": "c"}
    return Result("attention", tables, Provenance({"name": "minilm", "fingerprint": "f"}, corpus, {}))


def layer_means(table: pd.DataFrame, of: str) -> pd.DataFrame:
    """As in `layers.csv`."""
    named = table.set_axis(["layer", "head", "kind", "value", "low", "high", "baseline"][: table.shape[1]], axis=1)
    means = named.groupby(["layer", "kind"], as_index=False)[["value", "low", "high"]].mean()
    return means.assign(of=of, baseline=0.1)


@pytest.fixture(scope="module")
def specs() -> dict[str, dict]:
    """Every chart of one result, drawn once: read, never changed."""
    return {name: chart.to_dict() for name, chart in draw(made()).items()}


def test_the_names_shown_are_those_of_the_tables():
    assert (*SHARES, *ENTROPIES) == MEASURES
    assert tuple(PATTERN_COLOURS) == PATTERNS


def test_every_chart_is_described_and_drawn(specs):
    assert list(specs) == ["atlas", "layers", "entropy", "patterns", "gradients"]
    for spec in specs.values():
        assert spec["description"].endswith(".")
        assert "minilm on ewt (dev)" in to_svg(spec)


def test_without_gradients_there_is_no_chart_of_them():
    assert "gradients" not in draw(made(gradients=False))


def test_the_atlas_has_a_grid_a_measure_and_two_scales(specs):
    shares, entropies = specs["atlas"]["concat"]
    assert [len(part["concat"]) for part in (shares, entropies)] == [8, 2]
    cells = shares["concat"][0]["layer"][0]
    assert cells["encoding"]["color"]["scale"]["domain"] == [0, 1]
    assert cells["encoding"]["color"]["legend"]["title"] == "share of attention"
    assert shares["concat"][0]["title"]["subtitle"] == "uniform attention: 0.10"
    assert entropies["concat"][0]["layer"][0]["encoding"]["color"]["legend"]["title"] == "nats"


def test_cells_too_narrow_for_numbers_have_none():
    assert cell_width(32) < 21
    grid = draw(made(heads=32))["atlas"].to_dict()["concat"][0]["concat"][0]
    assert [layer["mark"]["type"] for layer in grid["layer"]] == ["rect"]


@pytest.mark.parametrize("name", ["layers", "entropy", "gradients"])
def test_by_layer_a_point_a_head_and_a_line_of_means(specs, name: str):
    for panel in specs[name]["concat"]:
        marks = [layer["mark"]["type"] for layer in panel["layer"]]
        assert marks == ["area", "point", "line"] + ["rule"] * (name != "gradients")
        assert panel["layer"][1]["encoding"]["x"]["axis"]["values"] == [1, 2, 3]
        assert panel["layer"][1]["encoding"]["y"]["title"]


def test_patterns_are_stacked_and_each_has_its_interval(specs):
    stacked, each = specs["patterns"]["concat"]
    assert stacked["mark"]["type"] == "bar"
    assert [layer["mark"]["type"] for layer in each["layer"]] == ["area", "line", "point"]


def test_results_without_layers_are_drawn_without_intervals():
    older = made()
    del older.tables["layers"]
    charts = {name: chart.to_dict() for name, chart in draw(older).items()}
    assert len(charts["patterns"]["concat"]) == 1
    for name in ("layers", "entropy", "gradients"):
        assert all(panel["layer"][0]["mark"]["type"] == "point" for panel in charts[name]["concat"])


def test_norm_weighted_attention_is_named():
    result = made()
    result.provenance.parameters["weights"] = "norm"
    shares = draw(result)["atlas"].to_dict()["concat"][0]
    assert shares["concat"][0]["layer"][0]["encoding"]["color"]["legend"]["title"] == "share of norm-weighted attention"


def test_a_decoder_has_a_first_token_and_no_separators():
    charts = draw(made(decoder=True))
    special, _ = charts["layers"].to_dict()["concat"]
    assert special["layer"][0]["encoding"]["color"]["scale"]["domain"] == ["first token", ". and ,"]
    (gradients,) = charts["gradients"].to_dict()["concat"]
    assert gradients["layer"][0]["encoding"]["color"]["scale"]["domain"][0] == "first token"


def test_what_no_head_of_a_decoder_could_do_is_not_drawn_and_said():
    result = made(decoder=True)
    surface = result.tables["surface"]
    # No token sees the next one, and the first sees itself alone.
    surface.loc[surface["measure"].isin(["to_next", "entropy_first"]), ["value", "low", "high", "baseline"]] = 0.0
    charts = {name: chart.to_dict() for name, chart in draw(result).items()}

    shares, entropies = (part["concat"] for part in charts["atlas"]["concat"])
    assert [grid["title"]["text"] for grid in (*shares, *entropies)] == [
        "To oneself",
        "To the previous token",
        "To the first token",
        "To full stops and commas",
        "Entropy, all tokens",
    ]
    _, neighbours = charts["layers"]["concat"]
    assert neighbours["layer"][0]["encoding"]["color"]["scale"]["domain"] == ["oneself", "previous token"]
    assert len(charts["entropy"]["concat"]) == 1
    said = captions_for(result)
    assert "by construction: to the next token, entropy, first token." in said["atlas"]
    assert "by construction: entropy, first token." in said["entropy"]
    assert "by construction" not in captions_for(made())["atlas"]


def test_a_type_that_texts_of_one_segment_cannot_have_is_not_drawn():
    result = made()
    for table, column in (("patterns", "pattern"), ("layers", "kind")):
        own = result.tables[table]
        own.loc[own[column] == "block", own.columns.intersection(["share", "value", "low", "high"])] = 0.0
    bars = draw(result)["patterns"].to_dict()["concat"][0]

    assert bars["encoding"]["color"]["scale"]["domain"] == [name for name in PATTERNS if name != "block"]


def test_measures_that_no_text_has_are_left_out():
    result = made()
    surface = result.tables["surface"]
    surface.loc[surface["measure"].str.contains("separator"), ["value", "low", "high", "baseline"]] = np.nan
    charts = draw(result)
    assert len(charts["atlas"].to_dict()["concat"][0]["concat"]) == 5
    assert len(charts["layers"].to_dict()["concat"]) == 2
