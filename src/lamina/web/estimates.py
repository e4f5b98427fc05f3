"""What computations would take for a model: tried one after another in processes of their own, and remembered.

A trial loads the model and runs a small sample, for seconds to a minute. It runs with low priority, and not while a
computation runs, which would make both slower and the estimate wrong.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from threading import Condition, Thread
from typing import Any, Literal

from lamina.errors import LaminaError
from lamina.files.checking import read_json, write_json
from lamina.files.places import cache_dir

PROGRAM = (sys.executable, "-m", "lamina", "run", "-", "--dry-run", "--json")
"""Reads a request from its standard input, and prints the cost."""

_PATIENCE = 180.0
"""Seconds after which a trial is given up."""
_PAUSE = 1.0
"""Seconds between two looks whether computations are over."""
_NICE = 15


@dataclass(frozen=True)
class Estimate:
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

    def __init__(self, busy: Callable[[], bool], *, on: bool = True, program: Sequence[str] = PROGRAM) -> None:
        """`on`: whether trials are run at all; without, only what was tried before is known."""
        self._busy = busy
        self._on = on
        self._program = tuple(program)
        self._changed = Condition()
        self._known: dict[str, Estimate] = {}
        self._queue: OrderedDict[str, Mapping[str, Any]] = OrderedDict()
        self._worker: Thread | None = None
        self._process: subprocess.Popen[str] | None = None
        self._closed = False

    def get(self, request: Mapping[str, Any]) -> Estimate:
        """What is known of a request; one that nobody tried yet is queued."""
        key = _key(request)
        with self._changed:
            if key not in self._known:
                self._known[key] = _remembered(key) or Estimate("waiting" if self._on else "off")
                if self._known[key].state == "waiting":
                    self._queue[key] = request
                    self._begin()
            return self._known[key]

    def known(self, request: Mapping[str, Any]) -> float | None:
        """Seconds, if they are known already."""
        found = self._known.get(_key(request)) or _remembered(_key(request))
        return None if found is None else found.seconds

    def close(self) -> None:
        """Stop trying."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            process = self._process
        if process is not None:
            process.kill()

    def _begin(self) -> None:
        if self._worker is None:
            self._worker = Thread(target=self._work, name="estimates", daemon=True)
            self._worker.start()
        self._changed.notify_all()

    def _work(self) -> None:
        while (turn := self._next()) is not None:
            key, request = turn
            found = self._try(request)
            # Before it is told: whoever hears of it may ask another server.
            if found.state == "known":
                _remember(key, found)
            with self._changed:
                self._known[key] = found

    def _next(self) -> tuple[str, Mapping[str, Any]] | None:
        with self._changed:
            while not self._closed and (not self._queue or self._busy()):
                self._changed.wait(_PAUSE if self._queue else None)
            if self._closed:
                return None
            key, request = self._queue.popitem(last=False)
            self._known[key] = replace(self._known[key], state="trying")
            return key, request

    def _try(self, request: Mapping[str, Any]) -> Estimate:
        errors = ""
        try:
            with self._started() as process:
                try:
                    said, errors = process.communicate(json.dumps(request), timeout=_PATIENCE)
                except subprocess.TimeoutExpired:
                    process.kill()
                    return Estimate("failed", why=f"a trial took more than {_PATIENCE:g} s and was given up")
            cost = json.loads(said)
            return Estimate("known", float(cost["seconds"]), int(cost["memory"]), int(cost["disk"]))
        except (OSError, ValueError, LookupError, TypeError):
            lines = [line.removeprefix("lamina: ") for line in errors.splitlines() if line.startswith("lamina: ")]
            return Estimate("failed", why=lines[-1] if lines else "the trial ended without an answer")
        finally:
            self._process = None

    def _started(self) -> subprocess.Popen[str]:
        self._process = subprocess.Popen(
            self._program,
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
    asked = {name: value for name, value in request.items() if name not in ("out", "store", "replace")}
    about = json.dumps([asked, version("lamina"), os.cpu_count()], sort_keys=True, default=str)
    return hashlib.sha256(about.encode()).hexdigest()[:20]


def _path(key: str) -> Path:
    return cache_dir() / "estimates" / f"{key}.json"


def _remembered(key: str) -> Estimate | None:
    try:
        found = read_json(_path(key))
        return Estimate("known", float(found["seconds"]), int(found["memory"]), int(found["disk"]))
    except (OSError, LaminaError, ValueError, LookupError, TypeError):
        return None


def _remember(key: str, found: Estimate) -> None:
    try:
        _path(key).parent.mkdir(parents=True, exist_ok=True)
        write_json(_path(key), {"seconds": found.seconds, "memory": found.memory, "disk": found.disk})
    except (OSError, LaminaError):
        # It will be tried again; nothing else follows from it.
        return
