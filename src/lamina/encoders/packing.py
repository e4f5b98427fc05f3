"""States of a batch without padding, on the device where the model ran, and their way to the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lamina.encoders.contract import Room
from lamina.encoders.extremes import Extremes, extremes
from lamina.encoders.rows import Row


class Places(NamedTuple):
    """Which tokens of a padded batch are kept, and where they go among those of its texts."""

    kept: np.ndarray | None
    """Indices into [row * token]; None for all."""
    to: np.ndarray | slice


def places_of(rows: Sequence[Row], starts: Sequence[int]) -> Places:
    """Where the kept tokens of rows go; `starts` says where each row's text begins.

    Example:
        >>> whole = Row(0, np.arange(2), np.zeros(2, int), np.arange(2), slice(0, 2), slice(0, 2))
        >>> longer = Row(1, np.arange(3), np.zeros(3, int), np.arange(3), slice(0, 3), slice(0, 3))
        >>> kept, to = places_of([longer, whole], [0, 3])
        >>> kept.tolist(), to
        ([0, 1, 2, 3, 4], slice(0, 5, None))
    """
    width = max(len(row.ids) for row in rows)
    sizes = np.array([row.keep.stop - row.keep.start for row in rows])
    first = np.array([at * width + row.keep.start for at, row in enumerate(rows)])
    target = np.array([start + row.to.start for start, row in zip(starts, rows, strict=True)])
    stops = np.cumsum(sizes)
    offsets = np.arange(stops[-1]) - np.repeat(stops - sizes, sizes)
    kept = None if stops[-1] == width * len(rows) else np.repeat(first, sizes) + offsets
    if np.array_equal(target[1:], (target + sizes)[:-1]):
        return Places(kept, slice(int(target[0]), int(target[-1] + sizes[-1])))
    return Places(kept, np.repeat(target, sizes) + offsets)


def fill(states: Tensor, layers: Sequence[Tensor], places: Places) -> None:
    """Copy the kept tokens of padded layers [row, token, width] into states [token, layer, width]."""
    kept = None if places.kept is None else sent(torch.from_numpy(places.kept), layers[0].device)
    to = places.to if isinstance(places.to, slice) else sent(torch.from_numpy(places.to), states.device)
    for number, layer in enumerate(layers):
        part = layer.reshape(-1, layer.shape[-1])
        if kept is not None:
            # The layers of a large model may be on several devices.
            part = part.index_select(0, kept.to(part.device))
        if isinstance(to, slice):
            states[to, number].copy_(part, non_blocking=True)
        else:
            states[to, number] = part.to(states.device, states.dtype)


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """A small tensor on a device; a GPU fetches it by itself, without the host waiting."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


class Arriving:
    """States that a GPU may still be computing or copying."""

    def __init__(self, states: Tensor, extremes: Tensor, arrived: torch.cuda.Event | None) -> None:
        self._states, self._extremes, self._arrived = states, extremes, arrived

    def wait(self) -> tuple[Tensor, Extremes]:
        """The states and their extremes, once they are there."""
        if self._arrived is not None:
            self._arrived.synchronize()
        return self._states, Extremes(*self._extremes.tolist())


class Carrier:
    """Brings states from the device to the host: from a GPU on a stream of its own, beside the next forward pass."""

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def leave(self, states: Tensor) -> Arriving:
        """States that stay on the device."""
        return self._with_extremes(states, states)

    def carry(self, states: Tensor, room: Room | None) -> Arriving:
        """States that go to the host, into memory that `room` gives."""
        if room is not None:
            host = room(len(states))
        else:
            host = torch.empty(states.shape, dtype=states.dtype, pin_memory=self._stream is not None)
        return self._with_extremes(states, host)

    def _with_extremes(self, states: Tensor, target: Tensor) -> Arriving:
        # Looked at where the states are: the host would take longer than the copy.
        found = extremes(states)
        if self._stream is None:
            if target is not states:
                target.copy_(states)
            return Arriving(target, found, None)
        told = torch.empty(2, pin_memory=True)
        self._stream.wait_stream(torch.cuda.current_stream(states.device))
        with torch.cuda.stream(self._stream):
            told.copy_(found, non_blocking=True)
            if target is not states:
                target.copy_(states, non_blocking=True)
                # Its memory must not be used again before the copy is done.
                states.record_stream(self._stream)
            found.record_stream(self._stream)
            arrived = torch.cuda.Event()
            arrived.record(self._stream)
        return Arriving(target, told, arrived)
