"""A server to attack: `lamina serve` in a process of its own, and how to talk to it."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from faults.campaign import Campaign

SECRET = "a-secret-beside-the-results"
MARKUP = '"><img src=x onerror=alert(1)><script>alert(1)</script>'
PATIENCE = 180.0
"""Seconds for an answer: the machine may be busy, and a model is loaded for the first one."""
SOUND = {
    "format": 1,
    "analysis": "demo",
    "key": "k",
    "tables": {},
    "files": [],
    "provenance": {
        "model": {"name": MARKUP, "fingerprint": "f"},
        "corpus": {"name": MARKUP, "fingerprint": "g"},
        "parameters": {},
        "seeds": [],
        "created": "2026-01-01",
        "command": MARKUP,
    },
}
"""The head of a result that is listed, with markup where names are."""


class Answer(NamedTuple):
    """What came back; status 0 if the connection was closed without an answer."""

    status: int
    body: str
    headers: dict[str, str]

    def fault(self, *allowed: int) -> str:
        """What is wrong with it; empty if nothing is."""
        said = f"{self.status} {self.body[:200]}"
        if SECRET in self.body or "root:x:0" in self.body:
            return f"it gave a file away: {said}"
        if self.status >= 500 and self.status not in (501, 503):
            return f"an error of the server: {said}"
        return "" if not allowed or self.status in allowed else f"expected {allowed}: {said}"


class Server:
    """One `lamina serve` in a process of its own; in the short form a fork, with everything imported."""

    def __init__(self, campaign: Campaign, name: str, *options: str, **variables: str) -> None:
        self.results = campaign.folder / name / "deep" / "results"
        self.results.mkdir(parents=True)
        save(self.results / "sound", SOUND)
        self.model, self.log, self.requests = str(campaign.tiny_model()), campaign.folder / f"{name}.log", 0
        given = ["--model", self.model, "--corpus", str(campaign.tiny_corpus()), "--port", "0", *options]
        if not campaign.full:
            given.append("--no-estimates")
        read, write = os.pipe()
        start = _spawned if campaign.full else _forked
        self.process = start(["serve", str(self.results), *given], variables, write, self.log)
        os.close(write)
        with os.fdopen(read) as said:
            address = said.readline()
        self.port = int(re.findall(r":(\d+)/", address)[0])
        self.own = f"127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        """One request."""
        self.requests += 1
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        raw = body if isinstance(body, bytes | str | None) else json.dumps(body)
        if raw is not body:
            given.setdefault("content-type", "application/json")
        try:
            link.request(method, path, raw, given)
            answer = link.getresponse()
            return Answer(answer.status, answer.read().decode("utf-8", "replace"), dict(answer.getheaders()))
        except (ConnectionError, http.client.RemoteDisconnected):
            return Answer(0, "", {})
        finally:
            link.close()

    def raw(self, data: bytes) -> Answer:
        """Bytes sent as they are; the status is that of the last answer."""
        self.requests += 1
        parts = []
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as link:
            try:
                link.sendall(data.replace(b"OWN", self.own.encode()))
                link.shutdown(socket.SHUT_WR)
                while part := link.recv(65536):
                    parts.append(part)
            except OSError:
                pass  # it may close the connection before it has read everything
        said = b"".join(parts).decode("latin-1")
        statuses = re.findall(r"^HTTP/1\.1 (\d{3})", said, re.MULTILINE)
        return Answer(int(statuses[-1]) if statuses else 0, said, {})

    def half(self, data: bytes) -> socket.socket:
        """A request that does not go on."""
        self.requests += 1
        link = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        link.sendall(data.replace(b"OWN", self.own.encode()))
        return link

    def job(self, wanted: object, **headers: str) -> tuple[Answer, dict[str, Any]]:
        """Start a job; the answer, and what it says."""
        answer = self.ask("POST", "/api/jobs", wanted, **headers)
        return answer, json.loads(answer.body) if answer.status == 202 else {}

    def state(self, id: str, **headers: str) -> dict[str, Any]:
        """How a job is doing."""
        return json.loads(self.ask("GET", f"/api/jobs/{id}", **headers).body)

    def stop(self, how: signal.Signals, seconds: float = 30.0) -> float:
        """Seconds it took to end; more than `seconds` if it had to be killed."""
        start = time.monotonic()
        self.process.send_signal(how)
        try:
            self.process.wait(seconds)
        except psutil.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        return time.monotonic() - start

    def end(self) -> None:
        """However it is."""
        with suppress(psutil.NoSuchProcess):
            self.process.kill()
            self.process.wait()


def _spawned(arguments: list[str], variables: dict[str, str], out: int, log: Path) -> psutil.Process:
    command = [sys.executable, "-m", "lamina", *arguments]
    with log.open("wb") as errors:
        return psutil.Popen(command, stdout=out, stderr=errors, env=os.environ | variables)


def _forked(arguments: list[str], variables: dict[str, str], out: int, log: Path) -> psutil.Process:
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return psutil.Process(pid)
    try:
        os.dup2(out, 1)
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT), 2)
        os.environ |= variables
        sys.argv = ["lamina", *arguments]
        from lamina.__main__ import main

        main()
    finally:
        os._exit(1)


def save(folder: Path, head: object) -> None:
    """A result as a stranger would write it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "result.json").write_text(json.dumps(head))
