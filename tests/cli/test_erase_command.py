"""`lamina erase`, from the command line to tables and figure, and what it says to bad input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from lamina.analyses.cause.erasure import ERASE
from lamina.figures import to_svg
from lamina.figures.erase import draw
from lamina.results import Result
from tests.cli.conftest import Done

COLUMNS = ",".join(ERASE)
WORDS = ("The dog barked", "The dogs ran away", "Nobody knows the fox", "The cats sat", "The lazy dog ran")
TAGS = {"The": "DET", "the": "DET", "Nobody": "PRON", "lazy": "ADJ", "away": "ADV", "dog": "NOUN", "dogs": "NOUN",
        "cats": "NOUN", "fox": "NOUN", "far": "ADV"}  # fmt: skip


@pytest.fixture
def tagged(tmp_path: Path) -> Path:
    folder = tmp_path / "bank"
    folder.mkdir()
    for split, count in (("train", 80), ("dev", 12)):
        lines = []
        for number in range(count):
            lines += [f"# newdoc id = {split}-{number}", f"# sent_id = {split}-{number}"]
            end = " far away" if split == "dev" else ""
            for at, word in enumerate((WORDS[number % len(WORDS)] + end).split(), start=1):
                lines.append(
                    f"{at}\t{word}\t_\t{TAGS.get(word, 'VERB')}\t_\t_\t{at - 1}\t{'dep' if at > 1 else 'root'}\t_\t_"
                )
            lines.append("")
        (folder / f"own-{split}.conllu").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.usefixtures("drawn_charts")
def test_loss_and_a_probe_with_their_twin(
    run: Callable[..., Done], speaker: Path, tagged: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    few = ("--items", 8, "--learn", 100, "--words", 40, "--draws", 5, "--samples", 20, "--layer", 1)
    done = run("erase", speaker, "--corpus", tagged, *few, "--target", "loss", "--target", "probe:pos@3", "--out", out)
    assert done.exit_code == 0, done.output
    assert "needs part of speech" in " ".join(done.output.split())
    for name in ("erase", "twin"):
        assert (out / f"{name}.csv").read_text().splitlines()[0] == COLUMNS
    table = pd.read_csv(out / "erase.csv")
    assert set(table["target"]) == {"loss", "probe:pos@3"}
    assert set(table["what"]) == {"concept", "random_subspace", "control"}
    assert (table["effect"] - (table["value"] - table["baseline"])).abs().max() < 1e-6
    assert table.groupby("what")["verdict"].count().to_dict() == {"concept": 2, "random_subspace": 0, "control": 0}
    readable = pd.read_csv(out / "readable.csv")
    assert (readable["after_low"] <= readable["constant"]).all()
    assert set(pd.read_csv(out / "differences.csv")["against"]) == {"random_subspace", "control"}
    (chart,) = draw(Result.load(out)).values()
    assert "<svg" in to_svg(chart)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--layer", 9), "has layers 0 (embeddings) to 3, no other"),
        (("--task", "dep"), "dep: its targets are pairs of spans, and erasure needs one class per word or span"),
        (("--task", "ner"), "does not carry ner; it carries pos, dep"),
        (("--learn", 20), "too few targets to fit an eraser"),
        (("--target", "probe:pos@9"), "has no layer 9"),
    ],
    ids=["layer", "pairs", "task", "few", "target"],
)
def test_bad_input_is_told_in_a_sentence(
    run: Callable[..., Done], speaker: Path, tagged: Path, tmp_path: Path, arguments: tuple[object, ...], sentence: str
) -> None:
    asked = arguments if "--target" in arguments else (*arguments, "--target", "loss")
    done = run("erase", speaker, "--corpus", tagged, *asked, "--no-twin", "--out", tmp_path / "out")
    assert done.exit_code == 2, done.output
    assert sentence in " ".join(done.output.split())


def test_a_dry_run_tells_what_it_would_take(
    run: Callable[..., Done], speaker: Path, tagged: Path, tmp_path: Path
) -> None:
    few = ("--items", 4, "--learn", 100, "--words", 40, "--target", "loss", "--no-twin", "--dry-run")
    done = run("erase", speaker, "--corpus", tagged, *few, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "about" in done.output
    assert not (tmp_path / "out").exists()
