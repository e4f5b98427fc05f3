"""Three checkpoints of a tiny BERT, a treebank, and a study of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.studies.tiny_study import STUDY, write_checkpoints, write_treebank


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoints(tmp_path_factory.mktemp("series"))


@pytest.fixture(scope="session")
def treebank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_treebank(tmp_path_factory.mktemp("texts"))


@pytest.fixture
def study_file(
    tmp_path: Path, checkpoints: Path, treebank: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Path]:
    """Writes a study file: the usual one, and what is given after it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAMINA_STORE", str(tmp_path / "store"))

    def write(more: str = "", *, name: str = "study.toml") -> Path:
        path = tmp_path / name
        path.write_text((STUDY + more).format(models=checkpoints, treebank=treebank))
        return path

    return write
