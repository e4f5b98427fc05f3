"""Rows of table files, one at a time: CSV, TSV and their relatives, JSON, Parquet, Arrow.

Tables as text may have a header or not. The delimiter (tab, comma, semicolon or vertical bar) is the one that splits
the first lines into the same number of cells. Quotes enclose cells, which may then contain delimiters and line breaks,
except in tab-separated files whose lines split evenly without them: there a quotation mark is part of the text, as in
the GLUE benchmark.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from lamina.corpora.reading import Fault, Line, Report, head_lines, json_start, read_lines
from lamina.corpora.tables.columns import SPAN_KEYS, is_column_name
from lamina.errors import FormatError
from lamina.files.reading import BoundedJson, open_regular, parse_json

if TYPE_CHECKING:
    import pyarrow


_DELIMITERS = {"\t": "tabs", ",": "commas", ";": "semicolons", "|": "vertical bars"}
_SAMPLE = 1 << 16
"""Bytes inspected to find the layout; if not even one line ends there, `_LONGEST_LINE`."""
_LONGEST_LINE = 1 << 24
_MOST_LINES = 10_000
"""Lines of one quoted cell; a quotation mark that is never closed would take in the rest of the file."""
_EVEN, _EVEN_BELOW_NAMES = 0.9, 0.5
"""Share of the rows that have as many cells as the first, in a table; the others are faults. The second number is for
tables whose first row clearly names the columns."""
_LONGEST_BLOCK = 100
"""Rows between two blank lines, on average, if these mean anything."""
_RUNNING = 3
"""Spaces per cell, on average, in a column of running text."""
_LONGEST_NAME = 60
"""Characters of a column's name."""
_END = Line(0, "")
"""After the last line."""


LONGEST_CELL = 10_000_000
"""Characters of a cell, in a table of any kind."""


class TableRow(NamedTuple):
    """One row of a table."""

    number: int
    """The line it starts on, counted from 1; the number of the row in a file without lines."""
    values: dict[str, Any]
    """Column -> cell."""
    after_blank: bool = False
    """Whether a blank line comes before it."""


class DelimitedLayout(NamedTuple):
    """How a file is divided into cells."""

    delimiter: str
    quoted: bool
    columns: tuple[str, ...]
    """The names in the header; the columns' numbers, from 1, if there is no header."""
    header: bool
    sample: tuple[tuple[str, ...], ...]
    """The first rows, without the header."""
    blocks: bool
    """Whether blank lines separate groups of rows."""

    @property
    def separator(self) -> str:
        """The delimiter in words."""
        return _DELIMITERS[self.delimiter]


def layout_of(path: Path, header: bool | None = None) -> DelimitedLayout | None:
    """How a file is divided into cells; None if it is not a table. `header` overrides whether it has one.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "own.csv"
        >>> _ = path.write_text('text,label\\n"Dogs, too, bark",1\\nCats do not,0\\n')
        >>> layout = layout_of(path)
        >>> layout.columns, layout.separator, layout.sample[0]
        (('text', 'label'), 'commas', ('Dogs, too, bark', '1'))
    """
    lines = head_lines(path, _SAMPLE) or head_lines(path, _LONGEST_LINE)
    if not lines or "\0" in lines[0] or "\r" in lines[0]:
        return None
    attempt = max((_Attempt.of(lines, *way) for way in _ways(lines)), key=_Attempt.merit, default=None)
    if attempt is None or not attempt.is_table:
        return None
    first, *rest = attempt.records
    has_header = _is_header(first, rest) if header is None else header
    if not has_header and (not rest or (attempt.delimiter != "\t" and _is_prose(lines, attempt.delimiter))):
        return None
    columns = unique_names(first) if has_header else unique_names([""] * len(first))
    sample = tuple(tuple(cells) for cells in (rest if has_header else attempt.records) if len(cells) == len(first))
    if not has_header and sum(any(map(str.strip, cells)) for cells in zip(*sample, strict=True)) < 2:
        # Indented lines: nothing but white space before the delimiter.
        return None
    return DelimitedLayout(attempt.delimiter, attempt.quoted, columns, has_header, sample, _in_blocks(lines))


