"""`lamina finetune`, from the command line to a model folder."""

from __future__ import annotations

from pathlib import Path

import pytest

import lamina
from lamina.errors import ModelError
from lamina.figures.finetune import draw
from lamina.framework.verify import check_findings
from lamina.results import Result


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


def test_a_model_learns_tags_and_is_a_model_folder(bert: Path, treebanks: Path, tmp_path: Path, run) -> None:
    out = tmp_path / "runs" / "pos"
    asked = ("--task", "pos", "--data", treebanks, "--out", out, "--max-steps", 4, "--batch", 6, "--device", "cpu")
    told = run("finetune", bert, *asked)

    assert told.exit_code == 0, told.output
    assert "tinybert: pos on" in told.output
    assert "always answering what is most frequent in training" in " ".join(told.output.split())
    assert not check_findings(lamina.Result.load(out))
    assert str(out) in told.output.splitlines()
    assert (out / "curve.csv").read_text().startswith("seed,step,epoch,split,metric,value\n")
    assert (out / "scores.csv").read_text().startswith("split,task,metric,count,seeds,value,low,high\n")
    assert (out / "contrasts.csv").read_text().startswith("task,family,metric,count,value,against,difference,low,high,")
    assert (out / "baseline.csv").read_text().startswith("metric,value\naccuracy,")
    assert lamina.load_encoder(str(out), device="cpu").layers == 3
    made = (out / "result.json").stat().st_mtime_ns
    assert run("finetune", bert, *asked).exit_code == 0
    assert (out / "result.json").stat().st_mtime_ns == made
    weights = bytearray((out / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (out / "model.safetensors").write_bytes(weights)
    with pytest.raises(
        ModelError, match=r"model\.safetensors is missing or damaged; make it again with `lamina finetune"
    ):
        lamina.load_encoder(str(out), device="cpu")


def test_a_dry_run_counts_the_steps(bert: Path, treebanks: Path, tmp_path: Path, run) -> None:
    asked = ("--task", "pos", "--data", treebanks, "--epochs", 2, "--batch", 6, "--device", "cpu", "--dry-run")
    told = run("finetune", bert, *asked, "--out", tmp_path / "out")
    assert told.exit_code == 0, told.output
    assert "steps    4\n" in told.output
    assert "texts    20\n" in told.output
    assert not (tmp_path / "out").exists()


def test_the_learning_curve_is_drawn(bert: Path, treebanks: Path, tmp_path: Path, run) -> None:
    out = tmp_path / "pos"
    run("finetune", bert, "--task", "pos", "--data", treebanks, "--out", out, "--max-steps", 4, "--device", "cpu")
    chart = draw(Result.load(out))["learning"].to_dict()

    assert chart["title"]["text"] == "tinybert learns pos from " + str(treebanks)
    assert [panel["title"]["text"] for panel in chart["concat"]] == ["Loss", "Accuracy"]
    assert "Accuracy on the selection set" in chart["description"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("--task", "chess"), "'chess' is not one of"),
        ((), "Missing option '--task'"),
        (("--task", "ner"), "has no ner annotation"),
        (("--task", "squad"), "takes questions with contexts"),
        (("--task", "pos", "--schedule", "wild"), "'wild' is not one of"),
        (("--task", "babi", "--babi-tasks", "one"), "--babi-tasks takes whole numbers"),
        (("--task", "classify", "--attention-window", "2"), "an attention window is for pos, ner and tag"),
    ],
)
def test_mistakes_end_in_one_line(
    bert: Path, treebanks: Path, tmp_path: Path, run, asked: tuple[str, ...], said: str
) -> None:
    told = run("finetune", bert, *asked, "--data", treebanks, "--out", tmp_path / "out", "--device", "cpu")
    assert told.exit_code == 2
    assert said in told.output
    assert [path.name for path in tmp_path.iterdir()] == ["bank"]


def test_data_has_to_be_named(bert: Path, run) -> None:
    told = run("finetune", bert, "--task", "pos")
    assert told.exit_code == 2
    assert "Missing option '--data'" in told.output
