"""The web app under load: a real server, and as many visitors at once as ask it in a lecture."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from statistics import median, quantiles

import httpx

from benchmarks.bars import Bar
from lamina import load_splits, probe
from lamina.corpora import load_corpus
from lamina.models import load_encoder

WORDS = 20
"""Of the sentence of one visitor."""
VISITORS, CROWD_WORDS, ROUNDS = 50, 10, 3
"""Visitors at once, words of their sentences, each another, and how often they come."""
_VIEW = (
    "/",
    "/static/shared/base.css",
    "/static/shared/page.js",
    "/static/views/sentence/view.js",
    "/static/views/sentence/view.css",
    "/api/about",
    "/api/jobs",
)
"""Pages and files that a first visit loads before it requests the sentence."""


def bars() -> Iterator[Bar]:
    """All bars, on this machine."""
    sentences, many = _sentences(WORDS, 20), _sentences(CROWD_WORDS, VISITORS)
    with tempfile.TemporaryDirectory() as folder:
        _train(Path(folder) / "probe")
        with _server(folder) as client:
            client.post("/api/lens", json=_asked(sentences[0])).raise_for_status()
            yield Bar("first view, model loaded", _first_view(client, sentences[1]), 2.0, at_least=False, unit=" s")
            alone = [_timed(client, sentence) for sentence in sentences]
            what = f"sentence view, {WORDS} words, minilm with probes of two tasks"
            yield Bar(what, 1000 * median(alone), 300, at_least=False, unit=" ms")
            times = [time for _ in range(ROUNDS) for time in _crowd(client, many)]
            lost = VISITORS * ROUNDS - len(times)
            load = f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"
            busy = f"(95 % within {quantiles(times, n=20)[-1]:.2f} s; {load})"
            what = f"sentence view, {VISITORS} visitors at once, {CROWD_WORDS} words each, median"
            yield Bar(what, median(times), 3.0, at_least=False, unit=" s", note=busy)
            yield Bar(f"sentences lost of {VISITORS * ROUNDS}, {VISITORS} at once", lost, 0, at_least=False, unit="")


def _sentences(words: int, count: int) -> list[str]:
    fitting = (" ".join(text.words) for text in load_corpus("ewt", "dev") if len(text.words) == words)
    return list(islice(dict.fromkeys(fitting), count))


def _train(folder: Path) -> None:
    """Train probes for the lens; their quality does not matter here."""
    splits = load_splits("ewt", limit=300)
    probe(load_encoder("minilm", device="cpu"), splits, tasks=["pos", "dep"], twin=False).save(folder, charts=False)


@contextmanager
def _server(folder: str) -> Iterator[httpx.Client]:
    command = [sys.executable, "-m", "lamina", "serve", folder, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = re.match(r"http\S+", process.stdout.readline() if process.stdout else "")
            if address is None:
                raise RuntimeError("the server did not start")
            with httpx.Client(base_url=address[0], timeout=120) as client:
                yield client
        finally:
            process.terminate()


def _asked(sentence: str) -> dict[str, str]:
    return {"model": "minilm", "sentence": sentence}


def _first_view(client: httpx.Client, sentence: str) -> float:
    start = time.perf_counter()
    for path in _VIEW:
        client.get(path).raise_for_status()
    client.post("/api/lens", json=_asked(sentence)).raise_for_status()
    return time.perf_counter() - start


def _timed(client: httpx.Client, sentence: str) -> float:
    start = time.perf_counter()
    client.post("/api/lens", json=_asked(sentence)).raise_for_status()
    return time.perf_counter() - start


def _crowd(client: httpx.Client, sentences: list[str]) -> list[float]:
    """The times of the requests that were answered."""

    def visit(sentence: str) -> float | None:
        start = time.perf_counter()
        answer = client.post("/api/lens", json=_asked(sentence))
        return time.perf_counter() - start if answer.status_code == 200 else None

    with ThreadPoolExecutor(VISITORS) as visitors:
        return [time for time in visitors.map(visit, sentences) if time is not None]
