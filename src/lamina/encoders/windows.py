"""Overlapping windows over texts that are longer than a model's limit."""

from __future__ import annotations

from typing import NamedTuple


class Window(NamedTuple):
    """Tokens `start:stop` go through the model; of those, `keep_start:keep_stop` are taken."""

    start: int
    stop: int
    keep_start: int
    keep_stop: int


def plan_windows(length: int, capacity: int, *, causal: bool = False) -> list[Window]:
    """Windows of at most `capacity` tokens that overlap by half; each token is kept once, where it sees most.

    With attention both ways that is the window in whose middle it lies; for a causal model, which
    sees only what comes before, it is the earliest window that holds it.

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
    # The last window is moved back so that it is full: its tokens see as much as all others.
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
