"""Questions over the API: examples, typed questions, what is refused, and models side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.analyses.answering.groups import STABLE
from lamina.models import load_encoder
from lamina.results import Provenance, Result
from lamina.testing import TinyEncoder
from lamina.training.provenance import ABOUT, TEXTS, text_hash
from lamina.web.state import Limits

STORIES = {"name": "stories", "fingerprint": "s"}
CONTEXT = "Dogs bark. The big cat   ran far. Cows moo."
TYPED = {"model": "tiny", "question": "Who ran?", "context": CONTEXT, "answer": "the big cat"}


@pytest.fixture
def answering(model_folder, tmp_path: Path) -> Path:
    """A result folder with a tiny BERT that has a span head, as `lamina finetune` leaves one."""
    import torch
    import transformers

    plain = model_folder("bert")
    folder = tmp_path / "report" / "tuned"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.AutoModelForQuestionAnswering.from_pretrained(plain)
    Result("finetune", {}, Provenance({"name": "tiny", "fingerprint": "t"}, STORIES, {})).save(folder, charts=False)
    model.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(plain).save_pretrained(folder)
    about = {"format": 1, "task": "babi", "head": "QuestionAnswering", "length": 40, "base": {"name": "tiny"}}
    (folder / ABOUT).write_text(json.dumps(about))
    return folder


@pytest.fixture
def tuned(client, answering: Path):
    """A client of a server with that model."""
    encoders = {"tiny": TinyEncoder(), str(answering): load_encoder(str(answering), device="cpu")}
    return client(encoders, folders=[answering.parent])


def test_examples_are_stories_of_the_test_split(client) -> None:
    shown = client().get("/api/questions/examples").json()
    assert len(shown) == 10
    assert all("-test-" in each["id"] and each["answer"] in each["context"] for each in shown)
    assert len({each["id"] for each in shown}) == 10


def test_an_example_has_its_answer_and_supporting_facts(client) -> None:
    asking = client()
    first = asking.get("/api/questions/examples").json()[0]
    found = asking.post("/api/questions", json={"model": "tiny", "example": first["id"]}).json()
    assert "".join(part["text"] for part in found["text"]) == first["context"]
    assert {part["text"] for part in found["text"] if part["gold"]} == {first["answer"]}
    held = {part["sentence"] for part in found["text"] if part["support"]}
    assert len(held) == 1
    assert found["answer"] == {
        "answers": False,
        "predicted": "",
        "confidence": None,
        "accepted": [first["answer"]],
        "right": None,
    }
    assert found["phases"] is None


@pytest.mark.parametrize("method", ["pca", "tsne", "ica"])
@pytest.mark.parametrize("fit", ["layer", "all"])
def test_every_token_has_a_place_at_every_layer(client, method: str, fit: str) -> None:
    found = client().post("/api/questions", json=TYPED | {"method": method, "fit": fit, "clusters": 3}).json()["map"]
    size, layers = len(found["tokens"]), len(found["layers"])
    assert layers == 3
    assert [len(row) for row in found["positions"]] == [len(row) for row in found["clusters"]] == [size] * layers
    assert all(-1 <= x <= 1 and -1 <= y <= 1 for row in found["positions"] for x, y in row)
    assert {row["clusters"] for row in found["layers"]} == {3}
    assert (found["layers"][0]["explained_x"] is None) == (method != "pca")
    assert found["drawn"] == size
    roles = {token["role"] for token in found["tokens"]}
    assert roles == {"question", "supporting fact", "other", "special token"}
    assert ["supporting fact", "accepted answer"] in [token["roles"] for token in found["tokens"]]


def test_wrong_14_a_token_map_says_whether_other_seeds_find_the_same_clusters(client) -> None:
    found = client().post("/api/questions", json=TYPED | {"clusters": 3}).json()["map"]
    assert all(-1 <= row["stability"] <= 1 for row in found["layers"])
    assert [row["stable"] for row in found["layers"]] == [row["stability"] >= STABLE for row in found["layers"]]


def test_a_typed_answer_is_found_in_the_context(client) -> None:
    text = client().post("/api/questions", json=TYPED).json()["text"]
    assert "".join(part["text"] for part in text if part["gold"]) == "The big cat"
    assert "".join(part["text"] for part in text if part["support"]) == "The big cat   ran far."
    assert "".join(part["text"] for part in text) == CONTEXT


@pytest.mark.parametrize(
    ("changed", "status", "why"),
    [
        ({"question": " "}, 400, "question is empty"),
        ({"context": "\u2003 \n"}, 400, "context is empty"),
        ({"answer": "horse"}, 400, "the answer 'horse' is not in the context"),
        ({"answer": "cow"}, 400, "not in the context"),
        ({"model": "other"}, 404, "was not named"),
        ({"example": "stories-qa1-train-1"}, 400, "no example"),
        ({"clusters": 20, "context": "a b"}, 400, "too many"),
        ({"clusters": 10**30}, 422, "clusters"),
        ({"method": "umap"}, 422, "method"),
        ({"question": "\ud800"}, 422, "question"),
        ({"context": "a " * 15_000}, 413, "characters"),
        ({"context": "a " * 5_000}, 413, "at most 4,666 by pca"),
        ({"context": "a " * 1_300, "method": "tsne"}, 413, "at most 1,200 by tsne. Take a shorter context, or pca"),
    ],
)
def test_what_cannot_be_asked_is_said(client, changed: dict, status: int, why: str) -> None:
    asked = {name: value for name, value in TYPED.items() if name != "answer"} | changed
    # Written out, since a client of Python's would not send an unpaired surrogate.
    body, kind = json.dumps(asked), {"content-type": "application/json"}
    answer = client().post("/api/questions", content=body, headers=kind)
    assert answer.status_code == status
    assert why in answer.json()["error"]


def test_no_text_breaks_the_server(client) -> None:
    visitor = client()

    @given(question=st.text(max_size=30), context=st.text(max_size=60), answer=st.text(max_size=5))
    def answers(question: str, context: str, answer: str) -> None:
        asked = {"model": "tiny", "question": question, "context": context, "answer": answer}
        answered = visitor.post("/api/questions", json=asked)
        assert answered.status_code in (200, 400)
        if answered.status_code == 200:
            assert "".join(part["text"] for part in answered.json()["text"]) == context

    answers()


def test_too_many_at_once_are_sent_away(client) -> None:
    asking = client(limits=Limits(waiting=1))
    asking.app.state.lamina.places.acquire()
    assert asking.post("/api/questions", json=TYPED).status_code == 429


def test_a_fine_tuned_model_is_told_with_its_base(tuned) -> None:
    assert tuned.get("/api/questions/models").json() == [
        {"name": "report/tuned", "task": "babi", "answers": True, "base": "tiny"}
    ]


def test_a_fine_tuned_model_answers(tuned) -> None:
    found = tuned.post("/api/questions", json=TYPED | {"model": "report/tuned"}).json()
    said = found["answer"]
    assert said["answers"]
    assert "".join(part["text"] for part in found["text"] if part["predicted"]) == said["predicted"] != ""
    assert 0 < said["confidence"] <= 1
    assert said["right"] in (True, False)
    assert any(token["role"] == "predicted answer" for token in found["map"]["tokens"])


def test_what_a_model_was_tuned_on_is_refused(tuned, answering: Path) -> None:
    from lamina.corpora.question_sets import typed_question

    seen = next(typed_question(TYPED["question"], CONTEXT).questions())
    (answering / TEXTS).write_text(text_hash(seen.text) + "\n")
    refused = tuned.post("/api/questions", json=TYPED | {"model": "report/tuned"})
    assert refused.status_code == 400
    assert "was fine-tuned on" in refused.json()["error"]


def test_phases_of_the_very_model_are_found(client, tmp_path: Path) -> None:
    import pandas as pd

    folder = tmp_path / "report"
    for name, model in (("mine", TinyEncoder()), ("another", TinyEncoder(seed=7))):
        table = pd.DataFrame({"layer": [0]})
        Result("phases", {"phases": table}, Provenance(model.describe(), STORIES, {})).save(folder / name, charts=False)
    asking = client(folders=[folder])
    id = asking.post("/api/questions", json=TYPED).json()["phases"]
    (mine,) = [each for each in asking.get("/api/results").json() if each["id"] == id]
    assert mine["name"] == "report/mine"
