"""Corpora that are derived here: public files at a pinned commit, a function, and the counts that have to come out.

A recipe is deterministic: the same files give the same corpus, byte for byte. Modules of this package parse their
origins themselves, as far as they need; the readers of `lamina.corpora` read what they write.

ewt          English Web Treebank, and what others annotated on it: PropBank, STREUSLE, UDS, Universal NER
gum          GUM and OntoGUM
published    corpora as they were published: WikiText-2, WNUT17, LitBank, MASC, bAbI, HotpotQA
suites       test suites for language models
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from lamina.assets.origins import Origin, OriginFiles
from lamina.assets.sources import Allowance
from lamina.errors import AssetError
from lamina.progress import progress

NOTE = "SOURCE.txt"
"""The file beside the derived ones that says where they come from."""


class DerivedFile(NamedTuple):
    """One derived file."""

    path: str
    """Where it belongs in the corpus's folder."""
    content: bytes
    counts: Mapping[str, int]
    """What it holds: `{"sentences": 2001, "tokens": 25147}`; compared with the recipe's own numbers."""


Derive = Callable[[Mapping[str, OriginFiles]], Iterable[DerivedFile]]
"""From the files of each origin, by `owner/name`, to the files of the corpus."""


@dataclass(frozen=True)
class CorpusRecipe:
    """A source that derives a corpus from public repositories."""

    origins: tuple[Origin, ...]
    derive: Derive
    counts: Mapping[str, Mapping[str, int]]
    """Path of each derived file, or a pattern (`*` matches anything) -> what it, or all such files, have to hold."""
    licence: str
    """Of the derived corpus."""
    changes: str
    """What was changed or left out, for the note beside the files."""
    version: int = 1
    """Raised when `derive` writes something else for the same origins: cached files are then derived again."""

    @property
    def place(self) -> str:
        """A readable name of the place."""
        return f"derived from {', '.join(origin.place for origin in self.origins)}"

    @property
    def hashes(self) -> Mapping[str, str]:
        """Repository and commit -> sha256 of the list of its files and their blob ids."""
        return {origin.place: origin.sha256 for origin in self.origins}

    @property
    def blobs(self) -> Mapping[str, str]:
        """`owner/name/path` of every origin file -> git blob id, by which it is checked."""
        return {f"{origin.repo}/{path}": blob for origin in self.origins for path, blob in origin.files.items()}

    @property
    def members(self) -> tuple[str, ...]:
        """The derived files."""
        return tuple(self.counts)

    def fetch(self, into: Path, allowance: Allowance) -> None:
        """Derive every file into the folder, and write the note beside them."""
        derived: dict[str, Mapping[str, int]] = {}
        files = {origin.repo: OriginFiles(origin) for origin in self.origins}
        with progress(f"deriving from {', '.join(files)}") as advance:
            for part in self.derive(files):
                allowance.take(len(part.content), part.path)
                _write(into, part)
                derived[part.path] = part.counts
                advance()
        totals = self._totals(derived)
        self._check(totals)
        (into / NOTE).write_text(self._note(totals), encoding="utf-8", newline="\n")

    def _totals(self, derived: Mapping[str, Mapping[str, int]]) -> dict[str, Counter[str]]:
        """What was derived, summed over the files of each pattern."""
        totals: dict[str, Counter[str]] = {pattern: Counter() for pattern in self.counts}
        for path, counts in derived.items():
            pattern = next((known for known in self.counts if fnmatchcase(path, known)), None)
            if pattern is None:
                raise AssetError(f"the recipe derived {path}, which it does not count; {_REPORT}")
            totals[pattern].update({"files": 1, **counts})
        return totals

    def _check(self, totals: Mapping[str, Mapping[str, int]]) -> None:
        for path, expected in self.counts.items():
            if not totals[path]:
                raise AssetError(f"the recipe did not derive {path}; {_REPORT}")
            for what, count in expected.items():
                if totals[path].get(what, 0) != count:
                    raise AssetError(
                        f"{path} as derived has {totals[path].get(what, 0):,} {what}, expected {count:,}; {_REPORT}"
                    )

    def _note(self, totals: Mapping[str, Mapping[str, int]]) -> str:
        counts = [f"  {path}: {_counts_in_words(counted)}".rstrip(": ") for path, counted in totals.items()]
        lines = [
            *(f"SOURCE: {origin.page} ({len(origin.files):,} files)" for origin in self.origins),
            f"LICENCE: {self.licence}",
            f"CHANGES: {self.changes}",
            _COUNTS,
            *counts,
        ]
        return "\n".join(lines) + "\n"


_COUNTS = "COUNTS:"
_REPORT = "nothing was kept. The recipe has a fault: please report it"


def counts_in(folder: Path) -> list[str]:
    """The counts that the note beside derived files gives, one line per file; none where there is no such note."""
    note = folder / NOTE
    lines = note.read_text(encoding="utf-8").splitlines() if note.is_file() else []
    return [line.strip() for line in lines[lines.index(_COUNTS) + 1 :]] if _COUNTS in lines else []


def as_is(paths: Mapping[str, str], count: Callable[[bytes], Mapping[str, int]]) -> Derive:
    """A derivation that copies files: path in the (only) origin -> path in the corpus's folder."""

    def derive(files: Mapping[str, OriginFiles]) -> Iterable[DerivedFile]:
        (origin,) = files.values()
        for path, target in paths.items():
            content = origin.read(path)
            yield DerivedFile(target, content, count(content))

    return derive


def as_lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Rows as JSON lines, as compact as they get.

    Example:
        >>> as_lines([{"id": "s1", "tokens": ["Café"]}])
        b'{"id":"s1","tokens":["Caf\\xc3\\xa9"]}\\n'
    """
    lines = (json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)
    return "".join(lines).encode("utf-8")


def _write(into: Path, part: DerivedFile) -> None:
    path = PurePosixPath(part.path)
    if path.is_absolute() or ".." in path.parts or part.path == NOTE:
        raise AssetError(f"the recipe derived {part.path}, which is no place for a file; {_REPORT}")
    target = into / path
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as file:
        file.write(part.content)


def _counts_in_words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in counts.items() if (what, count) != ("files", 1))
