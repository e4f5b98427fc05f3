"""Gradients written by hand, and batches filled up, against autograd on the batches as they are."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lamina.probes.bank import (
    PreparedBatch,
    ProbeGroup,
    Schedule,
    Size,
    batch_rows,
    largest_size,
    padded_size,
    train_probes,
)
from lamina.probes.edge import EdgeProbes, LayerCut
from lamina.probes.learner import Learner
from lamina.probes.streams import SpanBounds, Stream

BOTH = [*(LayerCut("cumulative", layer) for layer in range(3)), LayerCut("layer", 0), LayerCut("layer", 2)]


def learner(find, stored, task: str, cuts: list[LayerCut], loss: str, seeds: tuple[int, ...]) -> Learner:
    found = find(task)
    streams = Stream(stored, found.learn, batch_texts=9), Stream(stored, found.stop)
    shape = {"layers": 3, "width": 16, "labels": len(found.learn.labels), "arity": found.learn.arity}
    probes = EdgeProbes(cuts, **shape, seed=seeds, hidden=8)
    with torch.no_grad():
        # Weights that differ from member to member, and mixing weights that are not all alike.
        draw = torch.Generator().manual_seed(5)
        for parameter in probes.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=draw)
    return Learner(ProbeGroup(probes, found.learn, found.stop, streams, loss), Schedule(batch_texts=9, hidden=8))


def gradients(learning: Learner, monkeypatch, *parts) -> dict[str, torch.Tensor]:
    """What the optimiser would be given."""
    taken: dict[str, torch.Tensor] = {}

    def take(*_):
        for name, parameter in learning.probes.named_parameters():
            taken[name] = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
            parameter.grad = None

    monkeypatch.setattr(learning.optimiser, "step", take)
    learning.learn(*parts)
    return taken


@pytest.mark.parametrize("loss", ["binary", "categorical"])
@pytest.mark.parametrize("cuts", [BOTH, BOTH[:3], BOTH[3:]], ids=["both", "mixing", "alone"])
@pytest.mark.parametrize("task", ["pos", "srl"])
def test_gradients_by_hand_on_a_batch_that_is_filled_up_are_those_of_autograd(
    task, cuts, loss, find, stored, monkeypatch
):
    learning = learner(find, stored, task, cuts, loss, seeds=(0, 3))
    stream = learning.group.streams[0]
    batch = next(stream.epoch(1, 0))
    at = torch.from_numpy(batch.rows)
    expected = gradients(learning, monkeypatch, batch.states, batch.spans, learning.probes.draw_masks(batch, 7), at)

    layout = stream.shuffled(1, 0)
    room = Size(batch.states.shape[1] + 5, len(batch.rows) + 3)
    filled = PreparedBatch(room, torch.from_numpy(batch_rows(layout, [0], room, spare=len(stream.targets))[0]))
    places, rows, spans = filled.parts()
    masks = learning.probes.masks_from(torch.tensor(learning.probes.mask_starts(7)), *room, 16)
    found = gradients(learning, monkeypatch, stream.states_of(places), spans, masks, rows)

    for name, own in expected.items():
        torch.testing.assert_close(found[name], own, rtol=1e-4, atol=1e-6, msg=lambda told, of=name: f"{of}: {told}")


@pytest.mark.parametrize("task", ["pos", "srl"])
def test_probes_tell_the_same_by_bounds_as_by_tokens(task, find, stored):
    learning = learner(find, stored, task, BOTH, "binary", seeds=(0, 1))
    stream = learning.group.streams[0]
    batch, (_, _, bounds) = next(stream.epoch(1, 0)), stream.shuffled(1, 0).of(0)
    spans = tuple(SpanBounds(torch.from_numpy(bounds[:, span])) for span in range(bounds.shape[1]))

    with torch.no_grad():
        torch.testing.assert_close(learning.probes.logits(batch.states, spans), learning.probes(batch))


def test_every_batch_has_room_in_its_size_and_there_are_few_sizes(find, stored):
    layout = Stream(stored, find("srl").all, batch_texts=3).shuffled(0, 0)
    tokens, targets = (np.diff(ends, prepend=0) for ends in (layout.token_ends, layout.target_ends))
    sizes = [padded_size(*each, largest_size(layout)) for each in zip(tokens.tolist(), targets.tolist(), strict=True)]

    assert all(size.tokens >= a and size.targets >= b for size, a, b in zip(sizes, tokens, targets, strict=True))
    assert len(set(sizes)) <= 8
    larger = padded_size(2 * int(max(tokens)), 1, largest_size(layout))
    assert larger.tokens >= 2 * max(tokens), "a later epoch may have a batch that is larger than all of the first"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("task", ["pos", "srl"])
def test_a_gpu_learns_what_a_cpu_learns(task, find, stored):
    found = find(task)
    losses = []
    for device in ("cpu", "cuda"):
        probes = EdgeProbes(BOTH, layers=3, width=16, labels=len(found.learn.labels), arity=found.learn.arity, seed=0)
        streams = tuple(Stream(stored, each, batch_texts=8, device=device) for each in (found.learn, found.stop))
        schedule = Schedule(learning_rate=1e-3, validate_every=20, max_validations=3)
        (learned,) = train_probes(
            [ProbeGroup(probes, found.learn, found.stop, streams)], schedule, order_seed=0, what="test"
        )
        losses.append(learned.loss)

    # Products of a GPU have 11 significant bits.
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-2)
