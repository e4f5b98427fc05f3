"""Skip-gram vectors trained on a corpus: what its words' neighbours alone tell of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from lamina.encoders.static import StaticEncoder
from lamina.types import Text

_BETWEEN = "\0"
"""Words: no word has it."""

_SEEN_WORDS, _MOST_EPOCHS = 5_000_000, 50


class _Sentences:
    """The lines of a file as lists of words, as often as gensim asks."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[list[str]]:
        with self._path.open(encoding="utf-8", errors="surrogatepass", newline="\n") as lines:
            for line in lines:
                yield line.removesuffix("\n").split(_BETWEEN)


def train_skipgram(
    texts: Iterable[Text], *, width: int = 300, epochs: int | None = None, seed: int = 0
) -> StaticEncoder:
    """Skip-gram with negative sampling (Mikolov et al. 2013) over lower-cased words, every word kept.

    One worker, so that the same seed gives the same vectors. Epochs, where not given, are 5, or more where the corpus
    is so small that fewer than some millions of words would be seen.

    Example:
        >>> texts = [Text("a", ("Dogs", "bark")), Text("b", ("dogs", "run"))]
        >>> train_skipgram(texts, width=4).width
        4
    """
    from gensim.models import Word2Vec

    with tempfile.TemporaryDirectory() as folder:
        # gensim reads the texts once more than there are epochs; reading a corpus each time takes longer than training.
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
            epochs=epochs or min(_MOST_EPOCHS, max(5, _SEEN_WORDS // max(1, words))),
            seed=seed,
            workers=1,
        )
    return StaticEncoder([str(word) for word in model.wv.index_to_key], np.asarray(model.wv.vectors), name="skip-gram")
