"""Ray: workers on any number of machines, one per GPU or some per CPU; and tasks of a suite, one at a time for each."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from math import ceil
from typing import Any, NamedTuple

from lamina.activations.engines.workers import Crew, EncodingJob, Reply, Task, Worker, deal
from lamina.activations.shards import SHARD_BYTES
from lamina.activations.store import ActivationStore
from lamina.errors import InputError, LaminaError, ModelError
from lamina.extras import require_package
from lamina.models import Encoder
from lamina.progress import progress
from lamina.types import Text

_CPUS_OF_WORKER = 4
"""Threads of a worker on a CPU where the number of workers is not said."""
_RETRIES = 2
"""How often a task is started again whose process died."""


def import_ray() -> Any:
    """The library, if it is installed."""
    require_package("ray", "--engine ray starts workers of Ray")
    return import_module("ray")


class RayEngine:
    """Encodes with Ray: on the cluster that RAY_ADDRESS names or that runs on this machine, else on this machine alone.

    Example:
        >>> RayEngine(workers=4).workers
        4
    """

    def __init__(self, workers: int | None = None, *, shard_bytes: int = SHARD_BYTES) -> None:
        self.workers = workers
        """Number of workers; by default one per GPU or, without any, one per four CPUs."""
        self._shard_bytes = shard_bytes

    def fill(self, encoder: Encoder, texts: Iterable[Text], store: ActivationStore, *, total: int | None = None) -> int:
        """See `Engine.fill`."""
        with (
            self.crew(encoder, store) as crew,
            progress(f"encoding with {encoder.name}, {crew.size} Ray workers", total) as advance,
        ):
            return deal(store.missing(texts), crew, total, advance)

    @contextmanager
    def crew(self, encoder: Encoder, store: ActivationStore) -> Iterator[Crew]:
        """The workers, for the time of a `with` block."""
        ray = _connected()
        share = share_of(_resources(ray), self.workers, cards=_may_use_cards(encoder))
        crew = _Actors(ray, EncodingJob.of(encoder, store, self._shard_bytes), share)
        try:
            yield crew
        finally:
            crew.end()
            store.look_again()

    def run_tasks(self, tasks: list[Task], *, what: str, device: str) -> None:
        """See `RunsTasks.run_tasks`."""
        ray = _connected()
        share = share_of(_resources(ray), self.workers, cards=device != "cpu")
        needs = {"num_cpus": share.cpus, "num_gpus": share.cards, "max_retries": _RETRIES}
        run = ray.remote(**needs)(_run)
        with progress(what, len(tasks)) as advance:
            waiting = [run.remote(task, share.threads) for task in tasks]
            while waiting:
                (ready, *_), waiting = ray.wait(waiting, num_returns=1)
                try:
                    fault = ray.get(ready)
                except ray.exceptions.RayError as error:
                    fault = RuntimeError(f"a Ray task failed: {error}")
                if fault is not None:
                    for handle in waiting:
                        ray.cancel(handle, force=True)
                    raise fault
                advance()


class WorkerShare(NamedTuple):
    """What each worker gets of a cluster."""

    workers: int
    cpus: float
    threads: int
    cards: float


def share_of(nodes: Sequence[Mapping[str, float]], workers: int | None, *, cards: bool) -> WorkerShare:
    """Divide a cluster, given the resources of its nodes, so that every worker finds room on one of them.

    More workers than GPUs or CPUs share them: Ray would let the others wait for ever.

    Example:
        >>> share_of([{"CPU": 8, "GPU": 2}, {"CPU": 8}], None, cards=True)
        WorkerShare(workers=2, cpus=4, threads=4, cards=1.0)
        >>> share_of([{"CPU": 8}, {"CPU": 8}], 3, cards=False)
        WorkerShare(workers=3, cpus=4, threads=4, cards=0.0)
        >>> share_of([{"CPU": 2}], 4, cards=False)
        WorkerShare(workers=4, cpus=0.5, threads=1, cards=0.0)
    """
    with_cards = [node for node in nodes if cards and node.get("GPU", 0) >= 1]
    sizes = [(int(node.get("CPU", 0)), int(node.get("GPU", 0))) for node in with_cards or nodes]
    all_cpus, all_cards = sum(cpus for cpus, _ in sizes), sum(gpus for _, gpus in sizes) if with_cards else 0
    count = workers or all_cards or max(1, all_cpus // _CPUS_OF_WORKER)
    per_card = ceil(count / all_cards) if all_cards else count
    seats = [(cpus, gpus * per_card if all_cards else count) for cpus, gpus in sizes]
    most = max((cpus for cpus, _ in sizes), default=0)
    fitting = [
        number for number in range(1, most + 1) if sum(min(cpus // number, most) for cpus, most in seats) >= count
    ]
    threads = max(fitting, default=1)
    cpus = threads if fitting else _part(ceil(count / max(1, all_cpus)))
    return WorkerShare(count, cpus, threads, _part(per_card) if all_cards else 0.0)


def _part(of: int) -> float:
    """The share of one of `of` equal parts, rounded down to Ray's precision of 1/10,000."""
    return int(10_000 / of) / 10_000


def _resources(ray: Any) -> list[Mapping[str, float]]:
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def _may_use_cards(encoder: Encoder) -> bool:
    """Unless the model was put on the CPU though there is a GPU here."""
    import torch

    on_card = getattr(getattr(encoder, "device", None), "type", "cpu") == "cuda"
    return on_card or not torch.cuda.is_available()


def _connected() -> Any:
    """Ray, connected to a cluster or started on this machine."""
    ray = import_ray()
    if not ray.is_initialized():
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise InputError(f"Ray could not be started or reached: {error}; check RAY_ADDRESS") from error
    return ray


class _Actors:
    """See `dealing.Crew`."""

    def __init__(self, ray: Any, job: EncodingJob, share: WorkerShare) -> None:
        self.size = share.workers
        self._ray = ray
        self._share = share
        try:
            # Sent once, whatever the number of workers.
            self._job = ray.put(job)
        except (TypeError, AttributeError) as error:
            raise ModelError(f"{job.model} cannot be sent to workers ({error}); leave --engine out") from error
        settings = {"num_cpus": share.cpus, "num_gpus": share.cards, "max_restarts": 0}
        self._kind = ray.remote(**settings)(Worker)
        self._device = "cuda" if share.cards else "cpu"
        self._actors = [self._start() for _ in range(self.size)]
        self._busy: dict[Any, int] = {}

    def send(self, rank: int, texts: list[Text]) -> None:
        """See `dealing.Crew.send`."""
        self._busy[self._actors[rank].encode.remote(texts)] = rank

    def reply(self) -> Reply:
        """See `dealing.Crew.reply`."""
        (ready, *_), _ = self._ray.wait(list(self._busy), num_returns=1)
        rank = self._busy.pop(ready)
        try:
            fault = self._ray.get(ready)
        except self._ray.exceptions.RayActorError as error:
            return Reply(rank, type(error).__name__)
        if fault is not None:
            raise fault
        return Reply(rank, None)

    def replace(self, rank: int) -> None:
        """See `dealing.Crew.replace`."""
        self._actors[rank] = self._start()

    def end(self) -> None:
        """End all workers."""
        for actor in self._actors:
            self._ray.kill(actor)

    def _start(self) -> Any:
        return self._kind.remote(self._job, self._device, self._share.threads)


def _run(task: Task, threads: int) -> Exception | None:
    import torch

    from lamina import progress

    os.environ[progress.VARIABLE] = "none"
    torch.set_num_threads(threads)
    try:
        task()
    except LaminaError as error:
        return error
    return None
