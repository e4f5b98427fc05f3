"""Training a bank: all probes of a task at once, on one stream of batches, each with its own early stopping."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lamina.errors import DamagedError, WriteError
from lamina.files.checking import load_tensors, save_tensors
from lamina.probes.adam import StackedAdam
from lamina.probes.edge import HIDDEN, EdgeProbes
from lamina.probes.streams import Batch, Stream
from lamina.probes.targets import Targets
from lamina.progress import progress, say

SECONDS = 60.0
"""Seconds between checkpoints, the most a kill can lose. State is large (five times the weights), so it is not saved at
every validation."""
_STEP = "step"


class Checkpoint:
    """A file with the training state; written at some validations."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._saved = time.monotonic()
        self._told = False

    def offer(self, step: int, learners: Sequence[_Learner]) -> None:
        """Save the state after a step, unless one was saved recently; where it cannot be saved, training goes on."""
        if time.monotonic() - self._saved < SECONDS:
            return
        try:
            save_tensors(self._path, _state(learners), {_STEP: step})
        except WriteError as error:
            if not self._told:
                say(f"no checkpoint, training goes on: {error}")
            self._told = True
        self._saved = time.monotonic()

    def restore(self, learners: Sequence[_Learner]) -> int:
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


@dataclass(frozen=True)
class Schedule:
    """How probes are trained. The defaults are the pipeline paper's, but for what chooses the weights: loss, not F1."""

    learning_rate: float = 1e-4
    mixing_rate: float = 1.0
    """Learning rate of the mixing weights, as a multiple of the others'."""
    validate_every: int = 1000
    """Steps between validations."""
    max_validations: int = 250
    halve_after: int = 5
    """Validations without gain before the learning rate is halved."""
    stop_after: int = 20
    """Validations without gain before the probe stops: it has converged."""
    min_gain: float = 1e-4
    """Share of the lowest loss so far by which a validation has to be lower to count as a gain."""
    min_learning_rate: float = 1e-6
    """Below this, the rate is not halved any more."""
    clip: float = 5.0
    """Maximum gradient norm of a probe."""
    batch_texts: int = 32
    """Texts of a step."""
    batch_targets: int | None = None
    """About how many targets a step has, in whole texts; None: `batch_texts` texts."""
    hidden: int = HIDDEN
    """Width of the probe."""

    @property
    def max_steps(self) -> int:
        """Upper limit for all probes."""
        return self.validate_every * self.max_validations

    def describe(self) -> dict[str, float | int | None]:
        """Its fields, for provenance and keys."""
        return asdict(self)

    def texts_of(self, targets: Targets) -> int:
        """Texts of a step on these targets."""
        if self.batch_targets is None:
            return self.batch_texts
        carrying = len(np.unique(targets.text))
        return max(1, round(self.batch_targets * carrying / max(len(targets), 1)))


class Learned(NamedTuple):
    """How the training of a group's members went; each [member]."""

    loss: Float[np.ndarray, " member"]
    """The lowest on the texts that decide when to stop, that of the weights that were kept."""
    steps: Int[np.ndarray, " member"]
    best_step: Int[np.ndarray, " member"]
    """After which the weights were kept."""
    last_gain: Float[np.ndarray, " member"]
    """Share by which the last `stop_after` validations lowered the loss."""
    converged: Bool[np.ndarray, " member"]
    """Whether training ended because the loss fell no more; otherwise it was cut off by the most steps."""

    def of(self, members: np.ndarray) -> Learned:
        """Of these members only."""
        return Learned(*(each[members] for each in self))


Loss = Literal["binary", "categorical", "squared"]
"""Cross-entropy of a yes or no about every label; of one label out of all; or the squared error of a value."""


@dataclass(eq=False)
class Group:
    """Probes that learn the same labels from the same states and run as one module."""

    probes: EdgeProbes
    learn: Targets
    """What they learn: the labels may be others than the stream's own, as control labels are."""
    stop: Targets
    """What decides when they stop."""
    streams: tuple[Stream, Stream]
    """Of the same targets, for learning and for stopping. All groups trained together have the same texts in both."""
    loss: Loss = "binary"


