"""The calls of a model's blocks: their inputs and outputs, recorded, replaced and repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module

from lamina.errors import ModelError
from lamina.models.contract import apart
from lamina.models.running.anatomy import SAME, attention_by, given, watch_blocks
from lamina.models.running.attention_maps import AttentionCall, is_linear, mixings, recorded_attention
from lamina.models.running.huggingface import HuggingFaceEncoder

Around = Callable[[int, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""Runs instead of a block, given its number, its forward function and the arguments of that."""


def blocks_of(encoder: HuggingFaceEncoder) -> list[Module]:
    """The module of each block, in order; one that is several blocks occurs as often."""
    model = encoder.model
    ids = torch.tensor(encoder.trial_ids)[None].to(encoder.device)
    with torch.no_grad(), attention_by(model, None):
        watched = watch_blocks(model, given(model, ids))
    sure = watched.path is not None and watched.chained and len(watched.reads) == encoder.blocks
    if not sure or not (watched.ordered or encoder.anatomy.shifted):
        raise ModelError(
            f"{encoder.name} ({type(model).__name__}): its blocks do not run one after the other, each reading what "
            "the one before made, so none can be ablated; models like BERT, GPT-2, Llama or T5 work"
        )
    order: list[Module] = []

    def note(module: Module, _given: Any, _output: Any) -> None:
        order.append(module)

    modules = list(model.get_submodule(watched.path or "").children())
    handles = [module.register_forward_hook(note) for module in modules]
    try:
        with torch.no_grad(), attention_by(model, None):
            model(**given(model, ids))
    finally:
        for handle in handles:
            handle.remove()
    return order


