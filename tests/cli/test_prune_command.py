"""`lamina prune`, from the command line to tables, figure and a model folder, and what it says to bad input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from lamina.figures import to_svg
from lamina.figures.prune import draw
from lamina.framework.verify import check_findings
from lamina.models import load_encoder
from lamina.results import Result
from tests.cli.conftest import Done


@pytest.mark.usefixtures("drawn_charts")
def test_curves_shares_and_a_saved_model(
    run: Callable[..., Done], speaker: Path, treebank: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    few = ("--samples", 20, "--step", 2, "--draws", 2, "--save", "top:2")
    done = run("prune", speaker, "--corpus", treebank, "--target", "loss", *few, "--out", out)
    assert done.exit_code == 0, done.output
    assert "from the top layer down" in done.output
    assert (out / "curve.csv").read_text().splitlines()[0] == "by,removed,left,share_left,value,low,high"
    curve = pd.read_csv(out / "curve.csv")
    assert curve["by"].unique().tolist() == ["importance", "effect", "random", "top", "bottom"]
    assert curve.groupby("by")["removed"].apply(list).map(tuple).unique().tolist() == [(0, 2, 4, 6)]
    assert curve.groupby("removed")["value"].nunique().loc[0] == 1, "all begin with the whole model"
    shares = pd.read_csv(out / "shares.csv").set_index("by")
    assert (shares["within"] == "1 %").all()
    contrasts = pd.read_csv(out / "contrasts.csv")
    pairs = [("importance", "random"), ("effect", "random"), ("top", "bottom")]
    assert list(zip(contrasts["by"], contrasts["against"], strict=True)) == pairs
    for row in contrasts.itertuples():
        assert row.difference == pytest.approx(shares["share"][row.by] - shares["share"][row.against])
    assert not check_findings(Result.load(out))
    assert pd.read_csv(out / "order.csv").query("by == 'top'")["layer"].tolist() == [3, 3, 2, 2, 1, 1]
    assert pd.read_csv(out / "controls.csv")["control"].tolist() == ["guessing", "the twin with random weights"]
    saved = load_encoder(str(out / "model"), device="cpu")
    assert saved.blocks == 3
    (chart,) = draw(Result.load(out)).values()
    assert "<svg" in to_svg(chart)
    estimate = run("prune", speaker, "--corpus", treebank, "--target", "loss", "--step", 2, "--dry-run")
    assert estimate.exit_code == 0, estimate.output
    assert "passes" in estimate.output


def test_blocks_are_really_removed(run: Callable[..., Done], speaker: Path, treebank: Path, tmp_path: Path) -> None:
    few = ("--component", "block", "--by", "bottom", "--save", "bottom:1", "--samples", 10, "--no-twin")
    done = run("prune", speaker, "--corpus", treebank, "--target", "loss", *few, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert load_encoder(str(tmp_path / "out" / "model"), device="cpu").blocks == 2
    assert pd.read_csv(tmp_path / "out" / "order.csv")["head"].isna().all()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--by", "luck"), "each item one of importance, effect, random, top, bottom"),
        (("--step", "7"), "has only 6 heads; name 1 to 6"),
        (("--save", "importance"), "write BY:REMOVED, such as importance:2"),
        (("--save", "top:7"), "7 of 6 heads cannot be removed; name 1 to 6"),
        (("--component", "block", "--save", "top:3"), "3 of 3 blocks cannot be removed; name 1 to 2"),
        (("--by", "top", "--save", "bottom:1"), "name the order with --by bottom too"),
        (("--retrain", "3"), "name one with --save, such as --save importance:24"),
        (("--save", "top:1", "--retrain", "3"), "has no training texts; name a corpus that has some, such as ewt"),
        (("--target", "pairs", "--suite", "nowhere.tsv"), "--target: a curve has one target"),
    ],
    ids=["order", "step", "save", "heads", "blocks", "unasked", "unsaved", "untaught", "targets"],
)
def test_bad_input_is_told_in_a_sentence(
    run: Callable[..., Done], speaker: Path, treebank: Path, arguments: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    suite = tmp_path / "own.tsv"
    suite.write_text("good\tbad\nThe dog ran.\tThe dogs ran.\n")
    given = [str(suite) if each == "nowhere.tsv" else each for each in arguments]
    done = run("prune", speaker, "--corpus", treebank, "--target", "loss", *given)
    assert done.exit_code == 2, done.output
    assert sentence in " ".join(done.output.split())


def test_the_loss_of_a_sentence_encoder(run: Callable[..., Done], bert: Path, treebank: Path) -> None:
    done = run("prune", bert, "--corpus", treebank, "--target", "loss")
    assert done.exit_code == 2
    assert "it has no language-model head" in " ".join(done.output.split())
