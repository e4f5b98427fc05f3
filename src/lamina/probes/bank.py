"""Training a bank: all probes of a task at once, on one stream of batches, each with its own early stopping.

What probes decided is summed by text: enough for their score on any resampling of the texts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import ceil, log
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from lamina.errors import DamagedError, WriteError
from lamina.files.checking import load_tensors, save_tensors
from lamina.probes.learner import Learner, LearningRecord, ProbeGroup, Schedule
from lamina.probes.streams import BatchLayout, ProbeBatch, ProbeTargets, SpanBounds, Stream
from lamina.progress import progress, say
from lamina.tasks.task import Metric

_PARTS = {"f1": 3, "macro_f1": 3, "accuracy": 2, "r2": 6, "correlation": 6}
"""Metric -> sums that it is made of."""


@dataclass(frozen=True, eq=False)
class DecisionTally:
    """Sums over the decisions of each member on each text, and the score that they give.

    The parts are: predicted and gold, predicted, gold for `f1`, and the same label by label for `macro_f1` (labels
    unseen in training come last); right and asked for `accuracy`; for `r2` and `correlation` the number of targets and
    the sums of gold, gold squared, predicted, predicted squared and their product.
    """

    metric: Metric
    sums: Float[np.ndarray, "part member text *label"]

    @classmethod
    def none(cls, metric: Metric, members: int, targets: ProbeTargets) -> DecisionTally:
        """Nothing counted yet."""
        shape = (_PARTS[metric], members, targets.texts)
        if metric != "macro_f1":
            return cls(metric, np.zeros(shape))
        # One number per label: single precision saves memory and counts exactly up to 16 million.
        return cls(metric, np.zeros((*shape, len(targets.labels) + len(targets.unseen_labels)), np.float32))

    def add(self, logits: Float[torch.Tensor, "member target label"], targets: ProbeTargets, rows: np.ndarray) -> None:
        """Count the members' predictions of these rows of the targets: logits, or values where targets are graded."""
        text = targets.text[rows]
        for into, part in zip(self.sums, self._parts(logits, targets, rows), strict=True):
            # [member, target, ...] -> the sum of every text's own.
            np.add.at(into.swapaxes(0, 1), text, part.swapaxes(0, 1))

    def value(self, weights: Float[np.ndarray, "sample text"] | None = None) -> np.ndarray:
        """The score of each member: [member], or [sample, member] when texts are weighted; NaN where there is none."""
        if weights is None:
            parts = self.sums.sum(2, dtype=float)
        else:
            # One product for all parts: [sample, text] by [text, part, member, ...].
            parts = np.moveaxis(np.tensordot(weights, self.sums, (1, 2)), 1, 0)
        return _SCORES[self.metric](*parts)

    def among(self, texts: np.ndarray) -> DecisionTally:
        """The sums of these texts only."""
        return DecisionTally(self.metric, self.sums[:, :, texts])

    def touched(self) -> np.ndarray:
        """The texts with anything counted."""
        some = (self.sums != 0).any((0, 1))
        return np.flatnonzero(some.any(-1) if some.ndim == 2 else some)

    def _parts(self, logits: torch.Tensor, targets: ProbeTargets, rows: np.ndarray) -> list[np.ndarray]:
        if self.metric == "accuracy":
            return _right(logits, targets, rows)
        if self.metric in ("r2", "correlation"):
            return _moments(logits, targets, rows)
        right, predicted, gold = _decisions(logits, targets, rows)
        if self.metric == "f1":
            return [right.sum(-1), predicted.sum(-1), gold.sum(-1)]
        unseen = len(targets.unseen_labels)
        widened = [np.pad(part, ((0, 0), (0, 0), (0, unseen))) for part in (right, predicted)]
        return [*widened, gold]


def _decisions(logits: torch.Tensor, targets: ProbeTargets, rows: np.ndarray) -> list[np.ndarray]:
    """Predicted and gold, predicted, gold (unseen labels among them); a label is predicted from a logit of 0 on."""
    scored = targets.scored[rows]
    true = targets.gold[rows] & scored
    predicted = (logits >= 0).cpu().numpy() & scored
    gold = np.concatenate([true, targets.unseen[rows]], axis=1)
    return [predicted & true, predicted, gold[None]]


