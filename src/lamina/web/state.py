"""What a server was started with, and what its requests share: models, results, jobs, a limit on simultaneous ones."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, Request

from lamina.errors import InputError
from lamina.results.index import ResultIndex
from lamina.web.jobs import Estimates, Jobs
from lamina.web.models import LoadedModels, Models
from lamina.web.workers import BusyError, ChartDrawing, EndpointInWorker

if TYPE_CHECKING:
    from pydantic import BaseModel

    from lamina.framework.declare import Analysis
    from lamina.framework.inputs import Precision
    from lamina.models import Encoder
    from lamina.models.checks.passports import ExaminedModel


EXAMPLE = "The old man the boats while the keys to the cabinet are on the table ."
"""The example sentence: words whose part of speech is ambiguous at first."""
EXAMPLES = (
    (EXAMPLE, "“man” is a verb here, and “to” could be a particle or a preposition"),
    ("She wanted to walk to the store .", "the same word twice: a particle, then a preposition"),
    ("Time flies like an arrow , but fruit flies like a banana .", "“flies” and “like” change their part of speech"),
    ("The lawyer who the judges saw left the court early .", "subject and verb stand far apart"),
    ("The bank by the river had no cash , so they sat on its bank .", "one word, two senses"),
)
"""Sentences worth trying, and why."""


@dataclass(frozen=True)
class Limits:
    """Limits per request and in total."""

    characters: int = 20_000
    """In all texts of one request; more is refused with 413."""
    body: int = 256 * 1024
    """Bytes of a request; more is refused with 413."""
    table: int = 8 * 1024**2
    """Bytes of a request that brings a table; more is refused with 413."""
    waiting: int = 64
    """Requests that compute or wait at the same time; more are refused with 429."""
    jobs: int = 8
    """Background jobs running or queued; more are refused with 429."""
    loaded: int = 3
    """Models kept in memory, each in a process of its own; the least recently used one is dropped."""
    answer_seconds: float = 60.0
    """That a model may take for one answer, and a request may wait for its turn; then the process is ended (504)."""
    loading_seconds: float = 300.0
    """That a model may take to be loaded, downloads included; then its process is ended."""
    model_memory: int = 16 * 1024**3
    """Bytes of memory per model's process; one that uses more is ended, with a message."""
    job_memory: int = 8 * 1024**3
    """Bytes of memory per background job; a job that uses more is stopped, with a message."""
    header_seconds: float = 10.0
    """From the start of a connection or the last answer until a request's header is there; then it is closed."""
    body_seconds: float = 10.0
    """Until the rest of a request is there; then it is answered with 408 and closed."""
    stopping_seconds: int = 2
    """That running requests have to finish when the server is stopped; after twice as long it ends in any way."""
    connections: int = 500
    """Open at the same time; more are closed at once."""


@dataclass(frozen=True)
class TrainingStep:
    """Where a model is in the series of checkpoints that the server was started with."""

    training: str
    """Which training: the name of the series, and of the seed where it has several."""
    step: int | None
    """None for the end of the training, where its name has no step."""


