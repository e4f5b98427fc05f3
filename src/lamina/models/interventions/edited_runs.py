"""Edits of a model's parts, and runs with edits that are resumed where they begin.

The calls of a model's blocks are recorded, replaced and repeated: the model runs once without edits; for every edit it
runs again from the edited block on, and the blocks below return their recorded outputs. The edited block itself starts
at its output projection, if nothing before it changes. Gradients with respect to attention take one backward pass per
text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import Module
from torch.nn.functional import cross_entropy

from lamina.errors import ModelError
from lamina.models.contract import SPECIAL, TOLERANCE, Encoder, Tokens, apart
from lamina.models.running.anatomy import (
    SAME,
    SelectedTokens,
    attention_by,
    given,
    last_mixer,
    only_tokens,
    watch_blocks,
)
from lamina.models.running.attention_maps import AttentionCall, is_linear, mixings, recorded_attention
from lamina.models.running.batching import InputRow
from lamina.models.running.devices import refuse_spread
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.models.running.task_heads import Kind, class_name, head_kind, load_with_head
from lamina.models.running.tokens import token_id
from lamina.types import Text

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


# Edits of a model's parts (ablated, replaced, skipped) and the states that result.

RESAMPLED: Literal["resampled"] = "resampled"
"""Instead of a value: what the same place has in another text."""
Fill = Tensor | Literal["resampled"] | None
"""What replaces head outputs: numbers [head x size] (means), the outputs on another text, or zeros."""


class HeadEdit(NamedTuple):
    """A change of the head outputs that a block's output projection reads."""

    where: Bool[Tensor, " unit"]
    """Which of the block's heads x size numbers are replaced: those of a head, or any others."""
    fill: Fill = None


Change = Callable[[Float[Tensor, "row token width"], "CleanRun"], Float[Tensor, "row token width"]]
"""A change of the states of a layer, given them and the run of the same rows as they are."""


@dataclass(frozen=True, eq=False)
class Edit:
    """What is changed in a run; several changes act together.

    Example:
        >>> Edit(skipped=frozenset({3})).first, Edit(states={2: lambda states, clean: states}).first
        (3, 2)
    """

    mixed: Mapping[int, HeadEdit] = field(default_factory=dict)
    """Block (from 0) -> what becomes of its heads' output."""
    skipped: frozenset[int] = frozenset()
    """Blocks (from 0) that pass their input through."""
    states: Mapping[int, Change] = field(default_factory=dict)
    """Layer -> what becomes of its states; layers as `encode` counts them, 0 being the embeddings."""

    @property
    def first(self) -> int:
        """The first block (from 0) that makes something else than in a run without it."""
        return min((*self.mixed, *self.skipped, *self.states), default=0)


@dataclass(frozen=True, eq=False)
class CleanRun:
    """A batch of rows, run as they are."""

    rows: tuple[int, ...]
    """Their numbers among all rows that were given."""
    sizes: tuple[int, ...]
    """Tokens of each, without padding."""
    states: tuple[Float[Tensor, "row token width"], ...]
    """Of every layer, the last one as `encode` gives it (after a final norm)."""
    mixed: Mapping[int, Float[Tensor, "row token unit"]]
    """Block -> the outputs of its heads; only where an edit needs them."""
    outputs: tuple[Any, ...]
    """What every block returned."""
    inside: Mapping[int, Any]
    """Block -> the output of the module that need not run again, where there is one; recorded with `mixed`."""
    donor: CleanRun | None = None
    """The replacement rows (of other texts), each as long as the row it replaces."""


class EditedStates(NamedTuple):
    """What came of one change in one batch."""

    rows: tuple[int, ...]
    """Numbers of the rows."""
    edit: int | None
    """Number of the change; None for the run without one, which comes first."""
    states: Mapping[int, Float[Tensor, "row token width"]]
    """Layer -> its states, of the layers asked for; padding included."""


def refilled(handed: Tensor, block: int, edits: Sequence[Edit], clean: CleanRun) -> Tensor:
    """The head outputs of a block, [edit x row, token, unit], after each edit."""
    changed = handed.clone()
    for edit, part in zip(edits, changed.chunk(len(edits)), strict=True):
        if block not in edit.mixed:
            continue
        where, fill = edit.mixed[block]
        where = where.to(part.device)
        if fill is None:
            part[..., where] = 0
        elif isinstance(fill, str):
            if clean.donor is None:
                raise ModelError("values of another text are asked for, and no text was given to take them from")
            part[..., where] = clean.donor.mixed[block][..., where]
        else:
            part[..., where] = fill.to(part)[where]
    return changed


# Replacement rows for resampling ablation: the output of a part is taken from another text.


