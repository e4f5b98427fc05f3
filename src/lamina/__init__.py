"""lamina: what every layer and every head of a transformer knows.

Names resolve when they are first used, so that `import lamina` costs next to nothing.

Example:
    >>> import lamina
    >>> lamina.Span(0, 2)
    Span(start=0, end=2)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lamina.errors import LaminaError
    from lamina.results import Provenance, Result
    from lamina.types import Edge, Span, Text

_HOME = {
    "Edge": "lamina.types",
    "LaminaError": "lamina.errors",
    "Provenance": "lamina.results",
    "Result": "lamina.results",
    "Span": "lamina.types",
    "Text": "lamina.types",
}

__all__ = ["Edge", "LaminaError", "Provenance", "Result", "Span", "Text"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'lamina' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
