"""Words that a language model does not see, and the states from which it predicts them.

A masked model reads the text with all tokens of the word masked, once per word; the state is that of the first mask. A
causal model reads the text once; the state is that of the token before the word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Int

from lamina.models.language.scoring import TokenQueries, WrittenPassage, cut_passages
from lamina.models.running.batching import InputRow

if TYPE_CHECKING:
    from lamina.models.language.language_model import LanguageModel


class PassageWord(NamedTuple):
    """A part of a passage, which has a token."""

    passage: int
    part: int


class FirstTokens(NamedTuple):
    """How the parts of a passage begin."""

    ids: Int[np.ndarray, " part"]
    """Of the first token of each part; -1 for a part without a token."""
    sizes: Int[np.ndarray, " part"]
    """Tokens of each part."""


def first_tokens(model: LanguageModel, passages: Sequence[WrittenPassage]) -> list[FirstTokens]:
    """How the parts of each passage begin."""
    results = []
    for passage, cut in zip(passages, cut_passages(model, passages), strict=True):
        ids, parts = np.full(len(passage.spans), -1, np.int64), cut.tokens.words
        inside = np.flatnonzero(parts >= 0)[::-1]
        # Backwards, so that the first token of a part is written last.
        ids[parts[inside]] = cut.tokens.ids[inside]
        results.append(FirstTokens(ids, np.bincount(parts[inside], minlength=len(ids))))
    return results


def masked_words(
    model: LanguageModel, passages: Sequence[WrittenPassage], words: Sequence[PassageWord]
) -> TokenQueries:
    """Words that the model does not see: the rows to run, and the place of the state that predicts each word.

    `lens.layer_states` gives the states.
    """
    rows: list[InputRow] = []
    shared: dict[tuple[int, int], int] = {}
    owners, places, targets = [], [], []
    for word, (window, row, tokens) in zip(words, _words_in_windows(model, passages, words), strict=True):
        first = int(tokens[0])
        targets.append(int(row.ids[first]))
        if model.mask is not None:
            # Each word has a row of its own, without the word.
            owners.append(len(rows))
            places.append(first)
            rows.append(row._replace(ids=np.where(row.words == word.part, model.mask, row.ids)))
            continue
        owners.append(_shared(shared, rows, (word.passage, window), row))
        places.append(first - 1)
    return TokenQueries(rows, *(np.array(column, np.int64) for column in (owners, places, targets)))


def unmasked_words(
    model: LanguageModel, passages: Sequence[WrittenPassage], words: Sequence[PassageWord]
) -> TokenQueries:
    """The same words where the model sees them: the state at their last token."""
    rows: list[InputRow] = []
    shared: dict[tuple[int, int], int] = {}
    owners, places, targets = [], [], []
    for word, (window, row, tokens) in zip(words, _words_in_windows(model, passages, words), strict=True):
        owners.append(_shared(shared, rows, (word.passage, window), row))
        places.append(int(tokens[-1]))
        targets.append(int(row.ids[tokens[-1]]))
    return TokenQueries(rows, *(np.array(column, np.int64) for column in (owners, places, targets)))


class _WordInWindow(NamedTuple):
    """Where a word is."""

    window: int
    row: InputRow
    tokens: Int[np.ndarray, " token"]
    """Of that row, the word's own."""


def _words_in_windows(
    model: LanguageModel, passages: Sequence[WrittenPassage], words: Sequence[PassageWord]
) -> list[_WordInWindow]:
    """Each word in the window in which its first token has most context."""
    cuts = cut_passages(model, passages)
    windows = [model.encoder.rows(number, cut) for number, cut in enumerate(cuts)]
    placed = []
    for passage, part in words:
        first = int(np.argmax(cuts[passage].tokens.words == part))
        window, row = next(
            (window, candidate)
            for window, candidate in enumerate(windows[passage])
            if candidate.to.start <= first < candidate.to.stop
        )
        placed.append(_WordInWindow(window, row, np.flatnonzero(row.words == part)))
    return placed


def _shared(known: dict[tuple[int, int], int], rows: list[InputRow], key: tuple[int, int], row: InputRow) -> int:
    """The number of a row that several words are read from."""
    if key not in known:
        known[key] = len(rows)
        rows.append(row)
    return known[key]
