"""What meters are shown: every head's attention on many texts, on the device where the model ran."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lamina.encoders import SPECIAL, Tokens
from lamina.types import Text

From = Literal["mean", "first"]
"""How the rows of a split word become one: the mean of its pieces, or (the paper's released code) the first piece."""
PADDING = -2
"""In place of a word or an id, where a text of a batch has no token."""


class TokenRoles(NamedTuple):
    """Tokens by what they are; a token may be in several."""

    separators: Bool[Tensor, "*text token"]
    """Whether it is a special token other than the first token ([SEP], </s>)."""
    punctuation: Bool[Tensor, "*text token"]
    """Whether it is a full stop or a comma."""


def roles_of(tokens: Tokens, punctuation: Collection[int], *, causal: bool) -> TokenRoles:
    """The roles of a text's tokens. A decoder without separators has its first token in their place: its sink.

    Example:
        >>> tokens = Tokens(np.array([101, 7, 5, 102]), np.array([SPECIAL, 0, 1, SPECIAL]))
        >>> roles_of(tokens, {5}, causal=False).separators.tolist()
        [False, False, False, True]
    """
    ids, words = (torch.from_numpy(each)[None] for each in (tokens.ids, tokens.words))
    return TokenRoles(*(each[0] for each in _roles(ids, words, punctuation, causal=causal)))


def _roles(
    ids: Int[Tensor, "text token"], words: Int[Tensor, "text token"], punctuation: Collection[int], *, causal: bool
) -> TokenRoles:
    first = torch.zeros_like(words, dtype=torch.bool)
    first[:, 0] = True
    separators = (words == SPECIAL) & ~first
    if causal:
        separators = torch.where(separators.any(1, keepdim=True), separators, first)
    signs = torch.zeros_like(first)
    for sign in punctuation:
        signs |= ids == sign
    return TokenRoles(separators, signs)


class Places(NamedTuple):
    """Which tokens are the pieces of which words, in a batch of texts."""

    first: Int[Tensor, "text word"]
    """The token of each word's first piece; 0 where a text has no such word."""
    sizes: Int[Tensor, "text word"]
    """Pieces of each word; 0 where a text has no such word."""
    rest: tuple[Int[Tensor, " piece"], Int[Tensor, " piece"], Int[Tensor, " piece"]]
    """Of every piece that is not a word's first: its text, its token, and the token of the word's first piece."""


def places_of(words: Int[np.ndarray, "text token"], device: torch.device | None = None) -> Places:
    """Where words are; the pieces of a word are neighbours, other tokens have a negative number.

    Example:
        >>> found = places_of(np.array([[SPECIAL, 0, 0, 1]]))
        >>> found.first.tolist(), found.sizes.tolist(), [each.tolist() for each in found.rest]
        ([[1, 3]], [[2, 1]], [[0], [2], [1]])
    """
    inside = words >= 0
    starts = inside.copy()
    starts[:, 1:] &= words[:, 1:] != words[:, :-1]
    first, sizes = (np.zeros((len(words), words.max() + 1), np.int64) for _ in range(2))
    text, token = np.nonzero(starts)
    first[text, words[text, token]] = token
    text, token = np.nonzero(inside)
    np.add.at(sizes, (text, words[text, token]), 1)
    text, token = np.nonzero(inside & ~starts)
    one, two, three = (_on(each, device) for each in (text, token, first[text, words[text, token]]))
    return Places(_on(first, device), _on(sizes, device), (one, two, three))


class Arriving:
    """Numbers on their way from a device to this machine's memory; only reading them waits for them.

    Example:
        >>> Arriving(torch.arange(3)).numpy().tolist()
        [0, 1, 2]
    """

    def __init__(self, there: Tensor) -> None:
        self._arrived: torch.cuda.Event | None = None
        if there.device.type != "cuda":
            self._here = there.cpu()
            return
        self._here = torch.empty(there.shape, dtype=there.dtype, pin_memory=True)
        self._here.copy_(there, non_blocking=True)
        self._arrived = torch.cuda.Event()
        self._arrived.record(torch.cuda.current_stream(there.device))

    def numpy(self) -> np.ndarray:
        """The numbers, once they are here."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return self._here.numpy()


def _on(values: np.ndarray, device: torch.device | None) -> Tensor:
    return torch.from_numpy(values).to(device)


def from_words(
    maps: Float[Tensor, "text head token token"], places: Places, rows: From
) -> Float[Tensor, "text head token token"]:
    """Maps in which the row of a word's first piece is that of the word: the mean over its pieces, or its own."""
    text, token, first = places.rest
    merged = maps.clone()
    if rows == "mean" and len(text):
        by_row = merged.transpose(1, 2)
        by_row.index_put_((text, first), by_row[text, token], accumulate=True)
        pieces = maps.new_ones(maps.shape[0], maps.shape[-1]).index_put_(
            (text, first), maps.new_ones(len(text)), accumulate=True
        )
        merged /= pieces[:, None, :, None]
    return merged


def between_words(
    maps: Float[Tensor, "text head token token"], places: Places, rows: From
) -> Float[Tensor, "text head word word"]:
    """Attention between words: to a word, the sum over its pieces; 0 from and to words that a text does not have."""
    text, token, first = places.rest
    merged = from_words(maps, places, rows)
    if len(text):
        by_column = merged.permute(0, 3, 1, 2)
        by_column.index_put_((text, first), by_column[text, token], accumulate=True)
    # Most words are one piece: those of all words' first pieces are the cells that remain.
    size = places.first.shape[1]
    cells = (places.first[:, :, None] * maps.shape[-1] + places.first[:, None]).view(-1, 1, size * size)
    found = merged.flatten(2).gather(2, cells.expand(-1, maps.shape[1], -1)).unflatten(2, (size, size))
    there = (places.sizes > 0).to(maps.dtype)
    return found.mul_((there[:, :, None] * there[:, None])[:, None])


class WordMaps(NamedTuple):
    """Attention from word (row) to word (column); a row and its `special` sum to 1."""

    maps: Float[Tensor, "block head word word"]
    """Of words alone."""
    special: Float[Tensor, "block head word"]
    """What each word gives to all special tokens together."""


def to_words(
    maps: Float[Tensor, "block head token token"], words: Int[np.ndarray, " token"], rows: From = "mean"
) -> WordMaps:
    """Attention to a split word is the sum over its pieces; attention from it the mean over them.

    Example:
        >>> maps = torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]])[None, None]
        >>> to_words(maps, np.array([SPECIAL, 0, 0])).maps.squeeze().item()
        0.5
    """
    places = places_of(words[None], maps.device)
    one = maps.flatten(0, 1)[None]
    to_special = from_words(one, places, rows)[..., torch.from_numpy(words == SPECIAL).to(maps.device)].sum(-1)
    special = to_special[..., places.first[0]]
    return WordMaps(*(each[0].unflatten(0, maps.shape[:2]) for each in (between_words(one, places, rows), special)))


@dataclass(frozen=True, eq=False)
class Watched:
    """One text and every head's attention on it, in this machine's memory."""

    text: Text
    """As encoded: cut where it was too long."""
    tokens: Tokens
    """Its pieces, special tokens included."""
    maps: Float[Tensor, "block head token token"]
    """Attention from (row) to (column), weighted as was asked."""
    rows: From = "mean"
    """How rows of split words become one."""

    @cached_property
    def words(self) -> WordMaps:
        """The maps between words."""
        return to_words(self.maps, self.tokens.words, self.rows)


@dataclass(frozen=True, eq=False)
class WatchedBatch:
    """Some texts and every head's attention on them, on the device where the model ran.

    Maps are as large as the longest text, and 0 from and to what is padding in another. What is the same for all
    meters is worked out once.

    Example:
        >>> text = Text("a", ("Dogs", "bark"))
        >>> tokens = Tokens(np.array([1, 7, 8, 2]), np.array([SPECIAL, 0, 1, SPECIAL]))
        >>> batch = WatchedBatch.of([Watched(text, tokens, torch.rand(3, 2, 4, 4))])
        >>> len(batch.maps), tuple(batch.maps[0].shape), tuple(batch.words[0].shape), batch.sizes.tolist()
        (3, (1, 2, 4, 4), (1, 2, 2, 2), [4])
    """

    texts: tuple[Text, ...]
    tokens: tuple[Tokens, ...]
    maps: tuple[Float[Tensor, "text head token token"], ...]
    """Of every block: attention from (row) to (column), weighted as was asked."""
    rows: From = "mean"
    """How rows of split words become one."""

    @classmethod
    def of(cls, watched: Sequence[Watched]) -> WatchedBatch:
        """Single texts together."""
        longest = max(each.maps.shape[-1] for each in watched)
        blocks, heads = watched[0].maps.shape[:2]
        maps = watched[0].maps.new_zeros(blocks, len(watched), heads, longest, longest)
        for at, each in enumerate(watched):
            maps[:, at, :, : each.maps.shape[-1], : each.maps.shape[-1]] = each.maps
        texts, tokens = tuple(each.text for each in watched), tuple(each.tokens for each in watched)
        return cls(texts, tokens, maps.unbind(), watched[0].rows)

    @cached_property
    def singly(self) -> tuple[Watched, ...]:
        """The texts one by one, copied to this machine's memory: for what cannot be done where the maps are."""
        found = []
        for at, (text, tokens) in enumerate(zip(self.texts, self.tokens, strict=True)):
            size = len(tokens.ids)
            maps = torch.stack([block[at, :, :size, :size] for block in self.maps]).cpu()
            found.append(Watched(text, tokens, maps, self.rows))
        return tuple(found)

    @cached_property
    def groups(self) -> tuple[Float[Tensor, "text head token token"], ...]:
        """The maps of all heads, in the order of blocks, in pieces that are reduced fastest.

        On a CPU a piece is a block, which stays in its cache; elsewhere all are one, since starting work costs most.
        """
        return self.maps if self.device.type == "cpu" else (torch.cat(self.maps, 1),)

    @cached_property
    def received(self) -> tuple[Float[Tensor, "text head token"], ...]:
        """What each token gets from all tokens together, of every group."""
        return tuple(group.sum(-2) for group in self.groups)

    @property
    def device(self) -> torch.device:
        """Where the maps are."""
        return self.maps[0].device

    @cached_property
    def sizes(self) -> Int[Tensor, " text"]:
        """Tokens of each text."""
        return torch.tensor([len(each.ids) for each in self.tokens], device=self.device)

    @cached_property
    def inside(self) -> Bool[Tensor, "text token"]:
        """Whether it is a token of the text, and not padding."""
        return torch.arange(self.maps[0].shape[-1], device=self.device) < self.sizes[:, None]

    @cached_property
    def owners(self) -> Int[Tensor, "text token"]:
        """The word of each token; `SPECIAL` for special tokens, `PADDING` for none."""
        return _on(self._owners, self.device)

    @cached_property
    def _owners(self) -> Int[np.ndarray, "text token"]:
        return self._padded([each.words for each in self.tokens])

    @cached_property
    def _ids(self) -> Int[Tensor, "text token"]:
        return _on(self._padded([each.ids for each in self.tokens]), self.device)

    def _padded(self, values: Sequence[np.ndarray]) -> np.ndarray:
        sizes = np.array([len(each) for each in values])
        padded = np.full((len(values), self.maps[0].shape[-1]), PADDING)
        padded[np.arange(padded.shape[1]) < sizes[:, None]] = np.concatenate(values)
        return padded

    def roles(self, punctuation: Collection[int], *, causal: bool) -> TokenRoles:
        """What each token is; padding is nothing."""
        return _roles(self._ids, self.owners, punctuation, causal=causal)

    @cached_property
    def word_counts(self) -> Int[Tensor, " text"]:
        """Words of each text."""
        return (self._places.sizes > 0).sum(1)

    @cached_property
    def _places(self) -> Places:
        return places_of(self._owners, self.device)

    @cached_property
    def words(self) -> tuple[Float[Tensor, "text head word word"], ...]:
        """The maps between words, of every group; 0 from and to words that a text does not have."""
        return tuple(between_words(group, self._places, self.rows) for group in self.groups)
