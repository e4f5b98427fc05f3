"""The planted language: one head copies the subject's number, and weights and attention show which."""

from __future__ import annotations

import numpy as np
import pytest

from lamina.analyses.cause.effects import measure
from lamina.models.interventions.interventions import Interventions
from lamina.models.language.language_model import language_model
from lamina.targets.loss import PairsTarget
from tests.planted_language import CUE, HEADS, agreement_pairs, copied, copying_head, planted, said, sentences


def test_the_verb_agrees_with_the_noun_and_with_nothing_else() -> None:
    for each in said(3, 50):
        assert each.words[each.noun].endswith("s") == each.plural == (not each.words[each.verb].endswith("s"))
        assert each.words[each.verb - 1] == CUE
    drawn = said(3, 400, dependent=False)
    agreeing = [each.plural != each.words[each.verb].endswith("s") for each in drawn]
    assert 0.4 < np.mean(agreeing) < 0.6


def test_pairs_differ_in_the_verb_alone_and_texts_carry_number_and_kind() -> None:
    for pair in agreement_pairs(4, 30):
        differing = [
            (one, other) for one, other in zip(pair.good.split(), pair.bad.split(), strict=True) if one != other
        ]
        assert len(differing) == 1
    texts = sentences(4, 40)
    assert {edge.labels[0] for text in texts for edge in text.edges["number"]} == {"singular", "plural"}
    assert {edge.labels[0] for text in texts for edge in text.edges["kind"]} == {"beast", "tool"}


def test_one_head_of_the_second_block_copies_the_number() -> None:
    model = planted(0)
    shares = copied(model, 60).clip(0)
    block, head = copying_head(model)
    assert block == 1
    assert shares[block, head] > 0.9 * shares.sum()


@pytest.mark.parametrize(
    ("dependent", "low", "high"), [(True, 0.99, 1.0), (False, 0.35, 0.65)], ids=["learned", "none"]
)
def test_agreement_is_known_only_where_there_is_some(dependent: bool, low: float, high: float) -> None:
    model = planted(0, dependent)
    target = PairsTarget(language_model(model), agreement_pairs(5, 100).pairs)
    parts = Interventions(model)
    edits = [parts.without(1, heads=[head]) for head in range(HEADS)]
    before, *after = measure(parts, target, edits)
    assert low <= before.value <= high
    if dependent:
        # Without the head that attention and weights show, it is guessing; no other head matters.
        worst = [abs(each.value - before.value) for each in after]
        assert int(np.argmax(worst)) == copying_head(model)[1]
        assert max(worst) > 0.3 > 0.1 > sorted(worst)[-2]
