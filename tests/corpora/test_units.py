"""Units: every word once and in order, every edge still about the same words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.corpora.corpus import TextUnit, in_units, parse_unit
from lamina.errors import CorpusError
from lamina.types import Edge, Span, Text


@st.composite
def spans(draw: st.DrawFn, size: int) -> Span:
    start = draw(st.integers(0, size - 1))
    return Span(start, draw(st.integers(start + 1, size)))


@st.composite
def texts(draw: st.DrawFn) -> list[Text]:
    """Sentences of some documents; every word is unique, so that words tell where they come from."""
    made = []
    for number in range(draw(st.integers(1, 12))):
        size = draw(st.integers(1, 9))
        edges = draw(
            st.dictionaries(
                st.sampled_from(["dep", "ner"]),
                st.lists(st.builds(Edge, st.just(("x",)), spans(size), st.none() | spans(size)), max_size=3).map(tuple),
            )
        )
        words = tuple(f"w{number}.{at}" for at in range(size))
        made.append(Text(f"s{number}", words, edges=edges, doc=draw(st.sampled_from([None, "a", "b"]))))
    return made


def denoted(found: list[Text]) -> list[tuple[object, ...]]:
    """Every edge as the words it denotes, whatever text it is in."""
    told = [
        (name, *(None if span is None else tuple(text.words[at] for at in span) for span in (edge.span, edge.other)))
        for text in found
        for name, edges in text.edges.items()
        if name != "sentence"
        for edge in edges
    ]
    return sorted(told, key=repr)


UNITS = st.sampled_from(["sentence", "document", "window:1", "window:7", "window:20"])


@given(texts(), UNITS)
def test_every_word_and_edge_survives(sentences: list[Text], unit: str) -> None:
    joined = list(in_units(sentences, unit))

    assert [word for text in joined for word in text.words] == [word for text in sentences for word in text.words]
    assert denoted(joined) == denoted(sentences)


@given(texts(), st.integers(1, 20))
def test_windows_keep_to_their_size_and_document(sentences: list[Text], size: int) -> None:
    doc_of = {word: text.doc for text in sentences for word in text.words}
    for window in in_units(sentences, f"window:{size}"):
        assert len(window.words) <= size or len(window.edges["sentence"]) == 1
        assert {doc_of[word] for word in window.words} == {window.doc}


@given(texts())
def test_sentence_edges_tell_the_sentences(sentences: list[Text]) -> None:
    for unit in ("document", "window:7"):
        told = [
            (edge.labels[0], text.words[edge.span.start : edge.span.end])
            for text in in_units(sentences, unit)
            for edge in text.edges["sentence"]
        ]
        assert told == [(text.id, text.words) for text in sentences]


def test_documents_are_runs_of_one_doc() -> None:
    sentences = [Text(str(n), ("w",), doc=doc) for n, doc in enumerate(["a", "a", None, None, "b", "a"])]

    assert [(text.id, len(text.words)) for text in in_units(sentences, "document")] == [
        ("a", 2),
        ("2", 1),
        ("3", 1),
        ("b", 1),
        ("a", 1),
    ]


def test_windows_are_cut_at_sentence_ends() -> None:
    sentences = [Text(str(n), ("w",) * size, doc="d") for n, size in enumerate([2, 2, 5, 1, 3])]

    windows = list(in_units(sentences, "window:4"))

    assert [len(text.words) for text in windows] == [4, 5, 4]
    assert [text.id for text in windows] == ["d:1", "d:2", "d:3"]


def test_chains_stay_whole_in_a_document() -> None:
    sentences = [Text(str(n), ("She", "ran"), edges={"chains": (Edge(("7",), Span(0, 1)),)}, doc="d") for n in (1, 2)]

    (document,) = in_units(sentences, "document")

    assert document.edges["chains"] == (Edge(("7",), Span(0, 1)), Edge(("7",), Span(2, 3)))


def test_a_text_alone_keeps_its_segments_and_sentences() -> None:
    sentence = (Edge(("one",), Span(0, 1)), Edge(("two",), Span(1, 3)))
    alone = Text("q", ("Who", "she", "ran"), (Span(0, 1), Span(1, 3)), {"sentence": sentence})

    (kept,) = in_units([alone], "document")

    assert kept == alone


def test_units_stream() -> None:
    """A window is there before the next document is read."""

    def endless():
        number = 0
        while True:
            number += 1
            yield Text(str(number), ("w",), doc=str(number // 3))

    assert next(in_units(endless(), "document")).words == ("w", "w")


@pytest.mark.parametrize("wrong", ["", "window", "window:", "window:0", "window:-3", "Sentence", "paragraph"])
def test_unknown_units_are_refused(wrong: str) -> None:
    with pytest.raises(CorpusError, match="use sentence, document or window:N"):
        parse_unit(wrong)


def test_known_units() -> None:
    assert parse_unit("sentence") == TextUnit("sentence")
    assert parse_unit("document") == TextUnit("document")
