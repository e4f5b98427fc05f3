"""Other packages add analyses by an entry point: one is built, installed and used as lamina's own are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).parent / "example_package"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which the example package is installed."""
    source = tmp_path_factory.mktemp("source")
    target = tmp_path_factory.mktemp("site")
    # Built from a copy: building leaves files behind.
    subprocess.run(["cp", "-r", str(EXAMPLE), str(source)], check=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(target), str(source / EXAMPLE.name)], check=True)
    return os.environ | {"PYTHONPATH": str(target), "LAMINA_PROGRESS": "none", "COLUMNS": "200"}


ASKED = """
import json, sys
import lamina
from lamina.cli.main import app
from lamina.report import choose
from typer.testing import CliRunner

told = {}
for words in json.loads(sys.argv[1]):
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    told[words[0]] = done.stdout
told["python"] = [lamina.sentence_lengths.title, choose()[-1], "sentence_lengths" in lamina.__all__]
print(json.dumps(told))
"""
"""Runs commands one after the other in a process that has the package: most of each would be the start."""


def ask(environment: dict[str, str], *commands: list[object]) -> dict[str, Any]:
    """The first word of each command -> what it printed; and what Python sees."""
    given = json.dumps(commands, default=str)
    done = subprocess.run(
        [sys.executable, "-c", ASKED, given], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_an_analysis_of_another_package_is_like_one_of_ours(
    installed: dict[str, str], tmp_path: Path, model_folder
) -> None:
    (tmp_path / "pets.txt").write_text("Dogs bark .\nCats do not bark .\nThe dog saw the cat .\n")
    model = model_folder("bert")

    own = ["sentence_lengths", model, "--corpus", tmp_path / "pets.txt", "--split", "all", "--most", 5]
    told = ask(installed, ["--help"], ["describe", "sentence_lengths"], [*own, "--out", tmp_path / "r"])

    assert "sentence-lengths" in told["--help"]
    assert json.loads(told["describe"])["title"] == "Sentence lengths"
    told_first = "2 texts are too few to test whether sentences are longer or shorter than the usual 20 words"
    assert told["sentence_lengths"].splitlines()[0] == f"untested {told_first}; at least 6 are needed."
    assert "1 sentences that are too long" in told["sentence_lengths"]
    assert (tmp_path / "r" / "lengths.csv").read_text().splitlines()[0] == "words,sentences"
    assert (tmp_path / "r" / "lengths.svg").is_file()
    assert told["python"] == ["Sentence lengths", "sentence_lengths", True]


def test_a_package_cannot_replace_one_of_ours(installed: dict[str, str]) -> None:
    from lamina.analyses import ANALYSES
    from lamina.framework.registry import names

    assert names()[: len(ANALYSES)] == tuple(each.partition(":")[2] for each in ANALYSES)
