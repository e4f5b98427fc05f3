"""Basic Stanford dependencies by rule, against trees that were converted by hand."""

from __future__ import annotations

import pytest

from lamina.corpora import corpus_from
from lamina.corpora.treebanks import in_stanford, stanford
from lamina.errors import CorpusError
from lamina.types import Edge, Span, Text

# Word, universal relation, head; then Stanford relation and head.
SENTENCE = (
    ("Kim", "nmod:poss", 2, "poss", 2),
    ("'s", "case", 0, "possessive", 0),
    ("dogs", "nsubj:pass", 4, "nsubjpass", 4),
    ("were", "aux:pass", 4, "auxpass", 4),
    ("seen", "root", 4, "root", 4),
    ("in", "case", 7, "prep", 4),
    ("the", "det", 7, "det", 7),
    ("garden", "obl", 4, "pobj", 5),
    ("of", "case", 9, "prep", 7),
    ("Rome", "nmod", 7, "pobj", 8),
    ("to", "mark", 11, "aux", 11),
    ("eat", "advcl", 4, "advcl", 4),
    ("dog", "compound", 13, "nn", 13),
    ("food", "obj", 11, "dobj", 11),
)


def tree() -> Text:
    words = tuple(word for word, *_ in SENTENCE)
    edges = tuple(
        Edge((name,), Span(place, place + 1), Span(head, head + 1))
        for place, (_, name, head, *_) in enumerate(SENTENCE)
    )
    return Text("s", words, edges={"dep": edges})


def test_every_relation_and_head_is_as_converted_by_hand() -> None:
    edges = stanford(tree()).edges["dep"]
    links = [(edge.labels[0], edge.other.start if edge.other else None) for edge in edges]
    assert links == [(name, head) for *_, name, head in SENTENCE]
    assert [edge.span.start for edge in edges] == [*range(len(SENTENCE))]


def test_labels_that_are_not_universal_are_not_converted() -> None:
    corpus = corpus_from([tree()], name="mine")
    with pytest.raises(CorpusError, match="mine has no universal dependencies to convert"):
        in_stanford(corpus)
