"""The encoder interface, and the types it returns."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lamina.errors import ModelError
from lamina.types import Text

if TYPE_CHECKING:
    from lamina.models.checks.passports import Passport
    from lamina.models.running.reloading import EncoderLoader


# Tolerances within which two runs of a model agree.

TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-6, torch.float16: 2e-2, torch.bfloat16: 1e-1}
"""Relative error of a vector up to which two runs agree. Seen where nothing is wrong: up to 1e-5 in float32 (the thirty
blocks of smollm2), 2e-3 in float16, 2e-2 in bfloat16. Planted faults change states by more than 1e-2 in float32."""

IN_ONE_BATCH = {torch.float32: 2e-5, torch.float64: 1e-9, torch.float16: 1e-3, torch.bfloat16: 5e-3}
"""The same for rows of one batch, which are computed alike: usually they agree to the last bit. An untrained BERT
moves earlier words by no more than a thousandth when later ones change."""

SHARE = {torch.float16: 0.5, torch.bfloat16: 0.5}
"""Share of a layer's tokens that have to agree, where it is not all: in half precision, rounding sends a token to
another expert now and then, while faults change most tokens."""


def apart(one: Tensor, other: Tensor, share: float = 1.0) -> float:
    """The largest relative error of a vector (last dimension); infinite if one is not a number.

    With a share, the largest among that share of each layer's tokens that agree best.

    Vectors that are very short beside the others of their layer count as long as a thousandth of the mean.

    Example:
        >>> round(apart(torch.tensor([[1.0, 0.0], [3.0, 4.0]]), torch.tensor([[1.0, 0.0], [3.0, 4.5]])), 3)
        0.092
    """
    # Parts of one model may be on several devices.
    one, other = one.double(), other.to(one.device).double()
    if one.shape != other.shape:
        return float("inf")
    if not one.numel():
        return 0.0
    lengths = other.norm(dim=-1)
    floor = 1e-3 * lengths.mean(dim=-1, keepdim=True) if lengths.dim() else lengths
    errors = (one - other).norm(dim=-1) / torch.maximum(lengths, floor).clamp_min(1e-30)
    if not torch.isfinite(errors).all():
        return float("inf")
    if share < 1 and errors.dim():
        errors = errors.quantile(share, dim=-1, interpolation="lower")
    return errors.max().item()


# Whether numbers are finite, from the smallest and the largest of them.

_EXPONENTS = {torch.float16: 0x7C00, torch.bfloat16: 0x7F80}
"""Bits of the exponent of two-byte numbers; all ones in Inf and NaN."""


class Extremes(NamedTuple):
    """The smallest and the largest value, or 0 and 0 if all are finite; both NaN if any is."""

    low: float
    high: float

    @property
    def overflow(self) -> bool:
        """Whether some value is infinite."""
        return math.isinf(self.low) or math.isinf(self.high)

    @property
    def nan(self) -> bool:
        """Whether some value is NaN."""
        return math.isnan(self.low)


def extremes(values: Tensor) -> Tensor:
    """The two numbers of `Extremes`, on the device of the values: nothing waits for them.

    Example:
        >>> found = extremes(torch.tensor([1.0, torch.inf]))
        >>> Extremes(*found.tolist()).overflow
        True
    """
    ones = _EXPONENTS.get(values.dtype)
    # Whole numbers are compared several times faster on a CPU.
    if values.device.type == "cpu" and ones is not None and int((values.view(torch.int16) & ones).amax()) < ones:
        return torch.zeros(2)
    return torch.stack(values.aminmax()).float()


Want = Literal["states", "maps", "norms"]
"""What an encoder can return: hidden states by layer; attention maps and value norms by block and head."""

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
    """Words the tokenizer has no token for, replaced by the unknown token; see `Encoder.replaced`."""


@dataclass(frozen=True, eq=False)
class Activations:
    """The activations of one text, without padding.

    States may be a view into those of all texts of a batch: keeping one text's states keeps the memory of its batch.
    Clone them to keep a few of many.
    """

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


class Packed(NamedTuple):
    """The states of some texts, one after the other, without padding."""

    texts: tuple[str, ...]
    """Ids of the texts."""
    tokens: tuple[Tokens, ...]
    """Ids and words of each text's tokens."""
    windows: tuple[int, ...]
    """Number of windows of each text."""
    states: Float[torch.Tensor, "token layer width"]
    """Hidden states of all texts; a text begins where the one before it ends."""
    overflow: bool = False
    """Whether some value did not fit the precision asked for and became infinite: the states are then useless."""
    nan: bool = False
    """Whether some value is NaN."""

    def unpack(self) -> Iterator[Activations]:
        """The texts one by one; their states are views.

        Example:
            >>> tokens = Tokens(np.arange(2), np.arange(2))
            >>> packed = Packed(("a", "b"), (tokens, tokens), (1, 1), torch.zeros(4, 3, 8))
            >>> [tuple(activations.states.shape) for activations in packed.unpack()]
            [(2, 3, 8), (2, 3, 8)]
        """
        sizes = [len(tokens.ids) for tokens in self.tokens]
        parts = self.states.split(sizes)
        for text, tokens, windows, states in zip(self.texts, self.tokens, self.windows, parts, strict=True):
            yield Activations(text, tokens, states, None, windows)


