"""Batches: complete, the same for the same seed, the same wherever the states lie."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lamina.probes import streams
from lamina.probes.streams import ProbeBatch, Stream

TASKS = ["pos", "ner", "dep", "srl"]


def same(one: ProbeBatch, other: ProbeBatch) -> bool:
    return (
        np.array_equal(one.rows, other.rows)
        and torch.equal(one.states, other.states)
        and all(
            torch.equal(a.target, b.target) and torch.equal(a.token, b.token) and a.single == b.single
            for a, b in zip(one.spans, other.spans, strict=True)
        )
    )


@pytest.mark.parametrize("task", TASKS)
def test_batches_are_the_same_in_memory_and_from_the_store(task, find, stored):
    targets = find(task).learn
    resident, streamed = (Stream(stored, targets, batch_texts=7, resident_bytes=size) for size in (2**30, 0))

    assert resident._resident is not None
    assert streamed._resident is None
    for one, other in zip(resident.epoch(1, 2), streamed.epoch(1, 2), strict=True):
        assert same(one, other)


@pytest.mark.parametrize("task", TASKS)
def test_a_batch_holds_the_states_of_its_spans(task, find, stored):
    targets = find(task).all
    for batch in Stream(stored, targets, batch_texts=7).epoch(0, 0):
        assert batch.states.dtype == torch.float32
        for which, span in enumerate(batch.spans):
            sizes = []
            for at, row in enumerate(batch.rows):
                start, end = targets.tokens[row, which]
                expected = stored.load(int(targets.text[row]))[start:end].float()
                found = batch.states[:, span.token[span.target == at]].transpose(0, 1)
                assert torch.equal(found, expected)
                sizes.append(end - start)
            assert span.single == all(size == 1 for size in sizes)
        assert batch.states.shape[1] == len(np.unique(torch.cat([span.token for span in batch.spans]).numpy()))


def test_every_target_comes_once_an_epoch_in_an_order_of_its_own(find, stored):
    targets = find("ner").learn
    stream = Stream(stored, targets, batch_texts=7)
    orders = [
        np.concatenate([batch.rows for batch in stream.epoch(seed, epoch)]) for seed, epoch in ((0, 0), (0, 1), (1, 0))
    ]

    for order in orders:
        np.testing.assert_array_equal(np.sort(order), np.arange(len(targets)))
    assert all(not np.array_equal(a, b) for a, b in pairwise(orders))
    np.testing.assert_array_equal(orders[0], np.concatenate([batch.rows for batch in stream.epoch(0, 0)]))
    in_order = np.concatenate([batch.rows for batch in stream.in_order()])
    np.testing.assert_array_equal(in_order, np.argsort(targets.text, kind="stable"))


def test_texts_are_never_cut_and_batches_hold_so_many(find, stored):
    targets = find("pos").learn
    texts = [set(targets.text[batch.rows].tolist()) for batch in Stream(stored, targets, batch_texts=7).epoch(0, 0)]

    assert [len(each) for each in texts] == [7] * 8 + [4]
    assert set.union(*texts) == set(range(60))


def test_chunks_are_shuffled_and_shuffled_within(find, stored, monkeypatch):
    monkeypatch.setattr(streams, "_CHUNK", 16)
    targets = find("pos").learn
    order = [
        text for batch in Stream(stored, targets, batch_texts=1).epoch(0, 0) for text in {*targets.text[batch.rows]}
    ]

    chunks = [text // 16 for text in order]
    assert sorted(order) == list(range(60))
    assert sum(a != b for a, b in pairwise(chunks)) == 3, "texts of a chunk stay together"
    assert order != sorted(order)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 6)), min_size=1, max_size=20))
def test_pairs_list_every_token_of_every_range(ranges):
    target, token = streams._pairs(np.array([(start, start + size) for start, size in ranges]))

    expected = [(at, start + step) for at, (start, size) in enumerate(ranges) for step in range(size)]
    assert list(zip(target.tolist(), token.tolist(), strict=True)) == expected


@pytest.mark.parametrize("task", ["pos", "srl"])
def test_standardised_states_have_mean_0_and_one_deviation_over_the_tokens_of_targets(task, find, stored):
    targets = find(task).learn
    looked = Stream(stored, targets, batch_texts=7).look()
    seen = torch.cat([batch.states for batch in Stream(stored, targets, standard=looked.standard).in_order()], dim=1)

    torch.testing.assert_close(seen.mean(1), torch.zeros(3, 16), atol=1e-4, rtol=0)
    # Vectors of 16 dimensions have a length of 1 then.
    torch.testing.assert_close(seen.std(1, correction=0), torch.full((3, 16), 0.25), atol=1e-3, rtol=0)
    again = Stream(stored, targets, standard=looked.standard).look().standard
    torch.testing.assert_close(again.shift, torch.zeros(3, 16), atol=1e-4, rtol=0)


def test_a_look_tells_means_deviations_and_lengths_of_each_token_once(find, stored):
    targets = find("ner").learn
    tokens = {
        (text, token)
        for text, ((start, end),) in zip(targets.text.tolist(), targets.tokens.tolist(), strict=True)
        for token in range(start, end)
    }
    states = np.stack([stored.load(text)[token].double().numpy() for text, token in sorted(tokens)])

    for size in (7, 1000):
        standard, norms = Stream(stored, targets, batch_texts=size).look()
        np.testing.assert_allclose(norms, np.linalg.norm(states, axis=-1).mean(0), rtol=1e-6)
        np.testing.assert_allclose(standard.shift, states.mean(0), atol=1e-6)
        np.testing.assert_allclose(standard.scale, 4 * states.std(0), rtol=1e-5)


class Constant:
    """States with a dimension that never changes, one that hardly does, and a layer that is always the same."""

    token_bytes = 2 * 4 * 4

    def __init__(self) -> None:
        self._states = torch.randn(80, 30, 2, 4, generator=torch.Generator().manual_seed(0))
        self._states[..., 0] = 7.0
        self._states[..., 1] = 3 + 1e-9 * self._states[..., 1]
        self._states[:, :, 1] = -2.0

    def size(self, index: int) -> int:
        return 30

    resident = None

    def start(self, index: int) -> int:
        return 0

    def load(self, index: int) -> torch.Tensor:
        return self._states[index]


def test_a_constant_dimension_stays_at_0(find):
    targets = find("pos").learn
    looked = Stream(Constant(), targets).look()
    seen = torch.cat([batch.states for batch in Stream(Constant(), targets, standard=looked.standard).in_order()], 1)

    assert torch.isfinite(seen).all()
    assert seen[0, :, :2].abs().max() < 1e-2
    assert seen[1].abs().max() < 1e-2
    torch.testing.assert_close(seen[0, :, 2:].std(0, correction=0), torch.full((2,), 0.5), atol=1e-3, rtol=0)
