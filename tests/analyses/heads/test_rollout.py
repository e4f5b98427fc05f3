"""Attention rollout: a product of blocks worked by hand, and its place in `look`."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lamina.analyses.heads.look import ROLLOUT_COLUMNS, look, rollout, sentence_links, watch_sentence
from lamina.testing import TinyEncoder

SENTENCE = "The unhesitating dogs barked."


def test_two_blocks_of_two_heads_by_hand():
    first = [[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]
    second = [[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.2, 0.2, 0.6]], [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.6, 0.2, 0.2]]]
    after = rollout(torch.tensor([first, second]))
    # Means of heads: [1 0 0], [.5 .5 0], [.5 .5 0]; each halved, and a half of the token itself.
    assert after[0].numpy() == pytest.approx(np.array([[1, 0, 0], [0.25, 0.75, 0], [0.25, 0.25, 0.5]]))
    # Means of heads: [0 1 0], [0 0 1], [.4 .2 .4], so the block is [.5 .5 0], [0 .5 .5], [.2 .1 .7].
    # Row 1: .5 [1 0 0] + .5 [.25 .75 0]. Row 2: .5 [.25 .75 0] + .5 [.25 .25 .5].
    # Row 3: .2 [1 0 0] + .1 [.25 .75 0] + .7 [.25 .25 .5].
    by_hand = np.array([[0.625, 0.375, 0], [0.25, 0.5, 0.25], [0.4, 0.25, 0.35]])
    assert after[1].numpy() == pytest.approx(by_hand)


def test_a_decoder_never_reaches_what_comes_later():
    maps = torch.softmax(torch.randn(3, 2, 5, 5, generator=torch.Generator().manual_seed(0)), -1).tril()
    rolled = rollout(maps / maps.sum(-1, keepdim=True))
    assert rolled.triu(1).abs().max() == 0
    torch.testing.assert_close(rolled.sum(-1), torch.ones(3, 5))


@pytest.mark.parametrize("weights", ["attention", "norm"])
def test_look_has_it_for_every_layer(weights):
    encoder = TinyEncoder(blocks=3)
    table = look(encoder, SENTENCE, weights=weights).tables["rollout"]
    assert table.columns.tolist() == list(ROLLOUT_COLUMNS)
    assert len(table) == 3 * 7 * 7
    assert table.groupby(["layer", "from"])["weight"].sum().to_numpy() == pytest.approx(1, abs=1e-5)
    pieces = look(encoder, SENTENCE, weights=weights, level="piece").tables["rollout"]
    expected = rollout(watch_sentence(encoder, SENTENCE, weights=weights).maps)
    assert pieces["weight"].to_numpy() == pytest.approx(expected.flatten().numpy(), abs=1e-6)


def test_norm_weighting_changes_it():
    plain, weighted = (look(TinyEncoder(), SENTENCE, weights=each).tables["rollout"] for each in ("attention", "norm"))
    assert not np.allclose(plain["weight"], weighted["weight"], atol=1e-3)


def test_hidden_special_tokens_keep_their_share():
    table = look(TinyEncoder(), SENTENCE, special=False).tables["rollout"]
    assert table["from_word"].unique().tolist() == ["The", "unhesitating", "dogs", "barked", "."]
    assert (table.groupby(["layer", "from"])["weight"].sum() < 1).all()


def test_lines_take_it_in_place_of_a_head():
    encoder = TinyEncoder()
    found = sentence_links(encoder, SENTENCE, ["rollout", (1, 2)], level="piece")
    rolled = rollout(watch_sentence(encoder, SENTENCE).maps)[-1]
    strongest = found.links[0].weight[np.r_[0, np.cumsum(found.links[0].counts)[:-1]]]
    assert strongest == pytest.approx(rolled.amax(-1).numpy(), abs=1e-6)
    alone = sentence_links(encoder, SENTENCE, [(1, 2)], level="piece")
    assert found.links[1].weight.tolist() == alone.links[0].weight.tolist()
