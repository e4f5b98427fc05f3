"""Shared by all readers: faults, notes, blocks of lines, headings and JSON records."""

from __future__ import annotations

import json
import math
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from lamina.errors import CorpusError, FormatError
from lamina.files.reading import open_regular, parse_json, read_regular
from lamina.types import Span, Text


class Fault(NamedTuple):
    """One thing wrong with one line of a file."""

    path: Path
    line: int
    """Counted from 1; 0 means the whole file."""
    what: str
    expected: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {_cut(self.what)}; expected {_cut(self.expected)}"


_LONGEST = 300
"""Characters of a fault's description that are shown: a file may hold a word of many megabytes."""


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


Report = Callable[[Fault], None]
"""Called for each fault. If it returns, the reader leaves out the text and continues."""


def raise_fault(fault: Fault) -> None:
    """Stop at the first fault, as loading does."""
    raise FormatError(str(fault))


_BOM = b"\xef\xbb\xbf"
_UTF_8 = "text saved as UTF-8 (older files are often Latin-1: `iconv -f LATIN1 -t UTF-8 OLD > NEW` converts them)"


class Line(NamedTuple):
    """One line of a file, without the line break."""

    number: int
    """Counted from 1."""
    text: str


def read_lines(path: Path, report: Report) -> Iterator[Line | None]:
    """Every line of `path`; None for a line that is not UTF-8, which has been reported.

    Example:
        >>> import tempfile
        >>> from lamina.corpora.reading import raise_fault
        >>> path = Path(tempfile.mkdtemp()) / "two.txt"
        >>> _ = path.write_text("one\\ntwo")
        >>> [line.text for line in read_lines(path, raise_fault) if line]
        ['one', 'two']
    """
    with open_regular(path) as file:
        for number, raw in enumerate(file, start=1):
            if number == 1:
                raw = raw.removeprefix(_BOM)
            try:
                text = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                what = f"byte 0x{raw[error.start]:02x} at position {error.start + 1} of the line is not UTF-8"
                report(Fault(path, number, what, _UTF_8))
                yield None
            else:
                yield Line(number, text.rstrip("\r\n"))


_MOST_LINES = 100_000
"""Lines of one block. Longer than any sentence; without a limit, a file without blank lines fills the memory."""


def read_blocks(path: Path, report: Report) -> Iterator[list[Line]]:
    """The blocks of lines between blank lines; one with a line that is not UTF-8 or with too many lines is left out.

    Example:
        >>> import tempfile
        >>> from lamina.corpora.reading import raise_fault
        >>> path = Path(tempfile.mkdtemp()) / "blocks.txt"
        >>> _ = path.write_text("a\\nb\\n\\n\\nc\\n")
        >>> [[line.text for line in block] for block in read_blocks(path, raise_fault)]
        [['a', 'b'], ['c']]
    """
    block: list[Line] = []
    whole = True
    for line in read_lines(path, report):
        if line is None:
            whole = False
        elif line.text.strip():
            if whole:
                block.append(line)
            if len(block) > _MOST_LINES:
                what = f"more than {_MOST_LINES:,} lines without a blank line"
                report(Fault(path, block[0].number, what, "a blank line after each sentence"))
                block, whole = [], False
        else:
            if block and whole:
                yield block
            block, whole = [], True
    if block and whole:
        yield block


def head_lines(path: Path, size: int = 4096) -> list[str]:
    """The complete lines in the first `size` bytes of a file, invalid bytes replaced: enough to detect a format.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "long.txt"
        >>> _ = path.write_text("first\\nsecond\\nthird\\n")
        >>> head_lines(path, size=14)
        ['first', 'second']
    """
    with open_regular(path) as file:
        start = file.read(size + 1)
    lines = start[:size].removeprefix(_BOM).decode("utf-8", errors="replace").split("\n")
    # A truncated line says nothing about the format.
    return [line.rstrip("\r") for line in (lines[:-1] if len(start) > size else lines)]


