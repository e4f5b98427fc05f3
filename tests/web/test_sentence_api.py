"""The sentence lens as a program asks it."""

from __future__ import annotations

import json
from threading import BoundedSemaphore

import numpy as np
import pytest

from lamina.analyses.layers.trace import trace
from lamina.probes.edge import EdgeProbes, LayerCut, save_probes
from lamina.results import Provenance, Result
from lamina.testing import TinyEncoder
from lamina.web.api.sentence import MOST_WORDS

WORDS = ["the", "unhesitating", "dogs", "barked"]
SENTENCE = " ".join(WORDS)
LABELS = {"pos": ("DET", "NOUN", "VERB", "X"), "dep": ("nsubj", "obj"), "supersense (own)": ("animal", "act")}
ASKED = {"model": "tiny", "sentence": SENTENCE}


@pytest.fixture
def probed(tmp_path):
    """Saves untrained probes of an encoder among the results of the server."""

    def save(encoder=None, tasks=tuple(LABELS), name="probe", seeds=2):
        encoder = encoder or TinyEncoder()
        cuts = [LayerCut("cumulative", layer) for layer in range(encoder.layers)]
        files = {}
        for task in tasks:
            for seed in range(seeds):
                shape = {"layers": encoder.layers, "width": encoder.width, "labels": len(LABELS[task])}
                probes = EdgeProbes(cuts, **shape, arity=2 if task == "dep" else 1, seed=seed)
                path = tmp_path / f"{task.split()[0]}-{seed}.safetensors"
                save_probes(path, probes, task=task, labels=LABELS[task], encoder=encoder.fingerprint)
                files[path.name] = path
        provenance = Provenance(encoder.describe(), {"name": "c", "fingerprint": "g"}, {})
        return Result("probe", {}, provenance, files).save(tmp_path / "results" / name)

    return save


