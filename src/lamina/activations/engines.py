"""Engines that encode with several processes: one per GPU of this machine, or Ray's workers on any number of machines.

An engine is where things run, and nothing else: what is stored is the same within rounding, whichever is chosen.
"""

from __future__ import annotations

from typing import Literal, Protocol, get_args, runtime_checkable

from lamina.activations.extraction import Engine
from lamina.activations.workers import Task
from lamina.errors import InputError

EngineName = Literal["gpus", "ray"]


@runtime_checkable
class RunsTasks(Protocol):
    """An engine that can run other work too, such as the tasks of a probing suite."""

    def run_tasks(self, tasks: list[Task], *, what: str, device: str) -> None:
        """Run functions without arguments, some at once and each in a process of its own; the first error is raised."""
        ...


def engine_named(name: EngineName | None, workers: int | None = None) -> Engine | None:
    """The engine that is called so; None for this process.

    Example:
        >>> engine_named(None) is None, type(engine_named("gpus", 2)).__name__
        (True, 'ProcessEngine')
        >>> engine_named(None, 2)
        Traceback (most recent call last):
        lamina.errors.InputError: --workers is for an engine with workers; give --engine gpus or ray too
    """
    if workers is not None and workers < 1:
        raise InputError(f"there must be at least 1 worker; got {workers}")
    if name is None:
        if workers is not None:
            raise InputError("--workers is for an engine with workers; give --engine gpus or ray too")
        return None
    if name == "gpus":
        from lamina.activations.workers import ProcessEngine

        return ProcessEngine(workers)
    if name == "ray":
        from lamina.activations.workers import RayEngine, import_ray

        import_ray()
        return RayEngine(workers)
    raise InputError(f"there is no engine {name!r}; there are {' and '.join(get_args(EngineName))}")


__all__ = ["EngineName", "RunsTasks", "engine_named"]
