"""Entities in columns: layouts, schemes and ill-formed tags."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.corpora.entities import TaggedSpan, check_tags, scheme_of, spans_of
from lamina.corpora.formats import ner_columns
from lamina.corpora.reading import Fault, Notes
from lamina.errors import FormatError
from lamina.types import Edge, Span, Text


def write(folder: Path, content: str, name: str = "some.iob") -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def entities(path: Path) -> list[list[tuple[str, int, int]]]:
    return [
        [(edge.labels[0], edge.span.start, edge.span.end) for edge in text.edges["ner"]]
        for text in ner_columns.read(path)
    ]


UNER = (
    "# newdoc id = d1\n# sent_id = s1\n# text = vitamin B-12\n"
    "1\t1\tO\t-\t-\n2\tNew York\tB-LOC\t-\tann\n3\tCity\tI-LOC\t-\tann\n\n"
    "# sent_id = s2\n1\t#\tB-ORG\t-\tann\n2\tx\tB-ORG\t-\tann\n"
)
CONLL_2003 = (
    "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\n1 CD I-NP O\n\n"
    "-DOCSTART- -X- O O\n\nPeter NNP I-NP I-PER\nAnn NNP I-NP B-PER\n# # I-NP O\n"
)


def test_universal_ner(tmp_path: Path) -> None:
    path = write(tmp_path, UNER)
    first, second = ner_columns.read(path)
    assert (first.id, first.doc, first.words) == ("s1", "d1", ("1", "New York", "City"))
    assert (second.id, second.doc, second.words) == ("s2", "d1", ("#", "x"))
    assert entities(path) == [[("LOC", 1, 3)], [("ORG", 0, 1), ("ORG", 1, 2)]]
    assert ner_columns.looks_like(path)


def test_conll_2003(tmp_path: Path) -> None:
    path = write(tmp_path, CONLL_2003)
    first, second = ner_columns.read(path)
    assert (first.id, first.doc, second.id, second.doc) == ("some-1", "some-doc1", "some-2", "some-doc2")
    assert second.words == ("Peter", "Ann", "#")
    assert entities(path) == [[("ORG", 0, 1)], [("PER", 0, 1), ("PER", 1, 2)]]
    assert ner_columns.looks_like(path)
    assert first.edges["pos"] == tuple(Edge((tag,), Span(at, at + 1)) for at, tag in enumerate(["NNP", "VBZ", "CD"]))
    assert [edge.labels[0] for edge in second.edges["chunk"]] == ["NP"]


def test_two_columns_with_free_comments(tmp_path: Path) -> None:
    path = write(tmp_path, "# made by hand\nAda\tB-PER\nLovelace\tL-PER\nand\tO\nBabbage\tU-PER\n")
    assert entities(path) == [[("PER", 0, 2), ("PER", 3, 4)]]
    assert ner_columns.looks_like(path)


def read_noted(path: Path) -> tuple[list[Text], Notes]:
    noted = Notes()
    return list(ner_columns.read(path, noted=noted)), noted


LEVELS = "a\tB-X\tB-Y\tO\t\nb\tI-X\tO\tB-Z\t\n\nc\tO\tO\tO\t\n"
GERMEVAL = "#\thttp://a.de\t[2010]\t\n1\ta\tB-X\tB-Y\n2\tb\tI-X\tO\n\n#\tc\t\t\n1\tc\tO\tO\n"


@pytest.mark.parametrize(
    ("content", "expected", "levels"),
    [
        (LEVELS, [[("X", 0, 2), ("Y", 0, 1), ("Z", 1, 2)], []], 3),
        (GERMEVAL, [[("X", 0, 2), ("Y", 0, 1)], []], 2),
    ],
    ids=["litbank", "germeval"],
)
def test_nested_entities(tmp_path: Path, content: str, expected: list[object], levels: int) -> None:
    path = write(tmp_path, content)
    assert ner_columns.looks_like(path)
    assert entities(path) == expected
    texts, noted = read_noted(path)
    assert [text.words for text in texts] == [("a", "b"), ("c",)]
    assert noted.counts() == {f"files with {levels} columns of nested entities, all of them read as ner": 1}


@pytest.mark.parametrize(
    "content",
    [
        "B-X\ta\nI-X\tb\nO\tc\n",
        "B-X\t0\t1\ta\tNN\nI-X\t2\t3\tb\tNN\nO\t4\t5\tc\tNN\n",
        "de:a\tB-X\nde:b\tI-X\nde:c\tO\n",
        "a B-X\nb E-X\nc O\n",
        "a B-X\nb M-X\nc O\n",
        "a\tX\nb\tX\nc\tO\n\nd\tY\ne\tO\n",
    ],
    ids=["tag first", "offsets", "language", "bioes", "bm", "no prefix"],
)
def test_dialects(tmp_path: Path, content: str) -> None:
    path = write(tmp_path, content)
    assert ner_columns.looks_like(path)
    first, *_ = ner_columns.read(path)
    assert first.words == ("a", "b", "c")
    assert first.edges["ner"] == (Edge(("X",), Span(0, 2)),)


def test_tags_without_a_type_and_with_several(tmp_path: Path) -> None:
    assert entities(write(tmp_path, "a B\nb I\nc O\n")) == [[("entity", 0, 2)]]
    (text,) = ner_columns.read(write(tmp_path, "a\tB-X,B-Y\nb\tI-X,I-Y\n"))
    assert text.edges["ner"] == (Edge(("X", "Y"), Span(0, 2)),)


def test_a_tag_per_level_in_one_cell(tmp_path: Path) -> None:
    path = write(tmp_path, "a\tB-X|B-X|U-Y\nb\tI-X|L-X|B-Z\nc\tI-X|L-Z\nd\tO\n\ne\tO\n")
    assert ner_columns.looks_like(path)
    assert entities(path) == [[("X", 0, 3), ("X", 0, 2), ("Y", 0, 1), ("Z", 1, 3)], []]
    faults: list[Fault] = []
    path = write(tmp_path, "a\tB-X|B-Y\nb\tI-Z\n\ne\tO\n")
    assert [text.words for text in ner_columns.read(path, faults.append)] == [("e",)]
    assert faults[0].what == "I-Z at word 2, with nothing to continue"


def test_a_single_type_without_prefix_is_a_label_per_word(tmp_path: Path) -> None:
    path = write(tmp_path, "rain\tEVENT\nfell\tEVENT\nhere\tO\n\n#\tO\n")
    assert ner_columns.looks_like(path)
    first, second = ner_columns.read(path)
    assert [edge.labels[0] for edge in first.edges["event"]] == ["EVENT", "EVENT", "O"]
    assert (second.words, set(second.edges)) == (("#",), {"event"})


def test_what_is_not_read_is_noted(tmp_path: Path) -> None:
    texts, noted = read_noted(write(tmp_path, "a alpha B-X\nb beta O\n\nc gamma O\n"))
    assert set(texts[0].edges) == {"ner"}
    assert noted.counts() == {"files with columns of unknown content, which are not read (column 2)": 1}
    texts, noted = read_noted(write(tmp_path, "a O\nb O\n"))
    assert texts[0].edges == {}
    assert any("every tag is O" in what for what in noted.counts())
    texts, noted = read_noted(write(tmp_path, "a I-X\nb I-Y\n\nc O\nd B-X\n"))
    assert texts[1].edges["ner"] == (Edge(("X",), Span(1, 2)),)
    assert noted.counts() == {ner_columns.NEEDLESS: 1}


def test_looks_like_nothing_else(tmp_path: Path) -> None:
    assert not ner_columns.looks_like(write(tmp_path, "Dogs bark.\nCats do not.\n"))
    assert not ner_columns.looks_like(write(tmp_path, "1\tDogs\t_\tNOUN\t_\t_\t0\troot\t_\t_\n"))
    assert not ner_columns.looks_like(write(tmp_path, ""))
    assert not ner_columns.looks_like(write(tmp_path, "Ann\tPER\nRome\tLOC\nis\tO\n"))
    assert not ner_columns.looks_like(write(tmp_path, "a\tPER-B\nb\tPER-I\nc\tO\n\nd\tO\n"))
    assert not ner_columns.looks_like(tmp_path)


@pytest.mark.parametrize(
    ("content", "line", "what"),
    [
        ("a B-X\nb I-X\n\nc O\nd I-X\n", 5, "I-X after O, with nothing"),
        ("a B-X\nb I-X\n\nc I-X\nd O\n", 4, "I-X after the start of the sentence"),
        ("a B-X\nb I-Y\nc B-X\n", 2, "I-Y after B-X"),
        ("a S-X\nb E-X\n", 2, "E-X after S-X"),
        ("a B-X\nb E-X\n\nc B-X\nd O\n", 5, "O after B-X, which E- or L- should have ended"),
        ("a B-X\nb E-X\n\nc O\nd B-X\n", 5, "B-X at the end of the sentence"),
        ("a B-X\nb\nc O\n", 2, "1 columns"),
        ("a B-X\nb PER\n", 2, "column 2 is 'PER'"),
        ("a\tB-X\n\tO\n", 2, "no token"),
    ],
)
def test_faults(tmp_path: Path, content: str, line: int, what: str) -> None:
    faults: list[Fault] = []
    texts = list(ner_columns.read(write(tmp_path, content + "\nfine O\n"), faults.append))
    assert [fault.line for fault in faults] == [line]
    assert what in faults[0].what
    assert texts[-1].words == ("fine",)
    with pytest.raises(FormatError, match=r"some\.iob:"):
        list(ner_columns.read(write(tmp_path, content)))


def test_the_majority_tells_the_scheme() -> None:
    assert scheme_of([["B-X", "O", "B-X"], ["O", "I-X"]]) == "IOB2"
    assert scheme_of([["I-X", "O", "I-X"], ["O", "B-X"]]) == "IOB1"
    assert scheme_of([["I-X", "B-X", "B-X"]]) == "IOB1"
    assert scheme_of([["O", "O"]]) == "IOB2"


@st.composite
def tagged(draw: st.DrawFn) -> tuple[int, list[TaggedSpan]]:
    """A sentence's length and its entities, some of them touching."""
    found, at = [], 0
    for gap, size, kind in draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.sampled_from(["PER", "A-B"])), max_size=5)
    ):
        found.append(TaggedSpan(kind, Span(at + gap, at + gap + size)))
        at += gap + size
    return at + draw(st.integers(0 if at else 1, 2)), found


