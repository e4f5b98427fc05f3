"""Binary MLPs, one per class and seed: trained together, each as if it were alone.

Probes of one layer see the same batches, so a batch is one matrix product for all of them. Forward and backward pass
are written by hand: there is one hidden layer, no input gradient is needed, and every buffer is reused in the next
step. On a CPU the probes are trained a few at a time, so that parameters, gradients and Adam's moments stay in the
cache, and each core trains its own probes. Vectors stay in the precision they are kept in; a batch at a time is made
float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.optim.adam import adam

from lamina.errors import DamagedError
from lamina.files.checking import load_tensors, save_tensors
from lamina.progress import progress

_CACHED_BYTES = 24 * 2**20
"""Maximum size of the parameters, gradients and moments trained together on one core."""
_SCORED_AT_ONCE = 4096
"""Examples scored at a time, to bound memory."""
_PARTS = ("weights", "bias", "out", "shift")
"""The parameters of a probe."""


class ClassProbe(NamedTuple):
    """One binary classifier."""

    label: int
    """The class it separates from all others."""
    seed: int = 0
    """Seed of its initial weights."""
    labelling: int = 0
    """Which labels it learns: 0 the true ones, 1 the permuted ones."""


@runtime_checkable
class VectorSource(Protocol):
    """Vectors by number, in memory or on disk."""

    @property
    def width(self) -> int: ...

    def __len__(self) -> int: ...

    def take(self, items: Int[Tensor, " item"]) -> Float[Tensor, "item width"]:
        """Some of them, in the precision they are kept in."""
        ...


@dataclass(frozen=True, eq=False)
class InMemory:
    """Vectors that are one tensor."""

    vectors: Float[Tensor, "item width"]

    @property
    def width(self) -> int:
        """See `VectorSource`."""
        return self.vectors.shape[1]

    def __len__(self) -> int:
        return len(self.vectors)

    def take(self, items: Int[Tensor, " item"]) -> Float[Tensor, "item width"]:
        """See `Source.take`."""
        return self.vectors[items.to(self.vectors.device)]


@dataclass(frozen=True, eq=False)
class Vectors:
    """Some vectors of a source, centred and divided by one number as they are taken.

    Example:
        >>> some = Vectors(InMemory(torch.tensor([[1.0], [3.0], [5.0]])), np.array([0, 2])).centred()
        >>> some.take(torch.tensor([0, 1])).tolist()
        [[-1.0], [1.0]]
    """

    source: VectorSource
    items: Int[np.ndarray, " example"]
    """Which of the source."""
    middle: Float[Tensor, " width"] | None = None
    """Subtracted; None: nothing is."""
    spread: float = 1.0
    """Divided by."""

    @classmethod
    def of(cls, vectors: Float[Tensor, "example width"]) -> Vectors:
        """All rows of a tensor, as they are."""
        return cls(InMemory(vectors), np.arange(len(vectors)))

    def __len__(self) -> int:
        return len(self.items)

    def take(self, numbers: Int[Tensor, " item"], device: str = "cpu") -> Float[Tensor, "item width"]:
        """Some of them, in float32."""
        vectors = self.source.take(torch.from_numpy(self.items)[numbers.cpu()]).to(device).float()
        return vectors if self.middle is None else (vectors - self.middle.to(device)) / self.spread

    def blocks(self) -> Iterator[Int[Tensor, " item"]]:
        """The numbers of all, a few thousand at a time."""
        yield from torch.arange(len(self)).split(_SCORED_AT_ONCE)

    def centred(self) -> Vectors:
        """With the mean and the spread of these vectors; computed in float64, a block at a time."""
        plain = replace(self, middle=None, spread=1.0)
        total = sum(
            (plain.take(some).double().sum(0) for some in plain.blocks()), torch.zeros(self.source.width).double()
        )
        middle = (total / max(1, len(self))).float()
        squares = sum(float((plain.take(some) - middle).double().square().sum()) for some in plain.blocks())
        spread = (squares / max(1, len(self) * self.source.width)) ** 0.5
        return replace(self, middle=middle, spread=max(spread, 1e-12))

    def like(self, other: Vectors) -> Vectors:
        """With the mean and the spread of others."""
        return replace(self, middle=other.middle, spread=other.spread)

    def on(self, device: str) -> Vectors:
        """Copied to a GPU where at most half of what is free there is needed; otherwise batches are copied."""
        if device == "cpu" or not len(self):
            return self
        size = self.source.take(torch.from_numpy(self.items[:1])).element_size() * self.source.width * len(self)
        if size > torch.cuda.mem_get_info(device)[0] // 2:
            return self
        parts = [self.source.take(torch.from_numpy(self.items)[some]).to(device) for some in self.blocks()]
        middle = None if self.middle is None else self.middle.to(device)
        return Vectors(InMemory(torch.cat(parts)), np.arange(len(self)), middle, self.spread)


class ClassExamples(NamedTuple):
    """Words in context as vectors, with their classes."""

    vectors: Vectors
    gold: Bool[Tensor, "labelling example label"]


@dataclass(frozen=True)
class MLPTraining:
    """How a class probe is trained. The defaults are the contextualization paper's."""

    hidden: int = 1024
    learning_rate: float = 1e-3
    epochs: int = 400
    batch: int = 128
    validate_every: int = 10
    """Epochs between evaluations on the words that choose the epoch."""
    select: bool = True
    """Keep each probe's best epoch instead of its last."""


