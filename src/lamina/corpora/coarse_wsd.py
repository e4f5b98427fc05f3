"""CoarseWSD: sentences with one ambiguous noun and its sense, one folder per word.

`WORD/train.data.txt` and `WORD/test.data.txt` have one sentence per line, `index<TAB>words`: the ambiguous word's
place, counted from 0, and the words, separated by white space. `train.gold.txt` has the number of the sense in the same
line, and `classes_map.txt` says what the numbers mean (`{"0": "mole_mole_(animal)", ...}`). A folder of such folders is
one corpus. The set's out-of-domain sentences are one file, `word<TAB>word_sense<TAB>index<TAB>words`; it is read too.

Annotation: `sense`, of the ambiguous word. The label is `word%sense` (`mole%mole_(animal)`; `mole%0` without a
`classes_map.txt`): the senses of a word share all before the `%`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from lamina.corpora.reading import Fault, Report, head_lines, raise_fault, read_lines, whole_number
from lamina.files.reading import parse_json, read_regular
from lamina.types import Edge, Span, Text

_DATA, _GOLD, _CLASSES = ".data.txt", ".gold.txt", "classes_map.txt"
_SENTENCE = re.compile(r"[0-9]{1,9}\t\S.*")
_ROW = re.compile(r"([^\t]+)\t\1_[^\t]+\t[0-9]{1,9}\t[^\t]+")


def looks_like(path: Path) -> bool:
    """Whether the file has indexed sentences with a file of senses beside it, or rows of the out-of-domain set."""
    if not path.is_file():
        return False
    pattern = _SENTENCE if path.name.endswith(_DATA) and _gold(path).is_file() else _ROW
    lines = [line for line in head_lines(path) if line]
    return bool(lines) and all(pattern.fullmatch(line) for line in lines)


def companions(path: Path) -> tuple[Path, ...]:
    """The numbers of the senses, and what they mean."""
    if not path.name.endswith(_DATA):
        return ()
    return tuple(file for file in (_gold(path), path.with_name(_CLASSES)) if file.is_file())


def read(path: Path, report: Report = raise_fault) -> Iterator[Text]:
    """One text per line."""
    return _read_folder(path, report) if path.name.endswith(_DATA) else _read_rows(path, report)


def _gold(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(_DATA) + _GOLD)


def _read_folder(path: Path, report: Report) -> Iterator[Text]:
    if not _gold(path).is_file():
        report(Fault(_gold(path), 0, "file not found", f"the number of the sense for each line of {path.name}"))
        return
    folder = path.absolute().parent.name
    meant = _classes(path.with_name(_CLASSES), report)
    if meant is None:
        return
    # The lists of few examples call their folders `apple_10`.
    word = _word_of(folder, meant)
    part = path.name.removesuffix(_DATA)
    senses = {line.number: line.text.strip() for line in read_lines(_gold(path), report) if line}
    for line in read_lines(path, report):
        if line is None or not line.text.strip():
            continue
        number = senses.get(line.number, "")
        index, _, sentence = line.text.partition("\t")
        if not number:
            report(Fault(_gold(path), line.number, "no sense", f"the sense of line {line.number} of {path.name}"))
        elif meant and number not in meant:
            what = f"sense {number!r}, which {_CLASSES} does not name"
            report(Fault(_gold(path), line.number, what, f"one of {', '.join(meant)}"))
        else:
            label = _label(word, meant.get(number, number))
            yield from _text(f"{folder}-{part}-{line.number}", index, sentence, label, path, line.number, report)


def _classes(path: Path, report: Report) -> dict[str, str] | None:
    """Number -> name of the sense, empty if there is no such file; None after a fault."""
    if not path.is_file():
        return {}
    try:
        meant = parse_json(read_regular(path).decode("utf-8-sig"))
    except ValueError as error:
        return report(Fault(path, 1, f"cannot be read ({error})", 'a JSON object: {"0": "word_sense", ...}'))
    if not isinstance(meant, dict) or not all(isinstance(sense, str) and sense for sense in meant.values()):
        return report(Fault(path, 1, "not a list of senses", 'a JSON object: {"0": "word_sense", ...}'))
    return meant


def _word_of(folder: str, meant: Mapping[str, str]) -> str:
    """The ambiguous word: the folder's name, or what is left of it if all senses start with that."""
    word = folder
    while meant and "_" in word and not all(sense.startswith(f"{word}_") for sense in meant.values()):
        word = word.rpartition("_")[0]
    return word


def _read_rows(path: Path, report: Report) -> Iterator[Text]:
    for line in read_lines(path, report):
        if line is None or not line.text.strip():
            continue
        cells = line.text.split("\t")
        if len(cells) != 4 or not all(cells):
            what = f"{len(cells)} columns" if len(cells) != 4 else "an empty column"
            report(Fault(path, line.number, what, "4 columns separated by tabs: word, sense, index, sentence"))
            continue
        word, sense, index, sentence = cells
        label = _label(word, sense)
        yield from _text(f"{path.stem}-{line.number}", index, sentence, label, path, line.number, report)


def _label(word: str, sense: str) -> str:
    return f"{word}%{sense.removeprefix(f'{word}_')}"


def _text(name: str, index: str, sentence: str, label: str, path: Path, number: int, report: Report) -> Iterator[Text]:
    words = tuple(sentence.split())
    at = whole_number(index)
    if at is None or at >= len(words):
        report(Fault(path, number, f"index {index[:20]!r} in {len(words)} words", "the place of a word, from 0, a tab"))
        return
    yield Text(name, words, edges={"sense": (Edge((label,), Span(at, at + 1)),)})