def json_start(path: Path) -> str:
    """The start of a JSON file, enough to detect a format; empty if it is not a file."""
    if not path.is_file():
        return ""
    with open_regular(path) as file:
        return file.read(1 << 16).decode("utf-8-sig", errors="replace").lstrip()


def read_list(path: Path) -> list[str]:
    """The words of a small file, such as a list of documents."""
    try:
        return read_regular(path).decode("utf-8-sig").split()
    except UnicodeDecodeError:
        raise CorpusError(f"{path} is not UTF-8; save it as UTF-8") from None


_KEY = re.compile(r"[\w.:]+(?: id)?")


def comments(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Key and value of every comment that has a key; a missing value is empty.

    Example:
        >>> list(comments(["# newdoc", "# sent_id = s 1", "# newdoc id = d", "1\\tno comment"]))
        [('newdoc', ''), ('sent_id', 's 1'), ('newdoc id', 'd')]
    """
    for line in lines:
        before, _, value = line.removeprefix("#").partition("=")
        key = " ".join(before.split())
        if line.startswith("#") and _KEY.fullmatch(key):
            yield key, value.strip()


class Heading:
    """Names of the current sentence and document, from comments or else from the file's name and a number.

    Example:
        >>> heading = Heading("dev")
        >>> heading.next_sentence(["# newdoc", "# text = Dogs bark"])
        >>> heading.sentence, heading.doc
        ('dev-1', 'dev-doc1')
    """

    def __init__(self, stem: str) -> None:
        self.sentence = ""
        self.doc: str | None = None
        self._stem = stem
        self._sentences = self._docs = 0

    def next_sentence(self, lines: Iterable[str]) -> None:
        """Move to the sentence after these comment lines."""
        self._sentences += 1
        self.sentence = f"{self._stem}-{self._sentences}"
        for key, value in comments(lines):
            if key == "sent_id" and value:
                self.sentence = value
            elif key in ("newdoc", "newdoc id"):
                self.next_document(value)

    def next_document(self, name: str = "") -> None:
        """Move to the next document, with or without a name."""
        self._docs += 1
        self.doc = name or f"{self._stem}-doc{self._docs}"


Record = dict[str, Any]
"""One JSON object of a JSONL file."""


def first_record(path: Path) -> Record:
    """The first line of a file if it is a JSON object; otherwise empty."""
    if not path.is_file():
        return {}
    try:
        with open_regular(path) as file:
            record = parse_json(file.readline(1 << 20).decode("utf-8-sig"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def read_records(path: Path, report: Report, make: Callable[[Record, int], Text], expected: str) -> Iterator[Text]:
    """One text per line of JSON. If `make` (given the object and the line number) fails, the line is a fault."""
    for line in read_lines(path, report):
        if line is None or not line.text.strip():
            continue
        try:
            text = make(_object(line.text), line.number)
        except json.JSONDecodeError as error:
            what = f"not JSON ({error.msg} at column {error.colno})"
            report(Fault(path, line.number, what, "one JSON object per line"))
        except KeyError as error:
            report(Fault(path, line.number, f"no field {error}", expected))
        except (ValueError, TypeError, AttributeError) as error:
            report(Fault(path, line.number, str(error), expected))
        else:
            yield text


def whole_number(text: str) -> int | None:
    """A number written in at most nine of the digits 0 to 9; None for anything else.

    Example:
        >>> whole_number("12"), whole_number("-1"), whole_number("\u00b2"), whole_number("9" * 5000)
        (12, None, None, None)
    """
    return int(text) if _NUMBER.fullmatch(text) else None


_NUMBER = re.compile(r"[0-9]{1,9}")


def name_of(value: object) -> str:
    """A JSON string that names a document, an annotation or a label, checked."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{_short(value)} is not a name")
    return value


def id_of(value: object) -> str:
    """The id of a text, checked; some files number their texts."""
    return str(value) if type(value) is int else name_of(value)


