"""Texts with targets of every shape, encoded by a tiny encoder and stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pytest
import torch

from lamina.activations import StoredActivations, extract
from lamina.corpora import corpus_from
from lamina.probes.streams import ProbeTargets, find_targets
from lamina.tasks import annotation_task, get_task, label_set
from lamina.testing import TinyEncoder
from lamina.types import Edge, Span, Text

TAGS = ("NOUN", "VERB", "ADJ")


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Probes this tiny lose more by sharing their work than they gain."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def annotated(number: int, rng: np.random.Generator) -> Text:
    """A text whose tags and values follow from its words, so that there is something to learn."""
    kinds = rng.integers(0, 3, size=int(rng.integers(3, 9)))
    words = tuple(f"{'abc'[kind]}{'xyz'[number % 3] * int(rng.integers(0, 7))}" for kind in kinds)
    pos = tuple(Edge((TAGS[kind],), Span(at, at + 1)) for at, kind in enumerate(kinds))
    ner = tuple(Edge((TAGS[kinds[at]],), Span(at, min(len(words), at + 3))) for at in range(0, len(words), 2))
    dep = tuple(Edge((TAGS[kinds[at]].lower(),), Span(at, at + 1), Span(at - 1, at)) for at in range(1, len(words)))
    srl = tuple(Edge((f"ARG{kinds[0]}",), Span(0, 1), Span(1, int(rng.integers(2, len(words) + 1)))) for _ in range(1))
    mood = tuple(Edge((), Span(at, at + 1), value=10.0 + 4.0 * float(kind)) for at, kind in enumerate(kinds))
    edges = {"pos": pos, "ner": ner, "dep": dep, "srl": srl, "mood": mood}
    return Text(f"t{number}", words, edges=edges, doc=f"d{number // 4}")


@pytest.fixture(scope="session")
def texts() -> list[Text]:
    """80 texts in 20 documents: single and longer spans, alone and in pairs."""
    rng = np.random.default_rng(0)
    return [annotated(number, rng) for number in range(80)]


@pytest.fixture(scope="session")
def encoder() -> TinyEncoder:
    return TinyEncoder()


@pytest.fixture(scope="session")
def stored(texts: list[Text], encoder: TinyEncoder, tmp_path_factory: pytest.TempPathFactory) -> StoredActivations:
    return extract(encoder, corpus_from(texts, name="own"), root=tmp_path_factory.mktemp("store"))


class Found(NamedTuple):
    """A task's targets, and the halves to learn from and to stop by."""

    all: ProbeTargets
    learn: ProbeTargets
    stop: ProbeTargets


@pytest.fixture(scope="session")
def find(texts: list[Text], stored: StoredActivations) -> Callable[[str], Found]:
    """Task -> its targets in the texts; `mood` is graded."""

    def find(name: str) -> Found:
        task = annotation_task(name, texts) if name == "mood" else get_task(name)
        targets = find_targets(task, texts, (each.tokens for each in stored), label_set(task, texts))
        return Found(targets, targets.among(range(60)), targets.among(range(60, 80)))

    return find
