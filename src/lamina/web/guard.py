"""Checks on every request: is it for this server, from one of its own pages, small enough, and there in time?

A page of another site can make a browser send requests to 127.0.0.1. Its name is in `Origin` (and in `Host`, if it
pointed its own name at this machine), so both have to be ours.
"""

from __future__ import annotations

import asyncio
import hmac
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lamina.web.settings import ServerSettings, is_loopback

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
                    await _refused(503, "the server is being stopped")(scope, receive, answer)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope, Headers(scope=scope))
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        try:
            async with asyncio.timeout(self._settings.limits.body_seconds):
                body = await _read(receive, self._settings.limits.body)
        except TimeoutError:
            await _too_slow(self._settings.limits.body_seconds)(scope, receive, send)
        except _TooLargeError:
            await _too_large(self._settings.limits.body)(scope, receive, send)
        else:
            # None: the sender is gone before the end of the request, and half a request is none.
            if body is not None:
                await self._app(scope, _again(body, receive), send)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """The response to a request that is refused; None if it is allowed."""
        host = headers.get("host", "").lower()
        # Behind any other address than loopback the names of the machine are not known, and the token guards.
        if self._hosts and host not in self._hosts:
            return _refused(403, "this server answers only to its own address; open the one it printed when it started")
        origins = (f"http://{host}", f"https://{host}")
        elsewhere = any(origin.lower() not in origins for origin in headers.getlist("origin"))
        fetched = headers.get("sec-fetch-mode", "navigate") != "navigate"
        if elsewhere or (fetched and headers.get("sec-fetch-site", "none") not in ("same-origin", "none")):
            return _refused(403, "a page of another address cannot use this server")
        for declared in headers.getlist("content-length"):
            if not declared.isdecimal():
                return _refused(400, "the length of the request is not a number")
            if len(declared) > _DIGITS or int(declared) > self._settings.limits.body:
                return _too_large(self._settings.limits.body)
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
            _asking_page(headers) if opened and headers.get("sec-fetch-dest") == "document" else _refused(401, _ASKING)
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


def _refused(status: int, why: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": why}, status_code=status, headers=headers)


def _too_large(most: int) -> Response:
    return _refused(413, f"the request is too large; this server takes at most {most:,} bytes")


def _too_slow(seconds: float) -> Response:
    return _refused(408, f"the request was not complete after {seconds:g} seconds", {"connection": "close"})


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
