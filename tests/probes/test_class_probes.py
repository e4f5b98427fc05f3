"""Class probes: stacked, chunked or alone, they are the same probes; and they are torch's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lamina.errors import DamagedError
from lamina.files.checking import save_tensors
from lamina.probes import mlp
from lamina.probes.mlp import (
    ClassExamples,
    ClassProbe,
    InMemory,
    MLPTraining,
    Vectors,
    decide,
    load_probes,
    save_probes,
    train,
)

WIDTH, CLASSES = 6, 5
TRAINING = MLPTraining(hidden=7, learning_rate=0.02, epochs=6, batch=16, validate_every=2)


def examples(seed: int, size: int) -> ClassExamples:
    draw = torch.Generator().manual_seed(seed)
    vectors = torch.randn(size, WIDTH, generator=draw)
    # A class holds where a direction of the vectors says so: something to learn.
    directions = torch.eye(WIDTH)[:CLASSES]
    return ClassExamples(Vectors.of(vectors), (vectors @ directions.T > 0.4).unsqueeze(0))


def all_of(vectors: Vectors) -> torch.Tensor:
    return vectors.take(torch.arange(len(vectors)))


@pytest.fixture(scope="module")
def told() -> tuple[ClassExamples, ClassExamples]:
    return examples(0, 60), examples(1, 30)


EVERY = [ClassProbe(label, seed) for seed in range(3) for label in range(CLASSES)]
EDGE = 0.01
"""Share of decisions that may differ: stacks of other sizes round otherwise, and a decision at the edge may flip."""


def test_stacked_probes_equal_each_trained_alone(told):
    learn, choose = told
    (together,) = decide(learn, choose, [choose.vectors], EVERY, TRAINING)
    stack = mlp.train_stack(EVERY[:CLASSES], learn, choose, TRAINING, "cpu")
    alone = np.concatenate([decide(learn, choose, [choose.vectors], [probe], TRAINING)[0] for probe in EVERY])
    assert np.mean(alone != together) < EDGE
    for at, probe in enumerate(EVERY[:CLASSES]):
        own = mlp.train_stack([probe], learn, choose, TRAINING, "cpu")
        for alone, stacked in zip(own.parameters, stack.parameters, strict=True):
            assert torch.allclose(alone[0], stacked[at], atol=1e-5)


def test_chunks_and_cores_change_nothing(told, monkeypatch):
    learn, choose = told
    (whole,) = decide(learn, choose, [choose.vectors], EVERY, TRAINING)
    monkeypatch.setattr(mlp, "_CACHED_BYTES", 16 * WIDTH * TRAINING.hidden * 2)
    monkeypatch.setattr(mlp.torch, "get_num_threads", lambda: 2)
    chunks = mlp.probe_chunks(len(EVERY), WIDTH, TRAINING.hidden, "cpu")
    assert [chunk.stop - chunk.start for chunk in chunks] == [1, 2, 2, 2, 2, 2, 2, 2]
    (chunked,) = decide(learn, choose, [choose.vectors], EVERY, TRAINING)
    assert np.mean(whole != chunked) < EDGE
    torch.set_num_threads(1)


def test_a_probe_is_what_torch_trains(told):
    """The written-out gradient against autograd and torch's Adam, from the same weights and batches."""
    learn, choose = told
    probe = ClassProbe(2, seed=3)
    last = MLPTraining(hidden=7, learning_rate=0.02, epochs=3, batch=16, select=False)
    weights, bias, out, shift = (torch.from_numpy(each) for each in mlp.initial_weights(probe, WIDTH, 7))
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, 7), torch.nn.ReLU(), torch.nn.Linear(7, 1))
    with torch.no_grad():
        for own, drawn in zip(model.parameters(), (weights.T, bias[0], out.T, shift[0]), strict=True):
            own.copy_(drawn)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    vectors, gold = all_of(learn.vectors), learn.gold[0, :, 2].float()
    for epoch in range(1, 4):
        for rows in torch.from_numpy(np.random.default_rng(epoch).permutation(len(vectors))).split(16):
            optimiser.zero_grad()
            logits = model(vectors[rows]).squeeze(1)
            torch.nn.functional.binary_cross_entropy_with_logits(logits, gold[rows]).backward()
            optimiser.step()
    stack = mlp.train_stack([probe], learn, choose, last, "cpu")
    with torch.no_grad():
        expected = model(all_of(choose.vectors)).squeeze(1)
    assert torch.allclose(mlp.probe_logits(stack.parameters, all_of(choose.vectors))[0], expected, atol=1e-4)


