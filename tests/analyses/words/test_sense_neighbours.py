"""Nearest neighbours by blocks: as scikit-learn finds them, without a table of all pairs, and planted senses found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from torch.utils._python_dispatch import TorchDispatchMode

from lamina.analyses.words.senses import predictions
from lamina.analyses.words.senses.predictions import count_votes, predict_across, predict_within
from tests.analyses.words.planted_senses import planted_vectors, targets


class Largest(TorchDispatchMode):
    """The most numbers that any tensor made in here has."""

    most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for each in made if isinstance(made, tuple | list) else (made,):
            if isinstance(each, torch.Tensor):
                self.most = max(self.most, each.numel())
        return made


def unit(rows: int, width: int, seed: int) -> torch.Tensor:
    return torch.nn.functional.normalize(torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)), dim=1)


@given(st.integers(1, 40), st.integers(7, 60), st.integers(1, 7), st.integers(0, 10**6))
def test_votes_are_those_of_a_full_table(queries: int, rows: int, k: int, seed: int) -> None:
    asked, known = unit(queries, 6, seed), unit(rows, 6, seed + 1)
    votes = torch.eye(3)[torch.arange(rows) % 3]
    (counted,) = count_votes(asked, known, votes, [k])
    nearest = (asked @ known.T).topk(k, dim=1).indices
    assert counted.tolist() == votes[nearest].sum(1).tolist()


def test_blocks_change_nothing_and_no_table_of_all_pairs_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, known = unit(600, 8, 0), unit(700, 8, 1)
    votes = torch.eye(5)[torch.arange(700) % 5]
    whole = count_votes(asked, known, votes, [1, 9])
    monkeypatch.setattr(predictions, "ROWS", 64)
    monkeypatch.setattr(predictions, "QUERIES", 50)
    with Largest() as seen:
        parts = count_votes(asked, known, votes, [1, 9])
    assert [each.tolist() for each in parts] == [each.tolist() for each in whole]
    # 600 x 700 pairs; a block has 50 x 64, and what is handed back 600 x 5.
    assert seen.most <= 50 * 64 + 50 * 9


def test_vectors_that_are_the_same_all_vote() -> None:
    """At a layer without context, neighbours are as good as the most frequent sense, whatever rounding says."""
    same = unit(1, 16, 0).expand(9, 16)
    votes = torch.eye(2)[torch.tensor([0, 1, 1, 1, 1, 0, 1, 1, 0])]
    assert count_votes(same[:1], same, votes, [1])[0].tolist() == [[3.0, 6.0]]


def test_a_query_has_no_neighbours_in_its_own_group() -> None:
    rows = unit(3, 4, 0)
    groups = torch.tensor([0]), torch.tensor([0, 1, 1])
    counted = count_votes(rows[:1], rows, torch.eye(3), [1], groups=groups)[0]
    assert counted[0, 0] == 0
    assert counted.sum() == 1


@pytest.mark.parametrize("k", [1, 5])
def test_senses_are_those_that_scikit_learn_predicts(k: int) -> None:
    data = targets()
    vectors = planted_vectors(data, 1.0)
    predicted = predict_within(data, vectors, [k])
    for word, queries, rows in data.by_word():
        learned = KNeighborsClassifier(k, metric="cosine", algorithm="brute")
        learned.fit(vectors[rows].numpy(), data.gold[rows].argmax(1))
        centres = NearestCentroid().fit(vectors[rows].numpy(), data.gold[rows].argmax(1))
        at = np.searchsorted(data.scored, queries)
        # Words have two senses and k is odd, so that votes are never equal.
        assert predicted[f"knn{k}"][at].tolist() == learned.predict(vectors[queries].numpy()).tolist(), word
        middles = np.asarray(centres.centroids_)
        along = vectors[queries].numpy() @ (middles / np.linalg.norm(middles, axis=1)[:, None]).T
        assert predicted["centroid"][at].tolist() == np.asarray(centres.classes_)[along.argmax(1)].tolist()


def test_planted_senses_are_found_and_noise_is_not() -> None:
    data = targets()
    told = {
        strength: data.right(predict_within(data, planted_vectors(data, strength), [5])["knn5"])[data.ambiguous].mean()
        for strength in (0.0, 3.0)
    }
    assert told[3.0] > 0.95
    assert 0.35 < told[0.0] < 0.65


def test_words_with_one_sense_or_none_fall_back_on_the_most_frequent() -> None:
    data = targets()
    predicted = predict_within(data, planted_vectors(data, 0.0), [1])["knn1"]
    rock = data.words.index("rock")
    one = data.word[data.scored] == rock
    assert {data.labels[at] for at in predicted[one]} == {"stone"}
    assert not data.ambiguous[one].any()


def test_the_original_asks_no_more_neighbours_than_the_rarest_sense_has() -> None:
    data = targets()
    vectors = planted_vectors(data, 1.0)
    word, queries, rows = next(data.by_word())
    rarest = int(data.frequency[word][data.frequency[word] > 0].min())
    many = predict_within(data, vectors, [len(rows)], capped=True)[f"knn{len(rows)}"]
    few = predict_within(data, vectors, [rarest])[f"knn{rarest}"]
    at = np.searchsorted(data.scored, queries)
    assert many[at].tolist() == few[at].tolist()


def test_other_words_tell_classes_that_words_share() -> None:
    data = targets()
    right = data.right(predict_across(data, planted_vectors(data, 0.0), [1])["across1"])
    # Every planted sense belongs to one word, so that no other word has it.
    assert not right.any()
