"""Corpora from Python objects: lists, tables, datasets."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from numbers import Integral
from typing import TYPE_CHECKING, Any

from lamina.corpora.caching import to_line
from lamina.corpora.corpus import Corpus, fingerprint_of, in_units
from lamina.corpora.reading import Notes
from lamina.corpora.tables.columns import (
    SAMPLED,
    RowCells,
    RowWords,
    TablePlan,
    edges_of,
    is_list,
    label_text,
    missing,
    number_in,
    plan_table,
    survey,
    tag_edges,
    texts_of,
)
from lamina.errors import CorpusError, SpanError
from lamina.types import Edge, Span, Text

if TYPE_CHECKING:
    import datasets
    import pandas


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

    Lists: each item is a `Text`, a string (running text, which is tokenised), a list of words, two lists of words (a
    pair: two segments), or one of these with `{annotation: labels}`. Labels are `Edge`s, one label per word (None: no
    label), one label or number for the whole text, or a set of labels for the whole text. A list of dicts is a table.

    Tables (a list of dicts, a DataFrame, a `datasets.Dataset`) have one row per text: a list of words (`words`,
    `tokens`) or running text (`text`, `sentence`; a pair in `sentence1` and `sentence2`, `premise` and `hypothesis`),
    optional `id` and `doc`, and annotations: classes, numbers with fractions (graded values), lists with one label per
    word, lists of labels. A table with a column `word` has one row per word, and `text` names the text it belongs to.
    Class labels of a dataset are replaced by their names; -1 means unlabelled. `Corpus.left_out` says which columns
    are not used, and why.

    `annotations` maps columns to annotation names (`{"ner_tags": "ner"}`), or to what else they are (`{"review":
    "text"}`; also `text2`, `words`, `word`, `id`, `doc`); without it, every column that fits is used under its own
    name. `name:value` and `name:class` say what numbers are. Under the name `ner`, IOB and BIOES tags become spans.

    Example:
        >>> corpus = corpus_from([(["Dogs", "bark"], {"pos": ["NOUN", "VERB"]})], name="pets")
        >>> next(iter(corpus)).edges["pos"][1]
        Edge(labels=('VERB',), span=Span(start=1, end=2), other=None, rated=None, value=None)
        >>> corpus = corpus_from([{"text": "I like it.", "sentiment": "good"}])
        >>> next(iter(corpus)).edges["sentiment"]
        (Edge(labels=('good',), span=Span(start=0, end=4), other=None, rated=None, value=None),)
    """
    table = _MemoryTable.of(data)
    notes = Notes()
    if table is None:
        items = _items(data)

        def texts() -> Iterator[Text]:
            return (_text_of_item(item, f"{name}-{number}") for number, item in enumerate(items, start=1))
    else:
        plan = table.plan(annotations)
        for what in plan.notes():
            notes.add(what, name)

        def texts() -> Iterator[Text]:
            return texts_of(table.rows(), plan, name)

    def read() -> Iterator[Text]:
        return in_units(texts(), unit)

    digest = hashlib.sha256()
    for text in read():
        digest.update(to_line(text).encode() + b"\n")
    if digest.digest() == hashlib.sha256().digest():
        raise CorpusError(f"corpus {name!r} is empty: the data contains no text")
    fingerprint = fingerprint_of("content", digest.hexdigest(), split, unit)
    return Corpus(name, split, unit, scheme, fingerprint, read, notes=notes)