def test_the_best_epoch_on_the_choosing_examples_is_kept(told):
    """Choosing examples that say the opposite: the first look is the best, whatever comes later."""
    learn, _ = told
    opposite = ClassExamples(learn.vectors, ~learn.gold)
    probe = [ClassProbe(0)]
    early = decide(learn, opposite, [learn.vectors], probe, MLPTraining(7, 0.02, 2, 16, 2))[0]
    kept = decide(learn, opposite, [learn.vectors], probe, MLPTraining(7, 0.02, 40, 16, 2))[0]
    last = decide(learn, opposite, [learn.vectors], probe, MLPTraining(7, 0.02, 40, 16, 2, select=False))[0]
    assert np.array_equal(kept, early)
    gold = learn.gold[0, :, 0].numpy()
    assert (last[0] == gold).mean() > 0.9 > (kept[0] == gold).mean()


def test_other_labellings_are_learned_as_told(told):
    learn, choose = told
    both = ClassExamples(learn.vectors, torch.cat([learn.gold, ~learn.gold]))
    chosen = ClassExamples(choose.vectors, torch.cat([choose.gold, ~choose.gold]))
    probes = [ClassProbe(1), ClassProbe(1, labelling=1)]
    (said,) = decide(both, chosen, [learn.vectors], probes, MLPTraining(16, 0.02, 60, 16, 10))
    gold = learn.gold[0, :, 1].numpy()
    assert (said[0] == gold).mean() > 0.9
    assert (said[1] == ~gold).mean() > 0.9


def test_centring_is_that_of_the_vectors_taken():
    draw = np.random.default_rng(0)
    source = draw.normal(3, 5, (9000, WIDTH)).astype(np.float32)
    items = draw.permutation(9000)[:8000]
    centred = Vectors(InMemory(torch.from_numpy(source)), items).centred()
    expected = (source[items] - source[items].mean(0)) / (source[items] - source[items].mean(0)).std()
    assert np.allclose(all_of(centred).numpy(), expected, atol=1e-4)
    others = Vectors(InMemory(torch.from_numpy(source)), np.arange(4)).like(centred)
    assert np.allclose(all_of(others).numpy(), (source[:4] - source[items].mean(0)) / source[items].std(), atol=1e-1)


def test_half_precision_is_trained_as_the_same_numbers_in_float32(told):
    learn, choose = (ClassExamples(Vectors.of(all_of(each.vectors).half()), each.gold) for each in told)
    wide = [ClassExamples(Vectors.of(all_of(each.vectors)), each.gold) for each in (learn, choose)]
    half, full = (train(*both, EVERY[:3], TRAINING).parameters for both in ((learn, choose), wide))
    assert all(torch.equal(one, other) for one, other in zip(half, full, strict=True))


def test_saved_probes_say_what_they_said(told, tmp_path):
    learn, choose = told
    centred = learn.vectors.centred()
    trained = train(
        ClassExamples(centred, learn.gold), ClassExamples(choose.vectors.like(centred), choose.gold), EVERY, TRAINING
    )
    path = tmp_path / "probes.safetensors"
    save_probes(path, trained, centred, {"classes": list("abcde"), "layer": 3})
    found = load_probes(path)
    assert found.about == {"classes": list("abcde"), "layer": 3}
    assert found.trained.probes == tuple(EVERY)
    said = trained.says(choose.vectors.like(centred))
    assert np.mean(found.says(all_of(choose.vectors)) != said) < EDGE


def test_a_file_of_other_tensors_is_no_probes(tmp_path):
    save_tensors(tmp_path / "other.safetensors", {"a": torch.zeros(1)}, {})
    with pytest.raises(DamagedError, match="holds no class probes; name a probes file"):
        load_probes(tmp_path / "other.safetensors")
