"""How much a token has to give through each head: the norm of its value after the head's part of the output projection.

A head moves `sum_j a_ij f_h(x_j)` into token i, where `f_h(x) = (x W_V + b_V) W_O` with the head's rows of `W_O`. The
weights `a_ij` alone mislead where `f_h(x_j)` is short: Kobayashi et al. (2020) weigh by `||a_ij f_h(x_j)||`. Since a
weight is a single number, that is `a_ij ||f_h(x_j)||`, and one norm per head and token is all that has to be computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import Module

from lamina.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CHECKED = (
    "BERT, RoBERTa, ELECTRA, ALBERT, MPNet, DistilBERT, DeBERTa-v2, ModernBERT, BART, T5, GPT-2, GPT-NeoX, OPT, BLOOM, "
    "Falcon, Gemma, Llama, Mistral, Phi-3 and Qwen"
)
"""Architectures that the tests compare with the formula; others work where their parts are found."""
_TOKENS = 8
"""Of the input that the parts are looked for with."""
_APART = 0.02
"""Relative error under which two vectors are the same; half precision is off by less, a wrong part by about 1."""


def weigh_by_norm(
    maps: Float[Tensor, "block head token token"], norms: Float[Tensor, "block head token"]
) -> Float[Tensor, "block head token token"]:
    """Attention times the norm of what is attended to; rows are divided by their sum.

    Example:
        >>> maps, norms = torch.tensor([[[[0.9, 0.1], [0.5, 0.5]]]]), torch.tensor([[[1.0, 9.0]]])
        >>> weigh_by_norm(maps, norms).squeeze().round(decimals=2)
        tensor([[0.5000, 0.5000],
                [0.1000, 0.9000]])
    """
    weighed = maps * norms.unsqueeze(-2)
    return weighed.div_(weighed.sum(-1, keepdim=True).clamp_min_(torch.finfo(weighed.dtype).tiny))


class _Call(NamedTuple):
    """One use of a linear layer."""

    layer: Module
    given: Float[Tensor, "token wide"]
    made: Float[Tensor, "token wide"]


class _Values(NamedTuple):
    """Where a linear layer's output has the values, `size` numbers per head."""

    size: int
    start: int
    """The first feature that belongs to a value, where values come last (0: it makes values alone) ..."""
    by_head: bool = False
    """... unless query, key and value of each head stand together."""

    def __call__(self, made: Float[Tensor, "*token wide"], heads: int) -> Float[Tensor, "*token head size"]:
        if self.by_head:
            return made.unflatten(-1, (heads, 3, self.size))[..., 2, :]
        values = made[..., self.start :].unflatten(-1, (-1, self.size))
        # Grouped heads share their values.
        return values.repeat_interleave(heads // values.shape[-2], -2)


class _Found(NamedTuple):
    values: _Values
    factors: Float[Tensor, "head size size"]
    """Of each head's output projection W: `||v W|| = ||v R'||` with the triangle R of the QR decomposition of W',
    which is as small as a head."""


class ValueNorms:
    """Taken while a model runs, in any architecture in which the values and the output projection can be found.

    They are found by testing, not by names: of a model's linear layers, the values are what the attention maps
    mix into the input of a later layer.
    """

    def __init__(self, model: PreTrainedModel, *, name: str, heads: int) -> None:
        self._heads = heads
        self._found: dict[Module, _Found] = {}
        attentions, calls = _try(model)
        # Blocks run one after the other: those of the next begin where this one's output projection ends.
        reach, start = 2 * len(calls) // len(attentions), 0
        for block, maps in enumerate(attentions, start=1):
            parts = _find(maps, calls[start : start + reach], heads)
            if parts is None:
                raise ModelError(
                    f"{name} ({type(model).__name__}): the values that the attention of block {block} mixes are not "
                    "among its linear layers, so attention cannot be weighted by their norms; use --weights attention, "
                    f"or a model like {CHECKED}"
                )
            self._found[parts.layer] = parts.found
            start += parts.end

    @contextmanager
    def taken(self) -> Iterator[list[Float[Tensor, "batch head token"]]]:
        """While it is open, the norms of every block that runs are added to the list, in the order of blocks."""
        norms: list[Tensor] = []

        def take(layer: Module, _given: Any, made: Tensor) -> None:
            values, factors = self._found[layer]
            # One small product per head; in single precision, whatever the model runs in.
            mixed = torch.einsum("bthd,hed->bhte", values(made.float(), self._heads), factors)
            norms.append(mixed.norm(dim=-1))

        handles = [layer.register_forward_hook(take) for layer in self._found]
        try:
            yield norms
        finally:
            for handle in handles:
                handle.remove()


def _try(model: PreTrainedModel) -> tuple[list[Tensor], list[_Call]]:
    """The maps [head, token, token] of every block on a few tokens, and all uses of linear layers on the way."""
    calls: list[_Call] = []

    def note(layer: Module, given: Any, made: Tensor) -> None:
        # Relative positions, for example, have rows that are not tokens.
        if made.shape[:-1] == ids.shape:
            calls.append(_Call(layer, given[0][0].float(), made[0].float()))

    ids = torch.arange(1, 1 + min(_TOKENS, model.config.vocab_size - 1), device=model.device)[None]
    handles = [layer.register_forward_hook(note) for layer in model.modules() if _is_linear(layer)]
    try:
        with torch.no_grad():
            out = model(input_ids=ids, attention_mask=torch.ones_like(ids), output_attentions=True)
    finally:
        for handle in handles:
            handle.remove()
    return [maps[0].float() for maps in out.attentions], calls


class _Parts(NamedTuple):
    """What makes a block's values, and how many calls there are up to its output projection."""

    layer: Module
    found: _Found
    end: int


def _find(maps: Float[Tensor, "head token token"], calls: Sequence[_Call], heads: int) -> _Parts | None:
    """The first two calls of which one makes the values that, mixed by the maps, are what the other is given."""
    for at, one in enumerate(calls):
        for end, other in enumerate(calls[at + 1 :], start=at + 2):
            for values in _layouts(one.made.shape[-1], other.given.shape[-1], heads):
                mixed = torch.einsum("hij,jhd->ihd", maps, values(one.made, heads)).flatten(1)
                if (mixed - other.given).norm() < _APART * other.given.norm():
                    return _Parts(one.layer, _Found(values, _factors(other.layer, heads)), end)
    return None


def _layouts(made: int, mixed: int, heads: int) -> Iterator[_Values]:
    """The ways in which `made` features can hold the values of heads that are `mixed` wide together."""
    size = mixed // heads
    if mixed % heads or not size:
        return
    # Values alone, of all heads or of groups; then query, key and value in one layer.
    for width in (made, (made - mixed) // 2):
        if 0 < width <= mixed and width % size == 0 and heads % (width // size) == 0:
            yield _Values(size, made - width)
    if made == 3 * mixed:
        yield _Values(size, 0, by_head=True)


def _factors(layer: Module, heads: int) -> Float[Tensor, "head size size"]:
    weight: Any = layer.weight
    # [head, size, width]; GPT-2's layers have their weight the other way round.
    by_head = (weight if isinstance(layer, _conv1d()) else weight.T).detach().float().unflatten(0, (heads, -1))
    return torch.linalg.qr(by_head.transpose(1, 2), mode="r").R


def _is_linear(layer: Module) -> bool:
    return isinstance(layer, torch.nn.Linear | _conv1d())


@cache
def _conv1d() -> type[Module]:
    from transformers.pytorch_utils import Conv1D

    return Conv1D
