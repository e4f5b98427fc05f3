"""Corpora from Python objects: tables, datasets, lists."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from lamina.corpora.caching import to_line
from lamina.corpora.corpus import Corpus, fingerprint_of
from lamina.corpora.entities import TAG, scheme_of, spans_of
from lamina.corpora.units import in_units
from lamina.errors import CorpusError, SpanError
from lamina.types import Edge, Span, Text

if TYPE_CHECKING:
    import datasets
    import pandas

_ABOUT = ("id", "doc", "text", "word", "words", "tokens")
"""Columns that identify a row; any other column may be an annotation."""

Row = Mapping[str, Any]


def corpus_from(
    data: Iterable[Any] | pandas.DataFrame | datasets.Dataset,
    *,
    name: str = "given",
    split: str = "all",
    unit: str = "sentence",
    scheme: str = "as given",
    annotations: Mapping[str, str] | None = None,
) -> Corpus:
    """A corpus from data in memory.

    Lists: each item is a `Text`, a list of words, or a pair of words and `{annotation: edges}`, where edges are
    `Edge`s or one label per word (None: no label).

    A DataFrame with a column `word` has one row per word: `text` names the text it belongs to (rows of one text are
    consecutive), `doc` (optional) its document, and every other column is an annotation with one label per word.

    A DataFrame with a column `words` (or `tokens`) and a `datasets.Dataset` have one row per text: a list of words,
    `id` and `doc` (optional), and for each annotation a list of labels, one per word. Class labels of a dataset are
    replaced by their names.

    `annotations` maps columns to annotation names (`{"ner_tags": "ner"}`); without it, every column that fits is used
    under its own name. Under the name `ner`, IOB and BIOES tags become spans.

    Example:
        >>> corpus = corpus_from([(["Dogs", "bark"], {"pos": ["NOUN", "VERB"]})], name="pets")
        >>> next(iter(corpus)).edges["pos"][1]
        Edge(labels=('VERB',), span=Span(start=1, end=2), other=None, rated=None, value=None)
    """
    if hasattr(data, "columns") or hasattr(data, "features"):
        table: Any = data
    else:
        table = tuple(data)

    def read() -> Iterator[Text]:
        return in_units(_texts(table, name, annotations), unit)

    digest = hashlib.sha256()
    for text in read():
        digest.update(to_line(text).encode() + b"\n")
    if digest.digest() == hashlib.sha256().digest():
        raise CorpusError(f"corpus {name!r} is empty: the data contains no text")
    return Corpus(name, split, unit, scheme, fingerprint_of("content", digest.hexdigest(), split, unit), read)


def _texts(data: Any, name: str, annotations: Mapping[str, str] | None) -> Iterator[Text]:
    if isinstance(data, tuple):
        items = enumerate(data, start=1)
        yield from (_text_of_item(item, f"{name}-{number}") for number, item in items)
        return
    rows = _rows(data)
    for number, row in enumerate(rows, start=1):
        words = row.get("words", row.get("tokens"))
        about = _said(row.get("id")) or f"{name}-{number}"
        chosen = annotations or {column: column for column in row if _fits(column, row[column], words)}
        missing = [column for column in chosen if column not in row]
        if missing:
            raise CorpusError(f"text {about!r}: there is no column {missing[0]!r}; the columns are {', '.join(row)}")
        edges = {annotation: row[column] for column, annotation in chosen.items()}
        yield _made(about, words, edges, _said(row.get("doc")))


def _fits(column: str, value: Any, words: Any) -> bool:
    return column not in _ABOUT and _is_list(value) and len(value) == len(words)


def _is_list(value: Any) -> bool:
    return hasattr(value, "__len__") and hasattr(value, "__getitem__") and not isinstance(value, str | Mapping)


def _rows(data: Any) -> Iterator[Row]:
    """One mapping per text, for any kind of table."""
    columns = list(getattr(data, "column_names", None) or getattr(data, "columns", ()))
    if "word" in columns:
        yield from _rows_of_words(data, columns)
    elif "words" in columns or "tokens" in columns:
        named = _label_names(data)
        for row in data if hasattr(data, "features") else data.to_dict("records"):
            yield {key: _named(value, named.get(key)) for key, value in row.items()}
    else:
        raise CorpusError(
            f"no column of words: columns are {', '.join(map(str, columns)) or 'none'}; "
            "expected `word` (one row per word), or `words` or `tokens` (one row per text)"
        )


def _rows_of_words(frame: pandas.DataFrame, columns: Sequence[str]) -> Iterator[Row]:
    if "text" not in columns:
        raise CorpusError("a table with one row per word needs a column `text` that names the text of each word")
    tags = [column for column in columns if column not in _ABOUT]
    for text, run in groupby(frame.to_dict("records"), key=lambda row: row["text"]):
        rows = list(run)
        about = {"id": text, "words": [row["word"] for row in rows], "doc": rows[0].get("doc")}
        yield about | {tag: [row[tag] for row in rows] for tag in tags}


def _label_names(data: Any) -> dict[str, Sequence[str]]:
    """Column -> names of its class labels, if a dataset has them."""
    features = getattr(data, "features", {})
    found = {column: getattr(feature, "feature", feature) for column, feature in features.items()}
    return {column: feature.names for column, feature in found.items() if hasattr(feature, "names")}


def _named(value: Any, names: Sequence[str] | None) -> Any:
    # Datasets mark an unknown class with -1.
    return value if names is None else [None if at is None or at < 0 else names[at] for at in value]


def _text_of_item(item: Any, about: str) -> Text:
    if isinstance(item, Text):
        return item
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], Mapping):
        return _made(about, item[0], item[1])
    return _made(about, item, {})


def _said(value: Any) -> str | None:
    """A label or name as a string; None for a missing value (NaN is not equal to itself)."""
    return None if value is None or value != value else str(value)


def _made(about: str, words: Any, edges: Mapping[str, Any], doc: str | None = None) -> Text:
    if not _is_list(words) or not all(isinstance(word, str) and word for word in words):
        raise CorpusError(f"text {about!r}: expected a list of words; got {str(words)[:60]!r}")
    try:
        made = {name: _edges(name, list(given), len(words)) for name, given in edges.items()}
        return Text(about, tuple(words), edges=made, doc=doc)
    except SpanError as error:
        raise CorpusError(f"text {about!r} cannot be used: {error}") from None


def _edges(name: str, given: list[Any], size: int) -> tuple[Edge, ...]:
    if all(isinstance(one, Edge) for one in given):
        return tuple(given)
    labels = [_said(one) for one in given]
    if len(labels) != size:
        raise SpanError(f"{name} has {len(labels)} labels for {size} words; give one per word, or a list of Edge")
    if name == "ner":
        labels = ["O" if label is None else label for label in labels]
        if all(map(TAG.fullmatch, labels)):
            return tuple(Edge((kind,), span) for kind, span in spans_of(labels, scheme_of([labels])))
        labels = [None if label == "O" else label for label in labels]
    return tuple(Edge((label,), Span(at, at + 1)) for at, label in enumerate(labels) if label is not None)
