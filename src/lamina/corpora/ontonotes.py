"""CoNLL-2012 columns (OntoNotes and its dialects): `pos`, `const`, `ner`, `srl` and `chains`.

The twelve columns of OntoNotes, separated by spaces or tabs: document, part, number of the word, word, tag, parse bit,
predicate lemma, frameset, sense, speaker, named entities, one column of arguments per predicate, coreference. With
fewer columns (OntoGUM: number, word, mentions), the word follows the number, and the last column is coreference. Each
part is its own document (`bc/cctv/00/cctv_0000:000`), since chains do not cross parts. In `srl` the predicate is the
span marked `V` in its column; `V` itself is not an edge. In words, `-LRB-` and the like become brackets again. A folder
means all such files below it, sorted.

A layer is annotated if any cell of its column in the file is neither empty nor `-` nor `_`; otherwise the texts do not
have the annotation, which is noted. Where a layer is annotated, such cells mean that there is nothing at this word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lamina.corpora.brackets import starred, unescape, without_top
from lamina.corpora.conll2012_layout import ENTITIES, PARSE, POS, ROLES, Layout, is_blank, survey
from lamina.corpora.entities import Cell, chain_of, pair
from lamina.corpora.notes import Notes
from lamina.corpora.reading import Fault, Line, Report, head_lines, raise_fault, read_blocks
from lamina.types import Edge, Span, Text

_BEGIN = re.compile(
    r"#\s*begin document\b\s*(?:\((?P<quoted>.*)\)|(?P<bare>[^;]*?))\s*(?:;\s*part\s+(?P<part>\d+))?\s*"
)
_END = re.compile(r"#\s*end document\b")
_STARTED = "#begin document (name); part 000"


def looks_like(path: Path) -> bool:
    """Whether this is such a file (by its first line) or a folder of such files (by their names)."""
    if path.is_dir():
        return any(path.rglob("*_conll"))
    first = next((line for line in head_lines(path) if line.strip()), "")
    return _BEGIN.fullmatch(first) is not None


def read(path: Path, report: Report = raise_fault, noted: Notes | None = None) -> Iterator[Text]:
    """One text per sentence.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "d.conll"
        >>> _ = path.write_text("# begin document d\\n0\\tAda\\t(1)\\n1\\tleft\\t_\\n# end document\\n")
        >>> text = next(read(path))
        >>> text.words, text.edges["chains"][0].span
        (('Ada', 'left'), Span(start=0, end=1))
    """
    for file in sorted(path.rglob("*_conll")) if path.is_dir() else (path,):
        yield from _read_file(file, report, noted or Notes())


def _read_file(path: Path, report: Report, noted: Notes) -> Iterator[Text]:
    layout = survey(sentence.lines for sentence in _sentences(path, _ignore))
    said = layout.said()
    before, doc = -1, ""
    for sentence in _sentences(path, report):
        if sentence.doc != doc:
            before, doc = -1, sentence.doc
            for what in said:
                noted.add(what, doc)
        rows = [layout.cells(line.text) for line in sentence.lines]
        faults = [*_check(path, sentence.lines, rows, layout, before)]
        before = before + len(rows) if layout.running else -1
        edges: dict[str, tuple[Edge, ...]] = {}
        if not faults:
            edges, faults = _edges(path, sentence.lines[0].number, [*zip(*rows, strict=True)], layout)
        for fault in faults:
            report(fault)
        if not faults:
            words = tuple(unescape(row[layout.word]) for row in rows)
            yield Text(f"{sentence.doc}-{sentence.number}", words, edges=edges, doc=sentence.doc)


def _ignore(_: Fault) -> None:
    """Ignore faults in the first pass, which only detects the layout; reading the texts reports them."""


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
            # In two columns, a row may start with the word #.
            if not line.text.startswith("#") or line.text.startswith("#\t"):
                rows.append(line)
                continue
            # The end of a document may follow its last word without a blank line.
            if rows and doc:
                number += 1
                yield _Sentence(doc, number, rows)
                rows = []
            if begin := _BEGIN.fullmatch(line.text):
                if doc:
                    report(Fault(path, begun, "the document that begins here is never ended", "#end document"))
                name = begin["quoted"] or begin["bare"] or path.stem
                doc, number, begun = f"{name}:{begin['part']}" if begin["part"] else name, 0, line.number
            elif _END.match(line.text):
                doc = ""
            elif line.text.startswith("#begin"):
                report(Fault(path, line.number, f"{line.text!r}", _STARTED))
                doc = ""
        if rows and doc:
            number += 1
            yield _Sentence(doc, number, rows)
        elif rows:
            report(Fault(path, rows[0].number, "words outside any document", _STARTED))
    if doc:
        report(Fault(path, begun, "the document that begins here is never ended", "#end document"))


def _check(
    path: Path, lines: Sequence[Line], rows: Sequence[Sequence[str]], layout: Layout, before: int
) -> Iterator[Fault]:
    """The faults of a sentence's rows; `before` is the place of the last word, where numbers run on."""
    width = len(rows[0])
    for at, (line, row) in enumerate(zip(lines, rows, strict=True), start=before + 1):
        number = str(at + layout.first)
        if len(row) != width or not layout.fits(width):
            expected = f"{width}, as in the first line of the sentence" if layout.fits(width) else layout.widths
            yield Fault(path, line.number, f"{len(row)} columns", expected)
        elif layout.number is not None and row[layout.number] != number:
            yield Fault(path, line.number, f"word number {row[layout.number]}", number)
        elif not row[layout.word]:
            yield Fault(path, line.number, "no word", f"a word in column {layout.word + 1}")