_NAMED_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def uneven(path: Path) -> str | None:
    """Why a file that is called a table is none: which line has other cells than the first; None for other files.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "own.csv"
        >>> _ = path.write_text("text,label\\n'Dogs, too',1\\n'Cats, too',0\\n")
        >>> print(uneven(path))
        /...own.csv is not a table: line 1 has 2 columns separated by commas and line 2 has 3; put ...
    """
    delimiter = _NAMED_DELIMITERS.get(path.suffix.lower())
    lines = head_lines(path, _SAMPLE) if delimiter is not None else []
    if delimiter is None or not lines or layout_of(path) is not None:
        return None
    numbered = (Line(number, text) for number, text in enumerate(lines, start=1))
    records = [record for record in _records(numbered, delimiter, True) if not record.wrong]
    other = next((record for record in records if len(record.cells) != len(records[0].cells)), None)
    if other is None:
        return None
    first, name = records[0], _DELIMITERS[delimiter]
    return (
        f"{path} is not a table: line {first.number} has {len(first.cells)} columns separated by {name} and line "
        f"{other.number} has {len(other.cells)}; put cells that contain {name} between double quotation marks"
    )


def delimited_rows(path: Path, layout: DelimitedLayout, report: Report) -> Iterator[TableRow]:
    """The rows of a table; one with too few or too many cells is a fault."""
    size = len(layout.columns)
    pending = layout.header
    for record in _records(read_lines(path, report), layout.delimiter, layout.quoted):
        if record.wrong:
            report(Fault(path, record.number, record.wrong, "cells of text, whole or in quotation marks"))
        elif pending:
            pending = False
        elif len(record.cells) != size:
            what = f"{len(record.cells)} columns"
            expected = f"{size} columns separated by {layout.separator}, as in the first line"
            report(Fault(path, record.number, what, expected))
        else:
            yield TableRow(record.number, dict(zip(layout.columns, record.cells, strict=False)), record.after_blank)


class _DelimitedRecord(NamedTuple):
    number: int
    cells: list[str]
    after_blank: bool
    wrong: str = ""


def _records(lines: Iterable[Line | None], delimiter: str, quoted: bool) -> Iterator[_DelimitedRecord]:
    """The cells of each row, which may extend over several lines."""
    coming = iter(lines)
    blank = False
    while (line := next(coming, _END)) is not _END:
        if line is None:
            continue
        if not line.text.strip(" "):
            blank = True
        elif "\0" in line.text:
            yield _DelimitedRecord(line.number, [], blank, "a NUL byte")
        elif not quoted or '"' not in line.text:
            cells = line.text.split(delimiter)
            yield _DelimitedRecord(line.number, cells, blank, _too_long(cells) if len(line.text) > LONGEST_CELL else "")
            blank = False
        else:
            record, unused = _quoted_record(line, coming, delimiter)
            # The lines that an unclosed quotation mark took in are rows of their own.
            coming = chain(unused, coming) if unused else coming
            yield record._replace(after_blank=blank)
            blank = False


def _quoted_record(line: Line, following: Iterator[Line | None], delimiter: str) -> tuple[_DelimitedRecord, list[Line]]:
    """The row that starts on this line, and the lines that were looked at but belong to other rows."""
    cells: list[str] = []
    taken: list[Line] = []
    text, position = line.text, 0
    while True:
        if text.startswith('"', position):
            parts: list[str] = []
            position += 1
            while (end := _closing(text, position)) < 0:
                parts.append(text[position:])
                further = next(following, _END)
                if further is _END or len(taken) > _MOST_LINES:
                    more = [] if further is None or further is _END else [further]
                    return _DelimitedRecord(
                        line.number, [], False, "a quotation mark is opened and never closed"
                    ), taken + more
                # A line that cannot be read has been reported; the rest of its cell is kept.
                text, position = ("", 0) if further is None else (further.text, 0)
                taken += [] if further is None else [further]
            parts.append(text[position:end])
            cells.append("\n".join(parts).replace('""', '"'))
            position = end + 1
            if position < len(text) and not text.startswith(delimiter, position):
                return _DelimitedRecord(line.number, [], False, "text after a closing quotation mark"), taken
        else:
            end = text.find(delimiter, position)
            cells.append(text[position:] if end < 0 else text[position:end])
            position = len(text) if end < 0 else end
        if position >= len(text):
            return _DelimitedRecord(line.number, cells, False, _too_long(cells)), []
        position += 1


