"""A question asked twice is answered from what was saved; any other is not, and nothing is replaced silently."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import pandas as pd
import pytest

import lamina
from lamina.corpora import Corpus, corpus_from
from lamina.errors import InputError, ResultError
from lamina.framework import run as runner
from lamina.framework.declare import Table, Tables, analysis
from lamina.framework.inputs import Texts
from lamina.framework.run import ask, default_folder
from lamina.framework.settings import Seed, Setting
from lamina.models import Encoder
from lamina.results import Result
from lamina.results.folder import answer_key, read_head, work_folder
from lamina.testing import TinyEncoder

CORPUS = corpus_from([["the", "dog"], ["the", "cat", "ran"], ["a", "dog"]], name="pets")
OTHER = corpus_from([["the", "dog"], ["the", "cat", "ran"], ["a", "cat"]], name="pets")
RUNS: list[str] = []


@analysis(
    title="Counting",
    question="How many words are there?",
    method="They are counted.",
    reads=Texts(),
    version=3,
    tables={"counts": Table("One row per corpus.", "words, times")},
    chapter="words",
)
def counting(
    encoder: Encoder,
    corpus: Corpus,
    *,
    times: Annotated[int, Setting("How often.", min=1)] = 1,
    vectors: Annotated[str | None, Setting("A file.", file=True)] = None,
    hurry: Annotated[bool, Setting("Changes nothing.", counts=False)] = False,
    seed: Seed = 0,
) -> Tables:
    """Count words."""
    RUNS.append(encoder.name)
    words = sum(len(text.words) for text in corpus)
    return Tables({"counts": pd.DataFrame({"words": [words], "times": [times]})}, {"nothing": 0, "something": 2})


@pytest.fixture(autouse=True)
def no_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing is tested elsewhere, and is slow."""
    monkeypatch.setattr(Result, "charts", lambda self: {})
    RUNS.clear()


def asked(folder: Path, encoder: Encoder | None = None, corpus: Corpus = CORPUS, **given) -> Result:
    return counting(encoder or TinyEncoder(), corpus, out=folder, **given)


def test_the_same_question_is_answered_once(tmp_path: Path) -> None:
    first = asked(tmp_path / "r")
    again = asked(tmp_path / "r", seed=0, times=1, store=tmp_path / "elsewhere", device="cpu", hurry=True)

    assert len(RUNS) == 1
    pd.testing.assert_frame_equal(again.tables["counts"], first.tables["counts"])
    assert again.provenance == first.provenance
    assert again.provenance.skipped == {"something": 2}
    assert again.key == first.key == read_head(tmp_path / "r")["key"]


@pytest.mark.parametrize(
    "change",
    [{"times": 2}, {"seed": 1}, {"corpus": OTHER}, {"limit": 2}, {"encoder": TinyEncoder(seed=1)}],
    ids=["setting", "seed", "corpus", "limit", "encoder"],
)
def test_a_result_of_another_question_is_never_replaced_silently(tmp_path: Path, change: dict) -> None:
    asked(tmp_path / "r")
    kept = (tmp_path / "r" / "result.json").read_bytes()

    with pytest.raises(ResultError, match=r"holds another result \(counting: tiny on pets.*--replace"):
        asked(tmp_path / "r", **change)

    assert len(RUNS) == 1, "refused before the work"
    assert (tmp_path / "r" / "result.json").read_bytes() == kept
    asked(tmp_path / "r", **change, replace=True)
    assert len(RUNS) == 2
    assert (tmp_path / "r" / "result.json").read_bytes() != kept


