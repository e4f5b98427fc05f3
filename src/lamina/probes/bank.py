"""Training a bank: all probes of a task at once, on one stream of batches, each with its own early stopping."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.optim.adam import adam

from lamina.errors import DamagedError, WriteError
from lamina.files.checking import load_tensors, save_tensors
from lamina.probes.edge import EdgeProbes
from lamina.probes.streams import Batch, Stream
from lamina.probes.targets import Counts, Targets, count_decisions
from lamina.progress import progress, say


class StackedAdam:
    """Adam for stacked parameters; the first dimension is the member.

    torch's fused Adam does the arithmetic. Members with the same learning rate (usually all of them) are updated in
    one call.
    """

    def __init__(self, parameters: list[torch.nn.Parameter], members: int) -> None:
        self._parameters = parameters
        self._members = members
        self._moments = [tuple(torch.zeros_like(p) for _ in range(3)) for p in parameters]
        self._steps = torch.zeros(1, dtype=torch.float64)

    def state(self) -> dict[str, Tensor]:
        """Everything one step passes to the next, apart from the parameters; the tensors themselves, not copies."""
        moments = {f"{at}/{which}": m for at, own in enumerate(self._moments) for which, m in enumerate(own)}
        return moments | {"steps": self._steps}

    def step(self, rates: np.ndarray, clip: float) -> None:
        """Clip each member's gradient, update each with its own rate (0: not at all), and clear the gradients.

        A parameter may belong to the first members only, as mixing weights do.
        """
        self._clip(clip)
        for rate in sorted(set(rates.tolist()) - {0.0}):
            members = np.flatnonzero(rates == rate)
            self._update(None if len(members) == self._members else members.tolist(), rate)
        self._steps += 1
        for parameter in self._parameters:
            parameter.grad = None

    def _clip(self, most: float) -> None:
        device = self._parameters[0].device
        squares = torch.zeros(self._members, device=device)
        for parameter in self._parameters:
            grad = _grad(parameter)
            squares[: len(grad)] += grad.flatten(1).square().sum(1) if grad.dim() > 1 else grad.square()
        scale = (most / squares.sqrt().clamp_min(1e-12)).clamp_max(1.0)
        if bool((scale < 1).any()):
            for parameter in self._parameters:
                grad = _grad(parameter)
                grad *= scale[: len(grad)].view(-1, *[1] * (grad.dim() - 1))

    def _update(self, members: list[int] | None, rate: float) -> None:
        chosen: list[tuple[Tensor, ...]] = []
        for parameter, moments in zip(self._parameters, self._moments, strict=True):
            whole = (parameter.detach(), _grad(parameter), *moments)
            if members is None:
                chosen.append(whole)
            else:
                chosen += [tuple(t[m] for t in whole) for m in members if m < len(parameter)]
        values, grads, first, second, most = (list(each) for each in zip(*chosen, strict=True))
        # A 0-dimensional view (one member's gamma) is updated like any other tensor.
        steps = [torch.tensor(float(self._steps), device=values[0].device) for _ in values]
        with torch.no_grad():
            adam(
                values, grads, first, second, most, steps,
                fused=True, amsgrad=True, beta1=0.9, beta2=0.999, lr=rate, weight_decay=0.0, eps=1e-8, maximize=False,
            )  # fmt: skip


def _grad(parameter: torch.nn.Parameter) -> Tensor:
    return parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)


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

    def offer(self, step: int, state: dict[str, Tensor]) -> None:
        """Save the state after a step, unless one was saved recently; where it cannot be saved, training goes on."""
        if time.monotonic() - self._saved < SECONDS:
            return
        try:
            save_tensors(self._path, state, {_STEP: step})
        except WriteError as error:
            if not self._told:
                say(f"no checkpoint, training goes on: {error}")
            self._told = True
        self._saved = time.monotonic()

    def restore(self, state: dict[str, Tensor]) -> int:
        """Load the saved state into these tensors; returns the step it was saved after, 0 if nothing fits."""
        try:
            saved, head = load_tensors(self._path)
        except FileNotFoundError:
            return 0
        except (OSError, DamagedError) as error:
            say(f"{error}; its training starts again")
            return 0
        if any(name not in saved or saved[name].shape != value.shape for name, value in state.items()):
            # From another device, which groups probes differently.
            return 0
        with torch.no_grad():
            for name, value in state.items():
                value.copy_(saved[name])
        return int(head[_STEP])


@dataclass(frozen=True)
class Schedule:
    """Training length and learning rate. The defaults are the pipeline paper's; `quick` suits a laptop."""

    learning_rate: float = 1e-4
    validate_every: int = 1000
    """Steps between validations."""
    max_validations: int = 250
    halve_after: int = 5
    """Validations without gain before the learning rate is halved."""
    stop_after: int = 20
    """Validations without gain before the probe stops."""
    min_gain: float = 1e-4
    min_learning_rate: float = 1e-6
    clip: float = 5.0
    """Maximum gradient norm of a probe."""
    batch_texts: int = 32

    @property
    def max_steps(self) -> int:
        """Upper limit for all probes."""
        return self.validate_every * self.max_validations


PAPER = Schedule()
PAPER_SMALL = Schedule(validate_every=100, max_validations=100)
"""For tasks with little data."""
QUICK = Schedule(learning_rate=2e-3, validate_every=40, max_validations=4, halve_after=2, batch_texts=16)


@dataclass(eq=False)
class Group:
    """Probes that learn the same labels and run as one module."""

    probes: EdgeProbes
    gold: Bool[np.ndarray, "target label"]
    """The training targets' labels: the task's own, or control labels."""
    valid: Targets
    """The targets for early stopping, with the group's own labels; spans and texts are the same for all groups."""


