"""Class probes: stacked, chunked or alone, they are the same probes; and they are torch's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lamina.probes import mlp
from lamina.probes.mlp import ClassProbe, Examples, MLPTraining, decide

LAYERS, WIDTH, CLASSES = 2, 6, 5
TRAINING = MLPTraining(hidden=7, learning_rate=0.02, epochs=6, batch=16, validate_every=2)


def examples(seed: int, size: int) -> Examples:
    draw = torch.Generator().manual_seed(seed)
    vectors = torch.randn(LAYERS, size, WIDTH, generator=draw)
    # A class holds where a direction of the vectors says so: something to learn, differently in every layer.
    directions = torch.eye(WIDTH)[:CLASSES]
    return Examples(vectors, (vectors[:1] @ directions.T > 0.4))


@pytest.fixture(scope="module")
def told() -> tuple[Examples, Examples]:
    return examples(0, 60), examples(1, 30)


EVERY = [ClassProbe(row, label, seed) for row in range(LAYERS) for seed in range(2) for label in range(CLASSES)]
EDGE = 0.01
"""Share of decisions that may differ: stacks of other sizes round otherwise, and a decision at the edge may flip."""


def test_stacked_probes_equal_each_trained_alone(told):
    learn, choose = told
    (together,) = decide(learn, choose, [choose.vectors], EVERY, TRAINING)
    stack = mlp._train(EVERY[:CLASSES], learn, choose, TRAINING, "cpu")
    alone = np.concatenate([decide(learn, choose, [choose.vectors], [probe], TRAINING)[0] for probe in EVERY])
    assert np.mean(alone != together) < EDGE
    for at, probe in enumerate(EVERY[:CLASSES]):
        own = mlp._train([probe], learn, choose, TRAINING, "cpu")
        for alone, stacked in zip(own.parameters, stack.parameters, strict=True):
            assert torch.allclose(alone[0], stacked[at], atol=1e-5)


def test_chunks_and_cores_change_nothing(told, monkeypatch):
    learn, choose = told
    (whole,) = decide(learn, choose, [choose.vectors], EVERY, TRAINING)
    monkeypatch.setattr(mlp, "_CACHED_BYTES", 16 * WIDTH * TRAINING.hidden * 2)
    monkeypatch.setattr(mlp.torch, "get_num_threads", lambda: 2)
    assert len(mlp._chunks(EVERY, WIDTH, TRAINING.hidden, "cpu")) == 10
    (chunked,) = decide(learn, choose, [choose.vectors], EVERY, TRAINING)
    assert np.mean(whole != chunked) < EDGE
    torch.set_num_threads(1)


def test_a_probe_is_what_torch_trains(told):
    """The written-out gradient against autograd and torch's Adam, from the same weights and batches."""
    learn, choose = told
    probe = ClassProbe(1, 2, seed=3)
    last = MLPTraining(hidden=7, learning_rate=0.02, epochs=3, batch=16, select=False)
    weights, bias, out, shift = (torch.from_numpy(each) for each in mlp._initial(probe, WIDTH, 7))
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, 7), torch.nn.ReLU(), torch.nn.Linear(7, 1))
    with torch.no_grad():
        for own, drawn in zip(model.parameters(), (weights.T, bias[0], out.T, shift[0]), strict=True):
            own.copy_(drawn)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    vectors, gold = learn.vectors[1], learn.gold[0, :, 2].float()
    for epoch in range(1, 4):
        for rows in torch.from_numpy(np.random.default_rng(epoch).permutation(len(vectors))).split(16):
            optimiser.zero_grad()
            logits = model(vectors[rows]).squeeze(1)
            torch.nn.functional.binary_cross_entropy_with_logits(logits, gold[rows]).backward()
            optimiser.step()
    stack = mlp._train([probe], learn, choose, last, "cpu")
    with torch.no_grad():
        expected = model(choose.vectors[1]).squeeze(1)
    assert torch.allclose(stack.logits(choose.vectors[1])[0], expected, atol=1e-4)


def test_the_best_epoch_on_the_choosing_examples_is_kept(told):
    """Choosing examples that say the opposite: the first look is the best, whatever comes later."""
    learn, _ = told
    opposite = Examples(learn.vectors, ~learn.gold)
    probe = [ClassProbe(0, 0)]
    early = decide(learn, opposite, [learn.vectors], probe, MLPTraining(7, 0.02, 2, 16, 2))[0]
    kept = decide(learn, opposite, [learn.vectors], probe, MLPTraining(7, 0.02, 40, 16, 2))[0]
    last = decide(learn, opposite, [learn.vectors], probe, MLPTraining(7, 0.02, 40, 16, 2, select=False))[0]
    assert np.array_equal(kept, early)
    gold = learn.gold[0, :, 0].numpy()
    assert (last[0] == gold).mean() > 0.9 > (kept[0] == gold).mean()


def test_other_labellings_are_learned_as_told(told):
    learn, choose = told
    both = Examples(learn.vectors, torch.cat([learn.gold, ~learn.gold]))
    chosen = Examples(choose.vectors, torch.cat([choose.gold, ~choose.gold]))
    probes = [ClassProbe(0, 1), ClassProbe(0, 1, labelling=1)]
    (said,) = decide(both, chosen, [learn.vectors], probes, MLPTraining(16, 0.02, 60, 16, 10))
    gold = learn.gold[0, :, 1].numpy()
    assert (said[0] == gold).mean() > 0.9
    assert (said[1] == ~gold).mean() > 0.9
