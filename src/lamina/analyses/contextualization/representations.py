"""Vectors of words: what a model makes of them in their contexts, and what knows no context."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from lamina.analyses.contextualization.kept_vectors import HeldVectors, OccurrenceVectors
from lamina.analyses.contextualization.vectors import Wanted, Workspace, mean_by_word, word_vectors
from lamina.analyses.contextualization.words_in_context import WordsInContext
from lamina.corpora import Corpus
from lamina.corpora.corpus import fingerprint_of
from lamina.encoders import Encoder
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.static import StaticEncoder, skipgram_trainer
from lamina.errors import DamagedError
from lamina.files.checking import load_tensors, save_tensors
from lamina.probes.mlp import Source
from lamina.types import Text

RANDOM_WIDTH = 300
"""Of N(0, I) and of skip-gram vectors, as in the paper."""


@dataclass(frozen=True, eq=False)
class Representation:
    """Rows of vectors that are probed alike: one per layer. Computed and read one row at a time, when needed."""

    name: str
    """What tables call it."""
    layers: tuple[int | None, ...]
    """[row] None where there are no layers."""
    key: str
    """Equal for equal vectors."""
    read: Callable[[int], Source]
    """Row -> its vectors."""
    of_types: bool = False
    """Whether an item is a word, whatever its contexts, or an occurrence."""

    def rows(self, chosen: slice, name: str) -> Representation:
        """Some of the rows, under another name."""
        numbers = range(len(self.layers))[chosen]
        layers = tuple(self.layers[row] for row in numbers)
        return Representation(name, layers, f"{self.key} {numbers}", lambda row: self.read(numbers[row]), self.of_types)


class Representations:
    """Makes representations of the words of one analysis, on disk in a workspace or held."""

    def __init__(self, data: WordsInContext, workspace: Workspace) -> None:
        self._data, self._workspace = data, workspace
        self._made: dict[str, OccurrenceVectors | HeldVectors] = {}

    def contextual(
        self, encoder: Encoder, *, size: int | None = None, bag: bool = False, name: str | None = None
    ) -> Representation:
        """Every layer of a model; with `size`, the model has seen only so many words on each side.

        With `bag` (P-) a word is the mean of all vectors of what is seen, its own among them.
        """
        wanted = Wanted(encoder, self._data, size, bag, _is_lower(encoder))

        def read(row: int) -> Source:
            return self._written(wanted).layer(row)

        layers = tuple(range(encoder.layers)) if encoder.blocks else (None,)
        return Representation(name or name_of(encoder), layers, wanted.key, read)

    def done(self, representation: Representation) -> None:
        """Free disk or memory: all rows have been probed, and no other representation is made from them."""
        self._made.pop(representation.key, None)
        self._workspace.drop(representation.key)

    def averaged(self, whole: Representation, name: str) -> Representation:
        """One vector per word: the mean over all its contexts, layer by layer."""
        return Representation(
            name, whole.layers, f"AVG {whole.key}", lambda row: mean_by_word(whole.read(row), self._data), of_types=True
        )

    def without_context(self, encoder: Encoder) -> Representation:
        """One vector per word, of an encoder whose vectors know no context."""
        return self.averaged(self.contextual(encoder), name_of(encoder))

    def _written(self, wanted: Wanted) -> OccurrenceVectors | HeldVectors:
        if wanted.key not in self._made:
            # Windows that are a whole text are copied from what the model made of whole texts.
            copied = wanted.size is not None and not wanted.bag
            whole = self._written(wanted._replace(size=None)) if copied else None
            self._made[wanted.key] = word_vectors(wanted, self._workspace, whole)
        return self._made[wanted.key]


def context_free(encoder: Encoder, static: Sequence[Encoder], skipgram: StaticEncoder) -> list[Encoder]:
    """Encoders that know no context: static vectors, skip-gram trained on the corpus, N(0, I), the input embeddings."""
    encoders = [*static, skipgram, random_vectors()]
    if isinstance(encoder, HuggingFaceEncoder):
        encoders.append(encoder.lexical())
    return encoders


def skipgram_of(corpus: Corpus, seed: int, folder: Path) -> Callable[[], StaticEncoder]:
    """Trains skip-gram on the corpus, in any thread, or reads what a run that was stopped left in `folder`."""
    path = folder / f"skipgram-{fingerprint_of(corpus.fingerprint, seed, RANDOM_WIDTH)[:16]}.safetensors"
    try:
        tensors, head = load_tensors(path)
        words = bytes(tensors["words"].numpy()).decode("utf-8", "surrogatepass").split("\0")
        read = StaticEncoder(words, tensors["vectors"].numpy(), name=head["name"])
    except (OSError, DamagedError, KeyError):
        train = skipgram_trainer(corpus, width=RANDOM_WIDTH, seed=seed)
        return lambda: _kept(train(), path)
    return lambda: read


def _kept(encoder: StaticEncoder, path: Path) -> StaticEncoder:
    words, vectors = encoder.table
    spelled = np.frombuffer("\0".join(words).encode("utf-8", "surrogatepass"), np.uint8)
    save_tensors(path, {"words": torch.tensor(spelled), "vectors": torch.from_numpy(vectors)}, {"name": encoder.name})
    return encoder


def random_vectors() -> StaticEncoder:
    """N(0, I): a vocabulary without words, in which every word is unknown and drawn by its letters."""
    return StaticEncoder(["\0"], np.zeros((1, RANDOM_WIDTH), np.float32), name="random")


def name_of(encoder: Encoder) -> str:
    """What a table calls vectors without context.

    Example:
        >>> name_of(random_vectors())
        'random'
    """
    return encoder.name.replace(" (lexical)", " input")


def _is_lower(encoder: Encoder) -> bool:
    """Random and skip-gram vectors belong to lower-cased words; others are looked up as written first."""
    return encoder.name in ("random", "skip-gram")


def unknown_words(encoders: Iterable[Encoder], data: WordsInContext) -> Counter[str]:
    """How many words of the data each file of vectors lacks: they are drawn from N(0, I)."""
    lacking: Counter[str] = Counter()
    for encoder in encoders:
        if isinstance(encoder, StaticEncoder) and encoder.name != "random":
            spoken = (encoder.tokenize(Text(word, tuple(word.split()))) for word in data.words)
            lacking[f"words that {encoder.name} lacks, drawn from N(0, I)"] = sum(token.unknown > 0 for token in spoken)
    return lacking
