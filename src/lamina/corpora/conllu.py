"""CoNLL-U: any Universal Dependencies treebank in any language, and CorefUD's entities.

A word is a syntactic word: of a multi-word token (`2-3 im`) the words `in dem` are read, and its own line is not one.
Empty nodes (`8.1`) are skipped. `pos` is UPOS, `xpos` the treebank's own tag, `dep` the basic dependencies; a column of
`_` means that the annotation is not there. A sentence is named by `# sent_id`, or else by the file and a running
number; a document by `# newdoc id`, or else by the file and a running number.

`ner` comes from `Entity=` in MISC: one edge a typed mention, nested ones too. `# global.Entity` says which field of a
mention is its type (the second, if there is no such line). A mention in several parts (`(e1[1/2]-...`) is left out,
since its words are not one span; how many were is logged. So is a mention that lies on empty nodes alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lamina.corpora.blocks import head_lines, read_blocks
from lamina.corpora.conllu_checks import COLUMNS, Row, check
from lamina.corpora.faults import Fault, Report, raise_fault
from lamina.corpora.headings import Heading, comments
from lamina.corpora.mentions import Cell, pair
from lamina.types import Edge, Span, Text

_ENTITY = "Entity="
_log = logging.getLogger(__name__)


def looks_like(path: Path) -> bool:
    """Whether this is CoNLL-U: the first line that is no comment has ten columns and the number of a word."""
    if path.is_dir():
        return False
    first = next((line for line in head_lines(path, 65536) if line.strip() and not line.startswith("#")), "")
    cells = first.split("\t")
    return len(cells) == COLUMNS and cells[0].split("-")[0] in ("1", "0.1")


def read(path: Path, report: Report = raise_fault) -> Iterator[Text]:
    """One text a sentence.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "two.conllu"
        >>> rows = ["1 Dogs _ NOUN _ _ 2 nsubj _ _", "2 bark _ VERB _ _ 0 root _ _"]
        >>> _ = path.write_text("\\n".join(rows).replace(" ", "\\t"))
        >>> text = next(read(path))
        >>> text.id, text.words, sorted(text.edges)
        ('two-1', ('Dogs', 'bark'), ['dep', 'pos'])
    """
    heading, entities = Heading(path.stem), _Entities()
    for block in read_blocks(path, report):
        about = [line.text for line in block if line.text.startswith("#")]
        heading.next_sentence(about)
        entities.take(about)
        rows = [Row(line.number, line.text.split("\t")) for line in block if not line.text.startswith("#")]
        faults = list(check(path, block[0].number, rows))
        for fault in faults:
            report(fault)
        if faults:
            continue
        try:
            ner = entities.edges(rows)
        except ValueError as error:
            report(Fault(path, rows[0].line, str(error), "every mention of Entity= opened and closed in its sentence"))
            continue
        words = [row for row in rows if row.is_word]
        edges = _columns(words) | ({} if ner is None else {"ner": ner})
        yield Text(heading.sentence, tuple(row.form for row in words), edges=edges, doc=heading.doc)
    if entities.discontinuous:
        _log.warning("%s: %d mentions in several parts left out of ner", path, entities.discontinuous)


def _columns(words: Sequence[Row]) -> dict[str, tuple[Edge, ...]]:
    """The annotations of the columns that hold one."""
    # One span a word, shared by its edges: they are most of what is made here.
    spans = [Span(at, at + 1) for at in range(len(words))]
    edges: dict[str, tuple[Edge, ...]] = {}
    for name, column in (("pos", 3), ("xpos", 4)):
        tags = (row.cells[column] for row in words)
        if found := tuple(Edge((tag,), span) for tag, span in zip(tags, spans, strict=True) if tag != "_"):
            edges[name] = found
    if words[0].head != "_":
        heads = (spans[int(row.head) - 1] if row.head != "0" else span for row, span in zip(words, spans, strict=True))
        relations = (row.relation for row in words)
        edges["dep"] = tuple(
            Edge((name,), span, head) for name, span, head in zip(relations, spans, heads, strict=True)
        )
    return edges


class _Fields(NamedTuple):
    """Which fields of a mention in `Entity=` name it and give its type."""

    name: int = 0
    type: int | None = 1

    @classmethod
    def declared(cls, header: str) -> _Fields:
        fields = header.split("-")
        names = [at for at, field in enumerate(fields) if field in ("GRP", "eid")]
        types = [at for at, field in enumerate(fields) if field in ("etype", "entity")]
        return cls(names[0] if names else 0, types[0] if types else None)

    def key(self, mention: str) -> str:
        fields = mention.split("-")
        return fields[min(self.name, len(fields) - 1)]

    def label(self, mention: str) -> str:
        fields = mention.split("-")
        return fields[self.type] if self.type is not None and self.type < len(fields) else ""


class _Entities:
    """Reads `Entity=`, sentence after sentence, as the file's comments say."""

    def __init__(self) -> None:
        self.discontinuous = 0
        self._fields = _Fields()
        self._announced = False

    def take(self, lines: Sequence[str]) -> None:
        for key, value in comments(lines):
            if key == "global.Entity":
                self._fields = _Fields.declared(value)
                self._announced = self._fields.type is not None

    def edges(self, rows: Sequence[Row]) -> tuple[Edge, ...] | None:
        """The typed mentions of a sentence; None where the file has not spoken of entities so far."""
        cells = list(_entity_cells(rows))
        self._announced |= bool(cells) and self._fields.type is not None
        if not self._announced:
            return None
        edges: list[Edge] = []
        for mention in pair(cells, self._fields.key):
            if "[" in self._fields.key(mention.name):
                self.discontinuous += self._fields.key(mention.name).partition("[")[2].startswith("1/")
            elif label := self._fields.label(mention.name):
                edges.append(Edge((label,), mention.span))
        return tuple(edges)


def _entity_cells(rows: Sequence[Row]) -> Iterator[Cell]:
    words = 0
    for row in rows:
        words += row.is_word
        value = next((item for item in row.cells[9].split("|") if item.startswith(_ENTITY)), "")
        if value and not row.is_range:
            # What opens on an empty node starts at the word after it, what closes on one ends at the word before.
            yield Cell(value.removeprefix(_ENTITY), words - row.is_word, words)
