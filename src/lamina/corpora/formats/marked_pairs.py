"""Pairs of marked spans: SemEval-2010 task 8 (relations of nominals) and GAP (a pronoun and two names).

SemEval-2010 task 8:

Records of four lines: `id<TAB>"sentence with <e1>..</e1> and <e2>..</e2>"`, the relation with its direction, a comment
(sometimes left out), a blank line. Words come from `corpora.tokenising`, with a boundary at every marker. Annotation
`rel`: nominal 1 and nominal 2, whichever comes first in the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lamina.corpora.reading import Fault, Line, Report, head_lines, raise_fault, read_blocks, read_lines, whole_number
from lamina.corpora.tokenising import split_words
from lamina.types import Edge, Span, Text

_SENTENCE = re.compile(r"(\d+)\t(.+)")
_RELATION = re.compile(r"Other|[A-Z][A-Za-z]*-[A-Z][A-Za-z]*\((?:e1,e2|e2,e1)\)")
_MARKER = re.compile(r"</?e[12]>")
_MARKERS = (["<e1>", "</e1>", "<e2>", "</e2>"], ["<e2>", "</e2>", "<e1>", "</e1>"])


def looks_like_semeval(path: Path) -> bool:
    """Whether the first line is a numbered sentence with both markers."""
    first = next(iter(head_lines(path)), "") if path.is_file() else ""
    return _SENTENCE.fullmatch(first) is not None and sorted(_MARKER.findall(first)) == sorted(_MARKERS[0])


def read_semeval(path: Path, report: Report = raise_fault) -> Iterator[Text]:
    """One text per record."""
    for block in read_blocks(path, report):
        if (text := _semeval_text(block, path, report)) is not None:
            yield text


def _semeval_text(block: list[Line], path: Path, report: Report) -> Text | None:
    first = block[0]
    sentence = _SENTENCE.fullmatch(first.text)
    if sentence is None:
        report(Fault(path, first.number, "not the start of a record", 'a number, a tab and a "sentence"'))
        return None
    if len(block) < 2 or not _RELATION.fullmatch(block[1].text.strip()):
        what = f"{block[1].text!r} is not a relation" if len(block) > 1 else "the relation is missing"
        report(Fault(path, first.number + 1, what, "Other or a relation such as Cause-Effect(e1,e2)"))
        return None
    if len(block) > 3 or (len(block) == 3 and not block[2].text.startswith("Comment")):
        line = block[min(3, len(block) - 1)]
        report(Fault(path, line.number, "an extra line in the record", "Comment: ... and a blank line"))
        return None
    if (marked := _marked(_unquoted(sentence[2]))) is None:
        report(
            Fault(path, first.number, "the nominals are not marked", "one <e1>..</e1> and one <e2>..</e2>, not empty")
        )
        return None
    words, one, two = marked
    return Text(sentence[1], words, edges={"rel": (Edge((block[1].text.strip(),), one, two),)})


def _unquoted(sentence: str) -> str:
    stripped = sentence.strip()
    return stripped[1:-1] if len(stripped) > 1 and stripped[0] == stripped[-1] == '"' else stripped


def _marked(sentence: str) -> tuple[tuple[str, ...], Span, Span] | None:
    """The words without the markers, and the two nominals; None if they are not marked."""
    markers = list(_MARKER.finditer(sentence))
    if [marker[0] for marker in markers] not in _MARKERS:
        return None
    places, removed = {}, 0
    for marker in markers:
        places[marker[0]] = marker.start() - removed
        removed += len(marker[0])
    split = split_words(_MARKER.sub("", sentence), places.values())
    one = split.span(places["<e1>"], places["</e1>"])
    two = split.span(places["<e2>"], places["</e2>"])
    return None if one is None or two is None else (split.words, one, two)


# GAP: a pronoun and two names in a few sentences of Wikipedia; which of the two does the pronoun refer to?
#
# Tab-separated, with a header; offsets count characters. Words come from `corpora.tokenising`, with a boundary wherever
# the pronoun or a name starts or ends. Annotation `coref`: pronoun and name A, pronoun and name B, labelled 1 or 0.
# The page is the document.

HEADER = ("ID", "Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset", "B-coref", "URL")
_LABELS = {"TRUE": "1", "FALSE": "0"}


class _GapRowError(ValueError):
    """What is wrong with a row, and what was expected."""

    def __init__(self, what: str, expected: str) -> None:
        super().__init__(what)
        self.what = what
        self.expected = expected


def looks_like_gap(path: Path) -> bool:
    """Whether the file starts with GAP's header."""
    return path.is_file() and next(iter(head_lines(path)), "").split("\t") == list(HEADER)


def read_gap(path: Path, report: Report = raise_fault) -> Iterator[Text]:
    """One text per row."""
    for line in read_lines(path, report):
        if line is None or not line.text.strip():
            continue
        columns = line.text.split("\t")
        if line.number == 1:
            if tuple(columns) != HEADER:
                report(Fault(path, 1, "not the header of a GAP file", "\\t".join(HEADER)))
                return
            continue
        try:
            text = _gap_text(columns)
        except _GapRowError as error:
            report(Fault(path, line.number, error.what, error.expected))
        else:
            yield text


def _gap_text(columns: Sequence[str]) -> Text:
    if len(columns) != len(HEADER):
        raise _GapRowError(f"{len(columns)} columns", f"{len(HEADER)} columns, separated by tabs")
    row: dict[str, str] = dict(zip(HEADER, columns, strict=True))
    places = {name: _place(row, name) for name in ("Pronoun", "A", "B")}
    split = split_words(row["Text"], [offset for place in places.values() for offset in place])
    spans: dict[str, Span] = {}
    for name, place in places.items():
        if (span := split.span(*place)) is None:
            raise _GapRowError(f"{name} has no word", "a name or a pronoun")
        spans[name] = span
    edges = tuple(Edge((_label(row, name),), spans["Pronoun"], spans[name]) for name in ("A", "B"))
    return Text(row["ID"], split.words, edges={"coref": edges}, doc=row["URL"] or None, glued=split.glued)


def _place(row: Mapping[str, str], name: str) -> tuple[int, int]:
    """Where a mention starts and ends, in characters."""
    column, mention = f"{name}-offset", row[name]
    start = whole_number(row[column])
    if start is None:
        raise _GapRowError(f"{column} is {row[column]!r}", "a character offset")
    end = start + len(mention)
    if row["Text"][start:end] != mention:
        there = row["Text"][start:end]
        raise _GapRowError(f"{column} {start} points at {there!r}", f"{mention!r} there, counted in characters from 0")
    return start, end


def _label(row: Mapping[str, str], name: str) -> str:
    given = row[f"{name}-coref"]
    if given.upper() not in _LABELS:
        raise _GapRowError(f"{name}-coref is {given!r}", "TRUE or FALSE")
    return _LABELS[given.upper()]