class _MemoryTable:
    """Rows of a DataFrame, of a dataset or of a list of dicts, which can be read repeatedly."""

    def __init__(self, columns: Sequence[str], data: Any) -> None:
        self.columns, self.data = columns, data

    @classmethod
    def of(cls, data: Any) -> _MemoryTable | None:
        """The table that was given; None for a list of texts."""
        frame: Any = data
        if isinstance(data, list | tuple) and data and all(isinstance(row, Mapping) for row in data):
            return cls(list(dict.fromkeys(column for row in data for column in row)), data)
        if hasattr(frame, "to_dict") and hasattr(frame, "columns"):
            return cls([str(column) for column in frame.columns], data)
        if hasattr(data, "features"):
            first: Mapping[str, Any] = next(iter(data), {})
            return cls(list(getattr(data, "column_names", None) or first), data)
        return None

    def rows(self) -> Iterator[RowCells]:
        if not hasattr(self.data, "to_dict") or hasattr(self.data, "features"):
            return iter(self.data)
        named = (
            self.data.set_axis(self.columns, axis="columns") if len(set(self.columns)) == len(self.columns) else None
        )
        if named is None:
            raise CorpusError(f"two columns have the same name; the columns are {', '.join(self.columns)}")
        return iter(named.to_dict("records"))

    def plan(self, annotations: Mapping[str, str] | None) -> TablePlan:
        sample = list(islice(self.rows(), SAMPLED))
        classes, graded = _features(getattr(self.data, "features", None) or {})
        chosen = {annotation: column for column, annotation in (annotations or {}).items()}
        if len(chosen) < len(annotations or {}):
            raise CorpusError(f"annotations gives two columns the same name: {', '.join(chosen)}")
        values = None
        if len(sample) == SAMPLED:
            seen = survey(self.rows(), sample)
            values, sample = seen.values, [*sample, *seen.telling]
        return plan_table(self.columns, sample, classes=classes, graded=graded, chosen=chosen, values=values)


def _features(features: Mapping[str, Any]) -> tuple[dict[str, Sequence[str]], Collection[str]]:
    """Columns of class labels with their names, and columns of floats, as a dataset declares them."""
    inner = {column: getattr(feature, "feature", feature) for column, feature in features.items()}
    # Older datasets write a sequence as a list of one feature.
    inner = {
        column: feature[0] if isinstance(feature, list) and feature else feature for column, feature in inner.items()
    }
    classes = {column: feature.names for column, feature in inner.items() if hasattr(feature, "names")}
    graded = {column for column, feature in inner.items() if str(getattr(feature, "dtype", "")).startswith("float")}
    return classes, graded


def _items(data: Any) -> tuple[Any, ...]:
    if isinstance(data, str | bytes | Mapping) or not isinstance(data, Iterable):
        raise CorpusError(f"a corpus is a list of texts or a table; got {str(data)[:60]!r}")
    return tuple(data)


def _text_of_item(item: Any, about: str) -> Text:
    if isinstance(item, Text):
        return item
    labelled = isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], Mapping)
    words, edges = item if labelled else (item, {})
    try:
        cut = _cut(words)
        annotations = {
            name: targets for name, given in edges.items() if (targets := _edges(name, given, cut)) is not None
        }
        return Text(about, cut.words, cut.segments, annotations, glued=cut.glued)
    except SpanError as error:
        raise CorpusError(f"text {about!r} cannot be used: {error}") from None


def _cut(words: Any) -> RowWords:
    """The words of an item: running text, a list of words, or a pair of either."""
    if isinstance(words, str):
        return RowWords.of_strings([words])
    pair = is_list(words) and len(words) == 2
    if pair and all(is_list(part) for part in words):
        return RowWords.of_words(words)
    if pair and isinstance(words, tuple) and all(isinstance(part, str) and " " in part.strip() for part in words):
        return RowWords.of_strings(words)
    if isinstance(words, tuple) and any(isinstance(part, str) and " " in part.strip() for part in words):
        raise SpanError(
            f"is {str(words)[:60]} a pair, or a text with its label? Write (text, {{'sentiment': 'good'}}), or a dict "
            "such as {'text': ..., 'sentiment': ...}"
        )
    return RowWords.of_words([words])


def _edges(name: str, given: Any, cut: RowWords) -> tuple[Edge, ...] | None:
    """The targets of an annotation; None for a text that has no label."""
    if missing(given):
        return None
    if isinstance(given, Edge):
        return (given,)
    if isinstance(given, set | frozenset):
        return (Edge(tuple(sorted(str(label_text(label)) for label in given)), Span(0, len(cut.words))),)
    if not is_list(given):
        # One text does not show whether a whole number is a value or the number of a class; it is read as a class.
        whole = isinstance(given, str | Integral)
        if not whole and number_in(given) is None:
            raise SpanError(f"{name}: {str(given)[:60]!r} is neither a label nor a number, nor a list of labels")
        return edges_of(name, given, "class" if whole else "value", (), cut)
    if all(isinstance(one, Edge) for one in given):
        return tuple(given)
    return tag_edges(name, [label_text(one) for one in given], len(cut.words))