_NUMBERED = re.compile(r"(.+)-0[0-9]{3}", re.DOTALL)
"""English Web Treebank's ids: the document, then the number of the sentence in four digits. No document has a thousand
sentences; without the zero, ids that only count the texts of a corpus (`train-1000`) would name a document too."""


def document_of(sentence: str) -> str | None:
    """The document that an id of English Web Treebank names; None for other ids.

    Example:
        >>> document_of("reviews-003418-0002"), document_of("s1")
        ('reviews-003418', None)
    """
    match = _NUMBERED.fullmatch(sentence)
    return match[1] if match else None


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
    try:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    except OverflowError:
        pass
    raise ValueError(f"{_short(value)} is not a number")


def word_span(index: object) -> Span:
    """The span of one 0-based word, checked."""
    if not _is_index(index):
        raise ValueError(f"{_short(index)} is not the index of a word")
    return Span(index, index + 1)


def span_of(value: object) -> Span:
    """A JSON `[start, end)`, checked."""
    if not isinstance(value, list | tuple) or len(value) != 2 or not all(map(_is_index, value)):
        raise ValueError(f"{_short(value)} is not a span [start, end)")
    return Span(value[0], value[1])


def _is_index(value: object) -> TypeGuard[int]:
    return type(value) is int and abs(value) < 1 << 31


def _object(line: str) -> Record:
    record = parse_json(line)
    if not isinstance(record, dict):
        raise ValueError(f"{_short(record)} is not a JSON object")
    return record


def _short(value: object) -> str:
    """A value as it is shown: its first characters only, however large it is."""
    return repr((value if isinstance(value, str) else reprlib.repr(value))[:60])


# Notes: what a reader left out or changed, apart from faults.


class Notes:
    """Reasons and the ids of the texts they hold for. Reading a file again adds nothing.

    Example:
        >>> notes = Notes()
        >>> notes.add("questions without an answer", "q1")
        >>> notes.add("questions without an answer", "q1")
        >>> notes.counts()
        {'questions without an answer': 1}
    """

    def __init__(self, keep: Callable[[str], bool] | None = None) -> None:
        """`keep` says whether a document belongs to the split that is read; None for all of them."""
        self._keep = keep
        self._whole: Notes | None = None
        self._ids: dict[str, dict[str, str]] = {}
        """What was done -> id of a text -> its document."""
        self._files: dict[str, dict[str, None]] = {}
        self._faults: dict[str, dict[str, None]] = {}
        """What was done -> file and line."""

    def of_documents(self, keep: Callable[[str], bool]) -> Notes:
        """These notes, of some documents only."""
        part = Notes(keep)
        part._whole = self
        return part

    def add(self, what: str, id: str, doc: str | None = None) -> None:
        """Note what was done with a text; `doc` is its document, by default the text itself."""
        if self._keep is None or self._keep(doc or id):
            self._ids.setdefault(what, {})[id] = doc or id

    def add_fault(self, what: str, fault: Fault) -> None:
        """Note what was done because of a fault, whichever split its text is of."""
        self._faults.setdefault(what, {})[f"{fault.path}:{fault.line}"] = None

    def add_file(self, what: str, file: str) -> None:
        """Note what holds for a whole file, whichever split is read."""
        self._files.setdefault(what, {})[file] = None

    def _texts(self) -> dict[str, dict[str, str]]:
        texts: dict[str, dict[str, str]] = {}
        if self._whole is not None and self._keep is not None:
            for what, documents in self._whole._texts().items():
                if inside := {id: doc for id, doc in documents.items() if self._keep(doc)}:
                    texts[what] = inside
        for what, documents in self._ids.items():
            texts[what] = texts.get(what, {}) | documents
        return texts

    def _of_files(self) -> dict[str, dict[str, None]]:
        return (self._whole._of_files() if self._whole else {}) | self._files | self._faults

    @property
    def ids(self) -> Mapping[str, tuple[str, ...]]:
        """Reason -> the ids of its texts (or the names of its files), in the order in which they were read."""
        return {what: tuple(ids) for what, ids in (*self._texts().items(), *self._of_files().items())}

    def counts(self) -> dict[str, int]:
        """Reason -> how many texts (or files)."""
        return {what: len(ids) for what, ids in self.ids.items()}

    def lines(self) -> Iterator[str]:
        """One line per reason, with the first text or the number of files.

        Example:
            >>> notes = Notes()
            >>> notes.add("texts without label", "t7")
            >>> notes.add_file("column 'note' is not used: it is empty", "own.csv")
            >>> list(notes.lines())
            ['texts without label: 1 (first: t7)', "column 'note' is not used: it is empty"]
        """
        for what, documents in self._texts().items():
            yield f"{what}: {len(documents):,} (first: {next(iter(documents))})"
        for what, files in self._of_files().items():
            yield what if len(files) == 1 else f"{what} ({len(files):,} files, the first: {next(iter(files))})"

    def in_words(self) -> str:
        """All that is about texts, in half a sentence, the most frequent first; empty if nothing was noted.

        Example:
            >>> notes = Notes()
            >>> notes.add("questions without an answer", "q1")
            >>> notes.in_words()
            'questions without an answer: 1'
        """
        ranked = sorted(self._texts().items(), key=lambda pair: -len(pair[1]))
        return "; ".join(f"{what}: {len(ids):,}" for what, ids in ranked)


