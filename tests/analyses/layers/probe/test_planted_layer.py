"""Labels planted in one layer of random states: real training has to find the layer."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lamina.analyses.layers.probe.statistics import Resampling
from lamina.analyses.layers.probe.summary import TaskSummary, bootstrap, selectivity, summarise
from lamina.analyses.layers.probe.training import ProbeOutcome, TaskRun
from lamina.probes.bank import DecisionTally, ProbeGroup, Schedule, train_probes
from lamina.probes.edge import EdgeProbes, LayerCut
from lamina.probes.streams import ProbeTargets, Stream
from lamina.tasks import get_task

LAYERS, WIDTH, TEXTS, WORDS = 5, 12, 400, 5
PLANTED = (1, 2, 4)
LEARN, STOP, SCORED = range(200), range(200, 260), range(260, TEXTS)
SCHEDULE = Schedule(
    learning_rate=1e-2,
    validate_every=5,
    max_validations=240,
    halve_after=4,
    stop_after=12,
    min_gain=2e-3,
    min_learning_rate=2e-4,
    hidden=16,
)


class Planted:
    """Random states; label k of a word moves two dimensions of layer k by its sign, and two of layer 0 a little.

    From nothing but noise a probe can only overfit.
    """

    token_bytes = LAYERS * WIDTH * 4

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.labels = rng.random((len(PLANTED), TEXTS, WORDS)) < 0.5
        states = rng.normal(size=(TEXTS, WORDS, LAYERS, WIDTH)).astype(np.float32)
        for own, layer in zip(self.labels, PLANTED, strict=True):
            states[:, :, layer, :2] += np.where(own, 1.2, -1.2)[..., None]
        for number, own in enumerate(self.labels):
            states[:, :, 0, 2 * number : 2 * number + 2] += np.where(own, 0.3, -0.3)[..., None]
        self._states = torch.from_numpy(states)

    def size(self, index: int) -> int:
        return WORDS

    resident = None

    def start(self, index: int) -> int:
        return 0

    def load(self, index: int) -> torch.Tensor:
        return self._states[index]

    def targets(self, which: int, texts: range) -> ProbeTargets:
        """One target per word, with one of two labels."""
        text, word = (each.ravel() for each in np.mgrid[texts.start : texts.stop, :WORDS])
        span = np.stack([word, word + 1], -1)[:, None]
        holds = self.labels[which, text, word]
        every = np.ones((len(text), 2), bool)
        none = np.zeros((len(text), 0), bool)
        return ProbeTargets(("yes", "no"), text, span, span, np.stack([holds, ~holds], -1), every, every, none, TEXTS)


@pytest.fixture(scope="module")
def summaries() -> dict[int, TaskSummary]:
    """Layer -> the summary of the label planted there."""
    source = Planted(0)
    learn, stop, scored = (Stream(source, source.targets(0, texts)) for texts in (LEARN, STOP, SCORED))
    cuts = tuple(LayerCut("cumulative", layer) for layer in range(LAYERS))
    shape = {"layers": LAYERS, "width": WIDTH, "labels": 2, "arity": 1, "hidden": SCHEDULE.hidden}
    groups = [
        ProbeGroup(
            EdgeProbes(cuts, **shape, seed=0), *(source.targets(which, own) for own in (LEARN, STOP)), (learn, stop)
        )
        for which in range(len(PLANTED))
    ]
    found = {}
    for which, learned in enumerate(train_probes(groups, SCHEDULE, order_seed=0, what="planted")):
        probes, targets = groups[which].probes, source.targets(which, SCORED)
        tally = DecisionTally.none("f1", LAYERS, targets)
        with torch.no_grad():
            for batch in scored.in_order():
                tally.add(probes(batch), targets, batch.rows)
            weights = probes.weights().numpy()
        own = ProbeOutcome("model", 0, cuts, {"f1": tally}, tally, learned, weights, np.ones(LAYERS), None)
        run = TaskRun(get_task("pos"), targets, (own,), {}, {}, np.zeros(len(targets), bool), np.ones(LAYERS))
        drawn = bootstrap(run, Resampling(TEXTS, 500, 0), [0])
        found[PLANTED[which]] = summarise(run, drawn, "planted", selectivity(run, drawn))[0]
    return found


@pytest.mark.parametrize("layer", PLANTED)
def test_the_expected_layer_is_where_the_label_was_planted(summaries: dict[int, TaskSummary], layer: int) -> None:
    row = summaries[layer]

    assert row.converged, row.reason
    assert row.f1_full > 0.9 > 0.7 > row.f1_first
    assert row.expected_layer == pytest.approx(layer, abs=0.5)
    assert np.isnan([row.el_low, row.el_high]).all(), "one seed has no range"
    # One layer has nearly all of the gain; the most that K(D) can be is 2.
    assert row.kl_differential > 1.5


@pytest.mark.parametrize("layer", PLANTED)
def test_mixing_weights_lean_towards_the_layer(summaries: dict[int, TaskSummary], layer: int) -> None:
    middle = (LAYERS - 1) / 2
    gravity = summaries[layer].center_of_gravity

    assert abs(gravity - layer) < abs(middle - layer) or layer == middle
