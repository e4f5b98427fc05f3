"""`lamina lens`, from the command line to the tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lamina.results import Result
from tests.cli.conftest import Done

Run = Callable[..., Done]


@pytest.fixture(scope="module")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "own.txt"
    words = ("dog", "cat", "fox", "bark", "mat")
    path.write_text("".join(f"the {one} and the {other} ran {one}\n" for one in words for other in words) * 4)
    return path


def test_tables_of_a_corpus_and_a_typed_text(run: Run, speaker: Path, sentences: Path, tmp_path: Path) -> None:
    quick = ("--positions", 40, "--learned", 100, "--steps", 2, "--samples", 20, "--store", tmp_path / "store")
    out = tmp_path / "out"
    status, said = run("lens", speaker, "--corpus", sentences, "--text", "the dog ran", *quick, "--out", out)
    assert status == 0, said
    assert (out / "lens.csv").read_text().splitlines()[0] == "layer,lens,measure,value,low,high"
    header = "token,index,layer,lens,rank,piece,probability,probability_of_actual,kl"
    assert (out / "tokens.csv").read_text().splitlines()[0] == header
    result = Result.load(out)
    assert set(result.tables) == {
        "lens",
        "gain",
        "reached",
        "depth",
        "contrasts",
        "twin",
        "draws",
        "baseline",
        "tokens",
    }
    assert "final answer" in said
    assert result.provenance.model["head"] == "causal language model"


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (("--suite", "nowhere.tsv"), "neither a suite of minimal pairs"),
        (("--text", " "), "the text is empty; give some words in quotes"),
    ],
)
def test_what_cannot_be_asked_is_said(
    run: Run, asked: tuple[object, ...], expected: str, speaker: Path, sentences: Path, tmp_path: Path
) -> None:
    status, said = run("lens", speaker, "--corpus", sentences, *asked, "--out", tmp_path / "out")
    assert status == 2
    assert expected in said


def test_a_model_without_a_head_is_refused(run: Run, bert: Path, sentences: Path, tmp_path: Path) -> None:
    status, said = run("lens", bert, "--corpus", sentences, "--out", tmp_path / "out")
    assert status == 2
    assert "it has no language-model head; these have: " in said
