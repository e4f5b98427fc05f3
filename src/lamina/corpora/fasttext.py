"""fastText's files: one text per line, with its classes as `__label__NAME` before it or anywhere in it: `label`.

Words are split at white space if the file is pre-tokenised, as for plain text, otherwise by `corpora.tokenising`. A
text with several labels has all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from lamina.corpora.plain import is_pre_tokenised
from lamina.corpora.reading import Fault, Report, head_lines, raise_fault, read_lines
from lamina.corpora.tokenising import split_words
from lamina.types import Edge, Span, Text

_LABEL = re.compile(r"(?<!\S)__label__(\S*)")
_EXPECTED = "__label__NAME and a text"


def looks_like(path: Path) -> bool:
    """Whether every one of the first lines has a label."""
    lines = [line for line in head_lines(path) if line.strip()] if path.is_file() else []
    return bool(lines) and all(_LABEL.search(line) for line in lines)


def read(path: Path, report: Report = raise_fault) -> Iterator[Text]:
    """One text per line, named by its number.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "train.ft"
        >>> _ = path.write_text("__label__good __label__short Dogs bark.\\n")
        >>> text = next(read(path))
        >>> text.words, text.edges["label"][0].labels
        (('Dogs', 'bark', '.'), ('good', 'short'))
    """
    at_spaces = is_pre_tokenised("\n".join(_LABEL.sub("", line) for line in head_lines(path, 1 << 16)))
    for line in read_lines(path, report):
        if line is None or not line.text.strip():
            continue
        labels = tuple(_LABEL.findall(line.text))
        rest = _LABEL.sub("", line.text)
        split = split_words(rest)
        words, glued = (tuple(rest.split()), ()) if at_spaces else (split.words, split.glued)
        if not labels or not all(labels):
            report(Fault(path, line.number, f"{line.text[:40]!r} has no label or an empty one", _EXPECTED))
        elif not words:
            report(Fault(path, line.number, "no text after the label", _EXPECTED))
        else:
            edges = {"label": (Edge(labels, Span(0, len(words))),)}
            yield Text(f"{path.stem}-{line.number}", words, edges=edges, glued=glued)
