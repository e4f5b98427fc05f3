"""Adam for many probes at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.optim.adam import adam

from lamina.progress import say


class StackedAdam:
    """Adam (AMSGrad by default) for stacked parameters; the first dimension is the member, each has its own rate.

    On a GPU, a kernel of our own takes the whole step at once (`adam_kernel`). Elsewhere, torch's fused Adam does the
    arithmetic for all members in one call, at a rate of 1 and on zeros: what it leaves there are the members' steps,
    which then are taken at their own rates.
    """

    def __init__(
        self,
        parameters: list[torch.nn.Parameter],
        members: int,
        boosts: Mapping[int, float] | None = None,
        *,
        amsgrad: bool = True,
    ) -> None:
        """`boosts`: number of a parameter -> its learning rate, as a multiple of the others'."""
        self._parameters = parameters
        self._amsgrad = amsgrad
        self._members = members
        self._boosts = dict(boosts or {})
        self._moments = [tuple(torch.zeros_like(p) for _ in range(3)) for p in parameters]
        device = parameters[0].device if parameters else None
        self._steps = torch.zeros(len(parameters), device=device)
        """[parameter] Steps taken, counted on the device, where a recorded step counts on."""
        self._taken = [torch.zeros_like(p) for p in parameters]

    def some(self, parameters: list[torch.nn.Parameter], members: list[int]) -> StackedAdam:
        """The optimiser of these members, whose parameters are given; it goes on from where this one is."""
        few = StackedAdam(parameters, len(members), self._boosts, amsgrad=self._amsgrad)
        few._steps = self._steps.clone()
        for mine, whole in zip(few._moments, self._moments, strict=True):
            for target, source in zip(mine, whole, strict=True):
                target.copy_(source[[member for member in members if member < len(source)]])
        return few

    def state(self) -> dict[str, Tensor]:
        """Everything one step passes to the next, apart from the parameters; the tensors themselves, not copies."""
        moments = {
            f"{number}/{which}": m for number, triple in enumerate(self._moments) for which, m in enumerate(triple)
        }
        return moments | {"steps": self._steps}

    def step(self, rates: np.ndarray | Tensor, clip: float) -> None:
        """Clip each member's gradient, update each with its own rate (0: not at all), and clear the gradients.

        A parameter may belong to the first members only, as mixing weights do, or to none.
        """
        filled = [number for number, parameter in enumerate(self._parameters) if parameter.numel()]
        grads = {number: _grad(self._parameters[number]) for number in filled}
        device = self._parameters[filled[0]].device
        member_rates = torch.as_tensor(rates).to(device, torch.float32)
        scale = self._scale(list(grads.values()), clip)
        with torch.no_grad():
            if self._amsgrad and device.type == "cuda" and (take_step := _kernel(device)) is not None:
                self._step_by_kernel(take_step, grads, member_rates, scale)
            else:
                self._by_torch(grads, member_rates, scale)
            for number in filled:
                self._parameters[number].grad = None

    def _by_torch(self, grads: Mapping[int, Tensor], rates: Tensor, scale: Tensor) -> None:
        if scale.is_cuda or bool((scale < 1).any()):
            # Asking a GPU whether it is needed would take longer than doing it.
            for grad in grads.values():
                grad *= scale[: len(grad)].view(-1, *[1] * (grad.dim() - 1))
        for number in grads:
            self._taken[number].zero_()
        first, second, most = ([self._moments[number][which] for number in grads] for which in range(3))
        steps = [self._steps[number] for number in grads]
        adam(
            [self._taken[number] for number in grads], list(grads.values()), first, second,
            most if self._amsgrad else [], steps,
            fused=True, amsgrad=self._amsgrad, beta1=_BETAS[0], beta2=_BETAS[1], lr=1.0, weight_decay=0.0, eps=_EPSILON,
            maximize=False,
        )  # fmt: skip
        for number in grads:
            parameter = self._parameters[number]
            rate = rates[: len(parameter)] * self._boosts.get(number, 1.0)
            parameter.addcmul_(self._taken[number], rate.view(-1, *[1] * (parameter.dim() - 1)))

    def _step_by_kernel(
        self, take_step: Callable[..., None], grads: Mapping[int, Tensor], rates: Tensor, scale: Tensor
    ) -> None:
        self._steps += 1
        first, second = (1 - torch.pow(beta, self._steps[0].double()) for beta in _BETAS)
        corrections = torch.stack([first, second.sqrt()]).float()
        about = {"rates": rates, "scales": scale, "corrections": corrections, "betas": _BETAS, "epsilon": _EPSILON}
        for number, grad in grads.items():
            parameter, boost = self._parameters[number], self._boosts.get(number, 1.0)
            take_step(parameter, grad.contiguous(), self._moments[number], **about, boost=boost)

    def _scale(self, grads: list[Tensor], most: float) -> Tensor:
        """[member] What a member's gradient is multiplied by, so that it is not longer than the most."""
        squares = torch.zeros(self._members, device=grads[0].device)
        for grad in grads:
            flat = grad.flatten(1) if grad.dim() > 1 else grad.unsqueeze(1)
            squares[: len(grad)] += torch.linalg.vector_norm(flat, dim=1).square()
        return (most / squares.sqrt().clamp_min(1e-12)).clamp_max(1.0)


_BETAS = (0.9, 0.999)
_EPSILON = 1e-8


@cache
def _kernel(device: torch.device) -> Callable[..., None] | None:
    """What takes a step at once on a GPU; None, with a word, where it cannot be compiled."""
    try:
        from lamina.probes.adam_kernel import take_step, works_on

        return take_step if works_on(device) else None
    except Exception as error:
        # Whatever a compiler may say: without it, the step is taken by torch.
        say(f"Adam is not compiled for this GPU ({type(error).__name__}: {error}); probes are trained a little slower")
        return None


def _grad(parameter: torch.nn.Parameter) -> Tensor:
    return parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
