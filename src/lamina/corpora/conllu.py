"""CoNLL-U and CoNLL-U Plus: any Universal Dependencies treebank in any language, and CorefUD's entities.

A word is a syntactic word: for a multi-word token (`2-3 im`) the words `in dem` are read, and its own line is skipped.
So are empty nodes (`8.1`). `pos` is UPOS, `xpos` the treebank's own tag, `dep` the basic dependencies; a column of `_`
means that the annotation is missing. Sentences are named by `# sent_id` and documents by `# newdoc id`, or else by the
file name and a running number.

`ner` and `chains` come from `Entity=` in MISC: one edge per mention, nested ones included; `ner` has those with a type.
`# global.Entity` says which field of a mention is its type (the second by default) and which its chain. A discontinuous
mention (`(e1[1/2]-...`) is left out, since its words are not one span; their number is logged. A mention on empty nodes
only is left out too.

`SpaceAfter=No` in MISC says which words are written without a space before them (`Text.glued`).

Further columns, named or not, are read as `conllu_plus` says.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lamina.corpora.conllu_plus import GAPS, STANDARD, Columns, columns_of, declared_columns, edges_of
from lamina.corpora.entities import Cell, pair
from lamina.corpora.notes import Notes
from lamina.corpora.reading import Fault, Heading, Line, Report, comments, head_lines, raise_fault, read_blocks
from lamina.types import Edge, Span, Text

COLUMNS = len(STANDARD)
_ID = re.compile(r"([0-9]{1,9})(?:([-.])([0-9]{1,9}))?")
_FIRST_ID = re.compile(r"1|0\.1|1-(?!1$)[1-9][0-9]{0,8}")
"""Of a word, an empty node before it, or a multi-word token; `1-1` is WebAnno's."""
_HEAD = re.compile(r"0|[1-9][0-9]{0,8}")
_NO_SPACE = "SpaceAfter=No"
_EXPECTED_HEAD = "the number of another word of the sentence, or 0 for the root"


class Row(NamedTuple):
    """One line of a sentence, split at tabs."""

    line: int
    cells: Sequence[str]

    @property
    def is_word(self) -> bool:
        """Whether it is neither a multi-word token nor an empty node."""
        return self.cells[0].isdecimal()

    @property
    def is_range(self) -> bool:
        """Whether it is a multi-word token."""
        return "-" in self.cells[0]

    @property
    def form(self) -> str:
        return self.cells[1]

    @property
    def head(self) -> str:
        return self.cells[6]

    @property
    def relation(self) -> str:
        return self.cells[7]


def check(path: Path, line: int, rows: Sequence[Row]) -> Iterator[Fault]:
    """Every fault of a sentence that starts at `line`; the tree is checked only if its rows are valid.

    Example:
        >>> [fault.what for fault in check(Path("a.conllu"), 1, [Row(1, ["1", "Dogs"])])]
        ['2 columns']
    """
    if not rows:
        yield Fault(path, line, "a sentence without words", "at least one line of ten columns after the comments")
        return
    faults = [*_check_columns(path, rows)]
    faults = faults or [*_check_ids(path, rows)]
    yield from faults
    words = [row for row in rows if row.is_word]
    if not faults and any(row.head != "_" for row in words):
        faults = [*_check_heads(path, words)]
        yield from faults or _check_tree(path, words)


def _check_columns(path: Path, rows: Sequence[Row]) -> Iterator[Fault]:
    for row in rows:
        if len(row.cells) != COLUMNS:
            yield Fault(path, row.line, f"{len(row.cells)} columns", f"{COLUMNS} columns separated by tabs")
        elif "" in row.cells:
            what = f"column {list(row.cells).index('') + 1} is empty"
            yield Fault(path, row.line, what, "a value, or _ if there is none")


def _check_ids(path: Path, rows: Sequence[Row]) -> Iterator[Fault]:
    last = empty = covered = 0
    for row in rows:
        match = _ID.fullmatch(row.cells[0])
        if match is None:
            yield Fault(path, row.line, f"id {row.cells[0]!r}", "a number, a range such as 2-3, or an empty node (8.1)")
            return
        first, mark, second = int(match[1]), match[2], int(match[3] or 0)
        if mark == "-":
            fits, covered, expected = covered < first == last + 1 <= second, second, f"a range from word {last + 1}"
        elif mark == ".":
            fits, empty, expected = (first, second) == (last, empty + 1), second, f"{last}.{empty + 1}"
        else:
            fits, expected, last, empty = first == last + 1, str(last + 1), first, 0
        if not fits:
            yield Fault(path, row.line, f"id {row.cells[0]} does not follow the one before it", expected)
            return
    if last == 0:
        yield Fault(path, rows[0].line, "a sentence without words", "at least one word besides empty nodes")
    elif covered > last:
        yield Fault(path, rows[-1].line, f"a multi-word token up to word {covered}", f"one within the {last} words")


