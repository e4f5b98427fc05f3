"""A model in memory trained on for some steps, so that it makes up for what was taken from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import Module

from lamina.errors import ModelError
from lamina.progress import progress

LossOf = Callable[[Sequence[int]], Float[Tensor, " row"]]
"""Numbers of rows -> the loss of each; gradients go through it."""


class Schooling(NamedTuple):
    """How a model is trained on: Adam at a constant rate, as in the recipes of `finetune` for words and classes."""

    steps: int
    batch: int = 16
    """Rows of a step."""
    lr: float = 5e-5
    clip: float = 1.0
    """Largest norm of a gradient."""
    seed: int = 0


def train_on(model: Module, loss_of: LossOf, rows: int, how: Schooling, *, what: str) -> None:
    """Lower a loss for some steps; all weights of the model learn, and it ends frozen and in eval mode as before.

    Rows come in a random order, each once before any comes again.

    Example:
        >>> line = torch.nn.Linear(1, 1, bias=False).requires_grad_(False)
        >>> def loss_of(rows: Sequence[int]) -> Tensor:
        ...     return (line(torch.ones(len(rows), 1)) - 3).square()[:, 0]
        >>> train_on(line, loss_of, 4, Schooling(200, batch=2, lr=0.1), what="a line")
        >>> round(line.weight.item(), 1), line.weight.requires_grad
        (3.0, False)
    """
    learned = [each for each in dict.fromkeys(model.parameters()) if each.is_floating_point()]
    before = [each.requires_grad for each in learned]
    optimizer = torch.optim.Adam(learned, lr=how.lr)
    order = _order(rows, how)
    try:
        model.train()
        for each in learned:
            each.requires_grad_(True)
        with torch.random.fork_rng(), torch.enable_grad(), progress(what, how.steps) as advance:
            torch.manual_seed(how.seed)
            for step in range(how.steps):
                loss = loss_of(order[step * how.batch : (step + 1) * how.batch]).mean()
                if not torch.isfinite(loss):
                    raise ModelError(f"{what}: the loss is not a number at step {step + 1}; train fewer steps")
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(learned, how.clip)
                optimizer.step()
                advance(note=f"loss {loss.item():.3f}")
    finally:
        model.eval()
        for each, learns in zip(learned, before, strict=True):
            each.requires_grad_(learns)
            each.grad = None


def _order(rows: int, how: Schooling) -> list[int]:
    draw = torch.Generator().manual_seed(how.seed)
    found: list[int] = []
    while len(found) < how.steps * how.batch:
        found += torch.randperm(rows, generator=draw).tolist()
    return found
