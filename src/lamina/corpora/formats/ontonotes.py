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
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from lamina.corpora.entities import MentionCell, chain_of, mentions_in
from lamina.corpora.formats.ptb import starred, unescape, without_top
from lamina.corpora.reading import Fault, Line, Notes, Report, head_lines, raise_fault, read_blocks, whole_number
from lamina.types import Edge, Span, Text

# Which columns a CoNLL-2012 file has, and which of them are annotated: found in one pass over the file.

WORD, POS, PARSE, LEMMA, FRAMESET, ENTITIES, ROLES = 3, 4, 5, 6, 7, 10, 11
_LEAST = 12
"""Columns of a sentence without predicates in OntoNotes."""
_BLANK = frozenset({"", "-", "_"})
_COLUMN_OF = {"pos": POS, "const": PARSE, "ner": ENTITIES}
_NUMBERED = 20
"""Sentences that show which column holds the number of the word."""


def is_blank(cell: str) -> bool:
    """Whether a cell says nothing.

    Example:
        >>> is_blank("_"), is_blank(""), is_blank("*")
        (True, True, False)
    """
    return cell in _BLANK


class Conll2012Layout(NamedTuple):
    """The columns of one file."""

    dropped: int
    """Empty cells at the end of every row."""
    full: bool
    """Whether these are the columns of OntoNotes, not some of them."""
    width: int
    """Number of columns, where `full` does not hold."""
    number: int | None
    """The column with the number of the word."""
    first: int
    """The number of the first word."""
    running: bool
    """Whether numbers run on through a document instead of starting again in each sentence."""
    word: int
    annotated: frozenset[str]
    starred_entities: bool
    """Whether entities are written `(PER*`, `*`, `*)`; otherwise `(PER`, `_`, `PER)`."""
    unknown: frozenset[int]
    """Columns that are neither those of OntoNotes nor empty."""
    unbroken: bool
    """Whether every document is one block of rows."""

    def cells(self, row: str) -> list[str]:
        """The cells of a row."""
        cells = _cells(row)
        return cells[: len(cells) - self.dropped]

    def fits(self, width: int) -> bool:
        """Whether a row may have this number of columns."""
        return width >= _LEAST if self.full else width == self.width

    @property
    def widths(self) -> str:
        """The number of columns that `fits`, in words."""
        return f"at least {_LEAST}" if self.full else f"{self.width}, as in most lines of the file"

    def remarks(self) -> Iterator[str]:
        """What a reader of the file should know, to be noted for each of its documents."""
        names = [*_COLUMN_OF, "srl", "chains"] if self.full else ["chains"]
        if absent := [name for name in names if name not in self.annotated]:
            yield f"documents without {', '.join(absent)} (columns that are empty in the whole file)"
        if self.unknown:
            columns = ", ".join(str(column + 1) for column in sorted(self.unknown))
            yield f"documents with columns of unknown content, which are not read (column {columns})"
        if self.unbroken:
            yield "documents without sentence breaks (each is one text)"


def survey(sentences: Iterable[Sequence[Line]]) -> Conll2012Layout:
    """The layout of a file, given its sentences.

    Example:
        >>> layout = survey([[Line(1, "d\\t0\\t0\\tAda\\t_\\t(1)"), Line(2, "d\\t0\\t1\\tleft\\t_\\t")]])
        >>> layout.full, layout.word, layout.width, sorted(layout.annotated)
        (False, 3, 6, ['chains'])
    """
    seen = _LayoutSurvey()
    for lines in sentences:
        seen.add(lines)
    return seen.layout()


