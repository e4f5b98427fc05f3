"""The contract of `Interventions`, tested on a model: the named parts change, and nothing else.

Every change is made a second time, independently: in the weights, or by a hook that does not use `Interventions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from lamina.errors import ModelError
from lamina.models.checks.passports import LONGER, PLAIN, SHORT, Check, holds
from lamina.models.contract import TOLERANCE, Encoder, apart
from lamina.models.interventions.edited_runs import RESAMPLED, Edit
from lamina.models.interventions.interventions import Interventions
from lamina.models.running.attention_maps import is_linear
from lamina.models.running.batching import InputRow

_STEPS = (0.01, 0.001, 0.0002)
"""Of a gate, to see how fast the output changes with it: large ones bend, or lead to another expert; small ones are
lost in rounding ..."""
_SLOPE = 0.05
"""... and how far the best may be from the gradient, relative to it."""
_SHIFT = 1.5
"""What is added to a state to see where it shows."""

States = Sequence[Tensor]
"""[layer, token, width] for every row, without padding."""


def check_interventions(encoder: Encoder) -> Check:
    """Raise an AssertionError if interventions on a model do not do what they say; run it on your own encoders.

    Checked, in the first, the middle and the last block: gates of one change nothing; a head set to zero by a gate, by
    an edit and by the weights of the output projection give the same; a mean-ablated head gives the projection of its
    mean over all tokens; the output of another text arrives; a skipped block passes its input through; a changed state
    shows in its layer, at its token and above only. Nothing below a change moves, nor do other rows of a batch; several
    edits in one batch equal single ones; a resumed run equals a full run; gradients of gates match finite differences.

    A model whose heads cannot be changed one by one, or that cannot be resumed, is checked in the rest; the message
    says so. A model without blocks to ablate raises a ModelError.

    Example:
        >>> check_interventions(lamina.load_encoder("minilm")).said  # doctest: +SKIP
        'heads of 6 of 6 blocks, whole blocks and states can be changed; blocks below a change run once'
    """
    tried = _InterventionTrial(Interventions(encoder, heads=False))
    tried.run_as_it_is()
    if tried.parts.heads:
        tried.ones()
        tried.zeros()
        tried.means()
        tried.other_texts()
        tried.slopes()
    tried.blocks()
    tried.states()
    tried.together()
    return holds("interventions", describe_changes(tried.parts), tried.worst)


def describe_changes(parts: Interventions) -> str:
    """What can be changed, in words."""
    having = len({block for block, _ in parts.heads})
    heads = f"heads of {having} of {parts.encoder.blocks} blocks, whole blocks" if having else "whole blocks"
    lacking = "" if having else f"; not heads: {parts.no_heads}"
    below = "run once" if parts.resumes else "run again each time"
    return f"{heads} and states can be changed; blocks below a change {below}{lacking}"


class _InterventionTrial:
    """One model, and how far apart things that should be equal were."""

    def __init__(self, parts: Interventions) -> None:
        self.parts, self.encoder = parts, parts.encoder
        self.bar = TOLERANCE[self.encoder.model.dtype]
        self.worst = 0.0
        self.rows = [_row(self.encoder, text) for text in (PLAIN, LONGER, SHORT)]
        self.donors = [_reversed(row) for row in self.rows]
        self.plain = self.by_hand()
        having = sorted({block for block, _ in parts.heads})
        self.heads = [(having[number], number % self.encoder.heads) for number in _spread(len(having))]
        """Of the first, middle and last block with heads, one each."""

    def run_as_it_is(self) -> None:
        """Running by parts changes nothing."""
        (states,) = self.run([])
        self.equal(states, self.plain, "run without a change, it gives other states than `encode`")

    def ones(self) -> None:
        """Gates of one change nothing, and those of other rows neither."""
        shape = (1, len({block for block, _ in self.parts.heads}), self.encoder.heads)
        self.equal(self.gated(lambda _row: torch.ones(shape)), self.plain, "gates of one change states")
        mixed = self.gated(lambda row: torch.ones(shape) if row else torch.zeros(shape))
        self.equal(mixed[1:], self.plain[1:], "gates of one row change other rows")
        self.differ(mixed[0][-1], self.plain[0][-1], "gates of zero change nothing")

    def zeros(self) -> None:
        """By gate, by edit, by weights."""
        having = sorted({block for block, _ in self.parts.heads})
        for block, head in self.heads:
            sharing = [other for other in having if self.parts.out(other) is self.parts.out(block)]
            one = {other: self.parts.without(other, heads=[head]).mixed[other] for other in sharing}
            (states,) = self.run([Edit(mixed=one)])[1:]
            where = f"head {block + 1}-{head + 1} set to zero"
            gates = torch.ones(1, len(having), self.encoder.heads)
            gates[:, [having.index(other) for other in sharing], head] = 0
            self.equal(states, self.gated(lambda _row, gates=gates: gates), f"{where} by a gate and by an edit differ")
            with _zeroed(self.parts.out(block), head, self.parts.size):
                self.equal(states, self.by_hand(), f"{where} by its weights and by an edit differ")
            self.local(states, min(sharing), where)

    def means(self) -> None:
        """The mean of a head's output is right, and mean ablation gives the projection of it."""
        means = self.parts.means(self.rows)
        for block, head in self.heads:
            inputs: list[Tensor] = []

            def note(_module: Module, given: Any, inputs: list[Tensor] = inputs) -> None:
                inputs.append(given[0].reshape(-1, given[0].shape[-1]))

            out = self.parts.out(block)
            calls = sum(self.parts.out(number) is out for number in means)
            number = [other for other in means if self.parts.out(other) is out].index(block)
            with _hooked(out.register_forward_pre_hook(note)):
                self.by_hand()
            # A module that is several blocks ran once for each of them, row after row.
            mean = torch.cat(inputs[number::calls]).double().mean(0)
            self.expect(apart(means[block].double(), mean), f"block {block + 1}: the mean of its heads is another")
            if calls > 1:
                continue
            (states,) = self.run([self.parts.without(block, heads=[head], fill=means[block])])[1:]
            constant = torch.zeros_like(means[block])
            part = slice(head * self.parts.size, (head + 1) * self.parts.size)
            constant[part] = means[block][part]
            with _zeroed(out, head, self.parts.size) as linear, torch.no_grad():
                given = linear(constant)
                with _hooked(out.register_forward_hook(lambda _m, _g, output, add=given: output + add.to(output))):
                    message = f"head {block + 1}-{head + 1} set to its mean is not what the mean makes"
                    self.equal(states, self.by_hand(), message)

    def other_texts(self) -> None:
        """Resampling ablation: a head's output, or a layer's states, of another text."""
        donors = self.by_hand(self.donors)
        for block, head in self.heads:
            out = self.parts.out(block)
            if sum(self.parts.out(other) is out for other in {other for other, _ in self.parts.heads}) > 1:
                continue
            part = slice(head * self.parts.size, (head + 1) * self.parts.size)
            expected = []
            for row, donor in zip(self.rows, self.donors, strict=True):
                inputs: list[Tensor] = []

                def note(_module: Module, given: Any, inputs: list[Tensor] = inputs) -> None:
                    inputs.append(given[0].clone())

                with _hooked(out.register_forward_pre_hook(note)):
                    self.by_hand([donor])

                def put(_module: Module, given: Any, inputs: list[Tensor] = inputs, part: slice = part) -> Any:
                    changed = given[0].clone()
                    changed[..., part] = inputs[0][..., part]
                    return (changed, *given[1:])

                with _hooked(out.register_forward_pre_hook(put)):
                    expected += self.by_hand([row])
            (states,) = self.run([self.parts.without(block, heads=[head], fill=RESAMPLED)], donors=self.donors)[1:]
            self.equal(states, expected, f"head {block + 1}-{head + 1}: the output of another text does not arrive")
        for layer in _spread(self.encoder.layers):
            edit = Edit(states={layer: lambda _states, clean, layer=layer: _donated(clean).states[layer]})
            (states,) = self.run([edit], donors=self.donors)[1:]
            for row, theirs in zip(states, donors, strict=True):
                moved = apart(row[layer], theirs[layer])
                self.expect(moved, f"layer {layer}: the states of another text do not arrive")

    def blocks(self) -> None:
        """A skipped block passes its input through."""
        for block in _spread(self.encoder.blocks):
            (states,) = self.run([Edit(skipped=frozenset({block}))])[1:]
            description = f"block {block + 1} skipped"
            if block + 1 < self.encoder.blocks:
                for row, plain in zip(states, self.plain, strict=True):
                    self.expect(apart(row[block + 1], plain[block]), f"{description} does not pass its input through")
            handed = Edit(states={block + 1: lambda _states, clean, block=block: clean.states[block]})
            if block + 1 < self.encoder.blocks:
                self.equal(states, self.run([handed])[1], f"{description} is not the same as passing its input through")
            self.local(states, block, description)

    def states(self) -> None:
        """A state that is changed is seen there and above."""
        for layer in _spread(self.encoder.layers):

            def shifted(states: Tensor, _clean: Any) -> Tensor:
                changed = states.clone()
                changed[:, 1] += _SHIFT
                return changed

            (edited,) = self.run([Edit(states={layer: shifted})])[1:]
            self.local(edited, layer - 1, f"the states of layer {layer} changed", output_changes=False)
            for row, plain in zip(edited, self.plain, strict=True):
                expected = plain[layer].clone()
                expected[1] += _SHIFT
                self.expect(apart(row[layer], expected), f"layer {layer}: the change of a state is not seen as it is")

    def together(self) -> None:
        """Edits in one batch, one by one, and with every block run again."""
        edits = [Edit(skipped=frozenset({block})) for block in _spread(self.encoder.blocks)]
        edits += [self.parts.without(block, heads=[head]) for block, head in self.heads]
        edits += [Edit(mixed=edits[-1].mixed, skipped=edits[0].skipped), Edit()]
        all_states = self.run(edits)[1:]
        again = copy(self.parts)
        again.resumes = False
        for edit, edited in zip(edits, all_states, strict=True):
            self.equal(edited, self.run([edit])[1], "edits made together are not what they are alone")
        for edited, whole in zip(all_states, self.run(edits, parts=again)[1:], strict=True):
            self.equal(edited, whole, "a run that is resumed differs from one of the whole model")

    def slopes(self) -> None:
        """The gradient of a gate is how fast the output changes with it."""
        if self.encoder.model.dtype not in (torch.float32, torch.float64):
            return
        having = sorted({block for block, _ in self.parts.heads})
        draw = torch.Generator().manual_seed(0)
        along = torch.randn(1, len(having), self.encoder.heads, generator=draw).to(self.encoder.device)
        inputs = self.encoder.inputs(self.rows[:1])
        weighed: Tensor | None = None

        def output(gates: Tensor) -> Tensor:
            nonlocal weighed
            with self.parts.gated(gates):
                last = self.encoder.model(**inputs).last_hidden_state.double()
            if weighed is None:
                weighed = torch.randn(last.shape, generator=draw, dtype=torch.double).to(last)
            return (last * weighed).sum()

        gates = torch.ones_like(along, requires_grad=True)
        with torch.enable_grad():
            (slope,) = torch.autograd.grad(output(gates), gates)
        with torch.no_grad():
            ones = torch.ones_like(along)
            sides = ([output(ones + side * step * along) for side in (1, -1)] for step in _STEPS)
            differences = [float((up - down) / (2 * step)) for (up, down), step in zip(sides, _STEPS, strict=True)]
        expected, scale = float((slope * along).sum()), float((slope * along).norm())
        nearest = min(differences, key=lambda difference: abs(difference - expected))
        if not abs(nearest - expected) <= _SLOPE * max(scale, abs(expected)):
            message = f"gradients of gates are not how the output changes: {expected:.4g}, not {nearest:.4g}"
            raise AssertionError(f"{self.encoder.name}: {message}")

    def run(
        self, edits: Sequence[Edit], *, donors: Sequence[InputRow] | None = None, parts: Interventions | None = None
    ) -> list[States]:
        """All layers of every row as it is, and under each edit."""
        collected: list[dict[int, Tensor]] = [{} for _ in range(len(edits) + 1)]
        for edited in (parts or self.parts).run(self.rows, edits, layers=range(self.encoder.layers), donors=donors):
            by_row = collected[0 if edited.edit is None else edited.edit + 1]
            for place, row in enumerate(edited.rows):
                by_row[row] = _stacked(edited.states, place, len(self.rows[row].ids))
        return [[by_row[row] for row in range(len(self.rows))] for by_row in collected]

    def by_hand(self, rows: Sequence[InputRow] | None = None) -> States:
        """All layers of every row, run alone."""
        runs = (self.encoder.hidden([row]) for row in rows or self.rows)
        return [torch.stack([layer[0].detach().clone() for layer in layers]) for layers in runs]

    def gated(self, gates: Callable[[int], Tensor]) -> States:
        """All layers of every row, in batches, each row with its gates [1, block, head]."""
        by_row: dict[int, Tensor] = {}
        for batch in self.encoder.row_groups([len(row.ids) for row in self.rows]):
            batch_gates = torch.cat([gates(row) for row in batch]).to(self.encoder.device)
            with self.parts.gated(batch_gates):
                layers = self.encoder.hidden([self.rows[row] for row in batch])
            for place, row in enumerate(batch):
                by_row[row] = _stacked(dict(enumerate(layers)), place, len(self.rows[row].ids))
        return [by_row[row] for row in range(len(self.rows))]

    def local(self, states: States, block: int, where: str, *, output_changes: bool = True) -> None:
        """Nothing up to the block's input moved, and its output did."""
        for row, plain in zip(states, self.plain, strict=True):
            below = slice(0, block + 1)
            self.expect(apart(row[below], plain[below]), f"{where}: layers below it change")
        if output_changes:
            self.differ(states[0][block + 1], self.plain[0][block + 1], f"{where}: nothing changes")

    def equal(self, states: States, expected: States, otherwise: str) -> None:
        """Expect all layers of all rows to agree."""
        for one, other in zip(states, expected, strict=True):
            self.expect(apart(one, other), otherwise)

    def expect(self, moved: float, otherwise: str) -> None:
        """Expect a relative error within what two runs may differ by."""
        if moved > self.bar:
            raise AssertionError(f"{self.encoder.name}: {otherwise} (by {moved:.1e} of their norm)")
        self.worst = max(self.worst, moved)

    def differ(self, one: Tensor, other: Tensor, otherwise: str) -> None:
        """Expect a change to be one."""
        if torch.equal(one, other):
            raise AssertionError(f"{self.encoder.name}: {otherwise}")