class MapBatch(NamedTuple):
    """The attention maps of some texts, padded to the longest, on the device where the model ran."""

    texts: tuple[str, ...]
    """Ids of the texts."""
    tokens: tuple[Tokens, ...]
    """Ids and words of each text's tokens."""
    maps: tuple[Float[torch.Tensor, "text head token token"], ...] = ()
    """Of each of the encoder's `map_blocks`; 0 from and to padding. None at all for a text of several windows."""
    norms: tuple[Float[torch.Tensor, "text head token"], ...] = ()
    """Of each block, see `Activations.norms`; empty if not requested."""


Room = Callable[[int], torch.Tensor]
"""Number of tokens -> memory [token, layer, width] for their states."""

_PACKED_BYTES = 16 * 2**20
_TOGETHER, _LARGE = 8, 2**20
"""Texts that an encoder gave one by one and that are padded together, and the numbers in the maps of a large one."""


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
    dtype: torch.dtype = torch.float32
    """Precision of the states as the model computes them: what they can be kept in without loss."""
    causal: bool = False
    """Whether a token sees only the tokens before it."""
    limit: int = sys.maxsize
    """Maximum number of tokens; longer texts are encoded in windows."""
    origin: Mapping[str, str] = {}
    """Where the model comes from, for provenance: its revision, the adapter on it, remote code that ran."""
    loader: EncoderLoader | None = None
    """How another process loads it by its name; None if it has no name, so that its weights have to be sent."""
    replaced: str = "words without a token, replaced by the unknown token"
    """What `Tokens.unknown` counts, in words."""
    passport: Passport | None = None
    """The verdict on its numbers; None until `lamina.models.checks.passports.passport_of` has examined it."""

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return torch.device("cpu")

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Changes whenever the numbers could change: weights, config, tokenizer, dtype, maximum length, code format."""

    @abstractmethod
    def tokenize(self, text: Text) -> Tokens:
        """The text's tokens, without running the model."""

    def tokenize_all(self, texts: Sequence[Text]) -> list[Tokens]:
        """The tokens of many texts; an encoder may do this faster than one by one."""
        return [self.tokenize(text) for text in texts]

    @abstractmethod
    def encode(
        self, texts: Iterable[Text], want: Collection[Want] = STATES, *, ordered: bool = True
    ) -> Iterator[Activations]:
        """Run the model. Yields in the order of the texts or, with `ordered=False` (less memory), in batch order."""

    def packed(
        self,
        texts: Iterable[Text],
        *,
        dtype: torch.dtype = torch.float32,
        on: Literal["device", "host"] = "host",
        room: Room | None = None,
        most: int | None = None,
    ) -> Iterator[Packed]:
        """Run the model. Yields the states of many texts at a time, in batch order.

        Args:
            texts: the texts; a stream is read as needed.
            dtype: the precision of the states.
            on: `device` leaves the states where the model ran, `host` brings them into this machine's memory.
            room: gives the memory on the host that states are written to, asked once for each `Packed`, in their order,
                possibly before the one before is yielded. By default each `Packed` has memory of its own.
            most: tokens of a `Packed` at most; a longer text comes alone.
        """
        tokens = _PACKED_BYTES // (4 * self.layers * self.width)
        for batch in _batches(self.encode(texts, ordered=False), tokens if most is None else min(tokens, most)):
            yield pack(batch, dtype, room)

    def map_batches(self, texts: Iterable[Text], *, norms: bool = False) -> Iterator[MapBatch]:
        """Run the model. Yields the maps of many texts at a time, in batch order, left where the model ran.

        A text that needs several windows comes alone and without maps.
        """
        return padded_batches(self.encode(texts, ("maps", "norms") if norms else ("maps",), ordered=False))

    def refusal(self, need: str) -> str | None:
        """Why its states, maps, norms or windows cannot be used, by its passport; None if they can."""
        return None if self.passport is None else self.passport.refuses(need)

    @property
    def has_maps(self) -> bool:
        """Whether it has attention maps that can be used."""
        return self.heads > 0 and self.refusal("maps") is None

    def refuse(self, needs: Collection[str]) -> None:
        """Raise a ModelError if its passport refuses something that is needed."""
        if self.passport is not None:
            self.passport.refuse(needs)

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

    def vocabulary(self) -> list[str] | None:
        """Its ordinary tokens in readable form, without surrounding spaces; None if they have no names."""
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


