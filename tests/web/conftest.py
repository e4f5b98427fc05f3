"""A server without a network: the application with tiny models, and a client that asks it as a browser would."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from lamina.encoders import Encoder
from lamina.testing import TinyEncoder
from lamina.web import Settings, create_app

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