class _Learner:
    """Training state of one group: optimiser, patience and best weights of each member."""

    def __init__(self, group: Group, rated: np.ndarray, schedule: Schedule, device: str) -> None:
        self.group = group
        self.probes = group.probes.to(device)
        self.schedule = schedule
        count = len(self.probes.cuts)
        self.optimiser = StackedAdam(list(self.probes.parameters()), count)
        self.rates = np.full(count, schedule.learning_rate)
        self.best = np.full(count, -np.inf)
        self.since = np.zeros(count, int)
        self.running = np.ones(count, bool)
        self.kept = {name: value.detach().clone() for name, value in self.probes.named_parameters()}
        self._gold = torch.from_numpy(group.gold).to(device)
        self._rated = torch.from_numpy(rated).to(device)

    def step(self, batch: Batch, number: int) -> None:
        """One gradient step of every member still running."""
        masks = self.probes.draw_masks(batch, number)
        logits = self.probes(batch, masks)
        rows = torch.from_numpy(batch.rows).to(logits.device)
        loss = bce(logits, self._gold[rows], self._rated[rows])
        loss.sum().backward()
        self.optimiser.step(np.where(self.running, self.rates, 0.0), self.schedule.clip)

    def validate(self, counts: Counts) -> None:
        """Process validation scores: keep weights that improve, slow down or stop members that do not."""
        scores = counts.f1()
        better = self.running & (scores > self.best + self.schedule.min_gain)
        self._keep(np.flatnonzero(better))
        self.best = np.where(better, scores, self.best)
        self.since = np.where(better, 0, self.since + 1)
        halved = self.running & (self.since > 0) & (self.since % self.schedule.halve_after == 0)
        self.rates = np.where(halved, self.rates / 2, self.rates)
        tired = (self.since >= self.schedule.stop_after) | (self.rates < self.schedule.min_learning_rate)
        self.running &= ~tired

    def state(self) -> dict[str, Tensor]:
        """Everything one validation passes to the next; the tensors and arrays themselves, not copies."""
        parts = {"weights": dict(self.probes.named_parameters()), "kept": self.kept, "adam": self.optimiser.state()}
        told = {"rates": self.rates, "best": self.best, "since": self.since, "running": self.running}
        parts["told"] = {name: torch.from_numpy(value) for name, value in told.items()}
        return {f"{part}/{name}": value for part, own in parts.items() for name, value in own.items()}

    def finish(self) -> None:
        """Restore every member's best weights."""
        with torch.no_grad():
            for name, value in self.probes.named_parameters():
                value.copy_(self.kept[name])
        self.probes.zero_grad(set_to_none=True)

    def _keep(self, members: np.ndarray) -> None:
        for name, value in self.probes.named_parameters():
            # Only cumulative members, which come first, have mixing weights.
            some = members[members < len(value)]
            self.kept[name][some] = value.detach()[some]


def train(
    groups: list[Group],
    stream: Stream,
    valid: Stream,
    schedule: Schedule,
    *,
    order_seed: int,
    what: str,
    checkpoint: Checkpoint | None = None,
) -> list[np.ndarray]:
    """Train every group on the same batches; at the end, each probe has the weights of its best validation.

    Returns each group's best validation scores, by member.

    Seeds differ in initial weights and dropout; `order_seed` sets the order of texts for all. With a checkpoint,
    stopped training resumes.
    """
    device = stream.device
    learners = [_Learner(group, stream.targets.rated, schedule, device) for group in groups]
    done = 0 if checkpoint is None else checkpoint.restore(_state(learners))
    batches = _endless(stream, order_seed, done)
    with progress(what, schedule.max_steps - done) as advance:
        for number in range(done + 1, schedule.max_steps + 1):
            running = [learner for learner in learners if learner.running.any()]
            if not running:
                break
            batch = next(batches)
            for learner in running:
                learner.step(batch, number)
            if number % schedule.validate_every == 0:
                for learner, counts in zip(running, _validated(running, valid), strict=True):
                    learner.validate(counts)
                if checkpoint is not None:
                    checkpoint.offer(number, _state(learners))
            advance()
    for learner in learners:
        learner.finish()
    return [learner.best for learner in learners]


def bce(
    logits: Float[Tensor, "member target label"],
    gold: Bool[Tensor, "target label"],
    rated: Bool[Tensor, "target label"],
) -> Float[Tensor, " member"]:
    """Binary cross-entropy of every member, averaged over the rated decisions."""
    each = torch.nn.functional.binary_cross_entropy_with_logits(
        logits, gold.float().expand_as(logits), weight=rated.float(), reduction="none"
    )
    return each.sum((1, 2)) / rated.sum().clamp_min(1)


def _state(learners: list[_Learner]) -> dict[str, Tensor]:
    each = enumerate(learner.state() for learner in learners)
    return {f"{number}/{name}": value for number, state in each for name, value in state.items()}


def _endless(stream: Stream, seed: int, done: int) -> Iterator[Batch]:
    """Batches, epoch after epoch, skipping those already done."""
    epoch, skip = divmod(done, stream.batches)
    while True:
        yield from stream.epoch(seed, epoch, skip=skip)
        epoch, skip = epoch + 1, 0


def _validated(learners: list[_Learner], valid: Stream) -> list[Counts]:
    counts = [Counts.none(len(learner.probes.cuts), valid.targets.texts) for learner in learners]
    with torch.no_grad():
        for batch in valid.in_order():
            for learner, counted in zip(learners, counts, strict=True):
                decided = learner.probes(batch) >= 0
                count_decisions(counted, decided, learner.group.valid, batch.rows)
    return counts