def pack(batch: Sequence[Activations], dtype: torch.dtype, room: Room | None = None) -> Packed:
    """Put the states of some texts one after the other.

    Example:
        >>> one = Activations("a", Tokens(np.arange(2), np.arange(2)), torch.ones(2, 3, 8))
        >>> pack([one, one], torch.float16).states.shape
        torch.Size([4, 3, 8])
    """
    parts = [activations.states for activations in batch if activations.states is not None]
    size = sum(len(part) for part in parts)
    states = torch.empty(size, *parts[0].shape[1:], dtype=dtype) if room is None else room(size)
    start = 0
    for part in parts:
        states[start : start + len(part)].copy_(part)
        start += len(part)
    bounds = Extremes(*extremes(states).tolist())
    return Packed(
        tuple(activations.text for activations in batch),
        tuple(activations.tokens for activations in batch),
        tuple(activations.windows for activations in batch),
        states,
        overflow=bounds.overflow,
        nan=bounds.nan,
    )


def _batches(encoded: Iterable[Activations], tokens: int) -> Iterator[list[Activations]]:
    batch: list[Activations] = []
    size = 0
    for activations in encoded:
        if activations.states is None:
            raise ModelError(f"text {activations.text!r} has no states")
        if batch and size + len(activations.states) > tokens:
            yield batch
            batch, size = [], 0
        batch.append(activations)
        size += len(activations.states)
    if batch:
        yield batch


def padded_together(batch: Sequence[Activations]) -> MapBatch:
    """Maps of single texts as one batch.

    Example:
        >>> made = [Activations(str(size), Tokens(np.arange(size), np.arange(size)), maps=torch.ones(2, 1, size, size))
        ...         for size in (2, 3)]
        >>> [tuple(block.shape) for block in padded_together(made).maps]
        [(2, 1, 3, 3), (2, 1, 3, 3)]
    """
    longest = max(len(item.tokens.ids) for item in batch)
    maps, norms = (
        [item.maps for item in batch if item.maps is not None],
        [e.norms for e in batch if e.norms is not None],
    )
    room = maps[0].new_zeros(maps[0].shape[0], len(batch), maps[0].shape[1], longest, longest)
    beside = maps[0].new_zeros(room.shape[:-1])
    for number, item in enumerate(maps):
        room[:, number, :, : item.shape[-1], : item.shape[-1]] = item
    for number, item in enumerate(norms):
        beside[:, number, :, : item.shape[-1]] = item
    names, tokens = tuple(item.text for item in batch), tuple(item.tokens for item in batch)
    return MapBatch(names, tokens, room.unbind(), beside.unbind() if norms else ())


def padded_batches(encoded: Iterable[Activations]) -> Iterator[MapBatch]:
    """Texts that were encoded one by one, a few at a time; in their order."""
    waiting: list[Activations] = []
    for activations in encoded:
        if activations.maps is None:
            yield MapBatch((activations.text,), (activations.tokens,))
            continue
        waiting.append(activations)
        if len(waiting) == _TOGETHER or activations.maps.numel() > _LARGE:
            yield padded_together(waiting)
            waiting = []
    if waiting:
        yield padded_together(waiting)
