"""The map of heads and the look at a sentence, on every architecture."""

from __future__ import annotations

import pytest

from lamina.analyses.heads.headmap import headmap
from lamina.analyses.heads.look import look
from lamina.corpora import corpus_from
from lamina.testing import SAMPLE_TEXTS


def test_the_heads_of_every_architecture_are_mapped(architecture, tiny_encoder):
    corpus = corpus_from([text for text in SAMPLE_TEXTS if len(text.segments) == 1], name="samples")
    result = headmap(tiny_encoder(architecture), corpus, samples=5)
    assert len(result.tables["points"]) == 6
    assert result.tables["points"].notna().all(axis=None)
    assert result.tables["divergences"]["mean"].between(0, 0.6932).all()


@pytest.mark.parametrize("weights", ["attention", "norm"])
@pytest.mark.parametrize("level", ["word", "piece"])
def test_every_architecture_shows_its_sentence(architecture, tiny_encoder, level, weights):
    encoder = tiny_encoder(architecture)
    tables = look(encoder, "The lazy dogs barked.", heads=["3-2"], level=level, weights=weights).tables
    table, rolled = tables["attention"], tables["rollout"]
    assert table.groupby("from")["weight"].sum().to_numpy() == pytest.approx(1, abs=1e-5)
    assert all(table["from_word"])
    if level == "word":
        words = [word for word in table["from_word"].unique() if not word.startswith(("[", "<"))]
        assert words == ["The", "lazy", "dogs", "barked", "."]
    assert rolled.groupby(["layer", "from"])["weight"].sum().to_numpy() == pytest.approx(1, abs=1e-5)
    if encoder.causal:
        for each in (table, rolled):
            assert (each.loc[each["to"] > each["from"], "weight"] == 0).all()
