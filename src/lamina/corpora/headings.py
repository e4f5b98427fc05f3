"""The comments above sentences: `# sent_id = ...`, `# newdoc id = ...` and the like."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_COMMENT = re.compile(r"#\s*([\w.:]+(?:\s+id)?)\s*(?:=\s*(.*\S)?)?\s*")


def comments(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Key and value of every comment that has a key; the value is empty where there is none.

    Example:
        >>> list(comments(["# newdoc", "# sent_id = s 1", "# newdoc id = d", "1\\tno comment"]))
        [('newdoc', ''), ('sent_id', 's 1'), ('newdoc id', 'd')]
    """
    for match in map(_COMMENT.fullmatch, lines):
        if match:
            yield " ".join(match[1].split()), match[2] or ""


class Heading:
    """Names of the sentence and document being read, given by comments or else made of the file's name and a number.

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
        """Go on to the sentence below these lines of comments."""
        self._sentences += 1
        self.sentence = f"{self._stem}-{self._sentences}"
        for key, value in comments(lines):
            if key == "sent_id" and value:
                self.sentence = value
            elif key in ("newdoc", "newdoc id"):
                self.next_document(value)

    def next_document(self, name: str = "") -> None:
        """Go on to the document of this name, or to one without."""
        self._docs += 1
        self.doc = name or f"{self._stem}-doc{self._docs}"
