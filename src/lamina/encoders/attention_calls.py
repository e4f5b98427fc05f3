"""What a model's eager attention function is given and makes, noted while the model runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor
from torch.nn import Module

from lamina.encoders.comparing import apart


class Attention(NamedTuple):
    """One call of a model's eager attention function."""

    module: Module
    value: Tensor
    """[row, key-value head, token, size]"""
    made: Tensor
    """[row, token, head, size]"""
    weights: Tensor
    """[row, head, token, token]"""
    again: Callable[[], Tensor]
    """The weights, computed again."""

    def makes(self, values: Tensor) -> float:
        """How far the values [row, head, token, size] of all heads, mixed by the weights, are from what was made."""
        return apart((self.weights @ values).transpose(1, 2).flatten(2), self.made.flatten(2))


@contextmanager
def recorded(model: Module, calls: list[Attention]) -> Iterator[None]:
    """While it is open, the calls of the attention function that models keep beside their classes are noted."""
    homes = {sys.modules[type(module).__module__] for module in model.modules()}
    kept = [(home, home.eager_attention_forward) for home in homes if hasattr(home, "eager_attention_forward")]

    def noting(attend: Callable[..., Any]) -> Callable[..., Any]:
        def noted(module: Module, query: Tensor, key: Tensor, value: Tensor, *given: Any, **named: Any) -> Any:
            made, weights = attend(module, query, key, value, *given, **named)
            if weights is not None:
                again = partial(attend, module, query, key, value, *given, **named)
                calls.append(Attention(module, value, made, weights, lambda: again()[1]))
            return made, weights

        return noted

    for home, attend in kept:
        home.eager_attention_forward = noting(attend)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        for home, attend in kept:
            home.eager_attention_forward = attend  # pyright: ignore[reportAttributeAccessIssue]
