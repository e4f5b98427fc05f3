"""Word senses: `SimpleWsdDoc` (XML), the evaluation framework's (XML), CoarseWSD, Wiki-PSE.

`SimpleWsdDoc` is the format of Google's SemCor and MASC with NOAD senses.

A document is a list of `<word text= break_level= lemma= pos= sense=/>`. A sentence ends before a word whose
`break_level` is SENTENCE_BREAK or PARAGRAPH_BREAK; a LINE_BREAK is mostly the end of a printed line within a sentence,
so it ends nothing. Words that only spell the document's own name, at its start, are left out and noted.

Annotation: `sense`, of each word that has one. The label is `lemma%key`, where the key is the last part of the sense's
address (`/dictionary/sense/en_us_NOAD3e_2012/m_en_us1267368.001` of *message* is `message%m_en_us1267368.001`): the
senses of a word share all before the `%`, and the key finds the sense in the dictionary's lists. Parts of speech are
given for words with a sense only, so they are not an annotation.

The file is streamed. No entity is expanded and no other file is opened: a document that declares entities is a fault.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, NoReturn
from xml.parsers import expat

from lamina.corpora.reading import Fault, Notes, Report, head_lines, raise_fault, read_lines, whole_number
from lamina.files.reading import open_regular, parse_json, read_regular
from lamina.types import Edge, Span, Text

OWN_NAME = "documents that start with their own name (these words are left out)"
NO_TEXT = "documents with an empty word (left out)"
_ROOT = "SimpleWsdDoc"
_STARTS_SENTENCE = ("SENTENCE_BREAK", "PARAGRAPH_BREAK")
_EXPECTED = f'<{_ROOT} name="..."> with <word text="..." break_level="..."/> in it'
_CHUNK = 1 << 16
_LONGEST_TAG = 1 << 20
"""Bytes of one tag; longer than any word, and a bound on memory."""


_LONGEST_NAME = 1000
"""Characters of a document's name, which every sentence repeats."""


class _SenseWord(NamedTuple):
    text: str
    starts_sentence: bool
    sense: str | None


class _SenseFileError(Exception):
    """Why the rest of the file cannot be read."""


def looks_like_simple_wsd(path: Path) -> bool:
    """Whether the file starts as XML with this root."""
    if not path.is_file() or path.suffix.lower() != ".xml":
        return False
    with open_regular(path) as file:
        return f"<{_ROOT}".encode() in file.read(4096)


def read_simple_wsd(path: Path, report: Report = raise_fault, noted: Notes | None = None) -> Iterator[Text]:
    """One text per sentence, named by its document and number."""
    document = _SenseDocument(path, report)
    sentence: list[_SenseWord] = []
    number = 1
    for word in _without_name(document, noted or Notes()):
        if word.starts_sentence and sentence:
            yield _sense_text(sentence, number, document.name)
            sentence, number = [], number + 1
        sentence.append(word)
    if sentence and document.whole:
        yield _sense_text(sentence, number, document.name)


def _sense_text(sentence: list[_SenseWord], number: int, doc: str) -> Text:
    senses = tuple(
        Edge((word.sense,), Span(position, position + 1)) for position, word in enumerate(sentence) if word.sense
    )
    return Text(f"{doc}-{number}", tuple(word.text for word in sentence), edges={"sense": senses}, doc=doc)


def _without_name(document: _SenseDocument, noted: Notes) -> Iterator[_SenseWord]:
    """The words that are not empty, without those at the start that spell the name of the document's file."""
    opening: list[_SenseWord] = []
    spelled, spelling = "", True
    for word in document.words():
        if not word.text:
            noted.add(NO_TEXT, document.name)
        elif not spelling:
            yield word
        else:
            opening.append(word)
            spelled += _letters(word.text)
            file = _letters(f"{document.name}.txt")
            spelling = file.startswith(spelled) and spelled != file
            if spelled == file:
                noted.add(OWN_NAME, document.name)
            elif not spelling:
                yield from opening
    if spelling:
        yield from opening


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text)


class _SenseDocument:
    """The words of a file, parsed piece by piece."""

    def __init__(self, path: Path, report: Report) -> None:
        self.name = path.stem
        self.whole = True
        """Whether the file could be read to its end."""
        self._path = path
        self._report = report
        self._pending: list[_SenseWord] = []
        self._depth = 0
        self._parser = expat.ParserCreate()
        self._parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.EntityDeclHandler = _refuse_entity

    def words(self) -> Iterator[_SenseWord]:
        try:
            with open_regular(self._path) as file:
                given = 0
                while chunk := file.read(_CHUNK):
                    given += len(chunk)
                    self._parser.Parse(chunk, False)
                    if given - self._parser.CurrentByteIndex > _LONGEST_TAG:
                        raise _SenseFileError(f"a tag of more than {_LONGEST_TAG:,} bytes")
                    yield from self._pending
                    self._pending.clear()
                self._parser.Parse(b"", True)
                yield from self._pending
        except (_SenseFileError, expat.ExpatError, ValueError, LookupError) as error:
            self.whole = False
            self._report(Fault(self._path, self._parser.CurrentLineNumber, _reason(error), _EXPECTED))

    def _start(self, tag: str, given: Mapping[str, str]) -> None:
        self._depth += 1
        if self._depth == 1:
            if tag != _ROOT:
                raise _SenseFileError(f"the document is <{tag}>")
            # Names are paths within the corpus: `/written/email/219257.txt`.
            self.name = given.get("name", "").strip().strip("/").removesuffix(".txt") or self.name
            if len(self.name) > _LONGEST_NAME:
                raise _SenseFileError(f"a name of more than {_LONGEST_NAME:,} characters")
        elif tag == "word":
            if "text" not in given or "break_level" not in given:
                raise _SenseFileError("a word without text or break_level")
            self._pending.append(_word(given))

    def _end(self, tag: str) -> None:
        self._depth -= 1


