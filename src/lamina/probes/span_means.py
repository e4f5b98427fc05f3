"""Spans as one vector each, the mean of their tokens: what a probe of whole sentences reads without pooling itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float

from lamina.probes.streams import Source
from lamina.probes.targets import Targets


class SpanMeans:
    """States of targets instead of tokens: a text has as many as it has targets, in their order.

    Example:
        >>> class Two:
        ...     held, token_bytes = None, 8
        ...     def start(self, index): return 0
        ...     def size(self, index): return 2
        ...     def load(self, index): return torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]])
        >>> none = np.zeros((1, 0), bool)
        >>> spans = np.array([[[0, 2]]])
        >>> whole = Targets(("a",), np.array([0]), spans, spans, *[np.ones((1, 1), bool)] * 3, none, 1)
        >>> means, targets = SpanMeans.of(Two(), whole)
        >>> means.load(0).tolist(), targets.tokens.tolist()
        ([[[2.0, 3.0]]], [[[0, 1]]])
    """

    held: torch.Tensor | None = None

    def __init__(self, states: Float[torch.Tensor, "target layer width"], rows: dict[int, np.ndarray]) -> None:
        self._states = states
        self._rows = rows

    @classmethod
    def of(cls, stored: Source, targets: Targets) -> tuple[SpanMeans, Targets]:
        """The means of the first span of all targets, and the same targets where each is a token of its own."""
        rows = {int(text): np.flatnonzero(targets.text == text) for text in np.unique(targets.text)}
        means = torch.empty(0, 0, 0)
        places = np.zeros_like(targets.tokens)
        for text, own in rows.items():
            states = stored.load(text).float()
            if not len(means):
                means = torch.empty(len(targets), *states.shape[1:])
            for place, row in enumerate(own.tolist()):
                start, end = targets.tokens[row, 0]
                means[row] = states[start:end].mean(0)
                places[row] = (place, place + 1)
        return cls(means, rows), replace(targets, tokens=places)

    @property
    def token_bytes(self) -> int:
        """See `Source`."""
        return self._states[:1].numel() * self._states.element_size()

    def start(self, index: int) -> int:
        """See `Source`; nothing is held in one piece."""
        raise NotImplementedError

    def size(self, index: int) -> int:
        """See `Source`."""
        return len(self._rows.get(index, ()))

    def load(self, index: int) -> torch.Tensor:
        """See `Source`."""
        return self._states[torch.from_numpy(self._rows[index])]
