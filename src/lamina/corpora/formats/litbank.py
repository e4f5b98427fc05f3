"""LitBank's standoff by word: `NAME.ann` with mentions, coreference or quotations, `NAME.txt` with a sentence per line.

Rows, separated by tabs: `MENTION id sentence word sentence word text type kind`, `COREF id entity`, `COP id id`,
`APPOS id id`; `QUOTE id sentence word sentence word text`, `ATTRIB id speaker`. Sentences and words are counted from 0,
the last word included; words are separated by spaces. `ner` is a mention's type, `mention` its kind (`PROP`, `NOM`,
`PRON`), `chains` its entity, `rel` copulas and appositions; `quote` holds the words of a quotation, `speaker` who says
them. A quotation over several sentences is a span in each of them. A document has only annotations that occur in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lamina.corpora.formats.brat import EMPTY, first_lines, read_text
from lamina.corpora.reading import Fault, Line, Notes, Report, raise_fault, read_lines, whole_number
from lamina.types import Edge, Span, Text

_COLUMNS = {"MENTION": (9,), "QUOTE": (7,), "COREF": (3,), "ATTRIB": (3,), "COP": (3,), "APPOS": (3,)}
_EXPECTED = {
    "MENTION": "MENTION, id, sentence, word, sentence, word, text, type and kind",
    "QUOTE": "QUOTE, id, sentence, word, sentence, word and text",
    **{kind: f"{kind}, id and one more field" for kind in ("COREF", "ATTRIB", "COP", "APPOS")},
}
APART = "copulas, appositions and mentions over several sentences, left out"
QUOTES = "quotations over several sentences (a span in each of them)"


class _LitbankSpans(NamedTuple):
    """The words of a mention or quotation: one span per sentence."""

    spans: tuple[tuple[int, Span], ...]


def looks_like(path: Path) -> bool:
    """Whether the file is `.ann` and its rows are LitBank's; an empty one is what the others beside it are."""
    if path.suffix.lower() != ".ann" or not path.is_file():
        return False
    lines = first_lines(path)
    return bool(lines) and all(line.split("\t")[0] in _COLUMNS for line in lines)


def companions(path: Path) -> tuple[Path, ...]:
    """The text."""
    text = path.with_suffix(".txt")
    return (text,) if text.is_file() else ()


def read(path: Path, report: Report = raise_fault, noted: Notes | None = None) -> Iterator[Text]:
    """One text per sentence; a document with a fault is left out.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "d.ann"
        >>> _ = path.with_suffix(".txt").write_text("Ada left .\\n")
        >>> _ = path.write_text("MENTION\\tT1\\t0\\t0\\t0\\t0\\tAda\\tPER\\tPROP\\nCOREF\\tT1\\tAda-1\\n")
        >>> {name: edges[0].labels for name, edges in next(read(path)).edges.items()}
        {'ner': ('PER',), 'mention': ('PROP',), 'chains': ('Ada-1',)}
    """
    faults: list[Fault] = []
    text = read_text(path.with_suffix(".txt"), faults.append)
    sentences = [line.split() for line in (text or "").split("\n")]
    annotations = _LitbankAnnotations(path, sentences, faults.append, noted or Notes())
    for line in read_lines(path, faults.append):
        if line is not None and line.text.strip():
            annotations.add(line)
    edges = annotations.edges()
    for fault in faults:
        report(fault)
    if not faults:
        for number, words in enumerate(sentences):
            if words:
                here = {name: tuple(per_sentence.get(number, ())) for name, per_sentence in edges.items()}
                yield Text(f"{path.stem}-{number + 1}", tuple(words), edges=here, doc=path.stem)