_Columns = Sequence[Sequence[str]]


def _edges(path: Path, line: int, columns: _Columns, layout: Layout) -> tuple[dict[str, tuple[Edge, ...]], list[Fault]]:
    """Every annotation of a sentence, and what is wrong with those that cannot be read."""
    edges: dict[str, tuple[Edge, ...]] = {}
    faults: list[Fault] = []
    for name, make in _MAKERS.items():
        if name in layout.annotated:
            try:
                found = make(columns, layout)
            except ValueError as error:
                faults.append(Fault(path, line, f"{name}: {error}", "brackets that match in their column"))
            else:
                edges |= {} if found is None else {name: found}
    return edges, faults


def _tags(columns: _Columns, _: Layout) -> tuple[Edge, ...] | None:
    tags = tuple(Edge((tag,), Span(at, at + 1)) for at, tag in enumerate(columns[POS]) if not is_blank(tag))
    return tags or None


def _constituents(columns: _Columns, _: Layout) -> tuple[Edge, ...] | None:
    return None if all(map(is_blank, columns[PARSE])) else without_top(starred(columns[PARSE]))


def _entities(columns: _Columns, layout: Layout) -> tuple[Edge, ...] | None:
    if not layout.starred_entities:
        return _mentions(columns[ENTITIES])
    return None if all(map(is_blank, columns[ENTITIES])) else starred(columns[ENTITIES])


def _roles(columns: _Columns, layout: Layout) -> tuple[Edge, ...]:
    frames = (column for at, column in enumerate(columns[ROLES:-1], start=ROLES) if at not in layout.unknown)
    return tuple(edge for column in frames if not all(map(is_blank, column)) for edge in _frame(column))


def _frame(column: Sequence[str]) -> Iterator[Edge]:
    spans = starred(column)
    verb = next((edge.span for edge in spans if edge.labels == ("V",)), None)
    if verb is None:
        raise ValueError("a column of arguments without a predicate (V*)")
    return (Edge(edge.labels, verb, edge.span) for edge in spans if edge.labels != ("V",))


def _chains(columns: _Columns, _: Layout) -> tuple[Edge, ...]:
    return _mentions(columns[-1])


def _mentions(column: Sequence[str]) -> tuple[Edge, ...]:
    cells = (Cell(marks, at, at + 1) for at, marks in enumerate(column))
    return tuple(Edge((chain_of(name),), span) for name, span in pair(cells, chain_of))


_MAKERS = {"pos": _tags, "const": _constituents, "ner": _entities, "srl": _roles, "chains": _chains}
