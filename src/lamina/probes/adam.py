"""Adam for many probes at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.optim.adam import adam


class StackedAdam:
    """Adam (AMSGrad) for stacked parameters; the first dimension is the member, and each member has its own rate.

    torch's fused Adam does the arithmetic for all members in one call, at a rate of 1 and on zeros: what it leaves
    there are the members' steps, which then are taken at their own rates.
    """

    def __init__(
        self, parameters: list[torch.nn.Parameter], members: int, boosts: Mapping[int, float] | None = None
    ) -> None:
        """`boosts`: number of a parameter -> its learning rate, as a multiple of the others'."""
        self._parameters = parameters
        self._members = members
        self._boosts = dict(boosts or {})
        self._moments = [tuple(torch.zeros_like(p) for _ in range(3)) for p in parameters]
        self._steps = torch.zeros(1, dtype=torch.float64)
        self._taken = [torch.zeros_like(p) for p in parameters]

    def some(self, parameters: list[torch.nn.Parameter], members: list[int]) -> StackedAdam:
        """The optimiser of these members, whose parameters are given; it goes on from where this one is."""
        few = StackedAdam(parameters, len(members), self._boosts)
        few._steps = self._steps
        for mine, whole in zip(few._moments, self._moments, strict=True):
            for own, each in zip(mine, whole, strict=True):
                own.copy_(each[[member for member in members if member < len(each)]])
        return few

    def state(self) -> dict[str, Tensor]:
        """Everything one step passes to the next, apart from the parameters; the tensors themselves, not copies."""
        moments = {f"{at}/{which}": m for at, own in enumerate(self._moments) for which, m in enumerate(own)}
        return moments | {"steps": self._steps}

    def step(self, rates: np.ndarray, clip: float) -> None:
        """Clip each member's gradient, update each with its own rate (0: not at all), and clear the gradients.

        A parameter may belong to the first members only, as mixing weights do, or to none.
        """
        held = [number for number, parameter in enumerate(self._parameters) if parameter.numel()]
        grads = {number: _grad(self._parameters[number]) for number in held}
        self._clip(list(grads.values()), clip)
        for number in held:
            self._taken[number].zero_()
        device = self._parameters[held[0]].device
        steps = [torch.tensor(float(self._steps), device=device) for _ in held]
        first, second, most = ([self._moments[number][which] for number in held] for which in range(3))
        with torch.no_grad():
            adam(
                [self._taken[number] for number in held], list(grads.values()), first, second, most, steps,
                fused=True, amsgrad=True, beta1=0.9, beta2=0.999, lr=1.0, weight_decay=0.0, eps=1e-8, maximize=False,
            )  # fmt: skip
            own = torch.from_numpy(rates).to(device, torch.float32)
            for number in held:
                parameter = self._parameters[number]
                rate = own[: len(parameter)] * self._boosts.get(number, 1.0)
                parameter.addcmul_(self._taken[number], rate.view(-1, *[1] * (parameter.dim() - 1)))
                parameter.grad = None
        self._steps += 1

    def _clip(self, grads: list[Tensor], most: float) -> None:
        squares = torch.zeros(self._members, device=grads[0].device)
        for grad in grads:
            flat = grad.flatten(1) if grad.dim() > 1 else grad.unsqueeze(1)
            squares[: len(grad)] += torch.linalg.vector_norm(flat, dim=1).square()
        scale = (most / squares.sqrt().clamp_min(1e-12)).clamp_max(1.0)
        if grads[0].is_cuda or bool((scale < 1).any()):
            # Asking a GPU whether it is needed would take longer than doing it.
            for grad in grads:
                grad *= scale[: len(grad)].view(-1, *[1] * (grad.dim() - 1))


def _grad(parameter: torch.nn.Parameter) -> Tensor:
    return parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
