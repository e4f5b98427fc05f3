"""Wiki-PSE: running text, one sentence per line, in which `@new_york@-location` is a word with its semantic class.

Underscores within such a token are spaces. The annotation `sclass` has the class of each. If there are word lists
(`train.tsv`, `test.tsv`; `@word@<TAB>-class=count -class=count`) in the folder, in its `dataset` or in the folder
above, `sclass_split` gives the list of each listed word: no word may be in two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from lamina.corpora.reading import Fault, Report, head_lines, raise_fault, read_lines
from lamina.types import Edge, Span, Text

_MARKED = re.compile(r"@(\S+)@-([a-z][a-z_-]*)")
_LISTED = re.compile(r"@(\S+)@\t-\S+=\d+(?: -\S+=\d+)*")
_LISTS = ("train.tsv", "dev.tsv", "test.tsv")


def looks_like(path: Path) -> bool:
    """Whether one of the first lines has a word marked with its class."""
    return path.is_file() and any(_MARKED.fullmatch(token) for line in head_lines(path) for token in line.split())


def companions(path: Path) -> tuple[Path, ...]:
    """The word lists for a file, from the nearest folder that has some."""
    places = [place for folder in path.absolute().parents[:2] for place in (folder, folder / "dataset")]
    found = [tuple(place / name for name in _LISTS if _is_list(place / name)) for place in places]
    return next((lists for lists in found if lists), ())


def read(path: Path, report: Report = raise_fault) -> Iterator[Text]:
    """One text per line."""
    split_of = _read_lists(companions(path), report)
    for line in read_lines(path, report):
        if line is None or not line.text.strip():
            continue
        words: list[str] = []
        classes: list[Edge] = []
        splits: list[Edge] = []
        for token in line.text.split():
            marked = _MARKED.fullmatch(token)
            parts = [part for part in marked[1].split("_") if part] if marked else [token]
            if marked and parts:
                span = Span(len(words), len(words) + len(parts))
                classes.append(Edge((marked[2],), span))
                if (split := split_of.get(_key(marked[1]))) is not None:
                    splits.append(Edge((split,), span))
            words += parts
        if words:
            edges = {"sclass": tuple(classes)} | ({"sclass_split": tuple(splits)} if split_of else {})
            yield Text(f"{path.stem}-{line.number}", tuple(words), edges=edges)


def _key(word: str) -> str:
    return " ".join(word.replace("_", " ").split()).lower()


def _is_list(path: Path) -> bool:
    return path.is_file() and any(_LISTED.fullmatch(line) for line in head_lines(path))


def _read_lists(paths: tuple[Path, ...], report: Report) -> dict[str, str]:
    """Word -> the list it is in."""
    split_of: dict[str, str] = {}
    for path in paths:
        for line in read_lines(path, report):
            if line is None or not line.text.strip():
                continue
            listed = _LISTED.fullmatch(line.text.strip())
            if listed is None:
                report(
                    Fault(path, line.number, f"{line.text[:40]!r}", "@word@, a tab, and -class=count for each class")
                )
                continue
            known = split_of.setdefault(_key(listed[1]), path.stem)
            if known != path.stem:
                what = f"{_key(listed[1])!r} is also in {known}.tsv"
                report(Fault(path, line.number, what, "every word in one list only, so that scored words are unseen"))
    return split_of
