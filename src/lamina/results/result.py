"""The result of an analysis: tables with their provenance, saved as a folder anyone can read."""

from __future__ import annotations

import csv
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from dataclasses import replace as replace_fields
from datetime import UTC, datetime
from functools import cache
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.errors import InputError, ResultError, WriteError
from lamina.files.checking import changed_files, json_text, list_files
from lamina.files.writing import fresh_folder, is_being_replaced
from lamina.results.finding import Finding, read_finding, saved_finding
from lamina.results.folder import (
    FORMAT,
    HEAD,
    WITH_CONTRASTS,
    answer_key,
    how_to_remake,
    put_back,
    question_key,
    read_head,
    read_table,
    refuse_names,
    refuse_other,
    state_of,
    table_file,
    write_table,
)

if TYPE_CHECKING:
    import altair
    import pandas


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
    revision: str | None = field(default_factory=lambda: source_revision())
    """Git revision of lamina's source, if it is a checkout."""
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    """Date and time, in UTC."""
    warnings: tuple[str, ...] = ()
    """What to keep in mind when reading the numbers: a sample that is too small."""
    cost: Mapping[str, float] = field(default_factory=dict)
    """What the run was foreseen to take and what it took, in CPU seconds, and its wall time."""


def read_provenance(about: Any) -> Provenance:
    """A provenance from `result.json`; a ValueError says which part does not fit."""
    for part in ("model", "corpus", "parameters", "skipped", "versions", "cost"):
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
    return dict(_installed())


@cache
def _installed() -> Mapping[str, str]:
    # Packages of a process do not change while it runs, and reading their metadata takes longer than most findings.
    return {"python": platform.python_version()} | {name: version(name) for name in _VERSIONED}


@cache
def source_revision() -> str | None:
    """The commit of lamina's source, if it is a checkout; with `-dirty` where files were changed."""
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


_PATIENCE = 5.0
"""Seconds to read a result again that others keep replacing."""


