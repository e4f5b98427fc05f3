"""Translations as nearest neighbours: put at one layer, found there and nowhere else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors

import lamina
from lamina.analyses.layers.retrieval import nearest
from lamina.corpora.suites.parallel import read_parallel
from lamina.errors import CorpusError, FormatError
from lamina.figures import draw
from lamina.framework import check_findings
from lamina.models import Activations, Encoder, Tokens
from lamina.types import Text

PAIRS, WIDTH, PLANTED = 60, 12, 1


class Bilingual(Encoder):
    """Noise by sentence; at layer 1 of the trained model a sentence and its translation share a vector.

    Its number is its first word; German vectors are far away from English ones.
    """

    name, blocks, heads, width = "bilingual", 2, 0, WIDTH

    def __init__(self, *, trained: bool = True) -> None:
        self._trained = trained

    @property
    def fingerprint(self) -> str:
        return ("e" if self._trained else "f") * 64

    def random_twin(self, seed: int = 0, *, keep_embeddings: bool = False) -> Bilingual:
        return Bilingual(trained=False)

    def tokenize(self, text: Text) -> Tokens:
        size = len(text.words)
        return Tokens(np.arange(size, dtype=np.int32), np.arange(size, dtype=np.int32))

    def encode(self, texts, want=("states",), *, ordered: bool = True):
        for text in texts:
            meaning = int(text.words[0][1:], 16) ^ (0xAAAA if text.words[0][0] == "d" else 0)
            rng = np.random.default_rng([*" ".join(text.words).encode(), self._trained])
            states = rng.normal(size=(len(text.words), self.layers, WIDTH))
            if self._trained:
                states[:, PLANTED] += 4 * np.random.default_rng(meaning).normal(size=WIDTH)
                states[:, PLANTED] += 20 * (text.words[0][0] == "d")
            yield Activations(text.id, self.tokenize(text), torch.from_numpy(states).float())


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The spelling of a translation has nothing of its sentence's."""
    file = tmp_path_factory.mktemp("parallel") / "own.tsv"
    numbers = np.random.default_rng(0).choice(0x10000, PAIRS, replace=False)
    file.write_text("en\tde\n" + "".join(f"e{n:04x} a b\td{n ^ 0xAAAA:04x} c d\n" for n in numbers.tolist()))
    return file


def test_what_is_put_at_a_layer_is_found_there_alone(path: Path) -> None:
    result = lamina.retrieval(Bilingual(), path, samples=50)
    rows = result.tables["retrieval"].set_index(["direction", "system", "layer"])["accuracy"]
    for direction in ("en to de", "de to en"):
        assert rows[(direction, "model", PLANTED)] > 0.9
        assert max(rows[(direction, "model", layer)] for layer in (0, 2)) < 0.2
    readings = result.tables["readings"]
    clear = readings[readings["p_adjusted"] < 0.05]
    assert set(clear["layer"]) == {PLANTED}
    assert [each.status for each in result.findings] == ["clear", "clear"]
    assert not check_findings(result)
    assert set(draw(result)) == {"retrieval"}


def test_nearest_neighbours_are_scikit_learns() -> None:
    rng = np.random.default_rng(3)
    one, other = rng.normal(size=(2, 40, 5)) + np.array([0.0, 3.0])[:, None, None]
    other += one
    theirs = NearestNeighbors(n_neighbors=1, metric="cosine").fit(other - other.mean(0)).kneighbors(one - one.mean(0))
    assert nearest(one, other)[0].tolist() == (theirs[1][:, 0] == np.arange(40)).astype(float).tolist()


def test_bad_tables_are_told_in_a_sentence(tmp_path: Path) -> None:
    few = tmp_path / "few.tsv"
    few.write_text("en\tde\na\tb\nc\td\n")
    with pytest.raises(CorpusError, match="has 2 pairs of different sentences; retrieval needs at least 10"):
        read_parallel(few)
    wide = tmp_path / "wide.tsv"
    wide.write_text("en\tde\tfr\na\tb\tc\nd\te\tf\n")
    with pytest.raises(FormatError, match=r"3 columns .*; expected two columns, a sentence and its translation"):
        read_parallel(wide)
