"""The blocks of a model: which modules they are, what each reads and what it makes, found by watching a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module

from lamina.encoders.comparing import apart

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SAME = 1e-5
"""Relative error up to which two tensors of one run are the same."""


class Read(NamedTuple):
    """One call of a module: what it was given, and what it made of it."""

    given: Tensor
    made: Tensor | None


class Watched(NamedTuple):
    """A run, and what the blocks did in it."""

    hidden: list[Tensor]
    """The layers that transformers hands out."""
    path: str | None
    """Where the list of blocks is; None if no modules are known to be the blocks."""
    reads: list[Read]
    """The blocks' calls."""
    chained: bool
    """Whether each block reads what the one before made."""
    ends: list[Tensor]
    """What may be the last layer: what the last block made, and what later modules (a final norm) made of that."""
    final: Tensor | None
    """The model's last states."""

    def ends_with(self, layer: Tensor | None, bar: float = SAME) -> bool:
        """Whether a layer [row, token, width] is what the blocks made in the end."""
        return layer is not None and any(apart(end.float().cpu(), layer.float().cpu()) <= bar for end in self.ends)

    @property
    def ordered(self) -> bool:
        """Whether layers are what blocks read, one after the other."""
        same = len(self.reads) == len(self.hidden) - 1
        return same and all(
            apart(read.given, layer) <= SAME for read, layer in zip(self.reads, self.hidden, strict=False)
        )


def watch_blocks(model: PreTrainedModel, inputs: dict[str, Any]) -> Watched:
    """Run a model and see what its blocks read."""
    lists: dict[str, list[Read]] = {}
    others: list[Read] = []

    def watch(path: str) -> Any:
        parent, _, own = path.rpartition(".")

        def note(_module: Module, given: tuple[Any, ...], named: dict[str, Any], made: Any) -> None:
            read = states_in((*given, *named.values()), size)
            if read is not None:
                (lists.setdefault(parent, []) if own.isdigit() else others).append(Read(read, states_in(made, size)))

        return note

    size = inputs["input_ids"].shape
    watched = [(path, module) for path, module in model.named_modules() if path]
    handles = [module.register_forward_hook(watch(path), with_kwargs=True) for path, module in watched]
    try:
        out = model(**inputs, output_hidden_states=True)
    finally:
        for handle in handles:
            handle.remove()
    hidden: list[Tensor] = list(getattr(out, "hidden_states", None) or ())
    path = _blocks_among(lists, hidden)
    reads = lists.get(path, []) if path is not None else []
    return Watched(hidden, path, reads, _is_chain(reads), _ends(reads, others), getattr(out, "last_hidden_state", None))


def _blocks_among(lists: dict[str, list[Read]], hidden: list[Tensor]) -> str | None:
    """Of lists of modules, the outermost that run one after the other, as often as there are layers if possible.

    Of two, as in an encoder-decoder, the one that begins with layer 0.
    """
    blocks = len(hidden) - 1
    chains = [parent for parent, reads in lists.items() if _is_chain(reads)] or [
        parent for parent, reads in lists.items() if len(reads) == blocks
    ]

    def rank(parent: str) -> tuple[bool, int, bool, int]:
        reads = lists[parent]
        begins = bool(hidden) and apart(reads[0].given, hidden[0]) <= SAME
        return len(reads) != blocks, parent.count("."), not begins, -len(reads)

    return min(chains, key=rank, default=None)


def _is_chain(reads: list[Read]) -> bool:
    made = [read.made for read in reads]
    return all(
        one is not None and one.shape == two.given.shape and apart(one, two.given) <= SAME
        for one, two in zip(made, reads[1:], strict=False)
    ) and bool(reads)


def _ends(reads: list[Read], others: list[Read]) -> list[Tensor]:
    made = reads[-1].made if reads else None
    if made is None:
        return []
    return [made, *(read.made for read in others if read.made is not None and apart(read.given, made) <= SAME)]


def states_in(made: Any, size: torch.Size) -> Tensor | None:
    """The first tensor of a module's input or output that has a vector per token, copied: some add to it in place."""
    for part in made if isinstance(made, tuple | list) else (made,):
        if isinstance(part, Tensor) and part.dim() == 3 and part.is_floating_point():
            if part.shape[:2] == size:
                return part.detach().clone()
            # XLNet runs tokens by rows.
            if part.shape[:2] == size[::-1]:
                return part.detach().transpose(0, 1).clone()
    return None


@contextmanager
def noted_inputs(model: PreTrainedModel, path: str) -> Iterator[list[Tensor]]:
    """While it is open, what the blocks of a list read is added to the list, in the order in which they run."""
    noted: list[Tensor] = []
    size: list[torch.Size] = []

    def begin(_module: Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        ids = named["input_ids"] if "input_ids" in named else given[0]
        size.append(ids.shape)

    def note(_module: Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        read = states_in((*given, *named.values()), size[-1])
        if read is not None:
            noted.append(read)

    handles = [model.register_forward_pre_hook(begin, with_kwargs=True)]
    handles += [
        block.register_forward_pre_hook(note, with_kwargs=True) for block in model.get_submodule(path).children()
    ]
    try:
        yield noted
    finally:
        for handle in handles:
            handle.remove()