class BlockCalls:
    """The calls of a model's blocks."""

    def __init__(self, encoder: HuggingFaceEncoder) -> None:
        self.modules = blocks_of(encoder)
        """Of each block, in order; blocks that share their weights are one module."""
        self._turned = False
        # More tokens than rows: which is which is seen from the shape.
        ids = torch.tensor(encoder.trial_ids)[None].repeat(2, 1).to(encoder.device)
        sizes: list[torch.Size] = []

        def note(_number: int, block: Callable[..., Any], args: Any, named: Any) -> Any:
            sizes.append(self.read(args, named).shape)
            return block(*args, **named)

        with torch.no_grad(), attention_by(encoder.model, None), self.around(note):
            encoder.model(**given(encoder.model, ids))
        self._turned = tuple(sizes[0][:2]) == tuple(ids.shape[::-1])
        """Whether the model runs tokens by rows, as XLNet does."""

    @contextmanager
    def around(self, around: Around) -> Iterator[list[int]]:
        """Every block is called through `around`; gives the number of the one that runs, as the only entry of a list.

        Modules that are several blocks count their calls.
        """
        now = [-1]

        def wrapped(original: Callable[..., Any], numbers: Iterator[int]) -> Callable[..., Any]:
            def forward(*args: Any, **named: Any) -> Any:
                now[0] = next(numbers)
                return around(now[0], original, args, named)

            return forward

        with ExitStack() as open_:
            for block in dict.fromkeys(self.modules):
                numbers = cycle([number for number, module in enumerate(self.modules) if module is block])
                open_.enter_context(instead_of(block, wrapped(block.forward, numbers)))
            yield now

    @contextmanager
    def counted(self) -> Iterator[list[int]]:
        """The number of the block that runs, as the only entry of a list."""
        with self.around(lambda _number, block, args, named: block(*args, **named)) as now:
            yield now

    def read(self, args: Sequence[Any], named: Mapping[str, Any]) -> Tensor:
        """The states [row, token, width] that a block is given."""
        return self._by_rows(_first_states(args, named))

    def output(self, result: Any) -> Tensor:
        """The states [row, token, width] that a block returned."""
        return self._by_rows(result if isinstance(result, Tensor) else _first_states(result, {}))

    def given(
        self, args: Sequence[Any], named: Mapping[str, Any], states: Tensor
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What a block is given, with other states."""
        old, new = _first_states(args, named), self._by_rows(states)
        return tuple(new if part is old else part for part in args), {
            name: new if part is old else part for name, part in named.items()
        }

    def returning(self, result: Any, states: Tensor) -> Any:
        """What a block returned, with other states."""
        new = self._by_rows(states)
        if isinstance(result, Tensor):
            return new
        old = _first_states(result, {})
        return tuple(new if part is old else part for part in result)

    def repeated(self, result: Any, times: int, rows: int) -> Any:
        """What a module returned for some rows, for these rows several times."""
        if isinstance(result, tuple):
            return tuple(self.repeated(part, times, rows) for part in result)
        if not isinstance(result, Tensor):
            return result
        dimension = int(self._turned)
        if result.dim() <= dimension or result.shape[dimension] != rows:
            return result.clone()
        return result.repeat(*[times if dim == dimension else 1 for dim in range(result.dim())])

    def _by_rows(self, states: Tensor) -> Tensor:
        """From the model's order of rows and tokens to ours, or back."""
        return states.transpose(0, 1) if self._turned else states


@contextmanager
def instead_of(module: Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Within the block, a module has another forward function."""
    original = module.__dict__.get("forward")
    module.forward = forward
    try:
        yield
    finally:
        if original is None:
            del module.forward
        else:
            module.forward = original


def copied(result: Any) -> Any:
    """A copy of a module's output, since some models add to their states in place."""
    if isinstance(result, tuple | list):
        return tuple(copied(part) for part in result)
    return result.clone() if isinstance(result, Tensor) else result


def first_tensor(result: Any) -> Tensor | None:
    """A module's result, or the first part of it, where that is a tensor."""
    part = result[0] if isinstance(result, tuple | list) and result else result
    return part if isinstance(part, Tensor) else None


def _first_states(args: Sequence[Any], named: Mapping[str, Any]) -> Tensor:
    tensors = (value for value in (*args, *named.values()) if isinstance(value, Tensor) and value.dim() == 3)
    return next(value for value in tensors if value.is_floating_point())


# The output projection of a block, and how to reach it without computing attention again.
#
# A block with the same input as before has the same attention output, so the attention module need not run again: its
# output is the projection's input (BERT) or the projection's output (GPT-2, Llama). Which module that is, is found by
# comparing outputs; where there is none (residuals added inside), the whole block runs.


class HeadOutputs(NamedTuple):
    """The output projections of a model."""

    outs: dict[int, Module]
    """Block -> its output projection; empty where those of some blocks are not found."""
    size: int
    """Numbers of each head."""


class Shortcut(NamedTuple):
    """A module of a block that does not have to run where the block's input is known."""

    module: Module
    projects: bool
    """Whether the output projection is inside."""


def head_outputs(encoder: HuggingFaceEncoder, blocks: Sequence[Module]) -> HeadOutputs:
    """The output projection of every block with attention maps."""
    nothing = HeadOutputs({}, 0)
    if not encoder.heads:
        return nothing
    with attention_by(encoder.model, "eager"):
        block_mixings = mixings(encoder.model, heads=encoder.heads, maps=encoder.anatomy.maps)
    if any(mixing is not None and not mixing.sound for mixing in block_mixings):
        return nothing
    if None in block_mixings:
        outs, sizes = _by_function(encoder, blocks)
    else:
        outs = {
            block: mixing.out
            for block, mixing in zip(encoder.anatomy.maps, block_mixings, strict=True)
            if mixing is not None
        }
        sizes = {mixing.values.size for mixing in block_mixings if mixing is not None}
    inside = all(any(part is out for part in blocks[block].modules()) for block, out in outs.items())
    return HeadOutputs(outs, sizes.pop()) if inside and outs and len(sizes) == 1 else nothing


def _by_function(encoder: HuggingFaceEncoder, blocks: Sequence[Module]) -> tuple[dict[int, Module], set[int]]:
    """Block -> the linear layer that reads what attention made, and the sizes of heads; nothing where one is missing.

    For values that are no linear layer's output as it is: normed (Gemma 4), or unpacked from few numbers (DeepSeek).
    """
    calls: list[AttentionCall] = []
    read: dict[Module, Tensor] = {}

    def note(module: Module, args: Any) -> None:
        if args and isinstance(args[0], Tensor):
            read[module] = args[0].detach().clone()

    with torch.no_grad(), attention_by(encoder.model, "eager"), ExitStack() as open_:
        for module in encoder.model.modules():
            if is_linear(module):
                open_.callback(module.register_forward_pre_hook(note).remove)
        open_.enter_context(recorded_attention(encoder.model, calls))
        ids = torch.tensor(encoder.trial_ids)[None].to(encoder.device)
        encoder.model(**given(encoder.model, ids), output_attentions=True)
    shared = len(set(blocks)) < len(blocks)
    if shared or len(calls) != len(encoder.anatomy.maps) or any(call.output.dim() != 4 for call in calls):
        return {}, set()
    outs: dict[int, Module] = {}
    for block, call in zip(encoder.anatomy.maps, calls, strict=True):
        for module in blocks[block].modules():
            if module in read and apart(read[module], call.output.flatten(2)) <= SAME:
                outs[block] = module
                break
    complete = len(outs) == len(calls) and all(call.output.shape[2] == encoder.heads for call in calls)
    return (outs, {call.output.shape[-1] for call in calls}) if complete else ({}, set())


def shortcuts(encoder: HuggingFaceEncoder, blocks: Sequence[Module], outs: Mapping[int, Module]) -> dict[int, Shortcut]:
    """Block -> the outermost module that need not run; none for blocks that share their modules."""
    alone = {block: out for block, out in outs.items() if sum(candidate is blocks[block] for candidate in blocks) == 1}
    if not alone:
        return {}
    outputs: dict[Module, Tensor] = {}
    read: dict[Module, Tensor] = {}

    def note(module: Module, args: Any, result: Any) -> None:
        states = first_tensor(result)
        if states is not None:
            outputs[module] = states.detach().clone()
        if module in outs_alone:
            read[module] = args[0].detach().clone()

    outs_alone = set(alone.values())
    ids = torch.tensor(encoder.trial_ids)[None].to(encoder.device)
    with torch.no_grad(), attention_by(encoder.model, None), ExitStack() as open_:
        for block in alone:
            for part in blocks[block].modules():
                open_.callback(part.register_forward_hook(note).remove)
        encoder.model(**given(encoder.model, ids))
    by_block = {block: _shortcut(blocks[block], out, read, outputs) for block, out in alone.items()}
    return {block: candidate for block, candidate in by_block.items() if candidate is not None}


def _shortcut(
    block: Module, out: Module, read: Mapping[Module, Tensor], outputs: Mapping[Module, Tensor]
) -> Shortcut | None:
    if out not in read:
        return None
    for part in list(block.modules())[1:]:
        if part not in outputs or part is out:
            continue
        projects = any(module is out for module in part.modules())
        if apart(outputs[part], outputs[out] if projects else read[out]) <= SAME:
            return Shortcut(part, projects)
    return None
