"""Plain text: one paragraph per line, each of them one text; blank lines are skipped.

Wikitext headings (` = Title = `) are texts too; a first-level heading starts a document. Words are split at whitespace
if the file is pre-tokenised, otherwise by `corpora.tokenising`. A file counts as pre-tokenised if, in its first 64 KB,
more commas are separate tokens than attached to a word. Headings count as words; nothing is added at the end of a line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from lamina.corpora.content import not_running_text
from lamina.corpora.reading import Report, raise_fault, read_lines
from lamina.corpora.tokenising import split_words
from lamina.files.reading import open_regular
from lamina.types import Text

_SAMPLE = 1 << 16
_TITLE = re.compile(r"\s*= ([^=\s](?:.*[^=\s])?) =\s*")
_STUCK = re.compile(r"\S,(?=\s)")
_APART = re.compile(r"\s,(?=\s)")


def looks_like(path: Path) -> bool:
    """Whether the file has a plain-text name and holds no other kind of data; all other formats are tried first."""
    named = path.is_file() and path.suffix.lower() in {".txt", ".text", ".tokens", ".raw"}
    return named and not_running_text(path) is None


def read(path: Path, report: Report = raise_fault) -> Iterator[Text]:
    """One text per paragraph, named by its line number."""
    whitespace = _pre_tokenised(path)
    doc = None
    titles: Counter[str] = Counter()
    for line in read_lines(path, report):
        if line is None:
            continue
        if title := _TITLE.fullmatch(line.text):
            titles[title[1]] += 1
            # Two articles may have the same name (`<unk> <unk>`) but are still two documents.
            doc = title[1] if titles[title[1]] == 1 else f"{title[1]} ({titles[title[1]]})"
        if whitespace:
            words, glued = tuple(line.text.split()), ()
        else:
            split = split_words(line.text)
            words, glued = split.words, split.glued
        if words:
            yield Text(f"{path.stem}-{line.number}", words, doc=doc, glued=glued)


def is_pre_tokenised(text: str) -> bool:
    """Whether more commas are separate tokens than attached to a word.

    Example:
        >>> is_pre_tokenised("Well , yes ."), is_pre_tokenised("Well, yes.")
        (True, False)
    """
    sample = text[:_SAMPLE]
    return len(_APART.findall(sample)) > len(_STUCK.findall(sample))


def _pre_tokenised(path: Path) -> bool:
    with open_regular(path) as file:
        return is_pre_tokenised(file.read(_SAMPLE).decode("utf-8", errors="replace"))
