"""Training on a GPU at the speed of its kernels: a step is recorded once, as a CUDA graph, and replayed on every batch.

A step is a few hundred small kernels, which take longer to launch one by one than to run. A recorded step reads its
batch, a row of whole numbers (which tokens, which targets, where their spans are), from one place in memory: states are
picked and dropout is drawn on the GPU, and nothing else has to be copied there. Batches are filled up to one of a few
sizes, with tokens that no span has and targets that do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil, log
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from lamina.probes.learner import Learner
from lamina.probes.streams import BatchLayout, SpanBounds, Stream

_GROWTH = 1.25
"""From one size of batches to the next: what is filled up is a tenth of a batch on average."""
_SMALLEST = 1 / 4
"""Of the largest batch: smaller ones are filled up to that."""
_AHEAD = 256
"""Batches that are prepared at a time."""
_AT_ONCE = 1024
"""Steps at a time: their batches are on the GPU together."""


class Size(NamedTuple):
    """Room for `tokens` tokens and `targets` targets."""

    tokens: int
    targets: int


class PreparedBatch(NamedTuple):
    """One batch as a row of numbers on the GPU: places of tokens, targets, and bounds of their spans."""

    size: Size
    numbers: Int64[Tensor, " number"]

    def parts(self) -> tuple[Tensor, Tensor, tuple[SpanBounds, ...]]:
        """Places of tokens, targets, spans."""
        tokens, targets = self.size
        places, rows, rest = self.numbers.split([tokens, targets, len(self.numbers) - tokens - targets])
        bounds = rest.view(targets, -1, 2)
        return places, rows, tuple(SpanBounds(bounds[:, span]) for span in range(bounds.shape[1]))


class RecordedSteps:
    """The steps and validations of learners whose states are in a GPU's memory."""

    def __init__(self, learners: Sequence[Learner], order_seed: int, done: int) -> None:
        self._schedule = learners[0].schedule
        pool = torch.cuda.graph_pool_handle()
        self._programs = {learner: _Programs(learner, pool) for learner in learners}
        streams = dict.fromkeys(learner.group.streams for learner in learners)
        self._learning = {pair: _prepared_forever(pair[0], order_seed, done) for pair in streams}
        self._stopping = {pair: _prepared_once(pair[1]) for pair in streams}

    def take(self, running: Sequence[Learner], done: int) -> int:
        """Steps up to the next validation, or as many as are prepared at a time; returns their number."""
        count = min(self._schedule.end_of(self._schedule.validations_by(done) + 1) - done, _AT_ONCE)
        batches = {pair: [next(prepared) for _ in range(count)] for pair, prepared in self._learning.items()}
        starts = {learner: _starts(learner, done, count) for learner in running}
        for number in range(count):
            for learner in running:
                learner.set_rates(done + number + 1)
                self._programs[learner].step(batches[learner.group.streams][number], starts[learner][number])
        return count

    def losses(self, running: Sequence[Learner]) -> list[np.ndarray]:
        """[member, text] What every stopping text adds to the mean loss, of the members of every learner."""
        losses = [self._programs[learner].stopping(self._stopping[learner.group.streams]) for learner in running]
        return [
            learner.losses_by_text(some.double().cpu().numpy()) for learner, some in zip(running, losses, strict=True)
        ]


@contextmanager
def recording(device: str) -> Iterator[None]:
    """What steps are recorded in: a stream of their own, and products of TensorFloat-32 with sums in float32."""
    before = torch.get_float32_matmul_precision()
    with torch.cuda.device(device):
        default, stream = torch.cuda.current_stream(), torch.cuda.Stream()
        stream.wait_stream(default)
        try:
            torch.set_float32_matmul_precision("high")
            with torch.cuda.stream(stream):
                yield
        finally:
            torch.set_float32_matmul_precision(before)
            default.wait_stream(stream)


class _Programs:
    """What is recorded of one learner."""

    def __init__(self, learner: Learner, pool: Any) -> None:
        self._learner, self._pool = learner, pool
        self._probes = learner.probes
        self._begin()

    def step(self, batch: PreparedBatch, starts: Int64[Tensor, "2 seed"]) -> None:
        """One gradient step."""
        if self._learner.probes is not self._probes:
            # Fewer members go on: what was recorded reads the weights of all.
            self._probes = self._learner.probes
            self._begin()
        self._step(batch, starts)

    def stopping(self, batches: Sequence[PreparedBatch]) -> Tensor:
        """[member, target] Every member's loss on all stopping targets."""
        for batch in batches:
            self._stop(batch, self._nothing)
        return self._losses[:, :-1]

    def _begin(self) -> None:
        learner, device = self._learner, self._probes.project.device
        self._nothing = torch.zeros(0, dtype=torch.int64, device=device)
        # One target more, which fills batches up.
        self._losses = torch.zeros(len(learner.members), len(learner.group.stop) + 1, device=device)
        self._step, self._stop = (_Program(run, self._pool) for run in (self._learn, self._set_losses))

    def _learn(self, batch: PreparedBatch, starts: Tensor) -> None:
        places, rows, spans = batch.parts()
        states = self._learner.group.streams[0].states_of(places)
        masks = self._probes.masks_from(starts, *batch.size, states.shape[2])
        self._learner.learn(states, spans, masks, rows)

    def _set_losses(self, batch: PreparedBatch, _: Tensor) -> None:
        places, rows, spans = batch.parts()
        losses = self._learner.stopping_loss(self._learner.group.streams[1].states_of(places), spans, rows)
        self._losses.index_copy_(1, rows, losses)