def _check_heads(path: Path, words: Sequence[Row]) -> Iterator[Fault]:
    for row in words:
        if not _HEAD.fullmatch(row.head):
            yield Fault(path, row.line, f"head {row.head!r} is not a number", _EXPECTED_HEAD)
        elif int(row.head) > len(words):
            yield Fault(path, row.line, f"head {row.head} is outside the {len(words)} words", _EXPECTED_HEAD)
        elif row.relation == "_":
            yield Fault(path, row.line, "a head without a relation", "a relation such as nsubj in column 8")


def _check_tree(path: Path, words: Sequence[Row]) -> Iterator[Fault]:
    roots = [row for row in words if row.head == "0"]
    if len(roots) != 1:
        line = roots[1].line if roots else words[0].line
        yield Fault(path, line, f"{len(roots)} roots" if roots else "no root", "exactly one word with head 0")
    # 0 is the root; `sound` holds the words known to reach it.
    heads = [0, *(int(row.head) for row in words)]
    sound = {0}
    for row, start in zip(words, range(1, len(heads)), strict=True):
        seen: set[int] = set()
        at = start
        while at not in sound and at not in seen:
            seen.add(at)
            at = heads[at]
        if at not in sound:
            yield Fault(path, row.line, f"word {start} is its own ancestor", "a tree: heads that lead to the root")
            return
        sound.update(seen)


_ENTITY = "Entity="
_log = logging.getLogger(__name__)


def looks_like(path: Path) -> bool:
    """Whether this is CoNLL-U: `# global.columns`, or ten columns and a word number in the first non-comment line.

    More than ten columns are CoNLL-U too, if the seventh holds heads.
    """
    if path.is_dir():
        return False
    lines = [line for line in head_lines(path, 65536) if line.strip()]
    if declared_columns(lines[:1]) is not None:
        return True
    rows = [line.split("\t") for line in lines if not line.startswith("#")][:2]
    if not rows or len(rows[0]) < COLUMNS or not _FIRST_ID.fullmatch(rows[0][0]):
        return False
    return len(rows[0]) == COLUMNS or all(len(row) > 6 and (row[6] == "_" or _HEAD.fullmatch(row[6])) for row in rows)


def read(path: Path, report: Report = raise_fault, noted: Notes | None = None) -> Iterator[Text]:
    """One text per sentence.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "two.conllu"
        >>> rows = ["1 Dogs _ NOUN _ _ 2 nsubj _ _", "2 bark _ VERB _ _ 0 root _ _"]
        >>> _ = path.write_text("\\n".join(rows).replace(" ", "\\t"))
        >>> text = next(read(path))
        >>> text.id, text.words, sorted(text.edges)
        ('two-1', ('Dogs', 'bark'), ['dep', 'pos'])
    """
    heading, entities, columns = Heading(path.stem), _Entities(), columns_of(path)
    noted = noted or Notes()
    if "FORM" not in columns.names:
        report(Fault(path, 1, f"columns {' '.join(columns.names)}", "# global.columns with FORM, the word"))
        return
    for what in columns.said():
        noted.add(what, path.name)
    for block in read_blocks(path, report):
        about = [line.text for line in block if line.text.startswith("#")]
        if len(about) == len(block) and declared_columns(about):
            # The header may be followed by a blank line.
            continue
        heading.next_sentence(about)
        entities.take(about)
        sentence = _Sentence.parse(path, block, columns)
        for fault in sentence.faults:
            report(fault)
        if sentence.faults:
            continue
        words = [row for row in sentence.rows if row.is_word]
        try:
            mentions = entities.edges(sentence.rows)
        except ValueError as error:
            expected = "every mention in Entity= opened and closed in its sentence"
            report(Fault(path, words[0].line, str(error), expected))
            continue
        try:
            further = edges_of(columns, sentence.words)
        except ValueError as error:
            report(Fault(path, words[0].line, str(error), "columns as their names say"))
            continue
        for number in range(further.gaps):
            noted.add(GAPS, f"{heading.sentence}:{number + 1}", heading.doc)
        edges = _columns(words) | mentions | further.edges
        forms, glued = tuple(row.form for row in words), _glued(sentence.rows)
        yield Text(heading.sentence, forms, edges=edges, doc=heading.doc, glued=glued)
    if entities.discontinuous:
        _log.warning("%s: %d discontinuous mentions left out of ner and chains", path, entities.discontinuous)


