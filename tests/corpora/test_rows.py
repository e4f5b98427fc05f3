"""Rows of tables as texts: which column is what, and the targets of each cell."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from lamina.corpora import corpus_from
from lamina.corpora.tables.columns import UnplannedError, plan_table, texts_of
from lamina.errors import CorpusError
from lamina.types import Edge, Span

LIKE, RAIN = {"text": "I like it.", "label": "good"}, {"text": "It rains", "label": "bad"}


def only(rows: list[dict[str, Any]], **asked: Any):
    plan = plan_table(list(dict.fromkeys(key for row in rows for key in row)), rows, **asked)
    return next(texts_of(rows, plan, "table")), plan


@pytest.mark.parametrize(
    ("rows", "annotation", "edges"),
    [
        ([LIKE, RAIN], "label", (Edge("good", Span(0, 4)),)),
        ([LIKE | {"label": 1}, RAIN | {"label": 0}], "label", (Edge("1", Span(0, 4)),)),
        ([LIKE | {"label": True}], "label", (Edge("True", Span(0, 4)),)),
        # Written with a fraction, numbers are values; a table made fractions of whole ones where some are missing.
        ([LIKE | {"label": "3.5"}, RAIN | {"label": "4"}], "label", (Edge((), Span(0, 4), value=3.5),)),
        ([LIKE | {"label": 1.0}, RAIN | {"label": float("nan")}], "label", (Edge("1", Span(0, 4)),)),
        ([LIKE | {"score": 4}, RAIN | {"score": 2}], "score", (Edge((), Span(0, 4), value=4.0),)),
        ([LIKE | {"label": ["a", "b"]}], "label", (Edge(("a", "b"), Span(0, 4)),)),
        ([LIKE | {"label": []}], "label", (Edge((), Span(0, 4)),)),
        ([LIKE | {"label": [[2, 9, "VP"]]}], "label", (Edge("VP", Span(1, 3)),)),
        ([LIKE | {"label": [{"start": 0, "end": 1, "type": "NP"}]}], "label", (Edge("NP", Span(0, 1)),)),
        ([LIKE | {"label": {"entities": [[0, 1, "NP"]]}}], "label", (Edge("NP", Span(0, 1)),)),
        ([{"tokens": ["Ann", "ran"], "tags": ["B-PER", None]}], "tags", (Edge("B-PER", Span(0, 1)),)),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_cell_becomes_targets(rows: list[dict[str, Any]], annotation: str, edges: tuple[Edge, ...]) -> None:
    text, _ = only(rows)

    assert text.edges[annotation] == edges


def test_two_texts_are_two_segments() -> None:
    for row in (
        {"sentence1": "I like it", "sentence2": "She does", "label": "yes"},
        {"premise": "I like it", "hypothesis": "She does", "label": "yes"},
        {"words1": ["I", "like", "it"], "words2": ["She", "does"], "label": "yes"},
    ):
        text, _ = only([row])
        assert text.segments == (Span(0, 3), Span(3, 5))
        assert text.edges["label"] == (Edge("yes", Span(0, 5)),)


def test_one_row_per_word_and_one_row_per_span() -> None:
    words = [
        {"Sentence #": "1", "Word": "Ann", "Tag": "B-PER"},
        {"Sentence #": "", "Word": "Lee", "Tag": "I-PER"},
        {"Sentence #": "2", "Word": "Yes", "Tag": "O"},
    ]
    plan = plan_table([*words[0]], words, chosen={"ner": "tag"})
    first, second = texts_of(words, plan, "table")
    assert (first.words, first.edges["ner"], second.edges["ner"]) == (("Ann", "Lee"), (Edge("PER", Span(0, 2)),), ())

    spans = [
        {"text": "Ann Lee saw Bob", "start": 0, "end": 7, "label": "PER"},
        {"text": "Ann Lee saw Bob", "start": 12, "end": 15, "label": "PER"},
        {"text": "Nobody came", "start": None, "end": None, "label": None},
    ]
    first, second = texts_of(spans, plan_table([*spans[0]], spans), "table")
    assert first.edges["label"] == (Edge("PER", Span(0, 2)), Edge("PER", Span(3, 4)))
    assert second.edges["label"] == ()


def test_what_is_not_used_is_said() -> None:
    rows = [LIKE | {"n": 1, "when": "2020-01-01", "lang": "en"}, RAIN | {"n": 2, "when": "2020-01-02", "lang": "en"}]
    _, plan = only(rows)

    assert plan.in_words() == (
        "one text per row: text in 'text'; label: a class of the whole text; column 'n' is not used: too many "
        "different values for classes; column 'when' is not used: too many different values for classes; column "
        "'lang' is not used: it has one value only"
    )
    assert corpus_from(rows).left_out()["column 'lang' is not used: it has one value only"] == 1


def test_columns_can_be_chosen() -> None:
    rows = [{"review": "I like it", "title": "So so", "stars": "5"}, {"review": "No way", "title": "Bad", "stars": "1"}]
    text, plan = only(rows, chosen={"text": "Title", "text2": "review", "rating:value": "stars"})

    assert text.words == ("So", "so", "I", "like", "it")
    assert text.edges == {"rating": (Edge((), Span(0, 5), value=5.0),)}
    assert plan.texts == ("title", "review")


@pytest.mark.parametrize(
    ("rows", "chosen", "why"),
    [
        ([{"a": "x", "b": "y"}], {}, "no column holds texts; columns are a, b"),
        ([{"a": "one two three four five", "b": "one two three four six"}], {}, r"several columns hold texts \(a, b\)"),
        ([LIKE], {"text": "review"}, "no column 'review'; the columns are text, label"),
        ([{"word": "Dogs"}], {}, "needs a column `text`"),
        (
            [LIKE | {"label": [{"x": 1}]}],
            {"mine": "label"},
            "'label' cannot be the annotation 'mine': its cells are ne",
        ),
    ],
    ids=["none", "several", "absent", "words", "nested"],
)
def test_what_cannot_be_told_is_said(rows: list[dict[str, Any]], chosen: dict[str, str], why: str) -> None:
    with pytest.raises(UnplannedError, match=why):
        plan_table([*rows[0]], rows, chosen=chosen)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (LIKE | {"text": " "}, "expected a text; got|has no words"),
        (LIKE | {"text": 3}, "expected a text; got '3'"),
        (LIKE | {"label": [[0, 99, "x"], [50, 60, "y"]]}, "characters 50 to 60 of label hold no word"),
        (LIKE | {"label": [[0, 1, None]]}, "a span of label has no label"),
    ],
    ids=["blank", "number", "outside", "unlabelled"],
)
def test_rows_that_cannot_be_used_are_named(row: dict[str, Any], why: str) -> None:
    with pytest.raises(CorpusError, match=f"text 'table-1' cannot be used: .*({why})"):
        list(texts_of([row], plan_table([*row], [row]), "table"))


def test_a_dataset_s_features_say_what_its_columns_hold() -> None:
    datasets = pytest.importorskip("datasets")
    mood = datasets.ClassLabel(names=["bad", "good"])
    value = datasets.Value
    features = {"text": value("string"), "mood": mood, "moods": datasets.Sequence(mood), "grade": value("float32")}
    rows = {"text": ["I like it", "So so"], "mood": [1, -1], "moods": [[0, 1], []], "grade": [2.0, 1.0]}
    first, second = corpus_from(datasets.Dataset.from_dict(rows, features=datasets.Features(features)))

    whole = Span(0, 3)
    assert first.edges == {
        "mood": (Edge("good", whole),),
        "moods": (Edge(("bad", "good"), whole),),
        "grade": (Edge((), whole, value=2.0),),
    }
    assert "mood" not in second.edges, "-1 is unlabelled"


def test_lists_take_classes_values_pairs_and_running_text() -> None:
    first, second, third, fourth = corpus_from(
        [
            ("I like it.", {"mood": "good", "grade": 0.5, "none": None}),
            ((["Dogs", "bark"], ["Yes"]), {"nli": "entailed"}),
            (["So", "so"], {"kinds": {"b", "a"}, "own": Edge("x", Span(0, 1))}),
            ("Just text.", {"stars": 4}),
        ]
    )

    assert first.edges == {"mood": (Edge("good", Span(0, 4)),), "grade": (Edge((), Span(0, 4), value=0.5),)}
    assert (second.segments, second.edges["nli"]) == ((Span(0, 2), Span(2, 3)), (Edge("entailed", Span(0, 3)),))
    assert third.edges == {"kinds": (Edge(("a", "b"), Span(0, 2)),), "own": (Edge("x", Span(0, 1)),)}
    assert fourth.edges["stars"] == (Edge("4", Span(0, 3)),)


def test_a_frame_of_sentences() -> None:
    frame = pd.DataFrame({"sentence": ["I like it", "No"], "mood": ["good", None]}).assign(kind=["a", "a"])
    first, second = corpus_from(frame, annotations={"mood": "sentiment"})

    assert (first.edges, second.edges) == ({"sentiment": (Edge("good", Span(0, 3)),)}, {})
