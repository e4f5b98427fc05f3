"""A real server on a real socket: requests that never end are closed, and it stops when it is told to."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from threading import Thread

import httpx
import pytest
import uvicorn

from lamina.web.app import make_server
from lamina.web.state import Limits, ServerSettings

HALF_A_HEADER = b"GET / HTTP/1.1\r\nHost: x"
HALF_A_BODY = b"POST /api/lens HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 1000\r\n\r\n{"
TOO_LONG = b"POST /api/lens HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 1000000\r\n\r\n{"


class Served:
    """A server in a thread of this process."""

    def __init__(self, limits: Limits) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.server: uvicorn.Server = make_server(ServerSettings(port=self.port, models=("none",), limits=limits))
        self.thread = Thread(target=self.server.run, kwargs={"sockets": [self.listener]}, daemon=True)
        self.thread.start()

    def send(self, data: bytes) -> socket.socket:
        link = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        link.sendall(data % self.port if b"%d" in data else data)
        return link

    def status(self) -> int:
        return httpx.get(f"http://127.0.0.1:{self.port}/", timeout=60).status_code

    def stop(self) -> float:
        start = time.monotonic()
        self.server.should_exit = True
        self.thread.join(20)
        return time.monotonic() - start


@pytest.fixture
def serve(monkeypatch) -> Iterator[Callable[..., Served]]:
    # Nothing is loaded here: neither charts nor models.
    monkeypatch.setattr("lamina.web.app.warm_up", lambda state: None)
    running: list[Served] = []

    def start(**limits: float) -> Served:
        running.append(Served(Limits(**limits)))
        return running[-1]

    yield start
    for each in running:
        each.stop()


def rest(link: socket.socket) -> bytes:
    """What comes until the server closes the connection."""
    parts = []
    with link:
        try:
            while part := link.recv(65536):
                parts.append(part)
        except ConnectionResetError:
            pass
    return b"".join(parts)


def test_slow_requests_are_closed_and_others_are_served(serve):
    # Long enough for a busy machine to read a header that is complete.
    served = serve(header_seconds=1.5, body_seconds=0.3)
    said = [b"", HALF_A_HEADER, HALF_A_BODY, TOO_LONG]
    links = [served.send(each) for each in said]
    assert served.status() == 200
    answers = [rest(link) for link in links]
    assert [answer[9:12] for answer in answers] == [b"", b"", b"408", b"413"]


def test_each_request_of_a_connection_has_its_own_time(serve):
    served = serve(header_seconds=1.0)
    with httpx.Client(base_url=f"http://127.0.0.1:{served.port}", timeout=60) as client:
        for pause in (0, 0.6, 0.6):
            time.sleep(pause)
            assert client.get("/").status_code == 200


def test_half_requests_do_not_hold_up_the_end(serve):
    served = serve()
    links = [served.send(each) for each in (b"", HALF_A_HEADER, HALF_A_BODY, TOO_LONG)]
    assert served.status() == 200
    assert served.stop() < 15
    for link in links:
        link.close()


def test_one_connection_too_many_is_closed(serve):
    served = serve(connections=2)
    kept = [served.send(b"") for _ in range(2)]
    assert rest(served.send(b"")) == b""
    for link in kept:
        link.close()


def test_a_websocket_is_not_opened(serve):
    served = serve()
    asked = b"GET /api/jobs HTTP/1.1\r\nHost: evil.example\r\nUpgrade: websocket\r\nConnection: Upgrade, close\r\n"
    key = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    assert rest(served.send(asked + key))[9:12] == b"403"
