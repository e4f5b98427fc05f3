"""Texts that stay in memory after they were read once, for whoever reads them many times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from lamina.corpora.corpus import Corpus
from lamina.types import Text

MOST = 20_000
"""Texts that are held: a treebank with all its annotations takes a few hundred megabytes."""


def held(corpus: Corpus, most: int = MOST) -> Corpus:
    """The same corpus; after a complete pass its texts are in memory, unless there are more than `most`.

    Example:
        >>> from lamina.corpora import corpus_from
        >>> pets = held(corpus_from([["Dogs", "bark"], ["Cats", "do", "not"]], name="pets"))
        >>> [one is same for one, same in zip(list(pets), list(pets))]
        [True, True]
    """
    return replace(corpus, source=_Held(corpus.source, most))


class _Held:
    def __init__(self, source: Callable[[], Iterator[Text]], most: int) -> None:
        self._source, self._most = source, most
        self._texts: list[Text] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Another process reads them for itself, if it needs them.
        return self.__dict__ | {"_texts": None}

    def __call__(self) -> Iterator[Text]:
        return self._read() if self._texts is None else iter(self._texts)

    def _read(self) -> Iterator[Text]:
        texts: list[Text] = []
        for number, text in enumerate(self._source()):
            if number < self._most:
                texts.append(text)
            elif texts:
                texts.clear()
            yield text
        if texts:
            self._texts = texts
