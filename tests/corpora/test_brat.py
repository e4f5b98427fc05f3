"""BRAT standoff: what becomes an edge, what is left out and counted, what is a fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.corpora.formats import brat
from lamina.corpora.formats.catalogue import get_format
from lamina.corpora.reading import Fault, Notes
from lamina.types import Edge, Span, Text

TEXT = "Ada Lovelace joined IBM-Labs.\r\n\r\nShe na\u00efvely \U0001f600 sold it to\nBabbage and Co.\n"


def place(part: str) -> str:
    start = TEXT.index(part)
    return f"{start} {start + len(part)}"


ANNOTATIONS = "\n".join(
    [
        f"T1\tPerson {place('Ada Lovelace')}\tAda Lovelace",
        f"T2\tOrg {place('IBM')}\tIBM",
        f"T3\tJoin {place('joined')}\tjoined",
        f"T4\tPerson {place('She')}\tShe",
        f"T5\tSell {place('sold')}\tsold",
        f"T6\tOrg {place('Babbage')};{place('Co')}\tBabbage Co",
        f"T7\tMood {place('vely')}\tvely",
        f"T8\tPlace {TEXT.index('to')} {TEXT.index('Babbage') + 7}\tto Babbage",
        "E1\tJoin:T3 Who:T1 What:T2",
        "E2\tSell:T5 Who:T4 Cause:E1 Buyer:T6 ",
        "R1\tWorks-for Arg1:T1 Arg2:T2\t",
        "R2\tSame Arg1:T4 Arg2:T1",
        "A1\tGender T1 female",
        "A2\tNegated E2",
        "M1\tOdd R1",
        "*\tAlias T1 T4",
        "N1\tReference T1 Wikidata:Q7259\tAda Lovelace",
        "#1\tAnnotatorNotes T1\tcheck this",
        "",
    ]
)


def write(folder: Path, annotations: str, text: str | None = TEXT, name: str = "d.ann") -> Path:
    path = folder / name
    path.write_bytes(annotations.encode())
    if text is not None:
        path.with_suffix(".txt").write_bytes(text.encode())
    return path


def of(text: Text, name: str) -> list[tuple[str, str]]:
    return [(edge.labels[0], " ".join(text.words[at] for at in edge.span)) for edge in text.edges[name]]


def test_every_kind_of_annotation(tmp_path: Path) -> None:
    noted = Notes()
    path = write(tmp_path, ANNOTATIONS)
    assert brat.looks_like(path)
    first, second, third = brat.read(path, noted=noted)
    assert (first.id, first.doc, first.words) == ("d-1", "d", ("Ada", "Lovelace", "joined", "IBM", "-", "Labs", "."))
    assert second.words == ("She", "na\u00ef", "vely", "\U0001f600", "sold", "it", "to")
    assert of(first, "ner") == [("Person", "Ada Lovelace"), ("Org", "IBM")]
    assert of(second, "ner") == [("Person", "She"), ("Mood", "vely")]
    assert of(first, "event") == [("Join", "joined")]
    assert first.edges["event_role"] == (
        Edge(("Who",), Span(2, 3), Span(0, 2)),
        Edge(("What",), Span(2, 3), Span(3, 4)),
    )
    assert [edge.labels for edge in second.edges["event_role"]] == [("Who",)]
    assert first.edges["rel"] == (Edge(("Works-for",), Span(0, 2), Span(3, 4)),)
    assert of(first, "attribute_gender") == [("female", "Ada Lovelace")]
    assert of(second, "attribute_negated") == [("true", "sold")]
    assert of(first, "chains") + of(second, "chains") == [("1", "Ada Lovelace"), ("1", "She")]
    assert third.edges["ner"] == third.edges["rel"] == ()
    assert noted.counts() == {
        brat.GAPS: 1,
        brat.LINES: 1,
        brat.IGNORED: 3,
        brat.APART: 3,
        brat.CUT: 1,
    }


def test_what_is_not_annotated_is_absent(tmp_path: Path) -> None:
    noted = Notes()
    (text,) = brat.read(write(tmp_path, "", "Well, yes."), noted=noted)
    assert text.edges == {}
    assert noted.counts() == {brat.EMPTY: 1}
    (text,) = brat.read(write(tmp_path, "T1\tX 0 4\tWell\n", "Well , full-grown ."))
    assert text.words == ("Well", ",", "full-grown", ".")
    assert set(text.edges) == {"ner"}


def test_types_with_numbers_are_chains(tmp_path: Path) -> None:
    words = [f"w{number:02}" for number in range(11)]
    lines = [f"T{n}\tName-{n} {4 * n} {4 * n + 3}\t{word}" for n, word in enumerate(words)]
    (text,) = brat.read(write(tmp_path, "\n".join(lines), " ".join(words)))
    assert set(text.edges) == {"chains"}
    assert text.edges["chains"][3] == Edge(("Name-3",), Span(3, 4))


def test_the_two_files_of_bionlp(tmp_path: Path) -> None:
    path = write(tmp_path, "T1\tProtein 0 3\tp53\n", "p53 rises.", "d.a1")
    path.with_suffix(".a2").write_text("T2\tUp 4 9\trises\nE1\tUp:T2 Theme:T1\n")
    (text,) = brat.read(path)
    assert of(text, "ner") == [("Protein", "p53")]
    assert of(text, "event") == [("Up", "rises")]
    assert {file.name for file in get_format("brat").companions(path)} == {"d.txt", "d.a2"}


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("T1\tPerson 0 4\tBabb", "T1: characters 0 4 of the text are 'Ada '"),
        ("T1\tPerson 0 400\tAda", "T1 is at 0 400"),
        ("T1\tPerson 3 3\t", "T1 is at 3 3"),
        ("T1\tPerson zero 3\tAda", "T1 is 'Person zero 3"),
        ("T1\tPerson 0 3", "T1 is 'Person 0 3'"),
        ("T1\tPerson 3 4\t ", "T1 covers white space only"),
        ("R1\t", "R1 is ''"),
        ("R1\tOf Arg1:T1", "R1 is 'Of Arg1:T1'"),
        ("R1\tOf Arg1:T8 Arg2:T9", "it points at T8"),
        ("E1\tJoin", "E1 is 'Join'"),
        ("A1\tNegated", "A1 is 'Negated'"),
        ("*\tAlias T1", "* 'Alias T1'"),
        ("Ada\tPerson", "'Ada\\tPerson' is not an annotation"),
        ("T1 Person 0 3 Ada", "'T1 Person 0 3 Ada' is not an annotation"),
    ],
)
def test_faults(tmp_path: Path, line: str, what: str) -> None:
    faults: list[Fault] = []
    assert list(brat.read(write(tmp_path, f"\n{line}\n"), faults.append)) == []
    assert (faults[0].line, faults[0].what[: len(what)]) == (2, what)


def test_a_missing_or_unreadable_text(tmp_path: Path) -> None:
    faults: list[Fault] = []
    path = write(tmp_path, "T1\tX 0 4\tWell\n", None)
    assert list(brat.read(path, faults.append)) == []
    path.with_suffix(".txt").write_bytes(b"caf\xe9")
    assert list(brat.read(path, faults.append)) == []
    assert [(fault.path.name, fault.what) for fault in faults] == [
        ("d.txt", "file not found"),
        ("d.txt", "byte 0xe9 at position 4 is not UTF-8"),
    ]
