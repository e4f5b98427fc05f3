"""The application: guard, pages, API and how errors are told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.metadata import version
from threading import BoundedSemaphore, Thread

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from lamina.errors import InputError, LaminaError
from lamina.figures import chart_script
from lamina.web import pages
from lamina.web.api import ROUTERS
from lamina.web.desk import BusyError, Desk, TooLongError
from lamina.web.guarding import Guard
from lamina.web.jobs import Jobs, TooManyJobsError, UnknownJobError
from lamina.web.models import Models, UnknownModelError
from lamina.web.settings import Settings
from lamina.web.shelf import Shelf, UnknownResultError

_STATUS: dict[type[LaminaError], int] = {
    TooLongError: 413,
    BusyError: 429,
    TooManyJobsError: 429,
    UnknownJobError: 404,
    UnknownModelError: 404,
    UnknownResultError: 404,
    InputError: 400,
    LaminaError: 500,
}
"""Error -> how it is answered; the first that fits."""


def create_app(settings: Settings) -> FastAPI:
    """The application as `lamina serve` runs it.

    Example:
        >>> create_app(Settings()).title
        'lamina'
    """
    shelf = Shelf(settings.folders)
    models = Models(
        lambda: {name: name for name in settings.models} | shelf.models(),
        most=settings.limits.loaded,
        load=partial(_load, device=settings.device),
    )
    limits = settings.limits
    jobs = Jobs(most=limits.jobs, memory=limits.job_memory)
    desk = Desk(settings, models, shelf, jobs, BoundedSemaphore(limits.waiting))

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        # While the first page is opened: the first model, and the script that draws charts.
        Thread(target=partial(_warm, desk), daemon=True).start()
        yield
        jobs.close()

    # The page of the API comes from this server, not from a CDN: see pages.
    app = FastAPI(
        title="lamina",
        version=version("lamina"),
        lifespan=life,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
    )
    app.state.desk = desk
    app.add_middleware(Guard, settings=settings)
    app.add_exception_handler(LaminaError, _told)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _refused)
    for router in ROUTERS:
        app.include_router(router, prefix="/api")
    pages.add_to(app)
    return app


def _warm(desk: Desk) -> None:
    chart_script()
    # What is wrong with the model is told to whoever asks for it.
    with suppress(LaminaError), desk.models.use(desk.settings.models[0]):
        pass


def _load(name: str, device: str | None):
    from lamina.encoders import load_encoder

    return load_encoder(name, device=device)


async def _told(_: Request, error: Exception) -> JSONResponse:
    status = next(status for kind, status in _STATUS.items() if isinstance(error, kind))
    headers = {"retry-after": "1"} if status == 429 else None
    return JSONResponse({"error": str(error)}, status_code=status, headers=headers)


async def _refused(_: Request, error: Exception) -> JSONResponse:
    """No such address, or one that is asked otherwise."""
    known = error if isinstance(error, HTTPException) else HTTPException(500)
    return JSONResponse({"error": known.detail}, status_code=known.status_code, headers=known.headers)


async def _malformed(_: Request, error: Exception) -> JSONResponse:
    """What does not fit the API, in one sentence; what was sent is not sent back."""
    faults = error.errors() if isinstance(error, RequestValidationError) else []
    said = "; ".join(f"{'.'.join(str(part) for part in fault['loc'][1:])}: {fault['msg']}" for fault in faults)
    return JSONResponse({"error": f"the request cannot be read: {said}"}, status_code=422)
