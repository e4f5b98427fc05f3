"""Models and charts in processes of their own: one request at a time, and what takes too long is ended.

Whatever a model's files do to the libraries that read them (a pattern that never ends, a crash, all memory), the server
goes on and the next request gets a fresh process. Server and process exchange one line of JSON per message.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from base64 import b64decode
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, get_type_hints

from pydantic import TypeAdapter

from lamina import lifeline
from lamina.errors import InputError, LaminaError, ModelError

if TYPE_CHECKING:
    from lamina.models.checks.passports import ExaminedModel
    from lamina.web.state import Limits, ServerSettings

P = ParamSpec("P")
R = TypeVar("R")

PROGRAM = (sys.executable, "-P", "-c", "from lamina.web.process import main; main()")
"""Reads what it serves, and then requests, from its standard input; imports nothing from the current folder."""
_WATCH = 0.2
"""Seconds between two checks of a process's time and memory."""
_LONGEST = 256 * 1024**2
"""Bytes of an answer."""
SHAPE = ("blocks", "heads", "width", "limit")
ERROR, _LAST = b"!", b"!!"
"""How an answer begins that is an error, and the last answer of a process."""
MARGIN = 5.0
"""Seconds after its time after which a process ends itself."""


class BusyError(InputError):
    """Too many requests at once."""


class DeadlineError(LaminaError):
    """A model that took longer than a request may take."""


class EndpointInWorker:
    """What a request asks of a model, and how its answer is read."""

    def __init__(self, answer: Callable[..., Any]) -> None:
        self.answer = answer
        self.name = f"{answer.__module__}:{answer.__name__}"

    @functools.cached_property
    def request(self) -> tuple[str, type[Any]]:
        """The name and the type of the request's body."""
        hints = get_type_hints(self.answer, include_extras=True)
        (request,) = ((name, kind) for name, kind in hints.items() if name not in ("app", "return"))
        return request

    @functools.cached_property
    def response(self) -> TypeAdapter[Any]:
        """Reads and writes the answer."""
        return TypeAdapter(get_type_hints(self.answer, include_extras=True)["return"])

    def run(self, app: Any, body: Mapping[str, Any]) -> bytes:
        """The answer as JSON, where the model is."""
        name, kind = self.request
        return self.response.dump_json(self.answer(app=app, **{name: kind(**body)}))


ENDPOINTS: dict[str, EndpointInWorker] = {}
"""Every endpoint that asks a model."""


def in_worker(answer: Callable[P, R]) -> Callable[P, R]:
    """Have an endpoint answered by the process of its model; one that names several asks them one after another."""
    endpoint = EndpointInWorker(answer)
    ENDPOINTS[endpoint.name] = endpoint

    @functools.wraps(answer)
    def forwarded(*args: P.args, **given: P.kwargs) -> R:
        app: Any = given["app"]
        if not app.models.elsewhere:
            return answer(*args, **given)
        request: Any = given[endpoint.request[0]]
        if hasattr(request, "model"):
            return app.ask(request.model, endpoint, request)
        one = [request.model_copy(update={"models": [name]}) for name in dict.fromkeys(request.models)]
        answers: Any = [row for part in one for row in app.ask(part.models[0], endpoint, part)]
        return answers

    return forwarded


@dataclass
class _Ticket:
    """A request in line."""

    endpoint: EndpointInWorker | None
    """None: what the model is whose name is the body."""
    body: Any
    since: float = field(default_factory=time.monotonic)
    over: threading.Event = field(default_factory=threading.Event)
    answer: bytes = b""
    error: LaminaError | None = None

    def end(self, answer: bytes = b"", error: LaminaError | None = None) -> None:
        self.answer, self.error = answer, error
        self.over.set()


