"""Annotated trees, right-branching ones, and trees that weights span."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import minimum_spanning_tree

from lamina.analyses.heads.trees import UNKNOWN, DependencyTree, gold_tree, links_found, right_branching, spanning_trees
from lamina.types import Edge, Span, Text


def edge(label: str, dependent: int, head: int) -> Edge:
    return Edge((label,), Span(dependent, dependent + 1), Span(head, head + 1))


def a_text() -> Text:
    """`We saw a dog , Zoë`, the last word without annotation, the comma told by its tag alone."""
    dep = (edge("nsubj", 0, 1), edge("root", 1, 1), edge("det", 2, 3), edge("obj", 3, 1), edge("dep", 4, 1))
    pos = (Edge(("PUNCT",), Span(4, 5)),)
    return Text("t", ("We", "saw", "a", "dog", ",", "Zoë"), edges={"dep": dep, "pos": pos})


def test_the_annotated_tree_knows_root_punctuation_and_what_is_not_annotated():
    tree = gold_tree(a_text())
    assert tree.heads.tolist() == [2, 0, 4, 2, 2, UNKNOWN]
    assert tree.scored.tolist() == [True, True, True, True, False, False]
    assert tree.links.tolist() == [[0, 1], [2, 3], [3, 1]]


def test_punctuation_is_told_by_its_relation_too():
    text = Text("t", ("Go", "!", "!"), edges={"dep": (edge("root", 0, 0), edge("punct", 1, 0), edge("punct:x", 2, 0))})
    assert gold_tree(text).punctuation.tolist() == [False, True, True]
    assert len(gold_tree(text).links) == 0


def test_dependencies_of_several_words_have_no_head_to_find():
    text = Text("t", ("New", "York", "grows"), edges={"dep": (Edge(("nsubj",), Span(0, 2), Span(2, 3)),)})
    assert gold_tree(text).heads.tolist() == [UNKNOWN] * 3


def test_right_branching_hangs_each_word_on_the_next():
    assert right_branching(4).tolist() == [2, 3, 4, 0]
    assert right_branching(1).tolist() == [0]


def test_a_spanning_tree_by_hand():
    weights = np.zeros((4, 4))
    for one, other, weight in ((0, 1, 1), (0, 2, 5), (1, 2, 4), (1, 3, 2), (2, 3, 3)):
        weights[one, other] = weights[other, one] = weight
    # Of the edges, 0-2, 1-2 and 2-3 are the heaviest without a circle.
    assert spanning_trees(weights[None]).tolist() == [[0, 2, 0, 2]]


@given(st.integers(2, 12), st.integers(1, 4), st.integers(0, 999))
def test_spanning_trees_weigh_what_scipys_do(words: int, trees: int, seed: int):
    weights = np.random.default_rng(seed).uniform(0.1, 1, (trees, words, words))
    weights = weights + weights.transpose(0, 2, 1)
    for via, matrix in zip(spanning_trees(weights), weights, strict=True):
        rows, columns = minimum_spanning_tree(-np.triu(matrix, 1)).nonzero()
        expected = {frozenset(pair) for pair in zip(rows.tolist(), columns.tolist(), strict=True)}
        assert {frozenset((word, int(via[word]))) for word in range(1, words)} == expected


def test_links_count_whichever_way_they_point_and_punctuation_is_no_word():
    tree = gold_tree(a_text())
    weights = np.zeros((2, 6, 6))
    # The first points at the heads, and the comma draws everyone; the second chains neighbours.
    for dependent, head in tree.links:
        weights[0, dependent, head] = 0.5
    weights[0, :, 4] = 1.0
    weights[1] = -np.abs(np.arange(6)[:, None] - np.arange(6))
    assert links_found(weights, tree).tolist() == [3, 2]
    turned = weights.transpose(0, 2, 1)
    assert links_found(turned, tree).tolist() == [3, 2]


def test_a_lone_word_has_no_links():
    lone = DependencyTree(np.array([0]), np.array([False]))
    assert links_found(np.ones((3, 1, 1)), lone).tolist() == [0, 0, 0]
