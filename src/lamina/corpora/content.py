"""What a file holds that is not running text: data that is never read as plain text."""

from __future__ import annotations

import re
from pathlib import Path

from lamina.corpora import table_reader as tables
from lamina.corpora.delimited import layout_of
from lamina.corpora.reading import head_lines, json_start
from lamina.files.reading import open_regular

_SAMPLE = 1 << 16
_MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
_PACKED = {b"\x1f\x8b": "gzip", b"PK\x03\x04": "zip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"%PDF": "PDF"}
_JSON = re.compile(r'\{\s*"[^"\n]*"\s*:|\[\s*(?:[{\[]\s*["{\[]|"[^"\n]*"\s*[,\]])')
_MARKUP = re.compile(r"<(?:\?xml|!DOCTYPE|!--|[A-Za-z][\w:.-]*(?:\s[^<>]*)?>)")
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")


def not_running_text(path: Path) -> str | None:
    """What a file is, in a few words, if it is not running text; None if it may be.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "own.txt"
        >>> _ = path.write_text("Dogs, cats and cows.\\nBirds, too.\\n")
        >>> not_running_text(path)
        >>> _ = path.write_text("Dogs\\tanimal\\nOslo\\tplace\\n")
        >>> not_running_text(path)
        'a table of 2 columns separated by tabs'
    """
    with open_regular(path) as file:
        start = file.read(_SAMPLE)
    named = next((name for mark, name in (_MARKS | _PACKED).items() if start.startswith(mark)), None)
    if named is not None or b"\0" in start:
        return f"{named} data, not text in UTF-8" if named else "binary data"
    text = json_start(path)
    if _JSON.match(text):
        return "JSON"
    if _MARKUP.match(text) and ("</" in text or "/>" in text):
        return "XML or HTML"
    if b"\r" in start and b"\n" not in start:
        return "lines that end with carriage returns only, which `tr '\\r' '\\n' < OLD > NEW` changes"
    lines = [line.strip() for line in head_lines(path, _SAMPLE) if line.strip()]
    if len(lines) > 1 and all(map(_NUMBER.fullmatch, lines)):
        return "a list of numbers, such as the labels of texts in another file"
    if len(lines) > 1 and (columns := _numbered_columns(lines)):
        return f"a table of {columns} columns separated by spaces, most of them numbers, as word vectors are"
    layout = layout_of(path)
    if layout is None or len(lines) < 2:
        return None
    return f"a table of {len(layout.columns)} columns separated by {layout.separator}"


def _numbered_columns(lines: list[str]) -> int:
    """The number of columns, if every line has the same and more than half of each line are numbers; otherwise 0."""
    rows = [line.split() for line in lines]
    columns = len(rows[0])
    alike = columns > 2 and all(len(row) == columns for row in rows)
    return columns if alike and all(2 * sum(map(_is_number, row)) > columns for row in rows) else 0


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None


def why_not_read(path: Path) -> str | None:
    """Why no reader takes a file, and what to do; None if nothing is known about it."""
    said = tables.why_not(path)
    if said is not None:
        return said
    held = not_running_text(path)
    return None if held is None else f"{path} holds {held}; no reader of lamina fits"
