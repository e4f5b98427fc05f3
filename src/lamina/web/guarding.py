"""Checks on every request: is it for this server, from one of its own pages, and small enough?

A page of another site can make a browser send requests to 127.0.0.1. Its name is in `Origin` (and in `Host`, if it
pointed its own name at this machine), so both have to be ours.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lamina.web.settings import Settings, is_loopback

COOKIE = "lamina_token"
_NAMES = ("127.0.0.1", "localhost", "[::1]")
# Vega compiles its expressions and writes styles; everything comes from this server.
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}


class Guard:
    """Refuses requests that are not for this server, and adds security headers to every response."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings
        ports = {"", f":{settings.port}"} if settings.port in (80, 443) else {f":{settings.port}"}
        names = {*_NAMES, settings.host} if is_loopback(settings.host) else set()
        self._hosts = {f"{name}{port}" for name in names for port in ports}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]}
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await refusal(scope, receive, _with_headers(send))
            return
        body = await _read(receive, self._settings.limits.body)
        if body is None:
            await _too_large(self._settings.limits.body)(scope, receive, _with_headers(send))
            return
        await self._app(scope, _again(body, receive), _with_headers(send))

    def _refusal(self, scope: Scope, headers: Mapping[str, str]) -> Response | None:
        """The response to a request that is refused; None if it is allowed."""
        host = headers.get("host", "").lower()
        # Behind any other address than loopback the names of the machine are not known, and the token guards.
        if self._hosts and host not in self._hosts:
            return _refused(403, "this server answers only to its own address; open the one it printed when it started")
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host:
            return _refused(403, "a page of another address cannot use this server")
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            return _refused(403, "a page of another address cannot use this server")
        declared = headers.get("content-length", "0")
        if not declared.isdecimal() or int(declared) > self._settings.limits.body:
            return _too_large(self._settings.limits.body)
        return self._without_token(scope, headers)

    def _without_token(self, scope: Scope, headers: Mapping[str, str]) -> Response | None:
        token = self._settings.token
        if token is None:
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if scope["method"] == "GET" and not scope["path"].startswith("/api") and _same(given, token):
            # Kept in a cookie, so that it does not stay in the address that people send around.
            answer = RedirectResponse(scope["path"], status_code=303)
            answer.set_cookie(COOKIE, token, httponly=True, samesite="strict")
            return answer
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if _same(bearer, token) or _same(_cookie(headers), token):
            return None
        return _refused(401, "this server asks for its token: open the address it printed when it started")


def _same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())


def _cookie(headers: Mapping[str, str]) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _refused(status: int, why: str) -> Response:
    return JSONResponse({"error": why}, status_code=status)


def _too_large(most: int) -> Response:
    return _refused(413, f"the request is too large; this server takes at most {most:,} bytes")


async def _read(receive: Receive, most: int) -> bytes | None:
    """The whole body, counted while reading, since its declared length may be wrong; None if it is too long."""
    parts, size, more = [], 0, True
    while more and size <= most:
        message = await receive()
        parts.append(message.get("body", b""))
        size, more = size + len(parts[-1]), bool(message.get("more_body"))
    return b"".join(parts) if size <= most else None


def _again(body: bytes, receive: Receive) -> Receive:
    """Replays what was read, then continues with the original messages."""
    waiting = [body]

    async def replayed() -> Message:
        return {"type": "http.request", "body": waiting.pop(), "more_body": False} if waiting else await receive()

    return replayed


def _with_headers(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            fresh = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            message = {**message, "headers": [*message.get("headers", []), *fresh]}
        await send(message)

    return with_headers
