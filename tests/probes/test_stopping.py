"""Each probe slows down, stops and keeps its best by its own scores."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lamina.probes import bank
from lamina.probes.bank import Group, Schedule, train
from lamina.probes.edge import Cut, EdgeProbes
from lamina.probes.streams import Stream
from lamina.probes.targets import Counts

CUTS = [Cut("cumulative", 0), Cut("cumulative", 2), Cut("layer", 1)]


@pytest.fixture
def drive(find, stored, monkeypatch):
    """Trains with validation scores given by hand: [validation, member]; returns probes, best and what was seen."""
    found = find("pos")

    def drive(schedule: Schedule, scores: list[list[float]]):
        probes = EdgeProbes(CUTS, layers=3, width=16, labels=3, arity=1, seed=0)
        group = Group(probes, found.learn.gold, found.stop)
        seen: list[dict[str, torch.Tensor]] = []
        rates: list[np.ndarray] = []

        def validated(running, valid):
            seen.append({name: value.detach().clone() for name, value in probes.named_parameters()})
            told = np.array(scores[len(seen) - 1])[:, None]
            return [Counts(told, np.ones_like(told), np.ones_like(told))]

        taken = bank._Learner.validate

        def validate(self, counts):
            taken(self, counts)
            rates.append(np.where(self.running, self.rates, 0.0))

        monkeypatch.setattr(bank, "_validated", validated)
        monkeypatch.setattr(bank._Learner, "validate", validate)
        learn, stop = Stream(stored, found.learn, batch_texts=8), Stream(stored, found.stop)
        (best,) = train([group], learn, stop, schedule, order_seed=0, what="test")
        return probes, best, seen, np.array(rates)

    return drive


def member_weights(state: dict[str, torch.Tensor], member: int) -> list[torch.Tensor]:
    return [value[member] for value in state.values() if member < len(value)]


def test_each_member_keeps_the_weights_of_its_own_best_validation(drive):
    scores = [[0.1, 0.5, 0.2], [0.3, 0.4, 0.2], [0.2, 0.45, 0.7]]
    probes, best, seen, _ = drive(Schedule(learning_rate=1e-3, validate_every=2, max_validations=3), scores)

    np.testing.assert_array_equal(best, [0.3, 0.5, 0.7])
    now = dict(probes.named_parameters())
    for member, validation in enumerate([1, 0, 2]):
        kept = member_weights(seen[validation], member)
        for one, other in zip(member_weights(now, member), kept, strict=True):
            assert torch.equal(one, other)
        after = member_weights(seen[(validation + 1) % 3], member)
        assert not all(torch.equal(a, b) for a, b in zip(kept, after, strict=True))
    assert all(parameter.grad is None for parameter in probes.parameters())


def test_rates_are_halved_and_members_stopped_one_by_one(drive):
    schedule = Schedule(learning_rate=1e-3, validate_every=1, max_validations=8, halve_after=2, stop_after=5)
    rising, flat, late = [0.1 * step for step in range(8)], [0.5] * 8, [0.1, 0.1, 0.1, 0.2, 0.2, 0.2, 0.2, 0.2]
    _, best, seen, rates = drive(schedule, np.array([rising, flat, late]).T.tolist())

    np.testing.assert_allclose(rates[:, 0], 1e-3)
    # Two without gain halve, four halve again, the fifth stops.
    np.testing.assert_allclose(rates[:, 1], [1e-3, 1e-3, 5e-4, 5e-4, 2.5e-4, 0, 0, 0])
    # A gain sets the patience back, not the rate.
    np.testing.assert_allclose(rates[:, 2], [1e-3, 1e-3, 5e-4, 5e-4, 5e-4, 2.5e-4, 2.5e-4, 1.25e-4])
    for one, other in zip(member_weights(seen[5], 1), member_weights(seen[7], 1), strict=True):
        assert torch.equal(one, other), "a stopped probe must not move"
    np.testing.assert_allclose(best, [0.7, 0.5, 0.2])


def test_a_gain_below_the_least_is_none(drive):
    schedule = Schedule(learning_rate=1e-3, validate_every=1, max_validations=3, halve_after=1, min_gain=1e-2)
    _, best, _, rates = drive(schedule, [[0.5] * 3, [0.505] * 3, [0.515] * 3])

    np.testing.assert_allclose(rates, [[1e-3] * 3, [5e-4] * 3, [5e-4] * 3])
    np.testing.assert_allclose(best, 0.515)


def test_training_ends_when_all_have_stopped(drive):
    schedule = Schedule(
        learning_rate=1e-3, validate_every=1, max_validations=50, halve_after=1, min_learning_rate=2.4e-4
    )
    _, best, seen, rates = drive(schedule, [[0.5, 0.6, 0.7]] * 50)

    # 1e-3, 5e-4, 2.5e-4, then below the least.
    assert len(seen) == 4
    assert not rates[-1].any()
    np.testing.assert_allclose(best, [0.5, 0.6, 0.7])


def test_the_paper_s_schedules_are_as_published():
    for schedule, every, most in ((bank.PAPER, 1000, 250), (bank.PAPER_SMALL, 100, 100)):
        assert (schedule.learning_rate, schedule.clip, schedule.batch_texts) == (1e-4, 5.0, 32)
        assert (schedule.halve_after, schedule.stop_after, schedule.min_gain) == (5, 20, 1e-4)
        assert schedule.min_learning_rate == 1e-6
        assert (schedule.validate_every, schedule.max_validations, schedule.max_steps) == (every, most, every * most)
