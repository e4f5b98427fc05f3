"""Static word vectors: GloVe text, word2vec text and word2vec binary."""

from __future__ import annotations

import codecs
import hashlib
import io
import re
import reprlib
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import IO

import numpy as np
import torch

from lamina.errors import FormatError, ModelError
from lamina.extras import require_package
from lamina.files.reading import open_regular
from lamina.models.contract import STATES, Activations, Encoder, Tokens, Want
from lamina.types import Text

_WIDEST = 50_000
"""Numbers of a vector; those of words have some hundreds, and examining wider ones takes gigabytes."""


def read_vectors(path: Path) -> tuple[list[str], np.ndarray]:
    """Words and their vectors from GloVe text, word2vec text (a header line) or word2vec binary (`.bin`)."""
    read = _read_binary if path.suffix == ".bin" else _read_text
    words, vectors = read(path)
    if not words:
        raise FormatError(f"{path}: contains no vectors; expected lines with a word and its numbers")
    if vectors.shape[1] > _WIDEST:
        raise FormatError(
            f"{path}:1: vectors of {vectors.shape[1]:,} numbers; words have hundreds, and lamina reads at most "
            f"{_WIDEST:,}: give a file of word vectors"
        )
    odd = np.flatnonzero(~np.isfinite(vectors).all(1))
    if len(odd):
        raise FormatError(
            f"{path}: the vector of {words[odd[0]]!r} has values that are not numbers ({len(odd)} such vectors); "
            "leave those words out of the file"
        )
    return words, vectors


def _read_text(path: Path) -> tuple[list[str], np.ndarray]:
    words: list[str] = []
    parts: list[np.ndarray] = []
    promised, number = None, 1
    with open_regular(path) as file:
        first = _LINE_END.split(file.readline())[0].decode("utf-8", "surrogateescape").rstrip().split(" ")
        width = len(first) - 1
        if len(first) == 2:
            promised, width = _header(path, first)
            number = 2
        else:
            file.seek(0)
        for block in _blocks(file):
            some, vectors = _parsed_at_once(block, width) or _parsed_by_line(block, width, path, number)
            words += some
            parts.append(vectors)
            number += len(some)
    if promised is not None and promised != len(words):
        raise FormatError(
            f"{path}:1: the header says {promised} words, but the file has {len(words)}; it may be truncated"
        )
    return words, np.concatenate(parts) if parts else np.empty((0, 0), np.float32)


_LINE_END = re.compile(rb"[\r\n]")
_BLOCK = 32 * 2**20
"""Bytes of text parsed at a time, to bound memory."""


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    """The rest of a file, in parts that end with a line."""
    while block := file.read(_BLOCK):
        yield block + file.readline()


def _parsed_at_once(block: bytes, width: int) -> tuple[list[str], np.ndarray] | None:
    """Words and vectors of lines that all have one word and `width` plain numbers; None if some have not."""
    import pyarrow as pa
    from pyarrow import csv

    if not width or block.startswith(codecs.BOM_UTF8):
        return None
    names = [str(column) for column in range(width + 1)]
    # As float64 first, which is how one number at a time is read, too: the same digits give the same float32.
    types = dict.fromkeys(names, pa.float64()) | {"0": pa.binary()}
    try:
        table = csv.read_csv(
            pa.BufferReader(block),
            csv.ReadOptions(column_names=names),
            csv.ParseOptions(delimiter=" ", quote_char=False, escape_char=False, ignore_empty_lines=False),
            csv.ConvertOptions(column_types=types, null_values=[], check_utf8=False),
        )
    except pa.ArrowInvalid:
        return None
    vectors = np.empty((len(table), width), np.float32)
    with np.errstate(over="ignore"):
        for column in range(width):
            vectors[:, column] = table.column(column + 1).to_numpy()
    return [word.decode("utf-8", "surrogateescape") for word in table.column(0).to_pylist()], vectors


def _parsed_by_line(block: bytes, width: int, path: Path, number: int) -> tuple[list[str], np.ndarray]:
    """The same of any lines; the first that has no word or not enough numbers is named. `number` is the first line's.

    Some words in large files contain spaces: the numbers are the last fields.
    """
    words: list[str] = []
    rows: list[np.ndarray] = []
    lines = io.TextIOWrapper(io.BytesIO(block), encoding="utf-8", errors="surrogateescape")
    for line_number, line in enumerate(lines, start=number):
        fields = line.rstrip().split(" ")
        try:
            row = np.array(fields[-width:], dtype=np.float32)
        except ValueError:
            row = np.empty(0)
        if not width or len(fields) <= width or len(row) != width:
            raise FormatError(
                f"{path}:{line_number}: expected a word and {width or 'its'} numbers, got {len(fields)} fields"
            )
        words.append(" ".join(fields[:-width]))
        rows.append(row)
    return words, np.stack(rows)


def _read_binary(path: Path) -> tuple[list[str], np.ndarray]:
    with open_regular(path) as file:
        count, width = _header(path, file.readline().decode("utf-8", "replace").split())
        data = file.read()
    if count * (4 * width + 1) > len(data):
        raise FormatError(f"{path}: too short for the {count} vectors of {width} numbers in its header")
    words: list[str] = []
    vectors = np.empty((count, width), np.float32)
    position = 0
    for row in range(count):
        space = data.find(b" ", position)
        end = space + 1 + 4 * width
        if space < 0 or end > len(data):
            raise FormatError(f"{path}: ends in vector {row + 1} of {count}; the file is truncated")
        words.append(data[position:space].lstrip(b"\n").decode("utf-8", "surrogateescape"))
        vectors[row] = np.frombuffer(data, "<f4", width, space + 1)
        position = end
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
        self.replaced = "words without a vector, drawn from N(0, I)"
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
            for number in np.flatnonzero(tokens.ids == -1):
                states[number] = _drawn(text.words[number], self.width)
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


class _SentenceLines:
    """The lines of a file as lists of words; gensim iterates over it several times, one after the other."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def __iter__(self) -> Iterator[list[str]]:
        self._file.seek(0)
        for line in self._file:
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
    return skipgram_trainer(texts, width=width, epochs=epochs, seed=seed)()


def skipgram_trainer(
    texts: Iterable[Text], *, width: int = 300, epochs: int | None = None, seed: int = 0
) -> Callable[[], StaticEncoder]:
    """Read the texts now; what is returned trains as `train_skipgram` does, once and in any thread."""
    require_package("gensim", "Skip-gram vectors are learned from the corpus")
    # gensim reads the texts once per epoch and once more; reading the corpus each time takes longer than training.
    # Without a name: the file is gone with the process, however that ends.
    file = tempfile.TemporaryFile("w+", encoding="utf-8", errors="surrogatepass", newline="\n")  # noqa: SIM115
    words = 0
    for text in texts:
        words += len(text.words)
        file.write(_BETWEEN.join(text.words).lower().replace("\n", " ") + "\n")

    def train() -> StaticEncoder:
        from gensim.models import Word2Vec

        with file:
            model = Word2Vec(
                _SentenceLines(file),
                vector_size=width,
                sg=1,
                negative=5,
                window=5,
                min_count=1,
                epochs=epochs or skipgram_epochs(words),
                seed=seed,
                workers=1,
            )
        known = [str(word) for word in model.wv.index_to_key]
        return StaticEncoder(known, np.asarray(model.wv.vectors), name="skip-gram")

    return train