def lengths_alike(rows: Sequence[InputRow], seed: int = 0) -> list[InputRow]:
    """For each row a replacement: another row of about the same length, drawn at random.

    Example:
        >>> ids = [np.arange(size) for size in (3, 9, 3)]
        >>> rows = [InputRow(at, each, each, each, slice(0), slice(0)) for at, each in enumerate(ids)]
        >>> [row.text for row in lengths_alike(rows)]
        [1, 2, 0]
    """
    if len(rows) < 2:
        raise ModelError("a part cannot be replaced by that of another text: there is only one text")
    order = np.argsort([len(row.ids) for row in rows], kind="stable")
    rng = np.random.default_rng(seed)
    stand_ins = [rows[0]] * len(rows)
    for start in range(0, len(order), _NEIGHBOURS):
        some = order[start : start + _NEIGHBOURS]
        if len(some) < 2:
            some = order[max(0, start - 1) : start + 1]
        turned = rng.permutation(some)
        for number, other in zip(turned, np.roll(turned, 1), strict=True):
            stand_ins[number] = rows[other]
    return stand_ins


_NEIGHBOURS = 16
"""Rows of similar length among which stand-ins are drawn."""


def as_long(row: InputRow, size: int) -> InputRow:
    """A row repeated, or cut, to a number of tokens: its values have to be there for every token of another row."""
    times = -(-size // len(row.ids))
    ids, types, words = (np.tile(column, times)[:size] for column in (row.ids, row.types, row.words))
    return row._replace(ids=ids, types=types, words=words)


class ResumedRuns:
    """A model that can be run as it is, and then with changes."""

    def __init__(self, encoder: HuggingFaceEncoder, calls: BlockCalls, outs: Mapping[int, Module]) -> None:
        """How much of it need not run again is found by trying.

        Args:
            encoder: the model.
            calls: of its blocks.
            outs: block -> its output projection, where heads can be changed one by one.
        """
        self.encoder, self._calls, self._outs = encoder, calls, outs
        self._shortcuts = shortcuts(encoder, calls.modules, outs)
        rows, last = _trial_rows(encoder), encoder.blocks - 1
        self._unnormed = False
        self._unnormed = apart(self.clean(rows, [0, 1]).states[-1], encoder.hidden(rows)[-1]) > self._bar
        """Whether the last layer, as `encode` gives it, is what the last block made (CLIP): a norm comes after it."""
        clean = self.clean(rows, [0, 1], mixed=True)
        self.resumes = self._agree(clean, rows, Edit(), {min(1, last), last})
        """Whether blocks below an edit can return their recorded outputs; otherwise the whole model runs again."""
        ends = {min(self._shortcuts), max(self._shortcuts)} if self._shortcuts else set()
        if not self.resumes or not all(self._agree(clean, rows, _half(clean, block), {block}) for block in ends):
            self._shortcuts = {}

    def clean(
        self,
        rows: Sequence[InputRow],
        batch: Sequence[int],
        *,
        donors: Sequence[InputRow] | None = None,
        mixed: bool = False,
    ) -> CleanRun:
        """Some of the rows, run without edits; with `mixed`, head outputs are recorded too."""
        donor = None
        if donors is not None:
            # As long as the row itself: a longer one would read more than it has, which changes its values.
            stand_ins = [as_long(donors[number], len(rows[number].ids)) for number in batch]
            donor = self._clean(stand_ins, tuple(batch), mixed=mixed)
        return self._clean([rows[number] for number in batch], tuple(batch), mixed=mixed, donor=donor)

    def _clean(
        self, rows: Sequence[InputRow], batch: tuple[int, ...], *, mixed: bool, donor: CleanRun | None = None
    ) -> CleanRun:
        encoder = self.encoder
        read: list[Tensor] = []
        outputs: list[Any] = []
        handed: dict[int, Tensor] = {}
        inside: dict[int, Any] = {}

        def around(_number: int, block: Callable[..., Any], args: Any, named: Any) -> Any:
            read.append(self._calls.read(args, named).clone())
            result = block(*args, **named)
            outputs.append(copied(result))
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
        return CleanRun(batch, sizes, (*read, last), handed, tuple(outputs), inside, donor)

    def edited(
        self,
        clean: CleanRun,
        rows: Sequence[InputRow],
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
                return self._calls.repeated(clean.outputs[number], many, size)
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
                open_.enter_context(only_tokens(*cut))
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
        clean: CleanRun,
        edits: Sequence[Edit],
        first: bool,
    ) -> Any:
        """What a block returns for its states under each edit; the `first` one reads what it has read before."""
        many, size = len(edits), len(clean.rows)
        skipping = [edit_number for edit_number, edit in enumerate(edits) if number in edit.skipped]
        if len(skipping) == many:
            return self._calls.returning(self._calls.repeated(clean.outputs[number], many, size), states)
        args, named = self._calls.given(args, named, states)
        with self._shortened(number, clean, edits) if first else nullcontext():
            result = block(*args, **named)
        if not skipping:
            return result
        output = self._calls.output(result).clone()
        for edit_number in skipping:
            output[edit_number * size : (edit_number + 1) * size] = states[
                edit_number * size : (edit_number + 1) * size
            ]
        return self._calls.returning(result, output)

    def _cut(
        self, clean: CleanRun, edits: Sequence[Edit], places: Sequence[Int[np.ndarray, " place"]]
    ) -> SelectedTokens | None:
        """The tokens that the last block has to make; None where it has to make all."""
        blocks = self.encoder.blocks
        if any(blocks - 1 in edit.skipped or blocks in edit.states for edit in edits):
            return None
        mixer = last_mixer(self.encoder.model, self.encoder.trial_ids)
        if mixer is None:
            return None
        row_places = [places[row] for row in clean.rows]
        row = np.repeat(np.arange(len(row_places)), [len(chosen) for chosen in row_places])
        every = np.concatenate([row + len(row_places) * edit_number for edit_number in range(len(edits))])
        place = np.tile(np.concatenate(row_places), len(edits))
        return (
            SelectedTokens(mixer, torch.from_numpy(place).long(), torch.from_numpy(every).long())
            if len(place)
            else None
        )

    def _shortened(self, block: int, clean: CleanRun, edits: Sequence[Edit]) -> AbstractContextManager[None]:
        """Within it, the first block that differs does not mix again what it mixed, if it reads what it read."""
        shortcut = self._shortcuts.get(block)
        if shortcut is None or block not in clean.inside or any(block in edit.states for edit in edits):
            return nullcontext()
        many, size = len(edits), len(clean.rows)

        def forward(*_args: Any, **_named: Any) -> Any:
            before = self._calls.repeated(clean.inside[block], many, size)
            if not shortcut.projects:
                return before
            output = self._outs[block](clean.mixed[block].repeat(many, 1, 1))
            return output if isinstance(before, Tensor) else (output, *before[1:])

        return instead_of(shortcut.module, forward)

    def _changed(self, states: Tensor, clean: CleanRun, edits: Sequence[Edit], layer: int) -> Tensor:
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
            lambda _module, _given, output: ends.append(self._calls.output(output)) if self._unnormed else None
        )
        try:
            last = getattr(self.encoder.model(**inputs), "last_hidden_state", None)
        finally:
            hook.remove()
        if last is None:
            raise ModelError(
                f"{self.encoder.name} ({type(self.encoder.model).__name__}) does not give its last layer by itself, so "
                "its parts cannot be ablated; load the text model alone"
            )
        return ends[-1] if self._unnormed else last

    @property
    def _bar(self) -> float:
        return TOLERANCE[self.encoder.model.dtype]

    def _agree(self, clean: CleanRun, rows: Sequence[InputRow], edit: Edit, firsts: Iterable[int]) -> bool:
        """Whether a run that is resumed at each of some blocks makes what the whole model makes."""
        last = self.encoder.blocks
        try:
            (expected,) = self.edited(replace(clean, inside={}), rows, [edit], 0, [last])[last]
            for first in firsts:
                again = self.edited(clean, rows, [edit, edit], first, [last])[last]
                if any(apart(states, expected) > self._bar for states in again):
                    return False
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError, KeyError):
            # Whatever a model's code does with what it was not given by its own blocks.
            return False
        return True


