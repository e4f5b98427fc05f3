"""`lamina attention`, from the command line to the files."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from lamina.cli import main
from lamina.errors import CorpusError, ModelError


def run(*args: object, fails: bool = False) -> Result:
    words = ["attention", *map(str, args)]
    result = CliRunner(env={"COLUMNS": "200"}).invoke(main.app, words, catch_exceptions=fails)
    assert fails or result.exit_code == 0, result.output
    return result


@pytest.fixture
def articles(tmp_path: Path) -> Path:
    path = tmp_path / "articles.txt"
    path.write_text(
        " = Dogs = \n\n The dog barked .\n\n A cat ran , and the dog ran .\n\n the dogs bark .\n\n the end .\n"
    )
    return path


def test_tables_charts_and_provenance_are_written(bert: Path, treebank: Path, tmp_path: Path):
    out = tmp_path / "attention"
    told = run(bert, "--corpus", treebank, "--out", out, "--samples", 20).stdout.splitlines()
    assert told[0] == "all 6 texts; first token: a special token, put before the text"
    assert told[-1] == str(out)
    assert (out / "surface.csv").read_text().startswith("layer,head,measure,value,low,high,baseline,difference,")
    assert (out / "patterns.csv").read_text().startswith("layer,head,pattern,share,low,high\n")
    assert not (out / "gradients.csv").exists()
    assert set(pd.read_csv(out / "surface.csv")["layer"]) == {1, 2}


def test_pairs_of_paragraphs(bert: Path, articles: Path, tmp_path: Path):
    out = tmp_path / "attention"
    asked = (bert, "--corpus", articles, "--split", "all", "--out", out, "--samples", 20, "--pairs", "--length", 12)
    told = run(*asked).stdout
    assert told.startswith("all 2 pairs of consecutive texts of one document")
    assert "cut at the last whole word" in told
    expected = run(*asked, "--dry-run").stdout
    assert "passes   1\ntexts    2\n" in expected
    assert "tokens   22\n" in expected


def test_a_dry_run_writes_nothing(bert: Path, treebank: Path, tmp_path: Path):
    told = run(bert, "--corpus", treebank, "--out", tmp_path / "none", "--limit", 3, "--dry-run").stdout
    assert "texts    3" in told
    assert not (tmp_path / "none").exists()


def test_what_cannot_be_done_is_said(bert: Path, treebank: Path, tmp_path: Path):
    asked = (bert, "--corpus", treebank, "--out", tmp_path / "none")
    assert isinstance(run(*asked, "--gradients", fails=True).exception, ModelError)
    assert isinstance(run(*asked, "--pairs", fails=True).exception, CorpusError)
    assert run(*asked, "--length", 2, fails=True).exit_code == 2
    assert not (tmp_path / "none").exists()
