"""Which column of a one-token-per-line file holds the token, its entity tags, its part of speech and its chunk."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from lamina.corpora.entities import STACKED, TAG

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


class Layout(NamedTuple):
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

    def is_tag(self, cell: str, at: int) -> bool:
        """Whether a cell of column `at` may be a tag of this file."""
        if at == self.chunk or self.tags in ("prefixed", "stacked"):
            return TAG.fullmatch(cell) is not None
        return cell == "O" or (cell in _TYPELESS if self.tags == "typeless" else cell in self.types)

    def said(self) -> list[str]:
        """What a reader of the file should know."""
        found: list[str] = []
        if self.tags == "stacked":
            found.append("files with nested entities in one column (B-ORG|B-LOC), all of them read as ner")
        if len(self.levels) > 1 and not self.untagged:
            found.append(f"files with {len(self.levels)} columns of nested entities, all of them read as ner")
        if self.unread:
            columns = ", ".join(str(at + 1) for at in self.unread)
            found.append(f"files with columns of unknown content, which are not read (column {columns})")
        if self.tags == "plain" and len(self.types) > 1:
            found.append("files with entity types but no B- or I-: neighbouring words of one type are one entity")
        if self.untagged:
            found.append("files in which every tag is O, read without ner (what they annotate is not known)")
        if self.prefix:
            found.append(f"files in which every token starts with {self.prefix!r}, which is removed")
        return found


def cells_of(row: str) -> list[str]:
    """Columns are separated by tabs, or by spaces if a line has no tab.

    Example:
        >>> cells_of("New York\\tB-LOC"), cells_of("Rome B-LOC")
        (['New York', 'B-LOC'], ['Rome', 'B-LOC'])
    """
    return [cell.strip() for cell in row.split("\t")] if "\t" in row else row.split()


class _Column:
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


def layout_of(read_rows: Callable[[], Iterable[Sequence[str]]]) -> Layout | None:
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
    columns = [_Column() for _ in range(width)]
    for row in read_rows():
        if len(row) == width:
            for column, cell in zip(columns, row, strict=True):
                column.add(cell)
    dropped = int(width > 2 and set(columns[-1].values) == {""})
    return _arranged(columns[: width - dropped], dropped)


def _arranged(columns: Sequence[_Column], dropped: int) -> Layout | None:
    size = len(columns)
    prefixed = [at for at in range(size) if columns[at].is_prefixed]
    numbered = size > 2 and columns[0].is_number
    # The tag may come first, as in `B-Genre<TAB>comedy`; character offsets may follow it.
    first = 0 in prefixed and not numbered
    words = (at for at in range(size) if at not in prefixed and not columns[at].is_number)
    token = 1 if numbered else next(words, 0) if first else 0
    tagged = [at for at in prefixed if at != token]
    chunk = next((at for at in tagged if columns[at].is_chunk(len(tagged) > 1)), None)
    levels = tuple(at for at in tagged if at != chunk and (at < token or not first))
    tags: Tags = "stacked" if any(columns[at].is_stacked for at in levels) else "prefixed"
    types: tuple[str, ...] = ()
    if not tagged:
        last = columns[-1]
        if size - 1 == token or not (last.is_typeless or last.is_plain):
            return None
        levels, tags, types = (size - 1,), "typeless" if last.is_typeless else "plain", tuple(sorted(last.tagged))
    pos = next((at for at in range(size) if at not in (token, *tagged, *levels) and _is_pos(columns[at])), None)
    # Where tokens are numbered, the columns after the tag say where it is from (Universal NER).
    beyond = range(max((*levels, *tagged)) + 1, size) if numbered else ()
    known = {token, chunk, *levels, pos, *beyond, *([0] if numbered else [])}
    unread = tuple(at for at in range(size) if at not in known and columns[at].is_informative)
    untagged = bool(levels) and all(set(columns[at].values) <= {"O"} for at in levels)
    return Layout(size, dropped, token, levels, tags, types, chunk, pos, unread, _prefix(columns[token]), untagged)


def _is_pos(column: _Column) -> bool:
    return not column.many and column.share(_PARTS_OF_SPEECH) >= 0.95 and column.share(_BLANK) < 0.5


def _prefix(column: _Column) -> str:
    """The language that every token of WikiANN starts with."""
    found = next((match[0] for value in column.values if (match := _LANGUAGE.match(value))), "")
    return found if found and len(column.values) > 1 and all(value.startswith(found) for value in column.values) else ""
