"""What every encoder promises, and what it hands out."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from lamina.errors import ModelError
from lamina.types import Text

Want = Literal["states", "maps"]
"""What an encoder can hand out: hidden states by layer, attention maps by block and head."""

STATES: tuple[Want, ...] = ("states",)

SPECIAL = -1
"""The word of a token that belongs to no word ([CLS], [SEP], ...)."""


class Tokens(NamedTuple):
    """A text as the model sees it, aligned with its words."""

    ids: np.ndarray
    """[token] Vocabulary ids, special tokens included."""
    words: np.ndarray
    """[token] The word each token belongs to; SPECIAL for special tokens. Every word has at least one token."""
    unknown: int = 0
    """Words the tokenizer had no piece for, replaced by the unknown token."""


@dataclass(frozen=True, eq=False)
class Activations:
    """One text inside a model. Owns its memory: no padding, nothing of its batch."""

    text: str
    """The text's id."""
    tokens: Tokens
    """Ids and words of the tokens."""
    states: Float[torch.Tensor, "token layer width"] | None = None
    """Hidden states, layer 0 being the embedding layer's output; None when not asked for."""
    maps: Float[torch.Tensor, "block head token token"] | None = None
    """Attention from (row) to (column); None when not asked for, or when the text took several windows."""
    windows: int = 1
    """How many overlapping windows the text took; more than 1 means it is longer than the model's limit."""


class Encoder(ABC):
    """Words in, vectors and maps out. Knows nothing of tasks, stores or probes."""

    name: str
    """What tables call it."""
    blocks: int
    """Transformer blocks; there are `blocks + 1` layers of states, 0 being the embeddings."""
    heads: int
    """Attention heads a block; 0 when there are no attention maps."""
    width: int
    """Length of a state vector."""
    causal: bool = False
    """Whether a token sees only what comes before it."""
    limit: int = sys.maxsize
    """The most tokens the model takes at once; longer texts are encoded in windows."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Changes whenever the numbers could: weights, config, tokenizer, dtype, maximum length, code format."""

    @abstractmethod
    def tokenize(self, text: Text) -> Tokens:
        """The text's tokens, without running the model."""

    @abstractmethod
    def encode(
        self, texts: Iterable[Text], want: Collection[Want] = STATES, *, ordered: bool = True
    ) -> Iterator[Activations]:
        """Run the model. In the texts' order, or (`ordered=False`, less memory) as batches come."""

    def joined_ids(self, words: Sequence[str]) -> list[int] | None:
        """The ids of the words joined by spaces, cut by the tokenizer itself; None where that means nothing."""
        return None

    def names(self, tokens: Tokens) -> list[str] | None:
        """What the vocabulary calls each token, readable; None where it has no names."""
        return None

    def random_twin(self, seed: int = 0, *, keep_embeddings: bool = False) -> Encoder:
        """The same architecture with freshly drawn weights, the embedding layer's kept or not."""
        raise ModelError(f"{self.name} has no blocks, so a random-weights twin says nothing")

    @property
    def layers(self) -> int:
        """Layers of states: the embedding layer and one a block."""
        return self.blocks + 1

    def describe(self) -> dict[str, str]:
        """What provenance says of it."""
        return {"name": self.name, "fingerprint": self.fingerprint}
