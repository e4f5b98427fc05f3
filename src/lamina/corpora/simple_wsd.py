"""Word senses in XML: `SimpleWsdDoc`, the format of Google's SemCor and MASC with NOAD senses.

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

from lamina.corpora.notes import Notes
from lamina.corpora.reading import Fault, Report, raise_fault
from lamina.files.reading import open_regular
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


class _Word(NamedTuple):
    text: str
    starts_sentence: bool
    sense: str | None


class _UnusableError(Exception):
    """Why the rest of the file cannot be read."""


def looks_like(path: Path) -> bool:
    """Whether the file starts as XML with this root."""
    if not path.is_file() or path.suffix.lower() != ".xml":
        return False
    with open_regular(path) as file:
        return f"<{_ROOT}".encode() in file.read(4096)


def read(path: Path, report: Report = raise_fault, noted: Notes | None = None) -> Iterator[Text]:
    """One text per sentence, named by its document and number."""
    document = _SenseDocument(path, report)
    sentence: list[_Word] = []
    number = 1
    for word in _without_name(document, noted or Notes()):
        if word.starts_sentence and sentence:
            yield _text(sentence, number, document.name)
            sentence, number = [], number + 1
        sentence.append(word)
    if sentence and document.whole:
        yield _text(sentence, number, document.name)


def _text(sentence: list[_Word], number: int, doc: str) -> Text:
    senses = tuple(Edge((word.sense,), Span(at, at + 1)) for at, word in enumerate(sentence) if word.sense)
    return Text(f"{doc}-{number}", tuple(word.text for word in sentence), edges={"sense": senses}, doc=doc)


def _without_name(document: _SenseDocument, noted: Notes) -> Iterator[_Word]:
    """The words that are not empty, without those at the start that spell the name of the document's file."""
    held: list[_Word] = []
    spelled, spelling = "", True
    for word in document.words():
        if not word.text:
            noted.add(NO_TEXT, document.name)
        elif not spelling:
            yield word
        else:
            held.append(word)
            spelled += _letters(word.text)
            file = _letters(f"{document.name}.txt")
            spelling = file.startswith(spelled) and spelled != file
            if spelled == file:
                noted.add(OWN_NAME, document.name)
            elif not spelling:
                yield from held
    if spelling:
        yield from held


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
        self._found: list[_Word] = []
        self._depth = 0
        self._parser = expat.ParserCreate()
        self._parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.EntityDeclHandler = _refuse_entity

    def words(self) -> Iterator[_Word]:
        try:
            with open_regular(self._path) as file:
                given = 0
                while chunk := file.read(_CHUNK):
                    given += len(chunk)
                    self._parser.Parse(chunk, False)
                    if given - self._parser.CurrentByteIndex > _LONGEST_TAG:
                        raise _UnusableError(f"a tag of more than {_LONGEST_TAG:,} bytes")
                    yield from self._found
                    self._found.clear()
                self._parser.Parse(b"", True)
                yield from self._found
        except (_UnusableError, expat.ExpatError, ValueError, LookupError) as error:
            self.whole = False
            self._report(Fault(self._path, self._parser.CurrentLineNumber, _reason(error), _EXPECTED))

    def _start(self, tag: str, given: Mapping[str, str]) -> None:
        self._depth += 1
        if self._depth == 1:
            if tag != _ROOT:
                raise _UnusableError(f"the document is <{tag}>")
            # Names are paths within the corpus: `/written/email/219257.txt`.
            self.name = given.get("name", "").strip().strip("/").removesuffix(".txt") or self.name
            if len(self.name) > _LONGEST_NAME:
                raise _UnusableError(f"a name of more than {_LONGEST_NAME:,} characters")
        elif tag == "word":
            if "text" not in given or "break_level" not in given:
                raise _UnusableError("a word without text or break_level")
            self._found.append(_word(given))

    def _end(self, tag: str) -> None:
        self._depth -= 1


def _word(given: Mapping[str, str]) -> _Word:
    text = given["text"].strip()
    key = given.get("sense", "").strip().rpartition("/")[2]
    lemma = given.get("lemma", "").strip() or text
    return _Word(text, given["break_level"] in _STARTS_SENTENCE, f"{lemma}%{key}" if key else None)


def _refuse_entity(*declared: object) -> NoReturn:
    raise _UnusableError(f"the document declares the entity {str(declared[0])[:40]!r}, which is never expanded")


def _reason(error: Exception) -> str:
    return f"not XML ({expat.ErrorString(error.code)})" if isinstance(error, expat.ExpatError) else str(error)