class TrainedClassProbes(NamedTuple):
    """Probes of one layer that have learned."""

    probes: tuple[ClassProbe, ...]
    parameters: list[Tensor]
    """Weights, bias, output weights and output shift, each stacked by probe."""

    def says(self, vectors: Vectors, device: str = "cpu") -> Bool[np.ndarray, "probe example"]:
        """What each probe says of each vector."""
        answers = np.zeros((len(self.probes), len(vectors)), bool)
        _, width, hidden = self.parameters[0].shape

        def run(chunk: slice) -> None:
            weights = [tensor[chunk].to(device) for tensor in self.parameters]
            for some in vectors.blocks():
                answers[chunk, some.numpy()] = (probe_logits(weights, vectors.take(some, device)) >= 0).cpu().numpy()

        _run_all(run, probe_chunks(len(self.probes), width, hidden, device), device)
        return answers


def decide(
    learn: ClassExamples,
    choose: ClassExamples,
    scored: Sequence[Vectors],
    probes: Sequence[ClassProbe],
    training: MLPTraining,
    *,
    device: str = "cpu",
) -> list[Bool[np.ndarray, "probe example"]]:
    """Train every probe on `learn`, keep the epoch that is best on `choose`, and predict each scored set.

    Example:
        >>> vectors = Vectors.of(torch.tensor([[1.0], [2.0], [-1.0], [-2.0]]))
        >>> told = ClassExamples(vectors, torch.tensor([[[True], [True], [False], [False]]]))
        >>> decide(told, told, [vectors], [ClassProbe(0)], MLPTraining(8, 0.1, 30, batch=4))[0].tolist()
        [[True, True, False, False]]
    """
    trained = train(learn, choose, probes, training, device=device)
    return [trained.says(vectors, device) for vectors in scored]


def train(
    learn: ClassExamples,
    choose: ClassExamples,
    probes: Sequence[ClassProbe],
    training: MLPTraining,
    *,
    device: str = "cpu",
    what: str = "class probes",
) -> TrainedClassProbes:
    """Train every probe on `learn`, and keep the epoch that is best on `choose`.

    The epoch with the best F1 of the probe's class is kept; ties go to the lower loss. The order of examples is the
    same for all probes; seeds differ in initial weights.

    Example:
        >>> told = ClassExamples(Vectors.of(torch.tensor([[1.0], [-1.0]])), torch.tensor([[[True], [False]]]))
        >>> train(told, told, [ClassProbe(0)], MLPTraining(8, 0.1, 2)).parameters[0].shape
        torch.Size([1, 1, 8])
    """
    width, hidden = learn.vectors.source.width, training.hidden
    shapes = ((width, hidden), (1, hidden), (hidden, 1), (1, 1))
    learned = TrainedClassProbes(tuple(probes), [torch.empty(len(probes), *shape) for shape in shapes])
    learn, choose = (item._replace(vectors=item.vectors.on(device)) for item in (learn, choose))
    with progress(what, len(probes)) as advance:

        def run(chunk: slice) -> None:
            stack = train_stack(probes[chunk], learn, choose, training, device)
            for into, item in zip(learned.parameters, stack.parameters, strict=True):
                into[chunk] = item.cpu()
            advance(len(probes[chunk]))

        _run_all(run, probe_chunks(len(probes), width, hidden, device), device)
    return learned


