"""Value norms: the norm of a token's value after the head's part of the output projection.

A head moves `sum_j a_ij f_h(x_j)` into token i, where `f_h(x) = (x W_V + b_V) W_O` with the head's rows of `W_O`. The
weights `a_ij` alone mislead where `f_h(x_j)` is short: Kobayashi et al. (2020) weigh by `||a_ij f_h(x_j)||`. Since a
weight is a single number, that is `a_ij ||f_h(x_j)||`, and one norm per head and token is all that has to be computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import Module

from lamina.errors import ModelError
from lamina.models.running.anatomy import block_number, run
from lamina.models.running.devices import input_device, weight_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CHECKED = (
    "BERT, RoBERTa, ELECTRA, ALBERT, MPNet, DistilBERT, DeBERTa-v2, ModernBERT, BART, T5, GPT-2, GPT-NeoX, OPT, BLOOM, "
    "Falcon, Gemma, Llama, Mistral, Phi-3 and Qwen"
)
"""Architectures that the tests compare with the formula; others work where their parts are found."""
VALUES_IN_LINEAR_LAYERS = {
    *("big_bird", "bloom", "deberta-v2", "falcon", "flaubert", "gpt_neo", "gpt_neox_japanese", "gptj", "imagegpt"),
    *("luke", "megatron-bert", "mpnet", "mvp", "rembert", "roformer", "tapas", "visual_bert", "xglm", "xlm"),
}
"""Model types that compute attention in their own code, and whose values are always found among the linear layers:
if they are not, the maps are wrong."""
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


class _LinearCall(NamedTuple):
    """One use of a linear layer."""

    layer: Module
    block: int | None
    """Where the layer is, by the first number in its path."""
    given: Float[Tensor, "token wide"]
    output: Float[Tensor, "token wide"]


class _ValueLayout(NamedTuple):
    """Where a linear layer's output has the values, `size` numbers per head."""

    size: int
    start: int
    """The first feature that belongs to a value, where values come last (0: it makes values alone) ..."""
    by_head: bool = False
    """... unless query, key and value of each head stand together."""
    tiled: bool = False
    """Whether groups of heads are matched in the wrong order, which is only looked for to name a fault."""

    def __call__(self, output: Float[Tensor, "*token wide"], heads: int) -> Float[Tensor, "*token head size"]:
        if self.by_head:
            return output.unflatten(-1, (heads, 3, self.size))[..., 2, :]
        values = output[..., self.start :].unflatten(-1, (-1, self.size))
        # Grouped heads share their values: neighbours have the same.
        times = heads // values.shape[-2]
        if self.tiled:
            return values.repeat(*[1] * (values.dim() - 2), times, 1)
        return values.repeat_interleave(times, -2)


class _BlockValues(NamedTuple):
    values: _ValueLayout
    factors: Float[Tensor, "head size size"]
    """Of each head's output projection W: `||v W|| = ||v R'||` with the triangle R of the QR decomposition of W',
    which is as small as a head."""


class ValueNorms:
    """Taken while a model runs, in any architecture in which the values and the output projection can be found.

    They are found by testing, not by names: of a model's linear layers, the values are what the attention maps
    mix into the input of a later layer.
    """

    def __init__(self, model: PreTrainedModel, *, name: str, heads: int, maps: Mapping[int, int] | None = None) -> None:
        self._heads = heads
        self._blocks: dict[Module, _BlockValues] = {}
        for block, mixing in enumerate(mixings(model, heads=heads, maps=maps), start=1):
            if mixing is None or not mixing.sound:
                raise ModelError(
                    f"{name} ({type(model).__name__}): the values that the attention of block {block} mixes are not "
                    "among its linear layers, so attention cannot be weighted by their norms; use --weights attention, "
                    f"or a model like {CHECKED}"
                )
            # Weights that are in memory or on disk until they run are not read where the layer runs.
            factors = _factors(mixing.out, heads).to(input_device(mixing.layer))
            self._blocks[mixing.layer] = _BlockValues(mixing.values, factors)

    @contextmanager
    def taken(self) -> Iterator[list[Float[Tensor, "batch head token"]]]:
        """While it is open, the norms of every block that runs are added to the list, in the order of blocks."""
        norms: list[Tensor] = []

        def take(layer: Module, _given: Any, output: Tensor) -> None:
            values, factors = self._blocks[layer]
            # One small product per head; in single precision, whatever the model runs in.
            mixed = torch.einsum("bthd,hed->bhte", values(output.float(), self._heads), factors)
            norms.append(mixed.norm(dim=-1))

        handles = [layer.register_forward_hook(take) for layer in self._blocks]
        try:
            yield norms
        finally:
            for handle in handles:
                handle.remove()


class ValueMixing(NamedTuple):
    """How a block's values, mixed by maps, become the input of its output projection."""

    layer: Module
    """It makes the values ..."""
    values: _ValueLayout
    """... in these of its features."""
    out: Module
    """The output projection."""
    groups: int
    """Heads of values; fewer than heads where some share them."""
    uses_block_maps: bool
    """Whether they are mixed by the block's own maps."""
    maps_of: int
    """By the maps of which block, counted among those that have maps."""

    @property
    def tiled(self) -> bool:
        """Whether groups of heads are matched in the wrong order."""
        return self.values.tiled

    @property
    def sound(self) -> bool:
        """Whether it is as it should be."""
        return self.uses_block_maps and not self.tiled


