"""`lamina headmap` and `lamina look`, from the command line to the files."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from lamina.cli import main


def output(*args: object) -> str:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(main.app, [str(arg) for arg in args])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


@pytest.mark.usefixtures("drawn_charts")
def test_a_map_is_written_and_read_again(bert: Path, treebank: Path, tmp_path: Path):
    folder = tmp_path / "map"
    said = output("headmap", bert, "--corpus", treebank, "--out", folder, "--samples", 10)
    assert said.splitlines()[-1] == str(folder)
    points = pd.read_csv(folder / "points.csv")
    assert points.columns.tolist() == ["layer", "head", "x", "y", "behaviour"]
    assert len(points) == 4
    assert len(pd.read_csv(folder / "divergences.csv")) == 6
    assert (folder / "map.svg").read_text(encoding="utf-8").startswith("<svg")
    made = (folder / "result.json").stat().st_mtime_ns
    output("headmap", bert, "--corpus", treebank, "--out", folder, "--samples", 10)
    assert (folder / "result.json").stat().st_mtime_ns == made


def test_a_dry_run_of_a_map_computes_nothing(bert: Path, treebank: Path, tmp_path: Path):
    assert "texts    6\n" in output("headmap", bert, "--corpus", treebank, "--out", tmp_path / "map", "--dry-run")
    assert not (tmp_path / "map").exists()


@pytest.mark.usefixtures("drawn_charts")
def test_a_look_writes_its_svg(bert: Path, tmp_path: Path):
    folder = tmp_path / "look"
    said = output(
        "look", bert, "The dog barked.", "--head", "2-1", "--level", "piece", "--focus", "dog", "--out", folder
    )
    assert said.splitlines() == ["2-1  asked for", str(folder)]
    assert ">dog</text>" in (folder / "lines.svg").read_text(encoding="utf-8")
    assert set(pd.read_csv(folder / "attention.csv")["layer"]) == {2}


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["The dog", "--head", "13-1"], "there is no head 13-1"),
        ([""], "the sentence has no words"),
        (["dog " * 100], "give a shorter one"),
        (["The dog", "--focus", "cat"], "'cat' is not in the sentence"),
    ],
    ids=str,
)
def test_a_mistake_ends_in_one_line(bert: Path, args: list[str], why: str, monkeypatch, capsys, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["lamina", "look", str(bert), *args])
    with pytest.raises(SystemExit) as stopped:
        main.main()
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert why in said
    assert "Traceback" not in said
    assert not (tmp_path / "results").exists()
