"""Word vectors out of stored sub-word states."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float

from lamina.activations.reading import StoredActivations
from lamina.encoders import SPECIAL


class WordVectors:
    """Every word of a list of texts as the mean of its pieces, special tokens left out; one layer at a time.

    Words of all texts stand one after the other.
    """

    text: torch.Tensor
    """[word] The text each word belongs to."""

    def __init__(self, stored: StoredActivations, lengths: Sequence[int]) -> None:
        """`lengths` are the words of each text."""
        self._stored = stored
        sizes = torch.tensor(lengths)
        starts = sizes.cumsum(0) - sizes
        self.text = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
        owners = []
        for start, activations in zip(starts.tolist(), stored, strict=True):
            words = torch.from_numpy(activations.tokens.words).long()
            owners.append(torch.where(words == SPECIAL, SPECIAL, words + start))
        owner = torch.cat(owners)
        self._pieces = owner != SPECIAL
        self._owner = owner[self._pieces]
        self._counts = torch.bincount(self._owner, minlength=len(self.text)).unsqueeze(1)

    def layer(self, number: int) -> Float[torch.Tensor, "word width"]:
        """All words at one layer, in float32."""
        states = torch.cat([states[:, number] for each in self._stored if (states := each.states) is not None])
        pieces = states[self._pieces].float()
        return torch.zeros(len(self.text), pieces.shape[1]).index_add_(0, self._owner, pieces) / self._counts