def test_an_older_version_of_the_same_question_is_replaced_and_that_is_said(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(counting, "version", 2)
    asked(tmp_path / "r")
    monkeypatch.setattr(counting, "version", 3)
    asked(tmp_path / "r")

    assert len(RUNS) == 2
    assert "older version of counting (2, now 3) and is replaced" in capsys.readouterr().err
    assert read_head(tmp_path / "r")["version"] == 3
    monkeypatch.setattr(counting, "version", 1)
    with pytest.raises(ResultError, match="made by a newer lamina"):
        asked(tmp_path / "r")


def test_a_result_of_the_first_format_is_read_and_replaced_by_the_same_question(tmp_path: Path, capsys) -> None:
    asked(tmp_path / "r")
    head = read_head(tmp_path / "r")
    for name in ("question", "version", "findings", "hashes"):
        del head[name]
    (tmp_path / "r" / "result.json").write_text(json.dumps(head | {"format": 1, "key": "of another time"}))

    old = Result.load(tmp_path / "r")
    assert (old.version, old.findings, old.tables["counts"]["words"].tolist()) == (0, (), [7])
    asked(tmp_path / "r")
    assert len(RUNS) == 2
    assert "older version" in capsys.readouterr().err


def test_a_table_that_is_gone_is_made_again_and_that_is_said(tmp_path: Path, capsys) -> None:
    asked(tmp_path / "r")
    (tmp_path / "r" / "counts.csv").unlink()
    asked(tmp_path / "r")

    assert len(RUNS) == 2
    assert "is damaged and is replaced" in capsys.readouterr().err


def test_a_table_with_another_number_is_made_again_and_that_is_said(tmp_path: Path, capsys) -> None:
    asked(tmp_path / "r")
    (tmp_path / "r" / "counts.csv").write_text("words,times\n8,1\n")
    again = asked(tmp_path / "r")

    assert len(RUNS) == 2
    assert "is damaged and is replaced" in capsys.readouterr().err
    assert (
        again.tables["counts"]["words"].tolist()
        == Result.load(tmp_path / "r").tables["counts"]["words"].tolist()
        == [7]
    )


def test_a_head_that_cannot_be_read_is_not_overwritten_unasked(tmp_path: Path) -> None:
    asked(tmp_path / "r")
    (tmp_path / "r" / "result.json").write_text("{half")

    with pytest.raises(ResultError, match=r"cannot be read.*--replace"):
        asked(tmp_path / "r")
    asked(tmp_path / "r", replace=True)
    assert Result.load(tmp_path / "r").version == 3


def test_a_folder_of_something_else_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "thesis.tex").write_text("mine")

    with pytest.raises(ResultError, match="something other than a result"):
        asked(tmp_path / "r", replace=True)
    assert RUNS == []


def test_a_file_that_changed_is_another_question(tmp_path: Path) -> None:
    vectors = tmp_path / "words.txt"
    vectors.write_text("dog 1 2")
    one = counting.ask(TinyEncoder(), CORPUS, vectors=str(vectors)).question
    same = counting.ask(TinyEncoder(), CORPUS, vectors=str(vectors)).question
    vectors.write_text("dog 2 1")
    other = counting.ask(TinyEncoder(), CORPUS, vectors=str(vectors)).question

    assert one == same != other


def test_work_left_beside_a_saved_result_is_removed(tmp_path: Path) -> None:
    """As after a kill between saving the result and removing its work."""
    query = counting.ask(TinyEncoder(), CORPUS)
    ask(query, tmp_path / "r")
    work = work_folder(tmp_path / "r", answer_key(query.question, query.analysis.version))
    work.mkdir()
    (work / "checkpoint").write_text("weights")

    ask(query, tmp_path / "r")
    assert RUNS == ["tiny"]
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_the_default_folder_names_the_question(tmp_path: Path) -> None:
    plain = counting.ask(TinyEncoder(), CORPUS)
    other = counting.ask(TinyEncoder(), CORPUS, times=2)

    folder = default_folder(plain, tmp_path)
    assert folder.name.startswith("counting-tiny-pets-")
    assert folder.name.endswith(plain.question[:8])
    assert default_folder(other, tmp_path) != folder
    named = replace(plain, loaded=replace(plain.loaded, names=("../../etc", "a b", "")))
    assert default_folder(named, tmp_path).parent == tmp_path


def test_a_table_that_was_not_declared_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(counting, "tables", {"counts": Table("One row per corpus.", "words")})
    with pytest.raises(lamina.LaminaError, match="columns words, times; declared are words"):
        counting(TinyEncoder(), CORPUS)
    monkeypatch.setattr(counting, "tables", {"other": Table("One row per corpus.", "words")})
    with pytest.raises(lamina.LaminaError, match="declares the tables other and made counts"):
        counting(TinyEncoder(), CORPUS)


def test_a_result_is_answered_together_with_others(tmp_path: Path) -> None:
    questions = [counting.ask(TinyEncoder(), CORPUS, times=times) for times in (1, 2)]
    assert [each.tables["counts"]["times"][0] for each in runner.run_together(questions)] == [1, 2]
    ask(questions[0], tmp_path / "r")
    assert Result.load(tmp_path / "r").recorded_question == questions[0].question


def test_work_that_needs_a_folder_says_so() -> None:
    with pytest.raises(InputError, match="say where with out=FOLDER"):
        lamina.finetune(TinyEncoder(), "stories", task="babi")
