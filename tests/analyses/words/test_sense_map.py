"""The map of a word's contexts, how far its classes lie apart, and the rule that chooses an example."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import silhouette_samples

from lamina.analyses.words.occurrences import WordOccurrences
from lamina.analyses.words.sense_map import best_examples, plane, separation
from lamina.errors import CorpusError

SHAPES = st.tuples(st.integers(1, 12), st.integers(1, 6), st.integers(0, 2**16))


def vectors(shape: tuple[int, int, int]) -> np.ndarray:
    rows, width, seed = shape
    return np.random.default_rng(seed).standard_normal((rows, width)).astype(np.float32)


@given(SHAPES)
def test_the_plane_is_principal_components(shape):
    some = vectors(shape)
    seen = plane(some)
    centred = some - some.mean(0)
    values = np.sort(np.linalg.eigvalsh(centred.T @ centred))[::-1]
    spread = np.square(seen.points).sum(0)
    assert spread[: min(2, len(values))] == pytest.approx(values[:2], abs=1e-3)
    assert seen.points.mean(0) == pytest.approx([0, 0], abs=1e-5)
    if len(some) > 1:
        assert seen.explained == pytest.approx(values[:2].sum() / values.sum(), abs=1e-4)


@given(SHAPES, SHAPES)
def test_signs_agree_with_the_layer_below(shape, other):
    before = plane(vectors(shape)).points
    seen = plane(vectors((shape[0], other[1], other[2])), before)
    assert ((seen.points * before).sum(0) >= -1e-9).all()


def test_one_context_is_a_point_without_variance():
    seen = plane(np.ones((1, 4), np.float32))
    assert seen.points.tolist() == [[0, 0]]
    assert np.isnan(seen.explained)


def test_classes_apart_stand_above_shuffled_ones():
    rng = np.random.default_rng(0)
    some = rng.normal(0, 0.1, (16, 3)) + np.repeat(np.eye(3)[:2], 8, axis=0)
    found = separation(some, ["food"] * 8 + ["act"] * 8)
    assert found.silhouette > 0.8
    assert abs(found.shuffled) < 0.1
    assert found.by_context.mean() == pytest.approx(found.silhouette)


@given(st.integers(4, 20), st.integers(2, 4), st.integers(0, 2**16))
def test_silhouettes_are_scikit_learns(rows, classes, seed):
    rng = np.random.default_rng(seed)
    some, labels = rng.standard_normal((rows, 5)), rng.integers(classes, size=rows)
    counts = np.bincount(labels, minlength=classes)
    if (counts == 1).any() or (counts > 0).sum() < 2:
        return
    found = separation(some, [f"c{label}" for label in labels], least=2)
    expected = silhouette_samples(some, labels, metric="cosine")
    assert found.by_context == pytest.approx(expected, abs=1e-9)


def test_resampled_documents_drawn_once_give_the_silhouette_itself():
    rng = np.random.default_rng(0)
    some, classes = rng.standard_normal((12, 4)), ["food"] * 6 + ["act"] * 6
    weights = np.stack([np.ones(12), np.tile([2.0, 1.0], 6), np.repeat([1.0, 0.0], 6)])
    found = separation(some, classes, weights=weights)
    assert found.draws[0] == pytest.approx(found.silhouette)
    assert found.draws[1] != pytest.approx(found.silhouette)
    assert np.isnan(found.draws[2]), "a sample without the other class has nothing to compare with"


def test_silhouette_by_hand():
    # Two classes at a right angle, no spread within: a = 0, b = 1 for every context.
    some = np.array([[1.0, 0.0]] * 2 + [[0.0, 2.0]] * 2)
    assert separation(some, ["food", "food", "act", "act"], least=2).silhouette == pytest.approx(1)


@pytest.mark.parametrize(
    "classes", [["food"] * 6, ["food"] * 5 + ["act"], ["food"] * 5 + ["act+food"] * 5, [""] * 12]
)  # fmt: skip
def test_fewer_than_two_comparable_classes_have_no_separation(classes):
    found = separation(np.eye(len(classes)), classes)
    assert np.isnan([found.silhouette, found.shuffled, *found.by_context]).all()


def occurrences(classes: dict[str, list[str]]) -> WordOccurrences:
    types = tuple(classes)
    words = [(number, name) for number, word in enumerate(types) for name in classes[word]]
    found = {at: name for at, (_, name) in enumerate(words) if name}
    return WordOccurrences("made", types, np.array([number for number, _ in words]), (len(words),), found)


def test_the_best_example_is_the_one_whose_classes_lie_farthest_apart():
    words = occurrences(
        {
            "mixed": ["food"] * 5 + ["act"] * 5,
            "apart": ["food"] * 5 + ["act"] * 5 + ["", "act+food"],
            "rare": ["food"] * 5 + ["act"] * 4,
            "single": ["food"] * 30,
        }
    )
    rng = np.random.default_rng(0)
    some = rng.normal(0, 0.2, (len(words.type_of), 4)) + 1
    some[10:15] += [3, 0, 0, 0]
    some[15:20] += [0, 3, 0, 0]
    found = best_examples(words, torch.from_numpy(some).float())
    assert [(each.word, each.classes, each.contexts) for each in found] == [("apart", 2, 10), ("mixed", 2, 10)]
    assert found[0].silhouette > 0.5 > found[1].silhouette


def test_no_example_is_said():
    with pytest.raises(CorpusError, match="name one with --word"):
        best_examples(occurrences({"single": ["food"] * 30}), torch.ones(30, 2))