@dataclass(frozen=True)
class Result:
    """Long-form tables that answer one question, with their provenance.

    Example:
        >>> import pandas as pd, tempfile
        >>> provenance = Provenance({"name": "m", "fingerprint": "f"}, {"name": "c", "fingerprint": "g"}, {})
        >>> result = Result("demo", {"scores": pd.DataFrame({"layer": [0, 1], "value": [0.5, 0.25]})}, provenance)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Result.load(result.save(folder, charts=False)).tables["scores"]["value"].tolist()
        [0.5, 0.25]
    """

    analysis: str
    """The question: the name of the function in `lamina.analyses`."""
    tables: Mapping[str, pandas.DataFrame]
    """Table name -> long-form table; the columns are a contract."""
    provenance: Provenance
    """Where the result came from."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """Name -> a file of the result (large tables as Parquet, trained probes); copied when saved. A name may have one
    folder (`seed-0/config.json`)."""
    findings: tuple[Finding, ...] = ()
    """The findings, clear ones first."""
    version: int = 0
    """Version of the analysis: raised when the same inputs would give different numbers."""
    recorded_question: str = ""
    """The question's key, if the runner computed it."""
    parquet: tuple[str, ...] = ()
    """The tables that are saved as Parquet instead of CSV: those with one row per item."""
    undrawn: Mapping[str, str] = field(default_factory=dict)
    """Chart (or `charts`, for all) -> why it could not be drawn when the result was saved."""

    @property
    def question(self) -> str:
        """Equal for results of the same question on the same inputs, in any version."""
        p = self.provenance
        return self.recorded_question or question_key(
            self.analysis, p.model.get("fingerprint", ""), p.corpus.get("fingerprint", ""), p.parameters
        )

    @property
    def key(self) -> str:
        """Equal if a result can be reused: same question, same version of the analysis."""
        return answer_key(self.question, self.version)

    def charts(self) -> dict[str, altair.TopLevelMixin]:
        """All charts of this result, by name."""
        # The only allowed upward import: drawing is a layer above, but people look for it on the result.
        from lamina.figures import draw

        return draw(self)

    def chart(self, name: str | None = None) -> altair.TopLevelMixin:
        """One chart: the first, or the one with this name."""
        charts = self.charts()
        if not charts:
            raise ResultError(f"a {self.analysis!r} result has no charts")
        if name is None:
            return next(iter(charts.values()))
        if name not in charts:
            raise ResultError(f"a {self.analysis!r} result has no chart {name!r}; it has: {', '.join(charts)}")
        return charts[name]

    def save(self, folder: str | os.PathLike[str], *, charts: bool = True, replace: bool = False) -> Path:
        """Write `result.json`, one CSV (or Parquet) per table and (`charts`) each chart as `.vl.json` and `.svg`.

        The folder is replaced as a whole: at any moment, after any failure and after a kill, the old or the new result
        is there. A folder with a different result is refused unless `replace` is set. Tables are saved before charts
        are drawn: a chart that fails is named in `undrawn`, and `lamina results draw FOLDER` tries again.
        """
        target = Path(folder)
        put_back(target)
        refuse_other(target, self.question, replace=replace)
        # A link stays a link: what it points to is replaced.
        real = Path(os.path.realpath(target))
        try:
            with fresh_folder(real) as fresh:
                head = self._write_into(fresh, {"charts": _NOT_SAVED} if charts else {})
        except WriteError as error:
            raise ResultError(f"the result was not saved: {error}") from error
        except OSError as error:
            raise ResultError(
                f"cannot save the result to {target}: {error.filename}: {error.strerror}; run the same command again"
            ) from error
        if charts:
            drawn, undrawn = _drawn(self)
            # The tables are saved: what happens to charts, such as a full disk, is a line of the result.
            with suppress(WriteError, ResultError, OSError):
                _put_charts(real, head, drawn, undrawn)
        return target

    def _write_into(self, folder: Path, undrawn: Mapping[str, str]) -> dict[str, Any]:
        """Write tables, files and the head, which is returned."""
        refuse_names(self.tables, Path(self.analysis))
        refuse_names(self.files, Path(self.analysis), nested=True)
        storage = {"parquet": [name for name in self.tables if name in self.parquet]}
        columns = {name: write_table(table, folder / table_file(name, storage)) for name, table in self.tables.items()}
        for name, path in self.files.items():
            if not path.is_file():
                raise ResultError(f"{path}, a file of the result, is gone; run the same command again")
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(path, folder / name)
        head = {
            "format": FORMAT,
            "analysis": self.analysis,
            "version": self.version,
            "question": self.question,
            "key": self.key,
            "findings": [saved_finding(finding) for finding in self.findings],
            "tables": columns,
            **storage,
            "files": [*self.files],
            "undrawn": dict(undrawn),
            "provenance": asdict(self.provenance),
            "hashes": list_files(folder),
        }
        # NaN is not JSON: browsers and other programs read this file too.
        plain: dict[str, Any] = json.loads(json.dumps(without_nan(head), default=str))
        (folder / HEAD).write_text(json_text(plain), encoding="utf-8")
        return plain

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Result:
        """Read back what `save` wrote; every table and file is compared with its hash."""
        folder = Path(folder)
        put_back(folder)
        until = time.monotonic() + _PATIENCE
        while True:
            before = state_of(folder)
            try:
                head = read_head(folder)
                result = cls._read(folder, head)
            except ResultError:
                unchanged = state_of(folder) == before and not is_being_replaced(folder)
                if unchanged or time.monotonic() > until:
                    raise
                continue  # replaced while it was read
            # Hashes prove that the head and the tables belong together; older results have none.
            if "hashes" in head or state_of(folder) == before or time.monotonic() > until:
                return result

    @classmethod
    def _read(cls, folder: Path, head: Mapping[str, Any]) -> Result:
        try:
            tables = {name: read_table(folder, name, head) for name in head["tables"]}
            files = {name: folder / name for name in head["files"]}
            listed = head.get("hashes", {})
            changed = changed_files(folder, {name: listed[name] for name in files if name in listed})
            if changed:
                raise ValueError(f"{changed[0].name} is missing or damaged")
            provenance = read_provenance(head["provenance"])
            if not isinstance(head["analysis"], str):
                raise ValueError("the analysis is not as lamina writes it")
            findings = tuple(map(read_finding, head.get("findings", ())))
            if head["format"] < WITH_CONTRASTS and findings:
                # Their sentences do not state the contrasts that were tested.
                findings = ()
                left_out = f"Findings of an older lamina are left out; {how_to_remake(head)}."
                provenance = replace_fields(provenance, warnings=(*provenance.warnings, left_out))
            about = {
                "findings": findings,
                "version": head.get("version", 0),
                "recorded_question": head.get("question", ""),
            }
            about["parquet"] = tuple(head.get("parquet", ()))
            about["undrawn"] = {str(name): str(why) for name, why in head.get("undrawn", {}).items()}
            return cls(head["analysis"], tables, provenance, files, **about)
        except (
            OSError,
            InputError,
            LookupError,
            TypeError,
            ValueError,
            AttributeError,
            OverflowError,
            csv.Error,
        ) as error:
            raise ResultError(f"{folder} does not match its {HEAD} ({error}); {how_to_remake(head)}") from error

    def _repr_html_(self) -> str:
        """What a notebook shows: findings and the first chart; the other charts and the tables are folded."""
        from lamina.figures import to_svg

        title = f"{self.analysis}: {self.provenance.model['name']} on {self.provenance.corpus['name']}"
        findings = "".join(
            f"<li><b>{escape(finding.status)}</b> {escape(finding.text)}</li>" for finding in self.findings
        )
        parts = [f"<h3>{escape(title)}</h3><ul>{findings}</ul>"]
        for number, (name, chart) in enumerate(self.charts().items()):
            parts.append(to_svg(chart) if not number else _folded(f"chart {name}", to_svg(chart)))
        for name, table in self.tables.items():
            parts.append(_folded(f"table {name}, {len(table):,} rows", table.head(10).to_html(index=False)))
        return "\n".join(parts)


