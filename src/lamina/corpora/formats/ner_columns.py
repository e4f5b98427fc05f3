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
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from lamina.corpora.entities import (
    STACKED,
    TAG,
    Scheme,
    TaggedSpan,
    check_tags,
    needless_begins,
    scheme_of,
    spans_of,
    stacked_spans,
)
from lamina.corpora.reading import Fault, Heading, Line, Notes, Report, head_lines, raise_fault, read_blocks
from lamina.types import Edge, Span, Text

# Which column of a one-token-per-line file holds the token, its entity tags, its part of speech and its chunk.

Tags = Literal["prefixed", "stacked", "typeless", "plain"]
"""`B-PER`; `B-ORG|B-LOC` with a tag per level of nesting; `B` without a type; `PER` without a prefix."""

_TYPELESS = frozenset("BIESLUMW")
_TYPE = re.compile(r"(?![A-Za-z][-_])[^\W\d_][\w.&/+:-]*(?<![-_][BIESLUMW])")
"""A type without a prefix: neither `B_PER` nor `PER-B`."""
_PHRASES = "NP VP PP ADJP ADVP SBAR PRT CONJP INTJ LST UCP NC VC PC NX"
_CHUNKS = frozenset(_PHRASES.split())
"""Phrases of CoNLL-2000 and CoNLL-2003, English and German."""
_UNIVERSAL = "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X CONJ"
_PENN = (
    "CC CD DT EX FW IN JJ JJR JJS LS MD NN NNS NNP NNPS PDT POS PRP PRP$ RB RBR RBS RP TO UH VB VBD VBG VBN VBP VBZ "
    "WDT WP WP$ WRB # $ . , : ( ) \" '' `` -LRB- -RRB- HYPH NFP AFX GW ADD XX NN|SYM -X-"
)
_STUTTGART = (
    "ADJA ADJD APPR APPRART APPO APZR ART CARD FM ITJ KOUI KOUS KON KOKOM NE PDS PDAT PIS PIAT PIDAT PPER PPOSS PPOSAT "
    "PRELS PRELAT PRF PWS PWAT PWAV PAV PROAV PTKZU PTKNEG PTKVZ PTKANT PTKA TRUNC VVFIN VVIMP VVINF VVIZU VVPP VAFIN "
    "VAIMP VAINF VAPP VMFIN VMINF VMPP XY $, $. $("
)
_DUTCH = "N Adj V Punc Prep Art Pron Adv Num Conj Misc Int"
_PARTS_OF_SPEECH = frozenset(f"{_UNIVERSAL} {_PENN} {_STUTTGART} {_DUTCH}".split())
"""Of Universal Dependencies, the Penn Treebank, Stuttgart-Tuebingen, and the Dutch part of CoNLL-2002."""
_BLANK = frozenset({"", "-", "_", "--", "*"})
_MOST_VALUES = 2000
"""Different values kept per column; labels are fewer."""
_MOST_COLUMNS = 100
"""A line with more is running text."""
_MOST_TYPES = 200
"""Different plain tags: more are words, not types."""
_LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[a-z]+)?:")


