"""Perturbed words against trees, tags and pairs made by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from lamina.analyses.behaviour.perturb.perturbations import (
    Lexicon,
    PerturbableText,
    Perturbation,
    joined,
    missing,
    order_of,
    pair_of,
    phrases_of,
)
from lamina.types import Edge, Span, Text

WORDS = ("the", "old", "dog", "sees", "a", "cat", "!", "so", "it", "runs", ".")
TAGS = ("DET", "ADJ", "NOUN", "VERB", "DET", "NOUN", "PUNCT", "ADV", "PRON", "VERB", "PUNCT")
HEADS = (2, 2, 3, 3, 5, 3, 3, 9, 9, 9, 9)


def text(id: str = "t", words: tuple[str, ...] = WORDS) -> Text:
    """Two sentences with parts of speech and dependencies."""
    pos = tuple(Edge((tag,), Span(at, at + 1)) for at, tag in enumerate(TAGS))
    dep = tuple(Edge(("x",), Span(at, at + 1), Span(head, head + 1)) for at, head in enumerate(HEADS))
    sentence = (Edge(("1",), Span(0, 7)), Edge(("2",), Span(7, 11)))
    return Text(id, words, edges={"pos": pos, "dep": dep, "sentence": sentence})


def moved(how: str, strength: float, id: str = "t", **settings: int) -> list[int]:
    return order_of(Perturbation(how, strength), PerturbableText.of(text(id)), **{"seed": 0, **settings})  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_ngrams_stay_whole_within_their_sentence_and_what_ends_it_in_its_place(size: int) -> None:
    seen = set()
    for id in map(str, range(20)):
        order = moved("shuffled", size, id)
        assert order[6] == 6
        assert order[10] == 10
        assert set(order[:6]) == set(range(6))
        assert set(order[7:10]) == {7, 8, 9}
        for start, end in ((0, 6), (7, 10)):
            for first in range(start, end, size):
                gram = list(range(first, min(first + size, end)))
                at = order.index(gram[0])
                assert order[at : at + len(gram)] == gram
        seen.add(tuple(order))
    assert len(seen) > 1


def test_within_ngrams_words_move_no_further_than_their_ngram() -> None:
    assert moved("shuffled_within", 1) == list(range(len(WORDS)))
    orders = [moved("shuffled_within", 3, str(id)) for id in range(20)]
    assert all({frozenset(o[:3]), frozenset(o[3:6]), frozenset(o[7:10])} == {
        frozenset({0, 1, 2}), frozenset({3, 4, 5}), frozenset({7, 8, 9})
    } for o in orders)  # fmt: skip
    assert len(set(map(tuple, orders))) > 5


def test_every_order_is_drawn_equally_often_and_again_by_the_same_key() -> None:
    written = [PerturbableText(str(at), ("a", "b", "c"), (Span(0, 3),)) for at in range(1200)]
    drawn = Counter(tuple(order_of(Perturbation("shuffled", 1), each, seed=3)) for each in written)
    assert len(drawn) == 6
    assert max(abs(count - 200) for count in drawn.values()) < 5 * (200 * 5 / 6) ** 0.5
    assert moved("shuffled", 1) == moved("shuffled", 1)
    others = {tuple(moved("shuffled", 1, seed=seed, draw=draw)) for seed in range(3) for draw in range(3)}
    assert len(others) > 5


def test_phrases_are_words_with_all_that_depends_on_them() -> None:
    # Right below the roots "sees" and "runs": the old dog; a cat; !; so; it; .
    assert phrases_of(HEADS, 1) == [[0, 1, 2], [4, 5], [6], [7], [8], [10]]
    assert phrases_of(HEADS, 2) == [[0], [1], [4]]
    # What crosses is moved among its own places: 0 and 2 depend on 3, 1 on the root 4.
    assert phrases_of((3, 4, 3, 4, 4), 1) == [[0, 2, 3], [1]]
    orders = [moved("phrases", 1, str(id)) for id in range(12)]
    assert all(
        set(o[:3]) == {0, 1, 2} and o[3] == 3 and set(o[4:6]) == {4, 5} and o[6:] == [6, 7, 8, 9, 10] for o in orders
    )
    assert len(set(map(tuple, orders))) > 5


def test_words_are_kept_by_share_and_by_part_of_speech() -> None:
    assert moved("content", 0.0) == [1, 2, 3, 5, 6, 7, 9, 10]
    assert moved("function", 0.0) == [0, 4, 6, 8, 10]
    # Half of ten words before the full stop; the rest keeps its order.
    assert moved("cut_first", 0.5) == [5, 6, 7, 8, 9, 10]
    assert moved("cut_last", 0.5) == [0, 1, 2, 3, 4, 10]
    assert moved("cut_last", 1.0) == [0, 10]


def test_what_a_text_lacks_is_named() -> None:
    bare = PerturbableText.of(Text("t", ("a", "b")))
    assert missing(Perturbation("phrases", 1), bare) == "dependencies"
    assert missing(Perturbation("function", 0.5), bare) == "universal parts of speech"
    assert missing(Perturbation("shuffled", 1), bare) is None
    other = Text("t", ("a",), edges={"pos": (Edge(("NNS",), Span(0, 1)),)})
    assert PerturbableText.of(other).tags is None, "only universal parts of speech tell content words"


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("Cats that we saw annoy Tim.", "Cats that we saw annoys Tim."),
        ("Who did Ann leave there?", "There did Ann leave who?"),
    ],
    ids=["a word replaced", "words moved"],
)
def test_both_sentences_of_a_pair_are_perturbed_alike(good: str, bad: str) -> None:
    for id in map(str, range(10)):
        one, two = pair_of(id, good, bad)
        first, second = (
            [each.words[n].lower() for n in order_of(Perturbation("shuffled", 1), each, seed=0)] for each in (one, two)
        )
        differing = [pair for pair in zip(first, second, strict=True) if pair[0] != pair[1]]
        assert differing == ([("annoy", "annoys")] if "annoy" in good else [])
    assert [joined(each.words) for each in pair_of("p", good, bad)] == [good, bad]


def test_words_that_only_one_sentence_has_leave_the_others_in_the_same_order() -> None:
    one, two = pair_of("p", "No cat has ever slept.", "The cat has slept.")
    first, second = (
        [each.words[n] for n in order_of(Perturbation("shuffled", 1), each, seed=1)] for each in (one, two)
    )
    shared = ("cat", "has", "slept", ".")
    assert [word for word in first if word in shared] == [word for word in second if word in shared]


def test_untagged_words_have_their_most_frequent_part_of_speech() -> None:
    lexicon = Lexicon([text()])
    assert lexicon.tags(("The", "it", "unheard", "?")) == ("DET", "PRON", "NOUN", "PUNCT")
    assert not Lexicon([Text("t", ("a",))])


def test_subject_and_object_of_the_main_clause_are_removed_with_all_that_depends_on_them() -> None:
    relations = ("det", "amod", "nsubj", "root", "det", "obj", "punct", "advmod", "nsubj", "root", "punct")
    tree = tuple(
        Edge((relation,), Span(at, at + 1), Span(head, head + 1))
        for at, (relation, head) in enumerate(zip(relations, HEADS, strict=True))
    )
    there = text()
    told = PerturbableText.of(Text("t", WORDS, edges={**there.edges, "dep": tree}))
    removed = {
        how: order_of(Perturbation(how, float("nan")), told, seed=0) for how in ("subject", "object", "arguments")
    }

    assert [WORDS[word] for word in removed["subject"]] == ["sees", "a", "cat", "!", "so", "runs", "."]
    assert [WORDS[word] for word in removed["object"]] == ["the", "old", "dog", "sees", "!", "so", "it", "runs", "."]
    assert [WORDS[word] for word in removed["arguments"]] == ["sees", "!", "so", "runs", "."]
    assert missing(Perturbation("arguments", float("nan")), told) is None
    bare = PerturbableText.of(text())
    assert missing(Perturbation("object", float("nan")), bare) == "an object", "relations x are neither"
    assert missing(Perturbation("subject", float("nan")), PerturbableText("t", ("a",), (Span(0, 1),))) == "dependencies"
