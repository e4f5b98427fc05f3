"""Several models side by side, by what was measured of them."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

import lamina
from lamina.corpora import Corpus, corpus_from
from lamina.corpora.learning import Splits
from lamina.results import Provenance, Result
from lamina.testing import TinyEncoder
from lamina.types import Edge, Span, Text

WORDS = [("the", "DET"), ("dogs", "NOUN"), ("bark", "VERB"), ("now", "ADV")]


def texts(count: int, split: str) -> Corpus:
    """Sentences that differ in one word, each a document of its own."""
    edges = {"pos": tuple(Edge((tag,), Span(at, at + 1)) for at, (_, tag) in enumerate(WORDS))}
    words = tuple(word for word, _ in WORDS)
    made = [
        Text(f"t{at}", (words[0], f"{split}s{at}", *words[2:]), edges=edges, doc=f"{split}{at}") for at in range(count)
    ]
    return corpus_from(made, name="pets", split=split)


@pytest.fixture(scope="module")
def encoders():
    named = {name: TinyEncoder(seed=seed) for seed, name in enumerate(("tiny", "other", "third"))}
    for name, encoder in named.items():
        encoder.name = name
    return named


@pytest.fixture(scope="module")
def kept(encoders, make_geometry, tmp_path_factory):
    """All were probed on the same texts; two have a geometry too, and an older one."""
    root = tmp_path_factory.mktemp("kept")
    splits = Splits(texts(20, "train"), texts(6, "dev"))
    for name, encoder in encoders.items():
        made = make_geometry(model=name, layers=3)
        about = {"name": name, "fingerprint": encoder.fingerprint}
        for age, year in (("new", 2026), ("old", 2025)) if name != "third" else ():
            dated = replace(made.provenance, model=about, created=f"{year}-01-01T00:00:00+00:00")
            replace(made, provenance=dated).save(root / f"geometry-{name}-{age}", charts=False)
        few = {"tasks": ["pos"], "probes": ["cumulative"], "seeds": 1, "twin": False, "steps": 20, "samples": 20}
        lamina.probe(encoder, splits, **few, store=root / ".store", out=root / f"probe-{name}")
    return root


@pytest.fixture
def server(client, encoders, kept):
    return client(models=encoders, folders=[kept])


def test_results_stand_side_by_side_by_analysis_the_newest_of_each(server):
    found = server.post("/api/compare", json={"model": "tiny", "other": "other"}).json()
    assert found["names"] == ["tiny", "other"]
    beside = {
        each["results"][0]["analysis"]: [result["name"] for result in each["results"]] for each in found["beside"]
    }
    assert set(beside) == {"geometry", "probe"}
    assert [name.split("/")[-1] for name in beside["geometry"]] == ["geometry-tiny-new", "geometry-other-new"]
    assert found["diff"] is None


def test_probed_models_are_drawn_on_relative_depth(server):
    found = server.post("/api/compare", json={"model": "tiny", "other": "other"}).json()
    assert found["why_not"] == ""
    assert found["figures"]
    assert all(figure["spec"]["$schema"] and figure["summary"] for figure in found["figures"])
    assert found["findings"][0]["text"]
    assert found["left_out"] == []


def test_three_models_are_compared(server):
    asked = {"model": "tiny", "other": "other", "further": ["third"]}
    found = server.post("/api/compare", json=asked).json()
    assert found["names"] == ["tiny", "other", "third"]
    beside = {each["results"][0]["analysis"]: len(each["results"]) for each in found["beside"]}
    assert beside == {"geometry": 2, "probe": 3}
    depth = next(figure for figure in found["figures"] if figure["name"] == "depth")
    assert depth["spec"]["concat"][0]["layer"][1]["encoding"]["color"]["scale"]["domain"] == ["tiny", "other", "third"]


def test_more_than_six_models_are_refused(server):
    asked = {"model": "tiny", "other": "other", "further": ["third"] * 5}
    assert server.post("/api/compare", json=asked).status_code == 422


def test_where_to_read_a_task_is_told(server, encoders, kept, monkeypatch):
    """The best layer of every model, the best of all first."""
    rows = [("pos", "other", 2, 0.9, True), ("pos", "tiny", 1, 0.8, False), ("pos", "other", 1, 0.7, False)]
    table = pd.DataFrame(
        [(task, model, layer, value, value - 0.1, value + 0.1, tied) for task, model, layer, value, tied in rows],
        columns=["task", "model", "layer", "value", "low", "high", "tied"],
    )
    about = Provenance({"name": "x", "fingerprint": "x"}, {"name": "c", "fingerprint": "c"}, {})
    made = Result("compare", {"best_layers": table}, about)
    monkeypatch.setattr("lamina.web.api.compare._comparison", lambda *_: made)
    found = server.post("/api/compare", json={"model": "tiny", "other": "other"}).json()
    assert [(each["model"], each["layer"], each["tied"]) for each in found["layers"]] == [
        ("other", 2, True),
        ("tiny", 1, False),
    ]


def test_what_is_missing_is_said(client, encoders, tmp_path):
    found = client(models=encoders).post("/api/compare", json={"model": "tiny", "other": "other"}).json()
    assert found["beside"] == []
    assert "have to be probed" in found["why_not"]


def test_a_difference_that_was_computed_is_found(client, encoders, tmp_path):
    about = Provenance({"name": "tiny and other", "fingerprint": "x"}, {"name": "c", "fingerprint": "g"}, {})
    table = pd.DataFrame({"layer": [0], "value": [1.0]})
    Result("diff", {"diff": table}, about).save(tmp_path / "kept" / "diff", charts=False)
    server = client(models=encoders, folders=[tmp_path / "kept"])
    assert server.post("/api/compare", json={"model": "tiny", "other": "other"}).json()["diff"]["analysis"] == "diff"
    assert server.post("/api/compare", json={"model": "other", "other": "tiny"}).json()["diff"] is None


def test_a_model_that_was_not_allowed_is_refused(server):
    assert server.post("/api/compare", json={"model": "tiny", "other": "gpt"}).status_code == 404
