"""GUM: a folder with dependencies, constituents and two coreference schemes for the same sentences.

`dep/*.conllu` gives the words, `pos`, `xpos`, `dep` and `ner` (from `Entity=`); `const/*.ptb` gives `const`;
`coref/ontogum/conll/*.conll` gives `chains` (the OntoNotes scheme, without singletons) and `coref/gum/conll/*.conll`
gives `chains_gum` (GUM's own, singletons included). A chain's id is its number in the document. A layer without a
folder is left out. A whole document is left out if one of its layers has a fault or different words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from lamina.corpora.entities import MentionCell, chain_of, mentions_in
from lamina.corpora.formats import conllu
from lamina.corpora.formats.ptb import read_trees
from lamina.corpora.reading import Fault, Report, raise_fault, read_lines, read_list
from lamina.errors import CorpusError
from lamina.types import Edge, Text

_SCHEMES = {"chains": "ontogum", "chains_gum": "gum"}
_Layer = list[tuple[Edge, ...]]
"""The edges of one annotation, one tuple per sentence."""


def looks_like(path: Path) -> bool:
    """Whether this is a folder that holds `dep/` and `const/` or `coref/`."""
    return any((path / "dep").glob("*.conllu")) and ((path / "const").is_dir() or (path / "coref").is_dir())


def read(path: Path, report: Report = raise_fault, split: str | None = None) -> Iterator[Text]:
    """One text per sentence of the folder or of one file in its `dep/`; `split` selects a list in `splits/`."""
    files = [path] if path.is_file() else sorted((path / "dep").glob("*.conllu"))
    if split is not None:
        listed = _listed(files[0].parent.parent if files else path, split)
        files = [file for file in files if file.stem in listed]
    for file in files:
        yield from _read_document(file, report)


def companions(path: Path) -> tuple[Path, ...]:
    """The existing files of the other layers for a file in `dep/`."""
    return tuple(
        file for file in (_const(path), *(_coref(path, scheme) for scheme in _SCHEMES.values())) if file.is_file()
    )


def _const(dep: Path) -> Path:
    return dep.parent.parent / "const" / f"{dep.stem}.ptb"


def _coref(dep: Path, scheme: str) -> Path:
    return dep.parent.parent / "coref" / scheme / "conll" / f"{dep.stem}.conll"


def _listed(folder: Path, split: str) -> frozenset[str]:
    path = folder / "splits" / f"{split}.txt"
    if not path.is_file():
        raise CorpusError(f"{folder} has no split {split!r}: there is no {path}; use split=None for all documents")
    return frozenset(read_list(path))


def _read_document(dep: Path, report: Report) -> Iterator[Text]:
    faults = 0

    def count(fault: Fault) -> None:
        nonlocal faults
        faults += 1
        report(fault)

    texts = list(conllu.read(dep, count))
    if faults:
        # The other layers can only be joined if no sentence is missing.
        return
    layers: dict[str, _Layer] = {}
    if _const(dep).parent.is_dir():
        layers["const"] = _constituents(dep, texts, count)
    for name, scheme in _SCHEMES.items():
        if _coref(dep, scheme).parent.is_dir():
            layers[name] = _chains(dep, _coref(dep, scheme), texts, count)
    if not faults:
        yield from (_joined(text, number, layers) for number, text in enumerate(texts))


def _joined(text: Text, number: int, layers: Mapping[str, _Layer]) -> Text:
    # `Entity=` has chains too, in GUM's own scheme, as `coref/gum` has them.
    syntax = {name: targets for name, targets in text.edges.items() if name not in _SCHEMES}
    edges = {**syntax, **{name: layer[number] for name, layer in layers.items()}}
    return replace(text, edges=edges)


def _constituents(dep: Path, texts: list[Text], report: Report) -> _Layer:
    path = _const(dep)
    if not path.is_file():
        report(Fault(path, 0, "file not found", f"the trees of {dep}"))
        return []
    trees = list(read_trees(path, report))
    for text, tree in zip(texts, trees, strict=False):
        if text.words != tree.words:
            what = f"the words of this tree are not those of sentence {text.id} in {dep}"
            report(Fault(path, tree.line, what, " ".join(text.words)))
            return []
    if len(trees) != len(texts):
        report(Fault(path, 0, f"{len(trees)} trees", f"{len(texts)}, one for each sentence of {dep}"))
    return [tree.constituents for tree in trees]


def _chains(dep: Path, path: Path, texts: list[Text], report: Report) -> _Layer:
    """A coreference file has the rows of the whole document; each sentence gets its own."""
    if not path.is_file():
        report(Fault(path, 0, "file not found", f"the coreference chains of {dep}"))
        return []
    rows = [row for line in read_lines(path, report) if line and (row := _row(path, line.number, line.text, report))]
    words = [(text.id, word) for text in texts for word in text.words]
    for (number, word, _), (sentence, expected) in zip(rows, words, strict=False):
        # OntoGUM writes the word | as an empty string.
        if word not in ("", expected):
            report(Fault(path, number, f"word {word!r}", f"{expected!r}, of sentence {sentence} in {dep}"))
            return []
    if len(rows) != len(words):
        report(Fault(path, 0, f"{len(rows)} words", f"{len(words)}, as in {dep}"))
        return []
    layer, start = [], 0
    for text in texts:
        cells = [
            MentionCell(row[2], place, place + 1) for place, row in enumerate(rows[start : start + len(text.words)])
        ]
        try:
            layer.append(tuple(Edge((chain_of(name),), span) for name, span in mentions_in(cells, chain_of)))
        except ValueError as error:
            within = "every mention opened and closed within its sentence"
            report(Fault(path, rows[start][0], f"sentence {text.id}: {error}", within))
        start += len(text.words)
    return layer


def _row(path: Path, number: int, line: str, report: Report) -> tuple[int, str, str] | None:
    """Line, word and brackets of a row; None if the line is not a row."""
    if not line.strip() or line.startswith(("# begin document", "# end document")):
        return None
    cells = line.split("\t")
    if len(cells) != 3:
        report(Fault(path, number, f"{len(cells)} columns", "3 columns separated by tabs: number, word, mentions"))
        return None
    return number, cells[1], cells[2]
