"""Static word vectors: GloVe text, word2vec text and word2vec binary."""

from __future__ import annotations

import hashlib
import io
import reprlib
import tempfile
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import numpy as np
import torch

from lamina.encoders.contract import STATES, Activations, Encoder, Tokens, Want
from lamina.errors import FormatError, ModelError
from lamina.files.reading import open_regular
from lamina.types import Text


def read_vectors(path: Path) -> tuple[list[str], np.ndarray]:
    """Words and their vectors from GloVe text, word2vec text (a header line) or word2vec binary (`.bin`)."""
    read = _read_binary if path.suffix == ".bin" else _read_text
    words, vectors = read(path)
    if not words:
        raise FormatError(f"{path}: contains no vectors; expected lines with a word and its numbers")
    odd = np.flatnonzero(~np.isfinite(vectors).all(1))
    if len(odd):
        raise FormatError(
            f"{path}: the vector of {words[odd[0]]!r} has values that are not numbers ({len(odd)} such vectors); "
            "leave those words out of the file"
        )
    return words, vectors


def _read_text(path: Path) -> tuple[list[str], np.ndarray]:
    words: list[str] = []
    rows: list[np.ndarray] = []
    promised, width = None, 0
    with io.TextIOWrapper(open_regular(path), encoding="utf-8", errors="surrogateescape") as lines:
        for number, line in enumerate(lines, start=1):
            fields = line.rstrip().split(" ")
            if number == 1 and len(fields) == 2:
                promised, width = _header(path, fields)
                continue
            width = width or len(fields) - 1
            # Some words in large files contain spaces: the numbers are the last fields.
            numbers = fields[-width:]
            try:
                row = np.array(numbers, dtype=np.float32)
            except ValueError:
                row = np.empty(0)
            if not width or len(fields) <= width or len(row) != width:
                raise FormatError(
                    f"{path}:{number}: expected a word and {width or 'its'} numbers, got {len(fields)} fields"
                )
            words.append(" ".join(fields[:-width]))
            rows.append(row)
    if promised is not None and promised != len(words):
        raise FormatError(
            f"{path}:1: the header says {promised} words, but the file has {len(words)}; it may be truncated"
        )
    return words, np.stack(rows) if rows else np.empty((0, 0), np.float32)


def _read_binary(path: Path) -> tuple[list[str], np.ndarray]:
    with open_regular(path) as file:
        count, width = _header(path, file.readline().decode("utf-8", "replace").split())
        data = file.read()
    if count * (4 * width + 1) > len(data):
        raise FormatError(f"{path}: too short for the {count} vectors of {width} numbers in its header")
    words: list[str] = []
    vectors = np.empty((count, width), np.float32)
    at = 0
    for row in range(count):
        space = data.find(b" ", at)
        end = space + 1 + 4 * width
        if space < 0 or end > len(data):
            raise FormatError(f"{path}: ends in vector {row + 1} of {count}; the file is truncated")
        words.append(data[at:space].lstrip(b"\n").decode("utf-8", "surrogateescape"))
        vectors[row] = np.frombuffer(data, "<f4", width, space + 1)
        at = end
    return words, vectors


def _header(path: Path, fields: list[str]) -> tuple[int, int]:
    try:
        count, width = (int(field) for field in fields)
        if min(count, width) < 1:
            raise ValueError("both must be counts")
    except ValueError:
        raise FormatError(
            f"{path}:1: expected a header, number of words and dimensions; got {reprlib.repr(fields)}"
        ) from None
    return count, width


FORMAT = 1
"""Version of the encoding; raised when the same vectors and text would give different numbers."""


class StaticEncoder(Encoder):
    """One vector per word, regardless of context. One token per word, no special tokens.

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
        # Of two equal words the first counts: vector files are sorted by frequency.
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

    @property
    def table(self) -> tuple[list[str], np.ndarray]:
        """Its words, each once, and their vectors."""
        return [*self._row], self._vectors[[*self._row.values()]]

    def tokenize(self, text: Text) -> Tokens:
        """See `Encoder.tokenize`."""
        rows = [self._find(word) for word in text.words]
        return Tokens(np.array(rows, np.int32), np.arange(len(rows), dtype=np.int32), rows.count(-1))

    def encode(
        self, texts: Iterable[Text], want: Collection[Want] = STATES, *, ordered: bool = True
    ) -> Iterator[Activations]:
        """See `Encoder.encode`."""
        self.refuse_maps(want)
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


_BETWEEN = "\0"
"""Separator between words: it occurs in no word."""

_SEEN_WORDS, _MOST_EPOCHS = 5_000_000, 50


class _Sentences:
    """The lines of a file as lists of words; gensim iterates over it several times."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[list[str]]:
        with self._path.open(encoding="utf-8", errors="surrogatepass", newline="\n") as lines:
            for line in lines:
                yield line.removesuffix("\n").split(_BETWEEN)


def skipgram_epochs(words: int) -> int:
    """Five, or more if the corpus is so small that fewer than a few million words would be seen.

    Example:
        >>> skipgram_epochs(10**7), skipgram_epochs(250_000)
        (5, 20)
    """
    return min(_MOST_EPOCHS, max(5, _SEEN_WORDS // max(1, words)))


def train_skipgram(
    texts: Iterable[Text], *, width: int = 300, epochs: int | None = None, seed: int = 0
) -> StaticEncoder:
    """Skip-gram with negative sampling (Mikolov et al. 2013) over lower-cased words; keeps every word.

    One worker, so that the same seed gives the same vectors. The default is 5 epochs, or more if the corpus is so
    small that fewer than a few million words would be seen.

    Example:
        >>> texts = [Text("a", ("Dogs", "bark")), Text("b", ("dogs", "run"))]
        >>> train_skipgram(texts, width=4).width
        4
    """
    from gensim.models import Word2Vec

    with tempfile.TemporaryDirectory() as folder:
        # gensim reads the texts once per epoch and once more; reading the corpus each time takes longer than training.
        path, words = Path(folder) / "words", 0
        with path.open("w", encoding="utf-8", errors="surrogatepass", newline="\n") as file:
            for text in texts:
                words += len(text.words)
                file.write(_BETWEEN.join(text.words).lower().replace("\n", " ") + "\n")
        model = Word2Vec(
            _Sentences(path),
            vector_size=width,
            sg=1,
            negative=5,
            window=5,
            min_count=1,
            epochs=epochs or skipgram_epochs(words),
            seed=seed,
            workers=1,
        )
    return StaticEncoder([str(word) for word in model.wv.index_to_key], np.asarray(model.wv.vectors), name="skip-gram")
