"""The words around one analysis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Section(NamedTuple):
    """The words around one analysis."""

    title: str
    question: str
    method: str
    """Two sentences."""
    captions: Mapping[str, str]
    """Chart -> how to read it."""
