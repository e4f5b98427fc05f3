"""Test suites by name or path: minimal pairs, or sentences in regions with predictions about their surprisals."""

from __future__ import annotations

from pathlib import Path

from lamina.corpora.suites.files import suite_root
from lamina.corpora.suites.minimal_pairs import MinimalPairs, read_pairs
from lamina.corpora.suites.syntaxgym import RegionSuites, looks_like_regions, read_region_suites
from lamina.errors import InputError


def read_suite(
    name_or_path: str | Path, *, skip_equal: bool = False, columns: str | None = None
) -> MinimalPairs | RegionSuites:
    """The suite of a name, a file or a folder, in whichever of the two formats it is.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "own.csv"
        >>> _ = path.write_text("good,bad\\nDogs bark.,Dogs barks.\\n")
        >>> type(read_suite(path)).__name__, len(read_suite(path))
        ('MinimalPairs', 1)
    """
    if looks_like_regions(suite_root(name_or_path)):
        if columns is not None:
            raise InputError(f"{name_or_path} has regions in place of columns; leave --columns out")
        return read_region_suites(name_or_path)
    return read_pairs(name_or_path, skip_equal=skip_equal, columns=columns)
