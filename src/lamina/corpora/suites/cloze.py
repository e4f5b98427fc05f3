"""Cloze suites: texts with one slot, and what belongs into it.

A table of one's own (TSV, CSV or JSONL) has one text per row, with one slot written `[MASK]`, `<mask>`, `[Y]` or `___`,
and a column `answer`; `read_cloze` also knows the layouts of the psycholinguistic diagnostics and of ParaRel, by what
is in their files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lamina.corpora.corpus import fingerprint_of, first_of_each, sample_of_each
from lamina.corpora.reading import Fault, raise_fault
from lamina.corpora.suites.files import first_row, hashes_of, suite_root, table_files, table_rows
from lamina.corpora.tables.files import TableRow
from lamina.errors import CorpusError

if TYPE_CHECKING:
    from lamina.corpora.suites.lm_diagnostics import Diagnostics
    from lamina.corpora.suites.pararel import Relations

SLOT = re.compile(r"\[MASK\]|<mask>|\[Y\]|_{3,}")
"""Where the answer goes."""
_TEXT = ("text", "sentence", "cloze", "prompt", "context", "query", "masked_sentence", "pattern")
"""What the column with the slot may be called."""
_COLUMNS = "a column with a text that has one slot ([MASK], [Y] or ___), and a column 'answer'"


class Cloze(NamedTuple):
    """A text with one slot."""

    id: str
    """Within its part."""
    part: str
    before: str
    after: str
    answers: tuple[str, ...]
    """What is right; the first is the usual one."""
    candidates: tuple[str, ...]
    """The candidates that the answers are compared with, themselves included; empty for the whole vocabulary."""

    @property
    def item(self) -> str:
        """Equal for the same text whatever the model."""
        return f"{self.part}/{self.id}"


@dataclass(frozen=True)
class Clozes:
    """Texts with a slot each, in the order of their files.

    Example:
        >>> suite = clozes_from([("Paris is in ___ .", "France"), ("A [MASK] barks.", "dog|puppy")], name="own")
        >>> suite.items[1].answers, suite.items[0].after
        (('dog', 'puppy'), ' .')
    """

    name: str
    fingerprint: str
    items: tuple[Cloze, ...] = field(repr=False)
    files: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """File name -> sha256."""
    left_out: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)
    """Why something is not among the items -> how many times."""

    def describe(self) -> dict[str, Any]:
        """What provenance says of it."""
        about = {"name": self.name, "fingerprint": self.fingerprint, "split": "", "files": dict(self.files)}
        return about | {"items": len(self.items), "parts": len({cloze.part for cloze in self.items})}

    def take(self, limit: int) -> Clozes:
        """The first items of every part; the others are counted in `left_out`."""
        first = first_of_each(self.items, limit, lambda cloze: cloze.part)
        return self._with(first, f"items beyond the first {limit:,} of a part", "take", limit)

    def sample(self, limit: int, seed: int = 0) -> Clozes:
        """At most `limit` items of every part, drawn at random; the others are counted in `left_out`."""
        drawn = sample_of_each(self.items, limit, lambda cloze: cloze.part, lambda cloze: cloze.item, seed)
        return self._with(drawn, f"items not drawn: {limit:,} of a part were", "sample", limit, seed)

    def _with(self, numbers: Sequence[int], why: str, *how: Any) -> Clozes:
        if len(numbers) == len(self.items):
            return self
        left_out = {**self.left_out, why: len(self.items) - len(numbers)}
        items = tuple(self.items[number] for number in numbers)
        return replace(self, items=items, fingerprint=fingerprint_of(self.fingerprint, *how), left_out=left_out)


def read_cloze(name_or_path: str | Path) -> Clozes | Diagnostics | Relations:
    """A cloze suite by name, or a file or folder in any of the layouts; what is in the files tells which.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "own.tsv"
        >>> _ = path.write_text("text\\tanswer\\nParis is the capital of ___.\\tFrance\\n")
        >>> read_cloze(path).items[0].item
        'own/2'
    """
    from lamina.corpora.suites import lm_diagnostics, pararel

    root = suite_root(name_or_path)
    files = table_files(root)
    name = str(name_or_path)
    # Files without a header or with notes only belong to no layout.
    columns = {path: frozenset(map(str, first_row(path).values)) for path in files}
    for layout in (lm_diagnostics, pararel):
        if in_layout := {path: named for path, named in columns.items() if layout.holds(named)}:
            others = len(files) - len(in_layout)
            return layout.read(name, root, list(in_layout), {"files in another layout": others} if others else {})
    items = tuple(cloze for path in files for cloze in _read(path))
    if not items:
        raise CorpusError(f"{root} holds no text with a slot; expected a table with {_COLUMNS}")
    hashes = hashes_of(root, files)
    return Clozes(name, fingerprint_of("clozes 1", hashes), items, hashes)


def clozes_from(rows: Iterable[tuple[str, str] | Cloze], name: str = "clozes") -> Clozes:
    """Clozes in memory: `Cloze`s, or pairs of a text with a slot and its answer (alternatives with `|`).

    Example:
        >>> clozes_from([("Paris is in France.", "France")])
        Traceback (most recent call last):
        lamina.errors.FormatError: clozes:1: no slot in 'Paris is in France.'; expected one [MASK], [Y] or ___
    """
    items = []
    for number, row in enumerate(rows, start=1):
        if isinstance(row, Cloze):
            items.append(row)
        else:
            items.append(_cloze(TableRow(number, {"text": row[0], "answer": row[1]}), "text", Path(name), name))
    return Clozes(name, fingerprint_of("clozes", items), tuple(items))


def _read(path: Path) -> Iterator[Cloze]:
    """The texts of one file, checked."""
    rows = iter(table_rows(path, _COLUMNS))
    first = next(rows, None)
    if first is None:
        return
    column = _text_column(first, path)
    lines: dict[str, int] = {}
    for row in (first, *rows):
        cloze = _cloze(row, column, path, path.stem)
        if cloze.item in lines:
            what = f"a second text {cloze.id!r} of part {cloze.part!r} (the first is at line {lines[cloze.item]})"
            raise_fault(Fault(path, row.number, what, "each id once in a part"))
        lines[cloze.item] = row.number
        yield cloze


def _text_column(row: TableRow, path: Path) -> str:
    """The column that holds the slot: by its name, or the only one with a slot."""
    named = {str(name).strip().lower(): str(name) for name in row.values}
    if "answer" not in named:
        there = ", ".join(map(str, row.values)) or "none"
        raise_fault(Fault(path, 1, f"no column 'answer' (the columns are: {there[:200]})", f"{_COLUMNS}, and a header"))
    if column := next((named[name] for name in _TEXT if name in named), None):
        return column
    slotted = [str(name) for name, cell in row.values.items() if isinstance(cell, str) and SLOT.search(cell)]
    if len(slotted) != 1:
        what = f"{len(slotted) or 'no'} columns with a slot" if slotted else "no column with a slot"
        raise_fault(Fault(path, row.number, what, _COLUMNS))
    return slotted[0]


def _cloze(row: TableRow, column: str, path: Path, part: str) -> Cloze:
    cells = {str(name).strip().lower(): value for name, value in row.values.items()}
    text = str(row.values.get(column) or "")
    before, after = split_slot(text, path, row.number)
    answers = _alternatives(cells.get("answer"))
    if not answers:
        raise_fault(Fault(path, row.number, "no answer", "what belongs into the slot; alternatives separated by |"))
    offered = _alternatives(cells.get("candidates"))
    candidates = tuple(dict.fromkeys((*answers, *offered))) if offered else ()
    if offered and len(candidates) == len(answers):
        raise_fault(Fault(path, row.number, "all candidates are answers", "candidates to tell the answer from"))
    return Cloze(
        _name(cells.get("id")) or str(row.number), _name(cells.get("part")) or part, before, after, answers, candidates
    )


def split_slot(text: str, path: Path, line: int, slot: re.Pattern[str] = SLOT) -> tuple[str, str]:
    """What comes before the slot of a text and what comes after it; anything but one slot is a fault."""
    slots = list(slot.finditer(text))
    if len(slots) != 1:
        what = f"{len(slots)} slots in {text[:80]!r}" if slots else f"no slot in {text[:80]!r}"
        raise_fault(Fault(path, line, what, "one [MASK], [Y] or ___"))
    return text[: slots[0].start()], text[slots[0].end() :]


def _alternatives(cell: Any) -> tuple[str, ...]:
    """Texts separated by `|`, or a JSON list of them."""
    parts = cell if isinstance(cell, list) else _name(cell).split("|")
    return tuple(dict.fromkeys(part for text in parts if (part := _name(text))))


def _name(cell: Any) -> str:
    return "" if cell is None or (isinstance(cell, float) and cell != cell) else str(cell).strip()
