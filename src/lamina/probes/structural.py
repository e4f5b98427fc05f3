"""Structural probes: trees as squared distances and depths under a learned linear map (Hewitt and Manning 2019).

A bank trains all layers, ranks and seeds together, distances and depths alike: one stream of sentences, one product per
rank and step for all layers. The gradients are written by hand. With S the signs of the errors of a sentence's squared
distances, the gradient of the projected words P is 4 L P, where L is the Laplacian of S, so that the differences of all
pairs of words are never made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lamina.probes.learner import StackedAdam

Kind = Literal["distance", "depth"]


@dataclass(frozen=True)
class StructuralSchedule:
    """How structural probes are trained."""

    learning_rate: float = 2e-2
    batch: int = 32
    """Sentences per step."""
    validate_every: int | None = 50
    """Steps between validations, fewer where an epoch has fewer; None: an epoch."""
    max_validations: int = 60
    decay: float = 0.4
    """What the rate is multiplied by after `wait` validations without gain."""
    wait: int = 1
    stop_after: int = 5
    """Validations without gain before a probe stops: it has converged."""
    min_gain: float = 1e-3
    """Share of the lowest loss so far by which a validation has to be lower to count as a gain."""
    absolute_gain: bool = False
    """Whether `min_gain` is a difference, rather than a share."""
    start: float | None = None
    """Maps start uniform between minus this and this; None: so that squared distances are about those of trees."""
    pooled: bool = True
    """Whether sentences of a batch have about the same length: fewer steps on padding."""

    def describe(self) -> dict[str, Any]:
        """For provenance."""
        return asdict(self)


PAPER = StructuralSchedule(
    learning_rate=1e-3, batch=20, validate_every=None, max_validations=40, decay=0.1, wait=1, stop_after=5,
    min_gain=1e-4, absolute_gain=True, start=0.05, pooled=False,
)  # fmt: skip
"""That of the released code: the rate falls to a tenth with every epoch whose loss is not lower."""


@dataclass(frozen=True, eq=False)
class TreeSentences:
    """Words of many sentences at several layers, one sentence after the other, and their trees."""

    vectors: Float[Tensor, "layer word width"]
    starts: Int[np.ndarray, " sentence"]
    sizes: Int[np.ndarray, " sentence"]
    distances: Sequence[np.ndarray]
    """Links between each two words of each sentence."""
    depths: Sequence[np.ndarray]
    """Links from each word of each sentence to the root."""

    def __len__(self) -> int:
        return len(self.sizes)

    def batch(self, numbers: Int[np.ndarray, " sentence"]) -> TreeBatch:
        """Some sentences, ready for a step."""
        device = self.vectors.device
        sizes = self.sizes[numbers]
        longest = int(sizes.max())
        inside = np.arange(longest) < sizes[:, None]
        rows = (self.starts[numbers][:, None] + np.arange(longest))[inside]
        distances = np.zeros((len(numbers), longest, longest), np.float32)
        depths = np.zeros((len(numbers), longest), np.float32)
        for row, number in enumerate(numbers):
            size = sizes[row]
            distances[row, :size, :size] = self.distances[number]
            depths[row, :size] = self.depths[number]
        places = torch.from_numpy(np.flatnonzero(inside)).to(device)
        there = torch.from_numpy(inside).to(device)
        return TreeBatch(
            self.vectors.index_select(1, torch.from_numpy(rows).to(device)).float(),
            places,
            there,
            torch.from_numpy(sizes.astype(np.float32)).to(device),
            torch.from_numpy(distances).to(device),
            torch.from_numpy(depths).to(device),
        )


class TreeBatch(NamedTuple):
    """Some sentences: their words without padding, their trees with padding."""

    words: Float[Tensor, "layer word width"]
    places: Int[Tensor, " word"]
    """Where each word is in the padded sentences."""
    inside: Bool[Tensor, "sentence longest"]
    sizes: Float[Tensor, " sentence"]
    distances: Float[Tensor, "sentence longest longest"]
    depths: Float[Tensor, "sentence longest"]

    def padded(self, projected: Float[Tensor, "layer word rank"]) -> Float[Tensor, "layer sentence longest rank"]:
        """Projected words by sentence, zeros as padding."""
        layers, _, rank = projected.shape
        room = projected.new_zeros(layers, self.inside.numel(), rank)
        return room.index_copy_(1, self.places, projected).view(layers, *self.inside.shape, rank)

    def packed(self, padded: Float[Tensor, "layer sentence longest rank"]) -> Float[Tensor, "layer word rank"]:
        """The inverse of `padded`."""
        return padded.flatten(1, 2).index_select(1, self.places)


def squared_distances(projected: Float[Tensor, "*any word rank"]) -> Float[Tensor, "*any word word"]:
    """Between all words, from their products.

    Example:
        >>> squared_distances(torch.tensor([[0.0, 0.0], [3.0, 4.0]])).tolist()
        [[0.0, 25.0], [25.0, 0.0]]
    """
    products = projected @ projected.transpose(-1, -2)
    squares = products.diagonal(dim1=-2, dim2=-1)
    return (squares.unsqueeze(-1) + squares.unsqueeze(-2) - 2 * products).clamp_min(0)


class TreeLoss(NamedTuple):
    """Of the sentences of a batch, and what it asks of the projected words."""

    by_sentence: Float[Tensor, "layer sentence"]
    gradient: Float[Tensor, "layer sentence longest rank"]
    """Of the mean over the batch's sentences."""


