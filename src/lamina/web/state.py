"""Shared application state: settings, models, results, jobs, and a limit on simultaneous requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, Request

from lamina.errors import InputError
from lamina.results.index import ResultIndex
from lamina.web.jobs import Estimates, Jobs
from lamina.web.models import LoadedModels, Models
from lamina.web.settings import ServerSettings
from lamina.web.workers import BusyError, EndpointInWorker

if TYPE_CHECKING:
    from pydantic import BaseModel

    from lamina.framework.declare import Analysis
    from lamina.models import Encoder
    from lamina.models.checks.passports import ExaminedModel


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

    @classmethod
    def of(cls, settings: ServerSettings, models: Models, results: ResultIndex) -> AppState:
        """The state of a server with these models, which has started nothing yet."""
        limits = settings.limits
        jobs = Jobs(most=limits.jobs, memory=limits.job_memory)
        estimates = Estimates(lambda: jobs.busy, on=settings.estimates)
        return cls(settings, models, results, jobs, estimates, BoundedSemaphore(limits.waiting))

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
