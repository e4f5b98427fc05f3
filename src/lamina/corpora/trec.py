"""TREC question types (Li and Roth): what kind of answer a question asks for.

Lines `COARSE:fine question`. Annotations of the whole question: `ques`, the fine label in full (`DESC:manner`), and
`ques_coarse` (`DESC`). The questions are already tokenised; they are split at spaces. A repeated question with the same
label is left out; with another label it is a fault. The original files are not UTF-8: lines that are not are read as
Latin-1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from lamina.corpora.notes import Notes
from lamina.corpora.question import Question, labelled_question
from lamina.corpora.reading import Fault, Report, head_lines, raise_fault
from lamina.corpora.views import View
from lamina.files.reading import read_regular
from lamina.types import Edge, Span, Text

REPEATED = "questions that are duplicates"
_LINE = re.compile(r"([A-Z]{2,5}):([a-z]+)\s+(\S.*)")


def looks_like(path: Path) -> bool:
    """Whether the first lines are questions with their types."""
    lines = [line for line in head_lines(path) if line.strip()] if path.is_file() else []
    return bool(lines) and all(_LINE.fullmatch(line) for line in lines)


def read(path: Path, report: Report = raise_fault, noted: Notes | None = None) -> Iterator[Text]:
    """One text per question, named by its line number."""
    noted = noted or Notes()
    types: dict[str, str] = {}
    for number, line in enumerate(_decoded(read_regular(path)).split("\n"), start=1):
        if not line.strip():
            continue
        parts = _LINE.fullmatch(line.strip())
        if parts is None:
            report(Fault(path, number, f"{line[:40]!r} is not a typed question", "COARSE:fine, a space and a question"))
            continue
        fine, question = f"{parts[1]}:{parts[2]}", " ".join(parts[3].split())
        id = f"{path.stem}-{number}"
        if question not in types:
            types[question] = fine
            yield _text(id, tuple(question.split()), parts[1], fine)
        elif types[question] == fine:
            noted.add(REPEATED, id)
        else:
            what = f"question {id} is {fine} here and {types[question]} before"
            report(Fault(path, number, what, "one type per question"))


def questions(
    path: Path,
    report: Report = raise_fault,
    noted: Notes | None = None,
    view: View | None = None,  # noqa: ARG001 - as any reader
) -> Iterator[Question]:
    """Every question with its fine type as the answer; there is one view of them."""
    return (labelled_question(text, "ques", "trec") for text in read(path, report, noted))


def _text(id: str, words: tuple[str, ...], coarse: str, fine: str) -> Text:
    whole = Span(0, len(words))
    return Text(id, words, edges={"ques": (Edge((fine,), whole),), "ques_coarse": (Edge((coarse,), whole),)})


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")
