"""What models say, compared: `lamina compare` of saved results, and `lamina diff` of two models, from the terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from lamina.results import Result
from tests.cli.conftest import Done
from tests.language_models import tiny_masked

PAIRS = "good\tbad\tparadigm\nThe dog barked .\tThe dog barked barked .\tdouble\n" + "".join(
    f"{good} .\t{bad} .\tswap\n" for good, bad in (("A cat ran", "A ran cat"), ("the dog ran", "the ran dog"))
)
CLOZES = "text\tanswer\nthe dog ___ .\tran\nthe ___ barked .\tdog\n"


@pytest.fixture(scope="module")
def speakers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two tiny BERTs of one architecture with their heads."""
    made = []
    for seed in (7, 8):
        encoder, folder = tiny_masked(seed), tmp_path_factory.mktemp("models") / f"tiny{seed}"
        assert encoder.whole is not None
        encoder.whole.save_pretrained(folder)
        encoder.tokenizer.save_pretrained(folder)
        made.append(folder)
    return made[0], made[1]


@pytest.fixture
def suites(tmp_path: Path) -> tuple[Path, Path]:
    pairs, clozes = tmp_path / "own.tsv", tmp_path / "gaps.tsv"
    pairs.write_text(PAIRS)
    clozes.write_text(CLOZES)
    return pairs, clozes


def test_models_are_compared_by_their_pairs_and_not_by_unlike_results(
    run: Callable[..., Done], speakers: tuple[Path, Path], suites: tuple[Path, Path], tmp_path: Path
) -> None:
    few = ("--no-twin", "--samples", 20)
    for speaker in speakers:
        done = run("pairs", speaker, "--suite", suites[0], "--ngrams", "none", *few, "--out", tmp_path / speaker.name)
        assert done.exit_code == 0, done.output
    run("cloze", speakers[0], "--suite", suites[1], *few, "--out", tmp_path / "cloze")

    out = tmp_path / "compared"
    done = run("compare", tmp_path / "tiny7", tmp_path / "tiny8", "--samples", 50, "--out", out)
    assert done.exit_code == 0, done.output
    assert "Differences, paired by item" in done.output
    table = pd.read_csv(out / "compare.csv").set_index(["model", "task"])["value"]
    for name in ("tiny7", "tiny8"):
        own = pd.read_csv(tmp_path / name / "pairs.csv").query("score == 'plain'").set_index("paradigm")["accuracy"]
        assert table[name].to_dict() == pytest.approx(own.to_dict())
    assert len(pd.read_parquet(out / "items.parquet")) == 6

    for others, said in ((["cloze"], "results of pairs and cloze cannot be compared"), ([], "needs two results")):
        done = run("compare", tmp_path / "tiny7", *(tmp_path / each for each in others), "--out", tmp_path / "bad")
        assert (done.exit_code, said in done.output) == (2, True), done.output


def test_suites_are_asked_before_and_after(
    run: Callable[..., Done],
    speakers: tuple[Path, Path],
    suites: tuple[Path, Path],
    treebank: Path,
    store: Path,
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    where = ("--corpus", treebank, "--store", store, "--no-attention", "--no-twin", "--samples", 20)
    asked = ("--pairs", suites[0], "--cloze", suites[1])
    done = run("diff", *speakers, *where, *asked, "--out", out)
    assert done.exit_code == 0, done.output
    rows = pd.read_csv(out / "behaviour.csv")
    assert rows[["analysis", "suite", "group"]].to_numpy().tolist() == [
        ["pairs", "own", "all"], ["pairs", "own", "double"], ["pairs", "own", "swap"], ["cloze", "gaps", "gaps"],
    ]  # fmt: skip
    assert (rows["after"] - rows["before"]).tolist() == pytest.approx(rows["difference"].tolist())
    items = pd.read_parquet(out / "items.parquet")
    assert items.groupby("suite", sort=False).size().to_dict() == {"own": 3, "gaps": 2}
    assert {*Result.load(out).provenance.corpus["suites"]} == {"pairs", "cloze"}
    assert (out / "behaviour.svg").exists()


def test_models_without_a_head_say_so_before_any_work(
    run: Callable[..., Done], bert: Path, speakers: tuple[Path, Path], suites: tuple[Path, Path], treebank: Path
) -> None:
    done = run("diff", bert, bert, "--corpus", treebank, "--pairs", suites[0])
    assert done.exit_code == 2
    assert "has no language-model head; these have: smollm2" in done.output
    done = run("diff", *speakers, "--corpus", treebank, "--items", 5)
    assert (done.exit_code, "--items is for suites" in done.output) == (2, True)
