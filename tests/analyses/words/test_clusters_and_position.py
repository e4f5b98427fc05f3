"""Clusters as scikit-learn scores them; planted positions found, and no others."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_mutual_info_score

from lamina.analyses.words.senses.position import (
    FrequentWordPlaces,
    chance_share,
    draw_texts,
    explained,
    find_pairs,
    find_places,
    likeness,
    mean_distance,
    movements,
    pair_means,
)
from lamina.analyses.words.senses.predictions import agreement, chosen_clusters, clusters_of, words_to_cluster
from lamina.models import Tokens
from lamina.testing import TinyEncoder
from lamina.types import Text
from tests.analyses.words.planted_senses import planted_vectors, targets, texts


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=4, max_size=60), st.integers(0, 99))
def test_agreement_is_scikit_learns(pairs: list[tuple[int, int]], seed: int) -> None:
    clusters, senses = (np.unique(each, return_inverse=True)[1] for each in zip(*pairs, strict=True))
    if min(len(set(clusters.tolist())), len(set(senses.tolist()))) < 2:
        return
    found = agreement(clusters, senses, seed=seed)
    # Both divide small differences of logarithms.
    assert found.ami == pytest.approx(adjusted_mutual_info_score(senses, clusters), abs=1e-6)


def test_shuffled_senses_agree_by_chance_only() -> None:
    senses = np.arange(200) % 2
    found = agreement(senses.copy(), senses)
    assert found.ami == pytest.approx(1, abs=1e-9)
    assert abs(found.null.mean()) < 0.01
    again = [adjusted_mutual_info_score(senses, np.random.default_rng(at).permutation(senses)) for at in range(100)]
    # Two samples of 100 from one distribution.
    assert found.null.std() == pytest.approx(np.std(again), rel=0.6)


@pytest.mark.parametrize("method", ["kmeans", "agglomerative"])
def test_clusters_of_planted_senses(method) -> None:
    data = targets()
    vectors = planted_vectors(data, 4.0).numpy()
    words = words_to_cluster(data, most=10)
    assert {data.words[each.word] for each in words} == {"bank", "mole", "plant"}
    for each in words:
        own = vectors[each.rows]
        assert agreement(clusters_of(own, 2, method).of, each.senses).ami > 0.9
        assert agreement(chosen_clusters(own, method).of, each.senses).ami > 0.9


def test_k_means_has_enough_starts_and_says_how_stable_it_is() -> None:
    """With few starts the sum of squares lay above the best of many, and other seeds gave other clusters."""
    hard = np.random.default_rng(0).normal(size=(60, 40))
    hard /= np.linalg.norm(hard, axis=1, keepdims=True)
    found, again = (clusters_of(hard, 4, "kmeans", seed) for seed in (0, 1))
    best = KMeans(4, n_init=400, random_state=0).fit(hard).inertia_ or 0  # pyright: ignore[reportArgumentType]
    assert found.within < 1.02 * best
    assert again.within == pytest.approx(found.within, rel=0.02)
    by_hand = sum(((hard[found.of == at] - hard[found.of == at].mean(0)) ** 2).sum() for at in range(4))
    assert found.within == pytest.approx(by_hand)
    assert found.stability < 0.5
    apart = np.repeat(np.eye(40)[:4], 15, axis=0) + 0.01 * hard
    assert clusters_of(apart, 4, "kmeans").stability == 1
    assert len(set(clusters_of(np.ones((9, 3)), 3, "kmeans").of.tolist())) == 1


def places_and_vectors(of_place: float, seed: int = 0) -> tuple[FrequentWordPlaces, torch.Tensor]:
    made = texts(300, "train")
    places = find_places(made, [text.doc or text.id for text in made], TinyEncoder(), seed=seed)
    rng = np.random.default_rng(seed)
    words, where = rng.normal(size=(int(places.word.max()) + 1, 16)), rng.normal(size=(30, 16))
    vectors = words[places.word] + of_place * where[places.start] + rng.normal(size=(len(places), 16))
    return places, torch.from_numpy(vectors).float()


def test_a_planted_share_of_position_is_measured_and_none_is_none() -> None:
    # Places and noise vary as much where strength is 1: half, less what bins of several places and few words lose.
    for strength, low, high in ((0.0, -0.1, 0.02), (1.0, 0.2, 0.5), (6.0, 0.5, 1.0)):
        places, vectors = places_and_vectors(strength)
        assert low < explained(places, vectors, "start").value < high
        assert chance_share(places, vectors, "start").value < 0.02


def test_words_of_other_pieces_are_other_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """As byte-level tokenizers have it: the first word is spelled without a space."""
    made = texts(300, "train")
    encoder, plain = TinyEncoder(), TinyEncoder().tokenize

    def tokenize(text: Text) -> Tokens:
        found = plain(text)
        return found._replace(ids=found.ids + 1000 * (found.words == 0))

    monkeypatch.setattr(encoder, "tokenize", tokenize)
    places = find_places(made, [text.id for text in made], encoder)
    assert all(len(set((places.start[places.word == word] == 0).tolist())) == 1 for word in np.unique(places.word))
    assert explained(places, torch.randn(len(places), 8), "start").value < 0.1


def test_shuffling_keeps_the_places_of_each_word() -> None:
    places, _ = places_and_vectors(0.0)
    for order in places.shuffles:
        assert (places.word[order] == places.word).all()
        assert sorted(order.tolist()) == list(range(len(places)))


def test_distances_and_likeness_within_words_by_hand() -> None:
    places = FrequentWordPlaces(
        np.array([0, 1, 2]), np.zeros((3, 2), int), np.array([0, 0, 1]), np.arange(3), np.arange(3), np.zeros(3, int), 0
    )
    vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    # One pair at a squared distance of 2; the other word occurs once.
    assert mean_distance(places, vectors) == pytest.approx(2)
    assert likeness(places, vectors)[:2].tolist() == [0, 0]


def test_near_pairs_are_more_alike_where_positions_are_planted() -> None:
    data = targets()
    pairs = find_pairs(data)
    assert (data.word[pairs.first] == data.word[pairs.second]).all()
    assert (data.gold[pairs.first] == data.gold[pairs.second]).all()
    where = torch.from_numpy(np.random.default_rng(0).normal(size=(40, 24)).cumsum(0)).float()
    moved = torch.nn.functional.normalize(where[data.spans[:, 0]], dim=1)
    _, means = pair_means(pairs, moved)
    assert (means[:, 0] > means[:, 1]).all()


def test_moved_sentences_keep_their_words(monkeypatch: pytest.MonkeyPatch) -> None:
    skipped: Counter[str] = Counter()
    own = draw_texts(texts(30, "train"), 10)
    found = movements(TinyEncoder(), own, by=5, seed=0, skipped=skipped)
    assert set(found) == {"sentence"}
    assert any("not shifted" in reason for reason in skipped)
    moved = found["sentence"]
    assert moved.words.tolist() == [len(text.words) for text in own]
    assert (moved.sums > 0).all()
    # Nothing moves where nothing is put before a sentence.
    monkeypatch.setattr("lamina.analyses.words.senses.position.put_after", lambda texts, seed: list(texts))
    assert movements(TinyEncoder(), own, by=5, seed=0, skipped=skipped)["sentence"].sums.max() < 1e-4
