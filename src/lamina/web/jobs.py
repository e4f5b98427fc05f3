"""Long computations: each request runs in its own process, with progress, and can be cancelled.

A job that fails, runs out of memory or even crashes Python takes nothing with it: the server only reads what it prints.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from threading import Condition, Thread
from typing import Any, Literal

from lamina import lifeline, progress
from lamina.errors import InputError, LaminaError
from lamina.files.checking import cache_dir, read_json, write_json

JOB_PROGRAM = (sys.executable, "-m", "lamina", "run", "-")
"""Reads a request from its standard input."""

JobState = Literal["queued", "running", "done", "failed", "cancelled"]

_MOST_FINISHED = 50
"""Finished jobs kept in the list."""
_LAST_LINES = 5
"""Last lines kept of what a failed job printed."""
_PATIENCE = 5.0
"""Seconds to end in an orderly way."""
_WATCH = 0.5
"""Seconds between two checks of a job's memory."""


class UnknownJobError(InputError):
    """There is no job with this id."""


class TooManyJobsError(InputError):
    """The queue is full."""


@dataclass
class BackgroundJob:
    """One request and its progress."""

    id: str
    request: Mapping[str, Any]
    """As `lamina run` reads it."""
    command: str
    """As a person would type it."""
    state: JobState = "queued"
    what: str = ""
    """The current step."""
    done: float = 0.0
    total: float | None = None
    message: str = ""
    """Why it failed, in one sentence."""
    estimate: float | None = None
    """Seconds that it was expected to take; None if there is no estimate."""
    started: float | None = None
    """When it began, by the clock of `time.monotonic`."""
    ended: float | None = None
    process: subprocess.Popen[str] | None = field(default=None, repr=False)

    @property
    def over(self) -> bool:
        return self.state in ("done", "failed", "cancelled")

    @property
    def elapsed(self) -> float:
        """Seconds that it has run, or ran."""
        if self.started is None:
            return 0.0
        return (time.monotonic() if self.ended is None else self.ended) - self.started


