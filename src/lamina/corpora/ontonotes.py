"""OntoNotes in CoNLL-2012 format (`*_conll`): `pos`, `const`, `ner`, `srl` and `chains`.

Columns, separated by spaces: document, part, number of the word (from 0), word, tag, parse bit, predicate lemma,
frameset, sense, speaker, named entities, one column of arguments per predicate, coreference. Each part is its own
document (`bc/cctv/00/cctv_0000:000`), since chains do not cross parts. In `srl` the predicate is the span marked `V` in
its column; `V` itself is not an edge. A column of `-` means that the annotation is missing; in coreference, that there
is no mention. In words, `-LRB-` and the like become brackets again. A folder means all such files below it, sorted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lamina.corpora.brackets import starred, unescape, without_top
from lamina.corpora.entities import Cell, pair
from lamina.corpora.reading import Fault, Line, Report, head_lines, raise_fault, read_blocks
from lamina.types import Edge, Span, Text

_BEGIN = re.compile(r"#begin document \((.+)\); part (\d+)\s*")
_WORD, _POS, _PARSE, _ENTITIES, _ROLES = 3, 4, 5, 10, 11
_LEAST = 12


def looks_like(path: Path) -> bool:
    """Whether this is such a file (by its first line) or a folder of such files (by their names)."""
    if path.is_dir():
        return any(path.rglob("*_conll"))
    first = next((line for line in head_lines(path) if line.strip()), "")
    return _BEGIN.fullmatch(first) is not None


def read(path: Path, report: Report = raise_fault) -> Iterator[Text]:
    """One text per sentence."""
    for file in sorted(path.rglob("*_conll")) if path.is_dir() else (path,):
        for sentence in _sentences(file, report):
            if (edges := _edges(file, sentence.lines, report)) is not None:
                words = tuple(unescape(line.text.split()[_WORD]) for line in sentence.lines)
                yield Text(f"{sentence.doc}-{sentence.number}", words, edges=edges, doc=sentence.doc)


class _Sentence(NamedTuple):
    doc: str
    number: int
    """Number in the document, from 1."""
    lines: Sequence[Line]


def _sentences(path: Path, report: Report) -> Iterator[_Sentence]:
    doc, number, begun = "", 0, 0
    for block in read_blocks(path, report):
        rows: list[Line] = []
        for line in block:
            if not line.text.startswith("#"):
                rows.append(line)
                continue
            # The end of a document may follow its last word without a blank line.
            if rows and doc:
                number += 1
                yield _Sentence(doc, number, rows)
                rows = []
            if line.text.startswith("#begin"):
                if doc:
                    report(Fault(path, begun, "the document that begins here is never ended", "#end document"))
                begin = _BEGIN.fullmatch(line.text)
                if begin is None:
                    report(Fault(path, line.number, f"{line.text!r}", "#begin document (name); part 000"))
                doc, number, begun = f"{begin[1]}:{begin[2]}" if begin else "", 0, line.number
            elif line.text.startswith("#end"):
                doc = ""
        if rows and doc:
            number += 1
            yield _Sentence(doc, number, rows)
        elif rows:
            report(Fault(path, rows[0].number, "words outside any document", "#begin document (name); part 000"))
    if doc:
        report(Fault(path, begun, "the document that begins here is never ended", "#end document"))


def _edges(path: Path, lines: Sequence[Line], report: Report) -> dict[str, tuple[Edge, ...]] | None:
    """Every annotation of a sentence; None if it has a fault."""
    rows = [line.text.split() for line in lines]
    faults = [*_check(path, lines, rows)]
    edges: dict[str, tuple[Edge, ...]] = {}
    if not faults:
        columns = list(zip(*rows, strict=True))
        for name, make in _MAKERS.items():
            try:
                found = make(columns)
            except ValueError as error:
                faults.append(Fault(path, lines[0].number, f"{name}: {error}", "brackets that match in their column"))
            else:
                edges |= {} if found is None else {name: found}
    for fault in faults:
        report(fault)
    return None if faults else edges


def _check(path: Path, lines: Sequence[Line], rows: Sequence[Sequence[str]]) -> Iterator[Fault]:
    width = len(rows[0])
    for at, (line, row) in enumerate(zip(lines, rows, strict=True)):
        if len(row) != width or width < _LEAST:
            expected = f"{width}, as in the first line of the sentence" if width >= _LEAST else f"at least {_LEAST}"
            yield Fault(path, line.number, f"{len(row)} columns", expected)
        elif row[2] != str(at):
            yield Fault(path, line.number, f"word number {row[2]}", str(at))


_Columns = Sequence[Sequence[str]]


def _tags(columns: _Columns) -> tuple[Edge, ...] | None:
    tags = columns[_POS]
    return None if set(tags) == {"-"} else tuple(Edge((tag,), Span(at, at + 1)) for at, tag in enumerate(tags))


def _constituents(columns: _Columns) -> tuple[Edge, ...] | None:
    return None if set(columns[_PARSE]) == {"-"} else without_top(starred(columns[_PARSE]))


def _entities(columns: _Columns) -> tuple[Edge, ...] | None:
    return None if set(columns[_ENTITIES]) == {"-"} else starred(columns[_ENTITIES])


def _roles(columns: _Columns) -> tuple[Edge, ...]:
    return tuple(edge for column in columns[_ROLES:-1] for edge in _frame(column))


def _frame(column: Sequence[str]) -> Iterator[Edge]:
    spans = starred(column)
    verb = next((edge.span for edge in spans if edge.labels == ("V",)), None)
    if verb is None:
        raise ValueError("a column of arguments without a predicate (V*)")
    return (Edge(edge.labels, verb, edge.span) for edge in spans if edge.labels != ("V",))


def _chains(columns: _Columns) -> tuple[Edge, ...]:
    cells = (Cell(marks, at, at + 1) for at, marks in enumerate(columns[-1]))
    return tuple(Edge((chain,), span) for chain, span in pair(cells))


_MAKERS = {"pos": _tags, "const": _constituents, "ner": _entities, "srl": _roles, "chains": _chains}