def _word(given: Mapping[str, str]) -> _SenseWord:
    text = given["text"].strip()
    key = given.get("sense", "").strip().rpartition("/")[2]
    lemma = given.get("lemma", "").strip() or text
    return _SenseWord(text, given["break_level"] in _STARTS_SENTENCE, f"{lemma}%{key}" if key else None)


def _refuse_entity(*declared: object) -> NoReturn:
    raise _SenseFileError(f"the document declares the entity {str(declared[0])[:40]!r}, which is never expanded")


def _reason(error: Exception) -> str:
    return f"not XML ({expat.ErrorString(error.code)})" if isinstance(error, expat.ExpatError) else str(error)


# The unified evaluation framework (Raganato et al. 2017): Senseval-2 and -3, SemEval, SemCor with WordNet's senses.
#
# `NAME.data.xml` has texts of sentences of `<wf lemma= pos=>word</wf>` and `<instance id= lemma= pos=>word</instance>`,
# `NAME.gold.key.txt` beside it one line per instance: its id and one or several sense keys (`art%1:06:00::`), which
# begin with the lemma. Annotation: `sense`, with all keys of an instance; white space in a word (`art_form`) is `_`.

_FRAMEWORK, _KEYS = ".data.xml", ".gold.key.txt"
_WORDS = ("wf", "instance")
_LONGEST_SENTENCE = 100_000
"""Words; a file without sentences is none of the framework's."""


def looks_like_wsd_framework(path: Path) -> bool:
    """Whether the file is named as the framework's are, with its gold keys beside it."""
    return path.name.endswith(_FRAMEWORK) and path.is_file() and _keys_of(path).is_file()


def wsd_framework_companions(path: Path) -> tuple[Path, ...]:
    """The gold keys of a file."""
    return (_keys_of(path),) if _keys_of(path).is_file() else ()


def read_wsd_framework(path: Path, report: Report = raise_fault) -> Iterator[Text]:
    """One text per sentence, named by the id of the sentence; a file has no senses where its keys are missing."""
    senses: dict[str, tuple[str, ...]] = {}
    if (keys := _keys_of(path)).is_file():
        for line in read_lines(keys, report):
            if line is None or not line.text.strip():
                continue
            name, *given = line.text.split()
            if not given or not all("%" in key for key in given):
                report(Fault(keys, line.number, f"{line.text[:40]!r}", "the id of an instance and its sense keys"))
                continue
            senses[name] = tuple(given)
    yield from _FrameworkFile(path, report, senses).texts()


def _keys_of(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(_FRAMEWORK) + _KEYS)


class _FrameworkFile:
    """The sentences of a file, parsed piece by piece."""

    def __init__(self, path: Path, report: Report, senses: Mapping[str, tuple[str, ...]]) -> None:
        self._path, self._report, self._senses = path, report, senses
        self._finished: list[Text] = []
        self._document = self._name = ""
        self._words: list[str] = []
        self._edges: list[Edge] = []
        self._instance: str | None = None
        self._letters: list[str] | None = None
        self._parser = expat.ParserCreate()
        self._parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.EntityDeclHandler = _refuse_entity

    def texts(self) -> Iterator[Text]:
        try:
            with open_regular(self._path) as file:
                while chunk := file.read(_CHUNK):
                    self._parser.Parse(chunk, False)
                    yield from self._finished
                    self._finished.clear()
                self._parser.Parse(b"", True)
                yield from self._finished
        except (_SenseFileError, expat.ExpatError, ValueError, LookupError) as error:
            expected = '<sentence id="..."> with <wf lemma="..." pos="..."> and <instance id="...">'
            self._report(Fault(self._path, self._parser.CurrentLineNumber, _reason(error), expected))

    def _start(self, tag: str, given: Mapping[str, str]) -> None:
        if tag == "text":
            self._document = given.get("id", "")[:_LONGEST_NAME]
        elif tag == "sentence":
            self._name, self._words, self._edges = given.get("id", "")[:_LONGEST_NAME], [], []
        elif tag in _WORDS:
            self._letters, self._instance = [], given.get("id")

    def _characters(self, text: str) -> None:
        if self._letters is not None:
            self._letters.append(text)
            if sum(map(len, self._letters)) > _LONGEST_NAME:
                raise _SenseFileError(f"a word of more than {_LONGEST_NAME:,} characters")

    def _end(self, tag: str) -> None:
        if tag in _WORDS and self._letters is not None:
            word = "_".join("".join(self._letters).split())
            self._letters = None
            if not word:
                raise _SenseFileError("an empty word")
            if self._instance is not None and self._instance in self._senses:
                place = len(self._words)
                self._edges.append(Edge(self._senses[self._instance], Span(place, place + 1)))
            self._words.append(word)
            if len(self._words) > _LONGEST_SENTENCE:
                raise _SenseFileError(f"a sentence of more than {_LONGEST_SENTENCE:,} words")
        elif tag == "sentence" and self._words:
            edges = {"sense": tuple(self._edges)} if self._senses else {}
            name = self._name or f"{self._path.stem}-{self._parser.CurrentLineNumber}"
            self._finished.append(Text(name, tuple(self._words), edges=edges, doc=self._document or None))
            self._words = []


