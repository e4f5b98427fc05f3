"""Work that keeps one core busy, done beside work that takes all others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from threading import Thread
from typing import Generic, TypeVar

import torch

Made = TypeVar("Made")
Each = TypeVar("Each")


class Beside(Generic[Made]):
    """Work in a thread of its own; meanwhile torch computes here with one thread less, since threads of one product
    that share a core wait for each other.

    As a context, it gives the threads back at the end; work that nobody asked for by then is left alone.

    Example:
        >>> with Beside(lambda: sum(range(10))) as counted:
        ...     [*counted.during("ab")], counted.result()
        (['a', 'b'], 45)
    """

    def __init__(self, work: Callable[[], Made]) -> None:
        self._made: Future[Made] = Future()
        self._threads = torch.get_num_threads()
        torch.set_num_threads(max(1, self._threads - 1))
        # A daemon: who is stopped, or fails, does not wait for it.
        Thread(target=self._run, args=(work,), daemon=True).start()

    def __enter__(self) -> Beside[Made]:
        return self

    def __exit__(self, *_: object) -> None:
        torch.set_num_threads(self._threads)

    def during(self, others: Iterable[Each]) -> Iterator[Each]:
        """The same values, computed as they are asked for; with all threads again once the work is done."""
        for other in others:
            if self._made.done():
                torch.set_num_threads(self._threads)
            yield other

    def result(self) -> Made:
        """What came of the work, waiting for it if need be."""
        result = self._made.result()
        torch.set_num_threads(self._threads)
        return result

    def _run(self, work: Callable[[], Made]) -> None:
        try:
            self._made.set_result(work())
        except BaseException as error:
            # Raised where the result is asked for.
            self._made.set_exception(error)
