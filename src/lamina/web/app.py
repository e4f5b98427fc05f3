"""The application: guard, pages, API and error responses; and the server process with one socket.

The guard asks of every request: is it for this server, from one of its own pages, small enough, and there in time?
"""

from __future__ import annotations

import asyncio
import hmac
import os
import re
import socket
import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache, lru_cache, partial
from importlib.metadata import version
from importlib.resources import files
from itertools import islice
from pathlib import Path
from threading import Lock, Thread, Timer
from types import FrameType
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import parse_qs

import h11
import uvicorn
from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import cookie_parser
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from lamina.errors import DamagedError, InputError, LaminaError
from lamina.figures import chart_script, colour_tokens, drawing_script
from lamina.files.reading import open_regular
from lamina.results.index import ResultIndex, UnknownResultError
from lamina.web.api import ROUTERS
from lamina.web.jobs import TooManyJobsError, UnknownJobError
from lamina.web.models import LoadedModels, ModelWorkers, UnconfirmedModelError, UnknownModelError
from lamina.web.requests import UnfitRequestError
from lamina.web.state import AppState, Limits, ServerSettings, State, TooLongError, is_loopback
from lamina.web.workers import BusyError, DeadlineError, start_message

if TYPE_CHECKING:
    from lamina.models import Encoder


COOKIE = "lamina_token"
_ASKING = "this server asks for its token: open the address it printed when it started"
_DIGITS = 12
"""Most digits of a length that is looked at."""
_NAMES = ("127.0.0.1", "localhost", "[::1]")
# Vega compiles its expressions and writes styles; everything comes from this server.
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}

REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads allow-modals allow-popups; default-src 'none'; script-src 'unsafe-inline' "
    "'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
"""Of a report, which is a file that may come from anyone: its scripts run as those of no site, so they can neither ask
this server nor read its pages, and nothing can be loaded or sent."""