class ModelWorker:
    """One model in a process of its own, started for the first request; requests wait in line."""

    def __init__(self, name: str, start: Mapping[str, Any], limits: Limits) -> None:
        """`start` is the process's first request: what to load and how."""
        self._name = name
        self._start = dict(start)
        self._limits = limits
        self._changed = threading.Condition()
        self._line: deque[_Ticket] = deque()
        self._thread: threading.Thread | None = None
        self._process: _WorkerProcess | None = None
        self._closed = False
        self.trouble: str | None = None
        """Why the model could not be loaded when that was last tried."""
        self._working = 0

    @property
    def loaded(self) -> bool:
        """Whether the model is in memory."""
        return self._process is not None and self._process.ready

    @property
    def waiting(self) -> int:
        """Requests in line, the one that is being answered included."""
        return len(self._line) + self._working

    def ask(self, endpoint: EndpointInWorker | None, body: Any) -> bytes:
        """The answer; an error where the model takes too long, or its process ends."""
        ticket = _Ticket(endpoint, body)
        with self._changed:
            if self._closed:
                raise BusyError("the server is being stopped")
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=f"model {self._name}", daemon=True)
                self._thread.start()
            self._line.append(ticket)
            self._changed.notify_all()
        ticket.over.wait()
        if ticket.error is not None:
            raise ticket.error
        return ticket.answer

    @property
    def running(self) -> bool:
        """Whether it has a process."""
        return self._process is not None and not self._process.over

    def rest(self) -> None:
        """End the process if no request waits for it; the next request starts another one."""
        with self._changed:
            if not self.waiting and self._process is not None:
                self._process.discard()
                self._process = None

    def close(self) -> None:
        """End the process at once, and answer no more requests."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            process = self._process
        if process is not None:
            process.kill("the server is being stopped")

    def _serve(self) -> None:
        while (ticket := self._next()) is not None:
            try:
                self._answer(ticket)
            except LaminaError as error:
                ticket.end(error=error)
            except Exception as error:
                ticket.end(error=ModelError(f"{self._name} could not be asked ({type(error).__name__}: {error})"))
            finally:
                self._working = 0
        if self._process is not None:
            self._process.discard()

    def _next(self) -> _Ticket | None:
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._line or self._closed)
                if self._closed:
                    return self._refuse_line(BusyError("the server is being stopped"))
                self._working, ticket = 1, self._line.popleft()
                waited = time.monotonic() - ticket.since
                if waited <= self._limits.answer_seconds or not self.loaded:
                    return ticket
                self._working = 0
                ticket.end(
                    error=BusyError(
                        f"{self._name} was busy with other requests for {waited:.0f} s, and {len(self._line)} more "
                        "wait; try again in a moment"
                    )
                )

    def _refuse_line(self, error: LaminaError) -> None:
        line, self._line = self._line, deque()
        for ticket in line:
            ticket.end(error=error)

    def _answer(self, ticket: _Ticket) -> None:
        process = self._process
        if process is None or process.over or not process.ready:
            process = self._begin()
        what = (
            {"examine": ticket.body} if ticket.endpoint is None else {"call": ticket.endpoint.name, "body": ticket.body}
        )
        ticket.end(process.ask(what, self._limits.answer_seconds, "answer"))

    def _begin(self) -> _WorkerProcess:
        """A process that has loaded the model; if it cannot, all waiting requests fail."""
        if self._process is not None:
            self._process.discard()
        # What lies in a folder needs nothing from elsewhere, whatever its files name.
        offline = Path(str(self._start.get("source", ""))).exists()
        process = _WorkerProcess(self._name, self._limits.model_memory, offline=offline)
        with self._changed:
            self._process = process
            if self._closed:
                process.kill("the server is being stopped")
        try:
            process.ask(self._start, self._limits.loading_seconds, "load")
        except LaminaError as error:
            process.discard()
            self.trouble = str(error)
            with self._changed:
                self._refuse_line(error)
            raise
        self.trouble = None
        process.ready = True
        # No request waited for an answer while it was loaded.
        now = time.monotonic()
        with self._changed:
            for ticket in self._line:
                ticket.since = now
        return process


class _WorkerProcess:
    """A process that answers, and the clock and the scales beside it."""

    def __init__(self, name: str, memory: int, *, offline: bool) -> None:
        self._name = name
        self._memory = memory
        self._reason = ""
        self._deadline: float | None = None
        self._lifeline = os.pipe() if lifeline.AVAILABLE else ()
        variables = {lifeline.VARIABLE: str(self._lifeline[0])} if self._lifeline else {}
        # The panic of a library in Rust is answered in a sentence; its call stack is left out.
        variables["RUST_BACKTRACE"] = "0"
        if offline:
            variables["HF_HUB_OFFLINE"] = "1"
        self._process = subprocess.Popen(
            PROGRAM,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | variables,
            pass_fds=self._lifeline[:1],
        )
        self.ready = False
        threading.Thread(target=self._watch, name=f"watch {name}", daemon=True).start()

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def ask(self, message: Mapping[str, Any], seconds: float, what: str) -> bytes:
        """What it answers within a time; afterwards it is ended."""
        self._deadline = time.monotonic() + seconds
        line = b""
        try:
            stdin, stdout = self._process.stdin, self._process.stdout
            if stdin is None or stdout is None:
                raise OSError("no pipes")
            stdin.write(json.dumps({**message, "seconds": seconds}).encode() + b"\n")
            stdin.flush()
            line = stdout.readline(_LONGEST)
        except (OSError, ValueError):
            # It has ended; the reason is below.
            line = b""
        finally:
            self._deadline = None
        if not line.endswith(b"\n"):
            raise self._ended(seconds, what)
        if line.startswith(_LAST):
            self.discard()
        if line.startswith(ERROR):
            raise _error_of(line.lstrip(ERROR))
        return line

    def kill(self, reason: str) -> None:
        """End it at once."""
        self._reason = self._reason or reason
        with contextlib.suppress(OSError):
            self._process.kill()

    def discard(self) -> None:
        """End it, and let go of its pipes."""
        self.kill("")
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                # What was not sent any more is of no use.
                with contextlib.suppress(OSError):
                    pipe.close()

    def _ended(self, seconds: float, what: str) -> LaminaError:
        self.kill("")
        code = self._process.wait()
        if self._reason == "time":
            return DeadlineError(
                f"{self._name} did not {what} within {seconds:g} seconds, the most that a request may take here; its "
                "process was ended. Take a shorter text, or start the server with a longer --deadline"
                if what == "answer"
                else f"{self._name} could not be loaded within {seconds:g} seconds; its process was ended"
            )
        if self._reason == "memory":
            return ModelError(
                f"{self._name} needs more than the {self._memory / 2**30:.1f} GB of memory that a model may use here; "
                "its process was ended"
            )
        if self._reason:
            return ModelError(f"{self._name}: {self._reason}")
        how = f"by signal {-code}" if code < 0 else f"with status {code}"
        return ModelError(
            f"the process of {self._name} ended {how} while it was to {what}; a new one starts with the next request"
        )

    def _watch(self) -> None:
        import psutil

        try:
            about = psutil.Process(self._process.pid)
            while self._process.poll() is None:
                if about.memory_info().rss > self._memory:
                    self.kill("memory")
                deadline = self._deadline
                if deadline is not None and time.monotonic() > deadline:
                    self.kill("time")
                time.sleep(_WATCH)
        except psutil.Error:
            pass
        finally:
            self._process.wait()
            for descriptor in self._lifeline:
                os.close(descriptor)


ChartImage = Literal["svg", "png", "pdf"]
_DRAWING = 2
"""Charts that are drawn at the same time."""
_LONGEST_DRAWING = 15.0
"""Seconds that a chart may take."""


class ChartDrawing:
    """Draws charts in processes of their own: a chart of a stranger's result may be a program that never ends."""

    def __init__(self, limits: Limits) -> None:
        self._seconds = min(limits.answer_seconds, _LONGEST_DRAWING)
        self._patience = limits.answer_seconds
        self._starting = limits.loading_seconds
        self._memory = limits.model_memory
        self._places = threading.Semaphore(_DRAWING)
        self._idle: deque[_WorkerProcess] = deque()
        self._working: set[_WorkerProcess] = set()
        self._endless: set[bytes] = set()
        """Hashes of charts that ran out of time; they are not tried again."""
        self._closed = False

    def draw(self, kind: ChartImage, spec: Mapping[str, Any]) -> bytes:
        """An image of a chart; an error where drawing takes too long."""
        message = {"draw": kind, "spec": spec}
        digest = hashlib.sha256(json.dumps(message).encode()).digest()
        late = f"the chart was not drawn within {self._seconds:g} seconds, the most that a chart may take here"
        if digest in self._endless:
            raise DeadlineError(late)
        if not self._places.acquire(timeout=self._patience):
            raise BusyError("other charts are being drawn; try again in a moment")
        try:
            return self._draw(message)
        except DeadlineError:
            self._endless.add(digest)
            raise DeadlineError(late) from None
        finally:
            self._places.release()

    def _draw(self, message: Mapping[str, Any]) -> bytes:
        process = self._idle.pop() if self._idle else None
        if process is None or process.over:
            process = _WorkerProcess("the drawing of charts", self._memory, offline=True)
        self._working.add(process)
        try:
            if self._closed:
                raise BusyError("the server is being stopped")
            if not process.ready:
                process.ask({"charts": True}, self._starting, "load")
                process.ready = True
            image = json.loads(process.ask(message, self._seconds, "draw"))["image"]
            self._idle.append(process)
            return b64decode(image)
        except LaminaError as error:
            process.discard()
            if isinstance(error, DeadlineError | BusyError):
                raise
            raise InputError(f"the chart cannot be drawn: {error}") from None
        finally:
            self._working.discard(process)

    def close(self) -> None:
        """End all processes."""
        self._closed = True
        for process in tuple(self._working):
            process.kill("the server is being stopped")
        while self._idle:
            self._idle.pop().discard()


