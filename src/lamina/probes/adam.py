"""Adam (AMSGrad) over stacked probes: one update for all, a learning rate and a gradient norm for each."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.optim.adam import adam


class StackedAdam:
    """The moments of stacked parameters, first dimension the member.

    torch's own fused Adam does the arithmetic. Members with the same learning rate are updated in one
    call; that is all of them most of the time.
    """

    def __init__(self, parameters: list[torch.nn.Parameter], members: int) -> None:
        self._parameters = parameters
        self._members = members
        self._moments = [tuple(torch.zeros_like(p) for _ in range(3)) for p in parameters]
        self._steps = torch.zeros(1, dtype=torch.float64)

    def state(self) -> dict[str, Tensor]:
        """All that one step hands to the next, apart from the parameters; the tensors themselves, no copies."""
        moments = {f"{at}/{which}": m for at, own in enumerate(self._moments) for which, m in enumerate(own)}
        return moments | {"steps": self._steps}

    def step(self, rates: np.ndarray, clip: float) -> None:
        """Clip each member's gradient, update each with its own rate (0: not at all), and clear the gradients.

        A parameter may belong to the first members only (mixing weights do).
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
