"""A bank gives each probe what it would get trained alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import r2_score

from lamina.activations import StoredActivations, extract
from lamina.corpora import corpus_from
from lamina.probes.bank import DecisionTally, ProbeGroup, Schedule, train_probes
from lamina.probes.edge import EdgeProbes, LayerCut
from lamina.probes.streams import Stream
from lamina.testing import TinyEncoder

LAYERS = 3
CUTS = [LayerCut("cumulative", layer) for layer in range(LAYERS)] + [
    LayerCut("layer", layer) for layer in range(LAYERS)
]
SCHEDULE = Schedule(learning_rate=5e-4, validate_every=5, max_validations=8, halve_after=1, stop_after=3)
STEP = SCHEDULE.learning_rate
"""Between weights: Adam can make a good part of a step out of the rounding of a gradient near zero."""
NEAR = 0.002
"""Between losses: other stacks and batches round otherwise."""


def grouped(cuts, found, stored, *, seed=0, loss="binary", hidden=32, streams=None, **settings) -> ProbeGroup:
    shape = {"layers": LAYERS, "width": 16, "labels": len(found.all.labels), "arity": found.all.arity}
    probes = EdgeProbes(cuts, **shape, seed=seed, hidden=hidden)
    both = streams or tuple(Stream(stored, each, batch_texts=8, **settings) for each in (found.learn, found.stop))
    return ProbeGroup(probes, found.learn, found.stop, both, loss)


def trained(cuts, found, stored, *, schedule=SCHEDULE, order_seed=0, **settings):
    """The probes of these cuts, and how their training went."""
    group = grouped(cuts, found, stored, **settings)
    (learned,) = train_probes([group], schedule, order_seed=order_seed, what="test")
    return group.probes, learned


def said(probes, found, stored) -> torch.Tensor:
    """The logits of all stopping targets, in their order."""
    logits = torch.empty(len(probes.cuts), *found.stop.gold.shape)
    with torch.no_grad():
        for batch in Stream(stored, found.stop).in_order():
            logits[:, batch.rows] = probes(batch)
    return logits


def same_learned(one, other) -> bool:
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one, other, strict=True))


def same_weights(one, other) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


# One of single spans and one of pairs.
@pytest.mark.parametrize("task", ["ner", "srl"])
def test_each_probe_of_a_bank_is_what_it_is_alone(task, find, stored):
    found = find(task)
    bank, learned = trained(CUTS, found, stored)

    assert len(set(learned.loss)) > 1, "members that all score the same would prove nothing"
    for member, cut in enumerate(bank.cuts):
        alone, own = trained([cut], found, stored)
        assert own.loss == pytest.approx(learned.loss[member], abs=NEAR)
        assert own.best_step == learned.best_step[member]
        for (name, together), single in zip(bank.named_parameters(), alone.parameters(), strict=True):
            if len(single):
                torch.testing.assert_close(together[member], single[0], atol=STEP, rtol=0, msg=f"{cut} {name}")


def test_seeds_of_one_program_are_what_they_are_apart(find, stored):
    found = find("srl")
    together, learned = trained(CUTS, found, stored, seed=(0, 3))

    assert together.seed_of == [0, 0, 0, 3, 3, 3] * 2
    for seed in (0, 3):
        apart, best = trained(CUTS, found, stored, seed=seed)
        own = together.of_seed(seed)
        assert (own.cuts, own.seeds) == (CUTS, (seed,))
        np.testing.assert_allclose(learned.of(np.array(together.seed_of) == seed).loss, best.loss, atol=NEAR)
        for one, other in zip(own.parameters(), apart.parameters(), strict=True):
            torch.testing.assert_close(one, other, atol=STEP, rtol=0)
    assert not torch.equal(together.of_seed(0).outer, together.of_seed(3).outer)


def test_groups_trained_together_are_what_they_are_apart(find, stored):
    found = find("pos")
    other = found._replace(
        learn=replace(found.learn, gold=np.roll(found.learn.gold, 1, axis=1)),
        stop=replace(found.stop, gold=np.roll(found.stop.gold, 1, axis=1)),
    )
    first = grouped(CUTS, found, stored)
    groups = [
        first,
        grouped(CUTS, found, stored, seed=1, streams=first.streams),
        grouped(CUTS, other, stored, streams=first.streams),
    ]
    together = train_probes(groups, SCHEDULE, order_seed=0, what="test")

    for seed in (0, 1):
        apart, learned = trained(CUTS, found, stored, seed=seed)
        # Each group is a program of its own, of the same shapes: the very same computation.
        assert same_learned(together[seed], learned)
        assert same_weights(groups[seed].probes, apart)
    assert not torch.equal(groups[0].probes.outer, groups[2].probes.outer)


@pytest.fixture(scope="module")
def twin(texts, tmp_path_factory) -> StoredActivations:
    """The states of the encoder's random twin, of the same texts."""
    corpus = corpus_from(texts, name="own")
    return extract(TinyEncoder().random_twin(0), corpus, root=tmp_path_factory.mktemp("twin"))


