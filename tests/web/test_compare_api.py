"""Two models side by side, by what was measured of both."""

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
    first, second = TinyEncoder(), TinyEncoder(seed=1)
    second.name = "other"
    return {"tiny": first, "other": second}


@pytest.fixture(scope="module")
def kept(encoders, make_geometry, tmp_path_factory):
    """Both have a geometry and were probed; one has an older geometry too."""
    root = tmp_path_factory.mktemp("kept")
    splits = Splits(texts(20, "train"), texts(6, "dev"))
    for name, encoder in encoders.items():
        made = make_geometry(model=name, layers=3)
        about = {"name": name, "fingerprint": encoder.fingerprint}
        for age, year in (("new", 2026), ("old", 2025)):
            dated = replace(made.provenance, model=about, created=f"{year}-01-01T00:00:00+00:00")
            replace(made, provenance=dated).save(root / f"geometry-{name}-{age}", charts=False)
        few = {"tasks": ["pos"], "probes": ["cumulative"], "seeds": 1, "twin": False}
        lamina.probe(encoder, splits, **few, store=root / ".store", out=root / f"probe-{name}")
    return root


@pytest.fixture
def server(client, encoders, kept):
    return client(models=encoders, folders=[kept])


def test_results_are_paired_by_analysis_the_newest_of_each(server):
    found = server.post("/api/compare", json={"model": "tiny", "other": "other"}).json()
    assert found["names"] == ["tiny", "other"]
    pairs = {pair["a"]["analysis"]: (pair["a"]["name"], pair["b"]["name"]) for pair in found["pairs"]}
    assert set(pairs) == {"geometry", "probe"}
    assert [name.split("/")[-1] for name in pairs["geometry"]] == ["geometry-tiny-new", "geometry-other-new"]
    assert found["diff"] is None


def test_probed_models_are_drawn_on_relative_depth(server):
    found = server.post("/api/compare", json={"model": "tiny", "other": "other"}).json()
    assert found["why_not"] == ""
    assert found["figures"]
    assert all(figure["spec"]["$schema"] and figure["summary"] for figure in found["figures"])


def test_what_is_missing_is_said(client, encoders, tmp_path):
    found = client(models=encoders).post("/api/compare", json={"model": "tiny", "other": "other"}).json()
    assert found["pairs"] == []
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
