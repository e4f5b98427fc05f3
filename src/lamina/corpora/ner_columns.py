"""Named entities, one token per line: `ner`, from IOB1, IOB2, BIOES, BILOU and BMES tags; also `chunk` and `pos`.

Columns are separated by tabs, or by spaces if a line has no tab; a blank line ends a sentence. What a column holds is
detected from the whole file. If tokens are numbered (Universal NER, GermEval), the token is the second column;
otherwise it is the first, or the first after the tags if these come first (numbers aside). Several columns of tags are
levels of nested entities, all of them `ner` (LitBank, GermEval, NNE). A column of phrase tags (`I-NP`: CoNLL-2000,
CoNLL-2003) is `chunk`, one of well-known part-of-speech tags `pos`; any other is not read, which is noted.
`-DOCSTART-` starts a document, and so does `# newdoc`; `# sent_id` names a sentence.

The scheme is detected from the tags of the whole file (see `scheme_of`). A tag that the scheme does not allow in its
place is a fault: in IOB2 an `I-` that continues nothing, in BIOES an `E-` without its `B-`. In IOB1, a `B-` that
separates nothing is clear, and only noted (the training file of CoNLL-2003 has two). Tags may have no prefix: with
several types (`PER`, `LOC`, `O`), neighbouring words of one type are one entity; with a single type (`EVENT`, `O`),
every word has one label, in an annotation named after the type (`event`). Tags may have no type (`B`, `I`, `O`): then
it is `entity`. An entity may have several (`B-person,B-group`): each is a label. A cell may hold a tag per level of
nesting (`B-ORG|B-LOC`): then an `I-` continues the outermost entity of its type. A file in which every tag is `O` does
not say what it is about: its texts have no `ner`, which is noted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lamina.corpora.entities import (
    TAG,
    Scheme,
    Tagged,
    check_tags,
    needless_begins,
    scheme_of,
    spans_of,
    stacked_spans,
)
from lamina.corpora.entity_columns import Layout, Tags, cells_of, layout_of
from lamina.corpora.notes import Notes
from lamina.corpora.reading import Fault, Heading, Line, Report, head_lines, raise_fault, read_blocks
from lamina.types import Edge, Span, Text

_DOCSTART = "-DOCSTART-"
_KEYED = re.compile(r"#\s*(\S+(\s+id)?\s*=|newdoc|newpar)")
_NO_TYPE = "entity"
_ALSO = re.compile(r",[BIESLUMW]-(?=\S)")
"""Between two types of one entity."""
_DEFAULT = Layout(2, 0, 0, (1,))
NEEDLESS = "sentences in IOB1 with a B- that separates nothing, read as the start of an entity"


def looks_like(path: Path) -> bool:
    """Whether one column or more of the first rows hold entity tags."""
    if path.is_dir():
        return False
    lines = [Line(0, line) for line in head_lines(path, 16384)]
    kept = [line.text for line in lines if line.text.strip() and not _is_apart(line)]
    layout = layout_of(lambda: map(cells_of, kept))
    if layout is None or len(kept) < 2:
        return False
    rows = [layout.cells(row) for row in kept]
    if layout.tags != "prefixed":
        # A table of words and classes looks the same, but has no blank lines and not one class called O.
        outside = sum(row[-1] == "O" for row in rows)
        if outside < 0.3 * len(rows) or all(line.text.strip() for line in lines[:-1]):
            return False
    return all(len(row) == layout.columns and all(layout.is_tag(row[at], at) for at in layout.levels) for row in rows)


def read(path: Path, report: Report = raise_fault, noted: Notes | None = None) -> Iterator[Text]:
    """One text per sentence.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "dev.iob"
        >>> _ = path.write_text("Ada B-PER\\nLovelace I-PER\\nwrote O\\n")
        >>> [(edge.labels, edge.span) for edge in next(read(path)).edges["ner"]]
        [(('PER',), Span(start=0, end=2))]
    """
    layout = layout_of(lambda: (row for block in read_blocks(path, _ignore) for row in _rows(block))) or _DEFAULT
    columns = _columns(path, layout)
    noted = noted or Notes()
    for what in layout.said():
        noted.add(what, path.name)
    heading = Heading(path.stem)
    for block in read_blocks(path, report):
        if any(line.text.startswith(_DOCSTART) for line in block):
            heading.next_document()
        lines = [line for line in block if not _is_apart(line)]
        if not lines:
            continue
        heading.next_sentence(line.text for line in block if _is_apart(line))
        rows = [layout.cells(line.text) for line in lines]
        faults = list(_check(path, lines, rows, layout)) or list(_check_schemes(path, lines, rows, columns))
        for fault in faults:
            report(fault)
        if not faults:
            if any(needless_begins(column.tags(rows), column.scheme) for column in columns):
                noted.add(NEEDLESS, heading.sentence, heading.doc)
            words = tuple(row[layout.token].removeprefix(layout.prefix) for row in rows)
            yield Text(heading.sentence, words, edges=_edges(rows, layout, columns), doc=heading.doc)


class _Column(NamedTuple):
    """One column of tagged spans: where it is, what it becomes, and how it is written."""

    at: int
    annotation: str
    scheme: Scheme
    written: Tags = "prefixed"

    def tags(self, rows: Sequence[Sequence[str]]) -> list[str]:
        cells = (row[self.at] for row in rows if self.at < len(row))
        if self.written == "typeless":
            return [cell if cell == "O" else f"{cell}-{_NO_TYPE}" for cell in cells]
        return [_ALSO.sub(",", cell) for cell in cells]

    def wrong(self, rows: Sequence[Sequence[str]]) -> Iterator[tuple[int, str]]:
        """Position and description of every tag that is not allowed there."""
        if self.written != "stacked":
            yield from check_tags(self.tags(rows), self.scheme)
            return
        try:
            stacked_spans(self.tags(rows))
        except ValueError as error:
            yield 0, str(error)

    def spans(self, rows: Sequence[Sequence[str]]) -> list[Tagged]:
        tags = self.tags(rows)
        return stacked_spans(tags) if self.written == "stacked" else spans_of(tags, self.scheme)


def _columns(path: Path, layout: Layout) -> list[_Column]:
    """The columns of spans; all levels of nested entities share their scheme."""
    if layout.tags == "plain":
        return []
    found: list[_Column] = []
    chunks = () if layout.chunk is None else (layout.chunk,)
    levels = () if layout.untagged else layout.levels
    kinds: tuple[tuple[str, tuple[int, ...], Tags], ...] = (("ner", levels, layout.tags), ("chunk", chunks, "prefixed"))
    for annotation, places, written in kinds:
        tried = [_Column(at, annotation, "IOB2", written) for at in places]
        tags = (column.tags(_rows(block)) for block in read_blocks(path, _ignore) for column in tried)
        scheme = scheme_of([tag for tag in sentence if TAG.fullmatch(tag)] for sentence in tags) if tried else "IOB2"
        found += [column._replace(scheme=scheme) for column in tried]
    return found


def _ignore(_: Fault) -> None:
    """Ignore faults in the first passes, which only detect layout and scheme; reading the texts reports them."""


def _rows(block: Sequence[Line]) -> list[list[str]]:
    return [cells_of(line.text) for line in block if not _is_apart(line)]


def _is_apart(line: Line) -> bool:
    """Whether this is a comment or starts a document. A token may be # too: then a tag follows."""
    if line.text.startswith(_DOCSTART):
        return True
    if not line.text.startswith("#"):
        return False
    cells = cells_of(line.text)
    tagged = any(TAG.fullmatch(cell) for cell in cells[1:])
    pair = "\t" in line.text and len(cells) == 2 and " " not in cells[0]
    return _KEYED.match(line.text) is not None or not (tagged or pair)