class Jobs:
    """A queue of requests, run one after another: two at once on the same cores would only slow each other."""

    def __init__(self, *, most: int, memory: int, program: Sequence[str] = JOB_PROGRAM) -> None:
        self.most = most
        self._memory = memory
        self.program = tuple(program)
        self._changed = Condition()
        self._jobs: dict[str, BackgroundJob] = {}
        self._queue: deque[BackgroundJob] = deque()
        self._worker: Thread | None = None
        self._closed = False
        self._lifeline: tuple[int, ...] = ()
        """Both ends of a pipe: jobs get the first, and end when the second is closed, if only by this process's end."""

    def start(self, request: Mapping[str, Any], command: str, estimate: float | None = None) -> BackgroundJob:
        """Queue a request; `command` is shown to people, and `estimate`, the seconds it is expected to take."""
        with self._changed:
            if sum(not job.over for job in self._jobs.values()) >= self.most:
                raise TooManyJobsError(
                    f"{self.most} computations are running or waiting; cancel one, or wait until one is done"
                )
            if self._worker is None:
                self._lifeline = os.pipe() if lifeline.AVAILABLE else ()
                worker = Thread(target=self._work, name="jobs", daemon=True)
                worker.start()
                self._worker = worker
            job = BackgroundJob(secrets.token_hex(6), request, command, estimate=estimate)
            self._jobs[job.id] = job
            self._forget_old()
            self._queue.append(job)
            self._changed.notify_all()
            return job

    def all(self) -> list[BackgroundJob]:
        """All jobs in the list, the newest first."""
        with self._changed:
            return list(reversed(self._jobs.values()))

    def get(self, id: str) -> BackgroundJob:
        """The job with this id."""
        with self._changed:
            if id not in self._jobs:
                raise UnknownJobError(f"there is no computation {id!r}; it may have been forgotten")
            return self._jobs[id]

    def cancel(self, id: str) -> BackgroundJob:
        """Cancel a job, as Ctrl-C would: finished parts are kept. A job that is over stays as it is."""
        job = self.get(id)
        with self._changed:
            if not job.over:
                job.state, job.ended = "cancelled", time.monotonic()
                if job in self._queue:
                    self._queue.remove(job)
            process = job.process
        if process is not None:
            _end(process)
        return job

    def dismiss(self, id: str) -> BackgroundJob:
        """Take a job that is over off the list."""
        job = self.get(id)
        with self._changed:
            if job.over:
                self._jobs.pop(id, None)
        return job

    @property
    def busy(self) -> bool:
        """Whether a job runs or waits."""
        with self._changed:
            return any(not job.over for job in self._jobs.values())

    def close(self) -> None:
        """Stop everything."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for job in self.all():
            self.cancel(job.id)
        if self._worker is not None:
            # It may be just about to start a job, which it then ends.
            self._worker.join(_PATIENCE)
        for descriptor in self._lifeline:
            os.close(descriptor)
        self._lifeline = ()

    def _forget_old(self) -> None:
        over = [id for id, job in self._jobs.items() if job.over]
        for id in over[: max(0, len(over) - _MOST_FINISHED)]:
            del self._jobs[id]

    def _work(self) -> None:
        while (job := self._next()) is not None:
            try:
                self._run(job)
            except Exception as error:
                # Whatever it is: this job fails, and the next one has its turn.
                self._finish(job, "failed", f"it could not be run ({error or type(error).__name__}); try it again")

    def _next(self) -> BackgroundJob | None:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closed)
            if self._closed:
                return None
            job = self._queue.popleft()
            job.state, job.started = "running", time.monotonic()
            return job

    def _run(self, job: BackgroundJob) -> None:
        with self.begin(job.request) as process:
            try:
                with self._changed:
                    job.process = process
                    cancelled = job.over
                if cancelled:
                    _end(process)
                watcher = Thread(target=_watch_memory, args=(job, process, self._memory), daemon=True)
                watcher.start()
                last = read_progress(process.stderr or (), job)
                code = process.wait()
                watcher.join()
            finally:
                _end(process)
        message = job.message or ("" if code == 0 else _reason(code, last))
        self._finish(job, "done" if code == 0 else "failed", message)

    def begin(self, request: Mapping[str, Any]) -> subprocess.Popen[str]:
        variables = {progress.VARIABLE: "json", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        if self._lifeline:
            variables[lifeline.VARIABLE] = str(self._lifeline[0])
        # A file, not a pipe: the server does not wait until the process reads it.
        with tempfile.TemporaryFile("w+", encoding="utf-8") as request_file:
            json.dump(request, request_file)
            request_file.seek(0)
            return subprocess.Popen(
                self.program,
                stdin=request_file,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env=os.environ | variables,
                pass_fds=self._lifeline[:1],
            )

    def _finish(self, job: BackgroundJob, state: JobState, message: str) -> None:
        with self._changed:
            # A cancelled job stays cancelled.
            if job.state == "running":
                job.state, job.message, job.ended = state, message, time.monotonic()


def read_progress(lines: Iterable[str], job: BackgroundJob) -> list[str]:
    """Read a job's progress until it ends; returns the last lines that are not progress."""
    last: deque[str] = deque(maxlen=_LAST_LINES)
    for line in lines:
        try:
            update = json.loads(line)
            total = None if update["total"] is None else float(update["total"])
            job.what, job.done, job.total = str(update["what"]), float(update["done"]), total
        except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError):
            if line.strip():
                last.append(line.strip())
    return list(last)


def _watch_memory(job: BackgroundJob, process: subprocess.Popen[str], most: int) -> None:
    """Stop a job that uses too much memory."""
    import psutil

    try:
        about = psutil.Process(process.pid)
        while process.poll() is None:
            used = sum(member.memory_info().rss for member in [about, *about.children(recursive=True)])
            if used > most:
                job.message = f"it took more than {most / 1024**3:.3g} GB of memory and was ended; ask for less of it"
                _end(process)
                return
            try:
                process.wait(_WATCH)
            except subprocess.TimeoutExpired:
                continue
    except psutil.Error:
        return


def _end(process: subprocess.Popen[str]) -> None:
    """End a process in an orderly way, and after a while in any way; one that ended is left alone."""
    process.terminate()
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()


def _reason(code: int, last: list[str]) -> str:
    messages = [line.removeprefix("lamina: ") for line in last if line.startswith("lamina: ")] or last[-1:]
    return messages[-1] if messages else f"it ended with status {code} and said nothing"


# What computations would take for a model: tried one after another in processes of their own, and remembered.
#
# A trial counts what would be done, and loads a model only the first time. It runs with low priority, and not while a
# computation runs, which would make both slower and the estimate wrong.

TRIAL_PROGRAM = (sys.executable, "-m", "lamina", "run", "-", "--dry-run", "--json")
"""Reads a request from its standard input, and prints the cost."""

_TRIAL_PATIENCE = 180.0
"""Seconds after which a trial is given up."""
_PAUSE = 1.0
"""Seconds between two looks whether computations are over."""
_NICE = 15


