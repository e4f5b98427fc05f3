"""Sums of unit vectors against pairs, silhouettes and mutual information against scikit-learn."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_mutual_info_score, silhouette_samples

from lamina.analyses.answering.groups import (
    ANSWER,
    GROUPS,
    MEASURES,
    OTHER,
    QUESTION,
    STABLE,
    SUPPORT,
    WORDS,
    EarlierWords,
    add_up,
    adjusted_mutual_information,
    agreement,
    best_clusters,
    kmeans,
    labels_of,
    measure,
    ordinary,
    pseudo_labels,
    unit_vectors,
)
from lamina.types import Edge, Span, Text

LAYERS, WIDTH = 3, 5
NOTHING = EarlierWords(torch.zeros(LAYERS, WIDTH), torch.zeros(LAYERS))


def states(tokens: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(tokens, LAYERS, WIDTH, generator=torch.Generator().manual_seed(seed))


def grouped(*owners: int) -> torch.Tensor:
    """[group, token] from the group of each token; all are words."""
    groups = torch.zeros(len(GROUPS), len(owners))
    groups[list(owners), range(len(owners))] = 1
    groups[WORDS] = 1
    return groups


def measured(
    vectors: torch.Tensor, groups: torch.Tensor, keep: torch.Tensor | None = None, before: EarlierWords = NOTHING
):
    keep = torch.ones(vectors.shape[:2], dtype=torch.bool) if keep is None else keep
    unit = unit_vectors(vectors, keep)
    table = measure(unit, keep, groups, add_up(unit, keep, groups), before)
    return {name: table[:, column] for column, name in enumerate(MEASURES)}


def cosine(one: torch.Tensor, other: torch.Tensor) -> float:
    return float(torch.cosine_similarity(one, other, dim=0))


def mean_cosine(vectors: torch.Tensor, pairs: list[tuple[int, int]], layer: int) -> float:
    return float(np.mean([cosine(vectors[a, layer], vectors[b, layer]) for a, b in pairs]))


OWNERS = (QUESTION, QUESTION, QUESTION, SUPPORT, SUPPORT, ANSWER, ANSWER, OTHER, OTHER, OTHER)


def test_sums_give_the_means_over_all_pairs() -> None:
    vectors = states(len(OWNERS))
    found = measured(vectors, grouped(*OWNERS))
    places = {group: [at for at, own in enumerate(OWNERS) if own == group] for group in set(OWNERS)}
    for layer in range(LAYERS):
        for group, own in places.items():
            pairs = list(combinations(own, 2))
            assert found[f"within_{GROUPS[group]}"][layer] == pytest.approx(
                mean_cosine(vectors, pairs, layer), abs=1e-5
            )
        for one, other in combinations((QUESTION, SUPPORT, ANSWER, OTHER), 2):
            pairs = list(product(places[one], places[other]))
            name = f"between_{GROUPS[one]}_{GROUPS[other]}"
            assert found[name][layer] == pytest.approx(mean_cosine(vectors, pairs, layer), abs=1e-5)
        near = found["between_question_support"][layer] - found["between_question_other"][layer]
        assert found["question_nearer_support"][layer] == pytest.approx(float(near), abs=1e-6)
        rest = [at for at, own in enumerate(OWNERS) if own != ANSWER]
        apart = mean_cosine(vectors, list(combinations(rest, 2)), layer)
        apart -= mean_cosine(vectors, list(product(places[ANSWER], rest)), layer)
        assert found["answer_apart"][layer] == pytest.approx(apart, abs=1e-5)


def test_the_silhouette_is_scikit_learns() -> None:
    vectors = states(len(OWNERS), seed=1)
    found = measured(vectors, grouped(*OWNERS))["answer_silhouette"]
    answer = np.array([own == ANSWER for own in OWNERS])
    for layer in range(LAYERS):
        expected = silhouette_samples(vectors[:, layer].numpy(), answer, metric="cosine")[answer].mean()
        assert found[layer] == pytest.approx(expected, abs=1e-5)


def test_an_outlier_counts_nowhere_at_its_layer() -> None:
    vectors = states(len(OWNERS))
    vectors[0, 1] *= 1000
    keep = ordinary(vectors)
    assert (~keep).nonzero().tolist() == [[0, 1]]
    found, without = measured(vectors, grouped(*OWNERS), keep), measured(vectors[1:], grouped(*OWNERS[1:]))
    for name in MEASURES[:-1]:
        torch.testing.assert_close(found[name][1], without[name][1], atol=1e-5, rtol=0, equal_nan=True)


def test_too_few_words_are_no_number() -> None:
    found = measured(states(4), grouped(QUESTION, QUESTION, SUPPORT, ANSWER))
    assert found["within_answer"].isnan().all()
    assert found["answer_silhouette"].isnan().all()
    assert found["within_other"].isnan().all()
    assert found["question_nearer_support"].isnan().all()
    assert found["predicted_apart"].isnan().all()
    assert found["anisotropy"].isnan().all()
    assert not found["answer_apart"].isnan().any()


def test_anisotropy_is_the_mean_cosine_with_earlier_documents() -> None:
    earlier, vectors = states(6, seed=2), states(len(OWNERS))
    whole = torch.ones(earlier.shape[:2], dtype=torch.bool)
    before = EarlierWords(unit_vectors(earlier, whole).sum(0), torch.full((LAYERS,), 6.0))
    found = measured(vectors, grouped(*OWNERS), before=before)["anisotropy"]
    pairs = [[cosine(one[1], other[1]) for one in vectors] for other in earlier]
    assert found[1] == pytest.approx(float(np.mean(pairs)), abs=1e-5)


def blobs(count: int, seed: int) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return (draw.normal(size=(count, 1, 4)) * 10 + draw.normal(size=(count, 12, 4))).reshape(-1, 4).astype(np.float32)


def spread(points: np.ndarray, labels: np.ndarray) -> float:
    return sum(float(((points[labels == k] - points[labels == k].mean(0)) ** 2).sum()) for k in np.unique(labels))


def test_clusters_are_as_tight_as_scikit_learns() -> None:
    layers = [blobs(3, seed=5), blobs(3, seed=6)]
    points = torch.from_numpy(np.stack(layers))
    labels = kmeans(points, torch.ones(points.shape[:2], dtype=torch.bool), 3, seed=0).numpy()
    for own, found in zip(layers, labels, strict=True):
        expected = KMeans(3, n_init=10, random_state=0).fit(own).inertia_
        assert spread(own, found) == pytest.approx(expected, rel=1e-3)


def test_the_number_of_clusters_is_that_of_the_highest_silhouette() -> None:
    points = torch.from_numpy(np.stack([blobs(2, seed=3), blobs(2, seed=4)]))
    keep = torch.ones(points.shape[:2], dtype=torch.bool)
    keep[0, 0] = False
    found = best_clusters(points, keep, range(2, 6), seed=0)
    assert [len(set(own.tolist()) - {-1}) for own in found.labels] == [2, 2]
    assert found.labels[0, 0] == -1
    assert (found.silhouettes > 0.5).all()
    np.testing.assert_allclose(found.stability, 1)
    assert torch.equal(found.labels, best_clusters(points, keep, range(2, 6), seed=0).labels)


def test_wrong_14_clusters_are_as_tight_as_the_best_of_200_starts() -> None:
    """Without structure, 4 starts ended 7 to 11 % above the best; 1 start was taken for every question."""
    points = np.random.default_rng(0).normal(size=(3, 40, 12)).astype(np.float32)
    keep = torch.ones(3, 40, dtype=torch.bool)
    for count in (4, 8):
        labels = kmeans(torch.from_numpy(points), keep, count, seed=1).numpy()
        for own, found in zip(points, labels, strict=True):
            assert spread(own, found) < 1.05 * KMeans(count, n_init=200, random_state=0).fit(own).inertia_


def test_wrong_14_clusters_that_depend_on_the_seed_are_told_by_their_stability() -> None:
    noise = torch.from_numpy(np.random.default_rng(0).normal(size=(1, 150, 60)).astype(np.float32))
    keep = torch.ones(1, 150, dtype=torch.bool)
    assert best_clusters(noise, keep, [6], seed=0).stability[0] < STABLE
    labels = np.arange(150) % 6
    found = agreement(noise.transpose(0, 1).contiguous(), keep.T, [(labels, labels, labels)], seed=0)
    assert (found[0, 0, 3:] < STABLE).all()


def test_many_points_are_put_into_the_clusters_of_some() -> None:
    draw = np.random.default_rng(0)
    owners = draw.integers(0, 2, 2500)
    points = torch.from_numpy((draw.normal(size=(2500, 3)) + 20 * owners[:, None]).astype(np.float32))[None]
    labels = kmeans(points, torch.ones(1, 2500, dtype=torch.bool), 2, seed=0)[0].numpy()
    assert adjusted_mutual_information(labels, owners) == pytest.approx(1)


def test_points_that_are_all_alike_can_be_clustered() -> None:
    labels = kmeans(torch.ones(1, 5, 3), torch.ones(1, 5, dtype=torch.bool), 2, seed=0)
    assert set(labels[0].tolist()) <= {0, 1}


partitions = st.integers(2, 40).flatmap(
    lambda size: st.tuples(*(st.lists(st.integers(0, 5), min_size=size, max_size=size) for _ in range(2)))
)


@given(partitions)
def test_mutual_information_is_scikit_learns(pair: tuple[list[int], list[int]]) -> None:
    one, other = (np.array(labels) for labels in pair)
    assert adjusted_mutual_information(one, other) == pytest.approx(adjusted_mutual_info_score(one, other), abs=1e-8)


def test_clusters_that_follow_sentences_agree_with_them() -> None:
    sentences = np.repeat([0, 1, 2], 6)
    vectors = torch.randn(18, LAYERS, WIDTH, generator=torch.Generator().manual_seed(0)) * 0.01
    vectors[range(18), 2, sentences] += 5
    keep = torch.ones(18, LAYERS, dtype=torch.bool)
    nothing = np.full(18, -1)
    dealt = np.random.default_rng(0).permutation(sentences)
    found = agreement(vectors, keep, [(sentences, nothing), (dealt, nothing)], seed=0)
    assert found[0, 2, 0] == pytest.approx(1)
    assert abs(found[1, 2, 0]) < 0.4
    assert np.isnan(found[:, :, 1]).all()


def test_labels_of_words() -> None:
    edges = {"ner": (Edge(("person",), Span(3, 4)), Edge(("place",), Span(5, 6)))}
    text = Text("a", ("Who", "ran", "?", "Ada", "in", "Rome"), (Span(0, 3), Span(3, 6)), edges)
    groups = np.zeros((len(GROUPS), 6), np.float32)
    groups[QUESTION, :3], groups[ANSWER, 3], groups[OTHER, 4:] = 1, 1, 1
    sentences = np.array([-1, -1, -1, 0, 0, 0])
    told, roles, kinds = labels_of(text, groups, sentences)
    assert told.tolist() == sentences.tolist()
    assert roles.tolist() == [QUESTION] * 3 + [ANSWER, OTHER, OTHER]
    assert kinds.tolist() == [-1, -1, -1, 0, -1, 1]


def test_pseudo_labels_keep_their_shape_and_their_words() -> None:
    edges = {"ner": (Edge(("person",), Span(2, 4)), Edge(("place",), Span(5, 6)), Edge(("place",), Span(7, 8)))}
    text = Text("a", tuple("abcdefgh"), (Span(0, 2), Span(2, 8)), edges)
    sentences = np.array([-1, -1, 0, 0, 0, 1, 1, 1])
    roles = np.array([QUESTION, QUESTION, SUPPORT, SUPPORT, ANSWER, OTHER, OTHER, OTHER])
    kinds = np.array([-1, -1, 0, 0, -1, 1, -1, 1])
    seen = set()
    for seed in range(20):
        moved = pseudo_labels(text, (sentences, roles, kinds), np.random.default_rng(seed))
        for own, other in zip((sentences, roles, kinds), moved, strict=True):
            assert ((own == -1) == (other == -1)).all()
        assert sorted(moved[0]) == sorted(sentences)
        assert (moved[1][:2] == QUESTION).all()
        assert sorted(moved[1]) == sorted(roles)
        # Neighbours stay neighbours: a run is cut in two at most once, where the end meets the start.
        assert (np.diff(moved[0][2:]) != 0).sum() <= 2
        # The two words of a mention have one kind.
        assert moved[2][2] == moved[2][3]
        seen.add(tuple(moved[0]))
    assert len(seen) > 2
