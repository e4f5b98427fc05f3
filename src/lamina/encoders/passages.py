"""Texts as they are written, and the pieces of their words and regions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lamina.encoders.contract import SPECIAL, Tokens
from lamina.encoders.pieces import Cut
from lamina.types import Text

if TYPE_CHECKING:
    from lamina.encoders.language_model import LanguageModel


class Passage(NamedTuple):
    """A text as it is written, and the parts of it (words, regions) whose probabilities are wanted."""

    id: str
    text: str
    spans: tuple[tuple[int, int], ...]
    """First character and one past the last of each part, in order; a part may be empty."""

    @classmethod
    def of(cls, text: Text) -> Passage:
        """The words of a corpus's text as it is written; joined by spaces where the corpus does not say how.

        Example:
            >>> Passage.of(Text("s1", ("Dogs", "bark", ".")))
            Passage(id='s1', text='Dogs bark .', spans=((0, 4), (5, 9), (10, 11)))
        """
        glued = {0, *text.glued}
        return cls.regions(text.id, [word if at in glued else f" {word}" for at, word in enumerate(text.words)])

    @classmethod
    def typed(cls, id: str, sentence: str) -> Passage:
        """A sentence as it was typed; its parts are the words between white space.

        Example:
            >>> Passage.typed("s1", "Dogs bark.").spans
            ((0, 4), (5, 10))
        """
        words = sentence.split()
        starts, at = [], 0
        for word in words:
            at = sentence.index(word, at)
            starts.append(at)
            at += len(word)
        return cls(id, sentence, tuple((start, start + len(word)) for start, word in zip(starts, words, strict=True)))

    @classmethod
    def regions(cls, id: str, regions: Sequence[str]) -> Passage:
        """Parts written one after the other; the space before a part belongs to it, but is not counted in.

        Example:
            >>> Passage.regions("s1", ["The dog", "", " barks", "."]).spans
            ((0, 7), (7, 7), (8, 13), (13, 14))
        """
        ends = list(accumulate(map(len, regions)))
        spans = tuple((end - len(region.lstrip()), end) for end, region in zip(ends, regions, strict=True))
        return cls(id, "".join(regions), spans)


def cut_passages(model: LanguageModel, passages: Sequence[Passage]) -> list[Cut]:
    """Passages cut into tokens by the model's tokenizer as it cuts the whole text, each token with its part.

    A piece belongs to the part in which its first character that is no space lies; `SPECIAL` where that is none.
    """
    encoder = model.encoder
    before, after = encoder.pieces.around
    if model.start is not None:
        before = (model.start,)
    if model.kind == "causal":
        # What closes a text changes nothing before it.
        after = ()
    made = encoder.tokenizer.backend_tokenizer.encode_batch(
        [passage.text for passage in passages], add_special_tokens=False
    )
    cuts = []
    for passage, each in zip(passages, made, strict=True):
        ids = np.array([*before, *each.ids, *after], np.int64)
        parts = np.full(len(ids), SPECIAL, np.int32)
        parts[len(before) : len(ids) - len(after)] = parts_at(passage, [start for start, _ in each.offsets])
        cuts.append(Cut(Tokens(ids, parts), np.zeros(len(ids), np.int8), len(before), len(after)))
    return cuts


def parts_at(passage: Passage, starts: Sequence[int]) -> np.ndarray:
    """[piece] The part that each piece belongs to, given the character at which it starts.

    Example:
        >>> parts_at(Passage.typed("s1", "Dogs bark."), [0, 4, 9]).tolist()
        [0, 1, 1]
    """
    text = passage.text
    of_character = np.full(len(text) + 1, SPECIAL, np.int32)
    for part, (start, stop) in enumerate(passage.spans):
        of_character[start:stop] = part
    written = np.array([not each.isspace() for each in text] + [True])
    # The next character that is no space, at or after each.
    following = np.minimum.accumulate(np.where(written, np.arange(len(text) + 1), len(text))[::-1])[::-1]
    return of_character[following[np.asarray(starts, int)]] if len(starts) else np.zeros(0, np.int32)
