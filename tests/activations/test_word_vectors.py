"""Words are the means of their pieces."""

from __future__ import annotations

from pathlib import Path

import torch

from lamina.activations import extract
from lamina.activations.reading import WordVectors
from lamina.corpora import corpus_from
from lamina.testing import SAMPLE_TEXTS, TinyEncoder


def test_word_vectors_equal_a_plain_loop(tmp_path: Path) -> None:
    texts = [*SAMPLE_TEXTS, SAMPLE_TEXTS[0]]
    stored = extract(TinyEncoder(), corpus_from(texts), root=tmp_path)

    vectors = WordVectors(stored, [len(text.words) for text in texts])

    assert vectors.text.tolist() == [i for i, text in enumerate(texts) for _ in text.words]
    for layer in range(3):
        expected = [
            each.states[torch.from_numpy(each.tokens.words == word), layer].float().mean(0)
            for text, each in zip(texts, stored, strict=True)
            for word in range(len(text.words))
        ]
        torch.testing.assert_close(vectors.layer(layer), torch.stack(expected))
