"""Dealing texts to workers: processes on this machine, one per GPU, or Ray's on any number of machines.

A worker that dies is replaced, and its texts are encoded again. Ray also runs the tasks of a suite, one at a time each.
"""

from __future__ import annotations

import os
import platform
import signal
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from math import ceil
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from lamina.activations.extraction import ThisMachine, rank_of
from lamina.activations.shards import SHARD_BYTES
from lamina.activations.store import ActivationStore
from lamina.errors import InputError, LaminaError, ModelError, StoreError
from lamina.extras import require_package
from lamina.models import Encoder
from lamina.models.running.reloading import EncoderLoader, loader_of
from lamina.progress import VARIABLE as PROGRESS
from lamina.progress import Advance, progress, say
from lamina.types import Text, text_key

if TYPE_CHECKING:
    from lamina.models.checks.passports import Passport


_MOST_TEXTS = 2048
"""Texts that a worker gets at once; also what it does again after a worker died."""
_LEAST_TEXTS = 64
_WAITING = 2
"""Hands of texts read ahead for each worker."""
_MOST_DEATHS = 3
"""Of workers of one rank in a row, until it is given up."""

Task = Callable[[], object]
"""Work without arguments, done for what it writes."""


class Reply(NamedTuple):
    """What came back from a worker."""

    rank: int
    died: str | None
    """How it ended, if it did."""


class Crew(Protocol):
    """Workers by rank, from 0."""

    size: int

    def send(self, rank: int, texts: list[Text], /) -> None:
        """Have the worker of a rank encode some texts; it has done all that it was sent before."""
        ...

    def reply(self) -> Reply:
        """The next reply, waited for; an error that a worker had is raised."""
        ...

    def replace(self, rank: int, /) -> None:
        """A new worker in the place of one that died."""
        ...


def deal(missing: Iterable[Text], crew: Crew, total: int | None, advance: Advance) -> int:
    """Have all texts encoded by the workers of their ranks; returns their number.

    The texts are a stream: only a few hands for each worker are in memory.
    """
    hands = _hands(missing, crew.size, _hand_size(total, crew.size))
    waiting: list[deque[list[Text]]] = [deque() for _ in range(crew.size)]
    busy: dict[int, list[Text]] = {}
    deaths = [0] * crew.size
    done, more = 0, True
    while True:
        while more and sum(map(len, waiting)) < _WAITING * crew.size:
            dealt = next(hands, None)
            if dealt is None:
                more = False
            else:
                waiting[dealt[0]].append(dealt[1])
        for rank, ready in enumerate(waiting):
            if ready and rank not in busy:
                busy[rank] = ready.popleft()
                crew.send(rank, busy[rank])
        if not busy:
            return done
        rank, died = crew.reply()
        if died is None:
            texts = busy.pop(rank)
            deaths[rank] = 0
            done += len(texts)
            advance(len(texts))
        else:
            deaths[rank] += 1
            _refuse_dying(rank, died, deaths[rank])
            crew.replace(rank)
            crew.send(rank, busy[rank])


def _refuse_dying(rank: int, died: str, times: int) -> None:
    if times >= _MOST_DEATHS:
        raise StoreError(
            f"worker {rank} died {times} times in a row ({died}); all stored shards are kept. The usual cause is too "
            "little memory: give fewer --workers, and run the same command again"
        )
    say(f"worker {rank} died ({died}); it is replaced, and its texts are encoded again")