def test_model_and_twin_trained_together_are_what_they_are_apart(find, stored, twin):
    found = find("ner")
    groups = [grouped(CUTS, found, states) for states in (stored, twin)]
    assert groups[0].streams != groups[1].streams
    together = train_probes(groups, SCHEDULE, order_seed=0, what="test")

    for states, group, learned in zip((stored, twin), groups, together, strict=True):
        apart, alone = trained(CUTS, found, states)
        assert same_learned(learned, alone)
        assert same_weights(group.probes, apart)
    assert not torch.equal(groups[0].probes.outer, groups[1].probes.outer)


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def test_groups_side_by_side_on_two_cores_give_the_same_bits(find, stored, twin):
    found = find("ner")

    def three() -> tuple[list[ProbeGroup], list]:
        groups = [grouped(CUTS, found, stored, seed=seed) for seed in (0, 1)] + [grouped(CUTS[:2], found, twin)]
        return groups, train_probes(groups, SCHEDULE, order_seed=0, what="test")

    with threads(1):
        groups, learned = three()
    with threads(2):
        again, relearned = three()
        assert torch.get_num_threads() == 2, "as it was before"
    for one, other in zip(groups, again, strict=True):
        assert same_weights(one.probes, other.probes)
    for one, other in zip(learned, relearned, strict=True):
        assert same_learned(one, other)


def test_labels_that_nobody_can_say_and_decisions_not_rated_are_no_loss(find, stored):
    found = find("pos")
    _, learned = trained(CUTS, found, stored)
    missed = replace(found.stop, unseen=np.ones((len(found.stop), 1), bool), unseen_labels=("NEW",))
    _, unseen = trained(CUTS, found._replace(stop=missed), stored)
    np.testing.assert_array_equal(unseen.loss, learned.loss)

    half = found.stop.rated & (np.arange(len(found.stop)) % 2 == 0)[:, None]
    probes, some = trained(CUTS, found._replace(stop=replace(found.stop, rated=half)), stored)
    logits, gold = said(probes, found, stored)[:, ::2], torch.from_numpy(found.stop.gold[::2]).float()
    expected = [torch.nn.functional.binary_cross_entropy_with_logits(each, gold).item() for each in logits]
    assert some.loss == pytest.approx(expected, abs=1e-5)


def test_what_is_kept_has_the_loss_of_the_best_validation(find, stored):
    found = find("pos")
    gold = torch.from_numpy(found.stop.gold).float()
    binary, learned = trained(CUTS, found, stored)
    expected = [
        torch.nn.functional.binary_cross_entropy_with_logits(each, gold).item() for each in said(binary, found, stored)
    ]
    assert learned.loss == pytest.approx(expected, abs=1e-5)

    categorical, learned = trained(CUTS, found, stored, loss="categorical")
    expected = [
        torch.nn.functional.cross_entropy(each, gold.argmax(1)).item() for each in said(categorical, found, stored)
    ]
    assert learned.loss == pytest.approx(expected, abs=1e-5)
    assert not same_weights(binary, categorical)


def test_graded_targets_are_predicted_in_their_own_unit(find, stored):
    found = find("mood")
    schedule = Schedule(learning_rate=5e-3, validate_every=15, max_validations=10)
    probes, learned = trained(CUTS, found, stored, loss="squared", schedule=schedule)

    values = found.stop.values
    told = said(probes, found, stored)[..., 0].double().numpy()
    # In units of the values learned from: squared distances from them, by their variance.
    expected = ((told - values) ** 2).mean(1) / found.learn.values.var()
    assert learned.loss == pytest.approx(expected, rel=1e-3)
    assert min(r2_score(values, each) for each in told) > 0.5
    assert told.mean() == pytest.approx(values.mean(), abs=0.5)
    tally = DecisionTally.none("r2", len(CUTS), found.stop)
    tally.add(said(probes, found, stored), found.stop, np.arange(len(found.stop)))
    assert tally.value() == pytest.approx([r2_score(values, each) for each in told])


def test_the_unit_of_values_changes_nothing_else(find, stored):
    found = find("mood")
    moved = [replace(each, values=1000 * each.values - 7) for each in found]
    one, learned = trained(CUTS, found, stored, loss="squared")
    other, same = trained(CUTS, type(found)(*moved), stored, loss="squared")

    assert same.loss == pytest.approx(learned.loss, abs=NEAR)
    torch.testing.assert_close(1000 * said(one, found, stored) - 7, said(other, found, stored), rtol=0.02, atol=20)


def test_values_that_never_change_are_learned_as_they_are(find, stored):
    found = find("mood")
    fixed = [replace(each, values=np.full(len(each), 3.0)) for each in found]
    schedule = Schedule(learning_rate=5e-3, validate_every=10, max_validations=8)
    probes, learned = trained(CUTS, type(found)(*fixed), stored, loss="squared", schedule=schedule)

    assert np.isfinite(learned.loss).all()
    assert said(probes, found, stored).mean().item() == pytest.approx(3.0, abs=0.2)


def test_the_same_seed_gives_the_same_probes_resident_or_not(find, stored):
    found = find("ner")
    one, _ = trained(CUTS, found, stored)
    again, _ = trained(CUTS, found, stored, resident_bytes=0)
    other_order, _ = trained(CUTS, found, stored, order_seed=1)

    assert same_weights(one, again)
    assert not torch.equal(one.outer, other_order.outer)


def test_probes_learn(find, stored):
    found = find("pos")
    schedule = Schedule(learning_rate=5e-3, validate_every=10, max_validations=8)
    cuts = [LayerCut("cumulative", 2), LayerCut("layer", 0)]
    for loss in ("binary", "categorical"):
        probes, _ = trained(cuts, found, stored, schedule=schedule, loss=loss)
        right = (said(probes, found, stored).argmax(-1).numpy() == found.stop.gold.argmax(1)).mean(1)
        assert (right > 0.9).all()


def test_a_step_has_about_as_many_targets_as_asked_for(find):
    targets = find("pos").learn
    each = len(targets) / 60

    assert Schedule(batch_texts=5).texts_of(targets) == 5
    assert Schedule(batch_targets=40).texts_of(targets) == round(40 / each)
    assert Schedule(batch_targets=1).texts_of(targets) == 1
    assert Schedule(batch_targets=40).texts_of(targets.among([])) == 1
