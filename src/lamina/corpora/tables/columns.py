"""Columns and cells of a table: which column holds what, and one text per row.

Used for data in memory (`corpus_from`) and for files of tables, so that both are read alike. A table has one row per
text (running text or a list of words, with classes, values, tags or spans), one row per word (with the text it belongs
to), or one row per labelled span of characters.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby
from typing import Any, Literal, NamedTuple

from lamina.corpora.entities import TAG, scheme_of, spans_of
from lamina.corpora.tokenising import Split, split_words, words_in
from lamina.errors import CorpusError, SpanError
from lamina.types import Edge, Span, Text

# Cells of a table: what kind of annotation a column holds, and the edges of one cell.

Kind = Literal["class", "classes", "tags", "value", "spans"]
CLASS_NAMES = (
    "label", "labels", "class", "category", "quality", "is_duplicate", "gold_label", "sentiment", "target", "tag",
    "acceptability", "emotion", "topic", "stance", "intent", "polarity", "entailment_judgment", "annotation",
)  # fmt: skip
"""Columns of these names hold classes, whatever their values are."""
VALUE_NAMES = ("score", "similarity", "value", "rating", "grade", "relatedness_score", "relatedness", "judgment")
_MOST_CLASSES = 50
_LONGEST_CLASS = 40
"""Characters; longer values are texts, not classes."""


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


def label_text(value: Any) -> str | None:
    """A label or name as a string; None for a missing one. Whole numbers that a table made fractions are whole again.

    Example:
        >>> label_text("NOUN"), label_text(1.0), label_text(None)
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
        number = float(cell)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


class RowWords(NamedTuple):
    """The words of one row."""

    words: tuple[str, ...]
    segments: tuple[Span, ...]
    places: Split | None = None
    """Where the words are in the running text, if spans of its characters are labelled."""
    glued: tuple[int, ...] = ()
    """Words without a space before them in running text; see `Text.glued`."""

    @classmethod
    def of_words(cls, cells: Sequence[Any]) -> RowWords:
        """Lists of words, each a segment."""
        for cell in cells:
            if not is_list(cell) or not all(isinstance(word, str) and word for word in cell):
                raise SpanError(f"expected a list of words; got {str(cell)[:60]!r}")
        return cls._joined([tuple(cell) for cell in cells])

    @classmethod
    def of_strings(cls, cells: Sequence[Any], spans: Sequence[Any] = ()) -> RowWords:
        """Running text, tokenised; words end where a labelled span of characters begins or ends."""
        for cell in cells:
            if not isinstance(cell, str):
                raise SpanError(f"expected a text; got {str(cell)[:60]!r}")
        if not spans or len(cells) > 1:
            splits = [split_words(cell) for cell in cells]
            starts = accumulate((len(split.words) for split in splits), initial=0)
            glued = tuple(start + word for start, split in zip(starts, splits, strict=False) for word in split.glued)
            return cls._joined([split.words for split in splits])._replace(glued=glued)
        cuts = [
            border for cell in spans if not missing(cell) for start, end, _ in _triples(cell) for border in (start, end)
        ]
        split = split_words(cells[0], cuts)
        return cls._joined([split.words])._replace(places=split, glued=split.glued)

    @classmethod
    def _joined(cls, parts: Sequence[tuple[str, ...]]) -> RowWords:
        if not all(parts):
            raise SpanError("it has no words" if len(parts) == 1 else "one of its two texts has no words")
        if len(parts) == 1:
            return cls(parts[0], ())
        words = tuple(word for part in parts for word in part)
        first = len(parts[0])
        return cls(words, (Span(0, first), Span(first, len(words))))


def kind_of_lists(values: Sequence[Any], sizes: Sequence[int | None]) -> tuple[Kind | None, str]:
    """What a column of lists holds, or why it cannot be used. `sizes`: words per text, None for running text."""
    if any(isinstance(cell, Mapping) and "entities" not in cell for cell in values):
        return None, "its cells are nested"
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
            self._distinct.add(label_text(cell))

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