def distance_loss(projected: Float[Tensor, "layer sentence longest rank"], batch: TreeBatch) -> TreeLoss:
    """Mean absolute error of squared distances, over all pairs of a sentence."""
    errors = squared_distances(projected) - batch.distances
    pairs = batch.inside.unsqueeze(1) & batch.inside.unsqueeze(2)
    errors *= pairs
    weight = batch.sizes.square().reciprocal()
    signs = errors.sign() * (weight / len(weight)).view(-1, 1, 1)
    gradient = 4 * (signs.sum(-1, keepdim=True) * projected - signs @ projected)
    return TreeLoss(errors.abs().sum((-1, -2)) * weight, gradient)


def depth_loss(projected: Float[Tensor, "layer sentence longest rank"], batch: TreeBatch) -> TreeLoss:
    """Mean absolute error of squared norms as depths, over the words of a sentence."""
    errors = (projected.square().sum(-1) - batch.depths) * batch.inside
    weight = batch.sizes.reciprocal()
    signs = errors.sign() * (weight / len(weight)).unsqueeze(-1)
    return TreeLoss(errors.abs().sum(-1) * weight, 2 * signs.unsqueeze(-1) * projected)


_LOSSES = {"distance": distance_loss, "depth": depth_loss}


class StructuralGroup(NamedTuple):
    """Probes that differ in their layer alone."""

    kind: Kind
    rank: int
    seed: int


class TrainedMaps(NamedTuple):
    """The probes of a group, all layers."""

    maps: Float[Tensor, "layer width rank"]
    losses: Float[np.ndarray, " layer"]
    """The lowest loss on stopping sentences."""
    converged: Bool[np.ndarray, " layer"]
    epochs: Float[np.ndarray, " layer"]


class _LearningMaps:
    """One group while it learns: its maps, optimiser, and what each layer's probe has reached."""

    def __init__(
        self, group: StructuralGroup, layers: int, width: int, schedule: StructuralSchedule, device: torch.device
    ) -> None:
        self.group, self._schedule = group, schedule
        draw = torch.Generator().manual_seed(1000 * group.seed + group.rank * 2 + (group.kind == "depth"))
        # The same start for all layers: what differs between them is the layer.
        drawn = 2 * torch.rand(width, group.rank, generator=draw) - 1
        start = drawn * ((6.0 / group.rank) ** 0.5 if schedule.start is None else schedule.start)
        self._set_maps(start.expand(layers, -1, -1).contiguous().to(device))
        self._adam = StackedAdam([self.maps], layers, amsgrad=False)
        self.going = np.arange(layers)
        """Layers whose probes still learn; `maps` are theirs."""
        self.best = self.maps.detach().clone()
        self.lowest = np.full(layers, np.inf)
        self.waited = np.zeros(layers, int)
        self.rates = np.full(layers, schedule.learning_rate)
        self.stopped = np.zeros(layers, bool)
        self.epochs = np.zeros(layers)

    def _set_maps(self, maps: Tensor) -> None:
        self.maps = torch.nn.Parameter(maps, requires_grad=False)

    def words(self, batch: TreeBatch) -> Float[Tensor, "going word width"]:
        """The words at the layers that still learn."""
        if len(self.going) == len(batch.words):
            return batch.words
        return batch.words[torch.from_numpy(self.going).to(batch.words.device)]

    def step(self, batch: TreeBatch) -> None:
        """One step of every layer's probe that has not stopped."""
        words = self.words(batch)
        projected = batch.padded(words @ self.maps)
        gradient = batch.packed(_LOSSES[self.group.kind](projected, batch).gradient)
        self.maps.grad = words.transpose(1, 2) @ gradient
        self._adam.step(self.rates[self.going], float("inf"))

    def validate(self, losses: Float[np.ndarray, " going"], epochs: float) -> None:
        """Keep what is better than before; lower the rate of what is not, and stop it in the end."""
        schedule, going = self._schedule, self.going
        before = self.lowest[going]
        gain = schedule.min_gain * (1.0 if schedule.absolute_gain else np.where(np.isinf(before), 0, before))
        # A loss that is lower by less than a gain is kept, too, and does not reset the patience.
        lower = losses < before
        self.best[torch.from_numpy(going[lower])] = self.maps.detach()[torch.from_numpy(lower)]
        self.lowest[going] = np.minimum(losses, before)
        self.epochs[going] = epochs
        self.waited[going] = np.where(losses < before - gain, 0, self.waited[going] + 1)
        late = going[(self.waited[going] > 0) & (self.waited[going] % schedule.wait == 0)]
        self.rates[late] *= schedule.decay
        self.stopped = self.waited >= schedule.stop_after
        remaining = np.flatnonzero(~self.stopped[going])
        if 0 < len(remaining) < len(going):
            # Those that have stopped cost nothing from now on.
            self._set_maps(self.maps.detach()[torch.from_numpy(remaining)].contiguous())
            self._adam = self._adam.some([self.maps], remaining.tolist())
        self.going = going[remaining]


