"""Which layers and heads of two models correspond, whatever their depth."""

from __future__ import annotations

import math

import pandas as pd
import pytest
import torch

import lamina
from lamina.comparison.correspondence import (
    BEYOND,
    LAYERS,
    OTHER_LENGTH,
    HeadMatch,
    WordRelations,
    draw_texts,
    head_overlaps,
    layer_similarities,
    match_heads,
    read_texts,
)
from lamina.comparison.similarity import CkaSums, word_vectors
from lamina.corpora import corpus_from
from lamina.errors import InputError
from lamina.framework.registry import get_analysis
from lamina.results import Provenance, Result
from lamina.testing import TinyEncoder
from lamina.types import Text

TEXTS = [Text(str(at), ("the", f"dog{at}", "saw", "a", f"cat{at}", "now"), doc=f"d{at}") for at in range(24)]


def test_the_matrix_is_debiased_cka_of_every_pair_of_layers_and_without_each_group():
    one, other = TinyEncoder(blocks=2), TinyEncoder(blocks=3, seed=1)
    groups = [[0, 1, 2], [3, 4, 5]]
    matrix = layer_similarities(read_texts(one, TEXTS), read_texts(other, TEXTS), groups)
    assert (len(matrix), len(matrix[0])) == (3, 4)
    # The same from streamed moments, which never see a matrix of words by words.
    vectors = [[word_vectors(list(model.encode(TEXTS, ("states",))), layer)[0] for layer in range(model.layers)]
               for model in (one, other)]  # fmt: skip
    for row, left in zip(matrix, vectors[0], strict=True):
        for found, right in zip(row, vectors[1], strict=True):
            # Kernels are in float32.
            assert found.value == pytest.approx(CkaSums.of(left, right).cka(), abs=1e-4)
            assert found.without[0] == pytest.approx(CkaSums.of(left[3:], right[3:]).cka(), abs=1e-4)


def reading(maps: list[torch.Tensor], *, causal: bool = False) -> WordRelations:
    return WordRelations(torch.zeros(1, 4, 4), tuple(maps), (), len(maps[0]), causal)


def planted(order: list[int], seed: int) -> list[torch.Tensor]:
    """24 texts of five words; heads attend in one way each, with a little noise, in this order."""
    steps = torch.tensor([1, 2, 3])
    draws = torch.Generator().manual_seed(seed)
    maps = []
    for _ in range(24):
        weights = 0.05 * torch.rand(3, 5, 5, generator=draws)
        for head, step in enumerate(steps.tolist()):
            for word in range(5):
                weights[head, word, (word + step) % 5] += 1
        maps.append(weights[order])
    return maps


def matches_of(one: WordRelations, other: WordRelations) -> list[HeadMatch]:
    overlaps = head_overlaps(one, other, TEXTS, seed=0)
    assert overlaps is not None
    return match_heads(overlaps, (one.heads, other.heads), seed=0)


def test_heads_that_attend_alike_match_whatever_their_place():
    matches = matches_of(reading(planted([0, 1, 2], 0)), reading(planted([2, 0, 1], 1)))
    assert [(match.head, match.match_head) for match in matches] == [(1, 2), (2, 3), (3, 1)]
    assert all(match.mutual and match.agrees for match in matches)
    assert all(match.units == 12 for match in matches)
    assert all(match.value > 0.9 > 0.7 > match.baseline for match in matches)
    assert all(match.p_adjusted < 0.05 and match.diff_low > 0 for match in matches)
    assert all(match.difference == pytest.approx(match.value - match.baseline, abs=1e-6) for match in matches)


def test_heads_of_models_that_have_nothing_in_common_have_no_clear_match():
    noise = [torch.rand(3, 5, 5, generator=torch.Generator().manual_seed(seed)) for seed in range(48)]
    matches = matches_of(reading(noise[:24]), reading(noise[24:]))
    assert all(match.p_adjusted > 0.05 for match in matches)


