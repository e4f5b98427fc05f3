"""Batches of similar length under a token budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def bucket(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Indices grouped so that a group's longest item times its size stays within `budget` tokens.

    Longest first, so that memory peaks at once rather than at the end. An item longer than the
    budget is a group of its own.

    Example:
        >>> bucket([3, 9, 4, 2], budget=9)
        [[1], [2, 0], [3]]
    """
    groups: list[list[int]] = []
    longest = 0
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if groups and longest * (len(groups[-1]) + 1) <= budget:
            groups[-1].append(index)
        else:
            groups.append([index])
            longest = lengths[index]
    return groups


def chunked(items: Iterable[tuple[Item, int]], most: int, budget: int) -> Iterator[list[Item]]:
    """Consecutive (item, size) pairs as lists of at most `most` items and about `budget` in size.

    Example:
        >>> list(chunked([("a", 1), ("b", 5), ("c", 1)], most=2, budget=5))
        [['a', 'b'], ['c']]
    """
    chunk: list[Item] = []
    size = 0
    for item, weight in items:
        chunk.append(item)
        size += weight
        if len(chunk) >= most or size >= budget:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
