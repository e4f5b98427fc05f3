"""Corpora of what is in memory: lists, tables, datasets."""

from __future__ import annotations

import pandas as pd
import pytest

from lamina.corpora import corpus_from
from lamina.errors import CorpusError
from lamina.types import Edge, Span, Text

NOUN, VERB = Edge(("NOUN",), Span(0, 1)), Edge(("VERB",), Span(1, 2))


def test_lists_of_words_and_edges() -> None:
    corpus = corpus_from(
        [
            ["Dogs", "bark"],
            (["Dogs", "bark"], {"pos": ["NOUN", "VERB"], "dep": [Edge(("nsubj",), Span(0, 1), Span(1, 2))]}),
            (["Dogs", "bark"], {"pos": ["NOUN", None], "ner": []}),
            Text("own", ("Dogs",)),
        ],
        name="pets",
    )

    texts = list(corpus)

    assert [text.id for text in texts] == ["pets-1", "pets-2", "pets-3", "own"]
    assert texts[1].edges == {"pos": (NOUN, VERB), "dep": (Edge(("nsubj",), Span(0, 1), Span(1, 2)),)}
    assert texts[2].edges == {"pos": (NOUN,), "ner": ()}
    assert corpus.annotations == ("pos", "dep", "ner")
    assert corpus.describe()["name"] == "pets"


def test_a_generator_can_be_read_twice() -> None:
    corpus = corpus_from(["Dogs", "bark"] for _ in range(3))

    assert len(corpus) == 3
    assert [text.id for text in corpus] == ["given-1", "given-2", "given-3"]


def test_fingerprint_is_over_the_content() -> None:
    given = [(["Dogs", "bark"], {"pos": ["NOUN", "VERB"]})]
    first = corpus_from(given).fingerprint

    assert corpus_from(given, name="given").fingerprint == first
    assert corpus_from([(["Dogs", "bark"], {"pos": ["NOUN", "NOUN"]})]).fingerprint != first
    assert corpus_from(given, unit="document").fingerprint != first


def test_a_table_of_words() -> None:
    frame = pd.DataFrame(
        {
            "text": ["a", "a", "b"],
            "word": ["Dogs", "bark", "Yes"],
            "doc": ["d", "d", "d"],
            "pos": ["NOUN", "VERB", None],
        }
    )

    texts = list(corpus_from(frame))

    assert texts == [
        Text("a", ("Dogs", "bark"), edges={"pos": (NOUN, VERB)}, doc="d"),
        Text("b", ("Yes",), edges={"pos": ()}, doc="d"),
    ]
    (document,) = corpus_from(frame, unit="document")
    assert document.words == ("Dogs", "bark", "Yes")


def test_a_table_of_texts() -> None:
    frame = pd.DataFrame({"id": ["a"], "words": [["Dogs", "bark"]], "pos": [["NOUN", "VERB"]], "source": ["web"]})

    assert list(corpus_from(frame)) == [Text("a", ("Dogs", "bark"), edges={"pos": (NOUN, VERB)})]


def test_a_dataset_with_class_labels() -> None:
    datasets = pytest.importorskip("datasets")
    tags = datasets.ClassLabel(names=["O", "B-PER", "I-PER"])
    features = datasets.Features(
        {
            "tokens": datasets.Sequence(datasets.Value("string")),
            "ner_tags": datasets.Sequence(tags),
            "pos": datasets.Sequence(datasets.ClassLabel(names=["NOUN", "VERB"])),
        }
    )
    rows = {"tokens": [["Ada", "Lovelace", "wrote"]], "ner_tags": [[1, 2, 0]], "pos": [[0, -1, 1]]}
    dataset = datasets.Dataset.from_dict(rows, features=features)

    (named,) = corpus_from(dataset, annotations={"ner_tags": "ner"})
    (bare,) = corpus_from(dataset)

    assert named.edges == {"ner": (Edge(("PER",), Span(0, 2)),)}
    assert bare.edges["pos"] == (NOUN, Edge(("VERB",), Span(2, 3)))
    assert [edge.labels for edge in bare.edges["ner_tags"]] == [("B-PER",), ("I-PER",), ("O",)]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        (["O", "O"], ()),
        (["S-LOC", "O"], (Edge(("LOC",), Span(0, 1)),)),
        (["LOC", "O"], (Edge(("LOC",), Span(0, 1)),)),
        (["I-LOC", "I-LOC"], (Edge(("LOC",), Span(0, 2)),)),
    ],
)
def test_entity_tags_become_spans(tags: list[str], expected: tuple[Edge, ...]) -> None:
    (text,) = corpus_from([(["New", "York"], {"ner": tags})])

    assert text.edges["ner"] == expected


def test_what_cannot_be_used_is_said() -> None:
    with pytest.raises(CorpusError, match="is empty"):
        corpus_from([])
    with pytest.raises(CorpusError, match="1 labels for 2 words"):
        corpus_from([(["Dogs", "bark"], {"pos": ["NOUN"]})])
    with pytest.raises(CorpusError, match="expected a list of words"):
        corpus_from([3])
    with pytest.raises(CorpusError, match="a pair, or a text with its label"):
        corpus_from([("I like it", "good")])
    with pytest.raises(CorpusError, match="a list of texts or a table"):
        corpus_from("I like it")
    with pytest.raises(CorpusError, match="graded, and 'much' is not a number"):
        corpus_from(pd.DataFrame({"text": ["a", "b"], "score": ["1.5", "much"]}), annotations={"score": "score:value"})
    with pytest.raises(CorpusError, match=r"m: .*x': 1.* is neither a label nor a number"):
        corpus_from([("a b", {"m": {"x": 1}})])
    with pytest.raises(CorpusError, match="gives two columns the same name: m"):
        corpus_from([{"text": "a", "b": "x", "c": "y"}], annotations={"b": "m", "c": "m"})
    with pytest.raises(CorpusError, match="two columns have the same name"):
        corpus_from(pd.DataFrame([["a", "b"]], columns=["text", "text"]))
    with pytest.raises(CorpusError, match="outside its 1 words"):
        corpus_from([(["Dogs"], {"pos": [VERB]})])
    with pytest.raises(CorpusError, match="no words"):
        corpus_from([[]])
    with pytest.raises(CorpusError, match="needs a column `text`"):
        corpus_from(pd.DataFrame({"word": ["Dogs"]}))
    with pytest.raises(CorpusError, match="no column holds texts; columns are colour"):
        corpus_from(pd.DataFrame({"colour": ["red"]}))
    with pytest.raises(CorpusError, match="no column 'upos'"):
        corpus_from(pd.DataFrame({"words": [["Dogs"]], "pos": [["NOUN"]]}), annotations={"upos": "pos"})
