"""Options that many commands share: how the model computes, what targets are called."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from lamina.cli.machine import encode
from lamina.cli.report import report
from lamina.cli.serve import serve
from lamina.framework.registry import all_analyses, get_analysis

TRAINS = ("windows", "restore", "finetune")
"""Train in float32, and encode nothing."""


def test_whatever_encodes_takes_a_precision():
    encoding = [each for each in all_analyses() if any(given.kind == "model" for given in each.reads.given)]
    without = [each.name for each in encoding if "dtype" not in {option.name for option in each.options}]
    assert without == [*TRAINS]
    for command in (encode, report, serve):
        assert "dtype" in inspect.signature(command).parameters


@pytest.mark.parametrize("name", ["contextualize", "neighbours"])
def test_a_setting_takes_the_place_of_an_option_of_its_name(name):
    declared = get_analysis(name)
    assert "annotation" in declared.settings
    assert "annotation" not in {option.name for option in declared.options}
    assert "annotation" not in declared.describe()["data_options"]["properties"]
    assert "annotation" in {option.name for option in get_analysis("geometry").options}


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Dependencies as edge-probing JSONL, without a name: every word hangs on the one before it."""
    targets = ", ".join(f'{{"span1": [{at}, {at + 1}], "span2": [{at - 1}, {at}], "label": "dep"}}' for at in (1, 2, 3))
    path = tmp_path / "mine.jsonl"
    path.write_text(f'{{"text": "The dog barked .", "targets": [{targets}]}}\n' * 4)
    return path


def test_targets_get_the_name_that_an_analysis_asks_for(run, bert: Path, pairs: Path, tmp_path: Path):
    asked = ("heads", bert, "--corpus", pairs, "--split", "all", "--samples", 5, "--out", tmp_path / "out")
    refused = run(*asked)
    assert refused.exit_code == 2
    assert "has no dependencies (annotation dep; it has: edges)" in refused.output
    assert not (tmp_path / "out").exists()

    done = run(*asked, "--annotation", "dep")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out" / "relations.csv").is_file()


def test_several_annotations_take_no_single_name(run, bert: Path, treebank: Path, tmp_path: Path):
    done = run("heads", bert, "--corpus", treebank, "--annotation", "dep", "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert "and 'dep' is one of them already; leave --annotation out" in done.output
    assert done.output.removeprefix("lamina: starting heads\n").count("\n") == 1
    assert not (tmp_path / "out").exists()
