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
from typing import Literal, NamedTuple

from lamina.corpora.entities import TAG, MentionCell, check_tags, mentions_in, scheme_of, spans_of
from lamina.corpora.reading import (
    Fault,
    Heading,
    Line,
    Notes,
    Report,
    comments,
    head_lines,
    raise_fault,
    read_blocks,
    whole_number,
)
from lamina.types import Edge, Span, Text

# Columns of CoNLL-U files beyond the ten: named by `# global.columns` (CoNLL-U Plus), or one per predicate.
#
# Columns with a meaning of their own: `PARSEME:MWE` is `mwe`, multi-word expressions with their categories; `UP:PRED`
# is `predicate`, `UP:ARGSPANS` (else `UP:ARGHEADS`) is `srl`. Any other column is an annotation named after it, in
# lower case (`STREUSLE:SS` is `streusle_ss`): spans, if its cells are tags such as `B-PER`; otherwise one label per
# word. `_` means no annotation, `*` that there is nothing at this word. A column with more than 500 different values
# holds no labels and is not read, which is noted.
#
# Without `# global.columns`, additional columns are the predicates of Universal Propositions: each predicate (`Y` in
# column 9 and its sense in column 10, or its sense in column 11) has a column with its arguments, in order. Arguments
# are head words. If additional columns do not fit that, they are read as columns named `column_11` and so on.

STANDARD = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
_SIZE = len(STANDARD)
_FLAG, _MISC, _SENSE = 8, 9, 10
_MOST_LABELS = 500
_EMPTY = ("_", "*")
_BLANK = ("_", "")
GAPS = "multi-word expressions with a gap, left out"

Frames = Literal["flagged", "own"]
"""How predicates are marked: `Y` in column 9 and the sense in column 10, or the sense in column 11."""


class ExtraColumn(NamedTuple):
    """One additional column."""

    position: int
    annotation: str
    tags: tuple[str, ...] = ()
    """All tags of the file, if it holds spans; they show the scheme."""


