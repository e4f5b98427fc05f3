"""How easily a head earns a name: rarely by luck, surely by doing what the name says."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from lamina.analyses.heads.behaviours import behaviours, is_ahead
from lamina.analyses.heads.corefheads import CorefMeter
from lamina.analyses.heads.corefheads import best_table as best_antecedents
from lamina.analyses.heads.heads import (
    BASELINES,
    DIRECTIONS,
    OFFSETS,
    RelationMeter,
    best_table,
    relations_of,
    relations_table,
)
from lamina.analyses.heads.surface import SURFACE
from lamina.framework.watch import WatchedBatch, WatchedText
from lamina.models import Tokens
from lamina.stats.units import halve
from lamina.types import Edge, Span, Text

WORDS = 6
HEADS = 4
OFFSET = 0.5
"""Of words whose head is the next word."""


def treebank(draw: np.random.Generator, documents: int, sentences: int = 3) -> list[Text]:
    """Half of the words hang on the next word, the others on any other."""
    texts = []
    for at in range(documents * sentences):
        edges = []
        for word in range(WORDS - 1):
            others = [each for each in range(WORDS) if each not in (word, word + 1)]
            head = word + 1 if draw.random() < OFFSET else int(draw.choice(others))
            label = str(draw.choice(["obj", "case"]))
            edges.append(Edge((label,), Span(word, word + 1), Span(head, head + 1)))
        texts.append(Text(str(at), ("w",) * WORDS, edges={"dep": tuple(edges)}, doc=f"d{at // sentences}"))
    return texts


def maps_of(text: Text, draw: np.random.Generator, shares: np.ndarray) -> torch.Tensor:
    """Head k points from a word to its syntactic head with the k-th share, and elsewhere to any other word."""
    maps = draw.random((1, len(shares), WORDS, WORDS)) * 0.1
    for edge in text.edges["dep"]:
        word, up = edge.span.start, edge.other.start
        wrong = [each for each in range(WORDS) if each not in (word, up)]
        for head, share in enumerate(shares):
            maps[0, head, word, up if draw.random() < share else int(draw.choice(wrong))] = 1
    return torch.from_numpy(maps / maps.sum(-1, keepdims=True)).float()


def tokens_of(text: Text) -> Tokens:
    return Tokens(np.arange(len(text.words)), np.arange(len(text.words)))


def named(draw: np.random.Generator, shares: np.ndarray, documents: int) -> list[tuple[int, str]]:
    """Head and relation of every name that is given."""
    texts = treebank(draw, documents)
    meter = RelationMeter(len(shares), relations_of(texts), halve(texts, 0), samples=2, seed=0)
    meter.update(WatchedBatch.of([WatchedText(text, tokens_of(text), maps_of(text, draw, shares)) for text in texts]))
    best = best_table(meter, relations_table(meter, len(shares)))
    found = behaviours(pd.DataFrame(columns=list(SURFACE)), best)
    return [(int(row.head), str(row.what)) for row in found.itertuples(index=False)]


class Counted(RelationMeter):
    """Takes counts of documents in place of their maps."""

    def count(self, document: Text, heads: np.ndarray, baselines: np.ndarray, counts: np.ndarray) -> None:
        by_relation = np.vstack([heads.reshape(-1, len(counts)), baselines, counts]).T
        self._sums.add(by_relation.ravel(), document)


def counted(draw: np.random.Generator, documents: int = 24) -> pd.DataFrame:
    """Best heads of two relations, where every head and the offset +1 truly find half of what a document has.

    How many that are in a document varies more than words would by themselves: documents are easy or hard for each.
    """
    texts = [Text(str(at), ("w",), doc=str(at)) for at in range(documents)]
    meter = Counted(HEADS, ["obj", "case"], halve(texts, 0), samples=2, seed=0)
    for text in texts:
        counts = draw.integers(1, 8, size=2)
        heads = draw.binomial(counts, draw.beta(4, 4, size=(len(DIRECTIONS), HEADS, 2)))
        offsets = np.zeros((len(BASELINES), 2))
        offsets[OFFSETS.index(1)] = draw.binomial(counts, draw.beta(4, 4, size=2))
        meter.count(text, heads, offsets, counts)
    return best_table(meter, relations_table(meter, HEADS))


def test_heads_as_good_as_the_offset_rarely_earn_a_name():
    """The sharpest null: any name is luck."""
    draw = np.random.default_rng(0)
    runs = 60
    tables = [counted(draw) for _ in range(runs)]
    assert sum(bool(is_ahead(table).any()) for table in tables) <= 7, "P(more | 5 %) is .01"
    tries = pd.concat(tables)
    assert tries["crossfit_accuracy"].mean() == pytest.approx(0.5, abs=0.02), "not the luck of the best of many"
    assert tries["accuracy"].mean() > 0.52


def test_heads_that_look_anywhere_earn_no_name():
    assert named(np.random.default_rng(1), np.full(HEADS, 1 / (WORDS - 1)), documents=40) == []


def test_a_planted_head_is_found():
    shares = np.array([OFFSET, 0.9, OFFSET, 0.2])
    assert set(named(np.random.default_rng(2), shares, documents=30)) == {(2, "obj"), (2, "case")}


def story(at: int, draw: np.random.Generator) -> Text:
    """Ann, then two others, then a pronoun that means one of them; the nearest in a third of the stories."""
    meant = int(draw.integers(3))
    chains = [Edge((str(each),), Span(each, each + 1)) for each in range(3)]
    chains.append(Edge((str(meant),), Span(4, 5)))
    return Text(f"s{at}", ("Ann", "Bea", "Cid", "saw", "one"), edges={"chains": tuple(chains)}, doc=f"d{at // 2}")


def coreference_heads(draw: np.random.Generator, shares: list[float]) -> list[int]:
    texts = [story(at, draw) for at in range(120)]
    meter = CorefMeter(len(shares), halve(texts, 0), among="words", samples=2, seed=0)
    for text in texts:
        meant = next(edge.span.start for edge in text.edges["chains"] if edge.labels == text.edges["chains"][-1].labels)
        maps = torch.full((1, len(shares), 5, 5), 0.01)
        for head, share in enumerate(shares):
            maps[0, head, 4, meant if draw.random() < share else 3] = 1
        meter.update(WatchedBatch.of([WatchedText(text, tokens_of(text), maps / maps.sum(-1, keepdim=True))]))
    found = behaviours(pd.DataFrame(columns=list(SURFACE)), coref=best_antecedents(meter, len(shares)))
    return [int(row.head) for row in found.itertuples(index=False) if row.what == "pronoun"]


def test_a_head_that_finds_antecedents_is_a_coreference_head_and_one_as_good_as_the_nearest_mention_is_not():
    assert coreference_heads(np.random.default_rng(0), [0.2, 0.9]) == [2]
    assert coreference_heads(np.random.default_rng(0), [0.2, 1 / 3]) == []
