"""Which analyses there are: lamina's, listed in `lamina.analyses`, and those of other packages.

Other packages add analyses by an entry point in the group `lamina.analyses`, whose value is `module:name` of a declared
function. A module is imported when its analysis is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from lamina.errors import InputError
from lamina.results.folder import RENAMED

if TYPE_CHECKING:
    from lamina.framework.declare import Analysis

GROUP = "lamina.analyses"
"""The group of entry points by which other packages add analyses."""


@cache
def homes() -> dict[str, str]:
    """Name -> `module:name`, in the order of the report; another package cannot replace one of lamina's.

    Example:
        >>> homes()["geometry"].partition(":")[2]
        'geometry'
    """
    # Imported by name: the analyses stand above this folder, and only their list is read.
    listed = _by_name(import_module("lamina.analyses").ANALYSES)
    added = _by_name(point.value for point in sorted(entry_points(group=GROUP)))
    return listed | {name: home for name, home in added.items() if name not in listed}


def names() -> tuple[str, ...]:
    """The names of all analyses, lamina's first.

    Example:
        >>> names()[:2]
        ('geometry', 'dimensions')
    """
    return tuple(homes())


def get_analysis(name: str) -> Analysis:
    """The analysis of this name; hyphens stand for underscores.

    Example:
        >>> get_analysis("geometry").title
        'Geometry of the layers'
    """
    known = homes()
    name = str(name).replace("-", "_")
    if name not in known:
        close = [RENAMED[name]] if name in RENAMED else get_close_matches(name, known, n=1)
        meant = f"did you mean {close[0]}? " if close else ""
        raise InputError(f"there is no analysis {name!r}; {meant}known: {', '.join(known)}")
    module, _, function = known[name].partition(":")
    try:
        return getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        if module.startswith("lamina."):
            raise
        raise InputError(f"the analysis {name!r} of {module} cannot be loaded: {error}") from error


def all_analyses() -> tuple[Analysis, ...]:
    """Every analysis, in the order of the report."""
    return tuple(map(get_analysis, names()))


def _by_name(listed: Iterable[str]) -> dict[str, str]:
    return {home.partition(":")[2]: home for home in listed}