@pytest.fixture
def pets(tmp_path, monkeypatch) -> str:
    """A corpus of a file, with a store of the test's own."""
    monkeypatch.setenv("LAMINA_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "pets-dev.txt"
    path.write_text("Dogs bark loudly .\nThe dogs sleep .\nCats and dogs .\n")
    return str(path)


def test_part_of_speech_is_believed_of_every_word(client, probed):
    folder = probed()
    answer = client().post("/api/lens", json=ASKED).json()
    assert answer["words"] == WORDS
    assert (answer["layers"], answer["tokens"], answer["seeds"]) == (3, 11, 2)
    assert [(task["name"], task["title"], task["arity"], task["unasked"]) for task in answer["tasks"]] == [
        ("pos", "Part of speech", 1, True),
        ("dep", "Dependencies", 2, False),
        ("supersense (own)", "Noun supersenses", 1, False),
    ]
    assert [belief["spans"] for belief in answer["beliefs"]] == [[[at, at + 1]] for at in range(4)]
    # What the page shows is what `lamina trace` prints, but for the mean over seeds.
    traced = trace(folder, WORDS, model=TinyEncoder()).tables["traces"]
    for belief in answer["beliefs"]:
        assert len(belief["labels"]) == 3
        start, end = belief["spans"][0]
        label, series = belief["labels"][0]["label"], belief["labels"][0]["probabilities"]
        rows = traced[(traced["span1"] == f"{start}:{end}") & (traced["label"] == label)]
        if rows["seed"].nunique() == 2:
            assert series == pytest.approx(rows.groupby("layer")["probability"].mean().tolist(), abs=1e-4)


def test_the_word_to_begin_with_is_the_one_whose_belief_changes_most(client, probed):
    probed(seeds=1)
    answer = client().post("/api/lens", json=ASKED).json()
    changes = [
        np.abs(np.diff([label["probabilities"] for label in belief["labels"]], axis=1)).max(0).sum()
        for belief in answer["beliefs"]
    ]
    # Three labels of four are sent, so the change is known about as well.
    assert changes[answer["interesting"]] >= max(changes) - 0.05


def test_marked_spans_are_answered_with_all_labels(client, probed):
    probed()
    marked = [
        {"task": "dep", "first": 1, "last": 2, "first2": 3, "last2": 3},
        {"task": "supersense (own)", "first": 2, "last": 2},
    ]
    answer = client().post("/api/lens", json={**ASKED, "marked": marked}).json()
    dep, sense = (belief for belief in answer["beliefs"] if belief["task"] != "pos")
    assert dep["spans"] == [[1, 3], [3, 4]]
    assert {label["label"] for label in dep["labels"]} == {"nsubj", "obj"}
    assert sense["spans"] == [[2, 3]]
    assert all(len(label["probabilities"]) == 3 for label in dep["labels"] + sense["labels"])


def test_without_fitting_probes_the_words_are_there_and_no_beliefs(client, probed):
    probed(TinyEncoder(seed=7))
    answer = client().post("/api/lens", json=ASKED).json()
    assert answer["words"] == WORDS
    assert (answer["tasks"], answer["beliefs"], answer["seeds"]) == ([], [], 0)
    assert 0 <= answer["interesting"] < 4


def test_the_newest_probes_that_fit_are_used(client, probed, tmp_path):
    probed(tasks=("pos",), name="fitting")
    probed(TinyEncoder(seed=7), name="of-another-model")
    damaged = probed(name="damaged")
    next(damaged.glob("*.safetensors")).write_bytes(b"nothing")
    answer = client().post("/api/lens", json=ASKED).json()
    assert [task["name"] for task in answer["tasks"]] == ["pos"]


def test_probes_that_appear_while_the_server_runs_are_found(client, probed):
    asking = client()
    assert asking.post("/api/lens", json=ASKED).json()["tasks"] == []
    probed(tasks=("pos",))
    assert [task["name"] for task in asking.post("/api/lens", json=ASKED).json()["tasks"]] == ["pos"]


def test_every_word_has_a_path_and_heads_in_one_answer(client):
    answer = client().post("/api/lens/reading", json=ASKED).json()
    assert np.array(answer["places"]).shape == (3, 4, 2)
    assert 0 < sum(answer["explained"]) <= 1
    attention = answer["attention"]
    assert (attention["blocks"], attention["heads"], attention["sinks"]) == (2, 2, [])
    assert all(0 < share < 1 for share in attention["to_sinks"])
    for way in ("incoming", "outgoing"):
        words, weights = np.array(attention[way]["word"]), np.array(attention[way]["weight"])
        assert words.shape == weights.shape == (4, 4)
        assert (words != np.arange(4)[:, None]).all()
        assert ((weights > 0) & (weights <= 1)).all()


@pytest.mark.parametrize("encoder", [TinyEncoder(blocks=0, heads=0)], ids=["no heads"])
def test_a_model_without_heads_has_paths_alone(client, encoder):
    answer = client(models={"tiny": encoder}).post("/api/lens/reading", json=ASKED).json()
    assert answer["attention"] is None
    assert len(answer["places"]) == 1


def test_one_word_alone(client, probed):
    probed()
    asking = client()
    assert asking.post("/api/lens", json={**ASKED, "sentence": "Yes"}).json()["interesting"] == 0
    attention = asking.post("/api/lens/reading", json={**ASKED, "sentence": "Yes"}).json()["attention"]
    assert {*attention["incoming"]["word"][0], *attention["outgoing"]["word"][0]} == {-1}


def test_labels_that_lead_are_listed_and_the_final_one_comes_first(client, probed):
    probed()
    answer = client().post("/api/lens", json=ASKED).json()
    for belief in answer["beliefs"]:
        by_layer = np.array([label["probabilities"] for label in belief["labels"]])
        assert by_layer[:, -1].argmax() == belief["leads"][-1] == 0
        assert belief["leads"] == by_layer.argmax(0).tolist()
        # Decided: from there on the final label leads by the margin, and not at the layer before.
        ahead = (by_layer[0] - by_layer[1:].max(0)) >= answer["margin"] - 1e-4
        if belief["decided"] is None:
            assert not ahead[-1]
        else:
            assert ahead[belief["decided"] :].all()


def test_neighbours_come_from_the_first_corpus(client, pets):
    asking = client(corpora=(pets,))
    for _ in range(2):
        answer = asking.post("/api/lens/neighbours", json={**ASKED, "words": [2, 0]}).json()
        assert (answer["sentences"], answer["words"]) == (3, 12)
        assert [each["word"] for each in answer["neighbours"]] == [2, 0]
        layers = answer["neighbours"][0]["layers"]
        assert len(layers) == 3
        assert layers[0][0]["word"].lower() == "dogs"
        assert "[dogs]" in layers[0][0]["sentence"].lower()


def test_too_many_that_wait_for_the_corpus_are_sent_away(client, pets, monkeypatch):
    nobody = BoundedSemaphore(1)
    nobody.acquire()
    monkeypatch.setattr("lamina.web.api.sentence._WAITING", nobody)
    answer = client(corpora=(pets,)).post("/api/lens/neighbours", json={**ASKED, "words": [2]})
    assert answer.status_code == 429
    assert "try again" in answer.json()["error"]


def test_a_missing_corpus_is_said(client, tmp_path):
    answer = client(corpora=(str(tmp_path / "none.txt"),)).post("/api/lens/neighbours", json={**ASKED, "words": [0]})
    assert answer.status_code == 400
    assert "none.txt" in answer.json()["error"]


@pytest.mark.parametrize("path", ["", "/reading", "/neighbours"])
@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"sentence": "  \n"}, 400, "has no words"),
        ({"sentence": "a " * (MOST_WORDS + 1)}, 413, f"at most {MOST_WORDS}"),
        ({"sentence": "a" * 30_000}, 413, "30,000 characters"),
        ({"sentence": "lone \ud800"}, 422, "unicode"),
        ({"model": "bert"}, 404, "was not named"),
        ({"model": None}, 422, "model"),
    ],
)
def test_what_cannot_be_read_is_refused(client, pets, path, change, status, said):
    body = json.dumps({**ASKED, "words": [0], **change})
    headers = {"content-type": "application/json"}
    answer = client(corpora=(pets,)).post(f"/api/lens{path}", content=body, headers=headers)
    assert answer.status_code == status
    assert said in answer.json()["error"]


