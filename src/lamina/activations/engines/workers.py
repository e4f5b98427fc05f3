"""Dealing texts to workers by rank, one process per GPU or several on one device.

A worker that dies is replaced, and its texts are encoded again.
"""

from __future__ import annotations

import os
import platform
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from lamina.activations.extraction import ThisMachine, rank_of
from lamina.activations.shards import SHARD_BYTES
from lamina.activations.store import ActivationStore
from lamina.errors import InputError, LaminaError, ModelError, StoreError
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

    def send(self, rank: int, texts: list[Text]) -> None:
        """Have the worker of a rank encode some texts; it has done all that it was sent before."""
        ...

    def reply(self) -> Reply:
        """The next reply, waited for; an error that a worker had is raised."""
        ...

    def replace(self, rank: int) -> None:
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


class ProcessEngine:
    """Encodes with one process per GPU, each with a copy of the model; without a GPU, with some processes on the CPU.

    Example:
        >>> ProcessEngine(workers=2).workers
        2
    """

    def __init__(self, workers: int | None = None, *, shard_bytes: int = SHARD_BYTES) -> None:
        self.workers = workers
        """Number of processes; by default one per GPU."""
        self._shard_bytes = shard_bytes

    def fill(self, encoder: Encoder, texts: Iterable[Text], store: ActivationStore, *, total: int | None = None) -> int:
        """See `Engine.fill`."""
        with (
            self.crew(encoder, store) as crew,
            progress(f"encoding with {encoder.name}, {crew.size} processes", total) as advance,
        ):
            return deal(store.missing(texts), crew, total, advance)

    @contextmanager
    def crew(self, encoder: Encoder, store: ActivationStore) -> Iterator[Crew]:
        """The processes, for the time of a `with` block."""
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


class _Processes:
    """See `dealing.Crew`."""

    def __init__(self, job: EncodingJob, devices: list[str]) -> None:
        import torch

        self.size = len(devices)
        self._job = job
        self._devices = devices
        # Forked processes cannot use a GPU, and would inherit the threads' locks but not the threads.
        self._context: Any = torch.multiprocessing.get_context("spawn")
        self._threads = max(1, torch.get_num_threads() // self.size)
        self._started: list[tuple[Any, Connection]] = []
        self._busy: dict[Connection, int] = {}
        try:
            for device in devices:
                self._started.append(self._start(device))
        except BaseException:
            self.end()
            raise

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes."""
        return [process.pid for process, _ in self._started]

    def send(self, rank: int, texts: list[Text]) -> None:
        """See `dealing.Crew.send`."""
        pipe = self._started[rank][1]
        self._busy[pipe] = rank
        with suppress(OSError):  # a process that is gone is noticed when its reply is waited for
            pipe.send(texts)

    def reply(self) -> Reply:
        """See `dealing.Crew.reply`."""
        (pipe, *_) = wait(list(self._busy))
        assert isinstance(pipe, Connection)  # noqa: S101
        rank = self._busy.pop(pipe)
        try:
            answer = pipe.recv()
        except (EOFError, OSError):
            process = self._started[rank][0]
            process.join()
            return Reply(rank, _ending(process.exitcode))
        if isinstance(answer, Exception):
            raise answer
        return Reply(rank, None)

    def replace(self, rank: int) -> None:
        """See `dealing.Crew.replace`."""
        self._started[rank][1].close()
        self._started[rank] = self._start(self._devices[rank])

    def end(self) -> None:
        """End all processes: those that wait for texts end by themselves, others are stopped."""
        busy = {self._started[rank][0] for rank in self._busy.values()}
        for process, pipe in self._started:
            pipe.close()
            if process in busy:
                process.terminate()
        for process, _ in self._started:
            process.join(_PATIENCE)
            if process.exitcode is None:
                process.kill()
                process.join()

    def _start(self, device: str) -> tuple[Any, Connection]:
        pipe, theirs = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(theirs, self._job, device, self._threads), daemon=True)
        try:
            process.start()
        except OSError:
            raise
        except Exception as error:
            # Whatever an object that cannot be sent may raise.
            raise ModelError(
                f"{self._job.model} cannot be sent to another process ({error}); leave --engine out"
            ) from error
        theirs.close()
        return process, pipe


def _ending(code: int | None) -> str:
    """How a process ended, in words.

    Example:
        >>> _ending(-9), _ending(1)
        ('SIGKILL', 'exit status 1')
    """
    return signal.Signals(-code).name if code is not None and code < 0 else f"exit status {code}"


def _serve(pipe: Connection, job: EncodingJob, device: str, threads: int) -> None:
    """The work of a process: texts in, their number out, until the pipe is closed."""
    # Ctrl-C reaches all processes of a terminal; the parent process ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    worker = Worker(job, device, threads)
    with suppress(EOFError, OSError):
        while True:
            pipe.send(worker.encode(pipe.recv()))
