"""A bank gives each probe what it would get trained alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from lamina.probes.bank import Group, Schedule, train
from lamina.probes.edge import Cut, EdgeProbes
from lamina.probes.streams import Stream
from lamina.probes.targets import Counts, count_decisions

LAYERS = 3
CUTS = [Cut("cumulative", layer) for layer in range(LAYERS)] + [Cut("layer", layer) for layer in range(LAYERS)]
SCHEDULE = Schedule(learning_rate=5e-4, validate_every=5, max_validations=8, halve_after=1, stop_after=3)
STEP = SCHEDULE.learning_rate
"""Between weights: Adam can make a good part of a step out of the rounding of a gradient near zero."""
EDGE = 0.02
"""Between scores: other stacks and batches round otherwise, and a decision at the edge may flip."""


def trained(cuts, found, stored, *, seed=0, schedule=SCHEDULE, order_seed=0, **settings):
    """The probes of these cuts, and their scores on the stopping texts as the bank saw them."""
    shape = {"layers": LAYERS, "width": 16, "labels": len(found.all.labels), "arity": found.all.arity}
    group = Group(EdgeProbes(cuts, **shape, seed=seed), found.learn.gold, found.stop)
    learn, stop = (Stream(stored, targets, batch_texts=8, **settings) for targets in (found.learn, found.stop))
    (best,) = train([group], learn, stop, schedule, order_seed=order_seed, what="test")
    return group.probes, best


def f1(probes, found, stored):
    stream = Stream(stored, found.stop)
    counts = Counts.none(len(probes.cuts), found.stop.texts)
    with torch.no_grad():
        for batch in stream.in_order():
            count_decisions(counts, probes(batch) >= 0, found.stop, batch.rows)
    return counts.f1()


# One of single spans and one of pairs.
@pytest.mark.parametrize("task", ["ner", "srl"])
def test_each_probe_of_a_bank_is_what_it_is_alone(task, find, stored):
    found = find(task)
    bank, scores = trained(CUTS, found, stored)

    assert len(set(scores)) > 1, "members that all score the same would prove nothing"
    for member, cut in enumerate(bank.cuts):
        alone, (score,) = trained([cut], found, stored)
        assert score == pytest.approx(scores[member], abs=EDGE)
        for (name, together), single in zip(bank.named_parameters(), alone.parameters(), strict=True):
            if len(single):
                torch.testing.assert_close(together[member], single[0], atol=STEP, rtol=0, msg=f"{cut} {name}")


def test_seeds_of_one_program_are_what_they_are_apart(find, stored):
    found = find("srl")
    together, scores = trained(CUTS, found, stored, seed=(0, 3))

    assert together.seed_of == [0, 0, 0, 3, 3, 3] * 2
    for seed in (0, 3):
        apart, best = trained(CUTS, found, stored, seed=seed)
        own = together.of_seed(seed)
        assert (own.cuts, own.seeds) == (CUTS, (seed,))
        np.testing.assert_allclose(scores[np.array(together.seed_of) == seed], best, atol=EDGE)
        for one, other in zip(own.parameters(), apart.parameters(), strict=True):
            torch.testing.assert_close(one, other, atol=STEP, rtol=0)
    assert not torch.equal(together.of_seed(0).outer, together.of_seed(3).outer)


def test_groups_trained_together_are_what_they_are_apart(find, stored):
    found = find("pos")
    shape = {"layers": LAYERS, "width": 16, "labels": len(found.all.labels), "arity": 1}
    learned, stopping = (np.roll(part.gold, 1, axis=1) for part in (found.learn, found.stop))
    groups = [
        Group(EdgeProbes(CUTS, **shape, seed=0), found.learn.gold, found.stop),
        Group(EdgeProbes(CUTS, **shape, seed=1), found.learn.gold, found.stop),
        Group(EdgeProbes(CUTS, **shape, seed=0), learned, replace(found.stop, gold=stopping)),
    ]
    learn, stop = Stream(stored, found.learn, batch_texts=8), Stream(stored, found.stop, batch_texts=8)
    together = train(groups, learn, stop, SCHEDULE, order_seed=0, what="test")

    for seed in (0, 1):
        apart, best = trained(CUTS, found, stored, seed=seed)
        # Each group is a program of its own, of the same shapes: the very same computation.
        np.testing.assert_array_equal(together[seed], best)
        for one, other in zip(groups[seed].probes.parameters(), apart.parameters(), strict=True):
            assert torch.equal(one, other)
    assert not torch.equal(groups[0].probes.outer, groups[2].probes.outer)


def test_control_labels_are_not_charged_for_labels_of_the_task_that_training_never_saw(find, stored):
    found = find("pos")
    shape = {"layers": LAYERS, "width": 16, "labels": len(found.all.labels), "arity": 1}
    missed = replace(found.stop, unseen=np.ones((len(found.stop), 1), bool), unseen_labels=("NEW",))
    learn, stop = Stream(stored, found.learn, batch_texts=8), Stream(stored, missed, batch_texts=8)
    groups = [Group(EdgeProbes(CUTS, **shape, seed=0), found.learn.gold, valid) for valid in (missed, found.stop)]
    charged, free = train(groups, learn, stop, SCHEDULE, order_seed=0, what="test")

    # Every target has one more gold label that nobody says.
    assert (charged < free).all()
    np.testing.assert_array_equal(free, trained(CUTS, found, stored)[1])


def test_what_is_kept_scores_what_the_best_validation_scored(find, stored):
    found = find("pos")
    probes, best = trained(CUTS, found, stored)

    np.testing.assert_allclose(f1(probes, found, stored), best, atol=EDGE)


def test_the_same_seed_gives_the_same_probes_resident_or_not(find, stored):
    found = find("ner")
    one, _ = trained(CUTS, found, stored)
    again, _ = trained(CUTS, found, stored, resident_bytes=0)
    other_order, _ = trained(CUTS, found, stored, order_seed=1)

    for first, second in zip(one.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(first, second, atol=0, rtol=0)
    assert not torch.equal(one.outer, other_order.outer)


def test_probes_learn(find, stored):
    found = find("pos")
    schedule = Schedule(learning_rate=5e-3, validate_every=10, max_validations=8)

    _, best = trained([Cut("cumulative", 2), Cut("layer", 0)], found, stored, schedule=schedule)

    assert (best > 0.9).all()
