"""Runs of a model with some of its parts changed: heads, blocks, states of a layer.

Works by hooks for any architecture whose blocks and output projections can be found, without a copy of its code. The
model runs once without edits; for every edit it runs again from the edited block on, and the blocks below return their
recorded outputs. Several edits in one block are rows of one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import Module

from lamina.errors import ModelError
from lamina.models.contract import Encoder
from lamina.models.interventions.edited_runs import (
    RESAMPLED,
    BlockCalls,
    CleanRun,
    Edit,
    EditedStates,
    Fill,
    HeadEdit,
    ResumedRuns,
    head_outputs,
)
from lamina.models.running.anatomy import attention_by
from lamina.models.running.batching import InputRow, is_out_of_memory, row_groups
from lamina.models.running.devices import refuse_spread
from lamina.models.running.huggingface import HuggingFaceEncoder

_COPIES = 8
"""Maximum number of edits in a batch on a GPU: with few rows per batch there is least padding."""
_CPU_TOKENS = 512
"""Of a batch on a CPU: products of matrices are as fast as in larger ones, and what they make stays in its cache."""


class Interventions:
    """An encoder whose parts can be changed.

    Example:
        >>> parts = Interventions(lamina.load_encoder("minilm"))  # doctest: +SKIP
        >>> parts.without(2, heads=[7]).first  # doctest: +SKIP
        2
    """

    def __init__(self, encoder: Encoder, *, heads: bool = True, spread: bool = False) -> None:
        """Prepare an encoder for edits; nothing is changed yet.

        Args:
            encoder: a transformer.
            heads: whether single heads must be changeable; without, a model where they are not is accepted too.
            spread: whether a model on several devices is accepted; code that reads its weights needs it on one.
        """
        if not isinstance(encoder, HuggingFaceEncoder):
            raise ModelError(f"{encoder.name} is not a transformer, so it has no heads or blocks to ablate")
        if not spread:
            refuse_spread(encoder.model, encoder.name, "its parts can be ablated only on one")
        self.encoder = encoder
        self._calls = BlockCalls(encoder)
        self._outs, self.size = head_outputs(encoder, self._calls.modules)
        if heads:
            self.refuse_heads()
        self._runs = ResumedRuns(encoder, self._calls, self._outs)
        self.resumes = self._runs.resumes
        """Whether blocks below an edit can return their recorded outputs; otherwise the whole model runs again."""

    @property
    def heads(self) -> tuple[tuple[int, int], ...]:
        """(block, head), both from 0, of all heads that can be ablated."""
        return tuple((block, head) for block in sorted(self._outs) for head in range(self.encoder.heads))

    @property
    def blocks(self) -> tuple[Module, ...]:
        """The module of each block; one that is several blocks occurs as often."""
        return tuple(self._calls.modules)

    @property
    def no_heads(self) -> str:
        """Why heads cannot be changed one by one; empty where they can."""
        if not self.encoder.heads:
            return self.encoder.anatomy.no_maps
        return "" if self._outs else "their outputs are not the input of one linear layer per block"

    def refuse_heads(self, block: int | None = None, head: int | None = None) -> None:
        """Raise a ModelError where heads cannot be changed one by one, or where there is no such head (both from 0)."""
        encoder = self.encoder
        if self.no_heads:
            raise ModelError(
                f"{encoder.name} ({type(encoder.model).__name__}): its heads cannot be ablated one by one: "
                f"{self.no_heads}; its blocks can be ablated: --component block"
            )
        if block is not None and not (block in self._outs and 0 <= (head or 0) < encoder.heads):
            having = "" if len(self._outs) == encoder.blocks else f" (with heads: {_numbered(self._outs)})"
            raise ModelError(
                f"{encoder.name} has no head {block + 1}-{(head or 0) + 1}; it has {encoder.blocks} layers{having} "
                f"of {encoder.heads} heads, counted from 1"
            )

    def without(self, block: int, *, heads: Iterable[int], fill: Fill = None) -> Edit:
        """The edit that ablates heads of a block (all from 0): their outputs become zeros, or what `fill` says."""
        where = torch.zeros(self.encoder.heads, self.size, dtype=torch.bool)
        for head in heads:
            self.refuse_heads(block, head)
            where[head] = True
        return Edit(mixed={block: HeadEdit(where.flatten(), fill)})

    def out(self, block: int) -> Module:
        """The output projection of a block, which mixes its heads."""
        self.refuse_heads(block)
        return self._outs[block]

    def run(
        self,
        rows: Sequence[InputRow],
        edits: Sequence[Edit],
        *,
        layers: Sequence[int] | None = None,
        donors: Sequence[InputRow] | None = None,
        places: Sequence[Int[np.ndarray, " place"]] | None = None,
    ) -> Iterator[EditedStates]:
        """All rows without an edit and under each edit, batch by batch.

        Args:
            rows: what the model reads, see `HuggingFaceEncoder.rows`.
            edits: each is applied alone.
            layers: those whose states are handed out; the last by default.
            donors: for each row its replacement, used by edits that take outputs from another text.
            places: the tokens of each row whose last layer is looked at; under an edit that of others may be NaN.
        """
        wanted = (self.encoder.blocks,) if layers is None else tuple(layers)
        by_first: dict[int, list[int]] = {}
        for number, edit in enumerate(edits):
            by_first.setdefault(edit.first if self.resumes else 0, []).append(number)
        tokens, copies = self.encoder.batch_size.tokens, max(map(len, by_first.values()), default=1)
        if self.encoder.device.type == "cpu":
            tokens = min(tokens, _CPU_TOKENS)
        else:
            copies = min(copies, _COPIES)
        # Edits fill a batch with copies of its rows: few rows, which can be of one length, are enough.
        budget = tokens // copies
        for batch in row_groups([len(row.ids) for row in rows], max(1, budget), pads=self.encoder.anatomy.pads):
            clean = self.clean(rows, batch, donors=donors, mixed=any(edit.mixed for edit in edits))
            yield EditedStates(clean.rows, None, {layer: clean.states[layer] for layer in wanted})
            together = max(1, tokens // max(1, clean.states[0][..., 0].numel()))
            for first, numbers in by_first.items():
                waiting = [numbers[place : place + together] for place in range(0, len(numbers), together)][::-1]
                while waiting:
                    some = waiting.pop()
                    try:
                        states = self._runs.edited(
                            clean, rows, [edits[number] for number in some], first, wanted, places
                        )
                    except RuntimeError as error:
                        if len(some) == 1 or not is_out_of_memory(error):
                            raise
                        waiting += [some[len(some) // 2 :], some[: len(some) // 2]]
                        continue
                    for place, number in enumerate(some):
                        yield EditedStates(
                            clean.rows, number, {layer: tensor[place] for layer, tensor in states.items()}
                        )

    def clean(
        self,
        rows: Sequence[InputRow],
        batch: Sequence[int],
        *,
        donors: Sequence[InputRow] | None = None,
        mixed: bool = False,
    ) -> CleanRun:
        """Some of the rows, run without edits; with `mixed`, head outputs are recorded too."""
        return self._runs.clean(rows, batch, donors=donors, mixed=mixed)

    def means(self, rows: Sequence[InputRow]) -> dict[int, Float[Tensor, " unit"]]:
        """Block -> the mean output of its heads, over all tokens of the rows."""
        sums: dict[int, Tensor] = {}
        tokens = 0
        for batch in self.encoder.row_groups([len(row.ids) for row in rows]):
            clean = self.clean(rows, batch, mixed=True)
            sizes = torch.tensor(clean.sizes, device=self.encoder.device)
            tokens += int(sizes.sum())
            for block, handed in clean.mixed.items():
                inside = torch.arange(handed.shape[1], device=handed.device) < sizes[:, None].to(handed.device)
                sums[block] = sums.get(block, 0) + (handed.double() * inside[..., None]).sum((0, 1))
        return {block: (total / tokens).float() for block, total in sums.items()}

    @contextmanager
    def applied(self, edit: Edit) -> Iterator[None]:
        """While it is open, every run of the model has an edit of heads and blocks: states, maps, its head.

        A skipped block still computes its maps; no later block reads its output.
        """
        if edit.states or any(head_edit.fill is RESAMPLED for head_edit in edit.mixed.values()):
            raise ModelError(
                "only edits of heads and blocks can be applied to every run of the model, not edits of states"
            )

        def around(number: int, block: Callable[..., Any], args: Any, named: Any) -> Any:
            # A copy: some models add to their states in place.
            states = self._calls.read(args, named).clone()
            result = block(*args, **named)
            return self._calls.returning(result, states) if number in edit.skipped else result

        with ExitStack() as open_:
            now = open_.enter_context(self._calls.around(around))
            for block, mixed in edit.mixed.items():

                def refill(_module: Module, args: Any, block: int = block, mixed: HeadEdit = mixed) -> Any:
                    if now[0] != block:
                        return args
                    replaced, where = args[0].clone(), mixed.where.to(args[0].device)
                    replaced[..., where] = mixed.fill.to(replaced)[where] if isinstance(mixed.fill, Tensor) else 0
                    return (replaced, *args[1:])

                open_.callback(self._outs[block].register_forward_pre_hook(refill).remove)
            yield

    @contextmanager
    def gated(self, gates: Float[Tensor, "row block head"]) -> Iterator[None]:
        """While it is open, the output of every head is multiplied by a gate: one per row, block with heads and head.

        Gradients reach the gates.
        """
        with attention_by(self.encoder.model, None), ExitStack() as open_:
            now = open_.enter_context(self._calls.counted())
            for block, out in self._outs.items():
                place = sorted(self._outs).index(block)

                def multiply(_module: Module, read: Any, block: int = block, place: int = place) -> Any:
                    if now[0] != block:
                        return read
                    by_head = read[0].unflatten(-1, (self.encoder.heads, self.size))
                    return ((by_head * gates[:, place, None, :, None].to(by_head)).flatten(-2), *read[1:])

                open_.callback(out.register_forward_pre_hook(multiply).remove)
            yield

    def gated_states(
        self, rows: Sequence[InputRow], gates: Float[Tensor, "row block head"], layers: Sequence[int]
    ) -> dict[int, Float[Tensor, "row token width"]]:
        """Layer -> its states with a gate on every head, padding included; gradients reach the gates."""
        read: dict[int, Tensor] = {}

        def around(number: int, block: Callable[..., Any], args: Any, named: Any) -> Any:
            # A copy: some models add to their states in place.
            read[number] = self._calls.read(args, named).clone()
            return block(*args, **named)

        with torch.enable_grad(), self.gated(gates), self._calls.around(around):
            read[self.encoder.blocks] = self._runs.last(self.encoder.inputs(rows))
        return {layer: read[layer] for layer in layers}

    def gated_block_states(
        self, rows: Sequence[InputRow], gates: Float[Tensor, "row block"], layers: Sequence[int]
    ) -> dict[int, Float[Tensor, "row token width"]]:
        """As `gated_states`, with a gate on what every block adds to what it reads: 0 skips it."""
        read: dict[int, Tensor] = {}

        def around(number: int, block: Callable[..., Any], args: Any, named: Any) -> Any:
            # A copy: some models add to their states in place.
            read[number] = states = self._calls.read(args, named).clone()
            result = block(*args, **named)
            output = self._calls.output(result)
            return self._calls.returning(result, states + gates[:, number, None, None].to(output) * (output - states))

        with torch.enable_grad(), attention_by(self.encoder.model, None), self._calls.around(around):
            read[self.encoder.blocks] = self._runs.last(self.encoder.inputs(rows))
        return {layer: read[layer] for layer in layers}


def _numbered(blocks: Iterable[int]) -> str:
    return ", ".join(str(block + 1) for block in sorted(blocks))
