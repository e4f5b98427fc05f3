"""One's own labels on the command line: any annotation is a task, under any name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lamina import Result

FAST = ("--schedule", "steps=12", "--seeds", 1, "--no-twin", "--samples", 20, "--probes", "layer")
WORDS = ("the dog barked .", "a cat ran .", "the dogs bark .", "the cat and the dog ran .")


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    """Edge-probing JSONL without a name: one target per text, all of its words."""
    folder = tmp_path / "reviews"
    folder.mkdir()
    for split, count in (("train", 40), ("dev", 12)):
        lines = []
        for number in range(count):
            text = f"{WORDS[number % 4]} {split} {number}"
            target = {"span1": [0, len(text.split())], "label": "good" if "dog" in text else "bad"}
            lines.append(json.dumps({"text": text, "targets": [target]}) + "\n")
        (folder / f"{split}.jsonl").write_text("".join(lines))
    return folder


def test_whole_texts_of_one_s_own_are_probed_under_a_name(run, bert: Path, reviews: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    asked = ("probe", bert, "--corpus", reviews, "--annotation", "sentiment", "--task", "sentiment", "--out", out)
    done = run(*asked, *FAST)

    assert done.exit_code == 0, done.output
    assert "sentiment: whole texts, 2 classes, one label per target, micro-F1 over all labels" in done.output
    assert "warning: Small sample: fewer than 200 targets are scored (sentiment: 12)" in done.output
    result = Result.load(out)
    assert result.tables["summary"]["task"].tolist() == ["sentiment"]
    assert result.provenance.corpus["tasks"]["sentiment"]["arity"] == 1


def test_columns_of_a_table_are_tasks(run, bert: Path, tmp_path: Path) -> None:
    for split, count in (("train", 40), ("dev", 12)):
        rows = [
            f"{WORDS[number % 4]} {split} {number},{'good' if number % 2 else 'bad'},{number % 5}.5"
            for number in range(count)
        ]
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / f"{split}.csv").write_text("\n".join(["text,mood,grade", *rows]) + "\n")
    done = run("probe", bert, "--corpus", tmp_path / "data", *FAST, "--out", tmp_path / "out")

    assert done.exit_code == 0, done.output
    told = Result.load(tmp_path / "out").provenance.corpus["tasks"]
    assert {name: (each["target"], each["metric"]) for name, each in told.items()} == {
        "mood": ("whole texts", "f1"),
        "grade": ("whole texts", "r2"),
    }
    wrong = run("probe", bert, "--corpus", tmp_path / "data", "--task", "moods", *FAST)
    assert wrong.exit_code == 2
    assert "does not carry moods" in wrong.output
    assert "did you mean mood?" in wrong.output


def test_a_model_learns_one_s_own_classes(run, bert: Path, reviews: Path, tmp_path: Path) -> None:
    asked = ("finetune", bert, "--task", "classify", "--data", reviews, "--max-steps", 2, "--batch", 4)
    done = run(*asked, "--out", tmp_path / "out")

    assert done.exit_code == 0, done.output
    assert Result.load(tmp_path / "out").tables["scores"]["metric"].tolist() == ["accuracy", "f1"]
    wrong = run(*asked, "--annotation", "mood", "--out", tmp_path / "other")
    assert wrong.exit_code == 2
    assert "has no 'mood'; it has edges" in wrong.output
