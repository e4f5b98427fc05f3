"""Which tokens are what: the first one, separators, punctuation."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from lamina.encoders import SPECIAL, Encoder, Tokens
from lamina.types import Text

PUNCTUATION = (".", ",")
"""The paper's."""


class TokenRoles(NamedTuple):
    """Tokens of a text by what they are; a token may be in several."""

    separators: np.ndarray
    """[token] Whether it is a special token other than the first token ([SEP], </s>)."""
    punctuation: np.ndarray
    """[token] Whether it is a full stop or a comma."""


def punctuation_ids(encoder: Encoder) -> frozenset[int]:
    """The vocabulary's full stops and commas, as words and at the ends of words (byte-level BPE tells them apart)."""
    found = set()
    for sign in PUNCTUATION:
        # In the middle, so that what a tokenizer does to a text's first word does not matter.
        tokens = encoder.tokenize(Text(sign, ("a", sign, f"a{sign}")))
        alone = tokens.ids[tokens.words == 1]
        glued = tokens.ids[tokens.words == 2]
        found |= {int(alone[-1])} | ({int(glued[-1])} if len(glued) > 1 else set())
    return frozenset(found)


def roles_of(tokens: Tokens, punctuation: Collection[int], *, causal: bool) -> TokenRoles:
    """The roles of a text's tokens. A decoder without separators has its first token in their place: its sink.

    Example:
        >>> tokens = Tokens(np.array([101, 7, 5, 102]), np.array([SPECIAL, 0, 1, SPECIAL]))
        >>> roles_of(tokens, {5}, causal=False).separators.tolist()
        [False, False, False, True]
    """
    first = np.arange(len(tokens.ids)) == 0
    separators = (tokens.words == SPECIAL) & ~first
    if causal and not separators.any():
        separators = first
    # A handful of ids: comparing with each is many times faster than np.isin.
    signs = np.zeros_like(first)
    for sign in punctuation:
        signs |= tokens.ids == sign
    return TokenRoles(separators, signs)


def first_token(encoder: Encoder) -> str:
    """What a text's first token is, for provenance: in decoders it draws much attention, be it special or a word's.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> first_token(TinyEncoder())
        'a special token, put before the text'
    """
    special = encoder.tokenize(Text("a", ("a",))).words[0] == SPECIAL
    return (
        "a special token, put before the text" if special else "the text's first piece; no special token was prepended"
    )
