"""Stacked Adam against torch's, one probe at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lamina.probes.learner import StackedAdam

MEMBERS = 4
MIXING = 2
SHAPES = [(MIXING, 3), (MIXING,), (MEMBERS, 5, 6), (MEMBERS, 1, 7)]
"""Mixing weights and gamma belong to the first members only."""


def gradients(step: int) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(step)
    # Some below the clip and some far above it.
    scales = torch.tensor([0.01, 1.0, 30.0, 0.1])
    return [torch.randn(s, generator=draw) * scales[: s[0]].view(-1, *[1] * (len(s) - 1)) for s in SHAPES]


@pytest.mark.parametrize(
    "rates",
    [
        np.full(MEMBERS, 1e-2),
        np.array([1e-2, 5e-3, 1e-2, 2.5e-3]),
        np.array([1e-2, 0.0, 5e-3, 0.0]),
    ],
    ids=["one rate", "rates of their own", "some stopped"],
)
def test_each_member_moves_as_torch_moves_it_alone(rates):
    draw = torch.Generator().manual_seed(99)
    stacked = [torch.nn.Parameter(torch.randn(shape, generator=draw)) for shape in SHAPES]
    alone = {
        member: [torch.nn.Parameter(p.detach()[member].clone()) for p in stacked if member < len(p)]
        for member in range(MEMBERS)
    }
    optimisers = {
        member: torch.optim.Adam(weights, lr=float(rates[member]), amsgrad=True) for member, weights in alone.items()
    }
    ours = StackedAdam(stacked, MEMBERS)

    for step in range(12):
        grads = gradients(step)
        for parameter, grad in zip(stacked, grads, strict=True):
            parameter.grad = grad.clone()
        ours.step(rates, clip=5.0)
        for member, weights in alone.items():
            for weight, grad in zip(weights, [g for g in grads if member < len(g)], strict=True):
                weight.grad = grad[member].clone()
            torch.nn.utils.clip_grad_norm_(weights, 5.0)
            optimisers[member].step()

    assert all(parameter.grad is None for parameter in stacked)
    for member, weights in alone.items():
        for one, other in zip([p for p in stacked if member < len(p)], weights, strict=True):
            torch.testing.assert_close(one.detach()[member], other.detach(), atol=1e-6, rtol=1e-5)


def test_a_member_slowed_half_way_follows_torch():
    stacked = [torch.nn.Parameter(torch.ones(2, 3))]
    alone = torch.nn.Parameter(torch.ones(3))
    ours, theirs = StackedAdam(stacked, 2), torch.optim.Adam([alone], lr=1e-2, amsgrad=True)
    for step in range(10):
        rates = np.array([1e-2, 1e-2 if step < 5 else 5e-3])
        theirs.param_groups[0]["lr"] = float(rates[1])
        grad = torch.randn(3, generator=torch.Generator().manual_seed(step))
        stacked[0].grad, alone.grad = torch.stack([-grad, grad]), grad.clone()
        ours.step(rates, clip=100.0)
        theirs.step()

    torch.testing.assert_close(stacked[0].detach()[1], alone.detach(), atol=1e-6, rtol=1e-5)


def test_a_parameter_of_no_member_and_one_without_gradient_are_left_alone():
    mixing, weight, unused = (torch.nn.Parameter(torch.ones(shape)) for shape in ((0, 3), (2, 3), (2, 1)))
    weight.grad = torch.ones(2, 3)

    StackedAdam([mixing, weight, unused], 2).step(np.array([0.1, 0.1]), clip=5.0)

    torch.testing.assert_close(weight.detach(), torch.full((2, 3), 0.9), atol=1e-5, rtol=0)
    assert torch.equal(unused.detach(), torch.ones(2, 1))


def test_boosted_parameters_move_at_a_multiple_of_the_rate():
    plain, boosted = (torch.nn.Parameter(torch.ones(2, 3)) for _ in range(2))
    alone = [torch.nn.Parameter(torch.ones(2, 3)) for _ in range(2)]
    ours = StackedAdam([plain, boosted], 2, boosts={1: 10.0})
    theirs = torch.optim.Adam([{"params": [alone[0]], "lr": 1e-2}, {"params": [alone[1]], "lr": 1e-1}], amsgrad=True)
    for step in range(6):
        for number, pair in enumerate(((plain, alone[0]), (boosted, alone[1]))):
            grad = torch.randn(2, 3, generator=torch.Generator().manual_seed(10 * step + number))
            for parameter in pair:
                parameter.grad = grad.clone()
        ours.step(np.full(2, 1e-2), clip=100.0)
        theirs.step()

    for one, other in zip((plain, boosted), alone, strict=True):
        torch.testing.assert_close(one.detach(), other.detach(), atol=1e-6, rtol=1e-5)


def test_some_members_go_on_from_where_the_whole_was():
    def stack() -> list[torch.nn.Parameter]:
        draw = torch.Generator().manual_seed(99)
        return [torch.nn.Parameter(torch.randn(shape, generator=draw)) for shape in SHAPES]

    def follow(parameters: list[torch.nn.Parameter], adam: StackedAdam, members: list[int], steps: range) -> None:
        for step in steps:
            for parameter, grad in zip(parameters, gradients(step), strict=True):
                parameter.grad = grad[[member for member in members if member < len(grad)]].clone()
            adam.step(rates[members], clip=5.0)

    rates, chosen = np.array([1e-2, 5e-3, 1e-2, 2.5e-3]), [1, 2]
    whole, cut = stack(), stack()
    adams = [StackedAdam(each, MEMBERS) for each in (whole, cut)]
    follow(whole, adams[0], [0, 1, 2, 3], range(10))
    follow(cut, adams[1], [0, 1, 2, 3], range(5))
    few = [torch.nn.Parameter(p.detach()[[m for m in chosen if m < len(p)]].clone()) for p in cut]
    follow(few, adams[1].some(few, chosen), chosen, range(5, 10))

    for one, other in zip(few, whole, strict=True):
        torch.testing.assert_close(one.detach(), other.detach()[[m for m in chosen if m < len(other)]])
