"""OntoNotes in the columns of CoNLL-2012."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.corpora import ontonotes
from lamina.corpora.reading import Fault
from lamina.errors import FormatError
from lamina.types import Edge, Span

SENTENCE = """\
bc/x   0   0   Ada        NNP  (TOP(S(NP(NP*   -    -   -   Sp#1  (PERSON*  (ARG0*  *         (1|(2
bc/x   0   1   Lovelace   NNP  *)              -    -   -   Sp#1  *)        *)      *         2)
bc/x   0   2   -LRB-      -LRB- *)             -    -   -   Sp#1  *         *       *         1)
bc/x   0   3   saw        VBD  (VP*            see  01  1   Sp#1  *         (V*)    *         -
bc/x   0   4   barking    VBG  (NP*            bark 01  1   Sp#1  *         (ARG1*  (V*)      -
bc/x   0   5   Rome       NNP  *))))           -    -   -   Sp#1  (GPE)     *)      (ARG0*)   (3)
"""
PART = "#begin document (bc/x); part {}\n" + SENTENCE + "\n{}\n#end document\n"
ONE_WORD = "bc/x 0 0 Yes UH (TOP(INTJ*)) - - - Sp * -\n"


def write(folder: Path, content: str, name: str = "x.v4_gold_conll") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


def test_every_layer(tmp_path: Path) -> None:
    path = write(tmp_path, PART.format("000", ONE_WORD) + PART.format("001", ""))
    first, second, third = ontonotes.read(path)
    assert first.words == ("Ada", "Lovelace", "(", "saw", "barking", "Rome")
    assert [text.id for text in (first, second, third)] == ["bc/x:000-1", "bc/x:000-2", "bc/x:001-1"]
    assert [text.doc for text in (first, second, third)] == ["bc/x:000", "bc/x:000", "bc/x:001"]
    assert [edge.labels[0] for edge in first.edges["pos"]] == ["NNP", "NNP", "-LRB-", "VBD", "VBG", "NNP"]
    assert [(edge.labels[0], edge.span.start, edge.span.end) for edge in first.edges["const"]] == [
        ("S", 0, 6),
        ("NP", 0, 3),
        ("NP", 0, 2),
        ("VP", 3, 6),
        ("NP", 4, 6),
    ]
    assert first.edges["ner"] == (Edge(("PERSON",), Span(0, 2)), Edge(("GPE",), Span(5, 6)))
    assert first.edges["srl"] == (
        Edge(("ARG0",), Span(3, 4), Span(0, 2)),
        Edge(("ARG1",), Span(3, 4), Span(4, 6)),
        Edge(("ARG0",), Span(4, 5), Span(5, 6)),
    )
    assert first.edges["chains"] == (
        Edge(("1",), Span(0, 3)),
        Edge(("2",), Span(0, 2)),
        Edge(("3",), Span(5, 6)),
    )
    assert {name: len(edges) for name, edges in second.edges.items()} == {
        "pos": 1,
        "const": 1,
        "ner": 0,
        "srl": 0,
        "chains": 0,
    }


def test_columns_of_dashes_are_no_annotation(tmp_path: Path) -> None:
    content = "#begin document (d); part 000\nd 0 0 Yes - - - - - - - -\n#end document\n"
    (text,) = ontonotes.read(write(tmp_path, content))
    assert set(text.edges) == {"srl", "chains"}


def test_a_folder_is_all_its_files_sorted(tmp_path: Path) -> None:
    content = "#begin document ({}); part 000\n" + ONE_WORD + "\n#end document\n"
    write(tmp_path, content.format("b"), "dev/b.v4_auto_conll")
    write(tmp_path, content.format("a"), "dev/a.gold_conll")
    write(tmp_path, "nothing", "dev/notes.txt")
    assert [text.doc for text in ontonotes.read(tmp_path)] == ["a:000", "b:000"]
    assert ontonotes.looks_like(tmp_path)
    assert ontonotes.looks_like(tmp_path / "dev" / "a.gold_conll")
    assert not ontonotes.looks_like(tmp_path / "dev" / "notes.txt")


SOUND = "#begin document (fine); part 000\n" + ONE_WORD + "\n#end document\n"


@pytest.mark.parametrize(
    ("content", "line", "what"),
    [
        (PART.format("000", "bc/x 0 0 Yes UH (TOP*) - -\n"), 9, "8 columns"),
        (PART.format("000", "").replace("   5   Rome", "   6   Rome"), 7, "word number 6"),
        (PART.format("000", "").replace("(ARG0*)   (3)", "(3)"), 7, "13 columns"),
        (PART.format("000", "").replace("*))))  ", "*)))  "), 2, "const: bracket (TOP is never closed"),
        (PART.format("000", "").replace("(GPE)", "(GPE*"), 2, "ner: bracket (GPE is never closed"),
        (PART.format("000", "").replace("(V*)    *", "*       *"), 2, "srl: a column of arguments without"),
        (PART.format("000", "").replace("(3)", "3)"), 2, "chains: mention '3' is closed"),
        ("#begin document fine\n" + ONE_WORD + "\n", 1, "'#begin document fine'"),
        (ONE_WORD + "\n", 1, "words outside any document"),
        ("#begin document (d); part 000\n" + ONE_WORD + "\n", 1, "is never ended"),
    ],
)
def test_faults(tmp_path: Path, content: str, line: int, what: str) -> None:
    faults: list[Fault] = []
    texts = list(ontonotes.read(write(tmp_path, content + SOUND), faults.append))
    assert faults[0].line == line
    assert what in faults[0].what
    assert texts[-1].doc == "fine:000"
    with pytest.raises(FormatError, match=r"x\.v4_gold_conll:\d+: "):
        list(ontonotes.read(write(tmp_path, content)))
