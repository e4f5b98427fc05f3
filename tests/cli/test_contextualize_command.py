"""`lamina contextualize`, from the command line to the files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from lamina.analyses.contextualization.presets import PRESETS
from lamina.cli.contextualize import contextualize
from lamina.errors import InputError
from lamina.probes.mlp import MLPTraining

APP = typer.Typer()
APP.command()(contextualize)
APP.command("other")(lambda: None)


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    short = MLPTraining(hidden=8, learning_rate=0.01, epochs=4, batch=32, validate_every=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PRESETS, "quick", replace(PRESETS["quick"], training=short, context_sizes=(0, 1)))
        yield


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    lines = [f"the @dog{n}@-animal barked and @city{n}@-place ran ." for n in range(40)] * 2
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def run(*args: object) -> Result:
    return CliRunner(env={"COLUMNS": "220"}).invoke(APP, ["contextualize", *map(str, args)])


def test_tables_and_what_is_printed(bert: Path, corpus: Path, store: Path, tmp_path: Path):
    out = tmp_path / "out"
    vectors = tmp_path / "own.txt"
    vectors.write_text("dog1 1 0\ndog2 0 1\n")
    result = run(
        bert, "--corpus", corpus, "--out", out, "--store", store, "--samples", 20, "--vectors", vectors,
        "--device", "cpu",
    )  # fmt: skip
    assert result.exit_code == 0, (result.output, result.exception)
    head = "representation,layer,context,class,seed,split,count,value,low,high"
    for name in ("sclass", "context", "recall", "frequent", "words"):
        assert (out / f"{name}.csv").read_text().splitlines()[0] == head
    assert (out / "contexts.csv").read_text().splitlines()[0] == "split,contexts,pairs"
    for name in ("tinybert input", "P-tinybert input", "AVG-tinybert", "own", "P-own", "skip-gram", "P-random"):
        assert f"\n{name}," in (out / "sclass.csv").read_text()
        assert name in result.stdout
    assert "words that own lacks, drawn from N(0, I)" in result.stdout
    assert str(out) in result.stdout


def test_dry_run_computes_nothing(bert: Path, corpus: Path, store: Path, tmp_path: Path):
    result = run(bert, "--corpus", corpus, "--store", store, "--out", tmp_path / "out", "--dry-run")
    assert result.exit_code == 0
    assert "texts    80" in result.stdout
    assert not (tmp_path / "out").exists()


def test_sizes_that_are_no_numbers_are_said(bert: Path, corpus: Path):
    result = run(bert, "--corpus", corpus, "--context-sizes", "0,two")
    assert isinstance(result.exception, InputError)
    assert "as 0,2,4,8,16,32; got '0,two'" in str(result.exception)
