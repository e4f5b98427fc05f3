"""Where the heads of a block hand on what they mixed: its output projection, and how to get there without mixing again.

A block that reads what it has read before mixes what it has mixed before. The module that does it need not run again:
its output is the projection's input (BERT), or what the projection made of it (GPT-2, Llama). Which one that is, is
found by comparing what modules made; where none is (residuals added inside), the whole block runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module

from lamina.encoders.anatomy import attention_by, given
from lamina.encoders.attention_calls import Attention, recorded
from lamina.encoders.block_calls import first_tensor
from lamina.encoders.blocks import SAME
from lamina.encoders.comparing import apart
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.values import is_linear, mixings


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
        found = mixings(encoder.model, heads=encoder.heads, maps=encoder.anatomy.maps)
    if any(each is not None and not each.sound for each in found):
        return nothing
    if None in found:
        outs, sizes = _by_function(encoder, blocks)
    else:
        outs = {block: each.out for block, each in zip(encoder.anatomy.maps, found, strict=True) if each is not None}
        sizes = {each.values.size for each in found if each is not None}
    inside = all(any(part is out for part in blocks[block].modules()) for block, out in outs.items())
    return HeadOutputs(outs, sizes.pop()) if inside and outs and len(sizes) == 1 else nothing


def _by_function(encoder: HuggingFaceEncoder, blocks: Sequence[Module]) -> tuple[dict[int, Module], set[int]]:
    """Block -> the linear layer that reads what attention made, and the sizes of heads; nothing where one is missing.

    For values that are no linear layer's output as it is: normed (Gemma 4), or unpacked from few numbers (DeepSeek).
    """
    calls: list[Attention] = []
    read: dict[Module, Tensor] = {}

    def note(module: Module, args: Any) -> None:
        if args and isinstance(args[0], Tensor):
            read[module] = args[0].detach().clone()

    with torch.no_grad(), attention_by(encoder.model, "eager"), ExitStack() as open_:
        for module in encoder.model.modules():
            if is_linear(module):
                open_.callback(module.register_forward_pre_hook(note).remove)
        open_.enter_context(recorded(encoder.model, calls))
        ids = torch.tensor(encoder.trial_ids)[None].to(encoder.device)
        encoder.model(**given(encoder.model, ids), output_attentions=True)
    shared = len(set(blocks)) < len(blocks)
    if shared or len(calls) != len(encoder.anatomy.maps) or any(call.made.dim() != 4 for call in calls):
        return {}, set()
    outs: dict[int, Module] = {}
    for block, call in zip(encoder.anatomy.maps, calls, strict=True):
        for module in blocks[block].modules():
            if module in read and apart(read[module], call.made.flatten(2)) <= SAME:
                outs[block] = module
                break
    complete = len(outs) == len(calls) and all(call.made.shape[2] == encoder.heads for call in calls)
    return (outs, {call.made.shape[-1] for call in calls}) if complete else ({}, set())


def shortcuts(encoder: HuggingFaceEncoder, blocks: Sequence[Module], outs: Mapping[int, Module]) -> dict[int, Shortcut]:
    """Block -> the outermost module that need not run; none for blocks that share their modules."""
    alone = {block: out for block, out in outs.items() if sum(each is blocks[block] for each in blocks) == 1}
    if not alone:
        return {}
    made: dict[Module, Tensor] = {}
    read: dict[Module, Tensor] = {}

    def note(module: Module, args: Any, result: Any) -> None:
        states = first_tensor(result)
        if states is not None:
            made[module] = states.detach().clone()
        if module in outs_alone:
            read[module] = args[0].detach().clone()

    outs_alone = set(alone.values())
    ids = torch.tensor(encoder.trial_ids)[None].to(encoder.device)
    with torch.no_grad(), attention_by(encoder.model, None), ExitStack() as open_:
        for block in alone:
            for part in blocks[block].modules():
                open_.callback(part.register_forward_hook(note).remove)
        encoder.model(**given(encoder.model, ids))
    found = {block: _shortcut(blocks[block], out, read, made) for block, out in alone.items()}
    return {block: each for block, each in found.items() if each is not None}


def _shortcut(
    block: Module, out: Module, read: Mapping[Module, Tensor], made: Mapping[Module, Tensor]
) -> Shortcut | None:
    if out not in read:
        return None
    for part in list(block.modules())[1:]:
        if part not in made or part is out:
            continue
        projects = any(each is out for each in part.modules())
        if apart(made[part], made[out] if projects else read[out]) <= SAME:
            return Shortcut(part, projects)
    return None