class _LayoutSurvey:
    """What the rows of a file have shown so far."""

    def __init__(self) -> None:
        self.rows = self.sentences = 0
        self.widths: Counter[int] = Counter()
        self.filled: set[int] = set()
        """Columns with a cell that is not blank, from the left, and the last two as -1 and -2."""
        self.starred: set[int] = set()
        """Columns with a star, from the left; coreference never has one."""
        self.has_end = False
        """Whether the last cell of any row is not empty."""
        self.sample: list[list[list[str]]] = []

    def add(self, lines: Sequence[Line]) -> None:
        rows = [_cells(line.text) for line in lines]
        self.sentences += 1
        self.rows += len(rows)
        self.widths.update(map(len, rows))
        if len(self.sample) < _NUMBERED:
            self.sample.append(rows)
        for row in rows:
            self.has_end |= row[-1] != ""
            self.filled.update(column for column, cell in enumerate(row) if cell not in _BLANK)
            self.filled.update(column for column in (-1, -2) if len(row) > 1 and row[column] not in _BLANK)
            self.starred.update(column for column, cell in enumerate(row[:-1]) if "*" in cell)

    def layout(self) -> Conll2012Layout:
        dropped = int(not self.has_end and -2 in self.filled)
        widths = {width - dropped: count for width, count in self.widths.items()}
        full = 2 * sum(count for width, count in widths.items() if width >= _LEAST) > self.rows
        width = max(widths, key=lambda columns: widths[columns], default=0)
        number = 2 if full else _number_column(self.sample, width)
        word = WORD if full else 0 if number is None else number + 1
        # The number of columns varies with that of predicates; where it does, each of them is known.
        known = width if full and len(widths) > 1 else ROLES if full else word + 1
        extra = range(known, width - 1)
        first, running = _counting(self.sample, number)
        return Conll2012Layout(
            dropped=dropped,
            full=full,
            width=width,
            number=number,
            first=first,
            running=running,
            word=word,
            annotated=self._annotated(full, dropped),
            starred_entities=ENTITIES in self.starred,
            unknown=frozenset(
                column for column in extra if column in self.filled and not (full and column in self.starred)
            ),
            unbroken=running and self.sentences == 1 and self.rows > 1,
        )

    def _annotated(self, full: bool, dropped: int) -> frozenset[str]:
        annotated = {"chains"} if -1 - dropped in self.filled else set[str]()
        if full:
            annotated |= {name for name, column in _COLUMN_OF.items() if column in self.filled}
            predicates = LEMMA in self.filled or FRAMESET in self.filled
            annotated |= {"srl"} if predicates or any(column >= ROLES for column in self.starred) else set()
        return frozenset(annotated)


def _cells(row: str) -> list[str]:
    """Columns are separated by tabs, so that a cell can be empty, or else by spaces."""
    return [cell.strip() for cell in row.split("\t")] if "\t" in row else row.split()


def _number_column(sentences: Sequence[Sequence[Sequence[str]]], width: int) -> int | None:
    """The first column that counts the words of every sentence."""
    long = [rows for rows in sentences if len(rows) > 1 and all(len(row) == width for row in rows)]
    for column in range(min(3, width - 1)):
        if long and all(_counts([row[column] for row in rows]) for rows in long):
            return column
    if not long and width > 4:
        return 2
    return None


def _counts(cells: Sequence[str]) -> bool:
    numbers = [whole_number(cell) for cell in cells]
    return all(a is not None and b == a + 1 for a, b in pairwise(numbers))


def _counting(sentences: Sequence[Sequence[Sequence[str]]], number: int | None) -> tuple[int, bool]:
    """The first number, and whether the numbers run on from one sentence to the next."""
    spans = [(_start(rows, number), len(rows)) for rows in sentences]
    known = [(start, size) for start, size in spans if start is not None]
    if not known:
        return 0, False
    follows = (start + size == after for (start, size), (after, _) in pairwise(known))
    return min(known[0][0], 1), len(known) == 1 or any(follows)


def _start(rows: Sequence[Sequence[str]], number: int | None) -> int | None:
    """The number of a sentence's first word, if it has one."""
    return None if number is None or number >= len(rows[0]) else whole_number(rows[0][number])


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
    remarks = layout.remarks()
    before, doc = -1, ""
    for sentence in _sentences(path, report):
        if sentence.doc != doc:
            before, doc = -1, sentence.doc
            for what in remarks:
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


