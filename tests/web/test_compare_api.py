"""Several models side by side, by what was measured of them."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

import lamina
from lamina.corpora import Corpus, corpus_from
from lamina.corpora.splits import Splits
from lamina.models.static import StaticEncoder
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
        few = {
            "tasks": ["pos"],
            "probes": ["cumulative"],
            "seeds": 1,
            "twin": False,
            "schedule": "steps=20",
            "samples": 20,
        }
        probed = lamina.probe(encoder, splits, **few, store=root / ".store")
        # What had not converged is not compared; here it does not matter what 20 steps learned.
        training = probed.tables["training"].assign(converged=True)
        replace(probed, tables={**probed.tables, "training": training}).save(root / f"probe-{name}")
    return root


@pytest.fixture
def server(client, encoders, kept):
    return client(models=encoders, folders=[kept])


def ask(server, *models):
    return server.post("/api/compare", json={"models": list(models)}).json()


def test_one_chart_per_shared_analysis_holds_all_models_on_the_same_axes(server):
    found = ask(server, "tiny", "other")
    assert found["models"] == ["tiny", "other"]
    charts = {each["analysis"]: each["figure"]["spec"] for each in found["curves"]}
    assert set(charts) == {"geometry", "probe"}
    panel = charts["geometry"]["concat"][0]["layer"][1]["encoding"]
    assert panel["color"]["scale"]["domain"] == ["tiny", "other"]
    assert found["diff"] is None


def test_differences_are_from_the_baseline_with_paired_intervals(server):
    found, turned = ask(server, "tiny", "other", "third"), ask(server, "other", "tiny", "third")
    assert {each["model"] for each in found["differences"]} == {"other", "third"}
    assert all(each["paired"] for each in found["differences"])
    full = {each["model"]: each["value"] for each in found["scores"] if each["statistic"] == "score_full"}
    for each in found["differences"]:
        if each["statistic"] == "score_full":
            assert each["value"] == pytest.approx(full[each["model"]] - full["tiny"], abs=1e-5)
            assert each["low"] <= each["value"] <= each["high"]
    (one,) = (each for each in found["differences"] if (each["model"], each["statistic"]) == ("other", "score_full"))
    (other,) = (each for each in turned["differences"] if (each["model"], each["statistic"]) == ("tiny", "score_full"))
    assert (one["value"], one["low"], one["high"]) == pytest.approx((-other["value"], -other["high"], -other["low"]))


def test_probed_models_are_drawn_on_relative_depth(server):
    found = ask(server, "tiny", "other", "third")
    assert found["findings"][0]["text"]
    depth = next(figure for figure in found["figures"] if figure["name"] == "depth")
    assert depth["spec"]["concat"][0]["layer"][1]["encoding"]["color"]["scale"]["domain"] == ["tiny", "other", "third"]
    assert {"what": "third", "why": "no saved result of geometry"} in found["not_compared"]
    assert found["shapes"] == [[2, 2]] * 3


def test_a_twin_is_a_model_and_its_difference_is_not_called_paired(server):
    found = ask(server, "tiny", "tiny (random)")
    assert found["by_head"] == ["tiny", "tiny (random)"]
    assert [each["analysis"] for each in found["curves"]] == ["geometry"]  # whose fixture has a twin
    sentence = {"model": "tiny (random)", "sentence": "dogs bark"}
    own, twin = (
        server.post("/api/heads/atlas", json=sentence | {"model": name}).json() for name in ("tiny", "tiny (random)")
    )
    assert own["measures"][0]["values"] != twin["measures"][0]["values"]
    assert server.post("/api/heads/atlas", json=sentence | {"model": "gpt (random)"}).status_code == 404


def test_scores_of_the_twin_come_from_its_models_result(client, encoders, tmp_path):
    splits = Splits(texts(20, "train"), texts(6, "dev"))
    few = {"tasks": ["pos"], "probes": ["cumulative"], "seeds": 1, "schedule": "steps=20", "samples": 20}
    lamina.probe(encoders["tiny"], splits, **few, store=tmp_path / ".store", out=tmp_path / "kept" / "probe")
    found = ask(client(models=encoders, folders=[tmp_path / "kept"]), "tiny (random)", "tiny")
    (apart,) = found["differences"]
    full = {each["model"]: each for each in found["scores"]}
    assert not apart["paired"]
    assert apart["value"] == pytest.approx(full["tiny"]["value"] - full["tiny (random)"]["value"], abs=1e-5)
    # Overlapping intervals are no comparison.
    assert apart["low"] is apart["high"] is None


def test_what_cannot_be_compared_is_not_offered_and_the_reason_is_said(client, encoders, kept, tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("dogs 1 2\nbark 3 4\n", encoding="utf-8")
    models = {**encoders, "vectors": StaticEncoder.read(vectors, name="vectors")}
    offers = client(models=models, folders=[kept]).get("/api/compare/models/tiny").json()
    told = {each["name"]: each for each in offers}
    assert "tiny" not in told
    assert not told["other"]["why"]
    assert len(told["other"]["shares"]) == 2
    assert told["tiny (random)"]["twin"]
    assert "no analysis that both tiny and vectors have" in told["vectors"]["why"]
    assert "no random twin" in told["vectors (random)"]["why"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"corpus": {"name": "birds", "fingerprint": "x"}}, "different texts"),
        ({"parameters": {"layers": 7}}, "different settings: layers"),
    ],
    ids=["texts", "settings"],
)
def test_results_of_other_texts_or_settings_are_left_out(client, encoders, make_geometry, tmp_path, change, why):
    for name in ("tiny", "other"):
        made = make_geometry(model=name, layers=3)
        about = replace(made.provenance, model={"name": name, "fingerprint": encoders[name].fingerprint})
        about = replace(about, **(change if name == "other" else {}))
        replace(made, provenance=about).save(tmp_path / "kept" / name, charts=False)
    found = ask(client(models=encoders, folders=[tmp_path / "kept"]), "tiny", "other")
    assert found["curves"] == []
    (left_out,) = found["not_compared"]
    assert left_out["what"] == "geometry of other"
    assert why in left_out["why"]


def test_one_model_is_not_compared_with_itself(server):
    assert "pick another" in server.post("/api/compare", json={"models": ["tiny", "tiny"]}).json()["error"]
    assert server.post("/api/compare", json={"models": ["tiny"]}).status_code == 422


def test_where_to_read_a_task_is_told(server, encoders, kept, monkeypatch):
    """The best layer of every model, the best of all first."""
    rows = [("pos", "other", 2, 0.9, True), ("pos", "tiny", 1, 0.8, False), ("pos", "other", 1, 0.7, False)]
    table = pd.DataFrame(
        [(task, model, layer, value, value - 0.1, value + 0.1, tied) for task, model, layer, value, tied in rows],
        columns=["task", "model", "layer", "value", "low", "high", "among_best"],
    )
    about = Provenance({"name": "x", "fingerprint": "x"}, {"name": "c", "fingerprint": "c"}, {})
    none = pd.DataFrame(columns=["statistic"])
    made = Result("compare", {"best_layers": table, "compare": none, "differences": none}, about)
    monkeypatch.setattr("lamina.web.api.compare.load_comparison", lambda *_: made)
    found = server.post("/api/compare", json={"models": ["tiny", "other"]}).json()
    assert [(each["model"], each["layer"], each["among_best"]) for each in found["layers"]] == [
        ("other", 2, True),
        ("tiny", 1, False),
    ]


def test_what_is_missing_is_said(client, encoders, tmp_path):
    found = client(models=encoders).post("/api/compare", json={"models": ["tiny", "other"]}).json()
    assert found["curves"] == found["scores"] == found["differences"] == []


def test_a_difference_that_was_computed_is_found(client, encoders, tmp_path):
    about = Provenance({"name": "tiny and other", "fingerprint": "x"}, {"name": "c", "fingerprint": "g"}, {})
    table = pd.DataFrame({"layer": [0], "value": [1.0]})
    Result("diff", {"diff": table}, about).save(tmp_path / "kept" / "diff", charts=False)
    server = client(models=encoders, folders=[tmp_path / "kept"])
    assert server.post("/api/compare", json={"models": ["tiny", "other"]}).json()["diff"]["analysis"] == "diff"
    assert server.post("/api/compare", json={"models": ["other", "tiny"]}).json()["diff"] is None


def test_a_model_that_was_not_allowed_is_refused(server):
    assert server.post("/api/compare", json={"models": ["tiny", "gpt"]}).status_code == 404


class TestWhatIsMissing:
    """What one model has and another lacks is offered on the same texts, with the same settings."""

    def test_on_the_texts_of_the_model_that_has_it(self, client, encoders, make_geometry, tmp_path):
        made = make_geometry(model="tiny", layers=3)
        corpus = {"name": "ewt", "split": "dev", "fingerprint": "c", "limit": 20}
        about = replace(
            made.provenance,
            model={"name": "tiny", "fingerprint": encoders["tiny"].fingerprint},
            corpus=corpus,
            parameters={"samples": 77, "min_count": 5, "twin": True, "seed": 0},
        )
        replace(made, provenance=about).save(tmp_path / "kept" / "tiny", charts=False)
        server = client(models=encoders, folders=[tmp_path / "kept"], estimates=False)
        missing = server.post("/api/compare/missing", json={"models": ["tiny", "other", "tiny (random)"]}).json()
        (lacking,) = missing
        assert (lacking["model"], lacking["analysis"], lacking["state"]) == ("other", "geometry", "off")
        # Defaults are left to the command.
        assert lacking["wanted"] == {
            "analysis": "geometry",
            "model": "other",
            "settings": {"samples": 77},
            "data": {"name": "ewt", "split": "dev", "limit": 20},
        }

    def test_where_nobody_has_anything_all_models_are_offered_the_same(self, client, encoders):
        missing = client(models=encoders, estimates=False).post(
            "/api/compare/missing", json={"models": ["tiny", "other"]}
        )
        offered = [(each["analysis"], each["model"]) for each in missing.json()]
        assert ("probe", "tiny") in offered
        assert ("probe", "other") in offered

    def test_nothing_where_both_have_all(self, server):
        missing = server.post("/api/compare/missing", json={"models": ["tiny", "other"]}).json()
        assert missing == []


def test_what_corresponds_is_read_from_a_result_and_offered_where_there_is_none(client, tmp_path):
    models = {"small": TinyEncoder(blocks=2), "deep": TinyEncoder(blocks=4, seed=1)}
    for name, encoder in models.items():
        encoder.name = name
    result = lamina.correspondence(models["small"], models["deep"], texts(8, "dev"), samples=20)
    result.save(tmp_path / "kept" / "alike")
    server = client(models=models, folders=[tmp_path / "kept"], estimates=False)
    answer = server.post("/api/compare/correspondence", json={"models": ["small", "deep"]}).json()
    found, table = answer["correspondence"], result.tables["layers"]
    assert answer["missing"] is None
    assert [len(row) for row in found["cka"]] == [5] * 3
    (row,) = table[(table["layer"] == 2) & (table["other_layer"] == 3)].itertuples()
    assert found["cka"][2][3] == pytest.approx(row.value, abs=1e-5)
    assert found["nearest"][2][3] == row.among_best
    assert [card["text"] for card in found["findings"]] == [finding.text for finding in result.findings]
    first = result.tables["heads"].iloc[0]
    assert found["heads"][0]["match"] == f"{first['match_layer']}-{first['match_head']}"
    assert found["words"] == 8 * 4
    # The same result answers for both orders, and says which is the first.
    turned = server.post("/api/compare/correspondence", json={"models": ["deep", "small"]}).json()
    assert turned["correspondence"]["models"] == ["small", "deep"]
    twin = server.post("/api/compare/correspondence", json={"models": ["small", "small (random)"]}).json()
    assert twin == {"correspondence": None, "missing": None}


def test_what_corresponds_can_be_measured(client):
    models = {"small": TinyEncoder(blocks=2), "deep": TinyEncoder(blocks=4, seed=1)}
    server = client(models=models, estimates=False)
    answer = server.post("/api/compare/correspondence", json={"models": ["small", "deep"]}).json()
    assert answer["correspondence"] is None
    assert answer["missing"]["state"] == "off"
    wanted = answer["missing"]["wanted"]
    assert (wanted["analysis"], wanted["model"], wanted["other"]) == ("correspondence", "small", "deep")
