"""LitBank's standoff by word: mentions, chains and quotations."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.corpora.detection import detect
from lamina.corpora.formats import brat, litbank
from lamina.corpora.reading import Fault, Notes
from lamina.types import Edge, Span

TEXT = "Ada 's father left .\nHe was a poet .\n\u201c Go !\nNow ! \u201d\n"
COREF = (
    "MENTION\tT1\t0\t0\t0\t2\tAda 's father\tPER\tNOM\n"
    "MENTION\tT2\t0\t0\t0\t0\tAda\tPER\tPROP\n"
    "MENTION\tT3\t1\t0\t1\t0\tHe\tPER\tPRON\n"
    "MENTION\tT4\t1\t2\t1\t3\ta poet\tPER\tNOM\n"
    "COREF\tT1\tfather-1\nCOREF\tT2\tAda-2\nCOREF\tT3\tfather-1\nCOP\tT4\tT3\nAPPOS\tT1\tT3\n"
)


def write(folder: Path, content: str, name: str = "d") -> Path:
    (folder / f"{name}.txt").write_text(TEXT, encoding="utf-8")
    path = folder / f"{name}.ann"
    path.write_text(content, encoding="utf-8")
    return path


def test_mentions_chains_and_relations(tmp_path: Path) -> None:
    noted = Notes()
    path = write(tmp_path, COREF)
    first, second, *_ = litbank.read(path, noted=noted)
    assert first.edges == {
        "ner": (Edge(("PER",), Span(0, 3)), Edge(("PER",), Span(0, 1))),
        "mention": (Edge(("NOM",), Span(0, 3)), Edge(("PROP",), Span(0, 1))),
        "chains": (Edge(("father-1",), Span(0, 3)), Edge(("Ada-2",), Span(0, 1))),
        "rel": (),
    }
    assert second.edges["rel"] == (Edge(("cop",), Span(2, 4), Span(0, 1)),)
    assert noted.counts() == {litbank.APART: 1}


def test_quotations_over_sentences(tmp_path: Path) -> None:
    noted = Notes()
    path = write(tmp_path, "QUOTE\tQ1\t2\t0\t3\t2\t\u201c Go ! Now ! \u201d\nATTRIB\tQ1\tHe-1\n")
    *_, third, fourth = litbank.read(path, noted=noted)
    assert third.edges["quote"] == (Edge(("quote",), Span(0, 3)),)
    assert fourth.edges["speaker"] == (Edge(("He-1",), Span(0, 3)),)
    assert noted.counts() == {litbank.QUOTES: 1}


def test_an_empty_file_is_what_its_neighbours_are(tmp_path: Path) -> None:
    empty = write(tmp_path, "", "a")
    assert (brat.looks_like(empty), litbank.looks_like(empty)) == (True, False)
    write(tmp_path, COREF, "b")
    assert (brat.looks_like(empty), litbank.looks_like(empty)) == (False, True)
    assert detect(tmp_path).name == "litbank"
    assert all(text.edges == {} for text in litbank.read(empty))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("MENTION\tT1\t0\t0\t0\t1\tAda\tPER\tNOM", 'T1: the words at 0 0 0 1 are "Ada \'s"'),
        ("MENTION\tT1\t9\t0\t9\t1\tAda\tPER\tNOM", "T1: the words at 9 0 9 1 are ''"),
        ("MENTION\tT1\t-1\t0\t0\t1\tAda\tPER\tNOM", "T1 is at -1 0 0 1"),
        ("MENTION\tT1", "2 columns"),
        ("COREF\tT9\tAda-1", "it points at T9"),
        ("T1\tPER 0 3\tAda", "a row 'T1'"),
    ],
)
def test_faults(tmp_path: Path, line: str, what: str) -> None:
    faults: list[Fault] = []
    assert list(litbank.read(write(tmp_path, f"{line}\n"), faults.append)) == []
    assert [(fault.line, fault.what) for fault in faults] == [(1, what)]