# CoarseWSD: sentences with one ambiguous noun and its sense, one folder per word.
#
# `WORD/train.data.txt` and `WORD/test.data.txt` have one sentence per line, `index<TAB>words`: the ambiguous word's
# place, counted from 0, and the words, separated by white space. `train.gold.txt` has the number of the sense in the
# same line, and `classes_map.txt` says what the numbers mean (`{"0": "mole_mole_(animal)", ...}`). A folder of such
# folders is one corpus. The set's out-of-domain sentences are one file, `word<TAB>word_sense<TAB>index<TAB>words`; it
# is read too.
#
# Annotation: `sense`, of the ambiguous word. The label is `word%sense` (`mole%mole_(animal)`; `mole%0` without a
# `classes_map.txt`): the senses of a word share all before the `%`.

_DATA, _GOLD, _CLASSES = ".data.txt", ".gold.txt", "classes_map.txt"
_SENTENCE = re.compile(r"[0-9]{1,9}\t\S.*")
_ROW = re.compile(r"([^\t]+)\t\1_[^\t]+\t[0-9]{1,9}\t[^\t]+")


def looks_like_coarse_wsd(path: Path) -> bool:
    """Whether the file has indexed sentences with a file of senses beside it, or rows of the out-of-domain set."""
    if not path.is_file():
        return False
    pattern = _SENTENCE if path.name.endswith(_DATA) and _gold(path).is_file() else _ROW
    lines = [line for line in head_lines(path) if line]
    return bool(lines) and all(pattern.fullmatch(line) for line in lines)


def coarse_wsd_companions(path: Path) -> tuple[Path, ...]:
    """The numbers of the senses, and what they mean."""
    if not path.name.endswith(_DATA):
        return ()
    return tuple(file for file in (_gold(path), path.with_name(_CLASSES)) if file.is_file())


def read_coarse_wsd(path: Path, report: Report = raise_fault) -> Iterator[Text]:
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
            yield from _coarse_text(f"{folder}-{part}-{line.number}", index, sentence, label, path, line.number, report)


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
        yield from _coarse_text(f"{path.stem}-{line.number}", index, sentence, label, path, line.number, report)


def _label(word: str, sense: str) -> str:
    return f"{word}%{sense.removeprefix(f'{word}_')}"


def _coarse_text(
    name: str, index: str, sentence: str, label: str, path: Path, number: int, report: Report
) -> Iterator[Text]:
    words = tuple(sentence.split())
    position = whole_number(index)
    if position is None or position >= len(words):
        report(Fault(path, number, f"index {index[:20]!r} in {len(words)} words", "the place of a word, from 0, a tab"))
        return
    yield Text(name, words, edges={"sense": (Edge((label,), Span(position, position + 1)),)})


# Wiki-PSE: running text, one sentence per line, in which `@new_york@-location` is a word with its semantic class.
#
# Underscores within such a token are spaces. The annotation `sclass` has the class of each. If there are word lists
# (`train.tsv`, `test.tsv`; `@word@<TAB>-class=count -class=count`) in the folder, in its `dataset` or in the folder
# above, `sclass_split` gives the list of each listed word: no word may be in two.

_MARKED = re.compile(r"@(\S+)@-([a-z][a-z_-]*)")
_LISTED = re.compile(r"@(\S+)@\t-\S+=\d+(?: -\S+=\d+)*")
_LISTS = ("train.tsv", "dev.tsv", "test.tsv")


def looks_like_wiki_pse(path: Path) -> bool:
    """Whether one of the first lines has a word marked with its class."""
    return path.is_file() and any(_MARKED.fullmatch(token) for line in head_lines(path) for token in line.split())


def wiki_pse_companions(path: Path) -> tuple[Path, ...]:
    """The word lists for a file, from the nearest folder that has some."""
    places = [place for folder in path.absolute().parents[:2] for place in (folder, folder / "dataset")]
    by_place = [tuple(place / name for name in _LISTS if _is_list(place / name)) for place in places]
    return next((lists for lists in by_place if lists), ())


def read_wiki_pse(path: Path, report: Report = raise_fault) -> Iterator[Text]:
    """One text per line."""
    split_of = _read_lists(wiki_pse_companions(path), report)
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
