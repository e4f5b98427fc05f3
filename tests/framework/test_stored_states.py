"""Whether states are stored or held changes no number of any analysis."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pandas as pd
import pytest
import torch

import lamina
from lamina import Edge, Runtime, Span, Text, corpus_from
from lamina.comparison.similarity import compare_layer
from lamina.corpora import Corpus
from lamina.framework.declare import Tables
from lamina.probes.streams import Stream, find_targets
from lamina.tasks import Task
from lamina.testing import TinyEncoder

WORDS = {"food": ("bread", "soup", "rice", "plum", "cake"), "act": ("run", "jump", "sing", "walk", "read")}


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """40 texts of three words, each with its kind."""
    rng = Random(0)
    texts = []
    for number in range(40):
        kinds = [rng.choice(list(WORDS)) for _ in range(3)]
        edges = tuple(Edge((kind,), Span(at, at + 1)) for at, kind in enumerate(kinds))
        words = tuple(rng.choice(WORDS[kind]) for kind in kinds)
        texts.append(Text(f"t{number}", words, edges={"kind": edges}))
    return corpus_from(texts, name="plain")


ASKED: dict[str, Callable[..., Tables]] = {
    "geometry": partial(lamina.geometry.function, TinyEncoder(), samples=5),
    "neighbours": partial(lamina.neighbours.function, TinyEncoder(), word="soup", vectors=None),
}


@pytest.mark.parametrize("name", ASKED)
def test_tables_are_the_same(name: str, corpus: Corpus, tmp_path: Path) -> None:
    stored, held = (
        ASKED[name](corpus, runtime=Runtime(tmp_path / str(keep), "cpu", keep=keep)) for keep in (True, False)
    )
    for table in stored.tables:
        pd.testing.assert_frame_equal(held.tables[table], stored.tables[table])
    assert [path.name for path in tmp_path.iterdir()] == ["True"]


def test_layers_of_two_models_are_compared_the_same(corpus: Corpus, tmp_path: Path) -> None:
    stored, held = (
        compare_layer(
            *(Runtime(tmp_path / str(keep), keep=keep).extract(TinyEncoder(seed=seed), corpus) for seed in range(3)),
            layer=1,
            documents=[text.id for text in corpus],
            samples=5,
            seed=0,
        )
        for keep in (True, False)
    )
    for measure, found in stored.items():
        # Held texts are summed together, stored ones one by one.
        assert held[measure].value == pytest.approx(found.value, rel=1e-5)
        assert held[measure].draws == pytest.approx(found.draws, rel=1e-5)
        assert held[measure].baseline == pytest.approx(found.baseline, rel=1e-5)


@pytest.mark.parametrize("resident", [None, 0], ids=["in memory", "batch by batch"])
def test_probes_see_the_same_batches(resident: int | None, corpus: Corpus, tmp_path: Path) -> None:
    texts, task = list(corpus), Task("kind", "kinds of words", "kind", 1)
    stored, held = (Runtime(tmp_path, keep=keep).extract(TinyEncoder(), corpus) for keep in (True, False))
    targets = find_targets(task, texts, stored.tokenized(), tuple(WORDS))
    streams = (Stream(each, targets, batch_texts=8, resident_bytes=resident) for each in (stored, held))
    for one, other in zip(*(stream.epoch(0, 0) for stream in streams), strict=True):
        assert torch.equal(one.states, other.states)
        assert one.rows.tolist() == other.rows.tolist()


def test_a_command_and_a_request_can_say_it() -> None:
    from lamina.framework.requests import read_request

    said = read_request({"analysis": "geometry", "model": "minilm", "keep": False})
    assert said.command == "lamina geometry minilm --no-keep"
    assert said.table()["keep"] is False