class _LitbankAnnotations:
    """The rows of one file."""

    def __init__(self, path: Path, sentences: Sequence[Sequence[str]], report: Report, noted: Notes) -> None:
        self._path, self._sentences, self._report, self._noted = path, sentences, report, noted
        self._words: dict[str, _LitbankSpans] = {}
        self._edges: dict[str, defaultdict[int, list[Edge]]] = {}
        self._later: list[tuple[int, str, str, str]] = []
        """Rows that name mentions: line, kind, id and the other field."""

    def add(self, line: Line) -> None:
        kind, *fields = line.text.split("\t")
        if kind not in _COLUMNS:
            self._fault(line.number, f"a row {kind[:40]!r}", "one of " + ", ".join(_COLUMNS))
        elif 1 + len(fields) not in _COLUMNS[kind]:
            self._fault(line.number, f"{1 + len(fields)} columns", _EXPECTED[kind])
        elif kind in ("MENTION", "QUOTE"):
            self._add_words(line.number, kind, fields)
        else:
            self._later.append((line.number, kind, fields[0], fields[1]))

    def _fault(self, line: int, what: str, expected: str) -> None:
        self._report(Fault(self._path, line, what, expected))

    def _add_words(self, line: int, kind: str, fields: Sequence[str]) -> None:
        id, *places = fields[:5]
        first, start, last, end = (whole_number(place) for place in places)
        if first is None or start is None or last is None or end is None or first > last:
            self._fault(line, f"{id} is at {' '.join(places)}", "numbers of a sentence and a word, twice, from 0")
            return
        spans: list[tuple[int, Span]] = []
        words: list[str] = []
        quoted = fields[5].split()
        # No further than there are words, so that many wrong rows take no longer than right ones.
        for number in range(first, min(last + 1, first + len(quoted), len(self._sentences))):
            sentence = self._sentences[number]
            bounds = start if number == first else 0, end + 1 if number == last else len(sentence)
            if bounds[0] < min(bounds[1], len(sentence)):
                spans.append((number, Span(bounds[0], min(bounds[1], len(sentence)))))
                words += sentence[slice(*bounds)]
        if words != quoted:
            expected = f"{fields[5][:60]!r} there, sentences and words counted from 0"
            self._fault(line, f"{id}: the words at {' '.join(places)} are {' '.join(words)[:60]!r}", expected)
            return
        self._words[id] = _LitbankSpans(tuple(spans))
        if kind == "MENTION":
            self._put("ner", id, fields[6])
            self._put("mention", id, fields[7])
        else:
            self._put("quote", id, "quote")
            if len(spans) > 1:
                self._noted.add(QUOTES, f"{self._path.stem}:{id}", self._path.stem)

    def _put(self, name: str, id: str, label: str) -> None:
        per_sentence = self._edges.setdefault(name, defaultdict(list))
        spans = self._words[id].spans
        if len(spans) > 1 and name not in ("quote", "speaker"):
            self._noted.add(APART, f"{self._path.stem}:{id}", self._path.stem)
            return
        for number, span in spans:
            per_sentence[number].append(Edge((label,), span))

    def edges(self) -> dict[str, dict[int, list[Edge]]]:
        """Annotation -> sentence -> its edges, in order."""
        if not self._words:
            self._noted.add(EMPTY, self._path.stem)
        for line, kind, id, other in self._later:
            needed = (id,) if kind in ("COREF", "ATTRIB") else (id, other)
            unknown = next((target for target in needed if target not in self._words), None)
            if unknown is not None:
                self._fault(line, f"it points at {unknown}", "the id of a MENTION or QUOTE in the same file")
            elif kind in ("COREF", "ATTRIB"):
                self._put("chains" if kind == "COREF" else "speaker", id, other)
            else:
                self._relate(kind.lower(), id, other)
        ordered = {name: dict(per_sentence) for name, per_sentence in self._edges.items()}
        for per_sentence in ordered.values():
            for edges in per_sentence.values():
                edges.sort(key=lambda edge: (edge.span.start, -edge.span.end))
        return ordered

    def _relate(self, label: str, id: str, other: str) -> None:
        per_sentence = self._edges.setdefault("rel", defaultdict(list))
        first, second = self._words[id].spans, self._words[other].spans
        if len(first) == len(second) == 1 and first[0][0] == second[0][0]:
            per_sentence[first[0][0]].append(Edge((label,), first[0][1], second[0][1]))
        else:
            self._noted.add(APART, f"{self._path.stem}:{id}-{other}", self._path.stem)
