"""`lamina perturb`, from the command line to tables and figure, and what it says to bad input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from lamina.figures import to_svg
from lamina.figures.perturb import draw
from lamina.results import Result
from tests.cli.conftest import Done

COLUMNS = "how,strength,target,value,low,high,baseline,difference,diff_low,diff_high,p_adjusted,units,needed,unit"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "own.tsv"
    path.write_text("good\tbad\nThe dog ran.\tThe dogs ran.\nwho barked there?\tthere barked who?\n")
    return path


@pytest.mark.usefixtures("drawn_charts")
def test_loss_and_pairs_with_their_twin(
    run: Callable[..., Done], speaker: Path, treebank: Path, suite: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    few = ("--how", "shuffled,shuffled_within,phrases,positions", "--ngrams", "1,2", "--shifts", "8", "--items", 4)
    asked = ("--corpus", treebank, "--suite", suite, "--target", "loss", "--target", "pairs")
    done = run("perturb", speaker, *asked, *few, "--samples", 20, "--out", out)
    assert done.exit_code == 0, done.output
    assert "all words shuffled" in done.output
    assert "huffling all words" in done.output
    for name in ("perturb", "twin"):
        assert (out / f"{name}.csv").read_text().splitlines()[0] == COLUMNS
    assert (out / "items.parquet").is_file()
    table = pd.read_csv(out / "perturb.csv").set_index(["target", "how", "strength"])
    assert table.loc[("loss", "shuffled_within", 1.0), "difference"] == 0
    assert table.loc[("pairs", "shuffled", 1.0), "value"] in (0.25, 0.75), "one pair has the same words: one half"
    result = Result.load(out)
    assert result.provenance.corpus["pairs"]["name"]
    assert "sentences of pairs without dependencies: not perturbed by phrases" in result.provenance.skipped
    (chart,) = draw(result).values()
    assert "<svg" in to_svg(chart)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--target", "lose"), "unknown target 'lose'; name loss, pairs, qa or probe:TASK, such as probe:pos"),
        (("--target", "qa"), "has no head that answers with a span of a context"),
        (("--how", "backwards"), "each item one of shuffled, shuffled_within, phrases"),
        (("--target", "pairs", "--suite", "nowhere.tsv"), "nowhere.tsv"),
        (("--target", "loss", "--how", "positions", "--shifts", "39"), "fewer than 16 are left for a text"),
    ],
    ids=["target", "qa", "how", "suite", "shift"],
)
def test_bad_input_is_told_in_a_sentence(
    run: Callable[..., Done], speaker: Path, treebank: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    done = run("perturb", speaker, "--corpus", treebank, *arguments)
    assert done.exit_code == 2, done.output
    assert sentence in " ".join(done.output.split())


def test_a_model_without_a_head_is_told_which_models_have_one(
    run: Callable[..., Done], bert: Path, treebank: Path
) -> None:
    done = run("perturb", bert, "--corpus", treebank, "--target", "loss")
    assert done.exit_code == 2
    assert "it has no language-model head; these have: " in " ".join(done.output.split())
