"""Tiny models and toy data: enough to learn by heart in a few steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import pytest
import torch

from lamina.corpora.questions.question import Question, make_question
from lamina.models import load_encoder
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.types import Edge, Span, Text

SAID = "the quick brown fox jumps over lazy dog cats sat on mat barked why who"
WORDS = SAID.split()


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def encoder(model_folder) -> Callable[[str], HuggingFaceEncoder]:
    """Architecture -> its encoder."""
    return cache(lambda name: load_encoder(str(model_folder(name)), device="cpu"))


@pytest.fixture(scope="session")
def toy_texts() -> Callable[[int, int], tuple[Text, ...]]:
    """So many texts of a seed: five words; tags, an entity and a class that all follow from the words."""

    def make(count: int, seed: int) -> tuple[Text, ...]:
        draw = np.random.default_rng(seed)
        texts = []
        for number in range(count):
            words = tuple(str(word) for word in draw.choice(WORDS, 5))
            edges = {
                "pos": tuple(Edge((word[0],), Span(at, at + 1)) for at, word in enumerate(words)),
                "ner": (Edge(("A" if words[0] < "l" else "B",), Span(0, 2)),),
                "label": (Edge((words[0][0],), Span(0, 5)),),
            }
            texts.append(Text(f"{seed}-{number}", words, edges=edges, doc=f"doc-{seed}-{number // 2}"))
        return tuple(texts)

    return make


@pytest.fixture(scope="session")
def toy_questions() -> Callable[[int, int], tuple[Question, ...]]:
    """So many questions of a seed, whose answer is one word of an eight-word context."""

    def make(count: int, seed: int) -> tuple[Question, ...]:
        draw = np.random.default_rng(seed)
        questions = []
        for number in range(count):
            words = [str(word) for word in draw.permutation(WORDS)[:8]]
            context = " ".join(words)
            start = sum(len(word) + 1 for word in words[:3])
            place = (start, start + len(words[3]))
            halves = [(0, start - 1), (start, len(context))]
            questions.append(
                make_question(
                    f"{seed}-{number}", f"who {words[3]}", context, halves, [place], {1}, doc=f"doc-{seed}-{number}"
                )
            )
        return tuple(questions)

    return make
