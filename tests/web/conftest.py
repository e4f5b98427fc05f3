"""A server without a network: the application with tiny models, and a client that asks it as a browser would."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest
from starlette.testclient import TestClient

from lamina.encoders import Encoder
from lamina.testing import TinyEncoder
from lamina.web import Settings, create_app
from lamina.web.serving import make_server

PORT = 8600


@pytest.fixture
def client(monkeypatch, tmp_path) -> Callable[..., TestClient]:
    """Makes a client of a server with these models and folders, and any other setting."""

    def make(models: dict[str, Encoder] | None = None, folders: list[Path] | None = None, **settings) -> TestClient:
        encoders = models or {"tiny": TinyEncoder()}
        own = tmp_path / "results"
        own.mkdir(exist_ok=True)
        monkeypatch.setattr("lamina.web.app._load", lambda name, **_: encoders[name])
        asked = Settings(models=tuple(encoders), folders=tuple(folders or [own]), port=PORT, **settings)
        return TestClient(create_app(asked), base_url=f"http://127.0.0.1:{PORT}")

    return make


@pytest.fixture(scope="module")
def served() -> Iterator[Callable[..., str]]:
    """Starts a real server with these encoders and folders, in a thread; gives its address."""
    patch, started = pytest.MonkeyPatch(), []

    def start(models: dict[str, Encoder], folders: list[Path]) -> str:
        patch.setattr("lamina.web.app._load", lambda name, **_: models[name])
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        settings = Settings(models=tuple(models), folders=tuple(folders), port=port, estimates=False)
        server = make_server(settings)
        thread = Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        started.append((server, thread))
        return f"http://127.0.0.1:{port}"

    yield start
    for server, thread in started:
        server.should_exit = True
        thread.join(10)
    patch.undo()
