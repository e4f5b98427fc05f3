"""Batches of similar length under a token budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

Item = TypeVar("Item")

_FULL = 0.75
"""Share of the longest item of a batch that others should have ..."""
_ENOUGH = 1 / 3
"""... once the batch has this share of its budget."""


def bucket(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Indices grouped so that a group's longest item times its size stays within `budget` tokens.

    Longest first, so that memory peaks at the start and not at the end. An item longer than the budget is its own
    group.

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
    """Consecutive items, given as (item, size) pairs, in lists of at most `most` items and a size of about `budget`.

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


class Waiting:
    """Items that are taken in batches, longest first, under a budget that may change in between.

    An item has some rows of one length, and stays in one piece.

    Example:
        >>> waiting = Waiting([3, 9, 4, 2])
        >>> waiting.take(9), waiting.take(9)
        ([1], [2, 0])
        >>> waiting.put_back([2, 0])
        >>> waiting.take(4), len(waiting)
        ([2], 2)
    """

    def __init__(self, lengths: Sequence[int], rows: Sequence[int] | None = None) -> None:
        self._lengths, self._rows = lengths, rows or [1] * len(lengths)
        # The longest at the end of the list, where it is taken from.
        self._left = sorted(range(len(lengths)), key=lambda i: (lengths[i], -i))

    def __len__(self) -> int:
        return len(self._left)

    def take(self, budget: int) -> list[int]:
        """The longest items whose rows, padded to the longest, stay within `budget` tokens; at least one item.

        A batch that is large enough takes no more items that would be padding for a good part.
        """
        taken = [self._left.pop()]
        longest, rows = self._lengths[taken[0]], self._rows[taken[0]]
        while self._left:
            item = self._left[-1]
            mostly_padding = self._lengths[item] < _FULL * longest and rows * longest >= _ENOUGH * budget
            if mostly_padding or longest * (rows + self._rows[item]) > budget:
                break
            taken.append(self._left.pop())
            rows += self._rows[item]
        return taken

    def put_back(self, taken: Sequence[int]) -> None:
        """Items that were taken last are taken again."""
        self._left += reversed(taken)


class Window(NamedTuple):
    """Tokens `start:stop` go through the model; of those, `keep_start:keep_stop` are kept."""

    start: int
    stop: int
    keep_start: int
    keep_stop: int


def plan_windows(length: int, capacity: int, *, causal: bool = False) -> list[Window]:
    """Windows of at most `capacity` tokens that overlap by half; each token is kept once, where it sees most context.

    With bidirectional attention that is the window where it is closest to the middle; for a causal model, which only
    sees the tokens before it, it is the earliest window that contains it.

    Example:
        >>> plan_windows(10, 6)
        [Window(start=0, stop=6, keep_start=0, keep_stop=4), Window(start=3, stop=9, keep_start=4, keep_stop=6), \
Window(start=4, stop=10, keep_start=6, keep_stop=10)]
        >>> plan_windows(3, 6)
        [Window(start=0, stop=3, keep_start=0, keep_stop=3)]
    """
    if length <= capacity:
        return [Window(0, length, 0, length)]
    stride = max(1, capacity // 2)
    # The last window is moved back so that it is full: its tokens see as much context as all others.
    starts = [*range(0, length - capacity, stride), length - capacity]
    windows, kept = [], 0
    for index, start in enumerate(starts):
        stop = start + capacity
        if index + 1 == len(starts):
            until = length
        elif causal:
            until = stop
        else:
            until = (starts[index + 1] + stop) // 2
        windows.append(Window(start, stop, kept, until))
        kept = until
    return windows
