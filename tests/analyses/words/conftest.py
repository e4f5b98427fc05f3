"""A small made-up corpus of words in context, and a training that is over at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from lamina.analyses.words.contextualize.scores import PRESETS
from lamina.analyses.words.contextualize.vectors import Representations, Workspace
from lamina.analyses.words.occurrences import WordsInContext
from lamina.corpora import Corpus
from lamina.probes.mlp import MLPTraining
from lamina.types import Edge, Span, Text

KINDS = {"food": "eat", "place": "visit", "person": "greet"}


def sentences(count: int = 240) -> list[Text]:
    """`We eat foo3 now .`: the verb and the word's first letters both tell its class."""
    draw = random.Random(0)
    texts = []
    for number in range(count):
        kind = draw.choice(list(KINDS))
        word = f"{kind[:3]}{draw.randrange(25)}"
        words = ("We", KINDS[kind], word, *draw.choices(("now", "and", "then"), k=draw.randint(0, 4)), ".")
        labels = (kind, "thing") if draw.random() < 0.2 and kind != "person" else (kind,)
        texts.append(Text(f"s{number}", words, edges={"supersense": (Edge(labels, Span(2, 3)),)}))
    return texts


def corpus_of(texts: list[Text], name: str = "made up") -> Corpus:
    return Corpus(name, "all", "sentence", "", f"{name} {len(texts)}", source=lambda: iter(texts))


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    return corpus_of(sentences())


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[[WordsInContext], Representations]]:
    """Words -> what makes their vectors, in a store of the test."""
    with ExitStack() as stack:
        workspace = Workspace(tmp_path / "vectors", stack)
        yield lambda data: Representations(data, workspace)


@pytest.fixture(scope="session", autouse=True)
def quick() -> Iterator[None]:
    short = MLPTraining(hidden=8, learning_rate=0.01, epochs=8, batch=32, validate_every=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PRESETS, "quick", replace(PRESETS["quick"], training=short, most_words=None, seeds=2))
        yield
