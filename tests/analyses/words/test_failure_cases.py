"""Failure cases out of the table of pairs."""

from __future__ import annotations

import pandas as pd
import pytest

from lamina.analyses.words.contextualize.scores import failure_cases, pieces_of, scores_by_pieces
from lamina.testing import TinyEncoder

COLUMNS = ["representation", "layer", "context", "word", "class", "contexts", "share"]
PIECES = {"suit": 1, "bank": 1, "apple": 2, "unhesitating": 4}


def pairs(*rows: tuple, layer: int = 2) -> pd.DataFrame:
    """(word, class, contexts, found alone, found in its text) at a layer, with other rows around it."""
    full = [("m", layer, "full", *row[:3], row[4]) for row in rows]
    alone = [("m", layer, "0", *row[:3], row[3]) for row in rows]
    others = [("m", 0, "full", *row[:3], 1.0) for row in rows] + [("m", layer, "2", *row[:3], 0.0) for row in rows]
    bags = [("P-m input", None, "0", *row[:3], 0.0) for row in rows]
    return pd.DataFrame([*full, *alone, *others, *bags], columns=COLUMNS).astype({"layer": "Int64"})


TABLE = pairs(
    ("suit", "act", 3, 1.0, 0.4),
    ("bank", "group", 1, 0.5, 0.0),
    ("bank", "object", 7, 0.2, 0.6),
    ("apple", "food", 2, 1.0, 1.0),
    ("unhesitating", "act", 2, 0.0, 0.0),
    ("unhesitating", "state", 9, 1.0, 0.0),
)


def test_each_kind_with_most_contexts_first():
    found = failure_cases(TABLE, PIECES)
    assert list(found.columns) == [
        "kind", "representation", "layer", "word", "class", "contexts", "pieces", "without", "full",
    ]  # fmt: skip
    assert [tuple(row) for row in found[["kind", "word", "class"]].itertuples(index=False)] == [
        ("many pieces", "unhesitating", "state"),
        ("many pieces", "unhesitating", "act"),
        ("context hurts", "unhesitating", "state"),
        ("context hurts", "suit", "act"),
        ("context hurts", "bank", "group"),
        ("context helps", "bank", "object"),
    ]
    assert found.iloc[0][["layer", "contexts", "pieces", "without", "full"]].tolist() == [2, 9, 4, 1.0, 0.0]


def test_another_layer_has_no_scores_alone_and_so_no_contexts_that_hurt():
    found = failure_cases(TABLE, PIECES, layer=0)
    assert set(found["kind"]) == {"many pieces"}
    assert found["without"].isna().all()
    assert found["full"].eq(1).all()


def test_nothing_found_is_an_empty_table():
    assert failure_cases(pairs(("apple", "food", 2, 1.0, 1.0)), PIECES).empty


def test_scores_by_pieces():
    found = scores_by_pieces(TABLE, PIECES)
    assert found["pieces"].tolist() == [1, 2, 3]
    assert found["pairs"].tolist() == [3, 1, 2]
    assert found["words"].tolist() == [2, 1, 1]
    assert found["without"].tolist() == pytest.approx([1.7 / 3, 1, 0.5])
    assert found["full"].tolist() == pytest.approx([1 / 3, 1, 0])


def test_pieces_of_several_words_count_together():
    assert pieces_of(TinyEncoder(), ["new york", "שלום", "😀"]) == {"new york": 3, "שלום": 2, "😀": 1}
