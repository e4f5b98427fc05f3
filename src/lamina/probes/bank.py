"""Training a bank: every probe of a task at once, over one stream of batches, each with its own stopping."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from lamina.probes.adam import StackedAdam
from lamina.probes.edge import EdgeProbes
from lamina.probes.resuming import Checkpoint
from lamina.probes.scoring import Counts, count_decisions
from lamina.probes.streams import Batch, Stream
from lamina.probes.targets import Targets
from lamina.progress import progress


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train. The defaults are the pipeline paper's; `quick` fits a laptop."""

    learning_rate: float = 1e-4
    validate_every: int = 1000
    """Steps between validations."""
    max_validations: int = 250
    halve_after: int = 5
    """Validations without gain until the learning rate is halved."""
    stop_after: int = 20
    """Validations without gain until the probe stops."""
    min_gain: float = 1e-4
    min_learning_rate: float = 1e-6
    clip: float = 5.0
    """Largest norm of a probe's gradient."""
    batch_texts: int = 32

    @property
    def max_steps(self) -> int:
        """After which every probe has stopped."""
        return self.validate_every * self.max_validations


PAPER = Schedule()
PAPER_SMALL = Schedule(validate_every=100, max_validations=100)
"""For tasks with little data."""
QUICK = Schedule(learning_rate=2e-3, validate_every=40, max_validations=4, halve_after=2, batch_texts=16)


@dataclass(eq=False)
class Group:
    """Probes that learn the same labels; they run as one program."""

    probes: EdgeProbes
    gold: Bool[np.ndarray, "target label"]
    """The training targets' labels: the task's own, or control labels."""
    valid: Targets
    """The targets that decide when to stop, with the group's own labels: spans and texts are the same for all."""


class _Learner:
    """One group while it learns: optimiser, patience and best weights of each member."""

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
        """Take a validation's scores: keep what is better, slow down or stop what is not."""
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
        """All that one validation hands to the next; the tensors and arrays themselves, no copies."""
        parts = {"weights": dict(self.probes.named_parameters()), "kept": self.kept, "adam": self.optimiser.state()}
        told = {"rates": self.rates, "best": self.best, "since": self.since, "running": self.running}
        parts["told"] = {name: torch.from_numpy(value) for name, value in told.items()}
        return {f"{part}/{name}": value for part, own in parts.items() for name, value in own.items()}

    def finish(self) -> None:
        """Put every member's best weights in place."""
        with torch.no_grad():
            for name, value in self.probes.named_parameters():
                value.copy_(self.kept[name])
        self.probes.zero_grad(set_to_none=True)

    def _keep(self, members: np.ndarray) -> None:
        for name, value in self.probes.named_parameters():
            # Mixing weights are there for cumulative members only, which come first.
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
    """Train every group on the same batches; when done, each probe has the weights of its best validation.

    Returns each group's best validation scores, by member.

    Seeds differ in initial weights and dropout; the order of texts is that of `order_seed` for all. With a
    checkpoint, training that was stopped goes on from there.
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
    """Binary cross-entropy of every member, mean over the decisions that annotators made."""
    each = torch.nn.functional.binary_cross_entropy_with_logits(
        logits, gold.float().expand_as(logits), weight=rated.float(), reduction="none"
    )
    return each.sum((1, 2)) / rated.sum().clamp_min(1)


def _state(learners: list[_Learner]) -> dict[str, Tensor]:
    each = enumerate(learner.state() for learner in learners)
    return {f"{number}/{name}": value for number, state in each for name, value in state.items()}


def _endless(stream: Stream, seed: int, done: int) -> Iterator[Batch]:
    """Batches, epoch after epoch, without those already done."""
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
