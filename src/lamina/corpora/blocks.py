"""Reading annotated files line by line: UTF-8, counted from 1, in memory of one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lamina.corpora.faults import Fault, Report

_BOM = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """One line of a file, without its end."""

    number: int
    """Counted from 1."""
    text: str


def read_lines(path: Path, report: Report) -> Iterator[Line | None]:
    """Every line of `path`; None stands for one that is not UTF-8, which has been reported.

    Example:
        >>> import tempfile
        >>> from lamina.corpora.faults import raise_fault
        >>> path = Path(tempfile.mkdtemp()) / "two.txt"
        >>> _ = path.write_text("one\\ntwo")
        >>> [line.text for line in read_lines(path, raise_fault) if line]
        ['one', 'two']
    """
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if number == 1:
                raw = raw.removeprefix(_BOM)
            try:
                text = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                what = f"byte 0x{raw[error.start]:02x} at place {error.start + 1} of the line is not UTF-8"
                report(Fault(path, number, what, "text saved as UTF-8"))
                yield None
            else:
                yield Line(number, text.rstrip("\r\n"))


def read_blocks(path: Path, report: Report) -> Iterator[list[Line]]:
    """The runs of lines between blank lines; a run with a line that is not UTF-8 is left out.

    Example:
        >>> import tempfile
        >>> from lamina.corpora.faults import raise_fault
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
            block.append(line)
        else:
            if block and whole:
                yield block
            block, whole = [], True
    if block and whole:
        yield block


def head_lines(path: Path, size: int = 4096) -> list[str]:
    """The whole lines among the first `size` bytes of a file, odd bytes replaced: enough to tell a format.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "long.txt"
        >>> _ = path.write_text("first\\nsecond\\nthird\\n")
        >>> head_lines(path, size=14)
        ['first', 'second']
    """
    with path.open("rb") as file:
        start = file.read(size + 1)
    lines = start[:size].removeprefix(_BOM).decode("utf-8", errors="replace").split("\n")
    # A line cut in the middle says nothing about the format.
    return [line.rstrip("\r") for line in (lines[:-1] if len(start) > size else lines)]
