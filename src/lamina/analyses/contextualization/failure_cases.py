"""The paper's failure cases, listed: words in many pieces, contexts that do not help, contexts that do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from lamina.encoders import SPECIAL, Encoder
from lamina.types import Text

MANY_PIECES, HURTS, HELPS = "many pieces", "context hurts", "context helps"
"""Kinds: a word in many pieces; its class found without context and lost with it; the reverse."""

MANY = 3
"""Pieces from which on a word has many."""

_COLUMNS = ["kind", "representation", "layer", "word", "class", "contexts", "pieces", "without", "full"]
_ALONE, _FULL = "0", "full"

Table = Any
"""A pandas DataFrame: pandas comes without types, and what a checker guesses of them refuses sound expressions."""


def pieces_of(encoder: Encoder, words: Iterable[str]) -> dict[str, int]:
    """How many pieces each word is cut into; several words joined by spaces count together.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> pieces_of(TinyEncoder(), ["dog", "unhesitating"])
        {'dog': 1, 'unhesitating': 4}
    """
    counts = {}
    for word in words:
        owners = encoder.tokenize(Text(word, tuple(word.split()))).words
        counts[word] = int((owners != SPECIAL).sum())
    return counts


def failure_cases(pairs: Table, pieces: Mapping[str, int], *, layer: int | None = None, many: int = MANY) -> Table:
    """`failures.csv` = `kind,representation,layer,word,class,contexts,pieces,without,full`.

    A pair of a word and its class is found where at least half of the seeds find it. A pair of a word in many pieces is
    listed whatever its scores, beside them. Of each kind those with most contexts come first: they weigh most.

    Args:
        pairs: `representation,layer,context,word,class,contexts,found`, as `contextualize` tells it of test words;
            context `full` and, for contexts that hurt or help, `0`. `found` is the share of seeds that find the class.
        pieces: word -> how many it is cut into, see `pieces_of`.
        layer: the one looked at; the last by default.
        many: pieces from which on a word has many.

    Example:
        >>> rows = [("m", 1, "0", "suit", "food", 2, 1.0), ("m", 1, "full", "suit", "food", 2, 0.0)]
        >>> names = ["representation", "layer", "context", "word", "class", "contexts", "found"]
        >>> failure_cases(pd.DataFrame(rows, columns=names), {"suit": 1})["kind"].tolist()
        ['context hurts']
    """
    scored = _side_by_side(pairs, layer)
    scored["pieces"] = scored["word"].map(pieces)
    without, full = scored["without"] >= 0.5, scored["full"] >= 0.5
    kinds = {
        MANY_PIECES: scored["pieces"] >= many,
        HURTS: without & ~full & scored["full"].notna(),
        HELPS: ~without & full & scored["without"].notna(),
    }
    found = [scored[chosen].assign(kind=kind) for kind, chosen in kinds.items()]
    ordered = [each.sort_values(["contexts", "word", "class"], ascending=[False, True, True]) for each in found]
    return pd.concat(ordered, ignore_index=True)[_COLUMNS]


def scores_by_pieces(pairs: Table, pieces: Mapping[str, int], *, layer: int | None = None, many: int = MANY) -> Table:
    """`pieces.csv` = `layer,pieces,pairs,words,without,full`: the share of pairs found, by how many pieces words have.

    Words in `many` pieces or more count together, under `many`.
    """
    scored = _side_by_side(pairs, layer)
    scored["pieces"] = scored["word"].map(pieces).clip(upper=many)
    grouped = scored.groupby(["layer", "pieces"], as_index=False)
    return grouped.agg(
        pairs=("word", "size"), words=("word", "nunique"), without=("without", "mean"), full=("full", "mean")
    )


def _side_by_side(pairs: Table, layer: int | None) -> Table:
    """A row a pair of the model's layer: found alone, found in its whole text; NaN where that was not asked."""
    of_layers = pairs[pairs["layer"].notna()]
    at = of_layers["layer"].max() if layer is None else layer
    own = of_layers[of_layers["layer"] == at]
    keys = ["representation", "layer", "word", "class", "contexts"]
    columns = {
        name: own[own["context"] == context].set_index(keys)["found"]
        for name, context in (("without", _ALONE), ("full", _FULL))
    }
    return pd.DataFrame(columns).astype(float).reset_index()