def _error_of(line: bytes) -> LaminaError:
    """The error that a process answered with; of a class that lamina has."""
    try:
        error = json.loads(line)
        kind, message = str(error["kind"]), str(error["message"])
    except (ValueError, LookupError, TypeError):
        return ModelError("the model's process gave no answer that can be read")
    return next((known for known in _errors(LaminaError) if known.__name__ == kind), ModelError)(message)


def _errors(kind: type[LaminaError]) -> Iterator[type[LaminaError]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from _errors(narrower)


def start_message(settings: ServerSettings, name: str, source: str) -> dict[str, Any]:
    """What a process has to know of a server; not its token."""
    return {
        "name": name,
        "source": source,
        "folders": [str(folder) for folder in settings.folders],
        "corpora": list(settings.corpora),
        "device": settings.device,
        "dtype": settings.dtype,
        "chat": settings.chat,
        "limits": asdict(settings.limits),
    }


def examined_in(answer: bytes) -> tuple[ExaminedModel, str]:
    """The verdict on a model and its shape, and its fingerprint, as its process answered."""
    from lamina.models.checks.passports import ExaminedModel, Passport

    about = json.loads(answer)
    return ExaminedModel(Passport.of(about["passport"]), *(int(about[part]) for part in SHAPE)), str(
        about["fingerprint"]
    )