class Guard:
    """Refuses requests that are not for this server, and adds security headers to every response."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app = app
        self._settings = settings
        ports = {"", f":{settings.port}"} if settings.port in (80, 443) else {f":{settings.port}"}
        names = {*_NAMES, settings.host} if is_loopback(settings.host) else set()
        self._hosts = {f"{name}{port}" for name in names for port in ports}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            answer = _Sending(send)
            try:
                await self._answer(scope, receive, answer)
            except asyncio.CancelledError:
                # The server is being stopped, and the time for running requests is over.
                if not answer.started:
                    await _refusal(503, "the server is being stopped")(scope, receive, answer)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope, Headers(scope=scope))
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        try:
            async with asyncio.timeout(self._settings.limits.body_seconds):
                body = await _read(receive, self._most(scope))
        except TimeoutError:
            await _too_slow(self._settings.limits.body_seconds)(scope, receive, send)
        except _TooLargeError:
            await _too_large(self._most(scope))(scope, receive, send)
        else:
            # None: the sender is gone before the end of the request, and half a request is none.
            if body is not None:
                await self._app(scope, _again(body, receive), send)

    def _most(self, scope: Scope) -> int:
        """Bytes that a request may have."""
        limits = self._settings.limits
        return limits.table if scope["path"] == "/api/tables" else limits.body

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """The response to a request that is refused; None if it is allowed."""
        host = headers.get("host", "").lower()
        # Behind any other address than loopback the names of the machine are not known, and the token guards.
        if self._hosts and host not in self._hosts:
            return _refusal(403, "this server answers only to its own address; open the one it printed when it started")
        origins = (f"http://{host}", f"https://{host}")
        elsewhere = any(origin.lower() not in origins for origin in headers.getlist("origin"))
        fetched = headers.get("sec-fetch-mode", "navigate") != "navigate"
        if elsewhere or (fetched and headers.get("sec-fetch-site", "none") not in ("same-origin", "none")):
            return _refusal(403, "a page of another address cannot use this server")
        for declared in headers.getlist("content-length"):
            if not declared.isdecimal():
                return _refusal(400, "the length of the request is not a number")
            if len(declared) > _DIGITS or int(declared) > self._most(scope):
                return _too_large(self._most(scope))
        return self._without_token(scope, headers)

    def _without_token(self, scope: Scope, headers: Headers) -> Response | None:
        token = self._settings.token
        if token is None:
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["method"] == "GET" and not scope["path"].startswith("/api") and _same(given, token):
            # Kept in a cookie, so that it does not stay in the address that people send around.
            # One slash: two would make the next part the name of another server.
            answer = RedirectResponse("/" + scope["path"].lstrip("/\\"), status_code=303)
            answer.set_cookie(COOKIE, token, httponly=True, samesite="strict")
            return answer
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and _same(bearer, token):
            return None
        if _same(cookie_parser(headers.get("cookie", "")).get(COOKIE, ""), token):
            return None
        opened = scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
        return (
            _asking_page(headers) if opened and headers.get("sec-fetch-dest") == "document" else _refusal(401, _ASKING)
        )


def _asking_page(headers: Headers) -> Response:
    """What a person sees who opens a page without the token.

    A browser keeps the cookie to itself where a page of another site links here; and so it does where a report links
    here, which in its sandbox is a page of no site. This page opens the same address again, now from this server: with
    the cookie, if there is one.
    """
    elsewhere = headers.get("sec-fetch-site") not in ("same-origin", "none")
    again = '<meta http-equiv="refresh" content="0">' if elsewhere else ""
    message = "One moment: opening it from here." if elsewhere else f"{_ASKING[0].upper()}{_ASKING[1:]}."
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        f"{again}<title>lamina</title></head><body><h1>lamina</h1><p>{message}</p></body></html>"
    )
    return HTMLResponse(page, status_code=401)


class _TooLargeError(Exception):
    """The body is longer than allowed."""


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())


def _refusal(status: int, why: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": why}, status_code=status, headers=headers)


def _too_large(most: int) -> Response:
    return _refusal(413, f"the request is too large; this server takes at most {most:,} bytes")


def _too_slow(seconds: float) -> Response:
    return _refusal(408, f"the request was not complete after {seconds:g} seconds", {"connection": "close"})


async def _read(receive: Receive, most: int) -> bytes | None:
    """The whole body, counted while reading, since its declared length may be wrong; None if it never ends."""
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if len(body) > most:
            raise _TooLargeError
        more = bool(message.get("more_body"))
    return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    """Replays what was read, then continues with the original messages."""
    waiting = [body]

    async def replayed() -> Message:
        return {"type": "http.request", "body": waiting.pop(), "more_body": False} if waiting else await receive()

    return replayed


class _Sending:
    """Sends an answer with the security headers, and knows whether it began."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            headers = message.get("headers", [])
            present = {name.decode("latin-1").lower() for name, _ in headers}
            fresh = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name not in present]
            message = {**message, "headers": [*headers, *fresh]}
        await self._send(message)


_THREADS = 40
"""Requests that ask no model and are answered at the same time."""

LONGEST = 64 * 1024**2
"""Bytes of a report, and of its images together; reports of three models have about 10 MB."""
TABLES = (".csv", ".parquet")
"""The only files beside a report that are served."""


def embedded_report(report: Path, way_back: str) -> str:
    """The report with `way_back` at its top, its images inside it, and its links to tables leading to the app's.

    In its sandbox the page can load nothing: images beside it come with it, tables by links of their own.
    """
    with open_regular(report) as file:
        content = file.read(LONGEST + 1)
    if len(content) > LONGEST:
        raise InputError(f"the report has more than {LONGEST:,} bytes; open its index.html itself")
    page = content.decode("utf-8", "replace")
    stills = _EmbeddedImages(report)
    whole = re.sub(r'src="figures/([\w.-]{1,200})"', lambda still: f'src="{stills.inside(still[1])}"', page)
    # By hand: a search for the whole tag takes quadratic time where many open and none closes.
    start = whole.find("<body")
    end = whole.find(">", start) + 1 if start >= 0 else 0
    whole = whole[:end] + way_back + whole[end:] if end else whole
    return whole.replace('href="results/', 'href="/report/results/')


def table_beside(report: Path, path: str) -> Path | None:
    """A table in the folder `results` beside the report; None for anything else.

    Example:
        >>> table_beside(Path("report/index.html"), "../../etc/passwd.csv") is None
        True
    """
    return _beside(report, f"results/{path}", *TABLES)


class _EmbeddedImages:
    """Images of a report as data addresses; missing or oversized images are left out."""

    def __init__(self, report: Path) -> None:
        self._report = report
        self._left = LONGEST

    def inside(self, name: str) -> str:
        """The image, as an address that holds it."""
        path = _beside(self._report, f"figures/{name}", ".svg")
        if path is None:
            return "data:,"
        with open_regular(path) as file:
            content = file.read(self._left + 1)
        if len(content) > self._left:
            return "data:,"
        self._left -= len(content)
        return f"data:image/svg+xml;base64,{b64encode(content).decode()}"


