"""Batches of targets with the states of only the tokens they need; the same seed gives the same batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float

from lamina.probes.targets import Targets

_CHUNK = 4096
"""Texts shuffled together: neighbours in the corpus are neighbours on disk, so a chunk is read from few shards."""


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
        resident_bytes: int | None = None,
    ) -> None:
        self.targets = targets
        self._stored = stored
        self.device = device
        self._batch_texts = batch_texts
        order = np.argsort(targets.text, kind="stable")
        self._texts, starts = np.unique(targets.text[order], return_index=True)
        self._rows = dict(zip(self._texts.tolist(), np.split(order, starts[1:]), strict=True))
        self._resident: torch.Tensor | None = None
        self._offset: dict[int, int] = {}
        self._settle(_room(device) if resident_bytes is None else resident_bytes)

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
        else:
            begins = np.array([starts[text] for text in texts])
            owner = np.searchsorted(begins, needed, side="right") - 1
            moved = np.array([self._offset[text] for text in texts])[owner] + needed - begins[owner]
            states = self._resident[self._to(moved)]
        return states.float().transpose(0, 1).contiguous()

    def _settle(self, resident_bytes: int) -> None:
        """Move all states to the device if they fit."""
        total = 0
        for text in self._texts.tolist():
            self._offset[text] = total
            total += self._stored.size(text)
        if not total or total * self._stored.token_bytes > resident_bytes:
            return
        first = self._stored.load(int(self._texts[0]))
        # Filled text by text: gathering in a list first would need twice the memory.
        resident = torch.empty(total, *first.shape[1:], dtype=first.dtype, device=self.device)
        for text, at in self._offset.items():
            resident[at : at + self._stored.size(text)] = self._stored.load(text)
        self._resident = resident

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
