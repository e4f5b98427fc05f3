"""Windows and batches, by brute force."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lamina.models.running.batching import WaitingItems, bucket, chunked, plan_windows


@given(length=st.integers(1, 300), capacity=st.integers(1, 60), causal=st.booleans())
def test_each_token_is_kept_once_inside_a_window_that_fits(length, capacity, causal):
    windows = plan_windows(length, capacity, causal=causal)
    kept = [token for window in windows for token in range(window.keep_start, window.keep_stop)]
    assert kept == list(range(length))
    for window in windows:
        assert 0 <= window.start <= window.keep_start <= window.keep_stop <= window.stop <= length
        assert window.stop - window.start <= capacity


@given(length=st.integers(1, 300), capacity=st.integers(1, 60), causal=st.booleans())
def test_each_token_is_kept_where_it_sees_most(length, capacity, causal):
    windows = plan_windows(length, capacity, causal=causal)

    def context(token, window):
        left, right = token - window.start, window.stop - 1 - token
        return left if causal else min(left, right)

    for window in windows:
        for token in range(window.keep_start, window.keep_stop):
            most = max(context(token, other) for other in windows if other.start <= token < other.stop)
            assert context(token, window) == most


@given(length=st.integers(61, 300), capacity=st.integers(2, 60))
def test_windows_overlap_by_half_and_are_full(length, capacity):
    windows = plan_windows(length, capacity)
    assert all(window.stop - window.start == capacity for window in windows)
    overlaps = [one.stop - two.start for one, two in pairwise(windows)]
    assert min(overlaps) >= capacity // 2


@given(lengths=st.lists(st.integers(1, 50), max_size=60), budget=st.integers(1, 200))
def test_buckets_share_everything_out_within_the_budget(lengths, budget):
    groups = bucket(lengths, budget)
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    for group in groups:
        longest = max(lengths[index] for index in group)
        assert longest == lengths[group[0]]
        assert len(group) == 1 or longest * len(group) <= budget


@given(sizes=st.lists(st.integers(0, 20), max_size=60), most=st.integers(1, 9), budget=st.integers(1, 50))
def test_chunks_follow_each_other_and_stop_at_the_first_bound(sizes, most, budget):
    chunks = list(chunked(((i, size) for i, size in enumerate(sizes)), most, budget))
    assert [i for chunk in chunks for i in chunk] == list(range(len(sizes)))
    for number, chunk in enumerate(chunks):
        assert 1 <= len(chunk) <= most
        assert sum(sizes[i] for i in chunk[:-1]) < budget
        closed = len(chunk) == most or sum(sizes[i] for i in chunk) >= budget
        assert closed or number == len(chunks) - 1


@given(
    items=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 3)), max_size=60),
    budgets=st.lists(st.integers(1, 200), min_size=1, max_size=5),
)
def test_items_are_taken_once_whole_and_within_a_budget_that_changes(items, budgets):
    lengths, rows = [length for length, _ in items], [count for _, count in items]
    waiting, taken, turn = WaitingItems(lengths, rows), [], 0
    while waiting:
        budget = budgets[turn % len(budgets)]
        batch = waiting.take(budget)
        turn += 1
        if turn % 3 == 0 and turn < 30:
            waiting.put_back(batch)
            assert waiting.take(budget) == batch
        longest = max(lengths[item] for item in batch)
        assert longest == lengths[batch[0]]
        assert len(batch) == 1 or longest * sum(rows[item] for item in batch) <= budget
        taken += batch
    assert sorted(taken) == list(range(len(items)))
    assert [lengths[item] for item in taken] == sorted(lengths, reverse=True)
