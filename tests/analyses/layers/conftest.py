"""A corpus that a probe can learn in seconds, and a preset to do so."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from lamina import Edge, Result, Span, Text, corpus_from, probe
from lamina.analyses.layers.probe.training import PRESETS, Preset
from lamina.corpora.splits import Splits
from lamina.probes.bank import Schedule
from lamina.testing import TinyEncoder

WORDS = {
    "DET": ("the", "a", "this"),
    "NOUN": ("dog", "cat", "tree", "house", "bird"),
    "VERB": ("sees", "likes", "finds"),
    "ADJ": ("big", "red", "old"),
}
PATTERN = ("DET", "ADJ", "NOUN", "VERB", "DET", "NOUN")
HEADS = {0: (2, "det"), 1: (2, "amod"), 2: (3, "nsubj"), 3: (3, "root"), 4: (5, "det"), 5: (3, "obj")}


def sentence(number: int, split: str) -> Text:
    rng = Random(f"{split} {number}")
    words = tuple(rng.choice(WORDS[tag]) for tag in PATTERN)
    pos = tuple(Edge((tag,), Span(at, at + 1)) for at, tag in enumerate(PATTERN))
    dep = tuple(Edge((label,), Span(at, at + 1), Span(head, head + 1)) for at, (head, label) in HEADS.items())
    return Text(f"{split}-{number}", words, edges={"pos": pos, "dep": dep}, doc=f"{split}-doc-{number // 2}")


@pytest.fixture(scope="package")
def splits() -> Splits:
    """60 training sentences, 20 to score; one scored word has a tag that training never saw."""
    train = [sentence(number, "train") for number in range(60)]
    scored = [sentence(number, "dev") for number in range(20)]
    odd = Text("odd", ("wow", "dog"), edges={"pos": (Edge(("INTJ",), Span(0, 1)), Edge(("NOUN",), Span(1, 2)))})
    return Splits(corpus_from(train, name="toy", split="train"), corpus_from([*scored, odd], name="toy", split="dev"))


@pytest.fixture(scope="package")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """For `probe`: a preset that converges within seconds; cache and store are the tests' own."""
    folder = tmp_path_factory.mktemp("probing")
    patience = {"halve_after": 1, "stop_after": 3, "min_gain": 0.02, "min_learning_rate": 2e-3}
    schedule = Schedule(learning_rate=1e-2, validate_every=10, max_validations=40, **patience, batch_texts=8, hidden=16)
    tiny = Preset(schedule, schedule, few=0, seeds=2, train_texts=None, stop_texts=None, beside_seeds=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PRESETS, "quick", tiny)
        patch.setenv("LAMINA_CACHE", str(folder / "cache"))
        patch.setenv("LAMINA_STORE", str(folder / "store"))
        yield {"samples": 100, "device": "cpu"}


@pytest.fixture(scope="package")
def result(splits: Splits, settings: dict[str, Any]) -> Result:
    """Everything asked of a tiny encoder, two tasks."""
    return probe(TinyEncoder(), splits, **settings)
