"""Wiki-PSE: words marked with their class, and lists that split them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.corpora import load_corpus
from lamina.corpora.detection import detect
from lamina.corpora.formats.word_senses import looks_like_wiki_pse, read_wiki_pse
from lamina.errors import FormatError
from lamina.types import Edge, Span

TEXT = """there are learning centers in gray , and @roberta@-location .
the musical @roberta@-art by @jerome_kern@-person , a @broadcast_@-broadcast_program .

nobody is marked here , not even a@b.c or @x@ .
"""


def write(folder: Path, **files: str) -> Path:
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_tsv", ".tsv").replace("_txt", ".txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder / "corpus.txt"


def test_marked_words_become_spans_with_their_class(tmp_path):
    texts = list(read_wiki_pse(write(tmp_path, corpus_txt=TEXT)))
    assert texts[0].words[-2:] == ("roberta", ".")
    assert texts[0].edges == {"sclass": (Edge(("location",), Span(8, 9)),)}
    assert texts[1].words[3:7] == ("by", "jerome", "kern", ",")
    assert [(edge.labels[0], len(edge.span)) for edge in texts[1].edges["sclass"]] == [
        ("art", 1),
        ("person", 2),
        ("broadcast_program", 1),
    ]
    assert texts[2].edges == {"sclass": ()}
    assert "@x@" in texts[2].words


def test_the_format_is_told_by_its_content(tmp_path):
    path = write(tmp_path, corpus_txt=TEXT)
    assert detect(path).name == "wiki_pse"
    assert len(load_corpus(path, "all")) == 3
    assert not looks_like_wiki_pse(write(tmp_path / "other", corpus_txt="mail me @home now\n"))


@pytest.mark.parametrize("where", ["", "dataset__"])
def test_word_lists_beside_the_text_say_the_split(tmp_path, where):
    lists = {f"{where}train_tsv": "@roberta@\t-location=2 -art=1\n", f"{where}test_tsv": "@Jerome_Kern@\t-person=9\n"}
    texts = list(read_wiki_pse(write(tmp_path, corpus_txt=TEXT, **lists)))
    assert [(edge.labels, edge.span) for edge in texts[1].edges["sclass_split"]] == [
        (("train",), Span(2, 3)),
        (("test",), Span(4, 6)),
    ]


def test_a_word_in_two_lists_is_a_fault(tmp_path):
    lists = {"train_tsv": "@roberta@\t-art=1\n", "test_tsv": "@x@\t-art=1\n@Roberta@\t-art=1\n"}
    path = write(tmp_path, corpus_txt=TEXT, **lists)
    with pytest.raises(FormatError, match=r"test\.tsv:2: 'roberta' is also in train\.tsv"):
        list(read_wiki_pse(path))


def test_a_line_that_is_no_entry_is_a_fault(tmp_path):
    faults = []
    path = write(tmp_path, corpus_txt=TEXT, train_tsv="@roberta@\t-art=1\nroberta art\n")
    assert len(list(read_wiki_pse(path, faults.append))) == 3
    assert [(fault.line, fault.path.name) for fault in faults] == [(2, "train.tsv")]
