"""Reading files that come from outside: regular files only, JSON of bounded depth."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from io import BufferedReader
from itertools import accumulate
from pathlib import Path
from typing import IO, Any

from lamina.errors import InputError

DEEPEST = 100
"""Levels of nested lists and objects in JSON; the formats lamina reads have fewer than ten."""
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
}


def check_regular(path: Path) -> None:
    """Refuse a pipe, a device, a socket or a folder, whose reading may never end; a link to a regular file is fine.

    Example:
        >>> check_regular(Path("/"))
        Traceback (most recent call last):
        lamina.errors.InputError: / is a folder, not a regular file; give the path of a file
    """
    _refuse(path, path.stat().st_mode)


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading; anything else is refused at once."""
    # First by name: opening a device may already do something.
    check_regular(path)
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        _refuse(path, os.fstat(descriptor).st_mode)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


LARGEST_JSON = 64 * 1024**2
"""Most bytes of a JSON file that is read as a whole; those that lamina writes and reads have a few thousand."""


def read_regular(path: Path, most: int | None = None) -> bytes:
    """The content of a regular file; an InputError if it has more than `most` bytes.

    Example:
        >>> read_regular(Path(__file__), most=10)
        Traceback (most recent call last):
        lamina.errors.InputError: ...reading.py has ... bytes; at most 10 are read here
    """
    with open_regular(path) as file:
        if most is None:
            return file.read()
        content = file.read(most + 1)
        if len(content) > most:
            size = os.fstat(file.fileno()).st_size
            raise InputError(f"{path} has {size:,} bytes; at most {most:,} are read here")
        return content


def _refuse(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        todo = "give the path of a file" if stat.S_ISDIR(mode) else "copy its content to a file and give that"
        raise InputError(f"{path} is {kind}, not a regular file; {todo}")


def parse_json(text: str) -> Any:
    """The value of a JSON text. A ValueError says why it cannot be used; of text that is not JSON, a JSONDecodeError.

    Refused, since whatever handles the value later would fail: nesting deeper than `DEEPEST`, numbers of more digits
    than Python converts, and unpaired surrogates.

    Example:
        >>> parse_json('{"a": [1, 2]}')
        {'a': [1, 2]}
        >>> parse_json("[" * 1000 + "]" * 1000)
        Traceback (most recent call last):
        ValueError: JSON nested deeper than 100 levels
    """
    check_depth(text)
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:
        raise ValueError(f"a number with more than {sys.get_int_max_str_digits():,} digits") from None
    if half := _half_character(text):
        raise ValueError(f"JSON with an unpaired surrogate ({half})")
    return value


def check_depth(text: str) -> None:
    """Refuse JSON that is nested deeper than `DEEPEST`, on which recursive functions would fail."""
    if text.count("[") + text.count("{") > DEEPEST:
        _JsonDepth().take(text.encode("utf-8", "surrogatepass"))


class BoundedJson:
    """A JSON file read piece by piece; reading raises ValueError where it is nested deeper than `DEEPEST`."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._depth = _JsonDepth()

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        piece = self._file.read(size)
        self._depth.take(piece)
        return piece


_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKET = bytes(set(range(256)) - _STEP.keys())


class _JsonDepth:
    """How deeply lists and objects are nested, brackets within strings left out."""

    def __init__(self) -> None:
        self._now = 0
        self._in_string = False
        self._escaping = b""
        """The backslash at the end of the last piece, if it escapes what follows."""

    def take(self, piece: bytes) -> None:
        """Follow the next bytes; a ValueError says that they are nested too deeply."""
        piece = self._escaping + piece
        self._escaping = b"\\" * ((len(piece) - len(piece.rstrip(b"\\"))) % 2)
        piece = piece.removesuffix(self._escaping).replace(rb"\\", b"").replace(rb"\"", b"")
        parts = piece.split(b'"')
        brackets = b"".join(parts[self._in_string :: 2]).translate(None, _NO_BRACKET)
        self._in_string ^= len(parts) % 2 == 0
        levels = list(accumulate(map(_STEP.__getitem__, brackets), initial=self._now))
        self._now = levels[-1]
        if max(levels) > DEEPEST:
            raise ValueError(f"JSON nested deeper than {DEEPEST} levels")


_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)


def _half_character(text: str) -> str | None:
    r"""The first escape such as `\ud800` without its other half."""
    if r"\ud" not in text and r"\uD" not in text:
        return None
    return next((f"\\{escape['half']}" for escape in _ESCAPE.finditer(text) if escape["half"]), None)
