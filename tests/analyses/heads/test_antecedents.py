"""Mentions, their types and heads, and the rules that choose antecedents, on sentences made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from lamina import load_corpus
from lamina.analyses.heads.corefheads import BASELINES, Anaphor, MentionReader, anaphors, choose
from lamina.types import Edge, Span, Text


def tag(*tags: str) -> tuple[Edge, ...]:
    return tuple(Edge((each,), Span(at, at + 1)) for at, each in enumerate(tags))


def chain(name: str, *spans: tuple[int, int]) -> tuple[Edge, ...]:
    return tuple(Edge((name,), Span(*span)) for span in spans)


#         0      1      2    3    4     5      6    7      8    9     10
WORDS = ("Mary", "saw", "a", "dog", "and", "the", "dog", "saw", "her", "see", "Mary")
TAGS = tag("NNP", "VBD", "DT", "NN", "CC", "DT", "NN", "VBD", "PRP", "VB", "NNP")
CHAINS = (*chain("m", (0, 1), (8, 9), (10, 11)), *chain("d", (2, 4), (5, 7)))


def story(name: str) -> Text:
    return Text(name, WORDS, edges={"chains": CHAINS, "xpos": TAGS})


def test_the_mentions_of_a_text_and_who_they_may_mean():
    found = {each.mention.head: each for each in anaphors(story("s"))}
    assert sorted(found) == [6, 8, 10]
    assert [each.head for each in found[8].candidates] == [6, 3, 0]
    assert found[10].antecedents == {0, 8}
    assert [found[at].mention.type for at in (6, 8, 10)] == ["nominal", "pronoun", "proper"]


def test_every_baseline_on_mentions_whose_answers_are_known():
    # nearest: dog -> Mary? no, the dog at 3; her -> dog, wrong; Mary -> her, right.
    found = anaphors(story("s"))
    chosen = {name: [choose(each, sieves) for each in found] for name, sieves in BASELINES.items()}
    heads = {name: [each and each.head for each in some] for name, some in chosen.items()}
    assert heads == {"nearest": [3, 6, 8], "head match": [3, None, 0], "rules": [3, 6, 0]}


def test_sieves_are_tried_in_order_and_the_nearest_within_one_wins():
    words = ("The", "old", "men", "met", "Ann", ",", "the", "men", "and", "Bo", ";", "they", "met", "the", "old", "men")
    spans = [(0, 3), (4, 5), (6, 8), (9, 10), (11, 12), (13, 16)]
    edges = {
        "chains": chain("x", *spans),
        "xpos": tag(
            "DT", "JJ", "NNS", "VBD", "NNP", ",", "DT", "NNS", "CC", "NNP", ":", "PRP", "VBD", "DT", "JJ", "NNS"
        ),
    }
    found = {each.mention.span.start: each for each in anaphors(Text("t", words, edges=edges))}
    # Full string over the nearer head match; number over the nearer Bo; head match over all.
    assert choose(found[13], BASELINES["rules"]).span == Span(0, 3)
    assert choose(found[13], BASELINES["head match"]).span == Span(6, 8)
    assert choose(found[11], BASELINES["rules"]).span == Span(6, 8)
    assert choose(found[11], BASELINES["nearest"]).span == Span(9, 10)


@pytest.mark.parametrize(
    ("one", "other", "agree"),
    [
        ("he", "her", False),
        ("she", "her", True),
        ("they", "he", False),
        ("i", "me", True),
        ("i", "we", False),
        ("you", "he", False),
        ("it", "this", True),
        ("it", "him", False),
        ("Kim", "she", True),
        ("Kim", "we", False),
        ("woman", "he", False),
        ("mother", "she", True),
        ("who", "him", True),
    ],
)
def test_number_gender_and_person(one: str, other: str, agree: bool):
    reader = MentionReader(Text("t", (one, other)))
    first, second = (reader.read(Span(at, at + 1)) for at in (0, 1))
    assert first.agrees(second) is second.agrees(first) is agree


def test_titles_and_tags_say_number_and_gender():
    text = Text(
        "t", ("Mr.", "Smith", "and", "Co.", "cats", "he"), edges={"xpos": tag("NNP", "NNP", "CC", "NNP", "NNS", "PRP")}
    )
    reader = MentionReader(text)
    assert reader.read(Span(0, 2)).form == ("singular", "masculine", "third")
    assert reader.read(Span(4, 5)).form.number == "plural"
    joined = Text(
        "t",
        text.words,
        edges={
            "dep": (
                Edge(("nsubj",), Span(1, 2), Span(5, 6)),
                Edge(("flat",), Span(0, 1), Span(1, 2)),
                *(Edge(("conj",), Span(at, at + 1), Span(1, 2)) for at in (2, 3)),
            )
        },
    )
    assert MentionReader(joined).read(Span(0, 4)).form.number == "plural"


def test_the_head_of_a_mention_by_dependencies_constituents_or_place():
    words = ("the", "king", "of", "the", "hill", "sat")
    heads = (1, 5, 4, 4, 1, 5)
    dep = tuple(Edge(("x",), Span(at, at + 1), Span(head, head + 1)) for at, head in enumerate(heads))
    const = (
        Edge(("NP-SBJ",), Span(0, 5)),
        Edge(("NP",), Span(0, 2)),
        Edge(("PP-LOC",), Span(2, 5)),
        Edge(("NP",), Span(3, 5)),
    )
    span = Span(0, 5)
    assert MentionReader(Text("t", words, edges={"dep": dep})).head(span) == 1
    assert MentionReader(Text("t", words, edges={"const": const})).head(span) == 1
    tags = tag("DT", "NN", "IN", "DT", "NN", "VBD")
    assert MentionReader(Text("t", words, edges={"const": const, "pos": tags})).head(span) == 1
    assert MentionReader(Text("t", words)).head(span) == 4
    root = MentionReader(Text("t", words, edges={"dep": dep}))
    assert root.head(Span(0, 6)) == 5


def test_types_without_tags_are_told_by_the_words():
    reader = MentionReader(Text("t", ("Her", "dog", "Rex", "his")))
    assert [reader.read(Span(at, at + 1)).type for at in range(4)] == ["pronoun", "nominal", "proper", "pronoun"]


def test_nobody_is_chosen_where_nobody_passes():
    reader = MentionReader(Text("t", ("Ann", "she")))
    anaphor = Anaphor(reader.read(Span(1, 2)), (), frozenset({0}))
    assert all(choose(anaphor, sieves) is None for sieves in BASELINES.values())


@pytest.mark.data
def test_real_chains_have_the_shape_of_the_papers_baselines(data_dir):
    corpus = load_corpus(data_dir / "gum_open", "dev", unit="document")
    found = [each for text in corpus for each in anaphors(text)]
    right = {
        name: np.mean([(one := choose(each, sieves)) is not None and one.head in each.antecedents for each in found])
        for name, sieves in BASELINES.items()
    }
    assert right["nearest"] < right["head match"] < right["rules"]
    assert {each.mention.type for each in found} == {"pronoun", "proper", "nominal"}
