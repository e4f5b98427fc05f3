"""The heads of one word: which of them look at it most, and which of them it looks out with."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lamina.analyses.attention_maps.words import to_words
from lamina.encoders import Activations


class Strongest(NamedTuple):
    """For every head the other word with the largest weight."""

    weight: Float[Tensor, "block head"]
    partner: Int[Tensor, "block head"]
    """The other word; -1 where there is none."""


class Attended(NamedTuple):
    """A word's attention, both ways. Its attention to itself and to special tokens is left out."""

    incoming: Strongest
    """From another word to this one: who looks at it."""
    outgoing: Strongest
    """From this word to another one: where it looks."""


def attended(made: Activations, word: int) -> Attended | None:
    """The strongest weights to and from a word, head by head; None where there are no maps.

    Attention to a split word is the sum over its pieces, attention from it their mean. A text longer than the model
    takes at once has no maps, and neither has a model without heads.

    Example:
        >>> from lamina.analyses.sentence.encoding import encode_sentence
        >>> from lamina.testing import TinyEncoder
        >>> made = encode_sentence(TinyEncoder(), ["Dogs", "bark", "."], ("maps",))
        >>> found = attended(made, 1)
        >>> tuple(found.incoming.weight.shape), set(found.outgoing.partner.flatten().tolist()) <= {0, 2}
        ((2, 2), True)
    """
    if made.maps is None or made.maps.numel() == 0:
        return None
    maps = to_words(made.maps, made.tokens.words).maps
    return Attended(_strongest(maps[..., word], word), _strongest(maps[..., word, :], word))


def _strongest(weights: Float[Tensor, "block head word"], own: int) -> Strongest:
    others = torch.arange(weights.shape[-1]) != own
    if not others.any():
        blank = torch.zeros(weights.shape[:-1])
        return Strongest(blank, torch.full_like(blank, -1).long())
    best = weights.masked_fill(~others, -1).max(-1)
    return Strongest(best.values, best.indices)