@dataclass(frozen=True)
class ServerSettings:
    """What the server was started with."""

    models: tuple[str, ...] = ("minilm",)
    """Names and paths of available models; fine-tuned models in the result folders are available too."""
    steps: Mapping[str, TrainingStep] = field(default_factory=dict)
    """Checkpoint -> its place; those of one training are in `models` from the first to the last."""
    folders: tuple[Path, ...] = ()
    """Result folders: nothing outside them is read. Jobs write into the first."""
    corpora: tuple[str, ...] = ("ewt",)
    """What background jobs may read; neighbours of words come from the first."""
    host: str = "127.0.0.1"
    port: int = 8600
    token: str | None = field(default=None, repr=False)
    """The token that every request needs; None for none, which only an address of this machine can have."""
    device: str | None = None
    dtype: Precision = "float32"
    """What models compute in, unless a job's request says otherwise."""
    chat: bool = False
    """Whether texts are put into the chat template, unless a job's request says otherwise."""
    sentence: str = EXAMPLE
    estimates: bool = True
    """Whether trials are run to say what a computation would take."""
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.token is None and not is_loopback(self.host):
            raise InputError(f"a server on {self.host} can be reached by other machines and needs a token")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server at this address.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
        (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class TooLongError(InputError):
    """More text than one request may have."""


@dataclass(frozen=True)
class AppState:
    """What endpoints share."""

    settings: ServerSettings
    models: Models
    results: ResultIndex
    jobs: Jobs
    estimates: Estimates
    places: BoundedSemaphore
    charts: ChartDrawing

    @classmethod
    def of(cls, settings: ServerSettings, models: Models, results: ResultIndex) -> AppState:
        """The state of a server with these models, which has started nothing yet."""
        limits = settings.limits
        jobs = Jobs(most=limits.jobs, memory=limits.job_memory)
        estimates = Estimates(lambda: jobs.busy, on=settings.estimates)
        places, charts = BoundedSemaphore(limits.waiting), ChartDrawing(limits)
        return cls(settings, models, results, jobs, estimates, places, charts)

    @contextmanager
    def model(self, name: str) -> Iterator[Encoder]:
        """The model, one request at a time, where it is in this process; refused if too many are waiting."""
        if not isinstance(self.models, LoadedModels):
            raise TypeError("models answer in their own processes here: the endpoint has to be marked with in_worker")
        with self._place(), self.models.use(name) as encoder:
            yield encoder

    def ask(self, name: str, endpoint: EndpointInWorker, request: BaseModel) -> Any:
        """What the process of a model answers; refused if too many are waiting."""
        with self._place():
            answer = self.models.ask(name, endpoint, request.model_dump(mode="json"))
        return endpoint.response.validate_json(answer)

    def fingerprint(self, name: str) -> str:
        """The model's fingerprint; waits as `examined` does."""
        with self._place():
            return self.models.fingerprint(name)

    def examined(self, name: str) -> ExaminedModel:
        """The model's passport; waits as `model` does where the model has to be loaded for it."""
        with self._place():
            return self.models.examined(name)

    @contextmanager
    def _place(self) -> Iterator[None]:
        if not self.places.acquire(blocking=False):
            raise BusyError(
                f"too many requests at once: {self.settings.limits.waiting} wait or are being answered; try again in a "
                "moment"
            )
        try:
            yield
        finally:
            self.places.release()

    @cached_property
    def analyses(self) -> tuple[Analysis, ...]:
        """Every analysis, in the order of the report; one of another package that cannot be loaded is left out."""
        from lamina.framework.registry import get_analysis, names

        loaded = []
        with self.models.importing:
            for name in names():
                with suppress(InputError):
                    loaded.append(get_analysis(name))
        return tuple(loaded)

    def words_of(self, analysis: str) -> tuple[str, str, str]:
        """Title, question and method of an analysis; of an unknown one, its name."""
        from lamina.report.chapters import words_of

        known = {declared.name: (declared.title, declared.question, declared.method) for declared in self.analyses}
        return known.get(analysis) or words_of(analysis)

    @property
    def report(self) -> Path | None:
        """The page of the first report in the named folders."""
        pages = (folder / "index.html" for folder in self.settings.folders)
        return next((page for page in pages if page.is_file() and not page.is_symlink()), None)

    def check_length(self, *texts: str) -> None:
        """Refuse more text than one request may have."""
        size, most = sum(map(len, texts)), self.settings.limits.characters
        if size > most:
            raise TooLongError(f"the text has {size:,} characters; this server takes at most {most:,} in one request")


def _of_request(request: Request) -> AppState:
    return request.app.state.lamina


State = Annotated[AppState, Depends(_of_request)]
"""The type of an endpoint's parameter that gets the shared state."""