def test_a_model_that_looks_back_only_is_compared_on_earlier_words():
    whole = reading(planted([0, 1, 2], 0))
    back = reading([maps.tril(-1) for maps in planted([0, 1, 2], 0)], causal=True)
    matches = matches_of(back, whole)
    assert [match.match_head for match in matches] == [1, 2, 3]
    assert all(match.value == pytest.approx(1, abs=1e-5) for match in matches)


def test_texts_are_short_few_and_from_everywhere():
    texts = [Text("long", ("word",) * 60), *(Text(str(at), ("word",) * 20) for at in range(60))]
    chosen, left_out = draw_texts(texts, words=500, seed=0)
    assert len(chosen) == 25
    assert (left_out[OTHER_LENGTH], left_out[BEYOND]) == (1, 35)
    places = [int(text.id) for text in chosen]
    assert places == sorted(places)
    assert max(places) > 40


def test_a_model_corresponds_to_itself_and_its_untrained_twin_does_not():
    model = TinyEncoder()
    result = lamina.correspondence(model, model, list(map(list, (text.words for text in TEXTS))), samples=50)
    layers = result.tables["layers"]
    same = layers[layers["layer"] == layers["other_layer"]]
    assert same["value"].to_numpy() == pytest.approx(1, abs=1e-4)
    assert (same["baseline"] < 0.9).all()
    assert same["difference"].to_numpy() == pytest.approx(same["value"] - same["baseline"])
    heads = result.tables["heads"]
    assert (heads[["layer", "head"]].to_numpy() == heads[["match_layer", "match_head"]].to_numpy()).all()
    assert heads["value"].to_numpy() == pytest.approx(1, abs=1e-4)
    assert result.provenance.corpus["words_read"] == 144


def test_of_few_documents_nothing_is_tested():
    result = lamina.correspondence(TinyEncoder(), TinyEncoder(seed=1), corpus_from(TEXTS[:4]), samples=20)
    layers, heads = get_analysis("correspondence").overview(result)
    assert [row[1] for row in layers.rows] == ["n/a"] * 3
    assert len(heads.rows) <= 4
    assert {finding.status for finding in result.findings} <= {"untested"}


def test_two_models_of_seeds_are_refused():
    with pytest.raises(InputError, match="holds the models of 2 seeds"):
        lamina.correspondence([TinyEncoder(), TinyEncoder(seed=1)], TinyEncoder(), [list(TEXTS[0].words)] * 3)


def test_a_finding_names_the_head_that_is_most_like_its_match():
    heads = [
        HeadMatch(1, 1, 2, 1, 0.97, 0.9, True, True, 0.07, 0.05, 0.09, 0.001, 9, 0, "document"),
        HeadMatch(1, 2, 2, 2, 0.9, 0.3, True, True, 0.6, 0.5, 0.7, 0.001, 9, 0, "document"),
        HeadMatch(2, 1, 2, 2, 0.95, 0.1, True, False, 0.85, 0.8, 0.9, 0.001, 9, 0, "document"),
    ]
    layers = pd.DataFrame([
        (2, beside, value, value, value, 0.1, value - 0.1, value - 0.2, value, 0.01, lead, lead, lead, p, math.isnan(p),
         9, 0, 0, "document")
        for beside, value, lead, p in ((0, 0.5, 0.3, 0.01), (1, 0.8, math.nan, math.nan))
    ], columns=list(LAYERS))  # fmt: skip
    about = Provenance({"name": "both", "a": {"name": "one"}, "b": {"name": "two"}}, {"name": "c"}, {})
    tables = {"layers": layers, "heads": pd.DataFrame(heads, columns=list(HeadMatch._fields))}
    result = Result("correspondence", tables, about)
    texts = [finding.text for finding in get_analysis("correspondence").findings(result)]
    assert any("The last layer of one is most like layer 1 of two" in text for text in texts)
    assert any("Head 1-2 of one attends like head 2-2 of two" in text for text in texts)
    assert any(
        text.startswith("2 of 3 heads of one attend like a head of two whose best match they are") for text in texts
    )
    assert not any("Head 2-1 of one attends like" in text for text in texts)