@dataclass(frozen=True)
class CostEstimate:
    """What a computation would take, as far as that is known."""

    state: Literal["waiting", "trying", "known", "failed", "off"]
    seconds: float | None = None
    memory: int | None = None
    """Bytes."""
    disk: int | None = None
    """Bytes that stay."""
    why: str = ""
    """Why it could not be estimated."""


class Estimates:
    """Estimates by request, each tried once per machine; `busy` says whether computations run."""

    def __init__(self, busy: Callable[[], bool], *, on: bool = True, program: Sequence[str] = TRIAL_PROGRAM) -> None:
        """`on`: whether trials are run at all; without, only what was tried before is known."""
        self._busy = busy
        self._on = on
        self.program = tuple(program)
        self._changed = Condition()
        self._known: dict[str, CostEstimate] = {}
        self._queue: OrderedDict[str, Mapping[str, Any]] = OrderedDict()
        self._worker: Thread | None = None
        self._process: subprocess.Popen[str] | None = None
        self._closed = False

    def get(self, request: Mapping[str, Any]) -> CostEstimate:
        """What is known of a request; one that was not started yet is queued."""
        key = _key(request)
        with self._changed:
            if key not in self._known:
                self._known[key] = _remembered(key) or CostEstimate("waiting" if self._on else "off")
                if self._known[key].state == "waiting":
                    self._queue[key] = request
                    self.begin()
            return self._known[key]

    def known(self, request: Mapping[str, Any]) -> float | None:
        """Seconds, if they are known already."""
        estimate = self._known.get(_key(request)) or _remembered(_key(request))
        return None if estimate is None else estimate.seconds

    def close(self) -> None:
        """Stop trying."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            process = self._process
        if process is not None:
            process.kill()

    def begin(self) -> None:
        if self._worker is None:
            self._worker = Thread(target=self._work, name="estimates", daemon=True)
            self._worker.start()
        self._changed.notify_all()

    def _work(self) -> None:
        while (turn := self._next()) is not None:
            key, request = turn
            estimate = self._try(request)
            # Saved before it is published: a client that sees it may ask another server next.
            if estimate.state == "known":
                _remember(key, estimate)
            with self._changed:
                self._known[key] = estimate

    def _next(self) -> tuple[str, Mapping[str, Any]] | None:
        with self._changed:
            while not self._closed and (not self._queue or self._busy()):
                self._changed.wait(_PAUSE if self._queue else None)
            if self._closed:
                return None
            key, request = self._queue.popitem(last=False)
            self._known[key] = replace(self._known[key], state="trying")
            return key, request

    def _try(self, request: Mapping[str, Any]) -> CostEstimate:
        errors = ""
        try:
            with self._started() as process:
                try:
                    output, errors = process.communicate(json.dumps(request), timeout=_TRIAL_PATIENCE)
                except subprocess.TimeoutExpired:
                    process.kill()
                    return CostEstimate("failed", why=f"a trial took more than {_TRIAL_PATIENCE:g} s and was given up")
            cost = json.loads(output)
            return CostEstimate("known", float(cost["seconds"]), int(cost["memory"]), int(cost["disk"]))
        except (OSError, ValueError, LookupError, TypeError):
            lines = [line.removeprefix("lamina: ") for line in errors.splitlines() if line.startswith("lamina: ")]
            return CostEstimate("failed", why=lines[-1] if lines else "the trial ended without an answer")
        finally:
            self._process = None

    def _started(self) -> subprocess.Popen[str]:
        self._process = subprocess.Popen(
            self.program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        if hasattr(os, "setpriority"):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _NICE)
        return self._process


def _key(request: Mapping[str, Any]) -> str:
    """Of what is asked, by which version, on how large a machine; where the result goes does not matter."""
    computation = {name: value for name, value in request.items() if name not in ("out", "store", "replace")}
    about = json.dumps([computation, version("lamina"), os.cpu_count()], sort_keys=True, default=str)
    return hashlib.sha256(about.encode()).hexdigest()[:20]


def _path(key: str) -> Path:
    return cache_dir() / "estimates" / f"{key}.json"


def _remembered(key: str) -> CostEstimate | None:
    try:
        saved = read_json(_path(key))
        return CostEstimate("known", float(saved["seconds"]), int(saved["memory"]), int(saved["disk"]))
    except (OSError, LaminaError, ValueError, LookupError, TypeError):
        return None


def _remember(key: str, estimate: CostEstimate) -> None:
    try:
        _path(key).parent.mkdir(parents=True, exist_ok=True)
        write_json(_path(key), {"seconds": estimate.seconds, "memory": estimate.memory, "disk": estimate.disk})
    except (OSError, LaminaError):
        # It will be tried again; nothing else follows from it.
        return