class ConlluColumns(NamedTuple):
    """The columns of a file."""

    names: tuple[str, ...] = STANDARD
    extras: tuple[ExtraColumn, ...] = ()
    frames: Frames | None = None
    unread: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether these are the ten columns and nothing else."""
        return self.names == STANDARD and self.frames is None

    def fits(self, row: Sequence[str]) -> bool:
        """Whether a row has as many columns as the file."""
        return len(row) >= _SIZE if self.frames else len(row) == len(self.names)

    def standard(self, row: Sequence[str], number: int) -> list[str]:
        """The ten columns of a row; `number` is its number, in case the file has none."""
        if self.is_plain:
            return list(row)
        if self.frames is not None:
            basic = list(row[:_SIZE])
            return [*basic[:_FLAG], "_", "_"] if self.frames == "flagged" else basic
        cells = dict(zip(self.names, row, strict=False))
        return [cells.get(name, str(number) if name == "ID" else "_") for name in STANDARD]

    def remarks(self) -> Iterator[str]:
        """What a reader of the file should know."""
        if self.unread:
            yield f"files with columns whose cells are no labels, which are not read ({', '.join(self.unread)})"


def columns_of(path: Path) -> ConlluColumns:
    """The columns of a file; the usual ones take one quick pass.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a.cupt"
        >>> _ = path.write_text("# global.columns = ID FORM PARSEME:MWE\\n1\\tgive\\t1:VPC\\n2\\tup\\t1\\n")
        >>> columns_of(path).extras[0].annotation
        'mwe'
    """
    declared = _declared(path)
    if declared is None and not _is_wide(path):
        return ConlluColumns()
    sentences = ([row for row in rows if row[0].isdecimal()] for rows in _sentences(path))
    if declared is not None:
        return _named(declared, _values(path, declared)) if declared != STANDARD else ConlluColumns()
    return _unnamed(path, [_shape(rows) for rows in sentences if rows])


def declared_columns(lines: Sequence[str]) -> tuple[str, ...] | None:
    """The names in `# global.columns`, if the line is there.

    Example:
        >>> declared_columns(["# global.columns = ID FORM"])
        ('ID', 'FORM')
    """
    return next((tuple(value.split()) for key, value in comments(lines) if key == "global.columns"), None)


def _declared(path: Path) -> tuple[str, ...] | None:
    block = next(iter(read_blocks(path, _ignore)), [])
    return declared_columns([line.text for line in block if line.text.startswith("#")])


def _is_wide(path: Path) -> bool:
    return any(line.text.count("\t") >= _SIZE for block in read_blocks(path, _ignore) for line in block)


def _ignore(_: Fault) -> None:
    """Ignore faults in the first passes, which only detect the columns; reading the texts reports them."""


def _sentences(path: Path) -> Iterator[list[list[str]]]:
    for block in read_blocks(path, _ignore):
        yield [line.text.split("\t") for line in block if not line.text.startswith("#")]


def _values(path: Path, names: Sequence[str]) -> dict[str, set[str]]:
    """Name -> the values of an additional column, more than the most labels if there are many."""
    values: dict[str, set[str]] = {name: set() for name in names if name not in STANDARD}
    for rows in _sentences(path):
        for row in rows:
            for name, cell in zip(names, row, strict=False):
                if name in values and len(values[name]) <= _MOST_LABELS:
                    values[name].add(cell)
    return values


_KNOWN = {"PARSEME:MWE": "mwe", "UP:PRED": "predicate", "UP:ARGSPANS": "srl", "UP:ARGHEADS": "srl"}


def _named(names: tuple[str, ...], values: dict[str, set[str]]) -> ConlluColumns:
    extras: list[ExtraColumn] = []
    unread: list[str] = []
    for index, name in enumerate(names):
        if name in STANDARD or not values[name] - set(_EMPTY) or (name == "UP:ARGHEADS" and "UP:ARGSPANS" in names):
            continue
        labels = values[name] - set(_EMPTY)
        if name in _KNOWN:
            extras.append(ExtraColumn(index, _KNOWN[name]))
        elif len(values[name]) > _MOST_LABELS:
            unread.append(name)
        else:
            spans = all(TAG.fullmatch(label) for label in labels) and any(label != "O" for label in labels)
            extras.append(ExtraColumn(index, name.lower().replace(":", "_"), tuple(sorted(labels)) if spans else ()))
    return ConlluColumns(names, tuple(extras), None, tuple(unread))


class _SentenceShape(NamedTuple):
    """The columns of one sentence: how many, and how many predicates they would be for."""

    width: int
    """0 if its rows differ."""
    flagged: int
    senses: int
    filled: int
    """Columns up to the last one that has a cell other than `_`."""

    @property
    def fits_flagged(self) -> bool:
        return self.width == _SIZE + self.flagged

    @property
    def fits_senses(self) -> bool:
        return self.width > _SIZE and self.filled <= _SENSE + 1 + self.senses <= self.width


def _shape(rows: Sequence[Sequence[str]]) -> _SentenceShape:
    width = len(rows[0]) if len({len(row) for row in rows}) == 1 else 0
    if width < _SIZE:
        return _SentenceShape(0, 0, 0, 0)
    flagged = sum(row[_FLAG] == "Y" for row in rows)
    senses = sum(row[_SENSE] not in _BLANK for row in rows) if width > _SIZE else 0
    filled = max(index + 1 for row in rows for index, cell in enumerate(row) if cell not in _BLANK)
    return _SentenceShape(width, flagged, senses, filled)


def _unnamed(path: Path, shapes: Sequence[_SentenceShape]) -> ConlluColumns:
    wide = [shape for shape in shapes if shape.width > _SIZE]
    if 2 * sum(shape.fits_flagged for shape in wide) > len(wide):
        return ConlluColumns(frames="flagged")
    if 2 * sum(shape.fits_senses for shape in wide) > len(wide) and len({shape.width for shape in wide}) > 1:
        return ConlluColumns(frames="own")
    width = wide[0].width if wide else _SIZE
    if 2 * sum(shape.width == width for shape in shapes) <= len(shapes):
        return ConlluColumns()
    names = (*STANDARD, *(f"column_{index + 1}" for index in range(_SIZE, width)))
    return _named(names, _values(path, names))


class ExtraEdges(NamedTuple):
    """The annotations of a sentence's additional columns."""

    edges: dict[str, tuple[Edge, ...]]
    gaps: int
    """Multi-word expressions with a gap, which have no span."""


