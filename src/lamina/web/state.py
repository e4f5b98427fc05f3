"""Shared application state: settings, models, results, jobs, and a limit on simultaneous requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request

from lamina.errors import InputError
from lamina.results.index import ResultIndex
from lamina.web.jobs import Estimates, Jobs
from lamina.web.models import Models
from lamina.web.settings import ServerSettings

if TYPE_CHECKING:
    from lamina.framework.declare import Analysis
    from lamina.models import Encoder
    from lamina.models.checks.passports import ExaminedModel


class TooLongError(InputError):
    """More text than one request may have."""


class BusyError(InputError):
    """Too many requests at once."""


@dataclass(frozen=True)
class AppState:
    """What endpoints share."""

    settings: ServerSettings
    models: Models
    results: ResultIndex
    jobs: Jobs
    estimates: Estimates
    places: BoundedSemaphore

    @contextmanager
    def model(self, name: str) -> Iterator[Encoder]:
        """The model, one request at a time; refused if too many are waiting."""
        with self._place(), self.models.use(name) as encoder:
            yield encoder

    def examined(self, name: str) -> ExaminedModel:
        """The model's passport; waits as `model` does where the model has to be loaded for it."""
        with self._place():
            return self.models.examined(name)

    @contextmanager
    def _place(self) -> Iterator[None]:
        if not self.places.acquire(blocking=False):
            raise BusyError("too many requests at once; try again in a moment")
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
