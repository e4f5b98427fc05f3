"""A cache of its own for every test, wheels made by hand, and a web server on the loopback."""

from __future__ import annotations

import threading
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache; LAMINA_DATA, LAMINA_ORIGINS and LAMINA_OFFLINE are not set."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("LAMINA_CACHE", str(folder))
    monkeypatch.delenv("LAMINA_DATA", raising=False)
    monkeypatch.delenv("LAMINA_ORIGINS", raising=False)
    monkeypatch.delenv("LAMINA_OFFLINE", raising=False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    return folder


@pytest.fixture
def make_wheel(tmp_path: Path) -> Callable[[str, dict[str, bytes]], Path]:
    """A wheel that pip accepts, of a distribution's name (version 1.0) and its members."""

    def make(name: str, members: dict[str, bytes]) -> Path:
        folder = tmp_path / "wheels"
        folder.mkdir(exist_ok=True)
        path = folder / f"{name}-1.0-py3-none-any.whl"
        info = f"{name}-1.0.dist-info"
        # Like decomp's wheel, it declares a Python that nobody has.
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Python: >=9\n"
        with zipfile.ZipFile(path, "w") as wheel:
            for member, content in members.items():
                wheel.writestr(member, content)
            wheel.writestr(f"{info}/METADATA", metadata)
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
        return path

    return make


class Web(ThreadingHTTPServer):
    """Serves `files`; stops half-way through `stall`, sets `halfway`, and goes on at `go_on`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.asked: Counter[str] = Counter()
        self.stall: str | None = None
        self.cut: str | None = None
        self.halfway = threading.Event()
        self.go_on = threading.Event()

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Web

    def do_GET(self) -> None:  # the name http.server calls
        name = self.path.removeprefix("/")
        self.server.asked[name] += 1
        if name not in self.server.files:
            self.send_error(404)
            return
        body = self.server.files[name]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2])
        if name == self.server.cut:
            return
        if name == self.server.stall:
            self.server.halfway.set()
            self.server.go_on.wait(30)
        self.wfile.write(body[len(body) // 2 :])

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def handle(self) -> None:
        # The client that a test kills goes away in the middle.
        try:
            super().handle()
        except ConnectionError:
            return


@pytest.fixture
def web() -> Iterator[Web]:
    server = Web()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.go_on.set()
    server.shutdown()
    server.server_close()
    thread.join()
