"""The GLUE benchmark's own files: SST-2, MRPC, QQP, QNLI, RTE, WNLI, MNLI, STS-B, and CoLA, which has no header.

Tab-separated; the first line names the columns. One column is the label (`label`, MRPC's `Quality`, QQP's
`is_duplicate`, `gold_label`) or STS-B's graded `score`, one or two are the sentences; other columns are ignored. Two
sentences are two segments. Annotation: `label` or `score`, of the whole text; a test file without labels has none.
Any other table is read by `lamina.corpora.tables.reader`, of which this is a part with fixed names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from lamina.corpora.corpus import View
from lamina.corpora.questions.question import Question, labelled_question
from lamina.corpora.reading import Fault, Notes, Report, raise_fault
from lamina.corpora.tables import reader
from lamina.corpora.tables.files import DelimitedLayout, layout_of
from lamina.types import Text

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
_OTHERS = re.compile(
    r"index|idx|id|qid[12]|#[12] id|pairid|promptid|genre|filename|year|old_index|source[12]|label\d"
    r"|sentence[12]_(?:binary_)?parse|captionid"
)
"""The columns of GLUE's files that are not used."""
_COLA = {"text": "4", "label": "2"}
"""CoLA's columns: the source, the label, the author's mark, the sentence."""


def looks_like(path: Path) -> bool:
    """Whether the first line, tab-separated, names the columns of one of GLUE's files and no others; or it is CoLA."""
    layout = layout_of(path) if path.is_file() else None
    chosen = None if layout is None or layout.delimiter != "\t" else _columns(layout)
    if layout is None or chosen is None:
        return False
    others = [column.lower() for column in layout.columns if column not in chosen.values()]
    return not layout.header or all(map(_OTHERS.fullmatch, others))


def read(path: Path, report: Report = raise_fault, noted: Notes | None = None) -> Iterator[Text]:
    """One text per line, named by its line number."""
    layout = layout_of(path)
    chosen = None if layout is None else _columns(layout)
    if chosen is None:
        names = "sentence and label, tab-separated (or MRPC's Quality, #1 String, #2 String)"
        report(Fault(path, 1, "the first line does not name its columns", names))
        return
    yield from reader.read(path, report, noted, chosen, own_ids=False, unlabelled=False)


def questions(
    path: Path,
    report: Report = raise_fault,
    noted: Notes | None = None,
    view: View | None = None,  # noqa: ARG001 - as any reader
) -> Iterator[Question]:
    """Every text with its class as the answer; there is one view of them."""
    return (labelled_question(text, "label", "glue") for text in read(path, report, noted))


def _columns(layout: DelimitedLayout) -> Mapping[str, str] | None:
    """What is in which column; None if these are not GLUE's."""
    if not layout.header:
        return _COLA if _is_cola(layout) else None
    names = {name.lower(): name for name in reversed(layout.columns)}
    sentences = next((wanted for wanted in _SENTENCES if all(name in names for name in wanted)), None)
    if sentences is None:
        return None
    texts = {role: names[name] for role, name in zip(("text", "text2"), sentences, strict=False)}
    label = next((names[name] for name in _LABELS if name in names), None)
    if label is not None:
        return texts | {"label:class": label}
    return texts | ({"score:value": names["score"]} if "score" in names else {})


def _is_cola(layout: DelimitedLayout) -> bool:
    # The third column holds the author's marks, if any: `*`, `??`.
    rows = layout.sample
    return len(layout.columns) == 4 and all(row[1] in ("0", "1") and not any(map(str.isalnum, row[2])) for row in rows)
