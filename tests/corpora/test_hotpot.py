"""HotpotQA in both layouts."""

from __future__ import annotations

import json

import pytest

from lamina.corpora.corpus import View
from lamina.corpora.questions import hotpot
from lamina.corpora.questions.question import answer_text
from lamina.corpora.reading import Notes
from lamina.errors import InputError

CONTEXT = [
    ["Lake", ["The Lake song is old.", " It was sung by Lees.", ""]],
    ["Ann", ["Ann Lee is a singer.", " She wrote The Lake.", " She likes tea."]],
    ["Bob", ["Bob met Lee.", " He is tall."]],
]
FACTS = [["Ann", 1], ["Lake", 0]]


def _item(**more):
    return {"_id": "h1", "question": "Who sang?", "answer": "Lee", "context": CONTEXT, "supporting_facts": FACTS} | more


def _hub(item):
    """The same question as the Hugging Face hub lays it out, without an id."""
    context = {"title": [t for t, _ in item["context"]], "sentences": [s for _, s in item["context"]]}
    facts = {"title": [t for t, _ in item["supporting_facts"]], "sent_id": [n for _, n in item["supporting_facts"]]}
    made = item | {"context": context, "supporting_facts": facts}
    del made["_id"]
    return made


def _read(tmp_path, *items, **settings):
    path = tmp_path / "hotpot_dev.json"
    path.write_text(json.dumps(list(items), indent=1), encoding="utf-8")
    assert hotpot.looks_like(path)
    faults, noted = [], Notes()
    return list(hotpot.questions(path, faults.append, noted, View(**settings))), faults, noted.ids


def _supporting(question):
    return [answer_text(question, edge.other) for edge in question.text.edges["sup"] if edge.labels == ("1",)]


@pytest.mark.parametrize("layout", [lambda item: item, _hub])
def test_both_layouts_give_the_same(tmp_path, layout):
    (question,), faults, noted = _read(tmp_path, layout(_item()))
    assert (faults, noted) == ([], {})
    assert question.text.id == question.text.doc == ("h1" if layout(_item()).get("_id") else "hotpot_dev-1")
    assert question.context.startswith("The Lake song is old. It was sung by Lees. Ann Lee is a singer.")
    assert len(question.text.edges["sentence"]) == 7, "the empty sentence is none"
    assert _supporting(question) == ["The Lake song is old.", "She wrote The Lake."]


def test_the_answer_is_placed_in_a_supporting_fact_if_it_can_be(tmp_path):
    lake, lee = _read(tmp_path, _item(answer="The Lake"), _item(_id="h2"))[0]
    assert lake.text.edges["answer"][0].span.start == lake.text.segments[1].start
    (edge,) = lee.text.edges["answer"]
    before = lee.context[: lee.offsets[edge.span.start - 3][0]]
    assert before.endswith("Ann "), "a whole word goes before the start of one (Lees)"


def test_support_only_is_made_of_the_supporting_facts(tmp_path):
    (question,), _, _ = _read(tmp_path, _item(answer="old"), setting="support")
    assert question.context == "The Lake song is old. She wrote The Lake."
    assert [edge.labels for edge in question.text.edges["sup"]] == [("1",), ("1",)]
    assert answer_text(question, question.text.edges["answer"][0].span) == "old"
    assert question.task == "hotpot_support"
    assert _read(tmp_path, _item(), setting="support")[2] == {hotpot.NOWHERE: ("h1",)}
    with pytest.raises(InputError, match="setting is distractor or support; got 'both'"):
        _read(tmp_path, _item(), setting="both")


def test_whole_paragraphs_of_distractors_are_dropped_and_those_with_facts_stay(tmp_path):
    whole = _read(tmp_path, _item(answer="old"))[0][0]
    (question,), _, noted = _read(tmp_path, _item(answer="old"), max_words=len(whole.text.words) - 1)
    assert noted == {hotpot.SHORTENED: ("h1",)}
    assert question.context == whole.context.removesuffix(" Bob met Lee. He is tall.")
    assert question.text.origin == whole.text.origin
    (tight,), _, noted = _read(tmp_path, _item(answer="old"), max_words=1)
    assert tight.context == question.context
    assert noted == {hotpot.SHORTENED: ("h1",), hotpot.LONG: ("h1",)}


def test_which_paragraphs_are_dropped_depends_on_the_question_and_the_seed_alone(tmp_path):
    more = [[f"More {n}", [f"Sentence {n} of a distractor."]] for n in range(12)]
    items = [_item(_id=f"h{n}", answer="old", context=[*CONTEXT, *more]) for n in range(4)]

    def contexts(*asked, **view):
        return {question.text.id: question.context for question in _read(tmp_path, *asked, max_words=60, **view)[0]}

    every = contexts(*items)
    assert contexts(*reversed(items[1:])) == {id: context for id, context in every.items() if id != "h0"}
    assert len(set(every.values())) > 1
    assert contexts(*items, seed=1) != every


def test_what_is_left_out_is_noted_by_id(tmp_path):
    items = [
        _item(_id="y", answer="yes"),
        _item(_id="n", answer="No"),
        _item(_id="w", answer="Zed"),
        _item(_id="p", supporting_facts=[["Ann", 1], ["Ann", 9]]),
    ]
    found, faults, noted = _read(tmp_path, *items)
    assert [question.text.id for question in found] == ["p"]
    assert faults == []
    assert noted == {hotpot.YES_NO: ("y", "n"), hotpot.NOWHERE: ("w",), hotpot.POINTLESS: ("p",)}


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"context": []}, "the context is empty"),
        ({"context": [["A", [" "]]]}, "the context is empty"),
        ({"context": [["A", [3]]]}, "cannot be read"),
        ({"context": 3}, "cannot be read"),
        ({"supporting_facts": None}, "cannot be read"),
        ({"question": ""}, "the question is empty"),
        ({"answer": None}, "the answer is empty"),
        ({"_id": "a"}, "the id is used twice"),
    ],
)
def test_faults_name_the_question_and_the_rest_is_read(tmp_path, changes, what):
    found, faults, _ = _read(tmp_path, _item(_id="a"), _item(_id="bad") | changes, _item(_id="b"))
    assert [question.text.id for question in found] == ["a", "b"]
    assert [what in fault.what for fault in faults] == [True]
    assert f"question {changes.get('_id', 'bad')}: " in faults[0].what