# Summary of many faults: the first of each kind, and how many there are.

_MOST_FAULTS = 5
"""Faults shown of each kind."""
_MOST_KINDS = 20
"""Kinds shown; a file of another format may have as many kinds as lines."""
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_PARTICULAR = re.compile(r"\S*[\d/-]\S*")
"""Numbers, names with numbers (`dev-12`), paths and tags (`B-PER`)."""


def kind_of(fault: Fault) -> str:
    """What is wrong, without what differs between faults of one kind: quoted parts, numbers, names with numbers.

    Example:
        >>> from pathlib import Path
        >>> one, two = (Fault(Path("a"), 1, f"question q{n}: {n} columns, 'x{n}'", "2") for n in (3, 4))
        >>> kind_of(one) == kind_of(two)
        True
    """
    return _PARTICULAR.sub("_", _QUOTED.sub("_", fault.what[:1000]))


class FaultKinds:
    """Counts faults by kind and keeps the first few of each, so that memory does not grow with their number.

    Example:
        >>> from pathlib import Path
        >>> kinds = FaultKinds()
        >>> for line in range(1, 9):
        ...     kinds.add(Fault(Path("a.conllu"), line, f"{line} columns", "10 columns"))
        >>> list(kinds.lines())[-2:]
        ['a.conllu:5: 5 columns; expected 10 columns', '  ... and 3 more like these']
    """

    def __init__(self) -> None:
        self.total = 0
        self._counts: dict[str, int] = {}
        self._first: dict[str, list[Fault]] = {}
        self._other = 0
        """Faults of further kinds."""

    def add(self, fault: Fault) -> None:
        """Count one more fault."""
        self.total += 1
        kind = kind_of(fault)
        if kind not in self._counts and len(self._counts) == _MOST_KINDS:
            self._other += 1
            return
        self._counts[kind] = self._counts.get(kind, 0) + 1
        if self._counts[kind] <= _MOST_FAULTS:
            self._first.setdefault(kind, []).append(fault)

    @property
    def kinds(self) -> str:
        """The number of kinds, in words."""
        known = len(self._counts)
        return f"more than {known} kinds" if self._other else f"{known} kind{'s' * (known != 1)}"

    @property
    def complete(self) -> bool:
        """Whether `lines` shows every fault."""
        return not self._other and all(count <= _MOST_FAULTS for count in self._counts.values())

    def lines(self) -> Iterator[str]:
        """The first faults of each kind, and how many more there are."""
        for kind, faults in self._first.items():
            yield from map(str, faults)
            if more := self._counts[kind] - len(faults):
                yield f"  ... and {more:,} more like these"
        if self._other:
            yield f"  ... and {self._other:,} of other kinds"