def _check(path: Path, lines: Sequence[Line], rows: Sequence[Sequence[str]], layout: Layout) -> Iterator[Fault]:
    expected = (
        "one of " + ", ".join(["O", *layout.types]) if layout.types else "O, or a prefix and a type such as B-PER"
    )
    places = layout.levels if layout.chunk is None else (*layout.levels, layout.chunk)
    for line, row in zip(lines, rows, strict=True):
        wrong = next((at for at in places if at < len(row) and not layout.is_tag(row[at], at)), None)
        if len(row) != layout.columns:
            yield Fault(path, line.number, f"{len(row)} columns", f"{layout.columns}, as in most lines")
        elif not row[layout.token].removeprefix(layout.prefix):
            yield Fault(path, line.number, "no token", f"a token in column {layout.token + 1}")
        elif wrong is not None:
            yield Fault(path, line.number, f"column {wrong + 1} is {row[wrong]!r}", expected)


def _check_schemes(
    path: Path, lines: Sequence[Line], rows: Sequence[Sequence[str]], columns: Sequence[_Column]
) -> Iterator[Fault]:
    for column in columns:
        for at, what in column.wrong(rows):
            yield Fault(path, lines[at].number, what, f"tags in {column.scheme}")


def _edges(rows: Sequence[Sequence[str]], layout: Layout, columns: Sequence[_Column]) -> dict[str, tuple[Edge, ...]]:
    edges: dict[str, tuple[Edge, ...]] = {}
    for column in columns:
        found = (Edge(tuple(label.split(",")), span) for label, span in column.spans(rows))
        together = (*edges.get(column.annotation, ()), *found)
        edges[column.annotation] = tuple(sorted(together, key=lambda edge: (edge.span.start, -edge.span.end)))
    if layout.tags == "plain":
        tags = [row[-1] for row in rows]
        kinds = list(layout.types)
        if len(kinds) > 1:
            inside = [tag if tag == "O" else f"I-{tag}" for tag in tags]
            edges["ner"] = tuple(Edge((label,), span) for label, span in spans_of(inside, "IOB1"))
        else:
            edges[kinds[0].lower()] = _per_word(tags)
    if layout.pos is not None:
        edges["pos"] = _per_word([row[layout.pos] for row in rows])
    return edges


def _per_word(tags: Sequence[str]) -> tuple[Edge, ...]:
    return tuple(Edge((tag,), Span(at, at + 1)) for at, tag in enumerate(tags))
