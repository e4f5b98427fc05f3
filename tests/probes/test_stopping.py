"""Each probe slows down, stops and keeps its best by its own losses."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import torch

from lamina.analyses.layers.probe.training import PAPER, PAPER_SMALL
from lamina.probes import bank
from lamina.probes.bank import LearningRecord, ProbeGroup, Schedule, train_probes
from lamina.probes.edge import EdgeProbes, LayerCut
from lamina.probes.streams import Stream

CUTS = [LayerCut("cumulative", 0), LayerCut("cumulative", 2), LayerCut("layer", 1)]
SIX = [LayerCut(probe, layer) for probe in ("cumulative", "layer") for layer in range(3)]


class Driven(NamedTuple):
    """What came of training by losses given by hand."""

    probes: EdgeProbes
    learned: LearningRecord
    seen: list[dict[str, torch.Tensor]]
    """The weights of all members at each validation."""
    rates: np.ndarray
    """[validation, member] After it; 0: stopped."""
    stacks: list[list[int]]
    """The members in the stack after each validation."""


@pytest.fixture
def drive(find, stored, monkeypatch):
    """Trains with validation losses given by hand: [validation, member], or of every text."""
    found = find("pos")
    taken = bank.Learner.validate

    def drive(schedule: Schedule, losses, cuts: list[LayerCut] = CUTS, seed: int | tuple[int, ...] = 0) -> Driven:
        probes = EdgeProbes(cuts, layers=3, width=16, labels=3, arity=1, seed=seed, hidden=16)
        streams = Stream(stored, found.learn, batch_texts=8), Stream(stored, found.stop)
        group = ProbeGroup(probes, found.learn, found.stop, streams)
        seen: list[dict[str, torch.Tensor]] = []
        rates: list[np.ndarray] = []
        stacks: list[list[int]] = []

        def validated(learners, *_):
            (learner,) = learners
            state = {name.removeprefix("weights/"): value.detach().clone() for name, value in learner.state().items()}
            seen.append({name: state[name] for name, _ in probes.named_parameters()})
            given = np.asarray(losses[len(seen) - 1], float)[learner.members]
            return [given.reshape(len(given), -1)]

        def validate(self, told, number):
            taken(self, told, number)
            rates.append(np.where(self.running, self.rates, 0.0))
            stacks.append(self.members.tolist())

        monkeypatch.setattr(bank._StepsByBatch, "losses", lambda _, learners: validated(learners))
        monkeypatch.setattr(bank.Learner, "validate", validate)
        (learned,) = train_probes([group], schedule, order_seed=0, what="test")
        return Driven(probes, learned, seen, np.array(rates), stacks)

    return drive


def member_weights(state: dict[str, torch.Tensor], member: int) -> list[torch.Tensor]:
    return [value[member] for value in state.values() if member < len(value)]


def test_each_member_keeps_the_weights_of_its_own_best_validation(drive):
    losses = [[0.9, 0.5, 0.8], [0.7, 0.6, 0.8], [0.8, 0.55, 0.3]]
    driven = drive(Schedule(learning_rate=1e-3, validate_every=2, max_validations=3), losses)

    np.testing.assert_array_equal(driven.learned.loss, [0.7, 0.5, 0.3])
    np.testing.assert_array_equal(driven.learned.best_step, [4, 2, 6])
    np.testing.assert_array_equal(driven.learned.steps, [6, 6, 6])
    np.testing.assert_allclose(driven.learned.last_gain, [0.2 / 0.9, 0, 0.5 / 0.8])
    assert not driven.learned.converged.any(), "cut off by the most steps"
    now = dict(driven.probes.named_parameters())
    for member, validation in enumerate([1, 0, 2]):
        kept = member_weights(driven.seen[validation], member)
        for one, other in zip(member_weights(now, member), kept, strict=True):
            assert torch.equal(one, other)
        after = member_weights(driven.seen[(validation + 1) % 3], member)
        assert not all(torch.equal(a, b) for a, b in zip(kept, after, strict=True))
    assert all(parameter.grad is None for parameter in driven.probes.parameters())


def test_rates_are_halved_and_members_stopped_one_by_one(drive):
    schedule = Schedule(learning_rate=1e-3, validate_every=1, max_validations=8, halve_after=2, stop_after=5)
    falling, flat = [0.9 - 0.1 * step for step in range(8)], [0.5] * 8
    late = [0.9, 0.9, 0.9, 0.8, 0.8, 0.8, 0.8, 0.8]
    driven = drive(schedule, np.array([falling, flat, late]).T)
    rates, learned = driven.rates, driven.learned

    np.testing.assert_allclose(rates[:, 0], 1e-3)
    # Two without gain halve, four halve again, the fifth stops.
    np.testing.assert_allclose(rates[:, 1], [1e-3, 1e-3, 5e-4, 5e-4, 2.5e-4, 0, 0, 0])
    # A gain sets the patience back, not the rate.
    np.testing.assert_allclose(rates[:, 2], [1e-3, 1e-3, 5e-4, 5e-4, 5e-4, 2.5e-4, 2.5e-4, 1.25e-4])
    for one, other in zip(member_weights(driven.seen[5], 1), member_weights(driven.seen[7], 1), strict=True):
        assert torch.equal(one, other), "a stopped probe must not move"
    np.testing.assert_allclose(learned.loss, [0.2, 0.5, 0.8])
    assert not learned.converged.any(), "cut off, overfitted, cut off"
    assert learned.overfitted.tolist() == [False, True, False]
    assert learned.steps.tolist() == [8, 6, 8]
    assert learned.best_step.tolist() == [8, 1, 4]
    # Over the last five validations: from .7 to .2, from .5 to .5, from .9 to .8.
    np.testing.assert_allclose(learned.last_gain, [0.5 / 0.7, 0, 0.1 / 0.9])


def test_a_gain_below_the_least_share_is_none(drive):
    schedule = Schedule(learning_rate=1e-3, validate_every=1, max_validations=3, halve_after=1, min_gain=1e-2)
    driven = drive(schedule, [[0.5] * 3, [0.4975] * 3, [0.48] * 3])

    np.testing.assert_allclose(driven.rates, [[1e-3] * 3, [5e-4] * 3, [5e-4] * 3])
    np.testing.assert_allclose(driven.learned.loss, 0.48)
    # The same share of a loss a thousand times as high: losses have no unit.
    scaled = drive(schedule, [[500.0] * 3, [497.5] * 3, [480.0] * 3])
    np.testing.assert_array_equal(scaled.rates, driven.rates)


def test_many_gains_below_the_least_are_one_in_the_end(drive):
    schedule = Schedule(learning_rate=1e-3, validate_every=1, max_validations=4, min_gain=1e-2)
    driven = drive(schedule, [[1.0] * 3, [0.996] * 3, [0.992] * 3, [0.988] * 3])

    # Each is compared with the last that counted, not with the one before.
    assert driven.learned.best_step.tolist() == [4] * 3


def test_training_ends_when_all_have_stopped(drive):
    schedule = Schedule(
        learning_rate=1e-3, validate_every=2, max_validations=50, halve_after=1, stop_after=3, min_learning_rate=4e-4
    )
    driven = drive(schedule, [[0.6, 0.7, 0.8], *[[0.5, 0.6, 0.7]] * 49])

    assert driven.rates[:4, 0].tolist() == [1e-3, 1e-3, 5e-4, 4e-4], "the rate is never below the least"
    assert len(driven.seen) == 5
    assert not driven.rates[-1].any()
    np.testing.assert_allclose(driven.learned.loss, [0.5, 0.6, 0.7])
    assert driven.learned.converged.all()
    assert driven.learned.steps.tolist() == [10] * 3
    assert driven.learned.best_step.tolist() == [4] * 3
    assert driven.learned.last_gain.tolist() == [0.0] * 3


def test_wrong_9_a_probe_whose_first_validation_is_the_best_has_overfitted(drive):
    schedule = Schedule(learning_rate=1e-3, validate_every=20, max_validations=9, halve_after=1, stop_after=3)
    driven = drive(schedule, [[0.5, 0.6, 0.5], [0.6, 0.5, 0.5], *[[0.7, 0.6, 0.5]] * 7])

    assert driven.learned.best_step.tolist() == [20, 40, 20]
    assert driven.learned.overfitted.tolist() == [True, False, True], "the best weights lie before it, unseen"
    assert driven.learned.converged.tolist() == [False, True, False]


def test_wrong_9_how_far_mixing_weights_can_have_moved_is_known(drive):
    schedule = Schedule(
        learning_rate=1e-2, mixing_rate=5.0, validate_every=4, max_validations=6, halve_after=1, stop_after=2
    )
    driven = drive(schedule, np.array([[0.9] * 6, [0.9, 0.8, 0.9, 0.7, 0.9, 0.9], [0.9, 0.8, 0.9, 0.9, 0.9, 0.9]]).T)

    # 4 steps at 5 times .01; the rate is halved after the third validation.
    np.testing.assert_allclose(driven.learned.reach, [0.2, 0.2 + 0.2 + 0.2 + 0.1, 0.2 + 0.2])
    logits = driven.seen[1]["mix"]
    assert float(logits.abs().max()) <= 0.4 + 1e-6, "Adam's steps are no longer than the rate"


def test_a_probe_whose_loss_is_no_number_has_not_converged(drive):
    schedule = Schedule(learning_rate=1e-3, validate_every=1, max_validations=9, stop_after=2)
    driven = drive(schedule, [[np.nan, np.nan, 0.5]] * 2 + [[np.nan, 0.6, 0.5]] + [[np.nan] * 3] * 6)

    assert not driven.learned.converged.any()
    assert driven.learned.overfitted.tolist() == [False, False, True], "only a loss that is a number can have a best"
    assert driven.learned.loss[2] == 0.5
    assert not np.isfinite(driven.learned.loss[:2]).any()
    assert driven.learned.best_step.tolist() == [0, 0, 1]


STAGGERED = np.array([
    # Members 0, 2 and 5 stop after the third validation, 3 after the fifth, 1 after the seventh, 4 never.
    [0.9, 0.9, 0.9, 0.9, 0.9, 0.9],
    [0.9, 0.8, 0.9, 0.8, 0.8, 0.9],
    [0.9, 0.7, 0.9, 0.7, 0.7, 0.9],
    [0.9, 0.6, 0.9, 0.7, 0.6, 0.9],
    [0.9, 0.5, 0.9, 0.7, 0.5, 0.9],
    [0.9, 0.5, 0.9, 0.7, 0.4, 0.9],
    [0.9, 0.5, 0.9, 0.7, 0.3, 0.9],
    [0.9, 0.5, 0.9, 0.7, 0.2, 0.9],
])  # fmt: skip
STOPPING = Schedule(learning_rate=1e-3, validate_every=3, max_validations=8, halve_after=1, stop_after=2)


def test_members_that_have_stopped_leave_the_stack_and_nothing_else_changes(drive, monkeypatch):
    few = drive(STOPPING, STAGGERED, SIX)
    assert few.stacks == [[0, 1, 2, 3, 4, 5]] * 2 + [[1, 3, 4]] * 4 + [[4]] * 2
    with monkeypatch.context() as patch:
        patch.setattr(bank.Learner, "shrink", lambda self: None)
        whole = drive(STOPPING, STAGGERED, SIX)
    assert whole.stacks == [[0, 1, 2, 3, 4, 5]] * 8

    for one, other in zip(few.learned, whole.learned, strict=True):
        np.testing.assert_array_equal(one, other)
    assert few.learned.steps.tolist() == [9, 21, 9, 15, 24, 9]
    assert few.learned.best_step.tolist() == [3, 15, 3, 9, 24, 3]
    assert few.learned.converged.tolist() == [False, True, False, True, False, False]
    assert few.learned.overfitted.tolist() == [True, False, True, False, False, True]
    # Smaller stacks round otherwise.
    for one, other in zip(few.probes.parameters(), whole.probes.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=STOPPING.learning_rate, rtol=0)


@pytest.mark.parametrize("member", range(6))
def test_a_member_of_a_shrinking_stack_is_what_it_is_alone(member, drive):
    bank_ = drive(STOPPING, STAGGERED, SIX)
    alone = drive(STOPPING, STAGGERED[:, [member]], [SIX[member]])

    for together, own in zip(bank_.learned, alone.learned, strict=True):
        assert together[member] == own[0]
    pairs = zip(bank_.probes.named_parameters(), alone.probes.parameters(), strict=True)
    for (name, together), own in pairs:
        if len(own):
            torch.testing.assert_close(together[member], own[0], atol=STOPPING.learning_rate, rtol=0, msg=name)


CYCLES = Schedule(learning_rate=1e-3, validate_every=4, max_validations=4, growth=2.0, min_gain=0.02)


@pytest.fixture
def of_texts(find):
    """What the stopping texts add to a mean loss: they differ by as much from each other."""
    texts = len(np.unique(find("pos").stop.text))
    return lambda mean, spread: (mean + spread * np.cos(np.arange(texts) * 2 * np.pi / texts)) / texts


def test_a_probe_stops_after_a_cycle_that_did_not_lower_its_loss_by_enough(drive, of_texts):
    steady = [of_texts(mean, 0.5) for mean in (0.8, 0.6, 0.4, 0.2)]
    # Lower by 1 % only; lower by a third, but by no more than texts differ.
    little = [of_texts(mean, 0.5) for mean in (0.8, 0.6, 0.594, 0.1)]
    unsure = [of_texts(0.9, 0.0), of_texts(0.6, 9.0), of_texts(0.1, 0.0), of_texts(0.1, 0.0)]
    driven = drive(CYCLES, [np.array(losses) for losses in zip(steady, little, unsure, strict=True)])

    assert [CYCLES.end_of(number) for number in range(5)] == [0, 4, 8, 16, 32]
    assert driven.stacks == [[0, 1, 2], [0, 1], [0], [0]], "whoever has stopped leaves"
    assert driven.learned.steps.tolist() == [32, 16, 8]
    assert driven.learned.best_step.tolist() == [32, 16, 8], "a small gain is kept, though it ends the training"
    assert driven.learned.converged.tolist() == [False, True, True], "the first one was cut off by the most cycles"
    assert not driven.learned.overfitted.any()
    np.testing.assert_allclose(driven.learned.loss, [0.2, 0.594, 0.6], rtol=1e-6)


def test_of_several_seeds_in_a_stack_a_probe_leaves_when_it_has_stopped_in_all(drive, of_texts):
    steady = [of_texts(mean, 0.5) for mean in (0.8, 0.6, 0.4, 0.2)]
    little = [of_texts(mean, 0.5) for mean in (0.8, 0.6, 0.594, 0.1)]
    short = [of_texts(mean, 0.5) for mean in (0.8, 0.8, 0.1, 0.1)]
    # The two that mix layers by seed, then the one that reads one layer by seed.
    losses = [steady, short, little, short, little, little]
    driven = drive(CYCLES, [np.array(cycle) for cycle in zip(*losses, strict=True)], seed=(3, 8))

    assert driven.stacks == [[0, 1, 2, 3, 4, 5], [0, 2, 4, 5], [0, 2], [0, 2]], "one slow member keeps its other seed"
    assert driven.learned.steps.tolist() == [32, 8, 16, 8, 16, 16]
    assert driven.learned.best_step.tolist() == [32, 4, 16, 4, 16, 16]
    for seed, members in ((3, [0, 1, 4]), (8, [2, 3, 5])):
        alone = drive(
            CYCLES, [np.array(cycle) for cycle in zip(*(losses[one] for one in members), strict=True)], seed=seed
        )
        for together, own in zip(driven.learned, alone.learned, strict=True):
            np.testing.assert_array_equal(together[members], own)
        of_seed = driven.probes.of_seed(seed)
        # Stacks of other sizes round otherwise.
        for one, other in zip(of_seed.parameters(), alone.probes.parameters(), strict=True):
            torch.testing.assert_close(one, other, atol=CYCLES.learning_rate, rtol=0)


def test_a_probe_that_another_cycle_has_made_worse_has_overfitted(drive, of_texts):
    losses = [[of_texts(0.5, 0.3)] * 3, [of_texts(0.7, 0.3), of_texts(0.5, 0.3), of_texts(0.7, 0.3)]]
    driven = drive(CYCLES, [np.array(given) for given in losses])

    assert driven.learned.best_step.tolist() == [4, 4, 4]
    assert driven.learned.overfitted.tolist() == [True, False, True], "the best lies before the first cycle's end"
    assert driven.learned.converged.tolist() == [False, True, False], "as good as before: nothing is left to gain"


def test_in_a_cycle_the_rate_rises_and_falls_to_nothing(drive, of_texts):
    shares = [CYCLES.rate_share(step) for step in range(1, 33)]

    assert [round(share, 3) for share in shares[:4]] == [0.972, 0.694, 0.417, 0.139]
    assert min(shares) > 0
    assert shares[15] == min(shares[8:16])
    assert shares[31] == min(shares[16:])
    # No parameter moves further than the rates allow.
    driven = drive(CYCLES, [np.array([of_texts(loss, 0.0)] * 3) for loss in (0.4, 0.3, 0.2, 0.1)])
    reach = 1e-3 * sum(shares[:4])
    assert float(driven.seen[0]["mix"].abs().max()) <= reach * 1.001


def test_a_first_cycle_is_no_longer_than_a_pass_over_the_data(find):
    targets = find("pos").learn
    texts = len(np.unique(targets.text))

    long = Schedule(validate_every=500, growth=2.0, batch_texts=1)
    assert long.fitted_to(targets).validate_every == max(texts, 10)
    assert Schedule(validate_every=500, batch_texts=1).fitted_to(targets).validate_every == 500, "only in cycles"


def test_the_paper_s_schedules_are_as_published():
    for schedule, every, most in ((PAPER, 1000, 250), (PAPER_SMALL, 100, 100)):
        assert (schedule.learning_rate, schedule.clip, schedule.batch_texts) == (1e-4, 5.0, 32)
        assert (schedule.halve_after, schedule.stop_after, schedule.min_gain) == (5, 20, 1e-4)
        assert (schedule.min_learning_rate, schedule.hidden, schedule.mixing_rate) == (1e-6, 256, 1.0)
        assert (schedule.validate_every, schedule.max_validations, schedule.max_steps) == (every, most, every * most)
        assert schedule.batch_targets is None
