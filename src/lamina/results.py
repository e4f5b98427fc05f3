"""What an analysis answers: tables with their provenance, saved as a folder anyone can read."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.errors import ResultError

if TYPE_CHECKING:
    import altair
    import pandas

FORMAT = 1
"""Of result folders; raised when an older lamina could not read a newer folder."""

_VERSIONED = ("lamina", "torch", "transformers", "numpy", "pandas")


@dataclass(frozen=True)
class Provenance:
    """Where a result came from: enough to judge it and to make it again."""

    model: Mapping[str, Any]
    """Name and fingerprint of the encoder."""
    corpus: Mapping[str, Any]
    """Name, split, unit, label scheme, fingerprint and files of the corpus."""
    parameters: Mapping[str, Any]
    """Every setting of the analysis."""
    seeds: tuple[int, ...] = ()
    """The random seeds used."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Why something was left out -> how many times."""
    command: str = field(default_factory=lambda: _command_line())
    """The command line or program that asked."""
    versions: Mapping[str, str] = field(default_factory=lambda: _versions())
    """Of Python and the packages numbers depend on."""
    revision: str | None = field(default_factory=lambda: _git_revision())
    """Git revision of lamina's source, where it is a checkout."""
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    """When, in UTC."""


def result_key(analysis: str, model: str, corpus: str, parameters: Mapping[str, Any]) -> str:
    """A name for 'this question asked of these inputs': equal keys mean the answer can be reused.

    Example:
        >>> one, same = ({"b": 1, "a": 2}, {"a": 2, "b": 1})
        >>> result_key("geometry", "m", "c", one) == result_key("geometry", "m", "c", same)
        True
    """
    asked = [FORMAT, version("lamina"), analysis, model, corpus, dict(parameters)]
    return hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()


@dataclass(frozen=True)
class Result:
    """Long-form tables answering one question, with where they came from.

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
    """Where it came from."""
    files: Mapping[str, Path] = field(default_factory=dict)
    """Name -> a file that belongs to the result (large tables as Parquet, trained probes); copied when saved."""

    @property
    def key(self) -> str:
        """Equal for results of the same question on the same inputs."""
        p = self.provenance
        return result_key(self.analysis, p.model["fingerprint"], p.corpus["fingerprint"], p.parameters)

    def charts(self) -> dict[str, altair.TopLevelMixin]:
        """Every figure this result can be drawn as, by name."""
        # The one declared upward import: drawing is a layer above, but people look for it on the result.
        from lamina.figures import draw

        return draw(self)

    def chart(self, name: str | None = None) -> altair.TopLevelMixin:
        """One figure: the first, or the one of this name."""
        charts = self.charts()
        if not charts:
            raise ResultError(f"there is no chart for a {self.analysis!r} result")
        if name is None:
            return next(iter(charts.values()))
        if name not in charts:
            raise ResultError(f"a {self.analysis!r} result has no chart {name!r}; it has: {', '.join(charts)}")
        return charts[name]

    def save(self, folder: str | os.PathLike[str], *, charts: bool = True) -> Path:
        """Write `result.json`, one CSV a table and (`charts`) each chart as `.vl.json` and `.svg`.

        The folder is replaced as a whole, so that a kill never leaves half a result.
        """
        target = Path(folder)
        refuse_foreign(target)
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
            raise ResultError(
                f"the result cannot be saved as {target}: {error.strerror}; name another folder"
            ) from error
        return target

    def _write_into(self, folder: Path, *, charts: bool) -> None:
        columns = {}
        for name, table in self.tables.items():
            table.to_csv(folder / f"{name}.csv", index=False)
            columns[name] = {column: str(dtype) for column, dtype in table.dtypes.items()}
        for name, path in self.files.items():
            shutil.copyfile(path, folder / name)
        head = {"format": FORMAT, "analysis": self.analysis, "key": self.key, "tables": columns, "files": [*self.files]}
        body = json.dumps(head | {"provenance": asdict(self.provenance)}, indent=2, default=str)
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
            return cls(head["analysis"], tables, Provenance(**provenance), files)
        except (OSError, LookupError, TypeError, ValueError) as error:
            raise ResultError(
                f"{folder} does not hold what its result.json promises ({error}); make it again"
            ) from error

    def _repr_html_(self) -> str:
        from lamina.figures import to_svg

        title = f"{self.analysis}: {self.provenance.model['name']} on {self.provenance.corpus['name']}"
        parts = [f"<h3>{escape(title)}</h3>"]
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
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        found = head.get("format") if isinstance(head, dict) else None
        raise ResultError(
            f"{path} has format {found}, this lamina reads {FORMAT}; make the result again or update lamina"
        )
    return head


def refuse_foreign(target: Path) -> None:
    """Saving replaces the folder: never one that holds something else."""
    if target.is_file():
        raise ResultError(f"{target} is a file; name a folder")
    if target.is_dir() and any(target.iterdir()) and not (target / "result.json").exists():
        raise ResultError(f"{target} holds something other than a result; name a new or empty folder")


def _read_table(path: Path, dtypes: dict[Any, Any]) -> pandas.DataFrame:
    import pandas as pd

    # An empty cell is a missing number but an empty label; 'NA' and 'None' are labels like any other.
    numbers = {column: [""] for column, dtype in dtypes.items() if dtype not in ("str", "string", "object")}
    return pd.read_csv(path, dtype=dtypes, keep_default_na=False, na_values=numbers)


def _command_line() -> str:
    return " ".join([Path(sys.argv[0]).name or "python", *sys.argv[1:]])


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
