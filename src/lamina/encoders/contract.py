"""The encoder interface, and the types it returns."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from lamina.errors import ModelError
from lamina.types import Text

if TYPE_CHECKING:
    from lamina.encoders.passport import Passport

Want = Literal["states", "maps", "norms"]
"""What an encoder can return: hidden states by layer, attention maps and norms of values by block and head."""

STATES: tuple[Want, ...] = ("states",)

SPECIAL = -1
"""Word index of tokens that belong to no word ([CLS], [SEP], ...)."""


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
    """The activations of one text. Owns its memory: no padding, no view into a batch."""

    text: str
    """The text's id."""
    tokens: Tokens
    """Ids and words of the tokens."""
    states: Float[torch.Tensor, "token layer width"] | None = None
    """Hidden states; layer 0 is the embedding layer's output. None if not requested."""
    maps: Float[torch.Tensor, "block head token token"] | None = None
    """Attention from (row) to (column), of the encoder's `map_blocks`; None if not requested, or if the text needed
    several windows."""
    windows: int = 1
    """Number of overlapping windows; more than 1 means that the text is longer than the model's limit."""
    norms: Float[torch.Tensor, "block head token"] | None = None
    """Norm of each token's value after the head's part of the output projection; None wherever `maps` would be, or if
    the encoder cannot tell."""


class Encoder(ABC):
    """Words in, vectors and maps out. Knows nothing about tasks, stores or probes."""

    name: str
    """Name in tables."""
    blocks: int
    """Transformer blocks; there are `blocks + 1` layers of states, 0 being the embeddings."""
    heads: int
    """Attention heads per block; 0 if there are no attention maps."""
    width: int
    """Size of a state vector."""
    causal: bool = False
    """Whether a token sees only the tokens before it."""
    limit: int = sys.maxsize
    """Maximum number of tokens; longer texts are encoded in windows."""
    origin: Mapping[str, str] = {}
    """What provenance says of where the model comes from: its revision, the adapter on it, remote code that ran."""
    passport: Passport | None = None
    """The verdict on its numbers; None until `lamina.encoders.passports.passport_of` has examined it."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Changes whenever the numbers could change: weights, config, tokenizer, dtype, maximum length, code format."""

    @abstractmethod
    def tokenize(self, text: Text) -> Tokens:
        """The text's tokens, without running the model."""

    @abstractmethod
    def encode(
        self, texts: Iterable[Text], want: Collection[Want] = STATES, *, ordered: bool = True
    ) -> Iterator[Activations]:
        """Run the model. Yields in the order of the texts or, with `ordered=False` (less memory), in batch order."""

    def refusal(self, need: str) -> str | None:
        """Why its states, maps, norms or windows cannot be used, as its passport says; None if they can."""
        return None if self.passport is None else self.passport.refuses(need)

    @property
    def has_maps(self) -> bool:
        """Whether it has attention maps that can be used."""
        return self.heads > 0 and self.refusal("maps") is None

    def refuse(self, needs: Collection[str]) -> None:
        """Raise a ModelError if its passport refuses something that is needed."""
        if self.passport is not None:
            from lamina.encoders.passports import refuse_needs

            refuse_needs(self.passport, needs)

    def refuse_maps(self, want: Collection[Want]) -> None:
        """For encoders without attention: an error if maps are requested."""
        if {"maps", "norms"} & set(want):
            raise ModelError(f"{self.name} has no attention maps")

    def joined_ids(self, words: Sequence[str]) -> list[int] | None:
        """The tokenizer's own ids for the words joined by spaces; None if that does not apply."""
        return None

    def names(self, tokens: Tokens) -> list[str] | None:
        """A readable name of each token; None if the vocabulary has no names."""
        return None

    def random_twin(self, seed: int = 0, *, keep_embeddings: bool = False) -> Encoder:
        """The same architecture with new random weights; optionally keeps the embedding layer."""
        raise ModelError(f"{self.name} has no blocks, so a random-weights twin is meaningless")

    def with_one_segment(self) -> Encoder:
        """The same encoder with segment id 0 for every token; itself where its model has no segment ids."""
        return self

    @property
    def causal_maps(self) -> bool:
        """Whether attention maps only look back.

        Those of an encoder-decoder's decoder do, though it is not causal: cross-attention shows it the whole text.
        """
        return self.causal

    @property
    def map_blocks(self) -> tuple[int, ...]:
        """Blocks (from 0) that have attention maps: all, none, or those that attend among others that do not."""
        return tuple(range(self.blocks)) if self.heads else ()

    @property
    def layers(self) -> int:
        """Layers of states: the embedding layer and one per block."""
        return self.blocks + 1

    def describe(self) -> dict[str, str]:
        """Its entry in provenance."""
        return {"name": self.name, "fingerprint": self.fingerprint, **self.origin}
