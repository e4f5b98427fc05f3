"""`lamina senses`, from the command line to tables and figures, and what it says to bad input."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from lamina.figures import to_svg
from lamina.figures.senses import draw
from lamina.results import Result
from tests.cli.conftest import Done

WORDS = ("dog", "cat", "end")
SENSES = {"dog": ("n.ANIMAL", "n.FOOD"), "cat": ("n.ANIMAL", "n.PERSON"), "end": ("n.TIME", "n.ACT")}


@pytest.fixture
def annotated(tmp_path: Path) -> Path:
    """STREUSLE's layout: sentences with one noun each, whose supersense follows from the verb."""
    folder = tmp_path / "own"
    folder.mkdir()
    for split, count in (("train", 60), ("dev", 24)):
        rows = []
        for number in range(count):
            noun, which = WORDS[number % 3], number % 2
            tokens = ["the", noun, ("barked", "ran")[which], *(["and", "ran"] * (number % 4)), f"{split[0]}{number}"]
            name = f"{split}-{number // 2:03}-{number}"
            exprs = [[1, 2, "N", SENSES[noun][which], None]]
            rows.append(json.dumps({"sent_id": name, "tokens": tokens, "exprs": exprs}))
        (folder / f"supersenses.{split}.jsonl").write_text("\n".join(rows) + "\n")
    return folder


@pytest.mark.usefixtures("drawn_charts")
def test_neighbours_clusters_and_position_with_their_twin(
    run: Callable[..., Done], bert: Path, annotated: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = run("senses", bert, "--corpus", annotated, "--samples", 20, "--moved", 4, "--moved-by", 3, "--out", out)
    assert done.exit_code == 0, done.output
    assert "Neighbours find the sense of ambiguous words in" in " ".join(done.output.split())
    assert (out / "senses.csv").read_text().splitlines()[0] == "layer,measure,value,low,high,baseline"
    table = pd.read_csv(out / "senses.csv")
    measures = set(table["measure"])
    assert {
        "knn5.ambiguous",
        "across5.all",
        "input.knn5.all",
        "twin.ami",
        "moved.shifted",
        "moved.one_segment",
    } <= measures
    assert set(pd.read_csv(out / "differences.csv")["against"]) >= {"most_frequent", "layer_0", "twin", "input"}
    assert {"words", "position"} <= {path.stem for path in out.glob("*.csv")}
    for chart in draw(Result.load(out)).values():
        assert "<svg" in to_svg(chart)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--annotation", "sense"), "has no annotation 'sense'; it has: supersense"),
        (("--vectors", "BERT"), "a model, not static vectors"),
        (("--k", 0), "must be"),
    ],
    ids=["annotation", "vectors", "k"],
)
def test_bad_input_is_told_in_a_sentence(
    run: Callable[..., Done], bert: Path, annotated: Path, tmp_path: Path, arguments: tuple[object, ...], sentence: str
) -> None:
    asked = [str(bert) if each == "BERT" else each for each in arguments]
    done = run("senses", bert, "--corpus", annotated, *asked, "--moved", 0, "--no-twin", "--out", tmp_path / "out")
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output
    if sentence != "must be":
        assert sentence in " ".join(done.output.split())


def test_a_corpus_without_senses(run: Callable[..., Done], bert: Path, treebank: Path, tmp_path: Path) -> None:
    folder = tmp_path / "bank"
    folder.mkdir()
    for split in ("train", "dev"):
        (folder / f"own-{split}.conllu").write_text(
            treebank.read_text().replace("# sent_id = ", f"# sent_id = {split}")
        )
    done = run("senses", bert, "--corpus", folder, "--out", tmp_path / "out")
    assert done.exit_code == 2, done.output
    assert "has no senses or supersenses of words; it has: pos" in " ".join(done.output.split())
    assert "Traceback" not in done.output


def test_a_dry_run_tells_what_it_would_take(
    run: Callable[..., Done], bert: Path, annotated: Path, tmp_path: Path
) -> None:
    done = run("senses", bert, "--corpus", annotated, "--no-twin", "--moved", 2, "--dry-run", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "about" in done.output
    assert not (tmp_path / "out").exists()
