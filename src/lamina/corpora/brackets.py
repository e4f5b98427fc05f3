"""Brackets to spans: Penn Treebank trees, and the starred columns of CoNLL (`(TOP(S(NP*`, `*`, `*))`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lamina.corpora.reading import Fault, Report, read_lines
from lamina.types import Edge, Span

_TOPS = frozenset({"", "ROOT", "TOP"})
_TRACE = "-NONE-"
_ESCAPES = {
    **{"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"},
    **{r"\/": "/", r"\*": "*"},
}
_ESCAPED = re.compile("|".join(map(re.escape, _ESCAPES)))
_CELL = re.compile(r"((?:\([^()*]*)*)(\*?)(\)*)")
_PIECE = re.compile(r"[()]|[^()\s]+")
_NEW_TREE = re.compile(r"\((ROOT|TOP)?\s*(\(|$)")
_BALANCED = "balanced brackets: (LABEL (TAG word) ...)"


def unescape(word: str) -> str:
    r"""The word as written: `-LRB-` and the like become brackets again, `\/` a slash.

    Example:
        >>> unescape("-LRB-a-RRB-"), unescape("LRB")
        ('(a)', 'LRB')
    """
    return _ESCAPED.sub(lambda match: _ESCAPES[match[0]], word)


class _Spans:
    """Collects labelled spans from brackets that open and close around words, outer before inner."""

    def __init__(self) -> None:
        self.words = 0
        self._found: list[tuple[str, int, int]] = []
        self._open: list[int] = []

    def open(self, label: str) -> None:
        self._open.append(len(self._found))
        self._found.append((label, self.words, self.words))

    def close(self) -> None:
        if not self._open:
            raise ValueError("one closing bracket too many")
        at = self._open.pop()
        label, start, _ = self._found[at]
        self._found[at] = (label, start, self.words)

    def edges(self) -> tuple[Edge, ...]:
        """The spans that contain words; spans left empty by removed traces are dropped."""
        if self._open:
            raise ValueError(f"bracket ({self._found[self._open[-1]][0]} is never closed")
        return tuple(Edge((label,), Span(start, end)) for label, start, end in self._found if start < end)


def starred(column: Sequence[str]) -> tuple[Edge, ...]:
    """The labelled spans of a starred column with one cell per word; a ValueError says what is wrong with it.

    Example:
        >>> [(edge.labels[0], edge.span.start, edge.span.end) for edge in starred(["(ARG0*", "*)", "(V*)"])]
        [('ARG0', 0, 2), ('V', 2, 3)]
    """
    spans = _Spans()
    for place, cell in enumerate(column, start=1):
        match = _CELL.fullmatch(cell)
        # A one-word entity may be written (GPE), without a star.
        if match is None or not (match[2] or (match[1] and match[3])):
            raise ValueError(f"cell {cell!r} of word {place} is not a starred cell such as (NP*, * or *)")
        for label in match[1].split("(")[1:]:
            spans.open(label)
        spans.words += 1
        for _ in match[3]:
            spans.close()
    return spans.edges()


def without_top(edges: tuple[Edge, ...]) -> tuple[Edge, ...]:
    """Constituents without the dummy bracket (ROOT, TOP or no label) around the sentence.

    Example:
        >>> [edge.labels[0] for edge in without_top(starred(["(TOP(S*", "*))"]))]
        ['S']
    """
    return edges[1:] if edges and edges[0].labels[0] in _TOPS else edges


class Tree(NamedTuple):
    """One bracketed tree, traces removed."""

    number: int
    """Number in the file, from 1."""
    line: int
    """Line where it starts."""
    words: tuple[str, ...]
    tags: tuple[str, ...]
    constituents: tuple[Edge, ...]


class _Builder:
    """Builds one tree from brackets, labels and words; a ValueError says why one does not fit."""

    def __init__(self, number: int, line: int) -> None:
        self.number, self.line = number, line
        self._words: list[str] = []
        self._tags: list[str] = []
        self._spans = _Spans()
        self._atoms: list[list[str]] = []
        """For each open bracket, its content apart from brackets: a label, or a tag and its word."""
        self._inner: list[bool] = []
        """For each open bracket, whether it contains brackets."""

    def feed(self, piece: str) -> bool:
        """Add one piece; True if it completes the tree."""
        if piece == "(":
            self._open()
        elif not self._atoms:
            raise ValueError("one closing bracket too many" if piece == ")" else f"{piece!r} is outside any tree")
        elif piece == ")":
            self._close()
        elif self._inner[-1] or len(self._atoms[-1]) == 2:
            raise ValueError(f"{piece!r} is next to brackets or another word")
        else:
            self._atoms[-1].append(piece)
        return not self._atoms

    def _open(self) -> None:
        if self._atoms:
            if len(self._atoms[-1]) == 2:
                raise ValueError(f"a bracket follows the word {self._atoms[-1][1]!r}")
            if not self._inner[-1]:
                self._inner[-1] = True
                self._spans.open("".join(self._atoms[-1]))
        self._atoms.append([])
        self._inner.append(False)

    def _close(self) -> None:
        atoms = self._atoms.pop()
        if self._inner.pop():
            self._spans.close()
        elif len(atoms) < 2:
            raise ValueError(f"bracket ({''.join(atoms)}) has no word")
        elif atoms[0] != _TRACE:
            self._tags.append(atoms[0])
            self._words.append(unescape(atoms[1]))
            self._spans.words += 1

    def tree(self) -> Tree:
        """The complete tree."""
        if not self._words:
            raise ValueError("the tree has no words")
        constituents = without_top(self._spans.edges())
        return Tree(self.number, self.line, tuple(self._words), tuple(self._tags), constituents)


def read_trees(path: Path, report: Report) -> Iterator[Tree]:
    """Every tree of a file, whatever its line breaks.

    After a fault, reading continues at the next line that starts with a bracket. A line that starts a new tree
    (`(ROOT`, `(TOP` or `( (`) ends a tree left open before it.
    """
    number, lost = 0, False
    builder: _Builder | None = None
    for line in read_lines(path, report):
        if line is None:
            builder, lost = None, True
            continue
        if builder is not None and _NEW_TREE.match(line.text):
            report(Fault(path, builder.line, "the tree that starts here is never closed", _BALANCED))
            builder = None
        if lost and not line.text.startswith("("):
            continue
        lost = False
        for piece in _PIECE.findall(line.text):
            if builder is None:
                number += piece == "("
                builder = _Builder(number, line.number)
            try:
                tree = builder.tree() if builder.feed(piece) else None
            except ValueError as error:
                report(Fault(path, line.number, str(error), _BALANCED))
                builder, lost = None, True
                break
            if tree is not None:
                builder = None
                yield tree
    if builder is not None:
        report(Fault(path, builder.line, "the tree that starts here is never closed", _BALANCED))