def _beside(report: Path, path: str, *suffixes: str) -> Path | None:
    """A file that lies where a report keeps such files; None for anything else, links out of there included."""
    try:
        root, file = report.parent.resolve() / path.partition("/")[0], (report.parent / path).resolve()
        return file if file.suffix in suffixes and file.is_relative_to(root) and file.is_file() else None
    except (OSError, RuntimeError, ValueError):
        # A name that no disk can have (too long, or with a NUL), or a link to itself.
        return None


class AppPage(NamedTuple):
    """One page."""

    name: str
    """Of its template and script."""
    path: str
    title: str
    about: str
    """What it shows, in one sentence."""
    asks: Literal["sentence", "layer", "model", "nothing"]
    """What can be chosen above it; each includes what follows it."""
    tab: str = ""
    """The tab that it belongs to, where it has none of its own."""


VIEWS = (
    AppPage("overview", "/overview", "Overview", "What this model knows, and where.", "layer"),
    AppPage(
        "sentence",
        "/sentence",
        "Sentence",
        "What each layer and every head makes of the words of a sentence.",
        "sentence",
    ),
    AppPage("compare", "/compare", "Compare", "Models side by side, and where they differ.", "sentence"),
    AppPage("runs", "/runs", "Runs", "What was run, where it came from, and how to run it again.", "model"),
)
"""The tabs."""

QUESTIONS = AppPage(
    "questions", "/sentence/question", "A question", "How a model comes to its answer.", "layer", "sentence"
)
"""A mode of the tab Sentence."""

CHOOSING = AppPage(
    "choosing", "/runs/table", "Which layer to use", "Which layer reads the labels of a table best.", "model", "runs"
)
"""A mode of the tab Runs."""

ENTRIES = (
    AppPage("entry", "/head/{name}", "A head", "What one head does.", "model", "sentence"),
    AppPage("entry", "/layer/{name}", "A layer", "What one layer knows.", "model", "overview"),
    AppPage("entry", "/task/{name:path}", "A task", "Where one task is read.", "model", "overview"),
)
"""The permanent pages of what the search box leads to."""

_SCRIPTED = {view.name for view in (*VIEWS, QUESTIONS, CHOOSING, *ENTRIES)}
"""Pages that a script fills."""

_NO_REPORT = AppPage(
    "no_report",
    "",
    "There is no report here",
    "None of the folders that this server was started with holds one.",
    "nothing",
)
_MISSING = AppPage(
    "missing", "", "There is no such page", "The address may be mistyped, or of another version.", "nothing"
)

_LENS = ("sentence", "word", "mark")
"""What an address of the first page had when that page was the sentence lens."""
_MOVED = {
    "/layers": "/overview",
    "/questions": "/sentence/question",
    "/results": "/runs",
    "/heads": "/sentence#heads",
}
"""Where pages of earlier versions are now: links that were shared keep working."""


def _add_pages(app: FastAPI) -> None:
    """Add the pages, their scripts and the description of the API."""
    for view in (*VIEWS, QUESTIONS, CHOOSING, *ENTRIES):
        app.add_api_route(view.path, _page(view), include_in_schema=False, response_class=HTMLResponse)
    app.add_api_route("/", _home, include_in_schema=False, response_class=HTMLResponse)
    for old, new in _MOVED.items():
        app.add_api_route(old, partial(_moved, new), include_in_schema=False, response_class=HTMLResponse)
    app.add_api_route("/report", _report, include_in_schema=False, response_class=HTMLResponse)
    app.add_api_route(
        "/report/results/{path:path}", _report_table, include_in_schema=False, response_class=FileResponse
    )
    app.add_api_route("/api", _api_page, include_in_schema=False, response_class=HTMLResponse)
    app.add_api_route("/static/vega.js", _vega, include_in_schema=False)
    app.add_api_route("/static/tokens.css", _tokens, include_in_schema=False)
    app.add_api_route("/static/drawing.js", _drawing, include_in_schema=False)
    app.mount("/static", StaticFiles(directory=str(files("lamina.web").joinpath("static"))))


