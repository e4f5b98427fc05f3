"""CoNLL-U with more columns than ten, or fewer."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.corpora.formats import conllu
from lamina.corpora.formats.conllu import GAPS
from lamina.corpora.reading import Fault, Notes
from lamina.types import Edge, Span


def write(folder: Path, header: str, *sentences: str) -> Path:
    """Rows are written with spaces, sentences are separated by blank lines."""
    path = folder / "some.conllup"
    path.write_text(header + "\n\n".join(one.replace(" ", "\t") for one in sentences) + "\n", encoding="utf-8")
    return path


PARSEME = "# global.columns = ID FORM UPOS HEAD DEPREL PARSEME:MWE\n"


def test_multi_word_expressions(tmp_path: Path) -> None:
    noted = Notes()
    path = write(
        tmp_path,
        PARSEME,
        "1-2 zum _ _ _ *\n1 zu ADP 2 case 1:VID\n2 Teil NOUN 0 root 1;2:LVC.full\n3 ja ADV 2 advmod *\n"
        "4 gut ADJ 2 amod 2",
        "1 Ja ADV 0 root *",
        "1 Ja ADV 0 root _",
    )
    assert conllu.looks_like(path)
    first, second, third = conllu.read(path, noted=noted)
    assert first.words == ("zu", "Teil", "ja", "gut")
    assert first.edges["mwe"] == (Edge(("VID",), Span(0, 2)),)
    assert first.edges["dep"][0] == Edge(("case",), Span(0, 1), Span(1, 2))
    assert second.edges["mwe"] == ()
    assert "mwe" not in third.edges
    assert noted.counts() == {GAPS: 1}


def test_unknown_columns_are_annotations(tmp_path: Path) -> None:
    noted = Notes()
    header = "# global.columns = FORM X:NE X:CLASS X:ALL X:MANY\n"
    many = [f"w{number} O a _ v{number}" for number in range(600)]
    path = write(tmp_path, header, "Ada B-PER a _ v\nLovelace I-PER _ _ v\nleft O b _ v", "\n".join(many))
    first, _ = conllu.read(path, noted=noted)
    assert first.words == ("Ada", "Lovelace", "left")
    assert first.edges == {
        "x_ne": (Edge(("PER",), Span(0, 2)),),
        "x_class": (Edge(("a",), Span(0, 1)), Edge(("b",), Span(2, 3))),
    }
    assert [what for what in noted.counts() if "X:MANY" in what]


def test_universal_propositions_two(tmp_path: Path) -> None:
    header = "# global.columns = ID FORM UP:PRED UP:ARGHEADS UP:ARGSPANS\n"
    path = write(tmp_path, header, "1 Old _ _ _\n2 Ada _ _ _\n3 left leave.01 A0:2|A1:4 V:3|A0:1-2|A1:4\n4 Rome _ _ _")
    (text,) = conllu.read(path)
    assert text.edges["srl"] == (Edge(("A0",), Span(2, 3), Span(0, 2)), Edge(("A1",), Span(2, 3), Span(3, 4)))
    assert text.edges["predicate"] == (Edge(("leave.01",), Span(2, 3)),)


FLAGGED = (
    "1 Ja _ ADV _ _ 0 root _ _",
    "1 Ada _ NOUN _ _ 2 nsubj _ _ A0 A0\n2 came _ VERB _ _ 0 root Y come.01 _ _\n3 left _ VERB _ _ 2 conj Y go.01 _ _",
)
OWN = (
    "1 Ja _ ADV _ _ 0 root _ _ _ _",
    "1 Ada _ NOUN _ _ 2 nsubj _ _ _ A0 A0\n2 came _ VERB _ _ 0 root _ _ come.01 V _\n"
    "3 left _ VERB _ _ 2 conj _ _ go.01 _ V",
)


@pytest.mark.parametrize("sentences", [FLAGGED, OWN], ids=["flagged", "own"])
def test_a_column_per_predicate(tmp_path: Path, sentences: tuple[str, ...]) -> None:
    path = write(tmp_path, "", *sentences)
    assert conllu.looks_like(path)
    first, second = conllu.read(path)
    assert first.edges["srl"] == first.edges["predicate"] == ()
    assert second.edges["srl"] == (Edge(("A0",), Span(1, 2), Span(0, 1)), Edge(("A0",), Span(2, 3), Span(0, 1)))
    assert second.edges["predicate"] == (Edge(("come.01",), Span(1, 2)), Edge(("go.01",), Span(2, 3)))


def test_columns_without_a_name(tmp_path: Path) -> None:
    (text,) = conllu.read(write(tmp_path, "", "1 Ada _ NOUN _ _ 2 nsubj _ _ a\n2 came _ VERB _ _ 0 root _ _ b"))
    assert [edge.labels for edge in text.edges["column_11"]] == [("a",), ("b",)]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (PARSEME + "1 Ada NOUN 0 root", "5 columns"),
        (PARSEME + "1 Ada NOUN 0 root one:VID", "word 1: 'one:VID' is not the number"),
        (PARSEME + "1 Ada NOUN 3 root *", "head 3 is outside"),
        ("# global.columns = ID FORM UP:PRED UP:ARGHEADS\n1 Ada x A0:7", "word 1: 'A0:7' is no role"),
        ("# global.columns = ID LEMMA\n1 a", "columns ID LEMMA"),
        ("# global.columns = ID FORM N:E\n1 a B-X\n2 b O\n3 c I-X", "n_e, word 3: I-X after O"),
        ("\n\n".join((*FLAGGED, *FLAGGED, "1 Ada _ NOUN _ _ 0 root Y be.01 _ A0")), "1 predicates and 12 columns"),
        ("1 Ada _ NOUN _ _ 2 nsubj _ _ a\n2 came _ VERB _ _ 0 root _ _", "11 columns"),
    ],
)  # fmt: skip
def test_faults(tmp_path: Path, content: str, what: str) -> None:
    faults: list[Fault] = []
    path = tmp_path / "some.conllup"
    lines = [line if line.startswith("#") else line.replace(" ", "\t") for line in content.split("\n")]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    list(conllu.read(path, faults.append))
    assert what in faults[0].what
