"""GAP: a pronoun and two names in a few sentences of Wikipedia; which of the two does the pronoun refer to?

Tab-separated, with a header; offsets count characters. Words come from `corpora.tokenising`, with a boundary wherever
the pronoun or a name starts or ends. Annotation `coref`: pronoun and name A, pronoun and name B, labelled 1 or 0.
The page is the document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lamina.corpora.reading import Fault, Report, head_lines, raise_fault, read_lines, whole_number
from lamina.corpora.tokenising import split_words
from lamina.types import Edge, Span, Text

HEADER = ("ID", "Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset", "B-coref", "URL")
_LABELS = {"TRUE": "1", "FALSE": "0"}


class _RowError(ValueError):
    """What is wrong with a row, and what was expected."""

    def __init__(self, what: str, expected: str) -> None:
        super().__init__(what)
        self.what = what
        self.expected = expected


def looks_like(path: Path) -> bool:
    """Whether the file starts with GAP's header."""
    return path.is_file() and next(iter(head_lines(path)), "").split("\t") == list(HEADER)


def read(path: Path, report: Report = raise_fault) -> Iterator[Text]:
    """One text per row."""
    for line in read_lines(path, report):
        if line is None or not line.text.strip():
            continue
        columns = line.text.split("\t")
        if line.number == 1:
            if tuple(columns) != HEADER:
                report(Fault(path, 1, "not the header of a GAP file", "\\t".join(HEADER)))
                return
            continue
        try:
            text = _text(columns)
        except _RowError as error:
            report(Fault(path, line.number, error.what, error.expected))
        else:
            yield text


def _text(columns: Sequence[str]) -> Text:
    if len(columns) != len(HEADER):
        raise _RowError(f"{len(columns)} columns", f"{len(HEADER)} columns, separated by tabs")
    row: dict[str, str] = dict(zip(HEADER, columns, strict=True))
    places = {name: _place(row, name) for name in ("Pronoun", "A", "B")}
    split = split_words(row["Text"], [offset for place in places.values() for offset in place])
    spans: dict[str, Span] = {}
    for name, place in places.items():
        if (span := split.span(*place)) is None:
            raise _RowError(f"{name} has no word", "a name or a pronoun")
        spans[name] = span
    edges = tuple(Edge((_label(row, name),), spans["Pronoun"], spans[name]) for name in ("A", "B"))
    return Text(row["ID"], split.words, edges={"coref": edges}, doc=row["URL"] or None, glued=split.glued)


def _place(row: Mapping[str, str], name: str) -> tuple[int, int]:
    """Where a mention starts and ends, in characters."""
    column, mention = f"{name}-offset", row[name]
    start = whole_number(row[column])
    if start is None:
        raise _RowError(f"{column} is {row[column]!r}", "a character offset")
    end = start + len(mention)
    if row["Text"][start:end] != mention:
        found = row["Text"][start:end]
        raise _RowError(f"{column} {start} points at {found!r}", f"{mention!r} there, counted in characters from 0")
    return start, end


def _label(row: Mapping[str, str], name: str) -> str:
    given = row[f"{name}-coref"]
    if given.upper() not in _LABELS:
        raise _RowError(f"{name}-coref is {given!r}", "TRUE or FALSE")
    return _LABELS[given.upper()]
