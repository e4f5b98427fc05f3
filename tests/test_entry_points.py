"""Other packages add analyses by an entry point: one is built, installed and used as lamina's own are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

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


def lamina(environment: dict[str, str], *words: object) -> str:
    command = [sys.executable, "-m", "lamina", *map(str, words)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_analysis_of_another_package_is_like_one_of_ours(
    installed: dict[str, str], tmp_path: Path, model_folder
) -> None:
    (tmp_path / "pets.txt").write_text("Dogs bark .\nCats do not bark .\nThe dog saw the cat .\n")
    model = model_folder("bert")

    assert "sentence_lengths" in lamina(installed, "--help")
    assert json.loads(lamina(installed, "describe", "sentence_lengths"))["title"] == "Sentence lengths"
    told = lamina(
        installed, "sentence_lengths", model, "--corpus", tmp_path / "pets.txt", "--split", "all", "--most", 5,
        "--out", tmp_path / "r",
    )  # fmt: skip
    assert told.splitlines()[0] == "open   A sentence has 4.0 words on average."
    assert "1 sentences that are too long" in told
    assert (tmp_path / "r" / "lengths.csv").read_text().splitlines()[0] == "words,sentences"
    assert (tmp_path / "r" / "lengths.svg").is_file()

    asked = "import lamina; from lamina.report import choose; print(lamina.sentence_lengths.title, choose()[-1])"
    asked += "; print('sentence_lengths' in lamina.__all__)"
    shown = subprocess.run([sys.executable, "-c", asked], env=installed, capture_output=True, text=True, check=True)
    assert shown.stdout == "Sentence lengths sentence_lengths\nTrue\n"


def test_a_package_cannot_replace_one_of_ours(installed: dict[str, str]) -> None:
    from lamina.analyses import ANALYSES, names

    assert names()[: len(ANALYSES)] == tuple(each.partition(":")[2] for each in ANALYSES)
