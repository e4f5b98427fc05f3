"""Named entities, one token per line: `ner`, from IOB1, IOB2, BIOES and BILOU tags.

Columns are separated by tabs, or by spaces if a line has no tab; a blank line ends a sentence. The layout is detected
from the first sentences: if most tokens are numbered (number, token, tag, ...: Universal NER) the tag is the third
column; otherwise the token is the first column and the tag the last (`token pos chunk tag` in CoNLL-2003, `token tag`).
`-DOCSTART-` starts a document, and so does `# newdoc`; `# sent_id` names a sentence.

The scheme is detected from the tags of the whole file (see `scheme_of`). A tag that the scheme does not allow in its
place is a fault: in IOB2 an `I-` that continues nothing, in IOB1 a `B-` that separates nothing, in BIOES an `E-`
without its `B-`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from lamina.corpora.entities import TAG, check_tags, scheme_of, spans_of
from lamina.corpora.reading import Fault, Heading, Line, Report, head_lines, raise_fault, read_blocks
from lamina.types import Edge, Text

_DOCSTART = "-DOCSTART-"
_KEYED = re.compile(r"#\s*(\S+(\s+id)?\s*=|newdoc|newpar)")
_SAMPLE = 20


class _Layout(NamedTuple):
    """The number of columns, and which ones hold the token and its tag."""

    columns: int
    token: int
    tag: int


def looks_like(path: Path) -> bool:
    """Whether the last or the third column of the first rows holds entity tags."""
    if path.is_dir():
        return False
    lines = [Line(0, line) for line in head_lines(path, 16384)]
    rows = [_cells(line) for line in lines if line.text.strip() and not _is_apart(line)]
    layout = _layout(rows)
    return len(rows) > 1 and all(len(row) > layout.tag and TAG.fullmatch(row[layout.tag]) for row in rows)


def read(path: Path, report: Report = raise_fault) -> Iterator[Text]:
    """One text per sentence.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "dev.iob"
        >>> _ = path.write_text("Ada B-PER\\nLovelace I-PER\\nwrote O\\n")
        >>> [(edge.labels, edge.span) for edge in next(read(path)).edges["ner"]]
        [(('PER',), Span(start=0, end=2))]
    """
    first = islice(read_blocks(path, _ignore), _SAMPLE)
    layout = _layout([row for block in first for row in _rows(block)])
    scheme = scheme_of(_tags(_rows(block), layout) for block in read_blocks(path, _ignore))
    heading = Heading(path.stem)
    for block in read_blocks(path, report):
        if any(line.text.startswith(_DOCSTART) for line in block):
            heading.next_document()
        lines = [line for line in block if not _is_apart(line)]
        if not lines:
            continue
        heading.next_sentence(line.text for line in block if _is_apart(line))
        rows = [_cells(line) for line in lines]
        faults = list(_check(path, lines, rows, layout))
        if not faults:
            wrong = check_tags(_tags(rows, layout), scheme)
            faults = [Fault(path, lines[at].number, what, f"tags in {scheme}") for at, what in wrong]
        for fault in faults:
            report(fault)
        if not faults:
            spans = spans_of(_tags(rows, layout), scheme)
            edges = {"ner": tuple(Edge((label,), span) for label, span in spans)}
            yield Text(heading.sentence, tuple(row[layout.token] for row in rows), edges=edges, doc=heading.doc)


def _ignore(_: Fault) -> None:
    """Ignore faults in the first pass, which only detects the scheme; reading the texts reports them."""


def _cells(line: Line) -> list[str]:
    return line.text.split("\t") if "\t" in line.text else line.text.split()


def _rows(block: Sequence[Line]) -> list[list[str]]:
    return [_cells(line) for line in block if not _is_apart(line)]


def _tags(rows: Sequence[Sequence[str]], layout: _Layout) -> list[str]:
    return [row[layout.tag] for row in rows if layout.tag < len(row)]


def _is_apart(line: Line) -> bool:
    """Whether this is a comment or starts a document. A token may be # too: then its line ends with a tag."""
    if line.text.startswith(_DOCSTART):
        return True
    is_row = "\t" in line.text or TAG.fullmatch(line.text.split()[-1]) is not None
    return line.text.startswith("#") and (_KEYED.match(line.text) is not None or not is_row)


def _layout(rows: Sequence[Sequence[str]]) -> _Layout:
    """The layout of most rows, so that one faulty row does not mislead."""
    columns = max(2, Counter(map(len, rows)).most_common(1)[0][0]) if rows else 2
    numbered = sum(len(row) > 2 and row[0].isdigit() and TAG.fullmatch(row[2]) is not None for row in rows)
    return _Layout(columns, 1, 2) if 2 * numbered > len(rows) else _Layout(columns, 0, columns - 1)


def _check(path: Path, lines: Sequence[Line], rows: Sequence[Sequence[str]], layout: _Layout) -> Iterator[Fault]:
    for line, row in zip(lines, rows, strict=True):
        if len(row) != layout.columns:
            yield Fault(path, line.number, f"{len(row)} columns", f"{layout.columns}, as in most of the first lines")
        elif not row[layout.token]:
            yield Fault(path, line.number, "no token", f"a token in column {layout.token + 1}")
        elif not TAG.fullmatch(row[layout.tag]):
            what = f"column {layout.tag + 1} is {row[layout.tag]!r}"
            yield Fault(path, line.number, what, "O, or a prefix and a type such as B-PER")
