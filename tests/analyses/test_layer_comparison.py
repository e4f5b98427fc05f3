"""Measures by layer of several models: on relative depth, each with its own interval, never called a difference."""

from __future__ import annotations

import pytest

import lamina
from lamina.analyses.layer_comparison import HIGHEST, UNPAIRED
from lamina.errors import InputError
from lamina.results import Result
from lamina.testing import TinyEncoder

TEXTS = [["the", "dog", "saw", "the", "cat"], ["the", "cat", "ran"], ["a", "dog", "ran"]] * 4


def named(name: str, **shape: int) -> TinyEncoder:
    encoder = TinyEncoder(**shape)
    encoder.name = name
    return encoder


@pytest.fixture(scope="module")
def geometries() -> list[Result]:
    return [
        lamina.geometry(named("small", blocks=2), TEXTS, samples=10),
        lamina.geometry(named("deep", blocks=4), TEXTS, samples=10),
    ]


def test_layers_are_shares_of_each_models_own_depth(geometries, tmp_path):
    result = lamina.compare(*geometries, out=tmp_path / "compare")
    depth = result.tables["depth"]
    own = depth[depth["task"] == "Anisotropy"]
    assert own[own["model"] == "small"]["relative_depth"].tolist() == [0, 0.5, 1]
    assert own[own["model"] == "deep"]["relative_depth"].tolist() == [0, 0.25, 0.5, 0.75, 1]
    given = geometries[1].tables["layers"].query("model == 'deep' and measure == 'anisotropy'")
    assert own[own["model"] == "deep"][["value", "low", "high"]].to_numpy().tolist() == (
        given[["value", "low", "high"]].to_numpy().tolist()
    )
    top = result.tables["compare"].query("task == 'Anisotropy' and model == 'deep'").iloc[0]
    assert (top["statistic"], top["layer"]) == (HIGHEST, given.loc[given["value"].idxmax(), "layer"])
    # Nothing is tested, so nothing is found.
    assert result.tables["differences"].empty
    assert result.findings == ()
    assert result.provenance.skipped[UNPAIRED] == 4
    assert result.provenance.model["name"] == "small and deep"
    charts = lamina.figures.draw(Result.load(tmp_path / "compare"))
    assert list(charts) == ["depth"]
    drawn = charts["depth"].to_dict()
    assert drawn["title"]["text"] == "Measures by depth: small and deep on data"
    assert "Anisotropy, highest: small " in drawn["description"]


def test_what_only_one_model_has_is_left_out_and_counted():
    encoder, decoder = (
        lamina.attention(each, TEXTS, samples=10, repeated=0)
        for each in (named("both ways"), named("backwards", causal=True))
    )
    result = lamina.compare(encoder, decoder)
    tasks = set(result.tables["depth"]["task"])
    assert "Attention to the previous token" in tasks
    assert "Attention to the next token" not in tasks
    assert result.provenance.skipped["measures that only one of the models has"] == 1


def test_what_cannot_be_put_side_by_side_is_refused(geometries):
    attention = lamina.attention(named("other"), TEXTS, samples=10)
    with pytest.raises(InputError, match="these are of geometry and attention"):
        lamina.compare(geometries[0], attention)
    with pytest.raises(InputError, match="give results of different models; these are of small, small"):
        lamina.compare(geometries[0], geometries[0])
    other = lamina.geometry(named("third"), TEXTS[:3], samples=10)
    with pytest.raises(InputError, match="different texts"):
        lamina.compare(geometries[0], other)
