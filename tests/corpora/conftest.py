"""Small corpora on disk, and a cache of their own for tests that load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def treebank() -> Callable[..., str]:
    """CoNLL-U of `Dogs bark` sentences with these ids, in one document or in none."""

    def make(*ids: str, doc: str | None = None) -> str:
        blocks = [f"# newdoc id = {doc}\n"] if doc else []
        for name in ids:
            blocks.append(
                f"# sent_id = {name}\n"
                "1\tDogs\tdog\tNOUN\tNNS\t_\t2\tnsubj\t_\t_\n"
                "2\tbark\tbark\tVERB\tVBP\t_\t0\troot\t_\t_\n\n"
            )
        return "".join(blocks)

    return make
