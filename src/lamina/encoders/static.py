"""Static word vectors: GloVe text, word2vec text and word2vec binary."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import numpy as np
import torch

from lamina.encoders.contract import STATES, Activations, Encoder, Tokens, Want
from lamina.encoders.vectors import read_vectors
from lamina.errors import ModelError
from lamina.types import Text

FORMAT = 1
"""Of what encoding means; raised when the same vectors and text would give other numbers."""


class StaticEncoder(Encoder):
    """One vector a word, whatever its context. One token a word, no special tokens.

    A word is looked up as written, then lower-cased; an unknown one gets a vector drawn from N(0, I),
    always the same for the same word, and is counted.

    Example:
        >>> encoder = StaticEncoder(["dog"], np.ones((1, 4), np.float32), name="demo")
        >>> next(encoder.encode([Text("s", ("Dog", "qwzx"))])).tokens.unknown
        1
    """

    def __init__(self, words: list[str], vectors: np.ndarray, *, name: str) -> None:
        if len(words) != len(vectors):
            raise ModelError(f"{name}: {len(words)} words but {len(vectors)} vectors")
        self.name = name
        self.blocks, self.heads, self.width = 0, 0, vectors.shape[1]
        self._vectors = vectors = vectors.astype(np.float32, copy=False)
        # The first of two equal words counts: vector files are sorted by frequency.
        self._row: dict[str, int] = {}
        for row, word in enumerate(words):
            self._row.setdefault(word, row)
        digest = hashlib.sha256(f"static {FORMAT} {self.width}\0".encode())
        digest.update("\0".join(words).encode("utf-8", "surrogatepass"))
        digest.update(np.ascontiguousarray(vectors).data)
        self._fingerprint = digest.hexdigest()

    @classmethod
    def read(cls, path: Path, *, name: str) -> StaticEncoder:
        """From a file; text with or without a header line, or word2vec's binary format (`.bin`)."""
        return cls(*read_vectors(path), name=name)

    @property
    def fingerprint(self) -> str:
        """See `Encoder.fingerprint`."""
        return self._fingerprint

    def tokenize(self, text: Text) -> Tokens:
        """See `Encoder.tokenize`."""
        rows = [self._find(word) for word in text.words]
        return Tokens(np.array(rows, np.int32), np.arange(len(rows), dtype=np.int32), rows.count(-1))

    def encode(
        self, texts: Iterable[Text], want: Collection[Want] = STATES, *, ordered: bool = True
    ) -> Iterator[Activations]:
        """See `Encoder.encode`."""
        if "maps" in want:
            raise ModelError(f"{self.name} has no attention maps")
        for text in texts:
            tokens = self.tokenize(text)
            states = self._vectors[tokens.ids]
            for at in np.flatnonzero(tokens.ids == -1):
                states[at] = _drawn(text.words[at], self.width)
            yield Activations(text.id, tokens, torch.from_numpy(states).unsqueeze(1))

    def _find(self, word: str) -> int:
        row = self._row.get(word)
        return row if row is not None else self._row.get(word.lower(), -1)


def _drawn(word: str, width: int) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()[:8], "little")
    return np.random.default_rng(seed).standard_normal(width).astype(np.float32)