def mixings(
    model: PreTrainedModel, *, heads: int, maps: Mapping[int, int] | None = None, bar: float = _APART
) -> list[ValueMixing | None]:
    """For every block with maps, what they mix; None where that is not among the block's linear layers.

    Args:
        model: of transformers.
        heads: per block.
        maps: block -> which of the model's attentions are its maps, where not all blocks have maps.
        bar: relative error up to which two vectors are the same.

    The right answer is looked for first: values of the block, mixed by its own maps, heads that share values being
    neighbours. Then the maps of other blocks and the other order of shared heads, so that a fault can be named.
    """
    handed, calls = _try(model, None if maps is None else tuple(maps.values()))
    blocks = tuple(range(len(handed)) if maps is None else maps)
    return [_mixing(number, handed, _calls_of(number, blocks, calls), heads, bar) for number in range(len(handed))]


def _mixing(
    number: int, maps: list[Tensor], calls: Sequence[_LinearCall], heads: int, bar: float
) -> ValueMixing | None:
    for tiled in (False, True):
        for other in (number, *(candidate for candidate in range(len(maps)) if candidate != number)):
            match = _find(maps[other], calls, heads, bar, tiled=tiled)
            if match is not None:
                return ValueMixing(*match, other == number, other)
    return None


def _calls_of(number: int, blocks: Sequence[int], calls: Sequence[_LinearCall]) -> Sequence[_LinearCall]:
    """The uses of linear layers within the block of the map `at`."""
    if {call.block for call in calls} >= set(blocks):
        return [call for call in calls if call.block == blocks[number]]
    # Blocks that share their layers, or are not numbered, run one after the other.
    size = len(calls) // len(blocks)
    return calls[number * size : (number + 1) * size]


def _try(model: PreTrainedModel, places: Sequence[int] | None) -> tuple[list[Tensor], list[_LinearCall]]:
    """The maps [head, token, token] of every block on a few tokens, and all uses of linear layers on the way."""
    calls: list[_LinearCall] = []

    def watch(block: int | None) -> Any:
        def note(layer: Module, given: Any, output: Any) -> None:
            # Relative positions, for example, have rows that are not tokens.
            if isinstance(output, Tensor) and output.shape[:-1] == ids.shape:
                read, wrote = (part[0].float().to(ids.device) for part in (given[0], output))
                calls.append(_LinearCall(layer, block, read, wrote))

        return note

    ids = torch.arange(1, 1 + min(_TOKENS, model.config.vocab_size - 1), device=input_device(model))[None]
    linear = [(block_number(path), layer) for path, layer in model.named_modules() if is_linear(layer)]
    handles = [layer.register_forward_hook(watch(block)) for block, layer in linear]
    try:
        with torch.no_grad():
            out = run(model, ids, maps=True)
    finally:
        for handle in handles:
            handle.remove()
    handed = out.attentions if places is None else [out.attentions[place] for place in places]
    return [maps[0].float().to(ids.device) for maps in handed], calls


def _find(
    maps: Float[Tensor, "head token token"], calls: Sequence[_LinearCall], heads: int, bar: float, *, tiled: bool
) -> tuple[Module, _ValueLayout, Module, int] | None:
    """The first two calls of which one makes the values that, mixed by the maps, are what the other is given."""
    for number, one in enumerate(calls):
        for other in calls[number + 1 :]:
            for values in _layouts(one.output.shape[-1], other.given.shape[-1], heads):
                groups = heads if values.by_head else (one.output.shape[-1] - values.start) // values.size
                if tiled and groups in (1, heads):
                    continue
                chosen = values._replace(tiled=tiled)
                mixed = torch.einsum("hij,jhd->ihd", maps, chosen(one.output, heads)).flatten(1)
                if (mixed - other.given).norm() < bar * other.given.norm():
                    return one.layer, chosen, other.layer, groups
    return None


def _layouts(features: int, mixed: int, heads: int) -> Iterator[_ValueLayout]:
    """The ways in which `made` features can hold the values of heads that are `mixed` wide together."""
    size = mixed // heads
    if mixed % heads or not size:
        return
    # Values alone, of all heads or of groups; then query, key and value in one layer.
    for width in (features, (features - mixed) // 2):
        if 0 < width <= mixed and width % size == 0 and heads % (width // size) == 0:
            yield _ValueLayout(size, features - width)
    if features == 3 * mixed:
        yield _ValueLayout(size, 0, by_head=True)


def _factors(layer: Module, heads: int) -> Float[Tensor, "head size size"]:
    weight = weight_of(layer)
    # [head, size, width]; GPT-2's layers have their weight the other way round.
    by_head = (weight if isinstance(layer, _conv1d()) else weight.T).detach().float().unflatten(0, (heads, -1))
    return torch.linalg.qr(by_head.transpose(1, 2), mode="r").R


def is_linear(layer: Module) -> bool:
    """Whether a layer multiplies by a matrix."""
    return isinstance(layer, torch.nn.Linear | _conv1d())


@cache
def _conv1d() -> type[Module]:
    from transformers.pytorch_utils import Conv1D

    return Conv1D
