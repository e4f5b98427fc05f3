"""Tab-separated sentences with a class, as in the GLUE benchmark: SST-2, MRPC and the like.

The first line names the columns. One column is the label (`label`, MRPC's `Quality`, QQP's `is_duplicate`), one or two
are the sentences (`sentence`; `sentence1` and `sentence2`; `#1 String` and `#2 String`; `question1` and `question2`;
`question` and `sentence`); other columns are ignored. Two sentences are two segments. Annotation: `label`, of the
whole text; a test file without a label column has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lamina.corpora.notes import Notes
from lamina.corpora.questions import Question, labelled_question
from lamina.corpora.reading import Fault, Report, head_lines, raise_fault, read_lines
from lamina.corpora.tokenising import words_in
from lamina.corpora.views import View
from lamina.types import Edge, Span, Text

_LABELS = ("label", "quality", "is_duplicate", "gold_label")
_SENTENCES = (
    ("#1 string", "#2 string"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("premise", "hypothesis"),
    ("sentence",),
    ("text",),
)


class _Columns(NamedTuple):
    """Which column is what."""

    size: int
    sentences: tuple[int, ...]
    label: int | None


def looks_like(path: Path) -> bool:
    """Whether the first line, tab-separated, names a column of sentences, and every line has the same columns."""
    lines = [line for line in head_lines(path) if line.strip()] if path.is_file() else []
    columns = _columns(lines[0]) if lines else None
    return columns is not None and all(line.count("\t") == columns.size - 1 for line in lines)


def read(path: Path, report: Report = raise_fault) -> Iterator[Text]:
    """One text per line, named by its line number."""
    columns = None
    for line in read_lines(path, report):
        if line is None or not line.text.strip():
            continue
        if columns is None:
            columns = _columns(line.text)
            if columns is None:
                names = "sentence and label, tab-separated (or MRPC's Quality, #1 String, #2 String)"
                report(Fault(path, line.number, "the first line does not name its columns", names))
                return
            continue
        text = _text(path, line.number, line.text.split("\t"), columns, report)
        if text is not None:
            yield text


def questions(
    path: Path,
    report: Report = raise_fault,
    noted: Notes | None = None,  # noqa: ARG001 - as any reader
    view: View | None = None,  # noqa: ARG001 - as any reader
) -> Iterator[Question]:
    """Every text with its class as the answer; there is one view of them."""
    return (labelled_question(text, "label", "glue") for text in read(path, report))


def _columns(header: str) -> _Columns | None:
    names = [name.strip().lower() for name in header.split("\t")]
    for wanted in _SENTENCES:
        if len(names) > 1 and all(name in names for name in wanted):
            label = next((names.index(name) for name in _LABELS if name in names), None)
            return _Columns(len(names), tuple(names.index(name) for name in wanted), label)
    return None


def _text(path: Path, number: int, cells: list[str], columns: _Columns, report: Report) -> Text | None:
    if len(cells) != columns.size:
        report(Fault(path, number, f"{len(cells)} columns", f"{columns.size} columns, as in the first line"))
        return None
    parts = [words_in(cells[column]) for column in columns.sentences]
    label = None if columns.label is None else cells[columns.label].strip()
    if not all(parts) or label == "":
        report(Fault(path, number, "an empty sentence or label", "words in every sentence, and a label"))
        return None
    words = tuple(word for part in parts for word in part)
    first = len(parts[0])
    segments = (Span(0, first), Span(first, len(words))) if len(parts) == 2 else ()
    edges = {} if label is None else {"label": (Edge((label,), Span(0, len(words))),)}
    return Text(f"{path.stem}-{number}", words, segments, edges)
