"""The server process: one socket, one application, and a time limit for every request to arrive."""

from __future__ import annotations

import asyncio
import socket

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from lamina.web.app import create_app
from lamina.web.settings import Limits, ServerSettings

_GRACE = 1.0
"""Seconds for the answer to a slow request to be sent before its connection is closed."""


def run(settings: ServerSettings, listener: socket.socket) -> None:
    """Answer requests until Ctrl-C or SIGTERM."""
    make_server(settings).run(sockets=[listener])


def make_server(settings: ServerSettings) -> uvicorn.Server:
    """The server, not yet running."""
    config = uvicorn.Config(
        create_app(settings),
        http=_protocol(settings.limits),
        # The app has no WebSockets, and the checks on requests would not see them.
        ws="none",
        log_level="warning",
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=settings.limits.stopping_seconds,
    )
    return uvicorn.Server(config)


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