class StructuralBank:
    """Probes of all layers, ranks and seeds, trained together on one stream of sentences.

    Example:
        >>> tree = np.array([[0, 1, 2], [1, 0, 1], [2, 1, 0]])
        >>> words = torch.tensor([[0.0, 0, 0], [1, 0, 0], [1, 1, 0]]).repeat(1, 40, 1)
        >>> starts = np.arange(40) * 3
        >>> some = TreeSentences(words, starts, np.full(40, 3), [tree] * 40, [np.array([1, 0, 1])] * 40)
        >>> bank = StructuralBank([StructuralGroup("distance", 3, 0)]).fit(some, some)
        >>> found = bank.trained_[StructuralGroup("distance", 3, 0)]
        >>> bool((squared_distances(words[0, :3] @ found.maps[0]) - torch.tensor(tree)).abs().max() < 0.2)
        True
    """

    trained_: dict[StructuralGroup, TrainedMaps]

    def __init__(self, groups: Sequence[StructuralGroup], schedule: StructuralSchedule | None = None) -> None:
        self.groups = tuple(groups)
        self.schedule = schedule or StructuralSchedule()

    def fit(
        self,
        learn: TreeSentences,
        stop: TreeSentences,
        *,
        seed: int = 0,
        advance: Callable[[int], object] | None = None,
    ) -> StructuralBank:
        """Train until the loss on the stopping sentences has not fallen for a while, each probe on its own."""
        layers, _, width = learn.vectors.shape
        schedule, device = self.schedule, learn.vectors.device
        learning = [_LearningMaps(group, layers, width, schedule, device) for group in self.groups]
        stop_batches = list(in_order(stop, 128))
        batches = _stream(learn.sizes, schedule, np.random.default_rng(seed))
        epoch = -(-len(learn) // schedule.batch)
        every = epoch if schedule.validate_every is None else min(schedule.validate_every, max(_FEWEST, epoch))
        for validation in range(1, schedule.max_validations + 1):
            going = [learner for learner in learning if len(learner.going)]
            if not going:
                break
            for numbers in islice(batches, every):
                batch = learn.batch(numbers)
                for learner in going:
                    learner.step(batch)
            seen = validation * every * schedule.batch / len(learn)
            for learner, losses in zip(going, _losses(going, stop, stop_batches), strict=True):
                learner.validate(losses, seen)
            if advance:
                advance(sum(int(learner.stopped.sum()) for learner in learning))
        self.trained_ = {
            learner.group: TrainedMaps(learner.best, learner.lowest, learner.stopped, learner.epochs)
            for learner in learning
        }
        return self


def in_order(sentences: TreeSentences, batch: int) -> Iterator[Int[np.ndarray, " sentence"]]:
    """All sentences by length, so that little is padded."""
    order = np.argsort(sentences.sizes, kind="stable")
    return iter([order[start : start + batch] for start in range(0, len(order), batch)])


def _losses(
    learning: Sequence[_LearningMaps], stop: TreeSentences, batches: Sequence[np.ndarray]
) -> list[Float[np.ndarray, " going"]]:
    sums = [torch.zeros(len(learner.maps), dtype=torch.float64, device=learner.maps.device) for learner in learning]
    for numbers in batches:
        batch = stop.batch(numbers)
        for total, learner in zip(sums, learning, strict=True):
            projected = batch.padded(learner.words(batch) @ learner.maps)
            total += _LOSSES[learner.group.kind](projected, batch).by_sentence.double().sum(1)
    return [(total / len(stop)).cpu().numpy() for total in sums]


_FEWEST = 20
"""Steps between validations, at least, where there are few sentences."""
_POOL = 16
"""Batches whose sentences are sorted by length together."""


def _stream(
    sizes: Int[np.ndarray, " sentence"], schedule: StructuralSchedule, rng: np.random.Generator
) -> Iterator[Int[np.ndarray, " sentence"]]:
    """Batches without end, every epoch in another order."""
    batch = schedule.batch
    while True:
        order = rng.permutation(len(sizes))
        if schedule.pooled:
            pools = [order[number : number + _POOL * batch] for number in range(0, len(order), _POOL * batch)]
            order = np.concatenate([pool[np.argsort(sizes[pool], kind="stable")] for pool in pools])
        batches = [order[number : number + batch] for number in range(0, len(order), batch)]
        yield from (batches[number] for number in rng.permutation(len(batches))) if schedule.pooled else batches