def edges_of(annotation: str, cell: Any, kind: Kind, classes: Sequence[str], cut: RowWords) -> tuple[Edge, ...] | None:
    """The targets of one cell that is not missing; None where it says that there is no label."""
    if kind == "spans":
        return tuple(_span_edges(annotation, cell, cut))
    if kind == "tags":
        return tag_edges(annotation, [_named(tag, classes) for tag in cell], len(cut.words))
    if kind == "classes":
        labels = tuple(dict.fromkeys(label for value in cell if (label := _named(value, classes)) is not None))
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
        return label_text(cell)
    number = int(cell)
    if number >= len(classes):
        raise SpanError(f"there is no class number {number}; there are {len(classes)} classes")
    return None if number < 0 else classes[number]


def tag_edges(annotation: str, labels: Sequence[str | None], size: int) -> tuple[Edge, ...]:
    """One target per tagged word; under the name `ner`, IOB and BIOES tags become spans."""
    if len(labels) != size:
        raise SpanError(f"{annotation} has {len(labels)} labels for {size} words; give one per word, or a list of Edge")
    if annotation == "ner":
        tags = ["O" if label is None else label for label in labels]
        if all(map(TAG.fullmatch, tags)):
            return tuple(Edge((kind,), span) for kind, span in spans_of(tags, scheme_of([tags])))
        labels = [None if label == "O" else label for label in labels]
    return tuple(Edge((label,), Span(word, word + 1)) for word, label in enumerate(labels) if label is not None)


