"""What a server was started with: what it may touch, and how much of everything it takes."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

EXAMPLE = "The old man the boats while the keys to the cabinet are on the table ."
"""What the first visit shows: words that change their part of speech while they are read."""


@dataclass(frozen=True)
class Limits:
    """How much one request, and all of them together, may take."""

    characters: int = 20_000
    """Of all texts in one request; more is answered with 413."""
    body: int = 256 * 1024
    """Bytes of a request; more is answered with 413."""
    waiting: int = 64
    """Requests that compute or wait for it at one time; one more is answered with 429."""
    jobs: int = 8
    """Background jobs running or queued; one more is answered with 429."""
    loaded: int = 3
    """Models held in memory; the one used least lately is let go."""
    job_memory: int = 8 * 1024**3
    """Bytes a background job may hold; it is ended, with a message, where it takes more."""


@dataclass(frozen=True)
class Settings:
    """What the person who started the server allowed."""

    models: tuple[str, ...] = ("minilm",)
    """Names and paths that requests may name; fine-tuned models in the result folders are allowed too."""
    folders: tuple[Path, ...] = ()
    """Result folders: nothing outside them is read. Jobs write into the first."""
    corpora: tuple[str, ...] = ("ewt",)
    """What background jobs may read; the first is where neighbours are looked for."""
    host: str = "127.0.0.1"
    port: int = 8600
    token: str | None = None
    """What every request has to show; None asks for none."""
    device: str | None = None
    sentence: str = EXAMPLE
    limits: Limits = field(default_factory=Limits)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server at this address.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
        (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
