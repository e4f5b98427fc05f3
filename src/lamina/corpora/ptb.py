"""Penn Treebank brackets (`.mrg`, `.ptb`): words, `pos` and `const`.

Trees may run over several lines. Traces (`-NONE-`) are removed, and so are constituents that contain nothing else; the
dummy bracket around the sentence is left out; labels keep their function tags (`NP-SBJ`). In words, `-LRB-` and the
like become brackets again; tags stay as annotated. A file is a document and a tree is a sentence: `wsj_0001-2` is the
second tree of `wsj_0001.mrg`. A folder means all such files below it, sorted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from lamina.corpora.brackets import read_trees
from lamina.corpora.reading import Report, head_lines, raise_fault
from lamina.types import Edge, Span, Text

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
            pos = tuple(Edge((tag,), Span(at, at + 1)) for at, tag in enumerate(tree.tags))
            edges = {"pos": pos, "const": tree.constituents}
            yield Text(f"{file.stem}-{tree.number}", tree.words, edges=edges, doc=file.stem)


def _files(folder: Path) -> Iterator[Path]:
    return (file for file in sorted(folder.rglob("*")) if file.suffix in SUFFIXES)
