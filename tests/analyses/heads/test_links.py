"""Maps as their strongest links: nothing is lost but what is said to be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.analyses.heads.look import FLOOR, MOST, look, sentence_links, strongest
from lamina.testing import TinyEncoder


@given(st.integers(1, 40), st.floats(0.1, 20), st.integers(0, 1000))
def test_links_and_the_rest_make_up_a_row(size: int, sharp: float, seed: int):
    scores = np.exp(sharp * np.random.default_rng(seed).random((size, size)))
    weights = scores / scores.sum(1, keepdims=True)
    found = strongest(weights)
    rows = np.split(np.arange(len(found.to)), np.cumsum(found.counts)[:-1])
    for row, (at, whole) in enumerate(zip(rows, weights, strict=True)):
        assert found.weight[at].sum() + found.rest[row] == pytest.approx(1)
        assert found.weight[at].tolist() == whole[found.to[at]].tolist()
        assert (np.diff(found.weight[at]) <= 0).all()
        left = np.delete(whole, found.to[at])
        # What is left out is below the floor, or weaker than all of a full row.
        assert len(at) == MOST or (left < FLOOR).all()
        assert not len(left) or not len(at) or left.max() <= found.weight[at].min() or left.max() < FLOOR


@pytest.mark.parametrize("level", ["word", "piece"])
def test_lines_are_what_look_shows(level):
    encoder, sentence = TinyEncoder(blocks=2, heads=4), "The unhesitating dogs barked ."
    found = sentence_links(encoder, sentence, [(2, 4), (1, 1)], level=level)
    table = look(encoder, sentence, heads=["2-4", "1-1"], level=level).tables["attention"]
    size = len(found.units.names)
    # Head by head, row by row.
    weights = table["weight"].to_numpy(float).reshape(2, size, size)
    for whole, links in zip(weights, found.links, strict=True):
        origin = np.repeat(np.arange(size), links.counts)
        assert links.weight == pytest.approx(whole[origin, links.to], abs=1e-6)
        assert (links.counts == np.minimum((whole >= FLOOR).sum(1), MOST)).all()
    assert found.units.names == table["to_word"].tolist()[:size]
    assert [word for word in found.words if word >= 0] == sorted(word for word in found.words if word >= 0)
    assert (np.array(found.words) == -1).tolist() == found.units.special.tolist()