def _right(logits: torch.Tensor, targets: ProbeTargets, rows: np.ndarray) -> list[np.ndarray]:
    """The label with the highest logit holds; an unseen label cannot be predicted, so its target counts as wrong."""
    best = logits.argmax(-1).cpu().numpy()
    right = targets.gold[rows][np.arange(len(rows)), best]
    return [right, np.ones((1, len(rows)))]


def _moments(values: torch.Tensor, targets: ProbeTargets, rows: np.ndarray) -> list[np.ndarray]:
    if targets.values is None:
        raise ValueError("only graded targets have values to compare with")
    predicted, gold = values[..., 0].double().cpu().numpy(), targets.values[rows][None]
    return [np.ones_like(gold), gold, gold**2, predicted, predicted**2, predicted * gold]


def _f1(right: np.ndarray, predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    both = predicted + gold
    return np.divide(2 * right, both, out=np.zeros_like(right), where=both > 0)


def _macro_f1(right: np.ndarray, predicted: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """The mean over the labels that are gold in some text."""
    present = gold > 0
    return np.where(present, _f1(right, predicted, gold), 0).sum(-1) / present.sum(-1).clip(min=1)


def _accuracy(right: np.ndarray, total: np.ndarray) -> np.ndarray:
    return np.divide(right, total, out=np.zeros_like(right), where=total > 0)


def _r2(count: np.ndarray, y: np.ndarray, yy: np.ndarray, _: np.ndarray, pp: np.ndarray, py: np.ndarray) -> np.ndarray:
    """1 - squared error / squared distance from the mean; none where all gold values are equal."""
    spread = yy - y**2 / count.clip(min=1)
    return 1 - np.divide(yy - 2 * py + pp, spread, out=np.full_like(spread, np.nan), where=spread > 1e-12)


def _correlation(
    count: np.ndarray, y: np.ndarray, yy: np.ndarray, p: np.ndarray, pp: np.ndarray, py: np.ndarray
) -> np.ndarray:
    """Pearson's; none where either side is constant."""
    many = count.clip(min=1)
    square = (yy - y**2 / many) * (pp - p**2 / many)
    return np.divide(py - p * y / many, np.sqrt(square.clip(min=0)), out=np.full_like(py, np.nan), where=square > 1e-12)


_SCORES = {"f1": _f1, "macro_f1": _macro_f1, "accuracy": _accuracy, "r2": _r2, "correlation": _correlation}


def constant_tally(metric: Metric, answer: Bool[np.ndarray, " label"] | float, targets: ProbeTargets) -> DecisionTally:
    """The tally of one member that tells the same of every target: these labels, or this value."""
    row = np.array([answer]) if isinstance(answer, float) else np.where(answer, 1.0, -1.0)
    tally = DecisionTally.none(metric, 1, targets)
    answers = torch.from_numpy(row).expand(1, len(targets), -1)
    tally.add(answers, targets, np.arange(len(targets)))
    return tally


SECONDS = 60.0
"""Seconds between checkpoints, the most a kill can lose. State is large (five times the weights), so it is not saved at
every validation."""
_STEP = "step"


class BankCheckpoint:
    """A file with the training state; written at some validations."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._saved = time.monotonic()
        self._warned = False

    def offer(self, step: int, learners: Sequence[Learner]) -> None:
        """Save the state after a step, unless one was saved recently; where it cannot be saved, training goes on."""
        if time.monotonic() - self._saved < SECONDS:
            return
        try:
            save_tensors(self._path, _state(learners), {_STEP: step})
        except WriteError as error:
            if not self._warned:
                say(f"no checkpoint, training goes on: {error}")
            self._warned = True
        self._saved = time.monotonic()

    def restore(self, learners: Sequence[Learner]) -> int:
        """Load the saved state into learners that have not started; returns the step it was saved after, or 0."""
        try:
            saved, head = load_tensors(self._path)
        except FileNotFoundError:
            return 0
        except (OSError, DamagedError) as error:
            say(f"{error}; its training starts again")
            return 0
        state = _state(learners)
        if any(name not in saved or saved[name].shape != value.shape for name, value in state.items()):
            # From another device, which groups probes differently.
            return 0
        with torch.no_grad():
            for name, value in state.items():
                value.copy_(saved[name])
        for learner in learners:
            learner.resume()
        return int(head[_STEP])


def train_probes(
    groups: list[ProbeGroup],
    schedule: Schedule,
    *,
    order_seed: int,
    what: str,
    checkpoint: BankCheckpoint | None = None,
) -> list[LearningRecord]:
    """Train every group on the same texts; at the end, each probe has the weights of its best validation.

    Seeds differ in initial weights and dropout; `order_seed` sets the order of texts for all. With a checkpoint,
    stopped training resumes. On a CPU, groups are trained side by side, one on each core.
    """
    learners = [Learner(group, schedule) for group in groups]
    done = 0 if checkpoint is None else checkpoint.restore(learners)
    number = schedule.validations_by(done)
    with _steps(learners, order_seed, done) as steps, progress(what, schedule.max_steps - done) as advance:
        while done < schedule.max_steps and (
            running := [candidate for candidate in learners if candidate.running.any()]
        ):
            taken = steps.take(running, done)
            done += taken
            advance(taken)
            if done == schedule.end_of(number + 1):
                number += 1
                by_f1 = [errors(learner)[:, None] for learner in running] if schedule.selects == "f1" else None
                for learner, losses in zip(running, by_f1 or steps.losses(running), strict=True):
                    learner.validate(losses, number)
                if checkpoint is not None:
                    checkpoint.offer(done, learners)
    return [learner.finish() for learner in learners]


def errors(learner: Learner) -> np.ndarray:
    """1 minus the score of every member of the stack, by the task's own metric, on the texts that decide."""
    group = learner.group
    tally = DecisionTally.none(group.metric, len(learner.members), group.stop)
    for batch in group.streams[1].in_order():
        with torch.no_grad():
            tally.add(learner.probes.logits(batch.states, batch.spans), group.stop, batch.rows)
    return 1 - tally.value()


class _Steps(Protocol):
    """How learners take their steps."""

    def take(self, running: Sequence[Learner], done: int) -> int:
        """Some of the steps up to the next validation, after `done` steps; returns their number."""
        ...

    def losses(self, running: Sequence[Learner]) -> list[np.ndarray]:
        """[member, text] What every stopping text adds to the mean loss, of the members of every learner."""
        ...


@contextmanager
def _steps(learners: Sequence[Learner], order_seed: int, done: int) -> Iterator[_Steps]:
    streams = [stream for learner in learners for stream in learner.group.streams]
    device = streams[0].device
    if torch.device(device).type == "cuda" and all(stream.in_memory for stream in streams):
        with recording(device):
            yield RecordedSteps(learners, order_seed, done)
    else:
        with _side_by_side(learners) as start:
            yield _StepsByBatch(learners, order_seed, done, start)


class _StepsByBatch:
    """Batches are made one by one, some of them ahead."""

    def __init__(self, learners: Sequence[Learner], order_seed: int, done: int, start: _Start) -> None:
        self._streams = list(dict.fromkeys(learner.group.streams for learner in learners))
        self._schedule = learners[0].schedule
        self._start = start
        self._batches = _together(self._streams, [_endless(learn, order_seed, done) for learn, _ in self._streams])
        self._ready: list[_Batches] = []

    def take(self, running: Sequence[Learner], done: int) -> int:
        """See `_Steps.take`."""
        ready = self._ready or self._next(done)
        finish = self._start(_run, running, _pieces(ready, done))
        # While the cores are busy, the next batches are made.
        self._ready = self._next(done + len(ready))
        finish()
        return len(ready)

    def losses(self, running: Sequence[Learner]) -> list[np.ndarray]:
        """See `_Steps.losses`."""
        losses = [np.zeros((len(learner.members), len(learner.group.stop))) for learner in running]
        batches = _together(self._streams, [stop.in_order() for _, stop in self._streams])
        while ready := _ready(batches, _MANY):
            for number, results in enumerate(self._start(_losses, running, _pieces(ready, 0))()):
                for rows, part in results:
                    losses[number][:, rows] = part
        return [learner.losses_by_text(by_target) for learner, by_target in zip(running, losses, strict=True)]

    def _next(self, done: int) -> list[_Batches]:
        return _ready(self._batches, self._schedule.end_of(self._schedule.validations_by(done) + 1) - done)


def _run(learner: Learner, piece: _Piece) -> None:
    """A gradient step on every batch."""
    for number, batches in enumerate(piece[0], piece[1] + 1):
        learner.step(batches[learner.group.streams], number)


def _losses(learner: Learner, piece: _Piece) -> tuple[np.ndarray, np.ndarray]:
    """Some stopping targets by number, and the losses of every member on them."""
    rows, losses = [], []
    for batches in piece[0]:
        batch = batches[learner.group.streams]
        rows.append(batch.rows)
        losses.append(learner.stopping_losses(batch).double().cpu().numpy())
    return np.concatenate(rows), np.concatenate(losses, axis=1)


_Streams = tuple[Stream, Stream]
_Batches = Mapping[_Streams, ProbeBatch]
"""One batch of the same texts from every pair of streams."""
_Piece = tuple[Sequence[_Batches], int]
"""Some batches, and the number of steps before them."""
_READY_BYTES = 2**27
"""Of the states of batches that are made beforehand."""
_PIECE = 4
"""Batches that a learner takes at a time before another one has its turn."""


def _together(streams: Sequence[_Streams], iterators: Sequence[Iterator[ProbeBatch]]) -> Iterator[_Batches]:
    for batches in zip(*iterators, strict=True):
        yield dict(zip(streams, batches, strict=True))


def _ready(batches: Iterator[_Batches], most: int) -> list[_Batches]:
    """The next batches, as far as memory goes."""
    ready: list[_Batches] = []
    size = 0
    for step_batches in islice(batches, most):
        ready.append(step_batches)
        size += sum(batch.states.nbytes for batch in step_batches.values())
        if size >= _READY_BYTES:
            break
    return ready


def _pieces(ready: Sequence[_Batches], done: int) -> list[_Piece]:
    return [(ready[start : start + _PIECE], done + start) for start in range(0, len(ready), _PIECE)]


_MANY = 2**30

_Start = Callable[[Callable[[Learner, _Piece], Any], Sequence[Learner], Sequence[_Piece]], Callable[[], list[Any]]]
"""Starts work on every learner, piece by piece; what it returns waits for the results, by learner and piece."""


@contextmanager
def _side_by_side(learners: Sequence[Learner]) -> Iterator[_Start]:
    """On a CPU, each core works on one learner at a time; results are as one after the other."""
    cores = torch.get_num_threads()
    if cores == 1 or len(learners) == 1 or learners[0].group.streams[0].device != "cpu":
        yield lambda run, some, pieces: partial(_one_by_one, run, some, pieces)
        return
    try:
        # Here too: a second thread that waits for work would take a core from the learners.
        torch.set_num_threads(1)
        with ThreadPoolExecutor(cores, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield partial(_in_turn, pool)
    finally:
        torch.set_num_threads(cores)


def _one_by_one(run: Callable[..., Any], learners: Sequence[Learner], pieces: Sequence[_Piece]) -> list[list[Any]]:
    return [[run(learner, piece) for piece in pieces] for learner in learners]


def _in_turn(
    pool: ThreadPoolExecutor, run: Callable[..., Any], learners: Sequence[Learner], pieces: Sequence[_Piece]
) -> Callable[[], list[Any]]:
    """A learner whose piece is done queues up for its next one: no core waits before all are done."""
    results: list[list[Any]] = [[] for _ in learners]

    def go(learner_number: int, number: int) -> Future[Any] | None:
        results[learner_number].append(run(learners[learner_number], pieces[number]))
        return pool.submit(go, learner_number, number + 1) if number + 1 < len(pieces) else None

    first = [pool.submit(go, learner_number, 0) for learner_number in range(len(learners))] if pieces else []

    def finish() -> list[Any]:
        for first_piece in first:
            future: Future[Any] | None = first_piece
            while future is not None:
                future = future.result()
        return results

    return finish


def _state(learners: Sequence[Learner]) -> dict[str, Tensor]:
    states = enumerate(learner.state() for learner in learners)
    return {f"{number}/{name}": value for number, state in states for name, value in state.items()}


def _endless(stream: Stream, seed: int, done: int) -> Iterator[ProbeBatch]:
    """Batches, epoch after epoch, skipping those already done."""
    epoch, skip = divmod(done, stream.batches)
    while True:
        yield from stream.epoch(seed, epoch, skip=skip)
        epoch, skip = epoch + 1, 0


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
