"""What the pipeline paper's code did, each by itself: weights chosen by F1, an end below a rate, and the set of all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from lamina.analyses.layers.probe.planning import TrainingAmounts
from lamina.analyses.layers.probe.training import PAPER, PRACTICES, PRESETS, ProbeSetup
from lamina.probes.bank import DecisionTally, ProbeGroup, Schedule, errors, train_probes
from lamina.probes.edge import EdgeProbes, LayerCut
from lamina.probes.learner import Learner
from lamina.probes.streams import Stream

CUTS = [LayerCut("cumulative", 0), LayerCut("layer", 1)]
SHORT = Schedule(learning_rate=1e-2, validate_every=2, max_validations=6, halve_after=9, stop_after=9)


def group(find, stored) -> ProbeGroup:
    found = find("pos")
    probes = EdgeProbes(CUTS, layers=3, width=16, labels=len(found.learn.labels), arity=1, seed=0, hidden=16)
    return ProbeGroup(
        probes, found.learn, found.stop, (Stream(stored, found.learn, batch_texts=8), Stream(stored, found.stop))
    )


def test_weights_are_those_of_the_best_f1(find, stored) -> None:
    trained = group(find, stored)
    (record,) = train_probes([trained], replace(SHORT, selects="f1", min_gain=1e-9), order_seed=0, what="pos")
    tally = DecisionTally.none("f1", len(CUTS), trained.stop)
    for batch in trained.streams[1].in_order():
        with torch.no_grad():
            tally.add(trained.probes.logits(batch.states, batch.spans), trained.stop, batch.rows)
    np.testing.assert_allclose(record.loss, 1 - tally.value(), atol=1e-9)
    assert set(record.best_step.tolist()) <= {2, 4, 6, 8, 10, 12}


def test_a_cycle_that_does_not_raise_f1_is_the_last(find, stored) -> None:
    cycles = replace(SHORT, selects="f1", growth=2.0, max_validations=5, min_gain=2.0)
    (record,) = train_probes([group(find, stored)], cycles, order_seed=0, what="pos")
    # No F1 is 2 above another: the first cycle ends after 2 steps, the second after 4.
    assert record.best_step.tolist() == [2, 2]
    assert record.steps.max() <= 4


def test_errors_are_one_minus_the_score_of_every_member(find, stored) -> None:
    learner = Learner(group(find, stored), SHORT)
    wrong = errors(learner)
    assert wrong.shape == (len(CUTS),)
    assert ((wrong >= 0) & (wrong <= 1)).all()


def test_training_ends_where_the_rate_would_fall_below_the_least(find, stored) -> None:
    schedule = replace(
        SHORT, learning_rate=5e-6, min_learning_rate=1e-6, halve_after=1, min_gain=1e9, max_validations=20
    )
    (ends,) = train_probes([group(find, stored)], replace(schedule, ends_below=True), order_seed=0, what="pos")
    (goes_on,) = train_probes([group(find, stored)], schedule, order_seed=0, what="pos")
    # Best at the first validation; then 2.5e-6, 1.25e-6, and half of that is too little.
    assert ends.steps.tolist() == [8, 8]
    assert goes_on.steps.tolist() == [20, 20]


def test_faithful_does_all_and_each_can_be_done_alone(find) -> None:
    nothing = {"splits": None, "division": None, "preset": PRESETS["quick"], "cuts": (), "seeds": 1, "seed": 0}
    learn = find("pos").learn
    for name in PRACTICES:
        alone = ProbeSetup(**nothing, practices=frozenset({name}))  # type: ignore[arg-type]
        assert [other for other in PRACTICES if alone.does(other)] == [name]
    whole = ProbeSetup(**nothing, faithful=True)  # type: ignore[arg-type]
    assert all(map(whole.does, PRACTICES))
    schedule = whole.schedule(learn)
    assert (schedule.selects, schedule.ends_below, schedule.min_learning_rate) == ("f1", True, PAPER.min_learning_rate)
    plain = ProbeSetup(**nothing).schedule(learn)  # type: ignore[arg-type]
    assert (plain.selects, plain.ends_below) == ("loss", False)


def test_a_schedule_with_words_in_it_is_taken_as_it_is() -> None:
    schedule = replace(SHORT, selects="f1", ends_below=True)
    assert TrainingAmounts.read(schedule).of("quick").schedule == schedule
    with pytest.raises(Exception, match="the schedule has lr"):
        TrainingAmounts.read("lr=0")