class _Conll2012Sentence(NamedTuple):
    doc: str
    number: int
    """Number in the document, from 1."""
    lines: Sequence[Line]


def _sentences(path: Path, report: Report) -> Iterator[_Conll2012Sentence]:
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
                yield _Conll2012Sentence(doc, number, rows)
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
            yield _Conll2012Sentence(doc, number, rows)
        elif rows:
            report(Fault(path, rows[0].number, "words outside any document", _STARTED))
    if doc:
        report(Fault(path, begun, "the document that begins here is never ended", "#end document"))


def _check(
    path: Path, lines: Sequence[Line], rows: Sequence[Sequence[str]], layout: Conll2012Layout, before: int
) -> Iterator[Fault]:
    """The faults of a sentence's rows; `before` is the place of the last word, where numbers run on."""
    width = len(rows[0])
    for place, (line, row) in enumerate(zip(lines, rows, strict=True), start=before + 1):
        number = str(place + layout.first)
        if len(row) != width or not layout.fits(width):
            expected = f"{width}, as in the first line of the sentence" if layout.fits(width) else layout.widths
            yield Fault(path, line.number, f"{len(row)} columns", expected)
        elif layout.number is not None and row[layout.number] != number:
            yield Fault(path, line.number, f"word number {row[layout.number]}", number)
        elif not row[layout.word]:
            yield Fault(path, line.number, "no word", f"a word in column {layout.word + 1}")


_Columns = Sequence[Sequence[str]]


def _edges(
    path: Path, line: int, columns: _Columns, layout: Conll2012Layout
) -> tuple[dict[str, tuple[Edge, ...]], list[Fault]]:
    """Every annotation of a sentence, and what is wrong with those that cannot be read."""
    edges: dict[str, tuple[Edge, ...]] = {}
    faults: list[Fault] = []
    for name, make in _MAKERS.items():
        if name in layout.annotated:
            try:
                targets = make(columns, layout)
            except ValueError as error:
                faults.append(Fault(path, line, f"{name}: {error}", "brackets that match in their column"))
            else:
                edges |= {} if targets is None else {name: targets}
    return edges, faults


def _tags(columns: _Columns, _: Conll2012Layout) -> tuple[Edge, ...] | None:
    tags = tuple(Edge((tag,), Span(word, word + 1)) for word, tag in enumerate(columns[POS]) if not is_blank(tag))
    return tags or None


def _constituents(columns: _Columns, _: Conll2012Layout) -> tuple[Edge, ...] | None:
    return None if all(map(is_blank, columns[PARSE])) else without_top(starred(columns[PARSE]))


def _entities(columns: _Columns, layout: Conll2012Layout) -> tuple[Edge, ...] | None:
    if not layout.starred_entities:
        return _mentions(columns[ENTITIES])
    return None if all(map(is_blank, columns[ENTITIES])) else starred(columns[ENTITIES])


def _roles(columns: _Columns, layout: Conll2012Layout) -> tuple[Edge, ...]:
    frames = (column for index, column in enumerate(columns[ROLES:-1], start=ROLES) if index not in layout.unknown)
    return tuple(edge for column in frames if not all(map(is_blank, column)) for edge in _frame(column))


def _frame(column: Sequence[str]) -> Iterator[Edge]:
    spans = starred(column)
    verb = next((edge.span for edge in spans if edge.labels == ("V",)), None)
    if verb is None:
        raise ValueError("a column of arguments without a predicate (V*)")
    return (Edge(edge.labels, verb, edge.span) for edge in spans if edge.labels != ("V",))


def _chains(columns: _Columns, _: Conll2012Layout) -> tuple[Edge, ...]:
    return _mentions(columns[-1])


def _mentions(column: Sequence[str]) -> tuple[Edge, ...]:
    cells = (MentionCell(marks, word, word + 1) for word, marks in enumerate(column))
    return tuple(Edge((chain_of(name),), span) for name, span in mentions_in(cells, chain_of))


_MAKERS = {"pos": _tags, "const": _constituents, "ner": _entities, "srl": _roles, "chains": _chains}