class EntityLayout(NamedTuple):
    """Which columns of a file hold what, counted from 0."""

    columns: int
    dropped: int
    """Empty cells at the end of every row."""
    token: int
    levels: tuple[int, ...]
    """The columns of entity tags: several where entities nest."""
    tags: Tags = "prefixed"
    types: tuple[str, ...] = ()
    """The types of plain tags, `O` not among them."""
    chunk: int | None = None
    pos: int | None = None
    unread: tuple[int, ...] = ()
    """Columns of unknown content."""
    prefix: str = ""
    """What every token starts with, such as the language (`de:`)."""
    untagged: bool = False
    """Whether the only tag is O, so that what it is not cannot be known."""

    def cells(self, row: str) -> list[str]:
        """The cells of a row."""
        cells = cells_of(row)
        return cells[: len(cells) - self.dropped] if self.dropped and not cells[-1] else cells

    def is_tag(self, cell: str, column: int) -> bool:
        """Whether a cell of a column may be a tag of this file."""
        if column == self.chunk or self.tags in ("prefixed", "stacked"):
            return TAG.fullmatch(cell) is not None
        return cell == "O" or (cell in _TYPELESS if self.tags == "typeless" else cell in self.types)

    def remarks(self) -> list[str]:
        """What a reader of the file should know."""
        remarks: list[str] = []
        if self.tags == "stacked":
            remarks.append("files with nested entities in one column (B-ORG|B-LOC), all of them read as ner")
        if len(self.levels) > 1 and not self.untagged:
            remarks.append(f"files with {len(self.levels)} columns of nested entities, all of them read as ner")
        if self.unread:
            columns = ", ".join(str(column + 1) for column in self.unread)
            remarks.append(f"files with columns of unknown content, which are not read (column {columns})")
        if self.tags == "plain" and len(self.types) > 1:
            remarks.append("files with entity types but no B- or I-: neighbouring words of one type are one entity")
        if self.untagged:
            remarks.append("files in which every tag is O, read without ner (their annotation is unknown)")
        if self.prefix:
            remarks.append(f"files in which every token starts with {self.prefix!r}, which is removed")
        return remarks


def cells_of(row: str) -> list[str]:
    """Columns are separated by tabs, or by spaces if a line has no tab.

    Example:
        >>> cells_of("New York\\tB-LOC"), cells_of("Rome B-LOC")
        (['New York', 'B-LOC'], ['Rome', 'B-LOC'])
    """
    return [cell.strip() for cell in row.split("\t")] if "\t" in row else row.split()


class _ColumnSurvey:
    """The values of one column."""

    def __init__(self) -> None:
        self.values: Counter[str] = Counter()
        self.many = False
        """Whether there are more different values than are kept."""

    def add(self, cell: str) -> None:
        if cell in self.values or len(self.values) < _MOST_VALUES:
            self.values[cell] += 1
        else:
            self.many = True

    @property
    def size(self) -> int:
        return self.values.total()

    def share(self, of: Iterable[str]) -> float:
        """Share of the cells that have one of these values."""
        return sum(self.values[value] for value in of) / max(1, self.size)

    @property
    def tagged(self) -> list[str]:
        """The values other than O."""
        return [value for value in self.values if value != "O"]

    @property
    def is_prefixed(self) -> bool:
        """Whether it holds tags such as B-PER: most of its cells, and of those other than O, one faulty cell aside."""
        outside = sum(self.values[value] for value in self.tagged)
        fitting = sum(self.values[value] for value in self.tagged if TAG.fullmatch(value))
        return not self.many and 2 * (fitting + self.values["O"]) > self.size and 2 * fitting >= outside

    @property
    def is_stacked(self) -> bool:
        """Whether a cell holds several tags."""
        return any(STACKED.search(value) for value in self.values)

    @property
    def is_typeless(self) -> bool:
        """Whether it holds B, I and O alone."""
        return {"B", "O"} <= set(self.values) <= _TYPELESS | {"O"}

    @property
    def is_plain(self) -> bool:
        """Whether it holds types and O."""
        return (
            not self.many
            and len(self.values) <= _MOST_TYPES
            and self.values["O"] > 0
            and all(_TYPE.fullmatch(value) for value in self.tagged)
        )

    @property
    def is_number(self) -> bool:
        return self.share(filter(str.isdecimal, self.values)) > 0.5

    @property
    def types(self) -> set[str]:
        return {value.partition("-")[2] for value in self.tagged if TAG.fullmatch(value)}

    def is_chunk(self, beside: bool) -> bool:
        """Whether it holds phrases; one not `beside` other tags needs noun phrases, since `PC` may be a type."""
        return bool(self.types) and self.types <= _CHUNKS and (beside or not self.types.isdisjoint({"NP", "NC"}))

    @property
    def is_informative(self) -> bool:
        """Whether its cells differ and are not just blank."""
        return len(self.values.keys() - _BLANK) > 0 and len(self.values) > 1