def edges_of(columns: ConlluColumns, rows: Sequence[Sequence[str]]) -> ExtraEdges:
    """The annotations of the rows of a sentence's words; a ValueError says what is wrong with one.

    Example:
        >>> columns = ConlluColumns(("ID", "FORM", "PARSEME:MWE"), (ExtraColumn(2, "mwe"),))
        >>> edges_of(columns, [["1", "give", "1:VPC"], ["2", "up", "1"]]).edges["mwe"]
        (Edge(labels=('VPC',), span=Span(start=0, end=2), other=None, rated=None, value=None),)
    """
    if columns.frames is not None:
        return ExtraEdges(_frames(columns.frames, rows), 0)
    edges: dict[str, tuple[Edge, ...]] = {}
    gaps = 0
    for extra in columns.extras:
        cells = [row[extra.position] for row in rows]
        name = columns.names[extra.position]
        if all(cell == "_" for cell in cells):
            continue
        if name == "PARSEME:MWE":
            edges["mwe"], gaps = _expressions(cells)
        elif name in ("UP:ARGSPANS", "UP:ARGHEADS"):
            edges["srl"] = tuple(_arguments(cells))
        elif extra.tags:
            edges[extra.annotation] = _spans(cells, extra)
        else:
            edges[extra.annotation] = _per_word(cells)
    return ExtraEdges(edges, gaps)


def _per_word(cells: Sequence[str]) -> tuple[Edge, ...]:
    return tuple(Edge((cell,), Span(word, word + 1)) for word, cell in enumerate(cells) if cell not in _EMPTY)


def _spans(cells: Sequence[str], extra: ExtraColumn) -> tuple[Edge, ...]:
    tags = ["O" if cell in _EMPTY else cell for cell in cells]
    scheme = scheme_of([*([tag] for tag in extra.tags if tag[0] in "BESLUW"), tags])
    for word, what in check_tags(tags, scheme):
        raise ValueError(f"{extra.annotation}, word {word + 1}: {what}")
    return tuple(Edge((label,), span) for label, span in spans_of(tags, scheme))


def _expressions(cells: Sequence[str]) -> tuple[tuple[Edge, ...], int]:
    """Expressions of a PARSEME column (`1:VID`, `1`, `1;2:LVC.full`), and how many have a gap."""
    members: dict[str, list[int]] = {}
    categories: dict[str, str] = {}
    for word, cell in enumerate(cells):
        for part in cell.split(";") if cell not in _EMPTY else ():
            number, _, category = part.partition(":")
            if whole_number(number) is None:
                raise ValueError(f"word {word + 1}: {cell!r} is not the number of a multi-word expression")
            members.setdefault(number, []).append(word)
            categories |= {number: category} if category else {}
    whole = {number: places for number, places in members.items() if places[-1] - places[0] == len(places) - 1}
    edges = (Edge((categories.get(number, "MWE"),), Span(words[0], words[-1] + 1)) for number, words in whole.items())
    return tuple(edges), len(members) - len(whole)


def _arguments(cells: Sequence[str]) -> Iterator[Edge]:
    """Arguments in the row of their predicate: `A0:3|A1:5-8`, by the ids of words."""
    for word, cell in enumerate(cells):
        for part in cell.split("|") if cell not in _EMPTY else ():
            role, _, place = part.rpartition(":")
            first, _, last = place.partition("-")
            start, end = whole_number(first), whole_number(last or first)
            if not role or start is None or end is None or not 0 < start <= end <= len(cells):
                raise ValueError(f"word {word + 1}: {part!r} is no role and words of this sentence (A0:3, A1:5-8)")
            if role != "V":
                yield Edge((role,), Span(word, word + 1), Span(start - 1, end))


def _frames(frames: Frames, rows: Sequence[Sequence[str]]) -> dict[str, tuple[Edge, ...]]:
    """Predicates and their arguments, one column per predicate."""
    width = len(rows[0])
    first, sense = (_SIZE, _MISC) if frames == "flagged" else (_SENSE + 1, _SENSE)
    marked = [word for word, row in enumerate(rows) if _is_predicate(frames, row)]
    filled = max(
        (index + 1 for row in rows for index in range(first, width) if row[index] not in _BLANK), default=first
    )
    if any(len(row) != width for row in rows) or not filled <= first + len(marked) <= max(width, first):
        raise ValueError(f"{len(marked)} predicates and {width} columns; one column after {first} per predicate")
    predicates = tuple(
        Edge((rows[word][sense],), Span(word, word + 1)) for word in marked if rows[word][sense] not in _BLANK
    )
    arguments = (
        Edge((row[first + number],), Span(predicate, predicate + 1), Span(word, word + 1))
        for number, predicate in enumerate(marked)
        for word, row in enumerate(rows)
        if row[first + number] not in (*_BLANK, "V")
    )
    return {"predicate": predicates, "srl": tuple(arguments)}