def _row(encoder: Any, text: Any) -> InputRow:
    """The first row of a text."""
    return encoder.rows(0, encoder.word_tokenizer(text))[0]


def _reversed(row: InputRow) -> InputRow:
    """Another text of the same length: the same tokens, backwards."""
    return row._replace(ids=row.ids[::-1].copy())


def _donated(clean: Any) -> Any:
    if clean.donor is None:
        raise ModelError("values of another text are asked for, and no text was given to take them from")
    return clean.donor


def _stacked(states: Mapping[int, Tensor], row: int, size: int) -> Tensor:
    return torch.stack([states[layer][row, :size].detach().clone() for layer in sorted(states)])


def _spread(many: int) -> list[int]:
    """The first, the middle and the last of `many` numbers.

    Example:
        >>> _spread(12), _spread(2), _spread(1)
        ([0, 6, 11], [0, 1], [0])
    """
    return sorted({0, many // 2, many - 1}) if many else []


@contextmanager
def _hooked(handle: Any) -> Iterator[None]:
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def _zeroed(out: Module, head: int, size: int) -> Iterator[Callable[[Tensor], Tensor]]:
    """The weights that a projection has for a head are zero; gives what they made of a vector before."""
    weight: Any = out.weight
    if not is_linear(out) or not isinstance(weight, Tensor):
        raise ModelError(f"{type(out).__name__} has no weights that belong to a head")
    part = slice(head * size, (head + 1) * size)
    # GPT-2's layers have their weight the other way round.
    by_input = weight.data.T if isinstance(out, torch.nn.Linear) else weight.data
    original = by_input[part].clone()
    by_input[part] = 0
    try:
        yield lambda vector: vector[part].to(original) @ original
    finally:
        by_input[part] = original
