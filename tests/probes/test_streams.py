"""Batches: complete, the same for the same seed, the same wherever the states lie."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.probes import streams
from lamina.probes.streams import Batch, Stream

TASKS = ["pos", "ner", "dep", "srl"]


def same(one: Batch, other: Batch) -> bool:
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
@settings(max_examples=50, deadline=None)
def test_pairs_list_every_token_of_every_range(ranges):
    target, token = streams._pairs(np.array([(start, start + size) for start, size in ranges]))

    expected = [(at, start + step) for at, (start, size) in enumerate(ranges) for step in range(size)]
    assert list(zip(target.tolist(), token.tolist(), strict=True)) == expected
