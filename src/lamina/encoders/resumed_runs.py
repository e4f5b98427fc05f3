"""Runs of a model with changes in it, resumed where they begin.

The model runs once as it is; for every change it runs again from the changed block on, the blocks below handing out
what they made before. The changed block itself starts at its output projection, where that is all that changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import Module

from lamina.encoders.anatomy import attention_by
from lamina.encoders.block_calls import BlockCalls, copied, instead_of
from lamina.encoders.comparing import TOLERANCE, apart
from lamina.encoders.edits import Clean, Edit, Mixed, refilled
from lamina.encoders.head_outputs import shortcuts
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.last_block import OnlyAsked, last_mixer, only_at
from lamina.encoders.rows import Row
from lamina.encoders.stand_ins import as_long
from lamina.errors import ModelError


class ResumedRuns:
    """A model that can be run as it is, and then with changes."""

    def __init__(self, encoder: HuggingFaceEncoder, calls: BlockCalls, outs: Mapping[int, Module]) -> None:
        """How much of it need not run again is found by trying.

        Args:
            encoder: the model.
            calls: of its blocks.
            outs: block -> its output projection, where heads can be told apart.
        """
        self.encoder, self._calls, self._outs = encoder, calls, outs
        self._shortcuts = shortcuts(encoder, calls.modules, outs)
        rows, last = _trial_rows(encoder), encoder.blocks - 1
        self._unnormed = False
        self._unnormed = apart(self.clean(rows, [0, 1]).states[-1], encoder.hidden(rows)[-1]) > self._bar
        """Whether the last layer, as `encode` gives it, is what the last block made (CLIP): a norm comes after it."""
        clean = self.clean(rows, [0, 1], mixed=True)
        self.resumes = self._agree(clean, rows, Edit(), {min(1, last), last})
        """Whether blocks below a change can hand out what they made before; otherwise the whole model runs again."""
        ends = {min(self._shortcuts), max(self._shortcuts)} if self._shortcuts else set()
        if not self.resumes or not all(self._agree(clean, rows, _half(clean, block), {block}) for block in ends):
            self._shortcuts = {}

    def clean(
        self,
        rows: Sequence[Row],
        batch: Sequence[int],
        *,
        donors: Sequence[Row] | None = None,
        mixed: bool = False,
    ) -> Clean:
        """Some of the rows, run as they are; with `mixed`, what heads hand on is kept too."""
        donor = None
        if donors is not None:
            # As long as the row itself: a longer one would read more than it has, which changes its values.
            stand_ins = [as_long(donors[number], len(rows[number].ids)) for number in batch]
            donor = self._clean(stand_ins, tuple(batch), mixed=mixed)
        return self._clean([rows[number] for number in batch], tuple(batch), mixed=mixed, donor=donor)

    def _clean(self, rows: Sequence[Row], batch: tuple[int, ...], *, mixed: bool, donor: Clean | None = None) -> Clean:
        encoder = self.encoder
        read: list[Tensor] = []
        made: list[Any] = []
        handed: dict[int, Tensor] = {}
        inside: dict[int, Any] = {}

        def around(_number: int, block: Callable[..., Any], args: Any, named: Any) -> Any:
            read.append(self._calls.read(args, named).clone())
            result = block(*args, **named)
            made.append(copied(result))
            return result

        with torch.no_grad(), attention_by(encoder.model, None), ExitStack() as open_:
            now = open_.enter_context(self._calls.around(around))
            for block, out in self._outs.items() if mixed else ():

                def note(_module: Module, args: Any, block: int = block) -> None:
                    if now[0] == block:
                        handed[block] = args[0].clone()

                open_.callback(out.register_forward_pre_hook(note).remove)
            for block, shortcut in self._shortcuts.items() if mixed else ():

                def keep(_module: Module, _args: Any, result: Any, block: int = block) -> None:
                    inside[block] = copied(result)

                open_.callback(shortcut.module.register_forward_hook(keep).remove)
            last = self.last(encoder.inputs(rows))
        sizes = tuple(len(row.ids) for row in rows)
        return Clean(batch, sizes, (*read, last), handed, tuple(made), inside, donor)

    def edited(
        self,
        clean: Clean,
        rows: Sequence[Row],
        edits: Sequence[Edit],
        first: int,
        layers: Sequence[int],
        places: Sequence[Int[np.ndarray, " place"]] | None = None,
    ) -> dict[int, Float[Tensor, "edit row token width"]]:
        """The layers asked for, of every edit; layers below an edit are those of the run without it."""
        encoder, many, size = self.encoder, len(edits), len(clean.rows)
        noted: dict[int, Tensor] = {}

        def around(number: int, block: Callable[..., Any], args: Any, named: Any) -> Any:
            if number < first:
                return self._calls.repeated(clean.made[number], many, size)
            states = self._changed(self._calls.read(args, named), clean, edits, number)
            if number in layers:
                noted[number] = states
            return self._block(number, block, args, named, states, clean, edits, number == first)

        cut = None if places is None or encoder.blocks not in layers else self._cut(clean, edits, places)
        inputs = encoder.inputs([rows[number] for _ in edits for number in clean.rows])
        with torch.no_grad(), attention_by(encoder.model, None), ExitStack() as open_:
            now = open_.enter_context(self._calls.around(around))
            for block in {block for edit in edits for block in edit.mixed}:

                def refill(_module: Module, args: Any, block: int = block) -> Any:
                    return args if now[0] != block else (refilled(args[0], block, edits, clean), *args[1:])

                open_.callback(self._outs[block].register_forward_pre_hook(refill).remove)
            if cut is not None:
                open_.enter_context(only_at(*cut))
            last = self.last(inputs)
        last = last if cut is None else cut.put_back(last, many * size, clean.states[-1].shape[1])
        noted[encoder.blocks] = self._changed(last, clean, edits, encoder.blocks)
        return {
            layer: noted[layer].unflatten(0, (many, size))
            if layer in noted
            else clean.states[layer].expand(many, -1, -1, -1)
            for layer in layers
        }

    def _block(
        self,
        number: int,
        block: Callable[..., Any],
        args: Any,
        named: Any,
        states: Tensor,
        clean: Clean,
        edits: Sequence[Edit],
        first: bool,
    ) -> Any:
        """What a block returns for its states under each edit; the `first` one reads what it has read before."""
        many, size = len(edits), len(clean.rows)
        skipping = [at for at, edit in enumerate(edits) if number in edit.skipped]
        if len(skipping) == many:
            return self._calls.returning(self._calls.repeated(clean.made[number], many, size), states)
        args, named = self._calls.given(args, named, states)
        with self._shortened(number, clean, edits) if first else nullcontext():
            result = block(*args, **named)
        if not skipping:
            return result
        own = self._calls.made(result).clone()
        for at in skipping:
            own[at * size : (at + 1) * size] = states[at * size : (at + 1) * size]
        return self._calls.returning(result, own)

    def _cut(
        self, clean: Clean, edits: Sequence[Edit], places: Sequence[Int[np.ndarray, " place"]]
    ) -> OnlyAsked | None:
        """The tokens that the last block has to make; None where it has to make all."""
        blocks = self.encoder.blocks
        if any(blocks - 1 in edit.skipped or blocks in edit.states for edit in edits):
            return None
        mixer = last_mixer(self.encoder)
        if mixer is None:
            return None
        own = [places[row] for row in clean.rows]
        row = np.repeat(np.arange(len(own)), [len(each) for each in own])
        every = np.concatenate([row + len(own) * at for at in range(len(edits))])
        place = np.tile(np.concatenate(own), len(edits))
        return OnlyAsked(mixer, torch.from_numpy(place).long(), torch.from_numpy(every).long()) if len(place) else None

    def _shortened(self, block: int, clean: Clean, edits: Sequence[Edit]) -> AbstractContextManager[None]:
        """Within it, the first block that differs does not mix again what it mixed, if it reads what it read."""
        shortcut = self._shortcuts.get(block)
        if shortcut is None or block not in clean.inside or any(block in edit.states for edit in edits):
            return nullcontext()
        many, size = len(edits), len(clean.rows)

        def forward(*_args: Any, **_named: Any) -> Any:
            before = self._calls.repeated(clean.inside[block], many, size)
            if not shortcut.projects:
                return before
            made = self._outs[block](clean.mixed[block].repeat(many, 1, 1))
            return made if isinstance(before, Tensor) else (made, *before[1:])

        return instead_of(shortcut.module, forward)

    def _changed(self, states: Tensor, clean: Clean, edits: Sequence[Edit], layer: int) -> Tensor:
        if not any(layer in edit.states for edit in edits):
            return states
        parts = states.chunk(len(edits))
        changed = [
            edit.states[layer](part, clean) if layer in edit.states else part
            for edit, part in zip(edits, parts, strict=True)
        ]
        return torch.cat(changed)

    def last(self, inputs: dict[str, Any]) -> Float[Tensor, "row token width"]:
        """The model's last layer, as `encode` gives it."""
        ends: list[Tensor] = []
        hook = self._calls.modules[-1].register_forward_hook(
            lambda _module, _given, made: ends.append(self._calls.made(made)) if self._unnormed else None
        )
        try:
            last = getattr(self.encoder.model(**inputs), "last_hidden_state", None)
        finally:
            hook.remove()
        if last is None:
            raise ModelError(
                f"{self.encoder.name} ({type(self.encoder.model).__name__}) does not give its last layer by itself, so "
                "its parts cannot be taken away; load the text model alone"
            )
        return ends[-1] if self._unnormed else last

    @property
    def _bar(self) -> float:
        return TOLERANCE[self.encoder.model.dtype]

    def _agree(self, clean: Clean, rows: Sequence[Row], edit: Edit, firsts: Iterable[int]) -> bool:
        """Whether a run that is resumed at each of some blocks makes what the whole model makes."""
        last = self.encoder.blocks
        try:
            (expected,) = self.edited(replace(clean, inside={}), rows, [edit], 0, [last])[last]
            for first in firsts:
                again = self.edited(clean, rows, [edit, edit], first, [last])[last]
                if any(apart(each, expected) > self._bar for each in again):
                    return False
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError, KeyError):
            # Whatever a model's code does with what it was not given by its own blocks.
            return False
        return True


def _trial_rows(encoder: HuggingFaceEncoder) -> list[Row]:
    """A few tokens, and the same backwards."""
    ids = np.array(encoder.trial_ids, np.int64)
    whole = slice(0, len(ids))
    return [Row(0, each, np.zeros_like(ids), np.arange(len(ids)), whole, whole) for each in (ids, ids[::-1].copy())]


def _half(clean: Clean, block: int) -> Edit:
    """Half of what the heads of a block hand on is taken away."""
    units = clean.mixed[block].shape[-1]
    return Edit(mixed={block: Mixed(torch.arange(units) < units // 2)})
