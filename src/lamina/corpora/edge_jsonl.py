"""Edge-probing JSON lines, the format that jiant made standard: reader and writer.

    {"text": "Dogs bark", "targets": [{"span1": [0, 1], "span2": [1, 2], "label": "nsubj", "info": {}}], "info": {}}

Words are split at whitespace; spans are half-open, in words. The annotation's name is, in this order: `annotation` in
the text's `info` (our own writer puts it there), the caller's `annotation`, the file's stem if it starts with a task's
name (`nonterminal.dev` is `const`), `edges`. If the text's `info` and the caller disagree, reading stops.

Values without a field in the format are kept in `info`: the text's `id`, `doc`, `segments` (if there are several) and
`words` (if a word contains whitespace), the target's `rated` and `value`. Written texts therefore read back unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from lamina.corpora.reading import (
    Record,
    Report,
    first_record,
    labels_of,
    name_of,
    number_of,
    raise_fault,
    read_records,
    span_of,
    words_of,
)
from lamina.errors import CorpusError
from lamina.files.writing import fresh_path
from lamina.types import Edge, Text

_EXPECTED = '{"text": "...", "targets": [{"span1": [start, end), "span2": optional, "label": "..." or ["..."]}]}'
_NAMES = {
    "pos": "pos",
    "const": "const",
    "nonterminal": "const",
    "dep": "dep",
    "ner": "ner",
    "srl": "srl",
    "coref": "coref",
    "spr": "spr",
    "spr1": "spr",
    "spr2": "spr",
    "rel": "rel",
    "semeval": "rel",
    "supersense": "supersense",
}


def looks_like(path: Path) -> bool:
    """Whether the first line has a text and targets."""
    return {"text", "targets"} <= first_record(path).keys()


def read(path: Path, report: Report = raise_fault, annotation: str | None = None) -> Iterator[Text]:
    """One text per line, its targets under the annotation's name."""
    return read_records(path, report, partial(_text, path=path, annotation=annotation), _EXPECTED)


def write(texts: Iterable[Text], annotation: str, path: Path) -> int:
    """Write the targets of one annotation, as a complete file or not at all; returns the number of texts.

    Texts without the annotation are left out; a text that has it, but no targets, is kept.

    Example:
        >>> import tempfile
        >>> from lamina.types import Span
        >>> path = Path(tempfile.mkdtemp()) / "pos.jsonl"
        >>> write([Text("s1", ("Dogs", "bark"), edges={"pos": (Edge(("NOUN",), Span(0, 1)),)})], "pos", path)
        1
        >>> [text.edges["pos"][0].labels for text in read(path)]
        [('NOUN',)]
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    with fresh_path(path) as fresh, fresh.open("w", encoding="utf-8") as file:
        for text in texts:
            if annotation in text.edges:
                file.write(json.dumps(_record(text, annotation), ensure_ascii=False) + "\n")
                written += 1
    return written


def _name_of(stem: str) -> str:
    """The annotation in a file's name (`nonterminal.dev`, `dep_ewt-train`, `spr2`), or `edges`."""
    first = stem.lower().replace("-", ".").replace("_", ".").partition(".")[0]
    return _NAMES.get(first, "edges")


def _text(record: Record, line: int, path: Path, annotation: str | None) -> Text:
    info = record.get("info") or {}
    words = words_of(info["words"] if "words" in info else record["text"].split())
    targets = tuple(_edge(target) for target in record["targets"])
    segments = tuple(span_of(segment) for segment in info.get("segments", ()))
    name = name_of(info.get("annotation", annotation or _name_of(path.stem)))
    if annotation not in (None, name):
        # Not a fault of the line: what was asked for does not fit the file.
        raise CorpusError(
            f"{path}:{line}: the file itself names these targets {name!r}, so they cannot be named {annotation!r}; "
            "leave the annotation's name out"
        )
    doc = info.get("doc")
    doc = None if doc is None else str(doc)
    return Text(str(info.get("id", f"{path.stem}-{line}")), words, segments, {name: targets}, doc)


def _edge(target: Record) -> Edge:
    info = target.get("info") or {}
    other = target.get("span2")
    return Edge(
        labels_of(target["label"]),
        span_of(target["span1"]),
        None if other is None else span_of(other),
        labels_of(info["rated"]) if "rated" in info else None,
        number_of(info["value"]) if "value" in info else None,
    )


def _record(text: Text, annotation: str) -> Record:
    info: Record = {"id": text.id, "annotation": annotation}
    if text.doc is not None:
        info["doc"] = text.doc
    if len(text.segments) > 1:
        info["segments"] = [[segment.start, segment.end] for segment in text.segments]
    joined = " ".join(text.words)
    if tuple(joined.split()) != text.words:
        info["words"] = list(text.words)
    return {"text": joined, "targets": [_target(edge) for edge in text.edges[annotation]], "info": info}


def _target(edge: Edge) -> Record:
    target: Record = {"span1": [edge.span.start, edge.span.end]}
    if edge.other is not None:
        target["span2"] = [edge.other.start, edge.other.end]
    # A single label is written as a plain string, as in jiant's single-label tasks.
    target["label"] = edge.labels[0] if len(edge.labels) == 1 else list(edge.labels)
    info: Record = {}
    if edge.rated is not None:
        info["rated"] = list(edge.rated)
    if edge.value is not None:
        info["value"] = edge.value
    return target | ({"info": info} if info else {})