def _trial_rows(encoder: HuggingFaceEncoder) -> list[InputRow]:
    """A few tokens, and the same backwards."""
    ids = np.array(encoder.trial_ids, np.int64)
    whole = slice(0, len(ids))
    return [
        InputRow(0, order, np.zeros_like(ids), np.arange(len(ids)), whole, whole) for order in (ids, ids[::-1].copy())
    ]


def _half(clean: CleanRun, block: int) -> Edit:
    """Zero ablation of half of a block's head outputs."""
    units = clean.mixed[block].shape[-1]
    return Edit(mixed={block: HeadEdit(torch.arange(units) < units // 2)})


_OTHERWISE = "leave out --gradients"
MASKED = 0.15
"""Share of word tokens replaced by the mask token; at least one per text."""

HOW: dict[Kind, str] = {
    "masked-LM": f"masked-LM loss; {MASKED:.0%} of the words' tokens, drawn per text, replaced by the mask",
    "causal-LM": "causal-LM loss: every token after the first, given those before it",
    "sequence-classification": "cross-entropy of the fine-tuned head with its own most likely class",
    "token-classification": "cross-entropy of the fine-tuned head with its own most likely class of every word's token",
    "question-answering": "cross-entropy of the fine-tuned head with its own most likely start and end",
}
"""Description for provenance."""


class AttentionGradients(NamedTuple):
    """The gradient of the loss on one text."""

    tokens: Tokens
    """The model's input: masked tokens have the mask's id."""
    loss: float
    weights: Float[Tensor, "block head token token"]
    """With respect to the attention from (row) to (column); includes positions that a decoder may not attend to."""


class HeadLoss:
    """A model with its trained head, and that head's loss.

    For a classification head, the label is its own most likely answer: what would change that answer? An untrained
    head has random weights and would give random gradients, so such models are refused.
    """

    def __init__(self, encoder: Encoder, *, seed: int = 0) -> None:
        if not isinstance(encoder, HuggingFaceEncoder):
            raise ModelError(f"{encoder.name} is not a transformers model, so it has no loss of its own")
        refuse_spread(encoder.model, encoder.name, "gradients need it on one")
        self.kind: Kind = _check_head(encoder)
        self._encoder = encoder
        self._model: Any = load_with_head(encoder, otherwise=_OTHERWISE, attn_implementation="eager")
        self._model.to(encoder.model.device)
        self._seed = seed
        self._mask = token_id(encoder.tokenizer.mask_token_id)
        if self.kind == "masked-LM" and self._mask is None:
            raise ModelError(f"{encoder.name}: its tokenizer has no mask token, so there is no masked-LM loss")
        if self.kind.endswith("classification") and (self._model.config.num_labels or 0) < 2:
            raise ModelError(f"{encoder.name}: its head gives a single number, not classes to choose an answer from")

    def __call__(self, text: Text) -> AttentionGradients | None:
        """The gradients on a text that fits the model; None if there is nothing to predict (a single token)."""
        tokens, types, *_ = self._encoder.word_tokenizer(text)
        chosen = self._predicted(text, tokens)
        if not len(chosen):
            return None
        fed = tokens.ids.copy()
        if self.kind == "masked-LM":
            fed[chosen] = self._mask
        with torch.enable_grad():
            out = self._model(**self._inputs(fed, types), output_attentions=True)
            loss = self._loss(out, tokens, chosen)
            gradients = torch.autograd.grad(loss, out.attentions)
        return AttentionGradients(tokens._replace(ids=fed), loss.item(), torch.cat(gradients).float().cpu())

    def _inputs(self, ids: np.ndarray, types: np.ndarray) -> dict[str, Tensor]:
        device = self._model.device
        inputs = {"input_ids": torch.from_numpy(ids).long()[None].to(device)}
        if getattr(self._model.config, "type_vocab_size", 0) > 1:
            inputs["token_type_ids"] = torch.from_numpy(types).long()[None].to(device)
        return inputs

    def _predicted(self, text: Text, tokens: Tokens) -> np.ndarray:
        """The tokens that the head has to predict; all of them for a head with one answer per text."""
        if self.kind == "causal-LM":
            return np.arange(1, len(tokens.ids))
        inside = np.flatnonzero(tokens.words != SPECIAL)
        if self.kind != "masked-LM":
            return inside
        return masked_tokens(text.id, inside, self._seed)

    def _loss(self, out: Any, tokens: Tokens, chosen: np.ndarray) -> Tensor:
        if self.kind == "question-answering":
            return _loss_of_likeliest(out.start_logits) + _loss_of_likeliest(out.end_logits)
        if self.kind == "sequence-classification":
            return _loss_of_likeliest(out.logits)
        places = torch.from_numpy(chosen).to(out.logits.device)
        if self.kind == "token-classification":
            return _loss_of_likeliest(out.logits[0, places])
        expected = torch.from_numpy(tokens.ids[chosen]).long().to(out.logits.device)
        return cross_entropy(out.logits[0, places - 1 if self.kind == "causal-LM" else places], expected)


def masked_tokens(text: str, tokens: np.ndarray, seed: int) -> np.ndarray:
    """The tokens of a text that are masked at once: a share of `MASKED`, at least one.

    Seeded by the text's id, so that neither its position in the corpus nor its batch matters.

    Example:
        >>> len(masked_tokens("s1", np.arange(1, 21), seed=0))
        3
    """
    name = int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "little")
    rng = np.random.default_rng([seed, name])
    return np.sort(rng.choice(tokens, max(1, round(MASKED * len(tokens))), replace=False))


def _loss_of_likeliest(logits: Float[Tensor, "place answer"]) -> Tensor:
    return cross_entropy(logits, logits.argmax(-1))


def _check_head(encoder: HuggingFaceEncoder) -> Kind:
    kind = head_kind(encoder)
    if kind is None:
        raise ModelError(
            f"{encoder.name} was saved as {class_name(encoder) or 'a bare model'}, without a head whose loss lamina "
            f"knows; use a checkpoint with its language-modelling or fine-tuned head, or {_OTHERWISE}"
        )
    return kind
