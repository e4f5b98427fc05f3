"""A server without a network: the application with tiny models, and a client that asks it as a browser would."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest
from starlette.testclient import TestClient

from lamina.models import Encoder
from lamina.testing import TinyEncoder
from lamina.web import ServerSettings, create_app
from lamina.web.app import make_server
from lamina.web.state import AppState

PORT = 8600


@pytest.fixture
def client(tmp_path) -> Iterator[Callable[..., TestClient]]:
    """Makes a client of a server with these models and folders, and any other setting."""

    def make(models: dict[str, Encoder] | None = None, folders: list[Path] | None = None, **settings) -> TestClient:
        encoders = models or {"tiny": TinyEncoder()}
        own = tmp_path / "results"
        own.mkdir(exist_ok=True)
        asked = ServerSettings(models=tuple(encoders), folders=tuple(folders or [own]), port=PORT, **settings)
        app = create_app(asked, encoders.__getitem__)
        states.append(app.state.lamina)
        return TestClient(app, base_url=f"http://127.0.0.1:{PORT}")

    states: list[AppState] = []
    yield make
    for state in states:
        state.charts.close()


PETS = (
    ("Dogs", "NOUN", 2, "nsubj"),
    ("chase", "VERB", 0, "root"),
    ("{}", "NOUN", 2, "dobj"),
    (".", "PUNCT", 2, "punct"),
)


@pytest.fixture(scope="session")
def pets(tmp_path_factory) -> Path:
    """A small corpus with dependencies: eight sentences that differ in one word."""
    folder = tmp_path_factory.mktemp("corpus") / "pets"
    folder.mkdir()
    lines = []
    for number, pet in enumerate(("cats", "mice", "birds", "geese", "foxes", "hares", "toads", "crows")):
        lines.append(f"# sent_id = {number}")
        for at, (word, tag, head, relation) in enumerate(PETS, start=1):
            form = word.format(pet)
            lines.append("\t".join([str(at), form, form.lower(), tag, "_", "_", str(head), relation, "_", "_"]))
        lines.append("")
    (folder / "pets-dev.conllu").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def served() -> Iterator[Callable[..., str]]:
    """Starts a real server with these encoders, folders and settings, in a thread; gives its address.

    `stray` gives the encoders of models that lie in the folders and are not named.
    """
    started = []

    def start(
        models: dict[str, Encoder], folders: list[Path], stray: dict[str, Encoder] | None = None, **settings
    ) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        own = {"models": tuple(models), "folders": tuple(folders), "port": port, "estimates": False}
        server = make_server(ServerSettings(**own, **settings), {**models, **(stray or {})}.__getitem__)
        thread = Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        started.append((server, thread))
        return f"http://127.0.0.1:{port}"

    yield start
    for server, thread in started:
        server.should_exit = True
        thread.join(10)
