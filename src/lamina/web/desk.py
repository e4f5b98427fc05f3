"""What every request finds on the desk: settings, models, results, jobs and a bounded number of places."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request

from lamina.errors import InputError
from lamina.web.jobs import Jobs
from lamina.web.models import Models
from lamina.web.settings import Settings
from lamina.web.shelf import Shelf

if TYPE_CHECKING:
    from lamina.encoders import Encoder


class TooLongError(InputError):
    """More text than one request may bring."""


class BusyError(InputError):
    """Too many requests at once."""


@dataclass(frozen=True)
class Desk:
    """Everything an answer is made of."""

    settings: Settings
    models: Models
    shelf: Shelf
    jobs: Jobs
    places: BoundedSemaphore

    @contextmanager
    def model(self, name: str) -> Iterator[Encoder]:
        """The model, in turn; where too many wait for it, the request is sent away instead."""
        if not self.places.acquire(blocking=False):
            raise BusyError("too many requests at once; try again in a moment")
        try:
            with self.models.use(name) as encoder:
                yield encoder
        finally:
            self.places.release()

    def check_length(self, *texts: str) -> None:
        """Refuses more text than one request may bring."""
        size, most = sum(map(len, texts)), self.settings.limits.characters
        if size > most:
            raise TooLongError(f"the text has {size:,} characters; this server takes at most {most:,} in one request")


def _desk(request: Request) -> Desk:
    return request.app.state.desk


TheDesk = Annotated[Desk, Depends(_desk)]
"""As a parameter of an endpoint: the desk."""
