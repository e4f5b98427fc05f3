"""Candidates for a gap: read off the vocabulary or filled in, with the same numbers, and never the wrong winner."""

from __future__ import annotations

import numpy as np
import pytest

from lamina.models.language.language_model import LanguageModel, language_model
from lamina.models.language.slots import Gap, Spelling, fill_gaps, rate, rate_shared, token_logprobs
from tests.language_models import tiny_causal, tiny_masked

CANDIDATES = ["dog", "cats", "fox", "unhesitating", "dollars", "quick"]
SLOTS = [Gap(str(at), f"The {word} sat on the ", " .") for at, word in enumerate(("dog", "lazy fox", "brown cats"))]


@pytest.fixture(scope="module", params=["masked", "causal"])
def model(request: pytest.FixtureRequest) -> LanguageModel:
    return language_model(tiny_masked() if request.param == "masked" else tiny_causal())


def test_one_list_for_all_gaps_gives_what_filling_gives(model: LanguageModel) -> None:
    every = list(fill_gaps(model, SLOTS, [CANDIDATES] * len(SLOTS)))
    expected = np.array([[each.logprob for each in own] for own in every])
    pieces = [each.pieces for each in every[0]]
    assert min(pieces) == 1 < max(pieces), "both kinds of candidates are needed"
    rated = list(rate_shared(model, SLOTS, CANDIDATES, always_scored=[3] * len(SLOTS)))
    found = np.array([each.logprobs for each in rated])
    scored = np.isfinite(found)
    assert scored[:, 3].all()
    assert scored.all() or model.kind == "causal"
    np.testing.assert_allclose(found[scored], expected[scored], atol=1e-4)
    assert rated[0].pieces.tolist() == pieces


@pytest.mark.parametrize("spelling", ["sum", "mean"])
def test_what_is_not_scored_could_not_have_won(model: LanguageModel, spelling: Spelling) -> None:
    every = list(fill_gaps(model, SLOTS, [CANDIDATES] * len(SLOTS)))
    rated = rate_shared(model, SLOTS, CANDIDATES, always_scored=[0] * len(SLOTS), spelling=spelling)
    for own, each in zip(every, rated, strict=True):
        compared = [filled.logprob / (filled.pieces if spelling == "mean" else 1) for filled in own]
        assert each.compared(spelling).argmax() == int(np.argmax(compared))


def test_ranks_are_among_all_pieces_of_the_vocabulary(model: LanguageModel) -> None:
    (vocabulary,) = token_logprobs(model, SLOTS[:1])
    (rated,) = rate(model, SLOTS[:1], [CANDIDATES])
    for at in range(len(CANDIDATES)):
        by_hand = 1 + int((vocabulary.double().numpy() > rated.logprobs[at] + 1e-6).sum())
        assert abs(rated.rank(at) - by_hand) <= 1
    best = int(vocabulary.argmax())
    assert rated.top(model, 1) == [model.encoder.token_names([best])[0].strip()]