@pytest.mark.parametrize(
    ("words", "status"), [([4], 400), ([-1], 422), ([10**30], 422), (["two"], 422), ([], 422), ([0] * 33, 422)]
)
def test_words_that_are_not_there_are_refused(client, pets, words, status):
    answer = client(corpora=(pets,)).post("/api/lens/neighbours", json={**ASKED, "words": words})
    assert answer.status_code == status


@pytest.mark.parametrize(
    ("mark", "status", "said"),
    [
        ({"task": "ner", "first": 0, "last": 0}, 400, "no probes of 'ner'"),
        ({"task": "dep", "first": 0, "last": 0}, 400, "pair of spans"),
        ({"task": "pos", "first": 2, "last": 1}, 400, "start < end"),
        ({"task": "pos", "first": 0, "last": 9}, 400, "outside its 4 words"),
        ({"task": "dep", "first": 0, "last": 0, "first2": 1}, 400, "both its first and its last"),
        ({"task": "pos", "first": -1, "last": 0}, 422, "greater than or equal to 0"),
    ],
)
def test_wrong_marks_are_refused(client, probed, mark, status, said):
    probed()
    answer = client().post("/api/lens", json={**ASKED, "marked": [mark]})
    assert answer.status_code == status
    assert said in answer.json()["error"]


def test_any_sign_is_read(client, probed):
    probed()
    odd = "\x00 <script>alert(1)</script> \u202e 😀 \ufffd \x7f é"
    answer = client().post("/api/lens", json={**ASKED, "sentence": odd})
    assert answer.status_code == 200
    assert "script" in answer.json()["words"]
