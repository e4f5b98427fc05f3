"""Fine-tunings with several seeds in the app: each model by itself, and all together where an analysis takes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lamina.errors import ModelError
from lamina.results import Provenance, Result
from lamina.testing import TinyEncoder
from lamina.training.provenance import ABOUT
from lamina.web.api.questions import answers_questions

TOGETHER = "report/tuned"
EACH = [f"{TOGETHER}/seed-0", f"{TOGETHER}/seed-1"]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """The result of a fine-tuning with two seeds, without weights."""
    about = {"format": 1, "task": "babi", "head": "QuestionAnswering", "base": {"name": "tiny"}}
    files = {}
    for seed in (0, 1):
        for name, said in (("config.json", {}), (ABOUT, about)):
            path = tmp_path / "work" / f"{seed}-{name}"
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(said))
            files[f"seed-{seed}/{name}"] = path
    provenance = Provenance({"name": "tiny", "fingerprint": "t"}, {"name": "stories", "fingerprint": "s"}, {})
    folder = tmp_path / "report" / "tuned"
    Result("finetune", {}, provenance, files).save(folder, charts=False)
    return folder


@pytest.fixture
def serving(client, out: Path):
    return client({"tiny": TinyEncoder()}, folders=[out.parent])


def test_every_seed_is_a_model_and_all_together_are_one_for_jobs(serving, out: Path) -> None:
    assert [card["name"] for card in serving.get("/api/about").json()["models"]] == ["tiny", *EACH]
    cards = {card["name"]: card for card in serving.get("/api/analyses").json()}
    choices = {name: cards[name]["inputs"][0]["choices"] for name in ("phases", "probe", "diff", "geometry", "heads")}
    assert choices["phases"] == choices["probe"] == choices["diff"] == ["tiny", *EACH, TOGETHER]
    assert choices["geometry"] == choices["heads"] == ["tiny", *EACH]
    assert cards["diff"]["inputs"][1]["choices"] == ["tiny", *EACH, TOGETHER]
    models = serving.app.state.lamina.models
    for name in (TOGETHER, EACH[1]):
        models.confirm(name)
    assert models.source(TOGETHER) == str(out)
    assert models.source(EACH[1]) == str(out / "seed-1")
    with pytest.raises(ModelError, match=r"several models, one per seed; take one of them, such as .*/seed-0"):
        models.use(TOGETHER).__enter__()


def test_each_seed_is_listed_among_the_models_that_answer(serving) -> None:
    listed = serving.get("/api/questions/models").json()
    assert [(each["name"], each["answers"], each["base"]) for each in listed] == [(name, True, "tiny") for name in EACH]


@pytest.mark.parametrize(
    ("head", "view", "answers"),
    [
        ("QuestionAnswering", None, True),
        ("SequenceClassification", {"babi": "classification"}, True),
        ("SequenceClassification", None, False),
        ("TokenClassification", None, False),
    ],
    ids=["spans", "classes-of-stories", "classes-of-texts", "tags"],
)
def test_models_tuned_on_questions_answer_them(head: str, view: dict[str, str] | None, answers: bool) -> None:
    assert answers_questions({"head": head, "view": view}) is answers
