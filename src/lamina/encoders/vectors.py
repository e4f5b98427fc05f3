"""Reading files of word vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lamina.errors import FormatError


def read_vectors(path: Path) -> tuple[list[str], np.ndarray]:
    """Words and their vectors from GloVe text, word2vec text (a header line) or word2vec binary (`.bin`)."""
    read = _read_binary if path.suffix == ".bin" else _read_text
    words, vectors = read(path)
    if not words:
        raise FormatError(f"{path}: no vectors in it; expected lines of a word and its numbers")
    odd = np.flatnonzero(~np.isfinite(vectors).all(1))
    if len(odd):
        raise FormatError(
            f"{path}: the vector of {words[odd[0]]!r} has values that are not numbers ({len(odd)} such vectors); "
            "leave those words out of the file"
        )
    return words, vectors


def _read_text(path: Path) -> tuple[list[str], np.ndarray]:
    words: list[str] = []
    rows: list[np.ndarray] = []
    promised, width = None, 0
    with path.open(encoding="utf-8", errors="surrogateescape") as lines:
        for number, line in enumerate(lines, start=1):
            fields = line.rstrip().split(" ")
            if number == 1 and len(fields) == 2:
                promised, width = _header(path, fields)
                continue
            width = width or len(fields) - 1
            # Some words of large files hold spaces: the numbers are the last fields.
            numbers = fields[-width:]
            try:
                row = np.array(numbers, dtype=np.float32)
            except ValueError:
                row = np.empty(0)
            if not width or len(fields) <= width or len(row) != width:
                raise FormatError(
                    f"{path}:{number}: expected a word and {width or 'its'} numbers, got {len(fields)} fields"
                )
            words.append(" ".join(fields[:-width]))
            rows.append(row)
    if promised is not None and promised != len(words):
        raise FormatError(
            f"{path}:1: the header promises {promised} words, the file has {len(words)}; is it cut short?"
        )
    return words, np.stack(rows) if rows else np.empty((0, 0), np.float32)


def _read_binary(path: Path) -> tuple[list[str], np.ndarray]:
    with path.open("rb") as file:
        count, width = _header(path, file.readline().decode("utf-8", "replace").split())
        data = file.read()
    if count * (4 * width + 1) > len(data):
        raise FormatError(f"{path}: too short for the {count} vectors of {width} numbers its header promises")
    words: list[str] = []
    vectors = np.empty((count, width), np.float32)
    at = 0
    for row in range(count):
        space = data.find(b" ", at)
        end = space + 1 + 4 * width
        if space < 0 or end > len(data):
            raise FormatError(f"{path}: ends in vector {row + 1} of {count}; the file is cut short")
        words.append(data[at:space].lstrip(b"\n").decode("utf-8", "surrogateescape"))
        vectors[row] = np.frombuffer(data, "<f4", width, space + 1)
        at = end
    return words, vectors


def _header(path: Path, fields: list[str]) -> tuple[int, int]:
    try:
        count, width = (int(field) for field in fields)
        if min(count, width) < 1:
            raise ValueError("both are counts")
    except ValueError:
        raise FormatError(f"{path}:1: expected a header, number of words and dimensions; got {fields!r}") from None
    return count, width