def _home(request: Request, app: State) -> Response:
    """The overview; an address of the sentence lens, which was here once, leads there."""
    if any(name in request.query_params for name in _LENS):
        return _moved("/sentence", request)
    return _page(VIEWS[0])(app)


def _moved(path: str, request: Request) -> Response:
    query = request.url.query
    if path == "/overview" and "result" in request.query_params:
        path = "/runs"
    path, _, part = path.partition("#")
    address = f"{path}?{query}" if query else path
    return RedirectResponse(f"{address}#{part}" if part else address, status_code=308)


def _report(app: State) -> Response:
    """The report in the first named folder that has one, with a way back."""
    if app.report is None:
        return _rendered(_NO_REPORT, status=404)
    return Response(
        _report_page(app.report), media_type="text/html", headers={"content-security-policy": REPORT_POLICY}
    )


_READING = Lock()
_MOST_IMAGES = 10_000
"""Images beside a report that are looked at."""


def _report_page(report: Path) -> bytes:
    """The page of a report, put together once as long as its files are the same: by one request, for all that wait."""
    images = islice((report.parent / "figures").glob("*.svg"), _MOST_IMAGES)
    with _READING:
        states = [(str(path), *_state(path.lstat())) for path in (report, *images)]
        return _embedded(report, tuple(sorted(states)))


def _state(about: os.stat_result) -> tuple[int, int, int]:
    return about.st_ino, about.st_mtime_ns, about.st_size


@lru_cache(maxsize=1)
def _embedded(report: Path, _states: tuple[tuple[str, int, int, int], ...]) -> bytes:
    way_back = _templates().get_template("_way_back.html").render(views=VIEWS)
    return embedded_report(report, way_back).encode()


def _report_table(path: str, app: State) -> Response:
    """A table beside the report, as its links name it; nothing else that lies there."""
    table = None if app.report is None else table_beside(app.report, path)
    if table is None:
        raise HTTPException(404)
    return FileResponse(table, filename=table.name)


def _page(view: AppPage):
    def page(app: State) -> HTMLResponse:
        return _rendered(view, stepped=bool(app.settings.steps))

    return page


def _rendered(view: AppPage, status: int = 200, **more: object) -> HTMLResponse:
    page = _templates().get_template(f"{view.name}.html").render(view=view, views=VIEWS, scripted=_SCRIPTED, **more)
    return HTMLResponse(page, status_code=status)


def _api_page(request: Request) -> HTMLResponse:
    described = request.app.openapi()
    view = AppPage("api", "/api", "The API", "What programs can ask this server.", "nothing")
    return _rendered(view, api=described)


def _vega() -> Response:
    return Response(chart_script(), media_type="text/javascript", headers={"cache-control": "max-age=86400"})


def _tokens() -> Response:
    return Response(colour_tokens(), media_type="text/css")


def _drawing() -> Response:
    return Response(drawing_script(), media_type="text/javascript")


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
    DeadlineError: 504,
    UnconfirmedModelError: 409,
    UnknownModelError: 404,
    UnknownResultError: 404,
    UnfitRequestError: 422,
    InputError: 400,
    DamagedError: 400,
    LaminaError: 503,
}
"""Error -> status code; the first class that matches. 503: not the request's fault, and it may work later."""


def create_app(settings: ServerSettings, load: Callable[[str], Encoder] | None = None) -> FastAPI:
    """The application as `lamina serve` runs it: every model in a process of its own; with `load`, in this process.

    Example:
        >>> create_app(ServerSettings()).title
        'lamina'
    """
    results = ResultIndex(settings.folders)
    named = partial(dict, [(name, name) for name in settings.models])
    unnamed = {"stray": results.models, "seeds": results.seeds}
    models = (
        ModelWorkers(named, start=partial(start_message, settings), limits=settings.limits, **unnamed)
        if load is None
        else LoadedModels(named, most=settings.limits.loaded, load=load, **unnamed)
    )
    state = AppState.of(settings, models, results)
    jobs, estimates = state.jobs, state.estimates

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        # Requests that wait for a model hold a thread each; others are answered meanwhile.
        current_default_thread_limiter().total_tokens = settings.limits.waiting + _THREADS
        # While the first page is opened: the script that draws charts, the first model, the analyses.
        Thread(target=partial(warm_up, state), daemon=True).start()
        yield
        models.close()
        state.charts.close()
        estimates.close()
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
    app.add_exception_handler(LaminaError, _error_response)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _refused)
    for router in ROUTERS:
        app.include_router(router, prefix="/api")
    _add_pages(app)
    return app


