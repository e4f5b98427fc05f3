"""Cells of a table: what kind of annotation a column holds, and the edges of one cell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Literal, NamedTuple

from lamina.corpora.entities import TAG, scheme_of, spans_of
from lamina.corpora.tokenising import Split, split_words
from lamina.errors import SpanError
from lamina.types import Edge, Span

Kind = Literal["class", "classes", "tags", "value", "spans"]
CLASS_NAMES = (
    "label", "labels", "class", "category", "quality", "is_duplicate", "gold_label", "sentiment", "target", "tag",
    "acceptability", "emotion", "topic", "stance", "intent", "polarity", "entailment_judgment", "annotation",
)  # fmt: skip
"""Columns of these names hold classes, whatever their values are."""
VALUE_NAMES = ("score", "similarity", "value", "rating", "grade", "relatedness_score", "relatedness", "judgment")
_MOST_CLASSES = 50
_LONGEST_CLASS = 40
"""Characters; what is longer is a text, not a class."""


def missing(cell: Any) -> bool:
    """Whether a cell holds nothing: None, NaN or an empty string.

    Example:
        >>> missing(None), missing(float("nan")), missing(""), missing(0)
        (True, True, True, False)
    """
    # Files hold millions of strings, so these come first.
    if isinstance(cell, str):
        return not cell or cell.isspace()
    if cell is None:
        return True
    if is_list(cell) or isinstance(cell, Mapping):
        return False
    # NaN, NaT and pandas' NA do not equal themselves; NA refuses to say so.
    try:
        return bool(cell != cell)
    except TypeError:
        return True


def is_list(value: Any) -> bool:
    """Whether it is a list, a tuple or an array."""
    return hasattr(value, "__len__") and hasattr(value, "__getitem__") and not isinstance(value, str | bytes | Mapping)


def said(value: Any) -> str | None:
    """A label or name as a string; None for a missing one. Whole numbers that a table made fractions are whole again.

    Example:
        >>> said("NOUN"), said(1.0), said(None)
        ('NOUN', '1', None)
    """
    if isinstance(value, str):
        return str(value).strip() or None
    if missing(value):
        return None
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def number_in(cell: Any) -> float | None:
    """A finite number, also one that is written out; None for anything else."""
    if isinstance(cell, bool) or (not isinstance(cell, int | float | str) and not hasattr(cell, "__float__")):
        return None
    try:
        found = float(cell)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


class Cut(NamedTuple):
    """The words of one row."""

    words: tuple[str, ...]
    segments: tuple[Span, ...]
    places: Split | None = None
    """Where the words are in the running text, if spans of its characters are labelled."""
    glued: tuple[int, ...] = ()
    """Words without a space before them in running text; see `Text.glued`."""

    @classmethod
    def of_words(cls, cells: Sequence[Any]) -> Cut:
        """Lists of words, each a segment."""
        for cell in cells:
            if not is_list(cell) or not all(isinstance(word, str) and word for word in cell):
                raise SpanError(f"expected a list of words; got {str(cell)[:60]!r}")
        return cls._joined([tuple(cell) for cell in cells])

    @classmethod
    def of_strings(cls, cells: Sequence[Any], spans: Sequence[Any] = ()) -> Cut:
        """Running text, tokenised; words end where a labelled span of characters begins or ends."""
        for cell in cells:
            if not isinstance(cell, str):
                raise SpanError(f"expected a text; got {str(cell)[:60]!r}")
        if not spans or len(cells) > 1:
            splits = [split_words(cell) for cell in cells]
            starts = accumulate((len(split.words) for split in splits), initial=0)
            glued = tuple(at + word for at, split in zip(starts, splits, strict=False) for word in split.glued)
            return cls._joined([split.words for split in splits])._replace(glued=glued)
        cuts = [at for cell in spans if not missing(cell) for start, end, _ in _triples(cell) for at in (start, end)]
        split = split_words(cells[0], cuts)
        return cls._joined([split.words])._replace(places=split, glued=split.glued)

    @classmethod
    def _joined(cls, parts: Sequence[tuple[str, ...]]) -> Cut:
        if not all(parts):
            raise SpanError("it has no words" if len(parts) == 1 else "one of its two texts has no words")
        if len(parts) == 1:
            return cls(parts[0], ())
        words = tuple(word for part in parts for word in part)
        first = len(parts[0])
        return cls(words, (Span(0, first), Span(first, len(words))))


def kind_of_lists(values: Sequence[Any], sizes: Sequence[int | None]) -> tuple[Kind | None, str]:
    """What a column of lists holds, beside texts of so many words (None: running text); or why it cannot be used."""
    inner = [item for cell in values for item in (_items(cell) or ())]
    if inner and all(_is_span(item) for item in inner):
        return "spans", ""
    if any(isinstance(item, Mapping) or is_list(item) for item in inner):
        return None, "its cells are nested"
    if all(size is not None and len(cell) == size for cell, size in zip(values, sizes, strict=True)):
        return "tags", ""
    if all(size is None for size in sizes):
        return "classes", ""
    return None, "its lists are not as long as the texts have words"


class ColumnValues:
    """What the single cells of a column hold, looked at one by one: a column of any length fits into memory.

    Example:
        >>> values = ColumnValues()
        >>> for cell in ["news"] * 3 + ["prose"] * 3:
        ...     values.add(cell)
        >>> values.kind("genre")
        ('class', '')
    """

    def __init__(self) -> None:
        self._count = 0
        self._distinct: set[str | None] = set()
        """No more than tell that there are too many."""
        self._odd = self._fractions = False
        self._numeric = True

    def add(self, cell: Any) -> None:
        """One cell that is not missing."""
        self._count += 1
        self._odd = self._odd or isinstance(cell, Mapping | bytes)
        if self._numeric:
            number = number_in(cell)
            self._numeric = number is not None
            self._fractions = self._fractions or _is_graded(cell, number)
        if len(self._distinct) <= _MOST_CLASSES:
            self._distinct.add(said(cell))

    def kind(self, name: str, *, chosen: bool = False) -> tuple[Kind | None, str]:
        """What a column of this name holds, or why it cannot be used."""
        if self._odd:
            return None, "its cells are neither labels nor numbers"
        known = name.strip().lower()
        if self._numeric and (self._fractions or known in VALUE_NAMES):
            return "value", ""
        if chosen or known in CLASS_NAMES:
            return "class", ""
        if len(self._distinct) == 1:
            return None, "it has one value only"
        if len(self._distinct) > _MOST_CLASSES or 2 * len(self._distinct) > self._count:
            return None, "too many different values for classes"
        if any(len(value or "") > _LONGEST_CLASS for value in self._distinct):
            return None, "its values are too long for classes"
        return "class", ""


def _is_graded(value: Any, number: float | None) -> bool:
    """Whether a number has a fraction; `5.0` that was written so has one, a float of a table has not."""
    return number is not None and (not number.is_integer() or (isinstance(value, str) and "." in value))


def edges_of(annotation: str, cell: Any, kind: Kind, classes: Sequence[str], cut: Cut) -> tuple[Edge, ...] | None:
    """The targets of one cell that is not missing; None where it says that there is no label."""
    if kind == "spans":
        return tuple(_span_edges(annotation, cell, cut))
    if kind == "tags":
        return tag_edges(annotation, [_named(each, classes) for each in cell], len(cut.words))
    if kind == "classes":
        labels = tuple(dict.fromkeys(label for each in cell if (label := _named(each, classes)) is not None))
        return (Edge(labels, Span(0, len(cut.words))),)
    return whole_text(annotation, cell if kind == "value" else _named(cell, classes), kind, len(cut.words))


def whole_text(annotation: str, cell: Any, kind: Kind, size: int) -> tuple[Edge, ...] | None:
    """One target: all words, with a class or a value."""
    if cell is None:
        return None
    if kind == "class":
        return (Edge((str(cell),), Span(0, size)),)
    number = number_in(cell)
    if number is None:
        raise SpanError(f"{annotation} is graded, and {str(cell)[:60]!r} is not a number")
    return (Edge((), Span(0, size), value=number),)


def _named(cell: Any, classes: Sequence[str]) -> str | None:
    """The label of a cell; with numbered classes its name, where -1 marks an unknown class."""
    if not classes or missing(cell) or isinstance(cell, str):
        return said(cell)
    at = int(cell)
    if at >= len(classes):
        raise SpanError(f"there is no class number {at}; there are {len(classes)} classes")
    return None if at < 0 else classes[at]


def tag_edges(annotation: str, labels: Sequence[str | None], size: int) -> tuple[Edge, ...]:
    """One target per tagged word; under the name `ner`, IOB and BIOES tags become spans."""
    if len(labels) != size:
        raise SpanError(f"{annotation} has {len(labels)} labels for {size} words; give one per word, or a list of Edge")
    if annotation == "ner":
        tags = ["O" if label is None else label for label in labels]
        if all(map(TAG.fullmatch, tags)):
            return tuple(Edge((kind,), span) for kind, span in spans_of(tags, scheme_of([tags])))
        labels = [None if label == "O" else label for label in labels]
    return tuple(Edge((label,), Span(at, at + 1)) for at, label in enumerate(labels) if label is not None)


_SPAN_KEYS = (
    ("start", "begin", "start_offset", "start_char"),
    ("end", "end_offset", "end_char"),
    ("label", "type", "tag", "entity", "entity_group", "labels", "class"),
)


def _items(cell: Any) -> Any:
    """The spans of a cell; spaCy puts them below `entities`."""
    return cell.get("entities") if isinstance(cell, Mapping) else cell


def _triple(item: Any) -> tuple[Any, Any, Any] | None:
    """Start, end and label of a span; None if it is none."""
    if isinstance(item, Mapping):
        found = [next((item[key] for key in keys if key in item), None) for keys in _SPAN_KEYS]
        return None if found[0] is None or found[1] is None else (found[0], found[1], found[2])
    if is_list(item) and len(item) == 3:
        return item[0], item[1], item[2]
    return None


def _is_span(item: Any) -> bool:
    triple = _triple(item)
    return triple is not None and all(number_in(each) is not None for each in triple[:2])


def _triples(cell: Any) -> Iterator[tuple[int, int, Any]]:
    for item in _items(cell) or ():
        triple = _triple(item)
        ends = (None, None) if triple is None else (number_in(triple[0]), number_in(triple[1]))
        if triple is None or ends[0] is None or ends[1] is None:
            raise SpanError(f"{str(item)[:60]!r} is not a span (start, end, label)")
        yield int(ends[0]), int(ends[1]), triple[2]


def _span_edges(annotation: str, cell: Any, cut: Cut) -> Iterator[Edge]:
    for start, end, label in _triples(cell):
        labels = tuple(map(said, label)) if is_list(label) else (said(label),)
        named = tuple(each for each in labels if each is not None)
        if not named:
            raise SpanError(f"a span of {annotation} has no label")
        span = Span(start, end) if cut.places is None else cut.places.span(start, end)
        if span is None:
            raise SpanError(f"characters {start} to {end} of {annotation} hold no word")
        yield Edge(named, span)