def _too_long(cells: Iterable[Any]) -> str:
    """What is wrong with a row that has a very long cell; empty if it has none."""
    longest = max((len(cell) for cell in cells if isinstance(cell, str)), default=0)
    return f"a cell of {longest:,} characters, more than {LONGEST_CELL:,}" if longest > LONGEST_CELL else ""


def without_long_cells(rows: Iterable[TableRow], path: Path, report: Report) -> Iterator[TableRow]:
    """The rows of a table that is not divided by delimiters; one with a very long cell is a fault."""
    for row in rows:
        if wrong := _too_long(row.values.values()):
            report(Fault(path, row.number, wrong, "texts of reasonable length"))
        else:
            yield row


def _closing(text: str, position: int) -> int:
    """Where the quotation mark is that closes a cell, doubled ones skipped; -1 if it is not on this line."""
    while (mark := text.find('"', position)) >= 0:
        if not text.startswith('"', mark + 1):
            return mark
        position = mark + 2
    return -1


class _Attempt(NamedTuple):
    """The first lines, divided in one way."""

    delimiter: str
    quoted: bool
    records: list[list[str]]
    faults: int

    @classmethod
    def of(cls, lines: Sequence[str], delimiter: str, quoted: bool) -> _Attempt:
        numbered = (Line(number, text) for number, text in enumerate(lines, start=1))
        records = list(_records(numbered, delimiter, quoted))
        if len(records) > 1 and records[-1].wrong:
            # The sample may end inside a cell.
            records.pop()
        sound = [record.cells for record in records if not record.wrong]
        return cls(delimiter, quoted, sound, len(records) - len(sound))

    @property
    def is_table(self) -> bool:
        if not self.records or len(self.records[0]) < 2:
            return False
        return self._evenness >= (_EVEN_BELOW_NAMES if _names_columns(self.records[0]) else _EVEN)

    @property
    def _evenness(self) -> float:
        """The share of rows with as many cells as the first."""
        widths = Counter(map(len, self.records))
        return widths[len(self.records[0])] / (widths.total() + self.faults) if self.records else 0.0

    def merit(self) -> tuple[bool, float]:
        return self.is_table, round(self._evenness, 2)


