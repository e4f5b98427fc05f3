"""Word vectors that users bring: found by name, encoded, and refused with the file to bring."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.assets import own_vectors
from lamina.errors import AssetError
from lamina.models import load_encoder


def test_vectors_are_found_by_name_in_lamina_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_DATA", str(tmp_path))
    with pytest.raises(AssetError, match=r"put glove\.6B\.300d\.txt or glove\.840B\.300d\.txt into the folder"):
        load_encoder("glove300")
    (tmp_path / "vectors").mkdir()
    (tmp_path / "vectors" / "wiki-news-300d-1M.vec").write_text("2 3\ndogs 1 0 0\nbark 0 1 0\n")
    assert own_vectors("fasttext") == tmp_path / "vectors" / "wiki-news-300d-1M.vec"
    encoder = load_encoder("fasttext")
    assert (encoder.name, encoder.width) == ("wiki-news-300d-1M", 3)
