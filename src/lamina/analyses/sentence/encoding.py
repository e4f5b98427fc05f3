"""A typed sentence inside a model, without a store."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import torch
from jaxtyping import Float

from lamina.encoders import SPECIAL, Activations, Encoder
from lamina.encoders.contract import STATES, Want
from lamina.errors import ModelError
from lamina.types import Text

ID = "typed"
"""Of the one text."""


def encode_sentence(encoder: Encoder, words: Sequence[str], want: Collection[Want] = STATES) -> Activations:
    """The words in one pass through the model; states in the precision that a store keeps them in.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> made = encode_sentence(TinyEncoder(), ["Dogs", "bark"], ("states", "maps"))
        >>> made.states.dtype, tuple(made.maps.shape)
        (torch.float16, (2, 2, 6, 6))
    """
    made = next(iter(encoder.encode([Text(ID, tuple(words))], want)))
    return made if made.states is None else replace(made, states=_as_kept(made.states))


def _as_kept(states: torch.Tensor) -> torch.Tensor:
    """Probes are trained on stored states, which are float16 unless some value is too large for it."""
    half = states.half()
    if half.isfinite().all():
        return half
    if not states.isfinite().all():
        raise ModelError("the model gave values that are not numbers (inf or nan); load it in float32")
    return states


def word_vectors(made: Activations, words: int) -> Float[torch.Tensor, "layer word width"]:
    """Every word at every layer: the mean of its pieces, special tokens left out.

    Example:
        >>> from lamina.testing import TinyEncoder
        >>> tuple(word_vectors(encode_sentence(TinyEncoder(), ["Dogs", "bark"]), 2).shape)
        (3, 2, 16)
    """
    if made.states is None:
        raise ModelError("the sentence was encoded without its states")
    owner = torch.from_numpy(made.tokens.words).long()
    inside = owner != SPECIAL
    pieces = made.states[inside].float().transpose(0, 1)
    counts = torch.bincount(owner[inside], minlength=words).unsqueeze(1)
    summed = torch.zeros(len(pieces), words, pieces.shape[2]).index_add_(1, owner[inside], pieces)
    return summed / counts
