"""STREUSLE: supersenses of nouns, verbs and prepositions, over single words and multi-word expressions.

Two shapes: JSON lines `{sent_id, tokens, exprs: [[start, end, lexcat, supersense, function]]}`, and `.conllulex`
(CoNLL-U's ten columns, which give `pos`, `xpos` and `dep`, and nine more). Labels stay as annotated, with their prefix:
`supersense` (n.*), `supersense_verb` (v.*), `supersense_prep` (p.*, the scene role) and `supersense_prep_function`
(p.*). Labels outside these inventories (`??`, opaque possessives) are not supersenses. An expression with a gap has no
span and is left out, as in the JSON lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from lamina.corpora.reading import (
    Fault,
    Line,
    Record,
    Report,
    document_of,
    first_record,
    head_lines,
    id_of,
    name_of,
    raise_fault,
    read_blocks,
    read_records,
    span_of,
    whole_number,
    words_of,
)
from lamina.types import Edge, Span, Text

_JSONL = "{sent_id, tokens, exprs: [[start, end, lexcat, supersense or null, function or null]]}"
_COLUMNS = 19
_FORM, _UPOS, _XPOS, _HEAD, _DEPREL, _STRONG, _SENSE, _FUNCTION = 1, 3, 4, 6, 7, 10, 13, 14
_KINDS = {"n": "supersense", "v": "supersense_verb", "p": "supersense_prep"}


class _Expression(NamedTuple):
    """A word or a multi-word expression with its senses."""

    span: Span
    sense: str | None
    function: str | None


def looks_like(path: Path) -> bool:
    """Whether the file is `.conllulex` or starts with a record of expressions."""
    if path.suffix == ".conllulex":
        return path.is_file() and any(line.count("\t") == _COLUMNS - 1 for line in head_lines(path))
    return {"sent_id", "tokens", "exprs"} <= first_record(path).keys()


def read(path: Path, report: Report = raise_fault) -> Iterator[Text]:
    """One text per sentence."""
    if path.suffix == ".conllulex":
        return _read_conllulex(path, report)
    return read_records(path, report, _text_of_record, _JSONL)


def _supersenses(expressions: Iterable[_Expression]) -> dict[str, tuple[Edge, ...]]:
    targets: dict[str, list[Edge]] = {name: [] for name in (*_KINDS.values(), "supersense_prep_function")}
    for span, sense, function in expressions:
        if sense is not None and (kind := _KINDS.get(sense.partition(".")[0])) and "." in sense:
            targets[kind].append(Edge((sense,), span))
            if function is not None and function.startswith("p."):
                targets["supersense_prep_function"].append(Edge((function,), span))
    return {name: tuple(edges) for name, edges in targets.items()}


def _text_of_record(record: Record, _line: int) -> Text:
    expressions = [_expression(item) for item in record["exprs"]]
    name = id_of(record["sent_id"])
    return Text(name, words_of(record["tokens"]), edges=_supersenses(expressions), doc=document_of(name))


def _expression(item: list[object]) -> _Expression:
    start, end, _category, sense, function = item
    return _Expression(span_of([start, end]), _label(sense), _label(function))


def _label(value: object) -> str | None:
    return None if value is None else name_of(value)


def _read_conllulex(path: Path, report: Report) -> Iterator[Text]:
    doc = None
    for block in read_blocks(path, report):
        comments = dict(_comment(line.text) for line in takewhile(lambda line: line.text.startswith("#"), block))
        doc = comments.get("newdoc id", doc)
        rows = _rows(block, path, report)
        if rows is None:
            continue
        edges = _syntax(rows) | _supersenses(_expressions(rows))
        name = comments.get("sent_id", f"line {block[0].number}")
        yield Text(name, tuple(row[_FORM] for row in rows), edges=edges, doc=doc)


def _comment(line: str) -> tuple[str, str]:
    key, _, value = line.lstrip("# ").partition("=")
    return key.strip(), value.strip()


def _rows(block: list[Line], path: Path, report: Report) -> list[list[str]] | None:
    """The columns of a sentence's words, or None after a fault."""
    rows: list[list[str]] = []
    numbers: list[int] = []
    faults: list[Fault] = []
    for line in (line for line in block if not line.text.startswith("#")):
        columns = line.text.split("\t")
        if len(columns) != _COLUMNS:
            faults.append(Fault(path, line.number, f"{len(columns)} columns", f"{_COLUMNS} columns, separated by tabs"))
        elif columns[0].isdecimal():
            rows.append(columns)
            numbers.append(line.number)
            if whole_number(columns[0]) != len(rows):
                faults.append(Fault(path, line.number, f"word {columns[0]}", f"word {len(rows)}"))
            elif not columns[_FORM]:
                faults.append(Fault(path, line.number, "no word", f"a word in column {_FORM + 1}"))
    for number, row in zip(numbers, rows, strict=True):
        head = whole_number(row[_HEAD])
        if head is None or head > len(rows):
            faults.append(Fault(path, number, f"head {row[_HEAD]!r}", "the number of a word, or 0"))
    if not rows and not faults:
        faults.append(Fault(path, block[0].number, "a sentence without words", "one line per word"))
    for fault in faults:
        report(fault)
    return None if faults else rows


def _syntax(rows: list[list[str]]) -> dict[str, tuple[Edge, ...]]:
    words = [Span(place, place + 1) for place in range(len(rows))]
    heads = [int(row[_HEAD]) for row in rows]
    return {
        "pos": tuple(Edge((row[_UPOS],), word) for row, word in zip(rows, words, strict=True)),
        "xpos": tuple(Edge((row[_XPOS],), word) for row, word in zip(rows, words, strict=True)),
        "dep": tuple(
            Edge((row[_DEPREL],), word, words[head - 1] if head else word)
            for row, word, head in zip(rows, words, heads, strict=True)
        ),
    }


def _expressions(rows: list[list[str]]) -> Iterator[_Expression]:
    """The strong expressions without gaps; senses are annotated on an expression's first word."""
    members: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        group = row[_STRONG].partition(":")[0]
        members.setdefault(f"word {place}" if group == "_" else group, []).append(place)
    for places in members.values():
        first, last = places[0], places[-1]
        if last - first == len(places) - 1:
            sense, function = (
                value if value != "_" else None for value in (rows[first][_SENSE], rows[first][_FUNCTION])
            )
            yield _Expression(Span(first, last + 1), sense, function)
