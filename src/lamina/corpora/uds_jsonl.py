"""UDS annotations joined to English Web Treebank tokens, as JSON lines.

Two files share the shape `{uds_id, sent_id, tokens, ...}`:

- proto-roles: `edges: [{pred, arg_head, arg_span: [start, end), props: {property: [value, confidence]}}]`;
- word senses: `noun_supersense: [[word, [labels]]]` and `factuality: [[word, value, confidence]]`.

A value above 0 means that the property holds; a missing property was not asked about, and is masked. The word-sense
files only contain nouns with a positive class, so `rated` is None there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lamina.corpora.reading import (
    Record,
    Report,
    document_of,
    first_record,
    id_of,
    labels_of,
    number_of,
    raise_fault,
    read_records,
    span_of,
    word_span,
    words_of,
)
from lamina.types import Edge, Text

_EXPECTED = "{uds_id, sent_id, tokens} with `edges` (proto-roles) or `noun_supersense` and `factuality` (word senses)"


def looks_like(path: Path) -> bool:
    """Whether the first line is a record of either kind."""
    return {"uds_id", "sent_id", "tokens"} <= first_record(path).keys()


def read(path: Path, report: Report = raise_fault) -> Iterator[Text]:
    """One text per line."""
    return read_records(path, report, _text, _EXPECTED)


def _text(record: Record, _line: int) -> Text:
    makers = {"edges": ("spr", _proto_role), "noun_supersense": ("supersense", _supersense)}
    makers["factuality"] = ("factuality", _factuality)
    edges = {
        name: tuple(make(item) for item in record[field]) for field, (name, make) in makers.items() if field in record
    }
    if not edges:
        raise KeyError("edges")
    name = id_of(record["sent_id"])
    return Text(name, words_of(record["tokens"]), edges=edges, doc=document_of(name))


def _proto_role(item: Record) -> Edge:
    values = {name: number_of(value) for name, (value, _confidence) in item["props"].items()}
    holding = tuple(sorted(name for name, value in values.items() if value > 0))
    return Edge(holding, word_span(item["pred"]), span_of(item["arg_span"]), rated=tuple(sorted(values)))


def _supersense(item: list[object]) -> Edge:
    word, labels = item
    return Edge(labels_of(labels), word_span(word))


def _factuality(item: list[object]) -> Edge:
    word, value, _confidence = item
    graded = number_of(value)
    return Edge(("factual",) if graded > 0 else (), word_span(word), rated=("factual",), value=graded)