def written(size: int, found: list[TaggedSpan], scheme: str) -> list[str]:
    tags = ["O"] * size
    last: TaggedSpan | None = None
    for entity in found:
        kind, span = entity
        touches = last is not None and last.type == kind and last.span.end == span.start
        begin, inside, end, single = {
            "IOB1": ("B" if touches else "I", "I", "I", "B" if touches else "I"),
            "IOB2": ("B", "I", "I", "B"),
            "BIOES": ("B", "I", "E", "S"),
            "BILOU": ("B", "I", "L", "U"),
        }[scheme]
        prefixes = [single] if len(span) == 1 else [begin, *[inside] * (len(span) - 2), end]
        tags[span.start : span.end] = [f"{prefix}-{kind}" for prefix in prefixes]
        last = entity
    return tags


@pytest.mark.parametrize("scheme", ["IOB1", "IOB2", "BIOES", "BILOU"])
@given(st.lists(tagged(), min_size=1, max_size=3))
def test_spans_come_back_from_tags(scheme: str, sentences: list[tuple[int, list[TaggedSpan]]]) -> None:
    tags = [written(size, found, scheme) for size, found in sentences]
    told = scheme_of(tags)
    if any(found for _, found in sentences):
        assert told == {"BILOU": "BIOES"}.get(scheme, scheme)
    assert [list(check_tags(one, told)) for one in tags] == [[]] * len(tags)
    assert [spans_of(one, told) for one in tags] == [found for _, found in sentences]
