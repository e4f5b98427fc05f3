"""JSON lines: one object a line makes one text; what is wrong with it becomes a fault of that line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lamina.corpora.blocks import read_lines
from lamina.corpora.faults import Fault, Report
from lamina.types import Span, Text

Record = dict[str, Any]
"""One JSON object of a JSONL file."""


def first_record(path: Path) -> Record:
    """The first line of a file where it is a JSON object; empty otherwise."""
    try:
        with path.open("rb") as file:
            record = json.loads(file.readline(1 << 20).decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def read_records(path: Path, report: Report, make: Callable[[Record, int], Text], expected: str) -> Iterator[Text]:
    """One text a line of JSON. A line of which `make` (given the object and the line) makes no text is a fault."""
    for line in read_lines(path, report):
        if line is None or not line.text.strip():
            continue
        try:
            text = make(_object(line.text), line.number)
        except json.JSONDecodeError as error:
            what = f"not JSON ({error.msg} at column {error.colno})"
            report(Fault(path, line.number, what, "one JSON object a line"))
        except KeyError as error:
            report(Fault(path, line.number, f"no field {error}", expected))
        except (ValueError, TypeError, AttributeError) as error:
            report(Fault(path, line.number, str(error), expected))
        else:
            yield text


def words_of(value: object) -> tuple[str, ...]:
    """A JSON list of words, checked."""
    if not isinstance(value, list) or not value or not all(isinstance(word, str) and word for word in value):
        raise ValueError(f"{_short(value)} is not a list of words")
    return tuple(value)


def labels_of(value: object) -> tuple[str, ...]:
    """A JSON label or list of labels, checked."""
    labels = [value] if isinstance(value, str) else value
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise ValueError(f"{_short(value)} is neither a label nor a list of labels")
    return tuple(labels)


def number_of(value: object) -> float:
    """A JSON number, checked."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"{_short(value)} is not a number")
    return float(value)


def word_span(index: object) -> Span:
    """The span of one 0-based word, checked."""
    if type(index) is not int:
        raise ValueError(f"{_short(index)} is not the index of a word")
    return Span(index, index + 1)


def span_of(value: object) -> Span:
    """A JSON `[start, end)`, checked."""
    if not isinstance(value, list | tuple) or len(value) != 2 or not all(type(bound) is int for bound in value):
        raise ValueError(f"{_short(value)} is not a span [start, end)")
    return Span(value[0], value[1])


def _object(line: str) -> Record:
    record = json.loads(line)
    if not isinstance(record, dict):
        raise ValueError(f"{_short(record)} is not a JSON object")
    return record


def _short(value: object) -> str:
    return repr(str(value)[:60])
