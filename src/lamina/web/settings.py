"""What a server was started with: models, folders, corpora and limits."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lamina.errors import InputError

if TYPE_CHECKING:
    from lamina.framework.inputs import Precision

EXAMPLE = "The old man the boats while the keys to the cabinet are on the table ."
"""The example sentence: words whose part of speech is ambiguous at first."""
EXAMPLES = (
    (EXAMPLE, "“man” is a verb here, and “to” could be a particle or a preposition"),
    ("She wanted to walk to the store .", "the same word twice: a particle, then a preposition"),
    ("Time flies like an arrow , but fruit flies like a banana .", "“flies” and “like” change their part of speech"),
    ("The lawyer who the judges saw left the court early .", "subject and verb stand far apart"),
    ("The bank by the river had no cash , so they sat on its bank .", "one word, two senses"),
)
"""Sentences worth trying, and why."""


@dataclass(frozen=True)
class Limits:
    """Limits per request and in total."""

    characters: int = 20_000
    """In all texts of one request; more is refused with 413."""
    body: int = 256 * 1024
    """Bytes of a request; more is refused with 413."""
    waiting: int = 64
    """Requests that compute or wait at the same time; more are refused with 429."""
    jobs: int = 8
    """Background jobs running or queued; more are refused with 429."""
    loaded: int = 3
    """Models kept in memory, each in a process of its own; the least recently used one is dropped."""
    answer_seconds: float = 60.0
    """That a model may take for one answer, and a request may wait for its turn; then the process is ended (504)."""
    loading_seconds: float = 300.0
    """That a model may take to be loaded, downloads included; then its process is ended."""
    model_memory: int = 16 * 1024**3
    """Bytes of memory per model's process; one that uses more is ended, with a message."""
    job_memory: int = 8 * 1024**3
    """Bytes of memory per background job; a job that uses more is stopped, with a message."""
    header_seconds: float = 10.0
    """From the start of a connection or the last answer until a request's header is there; then it is closed."""
    body_seconds: float = 10.0
    """Until the rest of a request is there; then it is answered with 408 and closed."""
    stopping_seconds: int = 2
    """That running requests have to finish when the server is stopped; after twice as long it ends in any way."""
    connections: int = 500
    """Open at the same time; more are closed at once."""


@dataclass(frozen=True)
class ServerSettings:
    """What the server was started with."""

    models: tuple[str, ...] = ("minilm",)
    """Names and paths of available models; fine-tuned models in the result folders are available too."""
    folders: tuple[Path, ...] = ()
    """Result folders: nothing outside them is read. Jobs write into the first."""
    corpora: tuple[str, ...] = ("ewt",)
    """What background jobs may read; neighbours of words come from the first."""
    host: str = "127.0.0.1"
    port: int = 8600
    token: str | None = field(default=None, repr=False)
    """The token that every request needs; None for none, which only an address of this machine can have."""
    device: str | None = None
    dtype: Precision = "float32"
    """What models compute in, unless a job's request says otherwise."""
    chat: bool = False
    """Whether texts are put into the chat template, unless a job's request says otherwise."""
    sentence: str = EXAMPLE
    estimates: bool = True
    """Whether trials are run to say what a computation would take."""
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.token is None and not is_loopback(self.host):
            raise InputError(f"a server on {self.host} can be reached by other machines and needs a token")


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
