"""CoNLL-U: what is read, what is a fault, and made sentences that come back as they were."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.corpora.formats import conllu
from lamina.corpora.reading import Fault
from lamina.errors import FormatError
from lamina.types import Edge, Span, Text


def rows(*lines: str) -> str:
    """Rows written with spaces, as CoNLL-U."""
    return "".join(line.replace(" ", "\t") + "\n" for line in lines)


def write(folder: Path, content: str, name: str = "some.conllu") -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def faults_of(folder: Path, content: str) -> tuple[list[Fault], list[Text]]:
    faults: list[Fault] = []
    texts = list(conllu.read(write(folder, content), faults.append))
    return faults, texts


GERMAN = (
    "# newdoc id = d1\n# newpar\n# sent_id = s1\n# text = Im Haus.\n"
    + rows(
        "1-2 Im _ _ _ _ _ _ _ _",
        "1 In in ADP APPR _ 3 case _ _",
        "2 dem der DET ART _ 3 det _ _",
        "3 Haus Haus NOUN NN _ 0 root _ SpaceAfter=No",
        "3.1 ist sein AUX _ _ _ _ 3:cop _",
        "4 . . PUNCT $. _ 3 punct _ _",
    )
    + "\n# newdoc\n"
    + rows("1 Ja _ INTJ _ _ 0 root _ _")
)


def test_words_are_syntactic_words(tmp_path: Path) -> None:
    first, second = conllu.read(write(tmp_path, GERMAN))
    assert (first.id, first.doc, first.words) == ("s1", "d1", ("In", "dem", "Haus", "."))
    assert [edge.labels[0] for edge in first.edges["pos"]] == ["ADP", "DET", "NOUN", "PUNCT"]
    assert [edge.labels[0] for edge in first.edges["xpos"]] == ["APPR", "ART", "NN", "$."]
    assert first.edges["dep"][0] == Edge(("case",), Span(0, 1), Span(2, 3))
    assert first.edges["dep"][2] == Edge(("root",), Span(2, 3), Span(2, 3))
    assert (second.id, second.doc, second.words) == ("some-2", "some-doc2", ("Ja",))
    assert set(second.edges) == {"pos", "dep"}


def test_columns_without_annotation_give_none(tmp_path: Path) -> None:
    (text,) = conllu.read(write(tmp_path, rows("1 Dogs _ _ _ _ _ _ _ _", "2 bark _ _ _ _ _ _ _ _")))
    assert text.edges == {}
    assert text.doc is None


def test_words_with_spaces_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    line = "1\t10 000\t_\tNUM\t_\t_\t0\troot\t_\t_"
    path = tmp_path / "fr.conllu"
    path.write_bytes(b"\xef\xbb\xbf" + f"# sent_id = a b\r\n{line}\r\n\r\n".encode())
    (text,) = conllu.read(path)
    assert (text.id, text.words) == ("a b", ("10 000",))
    assert conllu.looks_like(path)


ENTITIES = "# global.Entity = GRP-etype-infstat-other\n" + rows(
    "1 the _ _ _ _ _ _ _ Entity=(1-person-new(2-place-giv",
    "2 big _ _ _ _ _ _ _ Entity=(3-plant-new-x)|SpaceAfter=No",
    "3 man _ _ _ _ _ _ _ Entity=2)1)",
    "4 , _ _ _ _ _ _ _ _",
    "5 ok _ _ _ _ _ _ _ Entity=(4)",
)


def test_entities_nest(tmp_path: Path) -> None:
    (text,) = conllu.read(write(tmp_path, ENTITIES))
    assert [(edge.labels[0], edge.span) for edge in text.edges["ner"]] == [
        ("person", Span(0, 3)),
        ("place", Span(0, 3)),
        ("plant", Span(1, 2)),
    ]
    assert [edge.labels[0] for edge in text.edges["chains"]] == ["1", "2", "3", "4"]


def test_entities_with_the_type_first_as_older_gum_has_it(tmp_path: Path) -> None:
    content = "# global.Entity = entity-GRP-infstat\n" + rows(
        "1 Ada _ _ _ _ _ _ _ Entity=(person-1-new",
        "2 Lovelace _ _ _ _ _ _ _ Entity=person-1)",
    )
    (text,) = conllu.read(write(tmp_path, content))
    assert text.edges["ner"] == (Edge(("person",), Span(0, 2)),)


def test_a_sentence_without_entities_in_a_file_with_them_is_annotated(tmp_path: Path) -> None:
    _, second = conllu.read(write(tmp_path, ENTITIES + "\n" + rows("1 Yes _ _ _ _ _ _ _ _")))
    assert second.edges == {"ner": (), "chains": ()}


def test_entities_without_a_type_field_are_no_ner(tmp_path: Path) -> None:
    content = "# global.Entity = GRP-infstat\n" + rows("1 Ada _ _ _ _ _ _ _ Entity=(1-new)")
    (text,) = conllu.read(write(tmp_path, content))
    assert text.edges == {"chains": (Edge(("1",), Span(0, 1)),)}


def test_discontinuous_mentions_are_left_out_and_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    content = rows(
        "1 a _ _ _ _ _ _ _ Entity=(e1[1/2]-person)",
        "2 b _ _ _ _ _ _ _ Entity=(e2-place)",
        "3 c _ _ _ _ _ _ _ Entity=(e1[2/2]-person)",
    )
    with caplog.at_level(logging.WARNING):
        (text,) = conllu.read(write(tmp_path, content))
    assert text.edges["ner"] == (Edge(("place",), Span(1, 2)),)
    assert "1 discontinuous mentions" in caplog.text


def test_mentions_on_empty_nodes_keep_their_words(tmp_path: Path) -> None:
    content = rows(
        "0.1 _ _ _ _ _ _ _ _ Entity=(e1-person(e2-place)",
        "1 b _ _ _ _ _ _ _ _",
        "2 c _ _ _ _ _ _ _ Entity=e1)",
    )
    (text,) = conllu.read(write(tmp_path, content))
    assert text.edges["ner"] == (Edge(("person",), Span(0, 2)),)


@pytest.mark.parametrize(
    ("content", "line", "what"),
    [
        (rows("1 a _ _ _ _ _ _ _"), 1, "9 columns"),
        ("1 a _ _ _ _ 0 root _ _\n", 1, "1 columns"),
        (rows("1 a _ _ _ _ 0 root _ _", "3 b _ _ _ _ 1 dep _ _"), 2, "does not follow"),
        (rows("1.1 a _ _ _ _ _ _ _ _", "1 b _ _ _ _ 0 root _ _"), 1, "does not follow"),
        (rows("x a _ _ _ _ 0 root _ _"), 1, "id 'x'"),
        (rows("2-3 ab _ _ _ _ _ _ _ _", "1 b _ _ _ _ 0 root _ _"), 1, "does not follow"),
        (rows("1-2 ab _ _ _ _ _ _ _ _", "1 b _ _ _ _ 0 root _ _"), 2, "up to word 2"),
        (rows("0.1 a _ _ _ _ _ _ _ _"), 1, "without words"),
        (rows("1 a _ _ _ _ x root _ _"), 1, "not a number"),
        (rows("1 a _ _ _ _ 0 root _ _", "2 b _ _ _ _ _ _ _ _"), 2, "not a number"),
        (rows("1 a _ _ _ _ 2 dep _ _"), 1, "outside the 1 words"),
        (rows("1 a _ _ _ _ 0 _ _ _"), 1, "without a relation"),
        (rows("1 a _ _ _ _ 0 root _ _", "2 b _ _ _ _ 0 root _ _"), 2, "2 roots"),
        (rows("1 a _ _ _ _ 2 dep _ _", "2 b _ _ _ _ 1 dep _ _"), 1, "no root"),
        (rows("1 a _ _ _ _ 0 root _ _", "2 b _ _ _ _ 3 dep _ _", "3 c _ _ _ _ 2 dep _ _"), 2, "own ancestor"),
        (rows("1 a _ _ _ _ 1 dep _ _", "2 b _ _ _ _ 0 root _ _"), 1, "own ancestor"),
        ("1\t\t_\t_\t_\t_\t0\troot\t_\t_\n", 1, "column 2 is empty"),
        ("# sent_id = s\n\n", 1, "without words"),
        (rows("1 a _ _ _ _ _ _ _ Entity=(1-person"), 1, "never closed"),
        (rows("1 a _ _ _ _ _ _ _ Entity=1)"), 1, "never opened"),
    ],
)
def test_faults(tmp_path: Path, content: str, line: int, what: str) -> None:
    sound = rows("1 fine _ _ _ _ 0 root _ _")
    faults, texts = faults_of(tmp_path, content + "\n" + sound)
    assert faults[0].line == line
    assert what in faults[0].what
    assert [text.words for text in texts] == [("fine",)]
    with pytest.raises(FormatError, match=r"some\.conllu:\d+: .*; expected "):
        list(conllu.read(write(tmp_path, content)))


def test_every_fault_of_a_sentence_is_reported(tmp_path: Path) -> None:
    faults, texts = faults_of(tmp_path, rows("1 a _ _ _ _ 7 dep _ _", "2 b _ _ _ _ y dep _ _"))
    assert [fault.line for fault in faults] == [1, 2]
    assert texts == []


def test_bytes_that_are_not_utf8_are_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "latin.conllu"
    sentence = rows("1 caf\u00e9 _ _ _ _ 0 root _ _")
    path.write_bytes(sentence.encode("latin-1") + b"\n" + sentence.encode())
    faults: list[Fault] = []
    assert [text.words for text in conllu.read(path, faults.append)] == [("caf\u00e9",)]
    assert [(fault.line, "0xe9" in fault.what) for fault in faults] == [(1, True)]


def test_looks_like(tmp_path: Path) -> None:
    assert conllu.looks_like(write(tmp_path, GERMAN, "anything.txt"))
    assert not conllu.looks_like(write(tmp_path, "Dogs bark.\n", "plain.txt"))
    assert not conllu.looks_like(write(tmp_path, "", "empty.conllu"))
    assert not conllu.looks_like(tmp_path)


def test_an_empty_file_gives_nothing(tmp_path: Path) -> None:
    assert list(conllu.read(write(tmp_path, ""))) == []


_FORM = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=6)
_TAG = st.sampled_from(["NOUN", "VERB", "X"])


@st.composite
def sentences(draw: st.DrawFn) -> Text:
    words = draw(st.lists(_FORM, min_size=1, max_size=8))
    size = len(words)
    order = draw(st.permutations(range(size)))
    # A word hangs on one that comes before it in a random order: always a tree.
    heads = {order[0]: order[0]} | {order[at]: order[draw(st.integers(0, at - 1))] for at in range(1, size)}
    singles = [Span(at, at + 1) for at in range(size)]
    pos = tuple(Edge((draw(_TAG),), span) for span in singles)
    root = order[0]
    dep = tuple(Edge(("root" if at == root else "dep",), singles[at], singles[heads[at]]) for at in range(size))
    name = draw(st.from_regex(r"[a-z]{1,5}-[0-9]{1,3}", fullmatch=True))
    return Text(name, tuple(words), edges={"pos": pos, "dep": dep}, doc="d")


def as_conllu(text: Text) -> str:
    lines = [f"# sent_id = {text.id}"]
    for at, word in enumerate(text.words):
        pos, dep = text.edges["pos"][at], text.edges["dep"][at]
        assert dep.other is not None
        head = 0 if dep.other == dep.span else dep.other.start + 1
        lines.append("\t".join([str(at + 1), word, "_", pos.labels[0], "_", "_", str(head), dep.labels[0], "_", "_"]))
    return "\n".join(lines) + "\n"


@given(st.lists(sentences(), min_size=1, max_size=3))
def test_made_sentences_come_back(tmp_path_factory: pytest.TempPathFactory, texts: list[Text]) -> None:
    path = write(tmp_path_factory.mktemp("made"), "# newdoc id = d\n" + "\n".join(map(as_conllu, texts)))
    assert list(conllu.read(path)) == texts
