"""The words of traced sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd


def words_table(texts: Iterable[tuple[str, Sequence[str]]]) -> pd.DataFrame:
    """Texts, as (id, words), one row a word: what a figure marks the traced spans in.

    Example:
        >>> words_table([("s1", ["Dogs", "bark"])]).to_dict("list")
        {'text_id': ['s1', 's1'], 'position': [0, 1], 'word': ['Dogs', 'bark']}
    """
    rows = [(text_id, position, word) for text_id, words in texts for position, word in enumerate(words)]
    return pd.DataFrame(rows, columns=["text_id", "position", "word"])
