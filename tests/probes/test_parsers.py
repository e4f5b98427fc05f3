"""Parser probes: scores written out pair by pair, the slip of the paper's code, and what they can learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lamina.probes.parsers import (
    ROOT,
    AttentionAndWords,
    AttentionOnly,
    DistanceAndWords,
    ParserInput,
    distance_features,
)

MAPS, WIDTH = 3, 4


def a_sentence(words: int, seed: int = 0) -> ParserInput:
    draw = torch.Generator().manual_seed(seed)
    return ParserInput(
        torch.rand(words, words, MAPS, generator=draw),
        torch.rand(words, 2, MAPS, generator=draw),
        torch.randn(words, WIDTH, generator=draw),
    )


def drawn(probe, seed: int = 1):
    draw = torch.Generator().manual_seed(seed)
    for weight in probe.parameters():
        weight.data = torch.randn(weight.shape, generator=draw)
    return probe


def pair_by_pair(probe: AttentionAndWords, sentence: ParserInput) -> np.ndarray:
    """W [v_i ; v_j] for every pair by itself, as the paper writes it."""
    count = len(sentence.vectors)
    words = [np.r_[vector.numpy(), 0.0] for vector in sentence.vectors]
    root = np.r_[np.zeros(WIDTH), 1.0]
    candidates = [*words, root] if probe.faithful else [root, *words]
    weights = {name: np.concatenate(list(value.detach().numpy())) for name, value in probe.named_parameters()}
    maps, special = sentence.maps.numpy(), sentence.special.numpy()
    scores = np.full((count, count + 1), -np.inf)
    for i in range(count):
        of = np.einsum("d,dck->ck", np.r_[words[i], candidates[0]], weights["root"])
        scores[i, 0] = (of * special[i]).sum()
        for j in range(count):
            if i != j:
                of = np.einsum("d,dck->ck", np.r_[words[i], candidates[j + 1]], weights["words"])
                scores[i, j + 1] = of[0] @ maps[i, j] + of[1] @ maps[j, i]
    return scores


@given(st.integers(1, 7), st.integers(0, 99), st.booleans())
def test_scores_in_parts_equal_those_of_every_pair_by_itself(words: int, seed: int, faithful: bool):
    probe, sentence = drawn(AttentionAndWords(MAPS, WIDTH, faithful=faithful), seed), a_sentence(words, seed)
    np.testing.assert_allclose(probe(sentence).detach().numpy(), pair_by_pair(probe, sentence), rtol=1e-4, atol=1e-4)


def test_attention_alone_is_attention_and_words_with_one_and_the_same_vector():
    """Both probes agree where every word brings the same weights."""
    alone, sentence = drawn(AttentionOnly(MAPS)), a_sentence(5)
    same = sentence._replace(vectors=torch.eye(WIDTH)[:1].expand(5, -1))
    both = AttentionAndWords(MAPS, WIDTH)
    both.words.data[0, 0], both.root.data[0, 0] = alone.words.data, alone.root.data
    torch.testing.assert_close(both(same), alone(same))


def test_the_slip_changes_the_candidates_vectors_and_nothing_else():
    fixed, slipped = (drawn(AttentionAndWords(MAPS, WIDTH, faithful=faithful)) for faithful in (False, True))
    sentence = a_sentence(4)
    assert not torch.allclose(fixed(sentence)[:, 0], slipped(sentence)[:, 0])
    for probe in (fixed, slipped):
        probe.words.data[1], probe.root.data[1] = 0, 0
    torch.testing.assert_close(fixed(sentence), slipped(sentence))


def test_no_probe_takes_a_word_for_its_own_head():
    for probe in (AttentionOnly(MAPS), AttentionAndWords(MAPS, WIDTH), DistanceAndWords(WIDTH, seed=0)):
        scores = probe(a_sentence(4))
        assert scores.shape == (4, 5)
        assert scores[:, 1:].diagonal().isneginf().all()
        assert int(scores.isinf().sum()) == 4


@pytest.mark.parametrize("faithful", [False, True])
def test_weights_of_true_heads_make_up_their_scores(faithful: bool):
    probe, sentence = drawn(AttentionAndWords(MAPS, WIDTH, faithful=faithful)), a_sentence(4)
    heads = torch.tensor([3, ROOT, 2, 1])
    words, root = probe.weights(sentence, heads)
    scores = probe(sentence)
    assert (words.shape, root.shape) == ((3, 2, MAPS), (1, 2, MAPS))
    below = torch.tensor([0, 2, 3])
    above = heads[below] - 1
    made = (words[:, 0] * sentence.maps[below, above] + words[:, 1] * sentence.maps[above, below]).sum(1)
    torch.testing.assert_close(made, scores[below, heads[below]])
    torch.testing.assert_close((root * sentence.special[1]).sum((1, 2)), scores[1, :1])


def test_eight_distance_features_tell_sides_and_short_distances_apart():
    features = distance_features(6)
    assert features.shape == (6, 6, 8)
    assert features[2, 1].tolist() == [1, 0, 0, pytest.approx(np.log(2)), 0, 0, 0, 0]
    assert features[2, 5].tolist() == [0, 0, 0, 0, 0, 0, 1, pytest.approx(np.log(4))]
    assert not features[3, 3].any()
    torch.testing.assert_close(features.transpose(0, 1)[..., :4], features[..., 4:])


def test_the_hidden_layer_is_drawn_by_its_seed():
    one, same, other = (DistanceAndWords(WIDTH, seed=seed) for seed in (3, 3, 4))
    sentence = a_sentence(3)
    torch.testing.assert_close(one(sentence), same(sentence))
    assert not torch.allclose(one(sentence)[:, 0], other(sentence)[:, 0])
