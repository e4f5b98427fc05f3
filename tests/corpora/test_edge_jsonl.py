"""Edge-probing JSON lines: what is written reads back the same."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.corpora import load_corpus
from lamina.corpora.formats import edge_jsonl
from lamina.errors import CorpusError
from lamina.types import Edge, Span, Text

_word = st.text(alphabet=st.characters(codec="utf-8"), min_size=1, max_size=6)
_labels = st.lists(st.text(alphabet=st.characters(codec="utf-8"), max_size=4), max_size=3, unique=True).map(tuple)
_value = st.none() | st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def _spans(draw, size):
    start = draw(st.integers(0, size - 1))
    return Span(start, draw(st.integers(start + 1, size)))


@st.composite
def _texts(draw):
    words = tuple(draw(st.lists(_word, min_size=1, max_size=6)))
    spans = _spans(len(words))
    edge = st.builds(Edge, _labels, spans, st.none() | spans, st.none() | _labels, _value)
    cut = draw(st.integers(0, len(words) - 1))
    segments = (Span(0, cut), Span(cut, len(words))) if cut else ()
    edges = {"some": tuple(draw(st.lists(edge, max_size=4)))}
    return Text(draw(_word), words, segments, edges, draw(st.none() | _word))


@given(st.lists(_texts(), max_size=4))
def test_round_trip(texts):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "new" / "out.jsonl"
        assert edge_jsonl.write(texts, "some", path) == len(texts)
        assert list(edge_jsonl.read(path)) == texts
        assert [file.name for file in path.parent.iterdir()] == ["out.jsonl"]


def test_what_others_read(tmp_path):
    path = tmp_path / "dep.jsonl"
    edges = {"dep": (Edge(("nsubj",), Span(0, 1), Span(1, 2)),), "pos": ()}
    assert edge_jsonl.write([Text("s1", ("Dogs", "bark"), edges=edges), Text("s2", ("x",))], "dep", path) == 1
    assert json.loads(path.read_text()) == {
        "text": "Dogs bark",
        "targets": [{"span1": [0, 1], "span2": [1, 2], "label": "nsubj"}],
        "info": {"id": "s1", "annotation": "dep"},
    }


@pytest.mark.parametrize(
    ("stem", "annotation"),
    [("nonterminal.dev", "const"), ("spr2", "spr"), ("dep_ewt-train", "dep"), ("semeval", "rel"), ("depth", "edges")],
)
def test_the_annotation_is_told_from_the_name(tmp_path, stem, annotation):
    path = tmp_path / f"{stem}.jsonl"
    path.write_text('{"text": "Dogs bark", "targets": [{"span1": [0, 1], "label": ["a", "b"]}]}\n')
    (text,) = edge_jsonl.read(path)
    assert edge_jsonl.looks_like(path)
    assert text.edges == {annotation: (Edge(("a", "b"), Span(0, 1)),)}
    assert text.id == f"{stem}-1"
    (named,) = load_corpus(path, "all", annotation="mine")
    assert named.edges == {"mine": text.edges[annotation]}


def test_a_name_replaces_the_one_that_the_file_gives(tmp_path):
    path = tmp_path / "out.jsonl"
    edge_jsonl.write([Text("s1", ("a",), edges={"pos": ()})], "pos", path)
    for name in ("pos", "mine"):
        assert [text.edges for text in load_corpus(path, "all", annotation=name)] == [{name: ()}]


@pytest.mark.parametrize(
    ("record", "what"),
    [
        ({"text": "a b"}, "no field 'targets'"),
        ({"text": " ", "targets": []}, "not a list of words"),
        ({"text": "a", "targets": [{"span1": [0, 2], "label": "x"}]}, "outside its 1 words"),
        ({"text": "a", "targets": [{"span1": [0], "label": "x"}]}, "not a span"),
        ({"text": "a", "targets": [{"span1": [0, 1], "label": None}]}, "neither a label nor"),
        ({"text": 5, "targets": []}, "split"),
        ({"text": "a", "targets": [5]}, "get"),
    ],
)
def test_faults_name_the_line(tmp_path, record, what):
    path = tmp_path / "pos.jsonl"
    path.write_text('{"text": "a", "targets": []}\n' + json.dumps(record))
    faults = []
    assert len(list(edge_jsonl.read(path, faults.append))) == 1
    assert faults[0].line == 2
    assert what in faults[0].what


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "pos.jsonl"
    path.write_text("old")

    def texts():
        yield Text("s1", ("a",), edges={"pos": ()})
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        edge_jsonl.write(texts(), "pos", path)
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["pos.jsonl"]


def test_spans_of_characters_and_words_of_another_tokenisation(tmp_path):
    path = tmp_path / "own.jsonl"
    said = {"text": "New York's mayor, Ann.", "offsets": "characters"}
    targets = [{"span1": [0, 8], "label": "LOC"}, {"span1": [0, 8], "span2": [18, 21], "value": 2.5}]
    own = ["New York", "'s", "mayor", ",", "Ann", "."]
    path.write_text(
        "\n".join(
            json.dumps(record)
            for record in (
                said | {"targets": targets},
                said | {"targets": targets, "tokens": own},
                {"tokens": own, "targets": [{"span1": [0, 1], "label": "LOC"}]},
            )
        )
    )

    ours, theirs, plain = edge_jsonl.read(path)

    assert ours.words == ("New", "York", "'s", "mayor", ",", "Ann", ".")
    assert ours.edges["edges"] == (Edge(("LOC",), Span(0, 2)), Edge((), Span(0, 2), Span(5, 6), value=2.5))
    assert theirs.words == plain.words == tuple(own)
    assert theirs.edges["edges"] == (Edge(("LOC",), Span(0, 1)), Edge((), Span(0, 1), Span(4, 5), value=2.5))
    assert plain.edges["edges"] == (Edge(("LOC",), Span(0, 1)),)


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"tokens": ["Dogs", "bark"], "targets": [{"span1": [0, 3], "label": "x"}]}, r"\[0, 3\) hold no whole word"),
        ({"tokens": ["Dogs", "bark"], "targets": [{"span1": [0, 6], "label": "x"}]}, r"\[0, 6\) cut the word 'bark'"),
        ({"tokens": ["Dogs", "moo"], "targets": []}, "the word 'moo' is not in the text after character 4"),
        ({"targets": [{"span1": [4, 5], "label": "x"}]}, r"\[4, 5\) hold no whole word"),
        ({"targets": [{"span1": [5, 99], "label": "x"}]}, r"\[5, 99\) are not in a text of 9"),
        ({"targets": [], "offsets": "bytes"}, "offsets are 'bytes'"),
    ],
    ids=["part of a word", "cut", "another text", "no word", "outside", "unknown offsets"],
)
def test_characters_that_are_no_words_are_faults(tmp_path, more, what):
    path = tmp_path / "own.jsonl"
    path.write_text(json.dumps({"text": "Dogs bark", "offsets": "characters"} | more))

    with pytest.raises(CorpusError, match=what):
        list(edge_jsonl.read(path))
