"""Columns of CoNLL-U files beyond the ten: named by `# global.columns` (CoNLL-U Plus), or one per predicate.

Columns with a meaning of their own: `PARSEME:MWE` is `mwe`, multi-word expressions with their categories;
`UP:PRED` is `predicate`, `UP:ARGSPANS` (else `UP:ARGHEADS`) is `srl`. Any other column is an annotation named after it,
in lower case (`STREUSLE:SS` is `streusle_ss`): spans, if its cells are tags such as `B-PER`; otherwise one label per
word. `_` means no annotation, `*` that there is nothing at this word. A column with more than 500 different values
holds no labels and is not read, which is noted.

Without `# global.columns`, additional columns are the predicates of Universal Propositions: each predicate (`Y` in
column 9 and its sense in column 10, or its sense in column 11) has a column with its arguments, in order. Arguments are
head words. If additional columns do not fit that, they are read as columns named `column_11` and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from lamina.corpora.entities import TAG, check_tags, scheme_of, spans_of
from lamina.corpora.reading import Fault, comments, read_blocks, whole_number
from lamina.types import Edge, Span

STANDARD = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
_SIZE = len(STANDARD)
_FLAG, _MISC, _OWN = 8, 9, 10
_MOST_LABELS = 500
_EMPTY = ("_", "*")
_BLANK = ("_", "")
GAPS = "multi-word expressions with a gap, left out"

Frames = Literal["flagged", "own"]
"""How predicates are marked: `Y` in column 9 and the sense in column 10, or the sense in column 11."""


class Extra(NamedTuple):
    """One additional column."""

    at: int
    annotation: str
    tags: tuple[str, ...] = ()
    """All tags of the file, if it holds spans; they show the scheme."""


class Columns(NamedTuple):
    """The columns of a file."""

    names: tuple[str, ...] = STANDARD
    extras: tuple[Extra, ...] = ()
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
            kept = list(row[:_SIZE])
            return [*kept[:_FLAG], "_", "_"] if self.frames == "flagged" else kept
        cells = dict(zip(self.names, row, strict=False))
        return [cells.get(name, str(number) if name == "ID" else "_") for name in STANDARD]

    def said(self) -> Iterator[str]:
        """What a reader of the file should know."""
        if self.unread:
            yield f"files with columns whose cells are no labels, which are not read ({', '.join(self.unread)})"


def columns_of(path: Path) -> Columns:
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
        return Columns()
    sentences = ([row for row in rows if row[0].isdecimal()] for rows in _sentences(path))
    if declared is not None:
        return _named(declared, _values(path, declared)) if declared != STANDARD else Columns()
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


def _named(names: tuple[str, ...], values: dict[str, set[str]]) -> Columns:
    extras: list[Extra] = []
    unread: list[str] = []
    for at, name in enumerate(names):
        if name in STANDARD or not values[name] - set(_EMPTY) or (name == "UP:ARGHEADS" and "UP:ARGSPANS" in names):
            continue
        labels = values[name] - set(_EMPTY)
        if name in _KNOWN:
            extras.append(Extra(at, _KNOWN[name]))
        elif len(values[name]) > _MOST_LABELS:
            unread.append(name)
        else:
            spans = all(TAG.fullmatch(label) for label in labels) and any(label != "O" for label in labels)
            extras.append(Extra(at, name.lower().replace(":", "_"), tuple(sorted(labels)) if spans else ()))
    return Columns(names, tuple(extras), None, tuple(unread))


class _Shape(NamedTuple):
    """The columns of one sentence: how many, and how many predicates they would be for."""

    width: int
    """0 if its rows differ."""
    flagged: int
    own: int
    filled: int
    """Columns up to the last one that has a cell other than `_`."""

    @property
    def fits_flagged(self) -> bool:
        return self.width == _SIZE + self.flagged

    @property
    def fits_own(self) -> bool:
        return self.width > _SIZE and self.filled <= _OWN + 1 + self.own <= self.width


def _shape(rows: Sequence[Sequence[str]]) -> _Shape:
    width = len(rows[0]) if len({len(row) for row in rows}) == 1 else 0
    if width < _SIZE:
        return _Shape(0, 0, 0, 0)
    flagged = sum(row[_FLAG] == "Y" for row in rows)
    own = sum(row[_OWN] not in _BLANK for row in rows) if width > _SIZE else 0
    filled = max(at + 1 for row in rows for at, cell in enumerate(row) if cell not in _BLANK)
    return _Shape(width, flagged, own, filled)


def _unnamed(path: Path, shapes: Sequence[_Shape]) -> Columns:
    wide = [shape for shape in shapes if shape.width > _SIZE]
    if 2 * sum(shape.fits_flagged for shape in wide) > len(wide):
        return Columns(frames="flagged")
    if 2 * sum(shape.fits_own for shape in wide) > len(wide) and len({shape.width for shape in wide}) > 1:
        return Columns(frames="own")
    width = wide[0].width if wide else _SIZE
    if 2 * sum(shape.width == width for shape in shapes) <= len(shapes):
        return Columns()
    names = (*STANDARD, *(f"column_{at + 1}" for at in range(_SIZE, width)))
    return _named(names, _values(path, names))


class Found(NamedTuple):
    """The annotations of a sentence's additional columns."""

    edges: dict[str, tuple[Edge, ...]]
    gaps: int
    """Multi-word expressions with a gap, which have no span."""