def warm_up(app: AppState) -> None:
    chart_script()
    # As many as stay in memory. A model that cannot be loaded is reported here, and on every page.
    for name in app.settings.models[: app.settings.limits.loaded]:
        try:
            app.models.examined(name)
        except LaminaError as error:
            print(f"lamina: the model {name} cannot be loaded: {error}", file=sys.stderr, flush=True)
    app.words_of("")


async def _error_response(_: Request, error: Exception) -> JSONResponse:
    status = next(status for kind, status in _STATUS.items() if isinstance(error, kind))
    headers = {"retry-after": "1"} if status == 429 else None
    return JSONResponse({"error": str(error)}, status_code=status, headers=headers)


async def _refused(request: Request, error: Exception) -> Response:
    """No such address, or not with this method: a page for people, JSON for programs."""
    known = error if isinstance(error, HTTPException) else HTTPException(500)
    wants_page = "text/html" in request.headers.get("accept", "") and request.method == "GET"
    if known.status_code == 404 and wants_page and not request.url.path.startswith(("/api", "/static")):
        return _rendered(_MISSING, status=404, path=request.url.path)
    return JSONResponse({"error": known.detail}, status_code=known.status_code, headers=known.headers)


async def _malformed(_: Request, error: Exception) -> JSONResponse:
    """Why a request does not fit the API, in one sentence, without repeating what was sent."""
    faults = error.errors() if isinstance(error, RequestValidationError) else []
    reasons = "; ".join(f"{'.'.join(str(part) for part in fault['loc'][1:])}: {fault['msg']}" for fault in faults)
    return JSONResponse({"error": f"the request cannot be read: {reasons}"}, status_code=422)


_GRACE = 1.0
"""Seconds for the answer to a slow request to be sent before its connection is closed."""


def run(settings: ServerSettings, listener: socket.socket) -> None:
    """Answer requests until Ctrl-C or SIGTERM."""
    make_server(settings).run(sockets=[listener])


class Server(uvicorn.Server):
    """A server that ends on a signal, whatever its models, computations and charts do."""

    def __init__(self, config: uvicorn.Config, state: AppState) -> None:
        super().__init__(config)
        self._state = state

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """See `uvicorn.Server.handle_exit`."""
        super().handle_exit(sig, frame)
        # Requests that wait for a model are refused at once; what does not end by itself is ended.
        for close in (self._state.models.close, self._state.charts.close):
            Thread(target=close, daemon=True).start()
        last = Timer(2 * self._state.settings.limits.stopping_seconds, os._exit, (128 + sig,))
        last.daemon = True
        last.start()


def make_server(settings: ServerSettings, load: Callable[[str], Encoder] | None = None) -> Server:
    """The server, not yet running; `load` as for `create_app`."""
    app = create_app(settings, load)
    config = uvicorn.Config(
        app,
        http=_protocol(settings.limits),
        # The app has no WebSockets, and the checks on requests would not see them.
        ws="none",
        log_level="warning",
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=settings.limits.stopping_seconds,
    )
    return Server(config, app.state.lamina)


def _protocol(limits: Limits) -> type[H11Protocol]:
    seconds = {h11.IDLE: limits.header_seconds, h11.SEND_BODY: limits.body_seconds + _GRACE}

    class Impatient(H11Protocol):
        """HTTP/1.1 with a time limit for the header and for the body of a request."""

        _awaited: object = None
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._watch()
            if len(self.connections) > limits.connections:
                transport.abort()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            # The next request may begin now; its time does too.
            self._stop_watching()
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_watching()
            super().connection_lost(exc)

        def shutdown(self) -> None:
            # Half a request is not waited for.
            if self.conn.their_state is h11.SEND_BODY:
                self.transport.abort()
            super().shutdown()

        def _watch(self) -> None:
            """Start the time limit of what is awaited from the client, unless it runs already."""
            awaited = self.conn.their_state if self.conn.their_state in seconds else None
            if awaited is not self._awaited:
                self._stop_watching()
                self._awaited = awaited
                if awaited is not None:
                    self._deadline = self.loop.call_later(seconds[awaited], self.transport.abort)

        def _stop_watching(self) -> None:
            self._awaited = None
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return Impatient
