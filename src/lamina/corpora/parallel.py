"""Texts in one file and their labels in another, line by line: `train_text.txt` and `train_labels.txt`.

The two names differ in one word: `text` and `labels`, `sentences` and `labels` or `tags`, `words` and `tags`, `seq.in`
and `seq.out` or `label`. A line of labels is the class of the text (annotation `label`), or has one tag per word
(`tags`; then words are split at spaces). `mapping.txt` in the same folder names the classes, as in TweetEval:
`0<TAB>anger`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from pathlib import Path

from lamina.corpora.delimited import Row
from lamina.corpora.notes import Notes
from lamina.corpora.reading import Fault, Report, raise_fault, read_lines
from lamina.corpora.rows import SAMPLED
from lamina.corpora.table_plans import Planned, Table
from lamina.errors import CorpusError
from lamina.files.reading import open_regular
from lamina.types import Text

_PARTNERS = {
    "text": ("labels", "label"),
    "texts": ("labels", "label"),
    "sentences": ("labels", "tags"),
    "words": ("tags", "labels"),
    "seq.in": ("seq.out", "label"),
}
_ANNOTATIONS = {"labels": "label", "label": "label", "tags": "tags", "seq.out": "tags"}
_MAPPING = "mapping.txt"
_BLOCK = 1 << 20


def looks_like(path: Path) -> bool:
    """Whether there is a file of labels beside it, with as many lines."""
    found = _labels(path) if path.is_file() else {}
    return bool(found) and len({_count(each) for each in (path, *found.values())}) == 1


def companions(path: Path) -> tuple[Path, ...]:
    """The files of labels, and the names of the classes."""
    mapping = path.parent / _MAPPING
    return (*_labels(path).values(), *([mapping] if mapping.is_file() else []))


def read(path: Path, report: Report = raise_fault, noted: Notes | None = None) -> Iterator[Text]:
    """One text per line, named by its line number."""
    found = _labels(path)
    if not found:
        report(Fault(path, 0, "no file of labels beside it", "two files such as train_text.txt and train_labels.txt"))
        return
    names = _class_names(path.parent / _MAPPING)
    columns = ("text", *found)
    table = Table(path, "a file of texts and a file of labels", columns, partial(_rows, path, found, names), {})
    try:
        planned = Planned(table, {name: name for name in columns}, SAMPLED)
    except CorpusError as error:
        report(Fault(path, 0, str(error), "one text and one label per line"))
        return
    yield from planned.read(report, noted or Notes())


def _labels(path: Path) -> dict[str, Path]:
    """Annotation -> its file, for a file of texts."""
    found: dict[str, Path] = {}
    for word, partners in _PARTNERS.items():
        # The last one: the name of a corpus may contain the word too.
        places = list(re.finditer(rf"(?<![A-Za-z]){re.escape(word)}(?![A-Za-z])", path.name))
        for partner in partners if places else ():
            beside = path.with_name(path.name[: places[-1].start()] + partner + path.name[places[-1].end() :])
            if beside != path and beside.is_file():
                found.setdefault(_ANNOTATIONS[partner], beside)
    return found


def _rows(
    path: Path,
    labels: Mapping[str, Path],
    names: Mapping[str, str],
    report: Report,
    columns: Sequence[str] | None = None,  # noqa: ARG001 - as any table
) -> Iterator[Row]:
    files = [path, *labels.values()]
    together = zip_longest(*(_lines(each, report) for each in files), fillvalue=False)
    for number, (text, *given) in enumerate(together, start=1):
        short = [file.name for file, line in zip(files, (text, *given), strict=True) if line is False]
        if short:
            report(Fault(path, number, f"{short[0]} ends before this line", "as many labels as texts"))
            return
        if text is not None and None not in given:
            cells = {name: names.get(str(line), line) for name, line in zip(labels, given, strict=True)}
            yield Row(number, {"text": text, **cells})


def _lines(path: Path, report: Report) -> Iterator[str | None]:
    return (None if line is None else line.text.strip() for line in read_lines(path, report))


def _class_names(path: Path) -> dict[str, str]:
    """Class -> its name; empty if there is no such file, or it is something else."""
    if not path.is_file():
        return {}
    pairs = [line.text.split("\t") for line in read_lines(path, lambda _: None) if line and line.text.strip()]
    return {pair[0].strip(): pair[1].strip() for pair in pairs} if all(len(pair) == 2 for pair in pairs) else {}


def _count(path: Path) -> int:
    """The number of lines, whether or not the last one ends."""
    lines, last = 0, b"\n"
    with open_regular(path) as file:
        while block := file.read(_BLOCK):
            lines += block.count(b"\n")
            last = block[-1:]
    return lines + (last != b"\n")