def _ways(lines: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Delimiters with and without quotes, the preferred ones first."""
    joined = "\n".join(lines)
    for delimiter in _DELIMITERS:
        if delimiter in joined:
            if delimiter == "\t":
                yield from [("\t", True), ("\t", False)] if _has_escapes(lines) else [("\t", False), ("\t", True)]
            else:
                yield delimiter, True


def _has_escapes(lines: Sequence[str]) -> bool:
    """Whether cells seem to be quoted by a program: marks are doubled in some, and all that open are closed."""
    attempt = _Attempt.of(lines, "\t", True)
    doubled = any('""' in cell and cell.strip().startswith('"') for line in lines for cell in line.split("\t"))
    return doubled and not attempt.faults


def _names_columns(cells: Sequence[str]) -> bool:
    """Whether some cells are what columns are usually called."""
    known = sum(map(is_column_name, cells))
    # In running text a comma is followed by a space, and then by any word.
    return known > 1 or (known == 1 and not any(cell.startswith(" ") for cell in cells))


def _is_header(first: Sequence[str], rest: Sequence[Sequence[str]]) -> bool:
    """Whether the first row names the columns: short and different names, unlike the cells below them."""
    names = [name.strip() for name in first]
    if any(len(name) > _LONGEST_NAME for name in names):
        return False
    if _names_columns(first):
        return True
    below = [cells for cells in rest if len(cells) == len(names)]
    if not below or len(set(names)) < len(names) or any(map(_is_number, names)):
        return False
    return any(_differs(name, [cells[column] for cells in below]) for column, name in enumerate(names)) and not any(
        " " in name and name[-1:] in ".!?" for name in names
    )


def _differs(name: str, cells: Sequence[str]) -> bool:
    """Whether a name stands above numbers, or is one word above running text."""
    spaces = sum(cell.strip().count(" ") for cell in cells)
    return all(map(_is_number, cells)) or (" " not in name and spaces >= _RUNNING * len(cells))


def _is_prose(lines: Sequence[str], mark: str) -> bool:
    """Whether a mark is followed by a space, as in running text, more often than not."""
    joined = "\n".join(lines)
    return 2 * joined.count(f"{mark} ") > joined.count(mark)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Column names without a repetition; a column without a name is called by its number.

    Example:
        >>> unique_names(["", "text", "text"])
        ('1', 'text', 'text (2)')
    """
    times: Counter[str] = Counter()
    unique = []
    for number, name in enumerate((name.strip() for name in names), start=1):
        times[name] += 1
        unique.append(str(number) if not name else name if times[name] == 1 else f"{name} ({times[name]})")
    return tuple(unique)


def _in_blocks(lines: Sequence[str]) -> bool:
    """Whether blank lines separate groups of rows, rather than each row or the end."""
    stripped = [line.strip() for line in lines]
    while stripped and not stripped[-1]:
        stripped.pop()
    blank = sum(not line for line in stripped)
    rows = len(stripped) - blank
    return _LONGEST_BLOCK * blank > rows > 1.5 * blank > 0


# Tables as JSON: one object per line, or a list of objects, as annotation programs export them.
#
# Label Studio's nested tasks, spaCy's pairs (`["text", {"entities": [...]}]`) and objects within objects become flat
# rows: `{"meta": {"genre": "news"}}` has the column `meta.genre`.

_WRAPPED = re.compile(
    r'\{\s*(?:"[^"\\]*"\s*:\s*(?:"[^"\\]*"|[\w.+-]+)\s*,\s*)*"(data|examples|records|rows|items)"\s*:\s*\['
)
"""A list of objects below one key; what comes before it is about the whole file (`"version": "1.0"`)."""
_RECORD = "one JSON object per row"


def list_of(path: Path) -> str | None:
    """Where the rows of a JSON file are, for ijson; None if it is no list of objects.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "own.json"
        >>> _ = path.write_text('[{"text": "Dogs bark", "label": "animals"}]')
        >>> list_of(path)
        'item'
    """
    start = json_start(path)
    if re.match(r"\[\s*[\[{]", start):
        return "item"
    wrapped = _WRAPPED.match(start)
    return f"{wrapped[1]}.item" if wrapped else None


def is_lines(path: Path) -> bool:
    """Whether most lines at the start of a file are JSON objects, or lists of a text and its annotations."""
    lines = [line for line in head_lines(path, 1 << 16) if line.strip()]
    if not lines:
        return json_start(path).startswith("{") and _is_one_long_line(path)
    return 2 * sum(map(_opens, lines)) > len(lines) and _parsed(lines[0]) is not None


def _opens(line: str) -> bool:
    return line.lstrip().startswith(("{", "["))


def _parsed(line: str) -> Any:
    try:
        value = parse_json(line)
    except ValueError:
        return None
    return value if isinstance(value, dict | list) else None


def _is_one_long_line(path: Path) -> bool:
    """Whether the first line is longer than what is inspected, and a JSON object all the same."""
    with open_regular(path) as file:
        line = file.readline(1 << 24)
    return _parsed(line.decode("utf-8-sig", errors="replace")) is not None


def json_rows(path: Path, where: str | None, report: Report) -> Iterator[TableRow]:
    """The rows: of every line if `where` is None, otherwise of the list that `list_of` found."""
    for number, value in _lines(path, report) if where is None else _items(path, where, report):
        row = flattened(value)
        if row is None:
            report(Fault(path, number, f"{str(value)[:60]!r} is no JSON object", _RECORD))
        else:
            yield TableRow(number, row)


def json_sample(path: Path, where: str | None, size: int) -> list[dict[str, Any]]:
    """The first rows that can be read."""
    return [row.values for row in islice(json_rows(path, where, lambda _: None), size)]


def _lines(path: Path, report: Report) -> Iterator[tuple[int, Any]]:
    for line in read_lines(path, report):
        if line is None or not line.text.strip():
            continue
        try:
            yield line.number, parse_json(line.text)
        except json.JSONDecodeError as error:
            what = f"not JSON ({error.msg} at column {error.colno})"
            report(Fault(path, line.number, what, "one JSON object per line"))
        except ValueError as error:
            report(Fault(path, line.number, str(error), "one JSON object per line"))


def _items(path: Path, where: str, report: Report) -> Iterator[tuple[int, Any]]:
    import ijson

    with open_regular(path) as file:
        if file.read(3) != b"\xef\xbb\xbf":
            file.seek(0)
        items = ijson.items(BoundedJson(file), where, use_float=True)
        number = 0
        while True:
            try:
                item = next(items, None)
            except (ijson.JSONError, ValueError) as error:
                what = f"after row {number}: {str(error).splitlines()[0]}"
                report(Fault(path, 0, what, "one whole JSON list"))
                return
            if item is None:
                return
            number += 1
            yield number, item


def flattened(record: Any) -> dict[str, Any] | None:
    """A record as one flat row; None if it is none.

    Example:
        >>> flattened(["Dogs bark", {"entities": [[0, 4, "ANIMAL"]]}])
        {'text': 'Dogs bark', 'entities': [[0, 4, 'ANIMAL']]}
        >>> value = {"start": 0, "end": 4, "labels": ["ANIMAL"]}
        >>> result = [{"from_name": "ner", "type": "labels", "value": value}]
        >>> flattened({"data": {"text": "Dogs bark"}, "annotations": [{"result": result}]})
        {'text': 'Dogs bark', 'ner': [{'start': 0, 'end': 4, 'label': ['ANIMAL']}]}
        >>> flattened({"text": "Dogs bark", "meta": {"genre": "news"}})
        {'text': 'Dogs bark', 'meta.genre': 'news'}
    """
    if isinstance(record, list) and len(record) == 2 and isinstance(record[0], str) and isinstance(record[1], dict):
        return _without_objects({"text": record[0], **record[1]})
    if not isinstance(record, dict):
        return None
    if isinstance(record.get("data"), dict) and isinstance(record.get("annotations"), list):
        about = {"id": record["id"]} if "id" in record else {}
        return _without_objects(about | record["data"] | _label_studio(record["annotations"]))
    return _without_objects(record)


def _without_objects(cells: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """The cells, those of an object as columns of their own.

    Spans stay one cell: spaCy's `{"entities": [...]}`, and lists of their borders. So does an object with a name that
    another column has.
    """
    flat: dict[str, Any] = {}
    for name, cell in cells.items():
        part = {f"{above}{name}": cell}
        if isinstance(cell, dict) and not _holds_spans(cell):
            inner = _without_objects(cell, f"{above}{name}.")
            part = inner if inner.keys().isdisjoint((*flat, *(f"{above}{other}" for other in cells))) else part
        flat |= part
    return flat


def _holds_spans(cell: Mapping[str, Any]) -> bool:
    lists = {key for key, value in cell.items() if isinstance(value, list)}
    return "entities" in cell or all(not lists.isdisjoint(keys) for keys in SPAN_KEYS[:2])


def _label_studio(annotations: list[Any]) -> dict[str, Any]:
    """The columns of a Label Studio task: the answers of its first annotation that was not cancelled."""
    done = [
        annotation
        for annotation in annotations
        if isinstance(annotation, Mapping) and not annotation.get("was_cancelled")
    ]
    columns: dict[str, Any] = {}
    for result in done[0].get("result") or () if done else ():
        value = result.get("value") if isinstance(result, Mapping) else None
        if not isinstance(value, Mapping):
            continue
        name = str(result.get("from_name", "label"))
        if "choices" in value:
            chosen = value["choices"]
            columns[name] = chosen[0] if isinstance(chosen, list) and len(chosen) == 1 else chosen
        elif "start" in value and "end" in value:
            labels = value.get("labels") or value.get("hypertextlabels")
            columns.setdefault(name, []).append({"start": value["start"], "end": value["end"], "label": labels})
        elif "rating" in value or "number" in value:
            columns[name] = value.get("rating", value.get("number"))
    return columns


# Tables as Parquet and Arrow files (Feather, streams, `save_to_disk` of `datasets`), read one batch at a time.

ArrowKind = Literal["Parquet", "Arrow file", "Arrow stream"]
_MAGIC: Mapping[bytes, ArrowKind] = {b"PAR1": "Parquet", b"ARROW1": "Arrow file"}
_STREAM = b"\xff\xff\xff\xff"
_BATCH = 1000
_PACKED = 1000
"""How many times smaller a column may be on disk; what is packed more tightly is made to fill the memory."""
_LARGE = 1 << 26
"""Bytes of text that are never too many."""
_EXPECTED = "a whole Parquet or Arrow file"


def arrow_kind(path: Path) -> ArrowKind | None:
    """Which kind of Arrow table a file is, by its first bytes; None if it is none."""
    with open_regular(path) as file:
        start = file.read(8)
    if start[:4] == _STREAM:
        return "Arrow stream"
    return next((make for magic, make in _MAGIC.items() if start.startswith(magic)), None)


def schema_of(path: Path, make: ArrowKind) -> pyarrow.Schema:
    """The columns of a file and their types."""
    import pyarrow
    import pyarrow.parquet

    try:
        if make == "Parquet":
            with pyarrow.parquet.ParquetFile(path) as file:
                schema = file.schema_arrow
        else:
            with pyarrow.OSFile(str(path)) as source:
                schema = (_ipc(make)(source)).schema
        # Names are decoded only now, and may be no UTF-8.
        _ = schema.names
        return schema
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise FormatError(f"{path} cannot be read as {make}: {_first_line(error)}; expected {_EXPECTED}") from None


def arrow_rows(path: Path, make: ArrowKind, columns: Sequence[str] | None, report: Report) -> Iterator[TableRow]:
    """The rows of a file, with these columns (all if None)."""
    import pyarrow

    number = unpacked = 0
    most = max(_LARGE, _PACKED * path.stat().st_size)
    batches = _parquet(path, columns) if make == "Parquet" else _arrow(path, make)
    while True:
        try:
            batch = next(batches, None)
        except (pyarrow.ArrowException, OSError, ValueError, MemoryError) as error:
            report(Fault(path, number + 1, f"{make} that cannot be read ({_first_line(error)})", _EXPECTED))
            return
        if batch is None:
            return
        named = enumerate(unique_names(batch.schema.names))
        selected = {name: batch.column(index) for index, name in named if columns is None or name in _outer(columns)}
        for row in range(batch.num_rows):
            number += 1
            try:
                # One row at a time: a value that a dictionary holds once may occur in every row.
                values = _without_objects({name: column[row].as_py() for name, column in selected.items()})
            except (pyarrow.ArrowException, ValueError, OverflowError) as error:
                report(Fault(path, number, f"a cell that cannot be read ({_first_line(error)})", "text or numbers"))
                continue
            unpacked += sum(len(cell) for cell in values.values() if isinstance(cell, str))
            if unpacked > most:
                what = f"more than {most >> 20:,} MB of text in a file of {path.stat().st_size >> 10:,} KB"
                report(Fault(path, number, what, _EXPECTED))
                return
            yield TableRow(number, values)


def column_types(schema: pyarrow.Schema) -> dict[str, Any]:
    """The columns of a file and their types, of lists in a list; structs are read as objects are in `flattened`."""
    import pyarrow

    def inner(kind: pyarrow.DataType) -> Any:
        if pyarrow.types.is_struct(kind):
            return {field.name: inner(field.type) for field in kind}
        return [kind] if pyarrow.types.is_nested(kind) else kind

    named = zip(unique_names(schema.names), schema.types, strict=True)
    return _without_objects({name: inner(kind) for name, kind in named})


def _outer(columns: Sequence[str]) -> set[str]:
    """The columns as they are and, of those within a struct, the structs."""
    parts = (column.split(".") for column in columns)
    return {".".join(part[:length]) for part in parts for length in range(1, len(part) + 1)}


def class_names(schema: pyarrow.Schema) -> dict[str, tuple[str, ...]]:
    """Column -> names of its classes, where `datasets` wrote them into the file."""
    classes: dict[str, tuple[str, ...]] = {}
    with suppress(ValueError, LookupError, TypeError, AttributeError):
        features = parse_json((schema.metadata or {})[b"huggingface"].decode())["info"]["features"]
        classes = {column: names for column, feature in features.items() if (names := _names_in(feature))}
    return classes


def _names_in(feature: Any) -> tuple[str, ...]:
    """The names of the classes that a feature, or the items of a list, may have."""
    while isinstance(feature, list) or (isinstance(feature, dict) and "feature" in feature):
        feature = feature[0] if isinstance(feature, list) else feature["feature"]
    return tuple(map(str, feature["names"])) if feature.get("_type") == "ClassLabel" else ()


def fractions(schema: pyarrow.Schema) -> tuple[str, ...]:
    """The columns whose type is a number with a fraction."""
    import pyarrow

    types = column_types(schema).items()
    return tuple(name for name, kind in types if isinstance(kind, pyarrow.DataType) and pyarrow.types.is_floating(kind))


def _parquet(path: Path, columns: Sequence[str] | None) -> Iterator[Any]:
    import pyarrow
    import pyarrow.parquet

    schema = pyarrow.parquet.read_schema(path)
    # Columns of the same name can only be distinguished when all are read.
    unique = len(set(schema.names)) == len(schema.names)
    columns = [name for name in schema.names if name in _outer(columns)] if unique and columns is not None else None
    strings = [field.name for field in schema if pyarrow.types.is_string(field.type)]
    with pyarrow.parquet.ParquetFile(path, read_dictionary=strings) as file:
        for number in range(file.num_row_groups):
            _refuse_bomb(file.metadata.row_group(number))
            yield from file.iter_batches(_BATCH, row_groups=[number], columns=columns, use_threads=False)


def _refuse_bomb(group: Any) -> None:
    for number in range(group.num_columns):
        column = group.column(number)
        unpacked, packed = column.total_uncompressed_size, max(column.total_compressed_size, 1)
        if unpacked > _LARGE and unpacked > _PACKED * packed:
            raise ValueError(f"{unpacked >> 20:,} MB of one column are packed into {packed >> 10:,} KB")


def _arrow(path: Path, make: ArrowKind) -> Iterator[Any]:
    import pyarrow

    with pyarrow.OSFile(str(path)) as source:
        reader = _ipc(make)(source)
        stream = reader if make == "Arrow stream" else map(reader.get_batch, range(reader.num_record_batches))
        for batch in stream:
            # The offsets within a file from outside may point anywhere.
            batch.validate(full=True)
            yield from (batch.slice(start, _BATCH) for start in range(0, batch.num_rows, _BATCH))


def _ipc(make: ArrowKind) -> Any:
    import pyarrow.ipc

    return pyarrow.ipc.open_stream if make == "Arrow stream" else pyarrow.ipc.open_file


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
