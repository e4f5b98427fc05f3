"""Test suites by name or path: minimal pairs, or sentences in regions with predictions about their surprisals."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lamina.corpora.suites.cloze import read_cloze
from lamina.corpora.suites.files import is_named, suite_root
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


_READ_AT_ONCE = 2_000_000
"""Bytes of a suite that is read before anything else is done."""


def refuse_faulty_suite(name: str, how: Mapping[str, Any]) -> None:
    """Raise the error of a user's small suite that cannot be read: pairs, read as `how` says, or cloze items.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "own.tsv"
        >>> _ = path.write_text("right\\twrong\\nDogs bark.\\tDogs barks.\\n")
        >>> refuse_faulty_suite(str(path), {"columns": None})
        Traceback (most recent call last):
        lamina.errors.FormatError: ...own.tsv:1: no column 'good' (the columns are: right, wrong); expected columns ...
        >>> refuse_faulty_suite(str(path), {"columns": "good=right,bad=wrong"})
    """
    path = Path(name).expanduser()
    if is_named(name) or not path.exists():
        return
    files = path.rglob("*") if path.is_dir() else [suite_root(name)]
    if sum(file.stat().st_size for file in files if file.is_file()) > _READ_AT_ONCE:
        return
    if "columns" in how:
        read_suite(name, **how)
    else:
        read_cloze(name)