class _Recording(NamedTuple):
    """A graph, and where it reads from."""

    graph: torch.cuda.CUDAGraph
    batch: PreparedBatch
    more: Tensor


class _Program:
    """A function of a batch and more numbers: run as it is on the first batch of a size, then recorded and replayed."""

    def __init__(self, run: Callable[[PreparedBatch, Tensor], None], pool: Any) -> None:
        self._run, self._pool = run, pool
        self._recorded: dict[Size, _Recording | None] = {}

    def __call__(self, batch: PreparedBatch, more: Tensor) -> None:
        if batch.size not in self._recorded:
            # Also sets up what may not be set up while recording.
            self._run(batch, more)
            self._recorded[batch.size] = None
            return
        recorded = self._recorded[batch.size] or self._record(batch, more)
        recorded.batch.numbers.copy_(batch.numbers)
        recorded.more.copy_(more)
        recorded.graph.replay()

    def _record(self, batch: PreparedBatch, more: Tensor) -> _Recording:
        recording = _Recording(
            torch.cuda.CUDAGraph(), PreparedBatch(batch.size, torch.empty_like(batch.numbers)), torch.empty_like(more)
        )
        torch.cuda.current_stream().synchronize()
        recording.graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
        try:
            self._run(recording.batch, recording.more)
        finally:
            recording.graph.capture_end()
        self._recorded[batch.size] = recording
        return recording


def _prepared_forever(stream: Stream, seed: int, done: int) -> Iterator[PreparedBatch]:
    """Batches, epoch after epoch, skipping those already done."""
    epoch, skip = divmod(done, stream.batches)
    largest: Size | None = None
    while True:
        layout = stream.shuffled(seed, epoch, skip=skip)
        largest = largest or largest_size(layout)
        for start in range(0, len(layout), _AHEAD):
            yield from _prepare(stream, layout, largest, range(start, min(start + _AHEAD, len(layout))))
        epoch, skip = epoch + 1, 0


def _prepared_once(stream: Stream) -> list[PreparedBatch]:
    """All batches for applying probes."""
    layout = stream.applied()
    return _prepare(stream, layout, largest_size(layout), range(len(layout)))


def _prepare(stream: Stream, layout: BatchLayout, largest: Size, batches: range) -> list[PreparedBatch]:
    """Some batches of a layout on the GPU, copied there at once."""
    tokens, targets = _counts(layout)
    sizes = {number: padded_size(tokens[number], targets[number], largest) for number in batches}
    prepared: dict[int, PreparedBatch] = {}
    for size in dict.fromkeys(sizes.values()):
        same_size = [number for number, other in sizes.items() if other == size]
        rows = torch.from_numpy(batch_rows(layout, same_size, size, spare=len(stream.targets))).pin_memory()
        prepared |= zip(
            same_size, (PreparedBatch(size, row) for row in rows.to(stream.device, non_blocking=True)), strict=True
        )
    return [prepared[number] for number in batches]


def batch_rows(
    layout: BatchLayout, batches: Sequence[int], size: Size, *, spare: int
) -> Int64[np.ndarray, "batch number"]:
    """Batches as rows of numbers, filled up with tokens that no span has and a `spare` target that does not count."""
    tokens, targets = size
    spans = layout.bounds.shape[1]
    # A place, a target, and a span of one token: anything that exists will do.
    filling = [np.full(tokens, layout.tokens[0]), np.full(targets, spare), np.tile([0, 1], targets * spans)]
    rows = np.tile(np.concatenate(filling), (len(batches), 1))
    for row, number in zip(rows, batches, strict=True):
        places, target_rows, bounds = layout.of(number)
        row[: len(places)] = places
        row[tokens : tokens + len(target_rows)] = target_rows
        row[tokens + targets : tokens + targets + bounds.size] = bounds.ravel()
    return rows


def _counts(layout: BatchLayout) -> tuple[list[int], list[int]]:
    """Tokens and targets of every batch."""
    tokens, targets = (np.diff(ends, prepend=0).tolist() for ends in (layout.token_ends, layout.target_ends))
    return tokens, targets


def largest_size(layout: BatchLayout) -> Size:
    tokens, targets = _counts(layout)
    return Size(max(tokens), max(targets))


def padded_size(tokens: int, targets: int, largest: Size) -> Size:
    """The smallest of a few sizes that has room."""
    share = max(tokens / largest.tokens, targets / largest.targets, _SMALLEST)
    grown = _GROWTH ** ceil(log(share, _GROWTH) - 1e-9)
    # Rows of a multiple of 8 suit the matrix units.
    return Size(
        *(8 * ceil(max(value, grown * most) / 8) for value, most in zip((tokens, targets), largest, strict=True))
    )


def _starts(learner: Learner, done: int, count: int) -> Int64[Tensor, "step 2 seed"]:
    """Where the dropout masks of the next steps begin."""
    starts = [learner.probes.mask_starts(number) for number in range(done + 1, done + count + 1)]
    return torch.tensor(starts).pin_memory().to(learner.probes.project.device, non_blocking=True)