class _Learner:
    """Training state of one group: optimiser, patience and best weights of each member.

    Members that have stopped cost nothing once they are half of the stack: the rest goes on in a smaller one.
    """

    def __init__(self, group: Group, schedule: Schedule) -> None:
        device = group.streams[0].device
        self.group = group
        self.schedule = schedule
        self.full = group.probes.to(device)
        self.probes = self.full
        count = len(self.full.cuts)
        self.members = np.arange(count)
        """Those still in the stack."""
        self.stacked = np.ones(count, bool)
        """The same, one yes or no per member."""
        self.optimiser = self._optimiser()
        self.rates = np.full(count, schedule.learning_rate)
        self.since = np.zeros(count, int)
        self.running = np.ones(count, bool)
        self.best_step = np.zeros(count, int)
        self.history = np.full((schedule.max_validations, count), np.nan)
        """[validation, member] The lowest loss so far."""
        self.kept = {name: value.detach().clone() for name, value in self.full.named_parameters()}
        self.unit = _unit(group) if group.loss == "squared" else (0.0, 1.0)
        self._learn, self._stop = (_told(each, group.loss, self.unit, device) for each in (group.learn, group.stop))

    def run(self, piece: _Piece) -> None:
        """A gradient step on every batch."""
        for number, batches in enumerate(piece[0], piece[1] + 1):
            self.step(batches[self.group.streams], number)

    def step(self, batch: Batch, number: int) -> None:
        """One gradient step of every member still running."""
        logits = self.probes(batch, self.probes.draw_masks(batch, number))
        sums, count = _losses(logits, self._learn, batch.rows, self.group.loss)
        (sums / count.clamp_min(1)).sum().backward()
        rates = np.where(self.running, self.rates, 0.0)[self.members]
        self.optimiser.step(rates, self.schedule.clip)

    def losses(self, piece: _Piece) -> tuple[Float[np.ndarray, " member"], float]:
        """Sums of every member's loss in the stack over some stopping texts, and how much they are of."""
        total, asked = torch.zeros(len(self.members), dtype=torch.float64), 0.0
        with torch.no_grad():
            for batches in piece[0]:
                batch = batches[self.group.streams]
                sums, count = _losses(self.probes(batch), self._stop, batch.rows, self.group.loss)
                total += sums.double().cpu()
                asked += float(count)
        return total.numpy(), asked

    def validate(self, losses: Float[np.ndarray, " member"], number: int) -> None:
        """Process the losses of validation `number` (from 1): keep weights that improve, slow down or stop others."""
        told = np.full(len(self.running), np.inf)
        told[self.members] = losses
        before = self.history[number - 2] if number > 1 else np.full(len(told), np.inf)
        better = self.running & (told < before * (1 - self.schedule.min_gain))
        self._keep(np.flatnonzero(better))
        self.best_step[better] = number * self.schedule.validate_every
        self.history[number - 1] = np.where(better, told, before)
        self.since = np.where(better, 0, self.since + self.running)
        halved = self.running & (self.since > 0) & (self.since % self.schedule.halve_after == 0)
        self.rates = np.where(halved, np.maximum(self.rates / 2, self.schedule.min_learning_rate), self.rates)
        self.running &= self.since < self.schedule.stop_after
        self.shrink()

    def shrink(self) -> None:
        """Leave stopped members behind where at least half of the stack has stopped."""
        left = np.flatnonzero(self.running[self.members])
        # With several seeds in one stack, which a GPU has, the seeds must keep the same number of members.
        if len(self.full.seeds) > 1 or not len(left) or 2 * len(left) > len(self.members):
            return
        self._go_on_with(left)

    def resume(self) -> None:
        """Have the stack that the restored state was saved with: in another one, numbers would round otherwise."""
        if not self.stacked.all():
            self._go_on_with(np.flatnonzero(self.stacked))

    def _go_on_with(self, left: np.ndarray) -> None:
        """Members of the stack, by their places in it."""
        few = left.tolist()
        self.probes = self.probes.some(few)
        self.optimiser = self._optimiser(few)
        self.members = self.members[left]
        self.stacked = np.isin(np.arange(len(self.stacked)), self.members)

    def state(self) -> dict[str, Tensor]:
        """Everything one validation passes to the next.

        As long as all members are in the stack, the tensors and arrays themselves; after that, copies with what has
        been left behind as zeros.
        """
        weights, adam = dict(self.probes.named_parameters()), self.optimiser.state()
        if len(self.members) < len(self.running):
            sizes = {name: len(value) for name, value in self.full.named_parameters()}
            of = list(sizes.values())
            weights = {name: self._widened(value, sizes[name]) for name, value in weights.items()}
            adam = {
                # Moments are named by the number of their parameter.
                name: value if name == "steps" else self._widened(value, of[int(name.partition("/")[0])])
                for name, value in adam.items()
            }
        told = {
            name: torch.from_numpy(getattr(self, name))
            for name in ("rates", "since", "running", "best_step", "history", "stacked")
        }
        parts = {"weights": weights, "kept": self.kept, "adam": adam, "told": told}
        return {f"{part}/{name}": value for part, own in parts.items() for name, value in own.items()}

    def finish(self) -> Learned:
        """Give every member its best weights; of graded targets, in the values' own unit."""
        with torch.no_grad():
            for name, value in self.full.named_parameters():
                value.copy_(self.kept[name])
            mean, deviation = self.unit
            self.full.outer.mul_(deviation)
            self.full.outer_bias.mul_(deviation).add_(mean)
        self.full.zero_grad(set_to_none=True)
        return self._learned()

    def _learned(self) -> Learned:
        done = (~np.isnan(self.history)).any(1).sum()
        steps = np.empty(len(self.running), int)
        gain = np.full(len(self.running), np.nan)
        for member in range(len(self.running)):
            # A member that has stopped has the same lowest loss ever after: it was trained `since` validations longer.
            last = min(done, self.best_step[member] // self.schedule.validate_every + self.since[member])
            steps[member] = last * self.schedule.validate_every
            own = self.history[:last, member]
            if len(own):
                before = own[max(0, len(own) - 1 - self.schedule.stop_after)]
                # Infinite where no loss has been a number.
                with np.errstate(invalid="ignore"):
                    gain[member] = (before - own[-1]) / abs(before) if before else 0.0
        loss = self.history[done - 1] if done else np.full(len(self.running), np.nan)
        return Learned(loss, steps, self.best_step, gain, ~self.running & np.isfinite(loss))

    def _optimiser(self, some: list[int] | None = None) -> StackedAdam:
        parameters = list(self.probes.parameters())
        if some is not None:
            return self.optimiser.some(parameters, some)
        boosts = {
            at: self.schedule.mixing_rate
            for at, (name, _) in enumerate(self.probes.named_parameters())
            if name in ("mix", "gamma")
        }
        return StackedAdam(parameters, len(self.members), boosts)

    def _widened(self, value: Tensor, members: int) -> Tensor:
        whole = torch.zeros(members, *value.shape[1:], dtype=value.dtype, device=value.device)
        whole[self.members[self.members < members]] = value.detach()
        return whole

    def _keep(self, members: np.ndarray) -> None:
        place = {member: at for at, member in enumerate(self.members.tolist())}
        for name, value in self.probes.named_parameters():
            # Only cumulative members, which come first, have mixing weights.
            some = [member for member in members.tolist() if member < len(self.kept[name])]
            self.kept[name][some] = value.detach()[[place[member] for member in some]]


def train(
    groups: list[Group],
    schedule: Schedule,
    *,
    order_seed: int,
    what: str,
    checkpoint: Checkpoint | None = None,
) -> list[Learned]:
    """Train every group on the same texts; at the end, each probe has the weights of its best validation.

    Seeds differ in initial weights and dropout; `order_seed` sets the order of texts for all. With a checkpoint,
    stopped training resumes. On a CPU, groups are trained side by side, one on each core.
    """
    learners = [_Learner(group, schedule) for group in groups]
    done = 0 if checkpoint is None else checkpoint.restore(learners)
    streams = list(dict.fromkeys(group.streams for group in groups))
    every = schedule.validate_every
    with _side_by_side(learners) as start, progress(what, schedule.max_steps - done) as advance:
        batches = _together(streams, [_endless(learn, order_seed, done) for learn, _ in streams])
        ready = _ready(batches, every - done % every)
        while ready and done < schedule.max_steps:
            running = [learner for learner in learners if learner.running.any()]
            if not running:
                break
            finish = start(_Learner.run, running, _pieces(ready, done))
            before, done = done, done + len(ready)
            # While the cores are busy, the next batches are made.
            ready = _ready(batches, every - done % every)
            finish()
            advance(done - before)
            if done % every == 0:
                for learner, losses in zip(running, _validated(running, streams, start), strict=True):
                    learner.validate(losses, done // every)
                if checkpoint is not None:
                    checkpoint.offer(done, learners)
    return [learner.finish() for learner in learners]


_Streams = tuple[Stream, Stream]
_Batches = Mapping[_Streams, Batch]
"""One batch of the same texts from every pair of streams."""
_Piece = tuple[Sequence[_Batches], int]
"""Some batches, and the number of steps before them."""
_READY_BYTES = 2**27
"""Of the states of batches that are made beforehand."""
_PIECE = 4
"""Batches that a learner takes at a time before another one has its turn."""


def _together(streams: Sequence[_Streams], each: Sequence[Iterator[Batch]]) -> Iterator[_Batches]:
    for batches in zip(*each, strict=True):
        yield dict(zip(streams, batches, strict=True))


def _ready(batches: Iterator[_Batches], most: int) -> list[_Batches]:
    """The next batches, as far as memory goes."""
    made: list[_Batches] = []
    held = 0
    for each in islice(batches, most):
        made.append(each)
        held += sum(batch.states.nbytes for batch in each.values())
        if held >= _READY_BYTES:
            break
    return made


def _pieces(ready: Sequence[_Batches], done: int) -> list[_Piece]:
    return [(ready[at : at + _PIECE], done + at) for at in range(0, len(ready), _PIECE)]


def _validated(learners: list[_Learner], streams: Sequence[_Streams], start: _Start) -> list[np.ndarray]:
    """The mean stopping loss of every member of every learner."""
    sums: list[np.ndarray] = [np.zeros(len(learner.members)) for learner in learners]
    asked = np.zeros(len(learners))
    batches = _together(streams, [stop.in_order() for _, stop in streams])
    while ready := _ready(batches, _MANY):
        for at, told in enumerate(start(_Learner.losses, learners, _pieces(ready, 0))()):
            sums[at] = sums[at] + sum(total for total, _ in told)
            asked[at] += sum(count for _, count in told)
    return [total / max(count, 1.0) for total, count in zip(sums, asked, strict=True)]


_MANY = 2**30

_Start = Callable[[Callable[[_Learner, _Piece], Any], Sequence[_Learner], Sequence[_Piece]], Callable[[], list[Any]]]
"""Starts work on every learner, piece by piece; what it returns waits for the results, by learner and piece."""


@contextmanager
def _side_by_side(learners: Sequence[_Learner]) -> Iterator[_Start]:
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


def _one_by_one(run: Callable[..., Any], learners: Sequence[_Learner], pieces: Sequence[_Piece]) -> list[list[Any]]:
    return [[run(learner, piece) for piece in pieces] for learner in learners]


def _in_turn(
    pool: ThreadPoolExecutor, run: Callable[..., Any], learners: Sequence[_Learner], pieces: Sequence[_Piece]
) -> Callable[[], list[Any]]:
    """A learner whose piece is done queues up for its next one: no core waits before all are done."""
    told: list[list[Any]] = [[] for _ in learners]

    def go(at: int, number: int) -> Future[Any] | None:
        told[at].append(run(learners[at], pieces[number]))
        return pool.submit(go, at, number + 1) if number + 1 < len(pieces) else None

    first = [pool.submit(go, at, 0) for at in range(len(learners))] if pieces else []

    def finish() -> list[Any]:
        for each in first:
            future: Future[Any] | None = each
            while future is not None:
                future = future.result()
        return told

    return finish


class _Told(NamedTuple):
    """What targets are compared with."""

    gold: Tensor
    """[target, label] As numbers: 1 where a label holds, or the value in its unit."""
    rated: Tensor
    """[target, label] Which decisions count."""


def _told(targets: Targets, loss: Loss, unit: tuple[float, float], device: str) -> _Told:
    if loss == "squared":
        values = (np.asarray(targets.values)[:, None] - unit[0]) / unit[1]
        return _Told(torch.from_numpy(values).float().to(device), torch.from_numpy(targets.rated).float().to(device))
    return _Told(*(torch.from_numpy(each).float().to(device) for each in (targets.gold, targets.rated)))


def _unit(group: Group) -> tuple[float, float]:
    """Mean and deviation of the values learned from."""
    values = np.asarray(group.learn.values)
    return float(values.mean()), float(values.std()) or 1.0


def _losses(
    logits: Float[Tensor, "member target label"], told: _Told, rows: np.ndarray, loss: Loss
) -> tuple[Float[Tensor, " member"], Tensor]:
    """Every member's loss, summed over what counts, and how much that is."""
    at = torch.from_numpy(rows).to(logits.device)
    gold, rated = told.gold[at], told.rated[at]
    if loss == "categorical":
        asked = rated[:, 0]
        each = -(logits.log_softmax(-1) * gold).sum(-1)
        return (each * asked).sum(1), asked.sum()
    if loss == "squared":
        return ((logits - gold).square() * rated).sum((1, 2)), rated.sum()
    each = torch.nn.functional.binary_cross_entropy_with_logits(logits, gold.expand_as(logits), rated, reduction="none")
    return each.sum((1, 2)), rated.sum()


def _state(learners: Sequence[_Learner]) -> dict[str, Tensor]:
    each = enumerate(learner.state() for learner in learners)
    return {f"{number}/{name}": value for number, state in each for name, value in state.items()}


def _endless(stream: Stream, seed: int, done: int) -> Iterator[Batch]:
    """Batches, epoch after epoch, skipping those already done."""
    epoch, skip = divmod(done, stream.batches)
    while True:
        yield from stream.epoch(seed, epoch, skip=skip)
        epoch, skip = epoch + 1, 0