def _folded(summary: str, content: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


_NOT_SAVED = "the run ended, or the disk was full, before they were saved"
_CHARTS = (".vl.json", ".svg")
"""How the names of a chart's files end."""


def draw_again(folder: Path) -> dict[str, str]:
    """Draw the charts of a saved result; tables, files, findings and provenance keep their bytes.

    Returns the charts that could not be drawn, with the reason; a chart that was drawn before is kept then.
    """
    result = Result.load(folder)
    drawn, undrawn = _drawn(result)
    try:
        _put_charts(Path(os.path.realpath(folder)), read_head(folder), drawn, undrawn)
    except (WriteError, OSError) as error:
        raise ResultError(f"the charts were not saved: {error}") from error
    return undrawn


def _put_charts(folder: Path, head: Mapping[str, Any], drawn: Mapping[str, str], undrawn: Mapping[str, str]) -> None:
    """Put charts (file name -> content) into a saved result, unless another process has replaced it since."""
    before, now = state_of(folder), read_head(folder)
    names = [table_file(name, head) for name in head["tables"]] + head["files"]
    hashes = now.get("hashes", {})
    if any(hashes.get(name) != head.get("hashes", {}).get(name) for name in names):
        raise ResultError(f"{folder} was replaced meanwhile; `lamina results draw {folder}` draws its charts")
    failed = [name + suffix for name in undrawn for suffix in _CHARTS]
    names += [
        path.name
        for path in folder.iterdir()
        if path.name.endswith(_CHARTS) and ("charts" in undrawn or path.name in failed) and path.name not in names
    ]
    with fresh_folder(folder) as fresh:
        for name in names:
            (fresh / name).parent.mkdir(exist_ok=True)
            try:
                # No second copy of large weights, where the file system has links.
                os.link(folder / name, fresh / name)
            except OSError:
                shutil.copyfile(folder / name, fresh / name)
        for name, content in drawn.items():
            (fresh / name).write_text(content, encoding="utf-8")
        same = {name: hashes[name] for name in names if name in hashes}
        head = {**now, "undrawn": dict(undrawn), "hashes": list_files(fresh, same)}
        (fresh / HEAD).write_text(json_text(head), encoding="utf-8")
        if state_of(folder) != before:
            raise ResultError(f"{folder} was replaced meanwhile; `lamina results draw {folder}` draws its charts")


def _drawn(result: Result) -> tuple[dict[str, str], dict[str, str]]:
    """The files of all charts that can be drawn, and why the others cannot."""
    from lamina.figures import spec_of, to_svg

    drawn: dict[str, str] = {}
    undrawn: dict[str, str] = {}
    try:
        charts = result.charts()
    except Exception as error:  # a chart must not cost the tables, whatever is wrong with it
        return {}, {"charts": f"{type(error).__name__}: {error}"}
    for name, chart in charts.items():
        try:
            spec = spec_of(chart)
            files = {f"{name}.vl.json": json.dumps(spec, indent=2) + "\n", f"{name}.svg": to_svg(spec)}
        except Exception as error:  # as above
            undrawn[name] = f"{type(error).__name__}: {error}"
        else:
            drawn |= files
    return drawn, undrawn


def check_result(folder: Path) -> list[str]:
    """Everything that is wrong with a saved result, each in one sentence; every file is read and hashed now."""
    try:
        head = read_head(folder)
    except ResultError as error:
        return [str(error)]
    changed = changed_files(folder, head.get("hashes", {}), now=True)
    problems = [f"{path} is missing or damaged; {how_to_remake(head)}" for path in changed]
    if not problems:
        try:
            Result.load(folder)
        except ResultError as error:
            problems.append(str(error))
    return problems


def without_nan(value: Any) -> Any:
    """The same value; NaN and infinity become None.

    Example:
        >>> without_nan({"low": float("nan"), "rows": [1.0, float("inf")]})
        {'low': None, 'rows': [1.0, None]}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: without_nan(item) for key, item in value.items()}
    return [without_nan(item) for item in value] if isinstance(value, list | tuple) else value
