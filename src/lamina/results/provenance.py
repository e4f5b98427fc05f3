"""Where a result came from: inputs, settings, seeds, versions, command."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

COMMAND: ContextVar[str] = ContextVar("COMMAND", default="")
"""The command recorded in provenance if the process's arguments do not show it, as for a request on stdin."""

_VERSIONED = ("lamina", "torch", "transformers", "numpy", "pandas")


@dataclass(frozen=True)
class Provenance:
    """Where a result came from: enough to judge and to reproduce it."""

    model: Mapping[str, Any]
    """Name and fingerprint of the encoder."""
    corpus: Mapping[str, Any]
    """Name, split, unit, label scheme, fingerprint and files of the corpus."""
    parameters: Mapping[str, Any]
    """Every setting of the analysis."""
    seeds: tuple[int, ...] = ()
    """The random seeds used."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Reason for leaving something out -> count."""
    command: str = field(default_factory=lambda: _command_line())
    """The command line or program that made the result."""
    versions: Mapping[str, str] = field(default_factory=lambda: _versions())
    """Versions of Python and of the packages that the numbers depend on."""
    revision: str | None = field(default_factory=lambda: _git_revision())
    """Git revision of lamina's source, if it is a checkout."""
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    """Date and time, in UTC."""
    warnings: tuple[str, ...] = ()
    """What to keep in mind when reading the numbers: a sample that is too small."""


def read_provenance(about: Any) -> Provenance:
    """A provenance from `result.json`; a ValueError says which part does not fit."""
    for part in ("model", "corpus", "parameters", "skipped", "versions"):
        if not isinstance(about.get(part, {}), dict):
            raise ValueError(f"provenance.{part} is not a table")
    warnings = about.get("warnings", [])
    if not isinstance(warnings, list) or not all(isinstance(warning, str) for warning in warnings):
        raise ValueError("provenance.warnings is not a list of sentences")
    return Provenance(**about | {"seeds": tuple(about["seeds"]), "warnings": tuple(warnings)})


def _command_line() -> str:
    program = Path(sys.argv[0])
    # As it is typed, not as `python -m lamina` names it.
    name = "lamina" if program.parts[-2:] == ("lamina", "__main__.py") else program.name or "python"
    return COMMAND.get() or " ".join([name, *sys.argv[1:]])


def _versions() -> dict[str, str]:
    return {"python": platform.python_version()} | {name: version(name) for name in _VERSIONED}


def _git_revision() -> str | None:
    if shutil.which("git") is None:
        return None
    here = Path(__file__).parent
    tracked = subprocess.run(
        ["git", "ls-files", "--error-unmatch", __file__], cwd=here, capture_output=True, check=False
    )
    if tracked.returncode != 0:
        return None
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=40"], cwd=here, capture_output=True, text=True, check=False
    )
    return described.stdout.strip() or None
