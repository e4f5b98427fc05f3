"""The result of an analysis: tables with their provenance, saved as a folder anyone can read."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from lamina.errors import ResultError

if TYPE_CHECKING:
    import altair
    import pandas

FORMAT = 2
"""Format of result folders; raised when an older lamina could not read a newer folder."""
_READABLE = (1, FORMAT)
"""Format 1 had neither findings nor versions."""

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


def question_key(analysis: str, model: str, data: str, parameters: Mapping[str, Any]) -> str:
    """A hash of the question: the analysis, its inputs and its settings, but not its version.

    Example:
        >>> one, same = ({"b": 1, "a": 2}, {"a": 2, "b": 1})
        >>> question_key("geometry", "m", "c", one) == question_key("geometry", "m", "c", same)
        True
    """
    asked = [analysis, model, data, dict(parameters)]
    return hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()


Status = Literal["clear", "open", "null"]
"""Status of a finding: its interval excludes the value it is compared with (clear), includes it (open), or lies closely
around it, so that there is no effect (null)."""
_STRENGTH: dict[str, int] = {"clear": 0, "open": 1, "null": 2}


@dataclass(frozen=True)
class Finding:
    """One sentence about a result, with its number, its interval and what it is compared with.

    Example:
        >>> weak = Finding("POS before dependencies: undecided.", "open", 0.3)
        >>> strong = Finding("Layer 3 is best.", "clear", 0.9, 0.89, 0.91, against=0.51)
        >>> [finding.text for finding in strongest_first([weak, strong])]
        ['Layer 3 is best.', 'POS before dependencies: undecided.']
    """

    text: str
    """A plain sentence with the number, the interval and the comparison."""
    status: Status
    value: float | None = None
    low: float | None = None
    """Lower end of the 95 % interval."""
    high: float | None = None
    against: float | None = None
    """The value it is compared with: a baseline, a control, a twin."""
    chapter: str = ""
    """Chapter of the report."""


class _HasStatus(Protocol):
    @property
    def status(self) -> str: ...


Found = TypeVar("Found", bound=_HasStatus)


def strongest_first(findings: Iterable[Found]) -> tuple[Found, ...]:
    """Clear findings, then open ones, then nulls; otherwise in the order given."""
    return tuple(sorted(findings, key=lambda finding: _STRENGTH[finding.status]))


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
    """Name -> a file of the result (large tables as Parquet, trained probes); copied when saved."""
    findings: tuple[Finding, ...] = ()
    """The findings, clear ones first."""
    version: int = 0
    """Version of the analysis: raised when the same inputs would give different numbers."""
    asked: str = ""
    """The question's key, if the runner computed it."""

    @property
    def question(self) -> str:
        """Equal for results of the same question on the same inputs, in any version."""
        p = self.provenance
        return self.asked or question_key(
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
        """Write `result.json`, one CSV per table and (`charts`) each chart as `.vl.json` and `.svg`.

        The folder is replaced as a whole, so that a kill never leaves half a result. A folder with a different result
        is refused unless `replace` is set.
        """
        target = Path(folder)
        refuse_other(target, self.question, replace=replace)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as holder:
                fresh = Path(holder) / "new"
                fresh.mkdir()
                self._write_into(fresh, charts=charts)
                if target.exists():
                    target.rename(Path(holder) / "old")
                fresh.rename(target)
        except OSError as error:
            raise ResultError(f"cannot save the result to {target}: {error.strerror}; give another folder") from error
        return target

    def _write_into(self, folder: Path, *, charts: bool) -> None:
        columns = {}
        for name, table in self.tables.items():
            table.to_csv(folder / f"{name}.csv", index=False)
            columns[name] = {column: str(dtype) for column, dtype in table.dtypes.items()}
        for name, path in self.files.items():
            shutil.copyfile(path, folder / name)
        head = {
            "format": FORMAT,
            "analysis": self.analysis,
            "version": self.version,
            "question": self.question,
            "key": self.key,
            "findings": [asdict(finding) for finding in self.findings],
            "tables": columns,
            "files": [*self.files],
            "provenance": asdict(self.provenance),
        }
        # NaN is not JSON: browsers and other programs read this file too.
        body = json.dumps(without_nan(head), indent=2, default=str)
        (folder / "result.json").write_text(body + "\n", encoding="utf-8")
        if charts:
            from lamina.figures import spec_of, to_svg

            for name, chart in self.charts().items():
                spec = spec_of(chart)
                (folder / f"{name}.vl.json").write_text(json.dumps(spec, indent=2) + "\n", encoding="utf-8")
                (folder / f"{name}.svg").write_text(to_svg(spec), encoding="utf-8")

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Result:
        """Read back what `save` wrote."""
        folder = Path(folder)
        head = read_head(folder)
        try:
            tables = {name: _read_table(folder / f"{name}.csv", dtypes) for name, dtypes in head["tables"].items()}
            provenance = head["provenance"] | {"seeds": tuple(head["provenance"]["seeds"])}
            files = {name: folder / name for name in head["files"]}
            findings = tuple(Finding(**finding) for finding in head.get("findings", ()))
            about = {"findings": findings, "version": head.get("version", 0), "asked": head.get("question", "")}
            return cls(head["analysis"], tables, Provenance(**provenance), files, **about)
        except (OSError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise ResultError(f"{folder} does not match its result.json ({error}); {_made_again(head)}") from error

    def _repr_html_(self) -> str:
        from lamina.figures import to_svg

        title = f"{self.analysis}: {self.provenance.model['name']} on {self.provenance.corpus['name']}"
        parts = [f"<h3>{escape(title)}</h3>"]
        parts += [f"<p>{escape(finding.text)}</p>" for finding in self.findings]
        parts += [to_svg(chart) for chart in self.charts().values()]
        for name, table in self.tables.items():
            parts.append(f"<h4>{name}</h4>{table.to_html(index=False, max_rows=20)}")
        return "\n".join(parts)


def read_head(folder: Path) -> dict[str, Any]:
    """The `result.json` of a result folder, checked for its format."""
    path = folder / "result.json"
    try:
        head = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ResultError(f"{folder} is not a result folder: it has no result.json") from None
    except (OSError, ValueError) as error:
        raise ResultError(f"{path} cannot be read ({error}); make the result again") from error
    if not isinstance(head, dict) or head.get("format") not in _READABLE:
        found, again = (head.get("format"), _made_again(head)) if isinstance(head, dict) else (None, "make it again")
        raise ResultError(f"{path} has format {found}, this lamina reads up to {FORMAT}; {again}, or update lamina")
    return head


def refuse_foreign(target: Path) -> None:
    """Raise an error if the folder holds anything but a result, since saving replaces the folder."""
    if target.is_file():
        raise ResultError(f"{target} is a file; give a folder")
    if target.is_dir() and any(target.iterdir()) and not (target / "result.json").exists():
        raise ResultError(f"{target} holds something other than a result; give a new or empty folder")


def refuse_other(target: Path, question: str, *, replace: bool = False) -> None:
    """Raise an error if the folder holds a result of another model, data or settings, unless `replace` is set."""
    refuse_foreign(target)
    if replace or not (target / "result.json").exists():
        return
    try:
        head = read_head(target)
    except ResultError as error:
        raise ResultError(f"{error}; to overwrite it, use --replace (replace=True)") from None
    if question_of(head) != question:
        provenance = head.get("provenance", {})
        model, corpus = (provenance.get(name, {}).get("name", "?") for name in ("model", "corpus"))
        raise ResultError(
            f"{target} holds another result ({head.get('analysis')}: {model} on {corpus}, or with other settings); "
            "give another folder, or use --replace (replace=True) to overwrite it"
        )


def answer_key(question: str, version: int) -> str:
    """The key of an answer: the question and the version of the analysis."""
    return hashlib.sha256(f"{question} {version}".encode()).hexdigest()


def question_of(head: Mapping[str, Any]) -> str:
    """The question of a saved result; format 1 did not record it."""
    if head.get("question"):
        return str(head["question"])
    about = head.get("provenance", {})
    model, corpus = (about.get(name, {}).get("fingerprint", "") for name in ("model", "corpus"))
    return question_key(str(head.get("analysis")), model, corpus, about.get("parameters", {}))


def without_nan(value: Any) -> Any:
    """The same value; NaN and infinity become None.

    Example:
        >>> without_nan({"low": float("nan"), "rows": [1.0, float("inf")]})
        {'low': None, 'rows': [1.0, None]}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: without_nan(each) for key, each in value.items()}
    return [without_nan(each) for each in value] if isinstance(value, list | tuple) else value


def _made_again(head: Mapping[str, Any]) -> str:
    """What to do about an unusable result."""
    command = head.get("provenance", {}).get("command")
    return f"make it again with `{command}`" if command else "make it again"


def _read_table(path: Path, dtypes: dict[Any, Any]) -> pandas.DataFrame:
    import pandas as pd

    # An empty cell is a missing number, but for labels an empty string; 'NA' and 'None' are ordinary labels.
    numbers = {column: [""] for column, dtype in dtypes.items() if dtype not in ("str", "string", "object")}
    return pd.read_csv(path, dtype=dtypes, keep_default_na=False, na_values=numbers)


def _command_line() -> str:
    return COMMAND.get() or " ".join([Path(sys.argv[0]).name or "python", *sys.argv[1:]])


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
    shown = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=40"], cwd=here, capture_output=True, text=True, check=False
    )
    return shown.stdout.strip() or None
