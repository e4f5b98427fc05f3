"""Induction heads: found where they are planted, absent where nothing is, and never asked of an encoder."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import lamina
from lamina.analyses.heads.attention import attention
from lamina.analyses.heads.surface import COPY, INDUCTION, InductionMeter, induction_heads, sequences_of
from lamina.framework.verify import check_findings
from lamina.framework.watch import WatchedBatch, WatchedText
from lamina.models import SPECIAL, Tokens
from lamina.testing import TinyEncoder
from lamina.types import Text
from tests.language_models import tiny_causal

TEXTS = [["Dogs", "bark", "."], ["Cats", "do", "not", "bark", "."]] * 3


class Inducing(TinyEncoder):
    """Head 2 of block 2 gives `share` of its attention to the token after the last earlier copy of its token."""

    share = 0.8

    def __init__(self) -> None:
        super().__init__(causal=True)

    def encode(self, texts, want=("states",), *, ordered=True):
        for made in super().encode(texts, want, ordered=ordered):
            yield made if made.maps is None else replace(made, maps=self._planted(made.maps, made.tokens.ids))

    def _planted(self, maps: torch.Tensor, ids: np.ndarray) -> torch.Tensor:
        maps = maps.clone()
        for at, token in enumerate(ids):
            earlier = np.flatnonzero(ids[:at] == token)
            if len(earlier):
                maps[1, 1, at] *= 1 - self.share
                maps[1, 1, at, earlier[-1] + 1] += self.share
        return maps

    def random_twin(self, seed: int = 0, *, keep_embeddings: bool = False) -> TinyEncoder:
        return TinyEncoder(causal=True, seed=seed + 1)


def test_a_planted_induction_head_is_found_and_no_other():
    result = attention(Inducing(), TEXTS, samples=10)
    table = result.tables["induction"].set_index(["layer", "head"])
    assert tuple(table.reset_index().columns) == INDUCTION
    planted = table.loc[2, 2]
    # What the head does by itself adds a little.
    assert 0.8 <= planted["value"] <= 0.82
    assert planted["low"] <= planted["value"] <= planted["high"]
    assert planted["unrepeated"] < 0.05
    assert planted["diff_low"] > 0.7
    assert planted["p_adjusted"] < 0.001
    assert planted["twin"] < 0.05
    assert induction_heads(table.reset_index())[["layer", "head"]].to_numpy().tolist() == [[2, 2]]
    assert table.reset_index()["induction"].tolist() == [False, False, False, True]
    (told,) = [each for each in result.findings if "earlier copy" in each.text]
    assert (told.status, told.unit, told.n) == ("clear", "sequence", 20)
    assert told.text.startswith("Head 2-2 gives 8")
    assert "of its attention from repeated tokens to the token after their earlier copy; without a copy" in told.text
    assert check_findings(result) == []
    assert result.provenance.model["induction"] == "20 sequences of 25 random tokens, said twice"


def test_a_model_without_induction_has_no_such_head():
    result = attention(TinyEncoder(causal=True), TEXTS, samples=10)
    assert induction_heads(result.tables["induction"]).empty
    (told,) = [each for each in result.findings if "induction" in each.text]
    assert told.status == "null"
    assert told.text.startswith("No head is an induction head: head ")
    assert check_findings(result) == []


def test_few_sequences_are_untested():
    result = attention(TinyEncoder(causal=True), TEXTS, samples=10, repeated=5)
    assert result.tables["induction"]["p_adjusted"].isna().all()
    (told,) = [each for each in result.findings if "induction" in each.text]
    assert told.text.startswith("5 sequences are too few to test whether any head is an induction head")


def test_the_share_is_that_of_the_token_after_the_copy():
    """By hand: tokens [CLS] x a b c a b c; the second a, b attend to b, c by .5 and .3, and to their copies by .2."""
    maps = torch.zeros(1, 1, 8, 8)
    maps[0, 0, 5, 3], maps[0, 0, 6, 4] = 0.5, 0.3
    maps[0, 0, 5, 2], maps[0, 0, 6, 3] = 0.2, 0.2
    # The last one has no token after its copy in the first half.
    maps[0, 0, 7, 5] = 0.9
    tokens = Tokens(np.array([1, 4, 5, 6, 7, 5, 6, 7]), np.array([SPECIAL, 0, 1, 2, 3, 4, 5, 6]))
    meter = InductionMeter(3)
    meter.update(WatchedBatch.of([WatchedText(Text("repeated 0", tuple("xabcabc")), tokens, maps)]))
    assert meter.values("repeated").item() == pytest.approx(0.4)
    assert meter.copies().item() == pytest.approx(0.2)
    assert meter.uniform == pytest.approx((1 / 6 + 1 / 7) / 2)


def test_sequences_are_of_words_that_are_one_token_each_and_follow_from_the_seed():
    encoder = tiny_causal()
    made = sequences_of(encoder, 3, seed=0)
    assert made is not None
    # The tiny vocabulary has room for less than usual.
    assert 4 <= made.size <= COPY
    for text, other in zip(made.repeated, made.unrepeated, strict=True):
        tokens = encoder.tokenize(text)
        # What becomes of the first word does not matter.
        ids = tokens.ids[tokens.words > 0].tolist()
        assert len(ids) == 2 * made.size
        assert ids[: made.size] == ids[made.size :]
        assert len(set(ids)) == made.size
        assert other.words[1 + made.size :] == text.words[1 + made.size :]
        assert set(other.words[1 : 1 + made.size]).isdisjoint(text.words)
    assert made == sequences_of(encoder, 3, seed=0)
    assert made != sequences_of(encoder, 3, seed=1)


def test_decoders_have_nothing_about_the_next_token_and_encoders_no_induction():
    decoder = attention(TinyEncoder(causal=True), TEXTS, samples=10)
    encoder = attention(TinyEncoder(), TEXTS, samples=10)
    for name, column in (("surface", "measure"), ("layers", "kind")):
        assert "to_next" not in set(decoder.tables[name][column])
        assert "to_next" in set(encoder.tables[name][column])
    assert "induction" not in encoder.tables
    assert encoder.provenance.model["induction"].startswith("not measured: attention in both directions")
    charts = lamina.figures.draw(decoder)
    assert "induction" in charts
    assert "next token" not in " ".join(lamina.figures.captions_for(decoder).values())
    assert not any("next token" in str(chart.to_dict()) for chart in charts.values())
    none = attention(TinyEncoder(causal=True), TEXTS, samples=10, repeated=0)
    assert "induction" not in none.tables