def _hand_size(total: int | None, ranks: int) -> int:
    if total is None:
        return _MOST_TEXTS
    return min(_MOST_TEXTS, max(_LEAST_TEXTS, total // (2 * ranks)))


def _hands(texts: Iterable[Text], ranks: int, size: int) -> Iterator[tuple[int, list[Text]]]:
    """Some texts of one rank at a time, without what encoding does not need."""
    gathered: list[list[Text]] = [[] for _ in range(ranks)]
    for text in texts:
        rank = rank_of(text_key(text), ranks, within=True)
        gathered[rank].append(Text(text.id, text.words, text.segments))
        if len(gathered[rank]) == size:
            yield rank, gathered[rank]
            gathered[rank] = []
    yield from ((rank, left) for rank, left in enumerate(gathered) if left)


# One worker: holds the model, and encodes the texts it is handed into the store.


@dataclass(frozen=True)
class EncodingJob:
    """What all workers of an engine do."""

    loader: EncoderLoader
    model: str
    """Its name in messages."""
    fingerprint: str
    passport: Passport | None
    folder: Path
    """Of the store."""
    shard_bytes: int = SHARD_BYTES

    @classmethod
    def of(cls, encoder: Encoder, store: ActivationStore, shard_bytes: int = SHARD_BYTES) -> EncodingJob:
        """To encode with this encoder into this store."""
        model, folder = encoder.name, store.folder.resolve()
        return cls(loader_of(encoder), model, encoder.fingerprint, encoder.passport, folder, shard_bytes)


class Worker:
    """See the module. The model is loaded where it works, when the first texts come."""

    def __init__(self, job: EncodingJob, device: str, threads: int) -> None:
        self._job, self._device, self._threads = job, device, threads

    def encode(self, texts: list[Text]) -> Exception | None:
        """Encode and store those texts that are not stored yet; returns an error that it met.

        One that is not lamina's own comes as text: it may not bear the journey.
        """
        try:
            encoder, store = self._ready
            ThisMachine(shard_bytes=self._job.shard_bytes).fill(encoder, texts, store)
        except LaminaError as error:
            return error
        except Exception:
            return RuntimeError(f"a worker on {platform.node()} failed:\n{traceback.format_exc()}")
        return None

    def pid(self) -> int:
        """The number of its process."""
        return os.getpid()

    @cached_property
    def _ready(self) -> tuple[Encoder, ActivationStore]:
        import torch

        # The process that deals the texts shows the progress.
        os.environ[PROGRESS] = "none"
        torch.set_num_threads(self._threads)
        store = _opened(self._job)
        return _load_encoder(self._job, self._device), store


def _opened(job: EncodingJob) -> ActivationStore:
    store = ActivationStore(job.folder)
    if not job.folder.is_dir():
        raise StoreError(f"{job.folder} is not to be seen on {platform.node()}; give a --store that all machines share")
    if store.head["fingerprint"] != job.fingerprint:
        raise StoreError(f"{job.folder} on {platform.node()} is the store of another model; share one --store")
    return store


def _load_encoder(job: EncodingJob, device: str) -> Encoder:
    encoder = job.loader.make(device)
    if encoder.fingerprint != job.fingerprint:
        raise ModelError(
            f"{job.model} is another model on {platform.node()} than here (weights, tokenizer or settings differ); use "
            "the same files and the same versions of transformers on all machines"
        )
    encoder.passport = job.passport
    return encoder


_PATIENCE = 5.0
"""Seconds in which a worker that is no longer needed may end by itself."""


class _DealingEngine(ABC):
    """An engine that deals texts to a crew of workers."""

    WORKERS: ClassVar[str]
    """What its workers are called while they encode."""

    def __init__(self, workers: int | None = None, *, shard_bytes: int = SHARD_BYTES) -> None:
        self.workers = workers
        """How many; by default one per GPU, and without any, what the engine says."""
        self._shard_bytes = shard_bytes

    @abstractmethod
    def crew(self, encoder: Encoder, store: ActivationStore) -> AbstractContextManager[Crew]:
        """The workers, for the time of a `with` block."""

    def fill(self, encoder: Encoder, texts: Iterable[Text], store: ActivationStore, *, total: int | None = None) -> int:
        """See `Engine.fill`."""
        with (
            self.crew(encoder, store) as crew,
            progress(f"encoding with {encoder.name}, {crew.size} {self.WORKERS}", total) as advance,
        ):
            return deal(store.missing(texts), crew, total, advance)


class ProcessEngine(_DealingEngine):
    """Encodes with one process per GPU, each with a copy of the model; without a GPU, with some processes on the CPU.

    Example:
        >>> ProcessEngine(workers=2).workers
        2
    """

    WORKERS = "processes"

    @contextmanager
    def crew(self, encoder: Encoder, store: ActivationStore) -> Iterator[Crew]:
        """See `_DealingEngine.crew`."""
        crew = _Processes(EncodingJob.of(encoder, store, self._shard_bytes), self._devices(encoder))
        try:
            yield crew
        finally:
            crew.end()
            store.look_again()

    def _devices(self, encoder: Encoder) -> list[str]:
        """The device of each process: all GPUs in turn, unless the model was put on the CPU."""
        import torch

        on_card = getattr(getattr(encoder, "device", None), "type", "cpu") == "cuda"
        cards = torch.cuda.device_count() if on_card else 0
        if self.workers is None and not cards:
            raise InputError(
                "--engine gpus runs one process per GPU, and the model is not on one; give --workers N for N processes "
                "on the CPU, or leave --engine out"
            )
        count = self.workers or cards
        return [f"cuda:{number % cards}" if cards else "cpu" for number in range(count)]


class ProcessReply(NamedTuple):
    """What came back from a process."""

    worker: int
    answer: Any
    """None where it died."""
    died: str | None
    """How it ended, if it did."""


class ProcessPool:
    """Processes by number, each of which answers one message at a time; the work of one is `serve`."""

    def __init__(self, work: Callable[..., None], given: Sequence[tuple[Any, ...]]) -> None:
        import torch

        self.size = len(given)
        self._work = work
        self._given = given
        # Forked processes cannot use a GPU, and would inherit the threads' locks but not the threads.
        self._context: Any = torch.multiprocessing.get_context("spawn")
        self._started: list[tuple[Any, Connection]] = []
        self._busy: dict[Connection, int] = {}
        try:
            for arguments in given:
                self._started.append(self._start(arguments))
        except BaseException:
            self.end()
            raise

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes."""
        return [process.pid for process, _ in self._started]

    def send(self, worker: int, message: Any) -> None:
        """Have a process answer; it has answered all that it was sent before."""
        pipe = self._started[worker][1]
        self._busy[pipe] = worker
        with suppress(OSError):  # a process that is gone is noticed when its reply is waited for
            pipe.send(message)

    def receive(self) -> ProcessReply:
        """The next answer, waited for."""
        (pipe, *_) = wait(list(self._busy))
        assert isinstance(pipe, Connection)  # noqa: S101
        worker = self._busy.pop(pipe)
        try:
            return ProcessReply(worker, pipe.recv(), None)
        except (EOFError, OSError):
            process = self._started[worker][0]
            process.join()
            return ProcessReply(worker, None, _ending(process.exitcode))

    def replace(self, worker: int) -> None:
        """A new process in the place of one that died."""
        self._started[worker][1].close()
        self._started[worker] = self._start(self._given[worker])

    def end(self) -> None:
        """End all processes: those that wait for messages end by themselves, others are stopped."""
        busy = {self._started[worker][0] for worker in self._busy.values()}
        for process, pipe in self._started:
            pipe.close()
            if process in busy:
                process.terminate()
        for process, _ in self._started:
            process.join(_PATIENCE)
            if process.exitcode is None:
                process.kill()
                process.join()

    def _start(self, arguments: tuple[Any, ...]) -> tuple[Any, Connection]:
        pipe, theirs = self._context.Pipe()
        process = self._context.Process(target=self._work, args=(theirs, *arguments), daemon=True)
        process.start()
        theirs.close()
        return process, pipe


def serve(pipe: Connection, prepare: Callable[[], Callable[[Any], Any]]) -> None:
    """The work of a process: messages in, answers out, until the pipe is closed."""
    # Ctrl-C reaches all processes of a terminal; the parent process ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answer = prepare()
    with suppress(EOFError, OSError):
        while True:
            pipe.send(answer(pipe.recv()))


class _Processes(ProcessPool):
    """See `Crew`."""

    def __init__(self, job: EncodingJob, devices: list[str]) -> None:
        import torch

        threads = max(1, torch.get_num_threads() // len(devices))
        try:
            super().__init__(_encode, [(job, device, threads) for device in devices])
        except OSError:
            raise
        except Exception as error:
            # Whatever an object that cannot be sent may raise.
            raise ModelError(f"{job.model} cannot be sent to another process ({error}); leave --engine out") from error

    def reply(self) -> Reply:
        """See `Crew.reply`."""
        rank, answer, died = self.receive()
        if isinstance(answer, Exception):
            raise answer
        return Reply(rank, died)


def _ending(code: int | None) -> str:
    """How a process ended, in words.

    Example:
        >>> _ending(-9), _ending(1)
        ('SIGKILL', 'exit status 1')
    """
    return signal.Signals(-code).name if code is not None and code < 0 else f"exit status {code}"


def _encode(pipe: Connection, job: EncodingJob, device: str, threads: int) -> None:
    """The work of a process: texts in, their number out."""
    serve(pipe, lambda: Worker(job, device, threads).encode)


_CPUS_OF_WORKER = 4
"""Threads of a worker on a CPU where the number of workers is not said."""
_RETRIES = 2
"""How often a task is started again whose process died."""


def import_ray() -> Any:
    """The library, if it is installed."""
    require_package("ray", "--engine ray starts workers of Ray")
    return import_module("ray")


class RayEngine(_DealingEngine):
    """Encodes with Ray: on the cluster that RAY_ADDRESS names or that runs on this machine, else on this machine alone.

    Example:
        >>> RayEngine(workers=4).workers
        4
    """

    WORKERS = "Ray workers"

    @contextmanager
    def crew(self, encoder: Encoder, store: ActivationStore) -> Iterator[Crew]:
        """See `_DealingEngine.crew`."""
        ray = connect_ray()
        share = share_of(_resources(ray), self.workers, cards=_may_use_cards(encoder))
        crew = _Actors(ray, EncodingJob.of(encoder, store, self._shard_bytes), share)
        try:
            yield crew
        finally:
            crew.end()
            store.look_again()

    def run_tasks(self, tasks: list[Task], *, what: str, device: str) -> None:
        """See `RunsTasks.run_tasks`."""
        ray = connect_ray()
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


def connect_ray() -> Any:
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
    """See `Crew`."""

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
        """See `Crew.send`."""
        self._busy[self._actors[rank].encode.remote(texts)] = rank

    def reply(self) -> Reply:
        """See `Crew.reply`."""
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
        """See `Crew.replace`."""
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
