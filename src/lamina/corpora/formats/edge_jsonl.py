"""Edge-probing JSON lines, the format that jiant made standard: reader and writer.

    {"text": "Dogs bark", "targets": [{"span1": [0, 1], "span2": [1, 2], "label": "nsubj", "info": {}}], "info": {}}

Words are split at whitespace; spans are half-open, in words. A record with `"offsets": "characters"` has spans in
characters of its text, which is then split into words as running text is, with a boundary wherever a span starts or
ends. In both cases `"tokens": [...]` are words of another tokenisation instead; a span of characters that cuts one of
them is a fault. A target has a `label`, or a `value` to be predicted, or both.

The annotation's name is, in this order: `annotation` in the text's `info` (our own writer puts it there), the file's
stem if it starts with a task's name (`nonterminal.dev` is `const`), `edges`.

Records of SPR1 as its authors pass it on (`tokens`, and `spr1`: `pred_idx`, `arg_idx` and `responses` of 1 to 5 to each
property) are read too: a property holds where its mean response is above 3, and every property asked is rated.

Values without a field in the format are kept in `info`: the text's `id`, `doc`, `segments` (if there are several) and
`words` (if a word contains whitespace), the target's `rated` and `value`. Written texts therefore read back unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
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
from lamina.corpora.tokenising import find_words, split_words
from lamina.files.writing import fresh_path, make_folder
from lamina.types import Edge, Span, Text

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
    """Whether the first line has a text, or tokens, and targets; or the tokens and responses of SPR1."""
    keys = first_record(path).keys()
    return ("targets" in keys and not keys.isdisjoint({"text", "tokens"})) or {"tokens", "spr1"} <= keys


def read(path: Path, report: Report = raise_fault) -> Iterator[Text]:
    """One text per line, its targets under the annotation's name."""
    return read_records(path, report, partial(_text, path=path), _EXPECTED)


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
    make_folder(path.parent)
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


_HOLDS = 3.0
"""A property of SPR1 holds above this mean response, as in the edge-probing data."""


def _proto_roles(record: Record, line: int, path: Path) -> Text:
    """A sentence of SPR1: predicate and argument by their head words, with the properties that hold and those asked."""
    words = words_of(record["tokens"])
    edges = []
    for pair in record["spr1"]:
        responses: dict[str, list[float]] = {}
        for response in pair["responses"]:
            responses.setdefault(name_of(response["spr_property"]), []).append(number_of(response["response"]))
        holds = sorted(name for name, values in responses.items() if sum(values) / len(values) > _HOLDS)
        spans = (span_of([place, place + 1]) for place in (pair["pred_idx"], pair["arg_idx"]))
        edges.append(Edge(tuple(holds), *spans, rated=tuple(sorted(responses))))
    name = str(record.get("sent_id", f"{path.stem}-{line}"))
    document = name.rpartition("_")[0] if "sent_id" in record else ""
    return Text(name, words, edges={"spr": tuple(edges)}, doc=document or None)


def _text(record: Record, line: int, path: Path) -> Text:
    if "spr1" in record and "targets" not in record:
        return _proto_roles(record, line, path)
    info = record.get("info") or {}
    words, place = _words(record, info)
    targets = tuple(_edge(target, place) for target in record["targets"])
    segments = tuple(span_of(segment) for segment in info.get("segments", ()))
    name = name_of(info.get("annotation", _name_of(path.stem)))
    doc = info.get("doc")
    doc = None if doc is None else str(doc)
    return Text(str(info.get("id", f"{path.stem}-{line}")), words, segments, {name: targets}, doc)


def _words(record: Record, info: Record) -> tuple[tuple[str, ...], Callable[[object], Span]]:
    """The words, and what finds the words of a span of the record."""
    given = record.get("tokens", info.get("words"))
    offsets = record.get("offsets", "words")
    if offsets not in ("words", "characters"):
        raise ValueError(f"offsets are {str(offsets)[:40]!r}")
    if offsets == "words":
        return words_of(record["text"].split() if given is None else given), span_of
    text = record["text"]
    if given is None:
        spans = [target[name] for target in record["targets"] for name in ("span1", "span2") if target.get(name)]
        cut = split_words(text, [border for span in spans for border in (span_of(span).start, span_of(span).end)])
    else:
        cut = find_words(text, words_of(given))

    def place(value: object) -> Span:
        span = span_of(value)
        if span.end > len(text):
            raise ValueError(f"the characters [{span.start}, {span.end}) are not in a text of {len(text)}")
        return cut.exact_span(span.start, span.end)

    return cut.words, place


def _edge(target: Record, place: Callable[[object], Span]) -> Edge:
    info = target.get("info") or {}
    other = target.get("span2")
    value = target.get("value", info.get("value"))
    return Edge(
        # What is graded need not have a label.
        () if value is not None and "label" not in target else labels_of(target["label"]),
        place(target["span1"]),
        None if other is None else place(other),
        labels_of(info["rated"]) if "rated" in info else None,
        None if value is None else number_of(value),
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