def _run_all(run: Callable[[slice], None], chunks: list[slice], device: str) -> None:
    """On a CPU, one chunk per core: products this small gain little from two cores, and each core has its own cache."""
    cores = torch.get_num_threads()
    if device != "cpu" or cores == 1 or len(chunks) == 1:
        for chunk in chunks:
            run(chunk)
        return
    try:
        with ThreadPoolExecutor(cores, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            list(pool.map(run, chunks))
    finally:
        torch.set_num_threads(cores)


def probe_chunks(probes: int, width: int, hidden: int, device: str) -> list[slice]:
    """Probes that are trained together: as many as fit into the cache, and as many chunks for every core."""
    count = 1
    if device == "cpu":
        cores = torch.get_num_threads()
        most = max(1, _CACHED_BYTES // (16 * width * hidden))
        count = min(probes, cores * ceil(probes / (most * cores)))
    edges = [probes * number // count for number in range(count + 1)] if count else []
    return [slice(start, end) for start, end in pairwise(edges)]


class _Stack:
    """Probes that learn together: their parameters and Adam's moments; the first dimension is the probe."""

    def __init__(self, probes: Sequence[ClassProbe], width: int, training: MLPTraining, device: str) -> None:
        drawn = [initial_weights(probe, width, training.hidden) for probe in probes]
        self.parameters = [torch.from_numpy(np.stack(part)).to(device) for part in zip(*drawn, strict=True)]
        self._gradients, self._first, self._second = (
            [torch.zeros_like(part) for part in self.parameters] for _ in range(3)
        )
        self._steps = [torch.zeros((), device=device) for _ in self.parameters]
        self._hidden = torch.empty(0, device=device)
        self._back = torch.empty(0, device=device)
        self._rate = training.learning_rate

    def step(self, vectors: Float[Tensor, "example width"], gold: Float[Tensor, "probe example 1"]) -> None:
        """One gradient step of mean binary cross-entropy."""
        weights, bias, out, shift = self.parameters
        to_weights, to_bias, to_out, to_shift = self._gradients
        count, size = len(weights), len(vectors)
        if self._hidden.shape[1:2] != (size,):
            self._hidden, self._back = (vectors.new_empty(count, size, weights.shape[2]) for _ in range(2))
        hidden, back = self._hidden, self._back
        shared = vectors.expand(count, -1, -1)
        torch.baddbmm(bias, shared, weights, out=hidden).relu_()
        error = torch.baddbmm(shift, hidden, out).sigmoid_().sub_(gold).div_(size)
        torch.bmm(hidden.transpose(1, 2), error, out=to_out)
        torch.sum(error, 1, keepdim=True, out=to_shift)
        torch.mul(error, out.transpose(1, 2), out=back)
        torch.ops.aten.threshold_backward.grad_input(back, hidden, 0, grad_input=back)
        torch.bmm(shared.transpose(1, 2), back, out=to_weights)
        torch.sum(back, 1, keepdim=True, out=to_bias)
        adam(
            self.parameters, self._gradients, self._first, self._second, [], self._steps,
            fused=True, amsgrad=False, beta1=0.9, beta2=0.999, lr=self._rate, weight_decay=0.0, eps=1e-8,
            maximize=False,
        )  # fmt: skip


def probe_logits(
    parameters: Sequence[Tensor], vectors: Float[Tensor, "example width"]
) -> Float[Tensor, "probe example"]:
    """The logit of every probe for every example; at least 0 means yes."""
    weights, bias, out, shift = parameters
    hidden = torch.baddbmm(bias, vectors.expand(len(weights), -1, -1), weights).relu_()
    return torch.baddbmm(shift, hidden, out).squeeze(2)


def initial_weights(probe: ClassProbe, width: int, hidden: int) -> tuple[np.ndarray, ...]:
    """Initial weights as in torch's Linear, independent of the other probes."""
    rng = np.random.default_rng([probe.seed, probe.label])
    shapes = (((width, hidden), width), ((1, hidden), width), ((hidden, 1), hidden), ((1, 1), hidden))
    return tuple((rng.random(shape, np.float32) * 2 - 1) / np.float32(fan) ** 0.5 for shape, fan in shapes)


def train_stack(
    probes: Sequence[ClassProbe], learn: ClassExamples, choose: ClassExamples, training: MLPTraining, device: str
) -> _Stack:
    stack = _Stack(probes, learn.vectors.source.width, training, device)
    best_parameters = [part.clone() for part in stack.parameters]
    best = torch.full((2, len(probes)), -torch.inf, device=device, dtype=torch.float64)
    gold, choose_labels = (_ProbeLabels(part.gold, probes, device) for part in (learn, choose))
    for epoch in range(1, training.epochs + 1):
        order = torch.from_numpy(np.random.default_rng(epoch).permutation(len(learn.vectors)))
        for some in order.split(training.batch):
            stack.step(learn.vectors.take(some, device), gold.of(some).unsqueeze(2))
        if training.select and (epoch % training.validate_every == 0 or epoch == training.epochs):
            score = _score(stack, choose.vectors, choose_labels, device)
            better = (score[0] > best[0]) | ((score[0] == best[0]) & (score[1] > best[1]))
            best[:, better] = score[:, better]
            for keeping, part in zip(best_parameters, stack.parameters, strict=True):
                keeping[better] = part[better]
    if training.select:
        stack.parameters = best_parameters
    return stack


class _ProbeLabels:
    """What each probe should say, a batch at a time."""

    def __init__(
        self, gold: Bool[Tensor, "labelling example label"], probes: Sequence[ClassProbe], device: str
    ) -> None:
        self._gold = gold.to(device)
        self._labellings = torch.tensor([probe.labelling for probe in probes], device=device)
        self._labels = torch.tensor([probe.label for probe in probes], device=device)

    def of(self, some: Int[Tensor, " example"]) -> Float[Tensor, "probe example"]:
        """1 where the probe's class holds."""
        return self._gold[:, some.to(self._gold.device)][self._labellings, :, self._labels].float()


def _score(stack: _Stack, vectors: Vectors, labels: _ProbeLabels, device: str) -> Float[Tensor, "2 probe"]:
    """F1 of each probe's class, and minus its loss."""
    sums = torch.zeros(3, len(stack.parameters[0]), device=device, dtype=torch.float64)
    for some in vectors.blocks():
        logits, gold = probe_logits(stack.parameters, vectors.take(some, device)), labels.of(some)
        answers = (logits >= 0).float()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, gold, reduction="none")
        sums += torch.stack([(answers * gold).sum(1), answers.sum(1) + gold.sum(1), loss.sum(1)])
    hits, both, loss = sums
    return torch.stack([2 * hits / both.clamp_min(1), -loss / max(1, len(vectors))])


class SavedClassProbes(NamedTuple):
    """Trained probes as they lie in a file, with the centring of their vectors."""

    trained: TrainedClassProbes
    middle: Float[Tensor, " width"] | None
    spread: float
    about: dict[str, Any]
    """The classes by number, and whose probes they are."""

    def says(self, vectors: Float[Tensor, "example width"]) -> Bool[np.ndarray, "probe example"]:
        """What each probe says of vectors as a model gives them."""
        return self.trained.says(replace(Vectors.of(vectors), middle=self.middle, spread=self.spread))


def save_probes(path: Path, trained: TrainedClassProbes, like: Vectors, about: dict[str, Any]) -> None:
    """Write probes in float16, half the size; a decision at the edge may differ from that of the probe trained."""
    tensors = {name: tensor.half() for name, tensor in zip(_PARTS, trained.parameters, strict=True)}
    if like.middle is not None:
        tensors["middle"] = like.middle
    save_tensors(path, tensors, {"spread": like.spread, "probes": trained.probes, **about})


def load_probes(path: Path) -> SavedClassProbes:
    """Read what `save_probes` wrote.

    Example:
        >>> import tempfile
        >>> vectors = Vectors.of(torch.tensor([[1.0], [-1.0]]))
        >>> told = ClassExamples(vectors, torch.tensor([[[True], [False]]]))
        >>> path = Path(tempfile.mkdtemp()) / "probes.safetensors"
        >>> trained = train(told, told, [ClassProbe(0)], MLPTraining(8, 0.1, 30))
        >>> save_probes(path, trained, vectors, {"classes": ["food"]})
        >>> load_probes(path).says(torch.tensor([[2.0], [-2.0]])).tolist()
        [[True, False]]
    """
    tensors, about = load_tensors(path)
    try:
        probes = tuple(ClassProbe(*fields) for fields in about.pop("probes"))
        trained = TrainedClassProbes(probes, [tensors[name].float() for name in _PARTS])
        return SavedClassProbes(trained, tensors.get("middle"), float(about.pop("spread")), about)
    except (KeyError, TypeError, ValueError):
        raise DamagedError(
            f"{path} holds no class probes; name a probes file of a `lamina contextualize` result"
        ) from None
