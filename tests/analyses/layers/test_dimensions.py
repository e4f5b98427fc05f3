"""Dominant dimensions against loops over all pairs, and with one dimension made dominant."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import lamina
from lamina.corpora import corpus_from
from lamina.errors import CorpusError
from lamina.framework import check_findings
from lamina.models import Activations, Encoder, Tokens
from lamina.testing import TinyEncoder
from lamina.types import Text


class Leaning(Encoder):
    """Random vectors, whose dimension 2 is large at layer 1."""

    name, blocks, heads, width = "leaning", 1, 0, 6
    fingerprint = "d" * 64

    def tokenize(self, text: Text) -> Tokens:
        size = len(text.words)
        return Tokens(np.arange(size, dtype=np.int32), np.arange(size, dtype=np.int32))

    def encode(self, texts, want=("states",), *, ordered=True):
        for text in texts:
            drawn = np.random.default_rng([*text.words[0].encode()]).normal(size=(len(text.words), 2, 6))
            drawn[:, 1, 2] += 8
            yield Activations(text.id, self.tokenize(text), torch.from_numpy(drawn).float())


TEXTS = [Text(f"t{number}", (f"a{number}", "b", "c")[: 2 + number % 2], doc=f"d{number // 2}") for number in range(24)]


@pytest.fixture(scope="module")
def result():
    return lamina.dimensions(Leaning(), corpus_from(TEXTS), top=1, samples=200, twin=False)


def test_the_mean_cosine_is_that_of_all_pairs_of_words_from_different_documents(result) -> None:
    words = [(text.doc, vector) for text, states in zip(TEXTS, Leaning().encode(TEXTS), strict=True)
             for vector in states.states[:, 1].double().numpy()]  # fmt: skip
    cosines = [
        one @ other / np.linalg.norm(one) / np.linalg.norm(other)
        for doc, one in words for its_doc, other in words if doc != its_doc
    ]  # fmt: skip
    assert result.tables["layers"]["anisotropy"][1] == pytest.approx(np.mean(cosines), abs=1e-4)


def test_a_dominant_dimension_is_named_and_carries_nearly_all(result) -> None:
    layer = result.tables["layers"].iloc[1]
    assert (layer.dimensions, layer.against) == ("2", "even")
    assert layer.share > 0.95
    assert layer.low < layer.carried < layer.high
    (found,) = result.findings
    assert found.status == "clear"
    assert not check_findings(result)


def test_without_a_dominant_one_chance_does_not_choose(result) -> None:
    layer = result.tables["layers"].iloc[0]
    assert abs(layer.carried - layer.even) < 0.05
    assert layer.p_adjusted > 0.05


def test_more_dimensions_than_there_are_are_refused() -> None:
    with pytest.raises(CorpusError, match=r"--top 99: the layers of .* have \d+ dimensions"):
        lamina.dimensions(TinyEncoder(), corpus_from(TEXTS), top=99)


def test_two_texts_have_no_halves() -> None:
    with pytest.raises(CorpusError, match="takes 4 texts"):
        lamina.dimensions(TinyEncoder(), [["a", "b"], ["c", "d"]])