def _is_predicate(frames: Frames, row: Sequence[str]) -> bool:
    return row[_FLAG] == "Y" if frames == "flagged" else len(row) > _SENSE and row[_SENSE] not in _BLANK


COLUMNS = len(STANDARD)
_ID = re.compile(r"([0-9]{1,9})(?:([-.])([0-9]{1,9}))?")
_FIRST_ID = re.compile(r"1|0\.1|1-(?!1$)[1-9][0-9]{0,8}")
"""Of a word, an empty node before it, or a multi-word token; `1-1` is WebAnno's."""
_HEAD = re.compile(r"0|[1-9][0-9]{0,8}")
_NO_SPACE = "SpaceAfter=No"
_EXPECTED_HEAD = "the number of another word of the sentence, or 0 for the root"


class ConlluRow(NamedTuple):
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


def check(path: Path, line: int, rows: Sequence[ConlluRow]) -> Iterator[Fault]:
    """Every fault of a sentence that starts at `line`; the tree is checked only if its rows are valid.

    Example:
        >>> [fault.what for fault in check(Path("a.conllu"), 1, [ConlluRow(1, ["1", "Dogs"])])]
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


def _check_columns(path: Path, rows: Sequence[ConlluRow]) -> Iterator[Fault]:
    for row in rows:
        if len(row.cells) != COLUMNS:
            yield Fault(path, row.line, f"{len(row.cells)} columns", f"{COLUMNS} columns separated by tabs")
        elif "" in row.cells:
            what = f"column {list(row.cells).index('') + 1} is empty"
            yield Fault(path, row.line, what, "a value, or _ if there is none")


def _check_ids(path: Path, rows: Sequence[ConlluRow]) -> Iterator[Fault]:
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


def _check_heads(path: Path, words: Sequence[ConlluRow]) -> Iterator[Fault]:
    for row in words:
        if not _HEAD.fullmatch(row.head):
            yield Fault(path, row.line, f"head {row.head!r} is not a number", _EXPECTED_HEAD)
        elif int(row.head) > len(words):
            yield Fault(path, row.line, f"head {row.head} is outside the {len(words)} words", _EXPECTED_HEAD)
        elif row.relation == "_":
            yield Fault(path, row.line, "a head without a relation", "a relation such as nsubj in column 8")


def _check_tree(path: Path, words: Sequence[ConlluRow]) -> Iterator[Fault]:
    roots = [row for row in words if row.head == "0"]
    if len(roots) != 1:
        line = roots[1].line if roots else words[0].line
        yield Fault(path, line, f"{len(roots)} roots" if roots else "no root", "exactly one word with head 0")
    # 0 is the root; `sound` holds the words known to reach it.
    heads = [0, *(int(row.head) for row in words)]
    sound = {0}
    for row, start in zip(words, range(1, len(heads)), strict=True):
        seen: set[int] = set()
        word = start
        while word not in sound and word not in seen:
            seen.add(word)
            word = heads[word]
        if word not in sound:
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
    heading, entities, columns = Heading(path.stem), _EntityReader(), columns_of(path)
    noted = noted or Notes()
    if "FORM" not in columns.names:
        report(Fault(path, 1, f"columns {' '.join(columns.names)}", "# global.columns with FORM, the word"))
        return
    for what in columns.remarks():
        noted.add(what, path.name)
    for block in read_blocks(path, report):
        about = [line.text for line in block if line.text.startswith("#")]
        if len(about) == len(block) and declared_columns(about):
            # The header may be followed by a blank line.
            continue
        heading.next_sentence(about)
        entities.take(about)
        sentence = _ConlluSentence.parse(path, block, columns)
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


class _ConlluSentence(NamedTuple):
    """The rows of a sentence in the ten columns, its words in all columns, and its faults."""

    rows: list[ConlluRow]
    words: list[list[str]]
    faults: list[Fault]

    @classmethod
    def parse(cls, path: Path, block: Sequence[Line], columns: ConlluColumns) -> _ConlluSentence:
        lines = [(line.number, line.text.split("\t")) for line in block if not line.text.startswith("#")]
        if columns.is_plain:
            rows = [ConlluRow(*line) for line in lines]
            return cls(rows, [], list(check(path, block[0].number, rows)))
        expected = f"{len(columns.names)} columns separated by tabs ({' '.join(columns.names)})"
        wrong = [(number, cells) for number, cells in lines if not columns.fits(cells)]
        faults = [Fault(path, number, f"{len(cells)} columns", expected) for number, cells in wrong]
        rows = (
            []
            if wrong
            else [ConlluRow(number, columns.standard(cells, n)) for n, (number, cells) in enumerate(lines, start=1)]
        )
        faults = faults or list(check(path, block[0].number, rows))
        words = [cells for (_, cells), row in zip(lines, rows, strict=False) if row.is_word]
        return cls(rows, words, faults)


def _glued(rows: Sequence[ConlluRow]) -> tuple[int, ...]:
    """The words without a space before them: `SpaceAfter=No` is in MISC of the token before, or they are its parts.

    The parts of a multi-word token (`don't`: `do`, `n't`) are glued where they spell it; `in dem` does not spell `im`.

    Example:
        >>> lines = ["1-2 don't _", "1 do _", "2 n't _", "3 go SpaceAfter=No", "4 . _"]
        >>> _glued([ConlluRow(0, [number, form, *"_______", misc]) for number, form, misc in map(str.split, lines)])
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
    followed |= {
        number for number, row in enumerate(words, 1) if number not in parts and _NO_SPACE in row.cells[9].split("|")
    }
    return tuple(sorted(number for number in followed if number < len(words)))


