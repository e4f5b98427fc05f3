"""The blocks of a model as they are called: what each is given and returns, watched, exchanged and repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from lamina.encoders.anatomy import attention_by, given
from lamina.encoders.blocks import watch_blocks
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.errors import ModelError

Around = Callable[[int, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""What is done instead of a block: given its number, its own forward function and what that is given."""


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
            "the one before made, so none can be taken away; models like BERT, GPT-2, Llama or T5 work"
        )
    order: list[Module] = []

    def note(module: Module, _given: Any, _made: Any) -> None:
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

        def wrapped(own: Callable[..., Any], numbers: Iterator[int]) -> Callable[..., Any]:
            def forward(*args: Any, **named: Any) -> Any:
                now[0] = next(numbers)
                return around(now[0], own, args, named)

            return forward

        with ExitStack() as open_:
            for block in dict.fromkeys(self.modules):
                numbers = cycle([number for number, each in enumerate(self.modules) if each is block])
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

    def made(self, result: Any) -> Tensor:
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
        at = int(self._turned)
        if result.dim() <= at or result.shape[at] != rows:
            return result.clone()
        return result.repeat(*[times if dim == at else 1 for dim in range(result.dim())])

    def _by_rows(self, states: Tensor) -> Tensor:
        """From the model's order of rows and tokens to ours, or back."""
        return states.transpose(0, 1) if self._turned else states


@contextmanager
def instead_of(module: Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Within the block, a module does something else."""
    kept = module.__dict__.get("forward")
    module.forward = forward
    try:
        yield
    finally:
        if kept is None:
            del module.forward
        else:
            module.forward = kept


def copied(result: Any) -> Any:
    """What a module returned, safe from models that add to their states in place."""
    if isinstance(result, tuple | list):
        return tuple(copied(part) for part in result)
    return result.clone() if isinstance(result, Tensor) else result


def first_tensor(result: Any) -> Tensor | None:
    """A module's result, or the first part of it, where that is a tensor."""
    part = result[0] if isinstance(result, tuple | list) and result else result
    return part if isinstance(part, Tensor) else None


def _first_states(args: Sequence[Any], named: Mapping[str, Any]) -> Tensor:
    found = (each for each in (*args, *named.values()) if isinstance(each, Tensor) and each.dim() == 3)
    return next(each for each in found if each.is_floating_point())