class _Sentence(NamedTuple):
    """The rows of a sentence in the ten columns, its words in all columns, and its faults."""

    rows: list[Row]
    words: list[list[str]]
    faults: list[Fault]

    @classmethod
    def parse(cls, path: Path, block: Sequence[Line], columns: Columns) -> _Sentence:
        lines = [(line.number, line.text.split("\t")) for line in block if not line.text.startswith("#")]
        if columns.is_plain:
            rows = [Row(*line) for line in lines]
            return cls(rows, [], list(check(path, block[0].number, rows)))
        expected = f"{len(columns.names)} columns separated by tabs ({' '.join(columns.names)})"
        wrong = [(number, cells) for number, cells in lines if not columns.fits(cells)]
        faults = [Fault(path, number, f"{len(cells)} columns", expected) for number, cells in wrong]
        rows = [] if wrong else [Row(at, columns.standard(cells, n)) for n, (at, cells) in enumerate(lines, start=1)]
        faults = faults or list(check(path, block[0].number, rows))
        words = [cells for (_, cells), row in zip(lines, rows, strict=False) if row.is_word]
        return cls(rows, words, faults)


def _glued(rows: Sequence[Row]) -> tuple[int, ...]:
    """The words without a space before them: `SpaceAfter=No` is in MISC of the token before, or they are its parts.

    The parts of a multi-word token (`don't`: `do`, `n't`) are glued where they spell it; `in dem` does not spell `im`.

    Example:
        >>> lines = ["1-2 don't _", "1 do _", "2 n't _", "3 go SpaceAfter=No", "4 . _"]
        >>> _glued([Row(0, [number, form, *"_______", misc]) for number, form, misc in map(str.split, lines)])
        (1, 3)
    """
    words = [row for row in rows if row.is_word]
    parts: set[int] = set()
    followed: set[int] = set()
    for row in rows:
        if row.is_range:
            first, last = map(int, row.cells[0].split("-"))
            parts.update(range(first, last + 1))
            if "".join(word.form for word in words[first - 1 : last]) == row.form:
                followed.update(range(first, last))
            if _NO_SPACE in row.cells[9].split("|"):
                followed.add(last)
    followed |= {at for at, row in enumerate(words, 1) if at not in parts and _NO_SPACE in row.cells[9].split("|")}
    return tuple(sorted(at for at in followed if at < len(words)))


def _columns(words: Sequence[Row]) -> dict[str, tuple[Edge, ...]]:
    """The annotations of all columns that have one."""
    # One span per word, shared by its edges: spans are most of the objects created here.
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
    """Which fields of a mention in `Entity=` hold its name and its type."""

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
    """Reads `Entity=`, sentence by sentence, as declared in the file's comments."""

    def __init__(self) -> None:
        self.discontinuous = 0
        self._fields = _Fields()
        self._announced = False

    def take(self, lines: Sequence[str]) -> None:
        for key, value in comments(lines):
            if key == "global.Entity":
                self._fields = _Fields.declared(value)
                self._announced = True

    def edges(self, rows: Sequence[Row]) -> dict[str, tuple[Edge, ...]]:
        """The mentions of a sentence; none at all if the file has not mentioned entities so far."""
        cells = list(_entity_cells(rows))
        self._announced |= bool(cells)
        if not self._announced:
            return {}
        typed: list[Edge] = []
        chains: list[Edge] = []
        for mention in pair(cells, self._fields.key):
            chain = self._fields.key(mention.name)
            if "[" in chain:
                self.discontinuous += chain.partition("[")[2].startswith("1/")
                continue
            chains.append(Edge((chain,), mention.span))
            if label := self._fields.label(mention.name):
                typed.append(Edge((label,), mention.span))
        has_types = self._fields.type is not None
        return ({"ner": tuple(typed)} if has_types else {}) | {"chains": tuple(chains)}


def _entity_cells(rows: Sequence[Row]) -> Iterator[Cell]:
    words = 0
    for row in rows:
        words += row.is_word
        value = next((item for item in row.cells[9].split("|") if item.startswith(_ENTITY)), "")
        if value and not row.is_range:
            # A mention opened on an empty node starts at the next word; one closed there ends at the previous word.
            yield Cell(value.removeprefix(_ENTITY), words - row.is_word, words)