def edges_of(columns: Columns, rows: Sequence[Sequence[str]]) -> Found:
    """The annotations of the rows of a sentence's words; a ValueError says what is wrong with one.

    Example:
        >>> columns = Columns(("ID", "FORM", "PARSEME:MWE"), (Extra(2, "mwe"),))
        >>> edges_of(columns, [["1", "give", "1:VPC"], ["2", "up", "1"]]).edges["mwe"]
        (Edge(labels=('VPC',), span=Span(start=0, end=2), other=None, rated=None, value=None),)
    """
    if columns.frames is not None:
        return Found(_frames(columns.frames, rows), 0)
    edges: dict[str, tuple[Edge, ...]] = {}
    gaps = 0
    for extra in columns.extras:
        cells = [row[extra.at] for row in rows]
        name = columns.names[extra.at]
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
    return Found(edges, gaps)


def _per_word(cells: Sequence[str]) -> tuple[Edge, ...]:
    return tuple(Edge((cell,), Span(at, at + 1)) for at, cell in enumerate(cells) if cell not in _EMPTY)


def _spans(cells: Sequence[str], extra: Extra) -> tuple[Edge, ...]:
    tags = ["O" if cell in _EMPTY else cell for cell in cells]
    scheme = scheme_of([*([tag] for tag in extra.tags if tag[0] in "BESLUW"), tags])
    for at, what in check_tags(tags, scheme):
        raise ValueError(f"{extra.annotation}, word {at + 1}: {what}")
    return tuple(Edge((label,), span) for label, span in spans_of(tags, scheme))


def _expressions(cells: Sequence[str]) -> tuple[tuple[Edge, ...], int]:
    """Expressions of a PARSEME column (`1:VID`, `1`, `1;2:LVC.full`), and how many have a gap."""
    members: dict[str, list[int]] = {}
    categories: dict[str, str] = {}
    for at, cell in enumerate(cells):
        for part in cell.split(";") if cell not in _EMPTY else ():
            number, _, category = part.partition(":")
            if whole_number(number) is None:
                raise ValueError(f"word {at + 1}: {cell!r} is no number of a multi-word expression")
            members.setdefault(number, []).append(at)
            categories |= {number: category} if category else {}
    whole = {number: places for number, places in members.items() if places[-1] - places[0] == len(places) - 1}
    edges = (Edge((categories.get(number, "MWE"),), Span(at[0], at[-1] + 1)) for number, at in whole.items())
    return tuple(edges), len(members) - len(whole)


def _arguments(cells: Sequence[str]) -> Iterator[Edge]:
    """Arguments in the row of their predicate: `A0:3|A1:5-8`, by the ids of words."""
    for at, cell in enumerate(cells):
        for part in cell.split("|") if cell not in _EMPTY else ():
            role, _, place = part.rpartition(":")
            first, _, last = place.partition("-")
            start, end = whole_number(first), whole_number(last or first)
            if not role or start is None or end is None or not 0 < start <= end <= len(cells):
                raise ValueError(f"word {at + 1}: {part!r} is no role and words of this sentence (A0:3, A1:5-8)")
            if role != "V":
                yield Edge((role,), Span(at, at + 1), Span(start - 1, end))


def _frames(frames: Frames, rows: Sequence[Sequence[str]]) -> dict[str, tuple[Edge, ...]]:
    """Predicates and their arguments, one column per predicate."""
    width = len(rows[0])
    first, sense = (_SIZE, _MISC) if frames == "flagged" else (_OWN + 1, _OWN)
    marked = [at for at, row in enumerate(rows) if _is_predicate(frames, row)]
    filled = max((at + 1 for row in rows for at in range(first, width) if row[at] not in _BLANK), default=first)
    if any(len(row) != width for row in rows) or not filled <= first + len(marked) <= max(width, first):
        raise ValueError(f"{len(marked)} predicates and {width} columns; one column after {first} per predicate")
    predicates = tuple(Edge((rows[at][sense],), Span(at, at + 1)) for at in marked if rows[at][sense] not in _BLANK)
    arguments = (
        Edge((row[first + number],), Span(predicate, predicate + 1), Span(at, at + 1))
        for number, predicate in enumerate(marked)
        for at, row in enumerate(rows)
        if row[first + number] not in (*_BLANK, "V")
    )
    return {"predicate": predicates, "srl": tuple(arguments)}


def _is_predicate(frames: Frames, row: Sequence[str]) -> bool:
    return row[_FLAG] == "Y" if frames == "flagged" else len(row) > _OWN and row[_OWN] not in _BLANK