def layout_of(read_rows: Callable[[], Iterable[Sequence[str]]]) -> EntityLayout | None:
    """The layout of most rows, so that one faulty row does not mislead; None if no column holds tags.

    `read_rows` is called twice, so that a large file need not fit in memory.

    Example:
        >>> layout_of(lambda: [["EU", "NNP", "I-NP", "I-ORG"], ["rejects", "VBZ", "I-VP", "O"]])[2:4]
        (0, (3,))
        >>> layout_of(lambda: [["1", "Bonner", "B-LOCderiv", "O"], ["2", "Uni", "I-ORG", "B-LOC"]]).levels
        (2, 3)
    """
    widths = Counter(len(row) for row in read_rows())
    if not widths:
        return None
    width = widths.most_common(1)[0][0]
    if width > _MOST_COLUMNS:
        return None
    columns = [_ColumnSurvey() for _ in range(width)]
    for row in read_rows():
        if len(row) == width:
            for column, cell in zip(columns, row, strict=True):
                column.add(cell)
    dropped = int(width > 2 and set(columns[-1].values) == {""})
    return _arranged(columns[: width - dropped], dropped)


def _arranged(columns: Sequence[_ColumnSurvey], dropped: int) -> EntityLayout | None:
    size = len(columns)
    prefixed = [index for index in range(size) if columns[index].is_prefixed]
    numbered = size > 2 and columns[0].is_number
    # The tag may come first, as in `B-Genre<TAB>comedy`; character offsets may follow it.
    first = 0 in prefixed and not numbered
    words = (index for index in range(size) if index not in prefixed and not columns[index].is_number)
    token = 1 if numbered else next(words, 0) if first else 0
    tagged = [index for index in prefixed if index != token]
    chunk = next((index for index in tagged if columns[index].is_chunk(len(tagged) > 1)), None)
    levels = tuple(index for index in tagged if index != chunk and (index < token or not first))
    tags: Tags = "stacked" if any(columns[index].is_stacked for index in levels) else "prefixed"
    types: tuple[str, ...] = ()
    if not tagged:
        last = columns[-1]
        if size - 1 == token or not (last.is_typeless or last.is_plain):
            return None
        levels, tags, types = (size - 1,), "typeless" if last.is_typeless else "plain", tuple(sorted(last.tagged))
    pos = next(
        (index for index in range(size) if index not in (token, *tagged, *levels) and _is_pos(columns[index])), None
    )
    # Where tokens are numbered, the columns after the tag say where it is from (Universal NER).
    beyond = range(max((*levels, *tagged)) + 1, size) if numbered else ()
    known = {token, chunk, *levels, pos, *beyond, *([0] if numbered else [])}
    unread = tuple(index for index in range(size) if index not in known and columns[index].is_informative)
    untagged = bool(levels) and all(set(columns[index].values) <= {"O"} for index in levels)
    return EntityLayout(
        size, dropped, token, levels, tags, types, chunk, pos, unread, _prefix(columns[token]), untagged
    )


def _is_pos(column: _ColumnSurvey) -> bool:
    return not column.many and column.share(_PARTS_OF_SPEECH) >= 0.95 and column.share(_BLANK) < 0.5


def _prefix(column: _ColumnSurvey) -> str:
    """The language that every token of WikiANN starts with."""
    prefix = next((match[0] for value in column.values if (match := _LANGUAGE.match(value))), "")
    return (
        prefix if prefix and len(column.values) > 1 and all(value.startswith(prefix) for value in column.values) else ""
    )


_DOCSTART = "-DOCSTART-"
_KEYED = re.compile(r"#\s*(\S+(\s+id)?\s*=|newdoc|newpar)")
_NO_TYPE = "entity"
_ALSO = re.compile(r",[BIESLUMW]-(?=\S)")
"""Between two types of one entity."""
_DEFAULT = EntityLayout(2, 0, 0, (1,))
NEEDLESS = "sentences in IOB1 with a B- that separates nothing, read as the start of an entity"


