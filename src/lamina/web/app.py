"""The application: guard, pages, API and error responses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import cache, partial
from importlib.metadata import version
from importlib.resources import files
from threading import BoundedSemaphore, Thread
from typing import TYPE_CHECKING, Literal, NamedTuple

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.staticfiles import StaticFiles

from lamina.errors import DamagedError, InputError, LaminaError
from lamina.figures import chart_script, colour_tokens
from lamina.result_index import ResultIndex, UnknownResultError
from lamina.web.api import ROUTERS
from lamina.web.app_state import AppState, BusyError, TooLongError
from lamina.web.guarding import Guard
from lamina.web.jobs import Jobs, TooManyJobsError, UnknownJobError
from lamina.web.models import Models, UnknownModelError
from lamina.web.requests import UnfitRequestError
from lamina.web.settings import Settings

if TYPE_CHECKING:
    from lamina.analyses.inputs import Precision


class View(NamedTuple):
    """One page."""

    name: str
    """Of its template and script."""
    path: str
    title: str
    about: str
    """What it shows, in one sentence."""
    asks: Literal["sentence", "model", "nothing"]
    """What the header asks for; `sentence` includes the model."""


VIEWS = (
    View("lens", "/", "Sentence lens", "What each layer makes of every word of a sentence.", "sentence"),
    View("heads", "/heads", "Heads", "Where every attention head looks, and what it is good at.", "sentence"),
    View("questions", "/questions", "Questions", "How a model comes to its answer, layer by layer.", "model"),
    View("layers", "/layers", "Layers", "What was measured: at which layer each ability lives.", "nothing"),
    View("compare", "/compare", "Compare", "Models side by side, and where they differ.", "sentence"),
    View("results", "/results", "Results", "What was run, where it came from, and how to run it again.", "model"),
)


def _add_pages(app: FastAPI) -> None:
    """Add the pages, their scripts and the description of the API."""
    for view in VIEWS:
        app.add_api_route(view.path, _page(view), include_in_schema=False, response_class=HTMLResponse)
    app.add_api_route("/api", _api_page, include_in_schema=False, response_class=HTMLResponse)
    app.add_api_route("/static/vega.js", _vega, include_in_schema=False)
    app.add_api_route("/static/tokens.css", _tokens, include_in_schema=False)
    app.mount("/static", StaticFiles(directory=str(files("lamina.web").joinpath("static"))))


def _page(view: View):
    def page() -> HTMLResponse:
        return HTMLResponse(_templates().get_template(f"{view.name}.html").render(view=view, views=VIEWS))

    return page


def _api_page(request: Request) -> HTMLResponse:
    described = request.app.openapi()
    view = View("api", "/api", "The API", "What programs can ask this server.", "nothing")
    return HTMLResponse(_templates().get_template("api.html").render(view=view, views=VIEWS, api=described))


def _vega() -> Response:
    return Response(chart_script(), media_type="text/javascript", headers={"cache-control": "max-age=86400"})


def _tokens() -> Response:
    return Response(colour_tokens(), media_type="text/css")


@cache
def _templates():
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("lamina", "web/templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )


_STATUS: dict[type[LaminaError], int] = {
    TooLongError: 413,
    BusyError: 429,
    TooManyJobsError: 429,
    UnknownJobError: 404,
    UnknownModelError: 404,
    UnknownResultError: 404,
    UnfitRequestError: 422,
    InputError: 400,
    DamagedError: 400,
    LaminaError: 503,
}
"""Error -> status code; the first class that matches. 503: not the request's fault, and it may work later."""


def create_app(settings: Settings) -> FastAPI:
    """The application as `lamina serve` runs it.

    Example:
        >>> create_app(Settings()).title
        'lamina'
    """
    results = ResultIndex(settings.folders)
    models = Models(
        lambda: {name: name for name in settings.models} | results.models(),
        most=settings.limits.loaded,
        load=partial(_load, device=settings.device, dtype=settings.dtype, chat=settings.chat),
        seeds=results.seeds,
    )
    limits = settings.limits
    jobs = Jobs(most=limits.jobs, memory=limits.job_memory)
    state = AppState(settings, models, results, jobs, BoundedSemaphore(limits.waiting))

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        # While the first page is opened: the script that draws charts, the first model, the analyses.
        Thread(target=partial(_warm, state), daemon=True).start()
        yield
        jobs.close()

    # The page of the API is our own, without scripts from a CDN.
    app = FastAPI(
        title="lamina",
        version=version("lamina"),
        lifespan=life,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
    )
    app.state.lamina = state
    app.add_middleware(Guard, settings=settings)
    app.add_exception_handler(LaminaError, _told)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _refused)
    for router in ROUTERS:
        app.include_router(router, prefix="/api")
    _add_pages(app)
    return app


def _warm(app: AppState) -> None:
    chart_script()
    # If the model cannot be loaded, the first request for it says why.
    with suppress(LaminaError), app.models.use(app.settings.models[0]):
        pass
    app.words_of("")


def _load(name: str, device: str | None, dtype: Precision, chat: bool):
    from lamina.encoders import load_encoder

    # The app never runs code that comes with a model.
    return load_encoder(name, device=device, dtype=dtype, chat=chat, trust_remote_code=False)


async def _told(_: Request, error: Exception) -> JSONResponse:
    status = next(status for kind, status in _STATUS.items() if isinstance(error, kind))
    headers = {"retry-after": "1"} if status == 429 else None
    return JSONResponse({"error": str(error)}, status_code=status, headers=headers)


async def _refused(_: Request, error: Exception) -> JSONResponse:
    """No such address, or not with this method."""
    known = error if isinstance(error, HTTPException) else HTTPException(500)
    return JSONResponse({"error": known.detail}, status_code=known.status_code, headers=known.headers)


async def _malformed(_: Request, error: Exception) -> JSONResponse:
    """Why a request does not fit the API, in one sentence, without repeating what was sent."""
    faults = error.errors() if isinstance(error, RequestValidationError) else []
    said = "; ".join(f"{'.'.join(str(part) for part in fault['loc'][1:])}: {fault['msg']}" for fault in faults)
    return JSONResponse({"error": f"the request cannot be read: {said}"}, status_code=422)
