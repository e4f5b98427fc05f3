"""`lamina ablate`, from the command line to tables and figures, and what it says to bad input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from lamina.analyses.cause.ablate import EFFECTS
from lamina.figures import to_svg
from lamina.figures.ablate import draw
from lamina.results import Result
from tests.cli.conftest import Done

COLUMNS = ",".join(EFFECTS)


@pytest.mark.usefixtures("drawn_charts")
def test_loss_and_pairs_with_their_twin(
    run: Callable[..., Done], speaker: Path, treebank: Path, tmp_path: Path
) -> None:
    suite = tmp_path / "own.tsv"
    suite.write_text("good\tbad\nThe dog ran.\tThe dogs ran.\nwho barked there?\tthere barked who?\n")
    out = tmp_path / "out"
    asked = ("--corpus", treebank, "--suite", suite, "--how", "zero", "--how", "resample")
    done = run("ablate", speaker, *asked, "--items", 4, "--samples", 20, "--out", out)
    assert done.exit_code == 0, done.output
    assert "are too few to test whether any head matters to the loss" in " ".join(done.output.split())
    for name in ("effects", "twin"):
        assert (out / f"{name}.csv").read_text().splitlines()[0] == COLUMNS
    assert (out / "importance.csv").read_text().splitlines()[0] == "layer,head,importance,low,high"
    table = pd.read_csv(out / "effects.csv")
    assert set(table["target"]) == {"loss", "pairs"}
    assert set(table["component"]) == {"head", "random", "block"}
    assert table.loc[table["component"] == "block", "head"].isna().all()
    assert (table["effect"] - (table["value"] - table["baseline"])).abs().max() < 1e-6
    agreement = pd.read_csv(out / "agreement.csv")
    assert set(agreement["of"]) == {"model", "twin"}
    result = Result.load(out)
    assert result.provenance.corpus["importance_by"] == "loss"
    charts = draw(result)
    assert list(charts) == ["heads", "blocks", "importance"]
    assert all("<svg" in to_svg(chart) for chart in charts.values())


def test_blocks_alone_need_no_heads_and_a_dry_run_measures_nothing(
    run: Callable[..., Done], speaker: Path, treebank: Path, tmp_path: Path
) -> None:
    few = ("--corpus", treebank, "--target", "loss", "--items", 4, "--component", "block", "--no-twin")
    done = run("ablate", speaker, *few, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert not (tmp_path / "out" / "importance.csv").exists()
    dry = run("ablate", speaker, *few, "--dry-run", "--out", tmp_path / "dry")
    assert dry.exit_code == 0, dry.output
    assert "about" in dry.output
    assert not (tmp_path / "dry").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--head", "9-1"), "has no head 9-1; it has 3 layers of 2 heads"),
        (("--head", "x"), "--head x: name a head as LAYER-HEAD, both counted from 1, such as 3-2"),
        (("--how", "gone"), "one of zero, mean, resample"),
        (("--target", "lose"), "unknown target 'lose'"),
    ],
    ids=["head", "no head", "how", "target"],
)
def test_bad_input_is_told_in_a_sentence(
    run: Callable[..., Done], speaker: Path, treebank: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    done = run("ablate", speaker, "--corpus", treebank, *arguments)
    assert done.exit_code == 2, done.output
    assert sentence in " ".join(done.output.split())


def test_a_target_that_the_model_cannot_give_is_told_with_what_works(
    run: Callable[..., Done], bert: Path, treebank: Path
) -> None:
    done = run("ablate", bert, "--corpus", treebank, "--target", "loss")
    assert done.exit_code == 2
    said = " ".join(done.output.split())
    assert "it has no language-model head" in said
    assert "--target probe:" in said