def looks_like(path: Path) -> bool:
    """Whether one column or more of the first rows hold entity tags."""
    if path.is_dir():
        return False
    lines = [Line(0, line) for line in head_lines(path, 16384)]
    data_lines = [line.text for line in lines if line.text.strip() and not _is_apart(line)]
    layout = layout_of(lambda: map(cells_of, data_lines))
    if layout is None or len(data_lines) < 2:
        return False
    rows = [layout.cells(row) for row in data_lines]
    if layout.tags != "prefixed":
        # A table of words and classes looks the same, but has no blank lines and not one class called O.
        outside = sum(row[-1] == "O" for row in rows)
        if outside < 0.3 * len(rows) or all(line.text.strip() for line in lines[:-1]):
            return False
    return all(
        len(row) == layout.columns and all(layout.is_tag(row[level], level) for level in layout.levels) for row in rows
    )


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
    for what in layout.remarks():
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


class _TagColumn(NamedTuple):
    """One column of tagged spans: where it is, what it becomes, and how it is written."""

    position: int
    annotation: str
    scheme: Scheme
    written: Tags = "prefixed"

    def tags(self, rows: Sequence[Sequence[str]]) -> list[str]:
        cells = (row[self.position] for row in rows if self.position < len(row))
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

    def spans(self, rows: Sequence[Sequence[str]]) -> list[TaggedSpan]:
        tags = self.tags(rows)
        return stacked_spans(tags) if self.written == "stacked" else spans_of(tags, self.scheme)


def _columns(path: Path, layout: EntityLayout) -> list[_TagColumn]:
    """The columns of spans; all levels of nested entities share their scheme."""
    if layout.tags == "plain":
        return []
    columns: list[_TagColumn] = []
    chunks = () if layout.chunk is None else (layout.chunk,)
    levels = () if layout.untagged else layout.levels
    kinds: tuple[tuple[str, tuple[int, ...], Tags], ...] = (("ner", levels, layout.tags), ("chunk", chunks, "prefixed"))
    for annotation, places, written in kinds:
        tried = [_TagColumn(place, annotation, "IOB2", written) for place in places]
        tags = (column.tags(_rows(block)) for block in read_blocks(path, _ignore) for column in tried)
        scheme = scheme_of([tag for tag in sentence if TAG.fullmatch(tag)] for sentence in tags) if tried else "IOB2"
        columns += [column._replace(scheme=scheme) for column in tried]
    return columns


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


def _check(path: Path, lines: Sequence[Line], rows: Sequence[Sequence[str]], layout: EntityLayout) -> Iterator[Fault]:
    expected = (
        "one of " + ", ".join(["O", *layout.types]) if layout.types else "O, or a prefix and a type such as B-PER"
    )
    places = layout.levels if layout.chunk is None else (*layout.levels, layout.chunk)
    for line, row in zip(lines, rows, strict=True):
        wrong = next((place for place in places if place < len(row) and not layout.is_tag(row[place], place)), None)
        if len(row) != layout.columns:
            yield Fault(path, line.number, f"{len(row)} columns", f"{layout.columns}, as in most lines")
        elif not row[layout.token].removeprefix(layout.prefix):
            yield Fault(path, line.number, "no token", f"a token in column {layout.token + 1}")
        elif wrong is not None:
            yield Fault(path, line.number, f"column {wrong + 1} is {row[wrong]!r}", expected)


def _check_schemes(
    path: Path, lines: Sequence[Line], rows: Sequence[Sequence[str]], columns: Sequence[_TagColumn]
) -> Iterator[Fault]:
    for column in columns:
        for number, what in column.wrong(rows):
            yield Fault(path, lines[number].number, what, f"tags in {column.scheme}")


def _edges(
    rows: Sequence[Sequence[str]], layout: EntityLayout, columns: Sequence[_TagColumn]
) -> dict[str, tuple[Edge, ...]]:
    edges: dict[str, tuple[Edge, ...]] = {}
    for column in columns:
        spans = (Edge(tuple(label.split(",")), span) for label, span in column.spans(rows))
        together = (*edges.get(column.annotation, ()), *spans)
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
    return tuple(Edge((tag,), Span(word, word + 1)) for word, tag in enumerate(tags))
