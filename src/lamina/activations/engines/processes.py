"""One process per GPU of this machine, or several processes on one device."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from lamina.activations.engines.workers import Crew, EncodingJob, Reply, Worker, deal
from lamina.activations.shards import SHARD_BYTES
from lamina.activations.store import ActivationStore
from lamina.errors import InputError, ModelError
from lamina.models import Encoder
from lamina.progress import progress
from lamina.types import Text

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
