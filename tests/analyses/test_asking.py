"""A question asked twice is answered from what was saved; any other is not."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pandas as pd
import pytest

from lamina.analyses import ask, geometry
from lamina.corpora import corpus_from
from lamina.errors import ResultError
from lamina.results import Provenance, Result, read_head
from lamina.testing import TinyEncoder

CORPUS = corpus_from([["the", "dog"], ["the", "cat", "ran"], ["a", "dog"]], name="pets")
OTHER = corpus_from([["the", "dog"], ["the", "cat", "ran"], ["a", "cat"]], name="pets")


class Counted:
    """Geometry that says how often it was run."""

    def __init__(self, folder: Path) -> None:
        self.runs, self.folder = 0, folder / "answer"

        @functools.wraps(geometry)
        def run(*args, **settings) -> Result:
            self.runs += 1
            return geometry(*args, **settings)

        self._run = run

    def ask(self, encoder=None, corpus=CORPUS, **settings) -> Result:
        settings = {"samples": 10, "min_count": 2, "root": self.folder.parent / "store"} | settings
        return ask(self._run, encoder or TinyEncoder(), corpus, self.folder, **settings)


@pytest.fixture(autouse=True)
def no_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing is tested elsewhere, and is slow."""
    monkeypatch.setattr(Result, "charts", lambda self: {})


@pytest.fixture
def counted(tmp_path: Path) -> Counted:
    return Counted(tmp_path)


def test_the_same_question_is_answered_once(counted: Counted, tmp_path: Path) -> None:
    first = counted.ask()
    again = counted.ask()
    elsewhere = counted.ask(root=tmp_path / "other store", seed=0, twin=True)

    assert counted.runs == 1
    for answer in (again, elsewhere):
        pd.testing.assert_frame_equal(answer.tables["layers"], first.tables["layers"])
        assert answer.provenance == first.provenance


@pytest.mark.parametrize(
    "change",
    [
        {"samples": 11},
        {"min_count": 3},
        {"seed": 1},
        {"twin": False},
        {"corpus": OTHER},
        {"corpus": CORPUS.take(2)},
        {"encoder": TinyEncoder(seed=1)},
    ],
    ids=["samples", "min_count", "seed", "twin", "corpus", "limit", "encoder"],
)
def test_another_question_is_asked_anew(counted: Counted, change: dict) -> None:
    counted.ask()
    counted.ask(**change)
    counted.ask(**change)

    assert counted.runs == 2


@pytest.mark.parametrize("settings", [{}, {"seed": 3, "twin": False, "samples": 7, "min_count": 4}], ids=str)
def test_the_key_asked_for_is_the_key_recorded(tmp_path: Path, settings: dict) -> None:
    asked: list[Result] = []

    @functools.wraps(geometry)
    def spy(*args, **given) -> Result:
        asked.append(geometry(*args, **given))
        return asked[-1]

    result = ask(spy, TinyEncoder(), CORPUS, tmp_path / "answer", root=tmp_path / "store", **settings)
    ask(spy, TinyEncoder(), CORPUS, tmp_path / "answer", root=tmp_path / "store", **settings)

    assert len(asked) == 1
    assert result.key == asked[0].key == read_head(tmp_path / "answer")["key"]


@pytest.mark.parametrize("spoil", ["head", "table", "key"])
def test_a_spoilt_answer_is_made_again(counted: Counted, spoil: str) -> None:
    counted.ask()
    head = counted.folder / "result.json"
    if spoil == "head":
        head.write_text("{")
    elif spoil == "table":
        (counted.folder / "layers.csv").unlink()
    else:
        head.write_text(
            json.dumps({name: each for name, each in json.loads(head.read_text()).items() if name != "key"})
        )

    counted.ask()

    assert counted.runs == 2
    assert counted.ask().tables["layers"]["value"].notna().any()
    assert counted.runs == 2


def test_a_folder_of_something_else_is_refused_before_the_work(counted: Counted) -> None:
    counted.folder.mkdir()
    (counted.folder / "thesis.tex").write_text("mine")

    with pytest.raises(ResultError, match="something other than a result"):
        counted.ask()

    assert counted.runs == 0


def test_an_analysis_that_stores_nothing_is_not_told_where(tmp_path):
    from lamina.analyses import attention

    settings = {"root": tmp_path / "store", "device": "cpu"}
    result = ask(attention, TinyEncoder(), CORPUS, tmp_path / "answer", samples=10, **settings)
    assert result.analysis == "attention"
    with pytest.raises(TypeError, match="sample"):
        ask(attention, TinyEncoder(), CORPUS, tmp_path / "answer", sample=10)


def test_a_file_that_changed_is_another_question(tmp_path: Path) -> None:
    """A model fine-tuned again into the same folder, vectors written anew under the same name."""
    vectors, runs = tmp_path / "words.txt", []

    def beside(encoder, corpus, *, vectors: str = "glove", finetuned: tuple[str, ...] = ()) -> Result:
        runs.append(vectors)
        made = Provenance(encoder.describe(), corpus.describe(), {"vectors": vectors, "finetuned": finetuned})
        return Result("beside", {"scores": pd.DataFrame({"value": [len(runs)]})}, made)

    def asked(**settings) -> int:
        return int(ask(beside, TinyEncoder(), CORPUS, tmp_path / "kept", **settings).tables["scores"]["value"][0])

    vectors.write_text("dog 1 2")
    (tmp_path / "tuned").mkdir()
    weights = tmp_path / "tuned" / "model.safetensors"
    weights.write_bytes(b"one")
    both = {"vectors": str(vectors), "finetuned": (str(tmp_path / "tuned"),)}
    assert [asked(**both), asked(**both)] == [1, 1]
    vectors.write_text("dog 2 1")
    assert [asked(**both), asked(**both)] == [2, 2]
    weights.write_bytes(b"two")
    assert [asked(**both), asked(**both)] == [3, 3]
    assert [asked(), asked(vectors="glove")] == [4, 4]
