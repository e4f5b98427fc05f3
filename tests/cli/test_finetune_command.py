"""`lamina finetune`, from the command line to a model folder."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

import lamina
from lamina.cli.finetune import finetune
from lamina.errors import InputError, LaminaError
from lamina.figures.finetune import draw
from lamina.results import Result as Answer

app = typer.Typer()
app.command()(finetune)


def run(*args: object) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(arg) for arg in args])


@pytest.fixture
def treebanks(tmp_path: Path) -> Path:
    folder = tmp_path / "bank"
    folder.mkdir()
    tags = {"The": "DET", "dog": "NOUN", "cat": "NOUN", "ran": "VERB", "barked": "VERB", ".": "PUNCT"}
    for split, count in (("train", 12), ("dev", 4), ("test", 4)):
        lines = []
        for number in range(count):
            words = ["The", "cat" if number % 2 else "dog", *["ran"] * (number + 1), "barked", *split, "."]
            lines.append(f"# sent_id = {split}-{number}")
            for at, word in enumerate(words, start=1):
                tag = tags.get(word, "X")
                lines.append(f"{at}\t{word}\t_\t{tag}\t_\t_\t{at - 1}\t{'root' if at == 1 else 'dep'}\t_\t_")
            lines.append("")
        (folder / f"own-{split}.conllu").write_text("\n".join(lines) + "\n")
    return folder


def test_a_model_learns_tags_and_is_a_model_folder(bert: Path, treebanks: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs" / "pos"
    asked = ("--task", "pos", "--data", treebanks, "--out", out, "--max-steps", 4, "--batch", 6, "--device", "cpu")
    told = run(bert, *asked)

    assert told.exit_code == 0, (told.output, told.exception)
    assert "accuracy" in told.stdout
    assert told.stdout.splitlines()[-1] == str(out)
    assert (out / "curve.csv").read_text().startswith("step,epoch,split,metric,value\n")
    assert (out / "scores.csv").read_text().startswith("split,metric,count,value,low,high\n")
    assert lamina.load_encoder(str(out), device="cpu").layers == 3
    made = (out / "result.json").stat().st_mtime_ns
    assert run(bert, *asked).exit_code == 0
    assert (out / "result.json").stat().st_mtime_ns == made


def test_the_learning_curve_is_drawn(bert: Path, treebanks: Path, tmp_path: Path) -> None:
    out = tmp_path / "pos"
    run(bert, "--task", "pos", "--data", treebanks, "--out", out, "--max-steps", 4, "--device", "cpu")
    chart = draw(Answer.load(out))["learning"].to_dict()

    assert chart["title"]["text"] == "tinybert learns pos from " + str(treebanks)
    assert [panel["title"]["text"] for panel in chart["concat"]] == ["Loss", "Accuracy"]
    assert "Accuracy on the selection set" in chart["description"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("--task", "chess"), "unknown task 'chess'"),
        (("--task", "ner"), "has no ner annotation"),
        (("--task", "squad"), "takes questions with contexts"),
        (("--task", "pos", "--schedule", "wild"), "unknown schedule"),
        (("--task", "babi", "--babi-tasks", "one"), "takes numbers"),
    ],
)
def test_mistakes_end_in_one_line(
    bert: Path, treebanks: Path, tmp_path: Path, asked: tuple[str, ...], said: str
) -> None:
    told = run(bert, *asked, "--data", treebanks, "--out", tmp_path / "out", "--device", "cpu")
    assert isinstance(told.exception, InputError)
    assert isinstance(told.exception, LaminaError)
    assert said in str(told.exception)
    assert not (tmp_path / "out").exists()
