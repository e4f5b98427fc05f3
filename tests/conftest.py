"""What all tests share: where the real corpora are, and no network by accident."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real corpora; tests that need it are skipped where there is none."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ["LAMINA_DATA"]) if os.environ.get("LAMINA_DATA") else beside
    if not folder.is_dir():
        pytest.skip("no real corpora: set LAMINA_DATA to the folder that holds them")
    return folder
