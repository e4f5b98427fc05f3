"""Batches of targets with the states of only the tokens they need; the same seed gives the same batches."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float

from lamina.probes.targets import Targets

_CHUNK = 4096
"""Texts shuffled together: neighbours in the corpus are neighbours on disk, so a chunk is read from few shards."""
_LEAST_DEVIATION = 1e-4
"""Of a dimension, as a share of the layer's largest."""


class SpanTokens(NamedTuple):
    """One span of every target, as (target, token) pairs."""

    target: torch.Tensor
    """[pair] The target, sorted."""
    token: torch.Tensor
    """[pair] Index of the token in the batch."""
    sizes: torch.Tensor
    """[target] Number of tokens."""
    single: bool
    """Whether every span is one token, so that there is nothing to pool."""


class Batch(NamedTuple):
    """The targets of some texts."""

    states: Float[torch.Tensor, "layer token width"]
    """The states of the tokens that the spans need, by layer."""
    spans: tuple[SpanTokens, ...]
    """First and, for pairs, second spans."""
    rows: np.ndarray
    """[target] Which targets these are."""


class Standard(NamedTuple):
    """Every dimension of every layer with mean 0 and one deviation: layers of any scale are mixed and learned alike.

    The deviation is such that vectors have a length of about 1. With a deviation of 1 a probe starts at the edges of
    its tanh and learns slowly: dependencies lost .03 of F1 in as many steps.
    """

    shift: Float[torch.Tensor, "layer width"]
    scale: Float[torch.Tensor, "layer width"]

    def of(self, states: Float[torch.Tensor, "layer token width"]) -> Float[torch.Tensor, "layer token width"]:
        """The states, standardised."""
        shift, scale = (each.to(states.device).unsqueeze(1) for each in self)
        return (states - shift) / scale


class Looked(NamedTuple):
    """What the states of a stream look like."""

    standard: Standard
    norms: Float[np.ndarray, " layer"]
    """Mean length of the vectors."""


@runtime_checkable
class Source(Protocol):
    """The part of stored activations that a stream uses."""

    @property
    def token_bytes(self) -> int:
        """Size of one token's states in bytes, all layers together."""
        ...

    def size(self, index: int) -> int:
        """Tokens of a text."""
        ...

    def load(self, index: int) -> torch.Tensor:
        """A text's states, [token, layer, width]."""
        ...


