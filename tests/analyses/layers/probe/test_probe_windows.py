"""Coreference across the sentences of a window."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import lamina
from lamina import Edge, Span, Text, corpus_from
from lamina.corpora import Corpus
from lamina.corpora.splits import Splits
from lamina.errors import TaskError
from lamina.testing import TinyEncoder

FEW: dict[str, Any] = {"probes": ["cumulative"], "seeds": 1, "twin": False}
NAMES = ("Ann", "Bob", "Cleo")


def sentences(split: str, documents: int) -> list[Text]:
    """Documents of thirty sentences of one mention each; the same name is the same person."""
    texts = []
    for document in range(documents):
        rng = Random(f"{split} {document}")
        for number in range(30):
            name = rng.choice(NAMES)
            words = (name, rng.choice(("ran", "slept")))
            edges = {"chains": (Edge((name,), Span(0, 1)),)}
            texts.append(Text(f"{split}{document}-{number}", words, edges=edges, doc=f"{split}{document}"))
    return texts


def splits(unit: str) -> Splits:
    def corpus(split: str, documents: int) -> Corpus:
        return corpus_from(sentences(split, documents), name="people", split=split, unit=unit)

    return Splits(corpus("train", 4), corpus("dev", 3))


def test_pairs_cross_sentences_and_those_left_out_are_counted(settings: dict[str, Any]) -> None:
    result = lamina.probe(TinyEncoder(), splits("document"), tasks=["coref_window"], **FEW, **settings)

    scores = result.tables["scores"]
    assert set(scores["task"]) == {"coref_window"}
    # Label 0 is not scored, but is an answer like any other to the probe that has to choose.
    assert scores["metric"].unique().tolist() == ["f1", "accuracy"]
    # Each of thirty mentions with the twenty before it: 20 * 19 / 2 + 10 * 20 pairs a document.
    assert int(result.tables["breakdown"].query("by == 'distance' and layer == 0")["count"].sum()) == 3 * 390
    reason = "coref_window: scored pairs of mentions with too many mentions between them"
    assert result.provenance.skipped[reason] == 3 * (30 * 29 // 2 - 390)


def test_a_window_bounds_the_pairs(settings: dict[str, Any]) -> None:
    result = lamina.probe(TinyEncoder(), splits("window:10"), tasks=["coref_window"], **FEW, **settings)

    assert int(result.tables["breakdown"].query("by == 'distance' and layer == 0")["count"].sum()) == 3 * 6 * 10
    assert not [reason for reason in result.provenance.skipped if "mentions between" in reason]


def test_a_sentence_is_no_window(settings: dict[str, Any]) -> None:
    with pytest.raises(
        TaskError, match=r"does not carry coref_window; it carries coref; windows \(--unit window:128\)"
    ):
        lamina.probe(TinyEncoder(), splits("sentence"), tasks=["coref_window"], **settings)
