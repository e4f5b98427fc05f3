"""Binary MLPs, one per class, layer and seed: trained together, each as if it were alone.

Probes of one row (a layer, a kind of vector) see the same batches, so a batch is one matrix product for all of them.
Forward and backward pass are written by hand: there is one hidden layer, no input gradient is needed, and every buffer
is reused in the next step. On a CPU the probes are trained a few at a time, so that parameters, gradients and Adam's
moments stay in the cache, and each core trains its own probes.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.optim.adam import adam

from lamina.progress import progress

_CACHED_BYTES = 24 * 2**20
"""Maximum size of the parameters, gradients and moments trained together on one core."""
_SCORED_AT_ONCE = 4096
"""Examples scored at a time, to bound memory."""


class ClassProbe(NamedTuple):
    """One binary classifier."""

    row: int
    """The row of vectors it sees."""
    label: int
    """The class it separates from all others."""
    seed: int = 0
    """Seed of its initial weights."""
    labelling: int = 0
    """Which labels it learns: 0 the true ones, 1 the permuted ones."""


class Examples(NamedTuple):
    """Words in context as rows of vectors, with their classes."""

    vectors: Float[Tensor, "row example width"]
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


def decide(
    learn: Examples,
    choose: Examples,
    scored: Sequence[Float[Tensor, "row example width"]],
    probes: Sequence[ClassProbe],
    training: MLPTraining,
    *,
    device: str = "cpu",
    what: str = "class probes",
) -> list[Bool[np.ndarray, "probe example"]]:
    """Train every probe on `learn`, keep the epoch that is best on `choose`, and predict each scored set.

    The epoch with the best F1 of the probe's class is kept; ties go to the lower loss. The order of examples is the
    same for all probes; seeds differ in initial weights.

    Example:
        >>> vectors = torch.tensor([[[1.0], [2.0], [-1.0], [-2.0]]])
        >>> told = Examples(vectors, torch.tensor([[[True], [True], [False], [False]]]))
        >>> decide(told, told, [vectors], [ClassProbe(0, 0)], MLPTraining(8, 0.1, 30, batch=4))[0].tolist()
        [[True, True, False, False]]
    """
    decided = [np.zeros((len(probes), each.shape[1]), bool) for each in scored]
    chunks = _chunks(probes, learn.vectors.shape[2], training.hidden, device)
    with progress(what, len(probes)) as advance:

        def run(chunk: list[int]) -> None:
            own = [probes[at] for at in chunk]
            stack = _train(own, learn, choose, training, device)
            for vectors, into in zip(scored, decided, strict=True):
                into[chunk] = (stack.logits(vectors[own[0].row].to(device).float()) >= 0).cpu().numpy()
            advance(len(chunk))

        _run_all(run, chunks, device)
    return decided


def _run_all(run, chunks: list[list[int]], device: str) -> None:
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


def _chunks(probes: Sequence[ClassProbe], width: int, hidden: int, device: str) -> list[list[int]]:
    """Indices of probes that are trained together: same row, as many as fit into the cache."""
    size = len(probes)
    if device == "cpu":
        every_core_busy = -(-len(probes) // torch.get_num_threads())
        size = max(1, min(_CACHED_BYTES // (16 * width * hidden), every_core_busy))
    order = sorted(range(len(probes)), key=lambda at: probes[at].row)
    rows = [list(group) for _, group in groupby(order, key=lambda at: probes[at].row)]
    return [row[at : at + size] for row in rows for at in range(0, len(row), size)]


class _Stack:
    """Probes of one row: their parameters and Adam's moments; the first dimension is the probe."""

    def __init__(self, probes: Sequence[ClassProbe], width: int, training: MLPTraining, device: str) -> None:
        drawn = [_initial(probe, width, training.hidden) for probe in probes]
        self.parameters = [torch.from_numpy(np.stack(each)).to(device) for each in zip(*drawn, strict=True)]
        self._gradients, self._first, self._second = (
            [torch.zeros_like(each) for each in self.parameters] for _ in range(3)
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

    def logits(self, vectors: Float[Tensor, "example width"]) -> Float[Tensor, "probe example"]:
        """The logit of every probe for every example; at least 0 means yes."""
        weights, bias, out, shift = self.parameters
        parts = []
        for some in vectors.split(_SCORED_AT_ONCE):
            hidden = torch.baddbmm(bias, some.expand(len(weights), -1, -1), weights).relu_()
            parts.append(torch.baddbmm(shift, hidden, out).squeeze(2))
        return torch.cat(parts, 1)


def _initial(probe: ClassProbe, width: int, hidden: int) -> tuple[np.ndarray, ...]:
    """Initial weights as in torch's Linear, independent of the other probes."""
    rng = np.random.default_rng([probe.seed, probe.label])
    shapes = (((width, hidden), width), ((1, hidden), width), ((hidden, 1), hidden), ((1, 1), hidden))
    return tuple((rng.random(shape, np.float32) * 2 - 1) / np.float32(fan) ** 0.5 for shape, fan in shapes)


def _train(
    probes: Sequence[ClassProbe], learn: Examples, choose: Examples, training: MLPTraining, device: str
) -> _Stack:
    row = probes[0].row
    vectors, gold = learn.vectors[row].to(device).float(), _gold(learn, probes, device)
    asked, told = choose.vectors[row].to(device).float(), _gold(choose, probes, device).squeeze(2)
    stack = _Stack(probes, vectors.shape[1], training, device)
    kept = [each.clone() for each in stack.parameters]
    best = torch.full((2, len(probes)), -torch.inf, device=device)
    for epoch in range(1, training.epochs + 1):
        order = torch.from_numpy(np.random.default_rng(epoch).permutation(len(vectors))).to(device)
        shuffled, labels = vectors[order], gold[:, order]
        for at in range(0, len(order), training.batch):
            stack.step(shuffled[at : at + training.batch], labels[:, at : at + training.batch])
        if training.select and (epoch % training.validate_every == 0 or epoch == training.epochs):
            score = _score(stack.logits(asked), told)
            better = (score[0] > best[0]) | ((score[0] == best[0]) & (score[1] > best[1]))
            best[:, better] = score[:, better]
            for keeping, each in zip(kept, stack.parameters, strict=True):
                keeping[better] = each[better]
    if training.select:
        stack.parameters = kept
    return stack


def _gold(examples: Examples, probes: Sequence[ClassProbe], device: str) -> Float[Tensor, "probe example 1"]:
    columns = [examples.gold[probe.labelling, :, probe.label] for probe in probes]
    return torch.stack(columns).float().unsqueeze(2).to(device)


def _score(logits: Float[Tensor, "probe example"], gold: Float[Tensor, "probe example"]) -> Float[Tensor, "2 probe"]:
    """F1 of each probe's class, and minus its loss."""
    said = (logits >= 0).float()
    hits, told = (said * gold).sum(1), said.sum(1) + gold.sum(1)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, gold, reduction="none").mean(1)
    return torch.stack([2 * hits / told.clamp_min(1), -loss])