class Stream:
    """A task's targets with stored activations, batch by batch.

    States that fit into `resident_bytes` (by default a gigabyte of memory, or half of a GPU's free memory) are moved to
    the device once and stay there; otherwise each batch is read from the store. The numbers are the same either way.
    """

    def __init__(
        self,
        stored: Source,
        targets: Targets,
        *,
        device: str = "cpu",
        batch_texts: int = 32,
        standard: Standard | None = None,
        resident_bytes: int | None = None,
    ) -> None:
        self.targets = targets
        self._stored = stored
        self.device = device
        self._batch_texts = batch_texts
        self._standard: Standard | None = None
        """What is still to be done to states: nothing where those in memory are standardised."""
        order = np.argsort(targets.text, kind="stable")
        self._texts, starts = np.unique(targets.text[order], return_index=True)
        self._rows = dict(zip(self._texts.tolist(), np.split(order, starts[1:]), strict=True))
        self._resident: Float[torch.Tensor, "layer token width"] | None = None
        self._offset: dict[int, int] = {}
        self._room = _room(device) if resident_bytes is None else resident_bytes
        self._settle()
        if standard is not None:
            self._standardise(standard)

    @property
    def batches(self) -> int:
        """Batches per epoch."""
        return -(-len(self._texts) // self._batch_texts)

    def epoch(self, seed: int, number: int, *, skip: int = 0) -> Iterator[Batch]:
        """All targets once, shuffled: chunks of neighbouring texts, and the texts within each chunk.

        The first `skip` batches are skipped without building them.
        """
        rng = np.random.default_rng([seed, number])
        chunks = np.split(self._texts, range(_CHUNK, len(self._texts), _CHUNK))
        rng.shuffle(chunks)
        order = np.concatenate([rng.permutation(chunk) for chunk in chunks])
        return self._batches(order[skip * self._batch_texts :])

    def in_order(self) -> Iterator[Batch]:
        """All targets once, text by text."""
        return self._batches(self._texts)

    def standardised(self, standard: Standard) -> Stream:
        """The same stream of standardised states."""
        other = copy(self)
        other._standardise(standard)
        return other

    def look(self) -> Looked:
        """Means, deviations and lengths over the tokens of all targets, as the stream gives them."""
        count, sums, squares, lengths = 0, 0.0, 0.0, 0.0
        for batch in self.in_order():
            states = batch.states.double()
            count += states.shape[1]
            sums, squares = sums + states.sum(1), squares + states.square().sum(1)
            lengths = lengths + states.norm(dim=-1).sum(1)
        mean = torch.as_tensor(sums) / count
        deviation = (torch.as_tensor(squares) / count - mean.square()).clamp_min(0).sqrt()
        # A dimension that never changes tells nothing: it stays at 0 instead of being blown up.
        least = _LEAST_DEVIATION * deviation.amax(1, keepdim=True).clamp_min(_LEAST_DEVIATION)
        length = mean.shape[1] ** 0.5
        standard = Standard(mean.float(), (length * deviation.clamp_min(least)).float())
        return Looked(standard, (torch.as_tensor(lengths) / count).cpu().numpy())

    def _batches(self, order: np.ndarray) -> Iterator[Batch]:
        for at in range(0, len(order), self._batch_texts):
            yield self._batch(order[at : at + self._batch_texts].tolist())

    def _batch(self, texts: list[int]) -> Batch:
        rows = np.concatenate([self._rows[text] for text in texts])
        sizes = [self._stored.size(text) for text in texts]
        starts = dict(zip(texts, np.cumsum([0, *sizes[:-1]]).tolist(), strict=True))
        shift = np.array([starts[text] for text in self.targets.text[rows].tolist()])
        pairs = [_pairs(self.targets.tokens[rows, span] + shift[:, None]) for span in range(self.targets.arity)]
        needed, places = np.unique(np.concatenate([token for _, token in pairs]), return_inverse=True)
        cuts = np.cumsum([len(token) for _, token in pairs])[:-1]
        spans = tuple(
            SpanTokens(self._to(target), self._to(place), self._to(np.bincount(target)), len(target) == len(rows))
            for (target, _), place in zip(pairs, np.split(places, cuts), strict=True)
        )
        return Batch(self._states(texts, needed, starts), spans, rows)

    def _states(self, texts: list[int], needed: np.ndarray, starts: dict[int, int]) -> torch.Tensor:
        if self._resident is None:
            states = torch.cat([self._stored.load(text) for text in texts])[torch.from_numpy(needed)].to(self.device)
            states = states.transpose(0, 1)
        else:
            begins = np.array([starts[text] for text in texts])
            owner = np.searchsorted(begins, needed, side="right") - 1
            moved = np.array([self._offset[text] for text in texts])[owner] + needed - begins[owner]
            states = self._resident.index_select(1, self._to(moved))
        seen = states.float() if self._standard is None else self._standard.of(states.float())
        return seen.contiguous()

    def _settle(self) -> None:
        """Move all states to the device if they fit."""
        total = 0
        for text in self._texts.tolist():
            self._offset[text] = total
            total += self._stored.size(text)
        if not total or total * self._stored.token_bytes > self._room:
            return
        first = self._stored.load(int(self._texts[0]))
        # Filled text by text: gathering in a list first would need twice the memory.
        resident = torch.empty(first.shape[1], total, first.shape[2], dtype=first.dtype, device=self.device)
        for text, at in self._offset.items():
            resident[:, at : at + self._stored.size(text)] = self._stored.load(text).transpose(0, 1)
        self._resident = resident

    def _standardise(self, standard: Standard) -> None:
        """Once and for all where single precision fits into memory, otherwise batch by batch."""
        moved = Standard(*(each.to(self.device) for each in standard))
        resident = self._resident
        if resident is None or resident.numel() * 4 > self._room:
            self._standard = moved
        else:
            self._resident = moved.of(resident.float())

    def _to(self, indices: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(indices).to(self.device)


def _room(device: str) -> int:
    return 2**30 if device == "cpu" else torch.cuda.mem_get_info(device)[0] // 2


def _pairs(ranges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(target, token) for every token of every range."""
    sizes = ranges[:, 1] - ranges[:, 0]
    target = np.repeat(np.arange(len(ranges)), sizes)
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return target, ranges[target, 0] + within
