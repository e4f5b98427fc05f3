"""`lamina phases` and `lamina token-map`, from the command line to a folder of results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lamina.corpora import load_questions
from lamina.training.provenance import TEXTS, text_hash


@pytest.fixture
def squad(tmp_path: Path) -> Path:
    def paragraph(who: str, number: int) -> dict:
        context = f"the {who} ran. the dog barked."
        answers = [{"text": who, "answer_start": 4}]
        return {"context": context, "qas": [{"id": f"q{number}", "question": "who ran?", "answers": answers}]}

    articles = [
        {"title": f"article {at}", "paragraphs": [paragraph(who, 2 * at + more) for more, who in enumerate(pair)]}
        for at, pair in enumerate((("cat", "end"), ("dogs", "bark"), ("cats", "the")))
    ]
    path = tmp_path / "own.json"
    path.write_text(json.dumps({"data": articles}))
    return path


@pytest.fixture
def answering(bert: Path, tmp_path: Path) -> Path:
    import torch
    from transformers import AutoModelForQuestionAnswering, AutoTokenizer

    folder = tmp_path / "answering"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        AutoModelForQuestionAnswering.from_pretrained(bert).save_pretrained(folder)
    AutoTokenizer.from_pretrained(bert).save_pretrained(folder)
    return folder


def test_a_typed_question_is_mapped(bert: Path, tmp_path: Path, run) -> None:
    out = tmp_path / "map"
    told = run("token_map", bert, "--question", "who ran?", "--context", "the cat ran. the dog barked.", "--out", out)
    assert told.exit_code == 0, told.output
    assert "accepted   not known" in told.output
    assert "no head that answers" in told.output
    assert "stability" in told.output
    assert str(out) in told.output.splitlines()
    assert (
        (out / "tokens.csv")
        .read_text()
        .startswith("example,method,fit,layer,token,word,sentence,question,support,gold,predicted,x,y,cluster\n")
    )
    assert (out / "projection.csv").read_text().startswith("example,layer,tokens,left_out,explained_x,explained_y,")


def test_an_example_of_a_file_is_mapped_with_its_answer(answering: Path, squad: Path, tmp_path: Path, run) -> None:
    asked = ("--data", squad, "--split", "all", "--example", "q2", "--method", "ica", "--out", tmp_path / "map")
    told = run("token_map", answering, *asked)
    assert told.exit_code == 0, told.output
    assert "accepted   dogs" in told.output
    assert "predicted  " in told.output
    assert "How much the map shows" in told.output


def test_a_file_is_measured_and_the_answer_reused(answering: Path, squad: Path, tmp_path: Path, run) -> None:
    out = tmp_path / "phases"
    asked = ("phases", answering, "--data", squad, "--split", "all", "--samples", 20, "--clustered", 3, "--out", out)
    told = run(*asked)
    assert told.exit_code == 0, told.output
    columns = "model,layer,group,measure,seeds,count,value,low,high,stability\n"
    assert (out / "phases.csv").read_text().startswith(columns)
    failure = "model,layer,feature,count,documents,tasks,seeds,auc,low,high,gain_auc,"
    assert (out / "failure.csv").read_text().startswith(failure)
    assert (out / "differences.csv").read_text().startswith("model,against,layer,group,measure,seeds,count,")
    assert (out / "contrast.csv").read_text().startswith("model,task,layer,measure,seeds,right,right_low,")
    assert "answering: phases by layer" in told.output
    made = (out / "result.json").stat().st_mtime_ns
    assert run(*asked).exit_code == 0
    assert (out / "result.json").stat().st_mtime_ns == made


def test_a_dry_run_computes_nothing(bert: Path, squad: Path, tmp_path: Path, run) -> None:
    told = run("phases", bert, "--data", squad, "--split", "all", "--dry-run", "--out", tmp_path / "out")
    assert told.exit_code == 0, told.output
    assert "texts    6\n" in told.output
    assert "passes   2\n" in told.output
    assert not (tmp_path / "out").exists()


def test_a_model_is_not_scored_on_what_it_was_trained_on(answering: Path, squad: Path, tmp_path: Path, run) -> None:
    first = next(iter(load_questions(squad, "all")))
    (answering / TEXTS).write_text(text_hash(first) + "\n")
    told = run("phases", answering, "--data", squad, "--split", "all", "--out", tmp_path / "out")
    assert told.exit_code == 2
    assert "fine-tuned on 1 of the texts" in told.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("--question", "who?"), "go together"),
        (("--context", "the cat ran."), "go together"),
        (("--question", "who?", "--context", "the cat.", "--data", "xquad_en"), "not both"),
        (("--question", "who?", "--context", "the cat.", "--example", "q1"), "not both"),
        (("--question", "who?", "--context", " "), "the context is empty"),
        (("--question", "", "--context", "the cat."), "the question is empty"),
        (("--data", "stories", "--limit", "3", "--example", "nobody"), "no question 'nobody'"),
        (("--data", "nowhere.json"), "file or folder not found"),
    ],
)
def test_mistakes_end_in_one_line(bert: Path, tmp_path: Path, run, asked: tuple[str, ...], said: str) -> None:
    told = run("token_map", bert, *asked, "--out", tmp_path / "out", "--device", "cpu")
    assert told.exit_code == 2
    assert said in told.output
    assert not (tmp_path / "out").exists()
