"""One typed sentence inside a model: its maps, and what stands at their edges."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from lamina.analyses.attention_maps.watching import Meter, Watched, refuse_without_maps, watch
from lamina.corpora.words import split_words
from lamina.encoders import SPECIAL, Encoder, Tokens
from lamina.errors import InputError
from lamina.types import Text

Level = Literal["word", "piece"]


class Units(NamedTuple):
    """What stands at the edges of a map: words or pieces, and special tokens."""

    names: list[str]
    owners: Int[np.ndarray, " token"]
    """The unit each token belongs to."""
    special: Bool[np.ndarray, " unit"]
    """Whether it is a special token."""


def see(
    encoder: Encoder, sentence: str | Sequence[str], meters: Sequence[Meter] = (), *, most: int | None = None
) -> Watched:
    """Every head's attention on one sentence, shown to the meters too.

    Args:
        encoder: whose heads.
        sentence: running text, split as anything typed is, or the words themselves.
        meters: who else watches.
        most: tokens, where less than the model takes; maps grow with their square.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> see(TinyEncoder(), "Dogs bark.").maps.shape
        torch.Size([2, 2, 7, 7])
    """
    refuse_without_maps(encoder)
    words = split_words(sentence).words if isinstance(sentence, str) else tuple(sentence)
    if not words:
        raise InputError("the sentence has no words; give some")
    _refuse_broken(words)
    text = Text("typed", words)
    _refuse_too_long(encoder, text, most)
    kept = _Keeper()
    watch(encoder, [text], [*meters, kept])
    return kept.watched


class _Keeper:
    """Keeps the one text there is."""

    watched: Watched

    def update(self, watched: Watched) -> None:
        self.watched = watched


def _refuse_broken(words: Sequence[str]) -> None:
    """Half a surrogate pair can be sent and typed, but no tokenizer reads it."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise InputError(f"{word!r} is not valid Unicode; take its broken character out") from None


def _refuse_too_long(encoder: Encoder, text: Text, most: int | None) -> None:
    size = len(encoder.tokenize(text).ids)
    if size > encoder.limit:
        raise InputError(
            f"the sentence has {size} tokens and {encoder.name} takes {encoder.limit} at once; give a shorter one"
        )
    if most is not None and size > most:
        raise InputError(f"the sentence has {size} tokens; at most {most} are looked at here, so give a shorter one")


def head_of(encoder: Encoder, said: str) -> tuple[int, int]:
    """Layer and head of `3-7`, both from 1.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> head_of(TinyEncoder(), "2-1")
        (2, 1)
    """
    refuse_without_maps(encoder)
    found = re.fullmatch(r"\s*(\d+)-(\d+)\s*", said)
    if found is None:
        raise InputError(f"the head {said!r} cannot be read; write LAYER-HEAD, as 3-7")
    layer, head = int(found[1]), int(found[2])
    if not (1 <= layer <= encoder.blocks and 1 <= head <= encoder.heads):
        raise InputError(
            f"there is no head {layer}-{head}: {encoder.name} has layers 1 to {encoder.blocks} "
            f"with heads 1 to {encoder.heads}"
        )
    return layer, head


def units_of(encoder: Encoder, text: Text, tokens: Tokens, level: Level) -> Units:
    """The words or pieces of a text, with its special tokens.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> text = Text("a", ("Dogs", "bark"))
        >>> units_of(TinyEncoder(), text, TinyEncoder().tokenize(text), "word").names
        ['[special]', 'Dogs', 'bark', '[special]']
    """
    special = tokens.words == SPECIAL
    # A unit starts with every piece, or with every special token and the first piece of every word.
    starts = np.r_[True, tokens.words[1:] != tokens.words[:-1]] | special | (level == "piece")
    named = encoder.names(tokens) or [
        "[special]" if word == SPECIAL else text.words[word] for word in tokens.words.tolist()
    ]
    names = [
        named[at] if special[at] or level == "piece" else text.words[tokens.words[at]]
        for at in np.flatnonzero(starts).tolist()
    ]
    return Units(names, np.cumsum(starts) - 1, special[starts])


def reach(watched: Watched) -> Float[np.ndarray, "block head"]:
    """How far each head looks: the mean of a word's largest weight on words more than one away.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> reach(see(TinyEncoder(), "Dogs bark.")).shape
        (2, 2)
    """
    maps = watched.words.maps
    size = maps.shape[-1]
    near = (torch.arange(size)[:, None] - torch.arange(size)).abs() <= 1
    return maps.masked_fill(near, 0).amax(-1).mean(-1).numpy()
