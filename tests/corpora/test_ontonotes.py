"""OntoNotes in the columns of CoNLL-2012."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.corpora.formats import ontonotes
from lamina.corpora.reading import Fault, Notes
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


def test_columns_that_are_empty_in_the_whole_file_are_no_annotation(tmp_path: Path) -> None:
    content = "#begin document (d); part 000\nd 0 0 Yes - - - - - - - -\n#end document\n"
    noted = Notes()
    (text,) = ontonotes.read(write(tmp_path, content), noted=noted)
    assert text.edges == {}
    assert noted.counts() == {
        "documents without pos, const, ner, srl, chains (columns that are empty in the whole file)": 1
    }


def tabbed(*rows: str) -> str:
    """Rows written with spaces, as cells separated by tabs; ~ is an empty cell."""
    return "".join(row.replace(" ", "\t").replace("~", "") + "\n" for row in rows)


LITBANK = (
    "#begin document (novel); part 0\n"
    + tabbed("n 0 0 Ada _ _ _ _ _ _ _ _ (1", "n 0 1 Byron _ _ _ _ _ _ _ _ 1)", "n 0 2 left _ _ _ _ _ _ _ _ ~")
    + "\n"
    + tabbed("n 0 0 Why _ _ _ _ _ _ _ _ ~")
    + "#end document\n"
)
ONTOGUM = (
    "# begin document \n"
    + tabbed("0 Ada (person-1-Ada_Lovelace", "1 Byron person-1)", "2 left _")
    + "\n"
    + tabbed("3 Why _")
    + "# end document\n"
)
MINIMAL = "#begin document (d)\n1 Ada (1\n2 Byron 1)\n3 left -\n\n1 Why -\n#end document\n"
FEW = (
    "#begin document d; part 000\n"
    "d 0 0 Ada NNP (1\nd 0 1 Byron NNP 1)\nd 0 2 left VBD -\n\nd 0 0 Why WRB -\n#end document\n"
)
TRAILING = "#begin document (d)\n" + tabbed("Ada (1 ~", "Byron 1) ~", "left _ ~") + "\n" + tabbed("Why _ ~")
WORDS = [("Ada", "Byron", "left"), ("Why",)]


@pytest.mark.parametrize(
    ("content", "doc"),
    [
        (LITBANK, "novel:0"),
        (ONTOGUM, "x.v4_gold_conll".rpartition(".")[0]),
        (MINIMAL, "d"),
        (FEW, "d:000"),
        (TRAILING + "#end document\n", "d"),
    ],
    ids=["litbank", "ontogum", "minimal", "few", "trailing"],
)
def test_dialects(tmp_path: Path, content: str, doc: str) -> None:
    path = write(tmp_path, content)
    assert ontonotes.looks_like(path)
    texts = list(ontonotes.read(path))
    assert [text.words for text in texts] == WORDS
    assert {text.doc for text in texts} == {doc}
    assert [text.edges for text in texts] == [{"chains": (Edge(("1",), Span(0, 2)),)}, {"chains": ()}]


def test_entities_without_stars_and_columns_of_unknown_content(tmp_path: Path) -> None:
    rows = ["d 0 0 Ada _ _ _ _ _ _ (PER) x1 (1)", "d 0 1 left _ _ _ _ _ _ _ x2 _"]
    noted = Notes()
    content = "#begin document (d); part 0\n" + tabbed(*rows) + "#end document\n"
    (text,) = ontonotes.read(write(tmp_path, content), noted=noted)
    assert text.edges["ner"] == (Edge(("PER",), Span(0, 1)),)
    assert set(text.edges) == {"ner", "chains"}
    assert any("(column 12)" in what for what in noted.counts())


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
        ("#begin documents fine\n" + ONE_WORD + "\n", 1, "'#begin documents fine'"),
        (LITBANK.replace("n\t0\t2\tleft", "n\t0\t3\tleft"), 4, "word number 3"),
        (LITBANK.replace("Byron", ""), 3, "no word"),
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