SPAN_KEYS = (
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
        parts = [next((item[key] for key in keys if key in item), None) for keys in SPAN_KEYS]
        return None if parts[0] is None or parts[1] is None else (parts[0], parts[1], parts[2])
    if is_list(item) and len(item) == 3:
        return item[0], item[1], item[2]
    return None


def _is_span(item: Any) -> bool:
    triple = _triple(item)
    return triple is not None and all(number_in(border) is not None for border in triple[:2])


def _triples(cell: Any) -> Iterator[tuple[int, int, Any]]:
    for item in _items(cell) or ():
        triple = _triple(item)
        ends = (None, None) if triple is None else (number_in(triple[0]), number_in(triple[1]))
        if triple is None or ends[0] is None or ends[1] is None:
            raise SpanError(f"{str(item)[:60]!r} is not a span (start, end, label)")
        yield int(ends[0]), int(ends[1]), triple[2]


def _span_edges(annotation: str, cell: Any, cut: RowWords) -> Iterator[Edge]:
    for start, end, label in _triples(cell):
        labels = tuple(map(label_text, label)) if is_list(label) else (label_text(label),)
        named = tuple(name for name in labels if name is not None)
        if not named:
            raise SpanError(f"a span of {annotation} has no label")
        span = Span(start, end) if cut.places is None else cut.places.span(start, end)
        if span is None:
            raise SpanError(f"characters {start} to {end} of {annotation} hold no word")
        yield Edge(named, span)


RowCells = Mapping[str, Any]
RowKind = Literal["texts", "words", "spans"]
SAMPLED = 1000
"""Rows that are looked at to decide what a column holds."""

_WORDS = (("words1", "words2"), ("tokens1", "tokens2"), ("words",), ("tokens",))
_PAIRS = (
    ("#1 string", "#2 string"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("text1", "text2"),
    ("sentence_a", "sentence_b"),
    ("text_a", "text_b"),
    ("premise", "hypothesis"),
    ("question", "sentence"),
    ("question", "answer"),
)
_SINGLE = (
    "sentence", "text", "review", "tweet", "content", "comment", "utterance", "question", "document", "body", "phrase",
    "reviewtext", "review_text", "full_text", "message", "headline", "title",
)  # fmt: skip
_WORD = ("word", "token", "form")
_TEXT_OF_WORD = ("text", "sentence", "sentence_id", "sent_id", "sentence #", "sentence_idx", "text_id")
_ID = ("id", "guid", "idx", "index", "pairid", "pair_id", "uid", "sent_id", "sentence_id", "text_id")
_DOC = ("doc", "doc_id", "document_id", "doc_name")
_START = ("start", "begin", "start_offset", "start_char")
_END = ("end", "end_offset", "end_char")
RESERVED = ("text", "text2", "words", "words2", "word", "id", "doc", "start", "end")
"""Names that say what a column is; any other name is that of an annotation."""


@dataclass(frozen=True)
class LabelColumn:
    """One column of labels or values."""

    name: str
    """In the table."""
    annotation: str
    kind: Kind
    classes: tuple[str, ...] = ()
    """Names of the classes, where the table holds their numbers."""

    def in_words(self) -> str:
        """What it is, for people."""
        renamed = "" if self.name == self.annotation else f" (column {self.name!r})"
        what = {
            "class": "a class of the whole text",
            "classes": "classes of the whole text",
            "value": "a graded value of the whole text",
            "tags": "one label per word",
            "spans": "labelled spans",
        }[self.kind]
        return f"{self.annotation}: {what}{renamed}"


@dataclass(frozen=True)
class TablePlan:
    """Which column of a table is what."""

    layout: RowKind
    """What one row is."""
    texts: tuple[str, ...]
    """The column of texts, or the two columns of a pair; with one row per word, that of words."""
    split: bool
    """Whether the texts are lists of words; otherwise running text, which is tokenised."""
    labels: tuple[LabelColumn, ...] = ()
    id: str | None = None
    doc: str | None = None
    ends: tuple[str, str] | None = None
    """With one row per span: the columns of its first character and one past its last."""
    unused: Mapping[str, str] = field(default_factory=dict)
    """Column -> why it is not used."""

    def in_words(self) -> str:
        """The whole plan in one sentence.

        Example:
            >>> plan = plan_table(["text", "label"], [{"text": "I like it", "label": "good"}])
            >>> plan.in_words()
            "one text per row: text in 'text'; label: a class of the whole text"
        """
        one = {"texts": "one text per row", "words": "one word per row", "spans": "one labelled span per row"}
        texts = " and ".join(map(repr, self.texts))
        content = "words" if self.split or self.layout == "words" else "text"
        parts = [f"{one[self.layout]}: {content} in {texts}", *(label.in_words() for label in self.labels)]
        return "; ".join([*parts, *self.notes()])

    def notes(self) -> tuple[str, ...]:
        """One half-sentence per column that is not used."""
        return tuple(f"column {name!r} is not used: {why}" for name, why in self.unused.items())


class UnplannedError(CorpusError):
    """A table whose columns are ambiguous or hold no texts."""


def plan_table(
    columns: Sequence[str],
    sample: Sequence[RowCells],
    *,
    classes: Mapping[str, Sequence[str]] | None = None,
    graded: Collection[str] = (),
    chosen: Mapping[str, str] | None = None,
    values: Mapping[str, ColumnValues] | None = None,
) -> TablePlan:
    """Decide which column is what: from names, from the first rows, and from `values`, those of all rows.

    Without `values` the sample is taken for the whole table. `classes` names the classes of columns that hold their
    numbers, `graded` columns whose numbers are values even if they are whole. `chosen` maps names to columns, as a user
    gives it: `text`, `text2`, `words`, `words2`, `word`, `id`, `doc`, `start` and `end` are what they say; any other
    name is an annotation, `NAME:class` or `NAME:value` where its kind is to be settled too. What is not chosen is found
    as usual, except that only the chosen annotations are read where there are any. `UnplannedError` is raised where no
    column holds texts.

    Example:
        >>> rows = [{"review": "I like it", "stars": "5"}, {"review": "Not bad at all", "stars": "4"}]
        >>> plan = plan_table(["review", "stars"], rows, chosen={"rating:value": "stars"})
        >>> plan.texts, plan.labels[0].annotation, plan.labels[0].kind
        (('review',), 'rating', 'value')
    """
    table = _TablePlanner(columns, sample, classes or {}, graded, chosen or {}, values or {})
    layout, texts, split = table.texts()
    table.used |= set(texts)
    plan = TablePlan(layout, texts, split)
    if layout == "words":
        plan = replace(plan, id=table.needed("id", _TEXT_OF_WORD, "the text that each word belongs to"))
    else:
        plan = replace(plan, id=table.take("id", _ID))
    plan = replace(plan, doc=table.take("doc", _DOC))
    if layout == "spans":
        plan = replace(plan, ends=(table.needed("start", _START, ""), table.needed("end", _END, "")))
    labels = table.labels(plan)
    return replace(plan, labels=labels, unused=dict(table.unused))


def texts_of(rows: Iterable[RowCells], plan: TablePlan, name: str) -> Iterator[Text]:
    """One text per row (or per run of rows that belong together), named after the table where it has no ids.

    Example:
        >>> rows = [{"text": "I like it", "label": "good"}]
        >>> [text.edges["label"][0].labels for text in texts_of(rows, plan_table(["text", "label"], rows), "reviews")]
        [('good',)]
    """
    for number, row in merged(rows, plan):
        yield text_of(row, plan, f"{name}-{number}")


def merged(rows: Iterable[RowCells], plan: TablePlan) -> Iterator[tuple[int, RowCells]]:
    """One row per text, with the number (from 1) of the first row it was made of."""
    numbered = enumerate(rows, start=1)
    if plan.layout == "texts":
        yield from numbered
        return
    for _, run in groupby(_keyed(numbered, plan), key=lambda keyed: keyed[0]):
        together = [(number, row) for _, number, row in run]
        number, first = together[0]
        about = {column: first.get(column) for column in (plan.id, plan.doc) if column is not None}
        yield number, about | _joined([row for _, row in together], plan)


def _keyed(numbered: Iterable[tuple[int, RowCells]], plan: TablePlan) -> Iterator[tuple[Any, int, RowCells]]:
    """Each row with what says which text it belongs to; an empty cell means: to the same as the row before."""
    key: Any = None
    for number, row in numbered:
        if plan.layout == "words":
            text_id = label_text(row.get(plan.id or ""))
            key = key if text_id in (None, "") else text_id
        else:
            key = tuple(label_text(row.get(column)) for column in (plan.id, *plan.texts) if column is not None)
        yield key, number, row


def _joined(rows: Sequence[RowCells], plan: TablePlan) -> dict[str, Any]:
    if plan.layout == "words":
        wanted = (*plan.texts, *(label.name for label in plan.labels))
        return {column: [row.get(column) for row in rows] for column in wanted}
    start, end = plan.ends or ("", "")
    spans = {
        label.name: [(row.get(start), row.get(end), row.get(label.name)) for row in rows if not missing(row.get(start))]
        for label in plan.labels
    }
    return {column: rows[0].get(column) for column in plan.texts} | spans


def text_of(row: RowCells, plan: TablePlan, name: str) -> Text:
    """The text of one row; `name` is used where the table has no ids. What cannot be used is a `CorpusError`."""
    about = name if plan.id is None else label_text(row.get(plan.id)) or name
    try:
        cut = _row_words([row.get(column) for column in plan.texts], plan, row)
        edges: dict[str, tuple[Edge, ...]] = {}
        for label in plan.labels:
            cell = row.get(label.name)
            # Without a label a text does not carry the annotation; without a tag only the word goes without.
            if not missing(cell):
                targets = edges_of(label.annotation, cell, label.kind, label.classes, cut)
                if targets is not None:
                    edges[label.annotation] = targets
        doc = None if plan.doc is None else label_text(row.get(plan.doc))
        return Text(about, cut.words, cut.segments, edges, doc, glued=cut.glued)
    except (SpanError, ValueError) as error:
        raise CorpusError(f"text {about!r} cannot be used: {error}") from None


def _row_words(cells: Sequence[Any], plan: TablePlan, row: RowCells) -> RowWords:
    if plan.split or plan.layout == "words":
        return RowWords.of_words(cells)
    bounds = [row.get(label.name) for label in plan.labels if label.kind == "spans"]
    return RowWords.of_strings(cells, bounds)


class _TablePlanner:
    """Columns of a table, while it is being decided what they hold."""

    def __init__(
        self,
        columns: Sequence[str],
        sample: Sequence[RowCells],
        classes: Mapping[str, Sequence[str]],
        graded: Collection[str],
        chosen: Mapping[str, str],
        all_values: Mapping[str, ColumnValues],
    ) -> None:
        self.columns = [str(column) for column in columns]
        self.all_values = all_values
        self.sample, self.classes, self.graded = sample, classes, graded
        self.chosen = {name: self._real(column) for name, column in chosen.items()}
        self.by_name: dict[str, str] = {}
        for column in self.columns:
            self.by_name.setdefault(column.strip().lower(), column)
        self.used: set[str] = set()
        self.unused: dict[str, str] = {}

    def _real(self, column: str) -> str:
        close = [name for name in self.columns if name.strip().lower() == column.strip().lower()]
        if column in self.columns or close:
            return column if column in self.columns else close[0]
        raise UnplannedError(f"there is no column {column!r}; the columns are {', '.join(self.columns) or 'none'}")

    def values(self, column: str) -> list[Any]:
        return [cell for row in self.sample if not missing(cell := row.get(column))]

    def holds_lists(self, column: str) -> bool:
        values = self.values(column)
        return bool(values) and all(map(is_list, values))

    def texts(self) -> tuple[RowKind, tuple[str, ...], bool]:
        """What one row is, the columns of texts, and whether these are lists of words."""
        if "word" in self.chosen:
            # Beside words, the column of texts is the one that names them.
            self.chosen |= {"id": self.chosen["text"]} if "text" in self.chosen and "id" not in self.chosen else {}
            return "words", (self.chosen["word"],), False
        for role in ("words", "text"):
            if role in self.chosen:
                pair = (self.chosen[role], self.chosen.get(f"{role}2"))
                columns = tuple(column for column in pair if column is not None)
                return self._spans_or_texts(), columns, all(map(self.holds_lists, columns))
        for names in _WORDS:
            columns = self._all(names)
            if columns and all(map(self.holds_lists, columns)):
                return "texts", columns, True
        word = self._first(_WORD)
        if word is not None and not self.holds_lists(word):
            sentences = [column for column in self.columns if column != word and self._is_running(column)]
            if sentences:
                raise UnplannedError(
                    f"column {word!r} has one word per row, and {sentences[0]!r} whole sentences, so that a row is no "
                    "word of a text"
                )
            return "words", (word,), False
        for names in (*_PAIRS, *((name,) for name in _SINGLE)):
            columns = self._all(names)
            if columns and (len(self.columns) > 1 or len(columns) == 1):
                return self._spans_or_texts(), columns, all(map(self.holds_lists, columns))
        return self._spans_or_texts(), (self._longest(),), False

    def _spans_or_texts(self) -> RowKind:
        ends = [self.chosen.get(role) or self._first(names) for role, names in (("start", _START), ("end", _END))]
        scalar = all(end is not None and not self.holds_lists(end) for end in ends)
        return "spans" if scalar else "texts"

    def _longest(self) -> str:
        """The one column of running text, where no column is named like one."""
        running = [column for column in self.columns if self._is_running(column)]
        if len(running) == 1:
            return running[0]
        problem = "no column holds texts" if not running else f"several columns hold texts ({', '.join(running)})"
        raise UnplannedError(
            f"no column of words: {problem}; columns are {', '.join(self.columns) or 'none'}; expected `word` (one row "
            "per word), `words` or `tokens` (a list per row), or `text` or `sentence` (running text); say which column "
            "is what"
        )

    def _is_running(self, column: str) -> bool:
        """Whether a column holds running text: more than four words per cell, on average."""
        values = [cell for cell in self.values(column) if isinstance(cell, str)]
        return bool(values) and sum(len(words_in(cell[:1000])) for cell in values) > 4 * len(values)

    def _all(self, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(self.by_name[name] for name in names) if all(name in self.by_name for name in names) else ()

    def _first(self, names: Sequence[str]) -> str | None:
        free = (self.by_name[name] for name in names if name in self.by_name)
        return next((column for column in free if column not in self.used), None)

    def take(self, role: str, names: Sequence[str]) -> str | None:
        column = self.chosen.get(role) or self._first(names)
        taken = column is not None and column in self._annotated()
        if column is None or taken:
            return None
        self.used.add(column)
        return column

    def needed(self, role: str, names: Sequence[str], what: str) -> str:
        column = self.take(role, names)
        if column is None:
            word = next(iter(self.used))
            raise UnplannedError(
                f"a table with one row per word needs a column `text` (or {', '.join(names[1:])}) that names {what}; "
                f"say which it is: --format 'table:word={word},id=COLUMN'"
            )
        return column

    def _annotated(self) -> dict[str, tuple[str, str | None]]:
        """Column -> the annotation it was chosen for, and its kind where that was given."""
        annotated: dict[str, tuple[str, str | None]] = {}
        for name, column in self.chosen.items():
            if name not in RESERVED:
                annotation, colon, kind = name.rpartition(":")
                settled = bool(colon) and kind in ("class", "value")
                annotated[column] = (annotation, kind) if settled else (name, None)
        return annotated

    def labels(self, plan: TablePlan) -> tuple[LabelColumn, ...]:
        annotated = self._annotated()
        labels: list[LabelColumn] = []
        for column in dict.fromkeys([*annotated, *self.columns]):
            if column in self.used:
                continue
            if annotated and column not in annotated:
                self.unused[column] = "not among the chosen columns"
                continue
            annotation, settled = annotated.get(column, (column.strip(), None))
            kind, why = self._kind(column, plan, chosen=column in annotated)
            if settled is not None:
                kind, why = ("value" if settled == "value" else "class"), ""
            if kind is None:
                if column in annotated:
                    raise UnplannedError(f"column {column!r} cannot be the annotation {annotation!r}: {why}")
                self.unused[column] = why
            else:
                labels.append(LabelColumn(column, annotation, kind, tuple(self.classes.get(column, ()))))
        return tuple(labels)

    def _size(self, row: RowCells, plan: TablePlan) -> int | None:
        """How many words a row has, where it has one list of them."""
        words: Any = row.get(plan.texts[0])
        return len(words) if plan.split and len(plan.texts) == 1 and is_list(words) else None

    def _kind(self, column: str, plan: TablePlan, *, chosen: bool) -> tuple[Kind | None, str]:
        if plan.layout != "texts":
            return ("tags" if plan.layout == "words" else "spans"), ""
        values = self.values(column)
        if not values:
            empty = "it is empty" if self.sample else "no row can be read"
            return (None, empty) if not chosen else ("class", "")
        if all(map(is_list, values)) or all(isinstance(value, Mapping) for value in values):
            sizes = [self._size(row, plan) for row in self.sample if not missing(row.get(column))]
            return kind_of_lists(values, sizes)
        if any(map(is_list, values)):
            return None, "some of its cells are lists and others are not"
        if column in self.classes:
            return "class", ""
        if column in self.graded:
            return "value", ""
        return (self.all_values.get(column) or _values_of(values)).kind(column, chosen=chosen)


def _values_of(cells: Iterable[Any]) -> ColumnValues:
    values = ColumnValues()
    for cell in cells:
        values.add(cell)
    return values


class TableSurvey(NamedTuple):
    """What a pass over all rows shows of the columns."""

    values: Mapping[str, ColumnValues]
    """The single cells of each column; lists are left out, since a few rows show what they are."""
    telling: Sequence[RowCells]
    """Rows that hold something in a column of which the first rows show little or nothing."""


def survey(rows: Iterable[RowCells], first: Sequence[RowCells]) -> TableSurvey:
    """Look at all rows of a table: the first ones may have one label, none at all, or empty lists.

    Example:
        >>> rows = [{"text": "I like it", "spans": []}] * 50 + [{"text": "Dogs bark", "spans": [[0, 4, "ANIMAL"]]}]
        >>> survey(rows, rows[:50]).telling
        [{'text': 'Dogs bark', 'spans': [[0, 4, 'ANIMAL']]}]
    """
    counts = Counter(column for row in first for column, cell in row.items() if _tells(cell))
    values: dict[str, ColumnValues] = {}
    telling: list[RowCells] = []
    for row in rows:
        tells = False
        for column, cell in row.items():
            if missing(cell):
                continue
            if not is_list(cell):
                values.setdefault(column, ColumnValues()).add(cell)
            if counts[column] < _ENOUGH and _tells(cell):
                counts[column] += 1
                tells = True
        if tells:
            telling.append(row)
    return TableSurvey(values, telling)


_ENOUGH = 20
"""Cells of a column that show what it holds, if it holds lists."""


def _tells(cell: Any) -> bool:
    """Whether a cell holds something: an empty list says nothing of what others hold, also one that is written out."""
    if isinstance(cell, str):
        return bool(cell.strip(" []{}"))
    return bool(len(cell)) if is_list(cell) or isinstance(cell, Mapping) else not missing(cell)


def is_column_name(name: str) -> bool:
    """Whether columns are called so: it tells a header from a row.

    Example:
        >>> is_column_name("Sentence #"), is_column_name("Dogs bark .")
        (True, False)
    """
    return name.strip().lower() in _KNOWN


_KNOWN = frozenset(
    (
        *(name for names in (*_WORDS, *_PAIRS) for name in names), *_SINGLE, *_WORD, *_TEXT_OF_WORD, *_ID, *_DOC,
        *_START, *_END, *CLASS_NAMES, *VALUE_NAMES,
    )
)  # fmt: skip