def _columns(words: Sequence[ConlluRow]) -> dict[str, tuple[Edge, ...]]:
    """The annotations of all columns that have one."""
    # One span per word, shared by its edges: spans are most of the objects created here.
    spans = [Span(word, word + 1) for word in range(len(words))]
    edges: dict[str, tuple[Edge, ...]] = {}
    for name, column in (("pos", 3), ("xpos", 4)):
        tags = (row.cells[column] for row in words)
        if targets := tuple(Edge((tag,), span) for tag, span in zip(tags, spans, strict=True) if tag != "_"):
            edges[name] = targets
    if words[0].head != "_":
        heads = (spans[int(row.head) - 1] if row.head != "0" else span for row, span in zip(words, spans, strict=True))
        relations = (row.relation for row in words)
        edges["dep"] = tuple(
            Edge((name,), span, head) for name, span, head in zip(relations, spans, heads, strict=True)
        )
    return edges


class _EntityFields(NamedTuple):
    """Which fields of a mention in `Entity=` hold its name and its type."""

    name: int = 0
    type: int | None = 1

    @classmethod
    def declared(cls, header: str) -> _EntityFields:
        fields = header.split("-")
        names = [index for index, field in enumerate(fields) if field in ("GRP", "eid")]
        types = [index for index, field in enumerate(fields) if field in ("etype", "entity")]
        return cls(names[0] if names else 0, types[0] if types else None)

    def key(self, mention: str) -> str:
        fields = mention.split("-")
        return fields[min(self.name, len(fields) - 1)]

    def label(self, mention: str) -> str:
        fields = mention.split("-")
        return fields[self.type] if self.type is not None and self.type < len(fields) else ""


class _EntityReader:
    """Reads `Entity=`, sentence by sentence, as declared in the file's comments."""

    def __init__(self) -> None:
        self.discontinuous = 0
        self._fields = _EntityFields()
        self._announced = False

    def take(self, lines: Sequence[str]) -> None:
        for key, value in comments(lines):
            if key == "global.Entity":
                self._fields = _EntityFields.declared(value)
                self._announced = True

    def edges(self, rows: Sequence[ConlluRow]) -> dict[str, tuple[Edge, ...]]:
        """The mentions of a sentence; none at all if the file has not mentioned entities so far."""
        cells = list(_entity_cells(rows))
        self._announced |= bool(cells)
        if not self._announced:
            return {}
        typed: list[Edge] = []
        chains: list[Edge] = []
        for mention in mentions_in(cells, self._fields.key):
            chain = self._fields.key(mention.name)
            if "[" in chain:
                self.discontinuous += chain.partition("[")[2].startswith("1/")
                continue
            chains.append(Edge((chain,), mention.span))
            if label := self._fields.label(mention.name):
                typed.append(Edge((label,), mention.span))
        has_types = self._fields.type is not None
        return ({"ner": tuple(typed)} if has_types else {}) | {"chains": tuple(chains)}


def _entity_cells(rows: Sequence[ConlluRow]) -> Iterator[MentionCell]:
    words = 0
    for row in rows:
        words += row.is_word
        value = next((item for item in row.cells[9].split("|") if item.startswith(_ENTITY)), "")
        if value and not row.is_range:
            # A mention opened on an empty node starts at the next word; one closed there ends at the previous word.
            yield MentionCell(value.removeprefix(_ENTITY), words - row.is_word, words)
