"""Reading public addresses: https only, bounded, one line when it fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib import request
from urllib.error import URLError
from urllib.parse import urlsplit

from lamina.assets.unpack import Allowance, copy
from lamina.errors import AssetError, OfflineError
from lamina.progress import progress

_PATIENCE = 60
"""Seconds to wait for an answer, or for the next bytes of one."""


def is_offline() -> bool:
    """Whether `LAMINA_OFFLINE` forbids fetching."""
    return os.environ.get("LAMINA_OFFLINE", "0") not in ("", "0")


def refuse_offline(place: str) -> None:
    """Raise `OfflineError` for a place to fetch from if `LAMINA_OFFLINE` forbids it."""
    if is_offline():
        raise OfflineError(f"{place} was not asked (LAMINA_OFFLINE is set)")


def refuse_insecure(address: str) -> None:
    """Raise an error for an address that is not https; this machine itself may serve plainly.

    Example:
        >>> refuse_insecure("http://example.org/corpus")
        Traceback (most recent call last):
        lamina.errors.AssetError: http://example.org/corpus is not an https address
    """
    parts = urlsplit(address)
    if parts.scheme != "https" and parts.hostname != "127.0.0.1":
        raise AssetError(f"{address} is not an https address")


def download(address: str, target: Path, allowance: Allowance, what: str) -> None:
    """Write what an address holds, `what` for people, into a new file."""
    with (
        opened(address) as response,
        progress(f"downloading {what}", total=response.length) as advance,
    ):
        copy(response, target, allowance, advance=advance)
        if response.length:
            raise HTTPException(f"download incomplete, {response.length:,} bytes missing")


@contextmanager
def opened(address: str) -> Iterator[HTTPResponse]:
    """The answer of an address, to be read within the block; `OfflineError` if it fails in there."""
    refuse_insecure(address)
    refuse_offline(address)
    try:
        with _opener().open(address, timeout=_PATIENCE) as response:
            refuse_insecure(response.url)
            yield response
    except (URLError, TimeoutError, ConnectionError, HTTPException) as error:
        raise OfflineError(f"{address} could not be read ({first_line(error)})") from error


def first_line(error: BaseException) -> str:
    """The first line of what an error says.

    Example:
        >>> first_line(ValueError("one\\ntwo"))
        'one'
    """
    return (str(error).splitlines() or [type(error).__name__])[0]


def _opener() -> request.OpenerDirector:
    # urllib's own opener would also read file:// and ftp:// addresses, for instance after a redirect.
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler,
        request.HTTPHandler,
        request.HTTPSHandler,
        request.HTTPDefaultErrorHandler,
        request.HTTPRedirectHandler,
        request.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    return opener
