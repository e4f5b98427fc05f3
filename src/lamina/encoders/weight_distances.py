"""How far apart the weights of several checkpoints are, and what that says about their order."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from lamina.encoders.bounds import weights_files
from lamina.errors import ModelError

_SAMPLE = 1 << 20
"""Values of one tensor that are compared, evenly spread; a distance over millions of values needs no more."""
_UNRELATED = 0.02
"""Median correlation of matrices below which two checkpoints have nothing in common: other random starts give 0."""
_CLEAR = 0.03
"""Log ratio of two distances from which on one counts as larger: 3 %."""
_CLEAR_AT_THE_END = 0.15
"""The same for the last two checkpoints: where the learning rate ends at 0, the last one loses its noise and comes
nearer to all the others."""


class Distances(NamedTuple):
    """Of every checkpoint to every other one."""

    apart: Float[np.ndarray, "one other"]
    """Euclidean distance of all matrices."""
    related: Float[np.ndarray, "one other"]
    """Median correlation of the matrices."""
    bar: float
    """Correlation below which two checkpoints are unrelated, above what chance gives for matrices of this size."""


class Weights:
    """The tensors of a checkpoint, read one at a time; safetensors, sharded or not, or a pickle without code."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        from safetensors import safe_open

        self._folder = folder
        self._at: dict[str, Any] = {}
        files = weights_files(folder)
        safe = [path for path in files if path.suffix == ".safetensors" and not path.name.startswith("adapter_")]
        try:
            for path in safe:
                opened = stack.enter_context(safe_open(path, framework="pt"))
                self._at |= dict.fromkeys(opened.keys(), opened)
            for path in [] if safe else files:
                if path.suffix == ".bin":
                    self._at |= torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except Exception as error:
            reason = str(error).strip().partition("\n")[0]
            raise ModelError(f"{folder}: its weights cannot be read ({reason})") from error
        if not self._at:
            raise ModelError(f"{folder} holds no weights (*.safetensors or *.bin)")

    @property
    def names(self) -> list[str]:
        """Of all tensors, sorted."""
        return sorted(self._at)

    def __getitem__(self, name: str) -> torch.Tensor:
        held = self._at[name]
        return held if isinstance(held, torch.Tensor) else held.get_tensor(name)

    def hash(self) -> str:
        """Of names, shapes and values; the way they are spread over files does not matter."""
        digest = hashlib.sha256()
        for name in self.names:
            tensor = self[name].contiguous()
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            content: Any = tensor.reshape(-1).view(torch.uint8).numpy()
            digest.update(content)
        return digest.hexdigest()


def distances(checkpoints: Sequence[Weights]) -> Distances:
    """Of checkpoints that have the same tensors."""
    count = len(checkpoints)
    products = np.zeros((count, count))
    correlations, sizes = [], []
    for name in checkpoints[0].names:
        first = checkpoints[0][name]
        if first.dim() < 2 or not first.is_floating_point():
            # Norms and biases begin alike in every training, and buffers stay so.
            continue
        rows = np.stack([_sample(each[name]) for each in checkpoints])
        products += rows @ rows.T * (first.numel() / rows.shape[1])
        centred = rows - rows.mean(1, keepdims=True)
        lengths = np.linalg.norm(centred, axis=1)
        if (lengths > 0).all():
            correlations.append(centred @ centred.T / np.outer(lengths, lengths))
            sizes.append(rows.shape[1])
    if not correlations:
        raise ModelError("the checkpoints have no matrices to compare")
    squares = np.diag(products)
    apart = np.sqrt(np.maximum(squares[:, None] + squares[None] - 2 * products, 0))
    # Four standard errors of the median of independent correlations.
    chance = 4 * 1.25 * np.sqrt(np.sum(1 / np.array(sizes))) / len(sizes)
    return Distances(apart, np.median(correlations, axis=0), max(_UNRELATED, float(chance)))


def _sample(tensor: torch.Tensor) -> np.ndarray:
    flat = tensor.reshape(-1)
    step = -(-flat.numel() // _SAMPLE)
    return flat[::step].double().numpy()


def strangers(found: Distances) -> list[int]:
    """Checkpoints that have nothing in common with any other one, while the others do: those of another training.

    Example:
        >>> related = np.array([[1.0, 0.6, 0.0], [0.6, 1.0, 0.0], [0.0, 0.0, 1.0]])
        >>> strangers(Distances(1 - related, related, bar=0.02))
        [2]
    """
    near = found.related >= found.bar
    np.fill_diagonal(near, False)
    alone = [at for at in range(len(near)) if not near[at].any()]
    return alone if len(alone) < len(near) - 1 else []


def contradictions(apart: Float[np.ndarray, "one other"]) -> list[tuple[int, int]]:
    """Pairs, in the order given, that distances put the other way round.

    While a model is trained, it moves away from where it was: what lies before both is nearer to the earlier one, what
    lies after both nearer to the later one. A pair is reported if both sides clearly say the opposite; with the first
    or the last of a series, there is only one side.

    Example:
        >>> path = np.array([0.0, 1.0, 2.0, 3.0])
        >>> contradictions(np.sqrt(abs(path[:, None] - path[None])))
        []
        >>> swapped = path[[0, 2, 1, 3]]
        >>> contradictions(np.sqrt(abs(swapped[:, None] - swapped[None])))
        [(1, 2)]
    """
    count = len(apart)
    logs = np.log(np.maximum(apart, 1e-300))
    found = []
    for early, late in itertools.combinations(range(count), 2):
        before = [logs[at, early] - logs[at, late] for at in range(early)]
        after = [logs[late, at] - logs[early, at] for at in range(late + 1, count)]
        if not before and not after:
            continue
        bar = _CLEAR if after else _CLEAR_AT_THE_END
        if all(np.mean(side) > bar for side in (before, after) if side):
            found.append((early, late))
    return found


def best_order(apart: Float[np.ndarray, "one other"]) -> list[int]:
    """The order with the shortest steps (squared, as independent steps add up), in the direction of the one given.

    Found by moving one checkpoint at a time, from the order given.

    Example:
        >>> path = np.array([0.0, 3.0, 1.0, 2.0])
        >>> best_order(np.sqrt(abs(path[:, None] - path[None])))
        [0, 2, 3, 1]
    """
    order = list(range(len(apart)))
    while True:
        better = min(_moved(order), key=lambda each: _length(apart, each), default=order)
        if _length(apart, better) >= _length(apart, order) * (1 - 1e-9):
            break
        order = better
    return min((order, order[::-1]), key=_displaced)


def _displaced(order: list[int]) -> tuple[int, int]:
    """How far an order is from the one given: pairs turned round, then places changed."""
    turned = sum(one > other for one, other in itertools.combinations(order, 2))
    return turned, sum(at != each for at, each in enumerate(order))


def _moved(order: list[int]) -> Iterator[list[int]]:
    for at in range(len(order)):
        rest = order[:at] + order[at + 1 :]
        for to in range(len(order)):
            if to != at:
                yield [*rest[:to], order[at], *rest[to:]]


def _length(apart: np.ndarray, order: Sequence[int]) -> float:
    return float(sum(apart[one, other] ** 2 for one, other in itertools.pairwise(order)))
