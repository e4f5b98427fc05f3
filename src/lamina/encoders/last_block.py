"""The last block, run on only those tokens that are asked for: once tokens are mixed, each goes its own way.

Which module of the block mixes last, with the residual already added, is found by trying: its output is cut down to one
token per row, and what the model then makes has to be what it makes of that token otherwise. That holds for BERT and
its like; for a model where nothing passes (residuals added outside, blocks that share weights) all tokens are run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import Module

from lamina.encoders.anatomy import attention_by, given
from lamina.encoders.blocks import SAME, watch_blocks
from lamina.encoders.comparing import apart

if TYPE_CHECKING:
    from lamina.encoders.huggingface import HuggingFaceEncoder

_PLACES = (2, 4)
"""Tokens of the trial, one per row."""
_found: WeakKeyDictionary[Module, Module | None] = WeakKeyDictionary()


def last_mixer(encoder: HuggingFaceEncoder) -> Module | None:
    """The module after which the last block treats tokens one by one; None where there is no such module."""
    if encoder.model not in _found:
        _found[encoder.model] = _look(encoder)
    return _found[encoder.model]


@contextmanager
def only_at(mixer: Module, places: Tensor, rows: Tensor | None = None) -> Iterator[None]:
    """Within the block, of every row only the token at its place goes on after the mixer.

    With `rows`, places are of these: any number of them in each row, and every one is a row of its own from there on.
    """
    chosen = torch.arange(len(places)) if rows is None else rows

    def cut(_module: Module, _given: Any, made: Any) -> Any:
        states, *others = made if isinstance(made, tuple) else (made,)
        kept = states[chosen.to(states.device), places.to(states.device)][:, None]
        return (kept, *others) if isinstance(made, tuple) else kept

    handle = mixer.register_forward_hook(cut)
    try:
        yield
    finally:
        handle.remove()


class OnlyAsked(NamedTuple):
    """Tokens of rows that alone go through what follows the last block's mixer."""

    mixer: Module
    places: Tensor
    rows: Tensor

    def put_back(self, made: Float[Tensor, "place one width"], rows: int, tokens: int) -> Tensor:
        """Where they were, [row, token, width], among NaN."""
        whole = made.new_full((rows, tokens, made.shape[-1]), torch.nan)
        whole[self.rows.to(made.device), self.places.to(made.device)] = made[:, 0]
        return whole


def _look(encoder: HuggingFaceEncoder) -> Module | None:
    model, places = encoder.model, torch.tensor(_PLACES)
    ids = torch.tensor(encoder.trial_ids)[None].repeat(2, 1).to(encoder.device)
    # Rows that differ: a mixer that confused them would be seen.
    ids[1] = ids[1].flip(0)
    with torch.no_grad(), attention_by(model, None):
        watched = watch_blocks(model, given(model, ids))
        if watched.path is None or watched.final is None:
            return None
        expected = watched.final[torch.arange(2), places][:, None]
        for mixer in list(model.get_submodule(watched.path).children())[-1].children():
            try:
                with only_at(mixer, places):
                    made = model(**given(model, ids)).last_hidden_state
            except (RuntimeError, ValueError, TypeError, IndexError, AttributeError):
                # What follows expects all tokens.
                continue
            if made.shape == expected.shape and apart(made, expected) <= SAME:
                return mixer
    return None
