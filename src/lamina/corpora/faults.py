"""Faults in annotated files: where, what, and what was expected instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from lamina.errors import FormatError


class Fault(NamedTuple):
    """One thing wrong with one line of a file."""

    path: Path
    line: int
    """Counted from 1; 0 speaks of the whole file."""
    what: str
    expected: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}; expected {self.expected}"


Report = Callable[[Fault], None]
"""What a reader does with a fault. Where it returns, the reader leaves the text out and reads on."""


def raise_fault(fault: Fault) -> None:
    """Stop at the first fault: what loading does."""
    raise FormatError(str(fault))
