"""Any annotation can be learned: classes of whole texts, labels of words; which one is found or said."""

from __future__ import annotations

import pytest

from lamina import Edge, Span, Text, corpus_from
from lamina.errors import TaskError
from lamina.training.reading import sets_of_splits, with_learned_labels
from lamina.training.tags import class_of


def text(number: int, **edges: tuple[Edge, ...]) -> Text:
    return Text(f"t{number}", ("So", "so"), edges=edges)


MOOD, KIND = (Edge("good", Span(0, 2)),), (Edge("ADV", Span(0, 1)), Edge("ADV", Span(1, 2)))


def test_the_only_annotation_that_fits_is_learned() -> None:
    corpus = corpus_from([text(1, mood=MOOD, kind=KIND), text(2)])
    classes, tags = (list(with_learned_labels(corpus, task, None)) for task in ("classify", "tag"))

    assert [class_of(each) for each in classes] == ["good"]
    assert [each.edges["tag"] for each in tags] == [KIND]
    assert corpus.left_out() == {"texts without mood": 1, "texts without kind": 1}


def test_where_several_fit_one_must_be_named() -> None:
    corpus = corpus_from([text(1, mood=MOOD, tone=MOOD)])
    with pytest.raises(TaskError, match="say which: --annotation mood or --annotation tone"):
        with_learned_labels(corpus, "classify", None)
    (chosen,) = with_learned_labels(corpus, "classify", "tone")
    assert chosen.edges == {"mood": MOOD, "label": MOOD}
    with pytest.raises(TaskError, match="has no 'colour'; it has mood, tone"):
        with_learned_labels(corpus, "classify", "colour")
    with pytest.raises(TaskError, match="mlm learns no annotation"):
        with_learned_labels(corpus, "mlm", "mood")


def test_several_classes_of_one_text_are_refused() -> None:
    (both,) = with_learned_labels(corpus_from([text(1, mood=(Edge(("a", "b"), Span(0, 2)),))]), "classify", "mood")
    with pytest.raises(TaskError, match="text 't1' has 2 classes"):
        class_of(both)


def test_splits_in_memory_are_the_three_sets() -> None:
    parts = {split: corpus_from([text(n, mood=MOOD)], name=split) for n, split in enumerate(("train", "dev", "test"))}
    sets = sets_of_splits(parts, "classify")

    assert [each.id for part in (sets.train, sets.select, sets.scored) for each in part] == ["t0", "t1", "t2"]
    assert class_of(sets.scored[0]) == "good"
