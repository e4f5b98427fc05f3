"""Word senses in XML: sentences by break levels, labels `lemma%key`, nothing expanded."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.corpora import load_corpus
from lamina.corpora.detection import detect
from lamina.corpora.formats.word_senses import NO_TEXT, OWN_NAME, looks_like_simple_wsd, read_simple_wsd
from lamina.corpora.reading import Notes
from lamina.errors import FormatError
from lamina.types import Edge, Span

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE SimpleWsdDoc SYSTEM "simple-wsd-doc.dtd">\n'
SENSE = "/dictionary/sense/en_us_NOAD3e_2012/m_en_us"


def word(text: str, level: str = "SPACE_BREAK", **more: str) -> str:
    given = {"text": text, "break_level": level, **more}
    attributes = " ".join(f'{name}="{value}"' for name, value in given.items())
    return f"<word {attributes}/>\n"


def document(*words: str, name: str = "/written/email/7.txt", head: str = HEAD) -> str:
    body = "".join(words)
    return f'{head}<SimpleWsdDoc name="{name}">\n{body}</SimpleWsdDoc>\n'


@pytest.fixture
def write(tmp_path: Path):
    def make(content: str) -> Path:
        path = tmp_path / "seven.xml"
        path.write_text(content, encoding="utf-8")
        return path

    return make


OWN = [word(part, "NO_BREAK") for part in ("/", "written", "/", "email", "/", "7.txt")]
BODY = [
    word("Banks", "PARAGRAPH_BREAK", lemma="bank", pos="NOUN", sense=f"{SENSE}12.001"),
    word("don"),
    word("&#39;t", "NO_BREAK"),
    # The end of a printed line, within a sentence.
    word("lend", "LINE_BREAK", lemma="lend", pos="VERB", sense=f"{SENSE}9.002"),
    word("They", "SENTENCE_BREAK"),
    word("save"),
]


def test_sentences_follow_the_break_levels_and_senses_the_lemmas(write) -> None:
    noted = Notes()
    first, second = read_simple_wsd(write(document(*OWN, *BODY)), noted=noted)
    assert first.words == ("Banks", "don", "'t", "lend")
    assert first.edges["sense"] == (
        Edge(("bank%m_en_us12.001",), Span(0, 1)),
        Edge(("lend%m_en_us9.002",), Span(3, 4)),
    )
    assert (second.words, second.edges) == (("They", "save"), {"sense": ()})
    assert (first.id, second.id, first.doc) == ("written/email/7-1", "written/email/7-2", "written/email/7")
    assert noted.counts() == {OWN_NAME: 1}


def test_only_the_whole_name_is_left_out(write) -> None:
    (text,) = read_simple_wsd(write(document(*OWN[:4], word("again"))))
    assert text.words == ("/", "written", "/", "email", "again")
    (text,) = read_simple_wsd(write(document(*OWN[:4])))
    assert len(text.words) == 4


def test_empty_words_are_noted(write) -> None:
    noted = Notes()
    (text,) = read_simple_wsd(write(document(word("Go"), word(" "), word("on"), name="d")), noted=noted)
    assert text.words == ("Go", "on")
    assert noted.counts() == {NO_TEXT: 1}


def test_the_format_is_told_by_its_root(write, tmp_path: Path) -> None:
    path = write(document(*BODY))
    assert detect(path).name == "simple_wsd"
    assert load_corpus(path, "all").annotations == ("sense",)
    other = tmp_path / "other.xml"
    other.write_text("<html></html>")
    assert not looks_like_simple_wsd(other)


BOMB = '<?xml version="1.0"?>\n<!DOCTYPE SimpleWsdDoc [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>\n'


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (document(word("&b;"), head=BOMB), r":2: the document declares the entity 'a', which is never expanded"),
        (document(*BODY)[:-30], r"not XML \(no element found\)|not XML \(unclosed token\)"),
        ("<Other/>", "the document is <Other>"),
        (document('<word text="x"/>'), "a word without text or break_level"),
        (document(word("x" * (1 << 21))), "a tag of more than 1,048,576 bytes"),
        (document(word("\x01")), r"not XML \(not well-formed"),
    ],
    ids=["entities", "cut short", "another root", "no break level", "a huge tag", "a control character"],
)
def test_what_cannot_be_read_is_a_fault_with_its_line(content: str, what: str, write) -> None:
    with pytest.raises(FormatError, match=what):
        list(read_simple_wsd(write(content)))


def test_a_file_cut_short_gives_its_whole_sentences(write) -> None:
    faults = []
    content = document(*BODY)
    texts = list(read_simple_wsd(write(content[: content.index('<word text="save"')]), faults.append))
    assert [text.words[0] for text in texts] == ["Banks"]
    assert len(faults) == 1
