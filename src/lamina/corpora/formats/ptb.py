"""Penn Treebank brackets (`.mrg`, `.ptb`): words, `pos` and `const`.

Trees may run over several lines. Traces (`-NONE-`) are removed, and so are constituents that contain nothing else; the
dummy bracket around the sentence is left out; labels keep their function tags (`NP-SBJ`). In words, `-LRB-` and the
like become brackets again; tags stay as annotated. A file is a document and a tree is a sentence: `wsj_0001-2` is the
second tree of `wsj_0001.mrg`. A folder means all such files below it, sorted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lamina.corpora.reading import Fault, Report, head_lines, raise_fault, read_lines
from lamina.types import Edge, Span, Text

# Brackets to spans: Penn Treebank trees, and the starred columns of CoNLL (`(TOP(S(NP*`, `*`, `*))`).

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


class _BracketSpans:
    """Collects labelled spans from brackets that open and close around words, outer before inner."""

    def __init__(self) -> None:
        self.words = 0
        self._spans: list[tuple[str, int, int]] = []
        self._open: list[int] = []

    def open(self, label: str) -> None:
        self._open.append(len(self._spans))
        self._spans.append((label, self.words, self.words))

    def close(self) -> None:
        if not self._open:
            raise ValueError("one closing bracket too many")
        index = self._open.pop()
        label, start, _ = self._spans[index]
        self._spans[index] = (label, start, self.words)

    def edges(self) -> tuple[Edge, ...]:
        """The spans that contain words; spans left empty by removed traces are dropped."""
        if self._open:
            raise ValueError(f"bracket ({self._spans[self._open[-1]][0]} is never closed")
        return tuple(Edge((label,), Span(start, end)) for label, start, end in self._spans if start < end)


def starred(column: Sequence[str]) -> tuple[Edge, ...]:
    """The labelled spans of a starred column with one cell per word; a ValueError says what is wrong with it.

    Example:
        >>> [(edge.labels[0], edge.span.start, edge.span.end) for edge in starred(["(ARG0*", "*)", "(V*)"])]
        [('ARG0', 0, 2), ('V', 2, 3)]
    """
    spans = _BracketSpans()
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


class BracketTree(NamedTuple):
    """One bracketed tree, traces removed."""

    number: int
    """Number in the file, from 1."""
    line: int
    """Line where it starts."""
    words: tuple[str, ...]
    tags: tuple[str, ...]
    constituents: tuple[Edge, ...]


class _TreeBuilder:
    """Builds one tree from brackets, labels and words; a ValueError says why one does not fit."""

    def __init__(self, number: int, line: int) -> None:
        self.number, self.line = number, line
        self._words: list[str] = []
        self._tags: list[str] = []
        self._spans = _BracketSpans()
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

    def tree(self) -> BracketTree:
        """The complete tree."""
        if not self._words:
            raise ValueError("the tree has no words")
        constituents = without_top(self._spans.edges())
        return BracketTree(self.number, self.line, tuple(self._words), tuple(self._tags), constituents)


def read_trees(path: Path, report: Report) -> Iterator[BracketTree]:
    """Every tree of a file, whatever its line breaks.

    After a fault, reading continues at the next line that starts with a bracket. A line that starts a new tree
    (`(ROOT`, `(TOP` or `( (`) ends a tree left open before it.
    """
    number, lost = 0, False
    builder: _TreeBuilder | None = None
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
                builder = _TreeBuilder(number, line.number)
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


SUFFIXES = (".mrg", ".ptb")
_TREE = re.compile(r"\(\s*[^\s()]*\s*(\(|$)")


def looks_like(path: Path) -> bool:
    """Whether this is a file of trees: by its name, or because it starts with nested brackets."""
    if path.is_dir():
        return any(_files(path))
    if path.suffix in SUFFIXES:
        return True
    first = next((line for line in head_lines(path) if line.strip()), "")
    return _TREE.match(first) is not None


def read(path: Path, report: Report = raise_fault) -> Iterator[Text]:
    """One text per tree.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "wsj_0001.mrg"
        >>> _ = path.write_text("( (S (NP-SBJ (NNS Dogs)) (VP (VBP bark) (NP (-NONE- *)))))")
        >>> text = next(read(path))
        >>> text.id, text.words, [edge.labels[0] for edge in text.edges["const"]]
        ('wsj_0001-1', ('Dogs', 'bark'), ['S', 'NP-SBJ', 'VP'])
    """
    for file in _files(path) if path.is_dir() else (path,):
        for tree in read_trees(file, report):
            pos = tuple(Edge((tag,), Span(word, word + 1)) for word, tag in enumerate(tree.tags))
            edges = {"pos": pos, "const": tree.constituents}
            yield Text(f"{file.stem}-{tree.number}", tree.words, edges=edges, doc=file.stem)


def _files(folder: Path) -> Iterator[Path]:
    return (file for file in sorted(folder.rglob("*")) if file.suffix in SUFFIXES)
