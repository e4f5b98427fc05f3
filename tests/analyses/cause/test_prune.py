"""Pruning where the truth is planted: parts that do nothing, curves written by hand, orders that differ alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import t as student

import lamina
from lamina.analyses.cause.effects import ScoreChange, effects_of, measure
from lamina.analyses.cause.prune import CurvePoint, prune, save_point
from lamina.analyses.cause.removal_curve import (
    CONTRASTS,
    CURVE,
    SHARES,
    PruningCurve,
    PruningOrder,
    ScoreDraws,
    contrast_rows,
    curves,
    harm,
    importance,
    orders,
    parts_of,
    points_of,
    removed,
    score_draws,
    share_rows,
)
from lamina.corpora import Splits, corpus_from
from lamina.errors import CorpusError
from lamina.framework.verify import check_findings
from lamina.models import load_encoder
from lamina.models.interventions.interventions import Interventions
from lamina.models.interventions.pruned import save_pruned
from lamina.models.language.language_model import language_model
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.results import Provenance, Result
from lamina.results.finding import Finding
from lamina.targets.loss import LossTarget
from lamina.targets.target import SubsetTarget, TargetScores, halved, same_items
from lamina.training.provenance import ABOUT, FORMAT, GUARD, TEXTS, read_about, text_hash, used_texts
from lamina.types import Text
from tests.language_models import save, tiny_causal, tiny_masked

WORDS = ("the", "dog", "cats", "barked", "ran", "quick", "fox", ".")
IDLE = ((0, 1), (2, 0))
"""Heads whose output goes nowhere."""


def texts(count: int, seed: int = 0) -> list[Text]:
    rng = np.random.default_rng(seed)
    return [
        Text(f"s{seed}-{at}", tuple(str(word) for word in rng.choice(WORDS, 5 + at % 4)), doc=f"d{seed}-{at // 2}")
        for at in range(count)
    ]


def with_idle_heads() -> HuggingFaceEncoder:
    """A tiny GPT-2, three blocks of two heads, in which two heads do nothing."""
    encoder = tiny_causal()
    for block, head in IDLE:
        out: Any = Interventions(encoder).out(block)
        out.weight.data.unflatten(0, (2, -1))[head] = 0
    return encoder


def with_an_idle_block() -> HuggingFaceEncoder:
    """A tiny GPT-2 whose second block adds nothing."""
    encoder = tiny_causal()
    block: Any = Interventions(encoder).blocks[1]
    for part in (block.attn.c_proj, block.mlp.c_proj):
        part.weight.data.zero_()
        part.bias.data.zero_()
    return encoder


def test_halves_share_no_document_and_score_as_the_whole_does() -> None:
    encoder = tiny_causal()
    whole = LossTarget(language_model(encoder), texts(12))
    one, other = halved(whole, seed=3)
    assert not set(one.units) & set(other.units)
    assert sorted(one.items + other.items) == sorted(whole.items)
    parts = Interventions(encoder)
    edit = parts.without(1, heads=[0])
    (_, every), (_, some) = measure(parts, whole, [edit]), measure(parts, one, [edit])
    at = [whole.items.index(item) for item in one.items]
    np.testing.assert_allclose(some.hits, every.hits[at], rtol=1e-5)
    np.testing.assert_array_equal(some.counts, every.counts[at])
    assert same_items(whole, one).items == one.items
    with pytest.raises(CorpusError, match="there is only one document, pair or question; raise --items"):
        halved(SubsetTarget(whole, [0, 1]), seed=3)


@pytest.mark.parametrize("by", ["importance", "effect"])
def test_heads_that_do_nothing_go_first_and_cost_nothing(by: Any) -> None:
    encoder = with_idle_heads()
    parts, target = Interventions(encoder), LossTarget(language_model(encoder), texts(12))
    choosing, scored = halved(target, seed=0)
    points = points_of(6, None)
    (order,) = orders(parts, choosing, [by], "head", points=points, draws=1, seed=0, again=False)
    worth = order.worth
    assert worth is not None
    assert max(abs(worth[part]) for part in IDLE) < 1e-6 < min(abs(worth[part]) for part in set(parts.heads) - {*IDLE})
    # A head of random weights may do harm: it goes before those that do nothing.
    harmful = sum(each < -1e-6 for each in worth.values())
    assert harmful == 0 or by == "effect"
    assert set(order.parts[harmful : harmful + 2]) == set(IDLE)
    (curve,) = curves(parts, scored, [order], points, samples=50, seed=0)
    flat = curve.scored.value[harmful : harmful + 3]
    np.testing.assert_allclose(flat, flat[0], rtol=1e-6)


def test_a_block_that_adds_nothing_goes_first() -> None:
    encoder = with_an_idle_block()
    parts, target = Interventions(encoder), LossTarget(language_model(encoder), texts(8))
    by_gradient = importance(parts, target, "block")
    by_effect = harm(parts, target, parts_of(parts, "block"), ())
    for worth in (by_gradient, by_effect):
        assert min(worth, key=lambda part: abs(worth[part])) == (1, None)
        assert abs(worth[1, None]) < 1e-6
    # The gradient of a gate is how the loss changes when it is closed a little.
    rows = list(range(len(target.rows)))
    gates = torch.ones(len(rows), 3, dtype=torch.float32)
    gates[:, 0] -= 1e-2
    few, all_ = (
        target.loss(rows, parts.gated_block_states(target.rows, each, target.layers)).detach().numpy()
        for each in (gates, torch.ones_like(gates))
    )
    assert np.abs(all_ - few).sum() / 1e-2 == pytest.approx(by_gradient[0, None], rel=0.1)


def test_the_curve_is_the_score_of_the_saved_models(tmp_path: Path) -> None:
    encoder = tiny_causal()
    parts, some = Interventions(encoder), texts(6)
    target = LossTarget(language_model(encoder), some)
    order = PruningOrder("top", ((2, 1), (0, 0), (1, 1), (2, 0), (0, 1), (1, 0)))
    (curve,) = curves(parts, target, [order], [0, 3, 6], samples=20, seed=0)
    for at, many in enumerate((0, 3, 6)):
        saved = save_pruned(parts, order.without(many), tmp_path / str(many))
        score = measure(Interventions(saved), LossTarget(language_model(saved), some), [])[0]
        assert curve.scored.value[at] == pytest.approx(score.value, rel=1e-5)
    rows = list(curve.rows())
    assert [row[:4] for row in rows] == [("top", 0, 6, 1.0), ("top", 3, 3, 0.5), ("top", 6, 0, 0.0)]
    assert all(low <= value <= high for *_, value, low, high in rows)


def test_again_measures_what_is_left_once_others_are_gone() -> None:
    encoder = tiny_causal(seed=3)
    parts, target = Interventions(encoder), LossTarget(language_model(encoder), texts(8))
    every = parts_of(parts, "head")
    (order,) = orders(parts, target, ["effect"], "head", points=[0, 2, 4, 6], draws=1, seed=0, again=True)
    first = list(order.parts[:2])
    left = [part for part in every if part not in first]
    base, *worse = measure(parts, target, [removed([*first, part]).edit(parts) for part in left])
    assert base.value
    ranked = [left[at] for at in np.argsort([each.value for each in worse])]
    assert list(order.parts[2:4]) == ranked[:2]


@pytest.mark.parametrize(
    ("values", "lower", "gone"),
    [([0.9, 0.895, 0.85, 0.9], False, 2), ([3.0, 3.02, 3.03, 3.1], True, 4), ([0.5, 0.6, 0.7, 0.8], False, 6)],
    ids=["accuracy", "loss", "better"],
)
def test_the_share_ends_where_the_score_first_falls(values: list[float], lower: bool, gone: int) -> None:
    every = np.array(values)
    drawn = np.stack([every, every, every - 0.02 * (np.arange(4) > 0) * (1 - 2 * lower)])
    curve = PruningCurve("top", np.array([0, 2, 4, 6]), 6, ScoreDraws(every, drawn), lower)
    assert float(curve.share.value) == gone / 6
    assert curve.share.drawn[:2].tolist() == [gone / 6] * 2
    assert curve.share.drawn[2] <= gone / 6


def test_the_interval_of_random_orders_is_that_of_few_numbers() -> None:
    # Every document says the same, so only the orders differ.
    encoder = tiny_causal()
    parts = Interventions(encoder)
    same = [Text(f"s{at}", WORDS[:5], doc=f"d{at}") for at in range(6)]
    target = LossTarget(language_model(encoder), same)
    found = orders(parts, target, ["random"], "head", points=[0, 3, 6], draws=5, seed=0, again=False)
    assert len(found) == 5
    (curve,) = curves(parts, target, found, [0, 3, 6], samples=4000, seed=0)
    each = np.array([curves(parts, target, [one], [0, 3, 6], samples=20, seed=0)[0].scored.value[1] for one in found])
    low, high = student.interval(0.95, 4, each.mean(), each.std(ddof=1) / 5**0.5)
    assert curve.scored.value[1] == pytest.approx(each.mean(), rel=1e-6)
    assert (curve.scored.interval[0][1], curve.scored.interval[1][1]) == pytest.approx((low, high), rel=0.05)
    assert curve.scored.interval[1][0] - curve.scored.interval[0][0] == pytest.approx(0, abs=1e-6)


def test_one_document_has_no_interval() -> None:
    scores = measure(Interventions(tiny_causal()), LossTarget(language_model(tiny_causal()), texts(1)), [])
    found = score_draws(scores, ["d"], samples=10, seed=0)
    assert np.isfinite(found.value).all()
    assert np.isnan(found.interval).all()


def test_a_pruned_model_is_trained_on_and_remembers_its_texts() -> None:
    splits = Splits(
        corpus_from(texts(40, 1), name="own", split="train"), corpus_from(texts(10, 2), name="own", split="dev")
    )
    settings = {"targets": ["loss"], "by": ["importance", "random"], "save": "importance:2", "retrain": 4, "draws": 2}
    result = lamina.prune(tiny_masked(), splits, **settings, step=3, samples=20)
    table = result.tables["retrained"].set_index("model")
    assert table["removed"].to_dict() == {"pruned": 2, "whole": 0}
    curve = result.tables["curve"].set_index(["by", "removed"])["value"]
    assert table.loc["whole", "before"] == pytest.approx(curve["importance", 0], rel=1e-5)
    assert (table["difference"] < 0).all(), "random weights learn something in four steps"
    more = table.loc["pruned", "difference"] - table.loc["whole", "difference"]
    assert table.loc["pruned", "more"] == pytest.approx(more, rel=1e-5)
    assert not check_findings(result)
    order = result.tables["order"].query("by == 'importance'").head(2)
    folder = result.files["model/config.json"].parent
    saved = load_encoder(str(folder), device="cpu")
    assert isinstance(saved, HuggingFaceEncoder)
    parts = Interventions(saved)
    for layer, head in zip(order["layer"], order["head"], strict=True):
        out: Any = parts.out(layer - 1)
        assert not out.weight.T.unflatten(0, (2, -1))[head - 1].any()
    assert language_model(saved).kind == "masked"
    used = (folder / TEXTS).read_text().split()
    assert sorted(used) == sorted({text_hash(text) for text in splits.train})


def test_a_fine_tuned_model_stays_one(tmp_path: Path) -> None:
    folder = save(tiny_causal(), tmp_path / "tuned")
    (folder / ABOUT).write_text(json.dumps({"format": FORMAT, "task": "pos", "layers": 4, "guard": GUARD}))
    (folder / TEXTS).write_text(text_hash(texts(1)[0]) + "\n")
    encoder = load_encoder(str(folder), device="cpu")
    saved, _ = save_point(Interventions(encoder), [PruningOrder("top", ((2, None), (1, None)))], CurvePoint("top", 2))
    assert read_about(saved) == {"format": FORMAT, "task": "pos", "layers": 2, "guard": GUARD}
    assert used_texts(saved) == used_texts(folder)


def crossing(
    share: float, documents: int, rng: np.random.Generator, points: int = 10, spread: float = 0.002
) -> ScoreDraws:
    """The curve of a score that stays within a point until this share is gone, and falls by 3 points after."""
    gone = np.arange(points + 1) / points
    truth = 0.9 - 0.03 * (gone > share + 1e-9)
    hits = truth + rng.normal(0, spread, (documents, points + 1))
    scores = [TargetScores(each, np.ones(documents)) for each in hits.T]
    return score_draws(scores, [f"d{at}" for at in range(documents)], samples=400, seed=0)


def told(
    shares: dict[str, float], *, documents: int = 30, control: float = 0.2, data: dict[str, Any] | None = None
) -> list[Finding]:
    """The findings of an accuracy of .9 of which these shares can go, and of a twin with random weights."""
    rng = np.random.default_rng(0)
    points = np.arange(11)
    found = [
        PruningCurve(by, points, 10, crossing(share, documents, rng), lower_is_better=False, units=documents)
        for by, share in shares.items()
    ]
    whole = TargetScores(0.9 + rng.normal(0, 0.02, documents), np.ones(documents))
    twin = TargetScores(control + rng.normal(0, 0.02, documents), np.ones(documents))
    test = effects_of([ScoreChange(twin, whole, [f"d{at}" for at in range(documents)])])[0]
    beside = (twin.value, twin.value - 0.1, twin.value + 0.1, whole.value, test.effect, test.low, test.high, test.p)
    tables = {
        "curve": pd.DataFrame([row for curve in found for row in curve.rows()], columns=list(CURVE)),
        "shares": pd.DataFrame(share_rows(found), columns=list(SHARES)),
        "contrasts": pd.DataFrame(contrast_rows(found), columns=list(CONTRASTS)),
        "controls": pd.DataFrame(
            [("the twin with random weights", *beside, test.units, test.needed)],
            columns=list(prune.tables["controls"].columns),
        ),
    }
    about = Provenance({"name": "tiny"}, {"name": "own", "target": "tags", **(data or {})}, {"component": "head"})
    result = Result("prune", tables, about)
    result = replace(result, findings=prune.findings(result))
    assert not check_findings(result)
    return list(result.findings)


def test_findings_compare_orders_with_the_random_one_and_top_with_bottom() -> None:
    found = told({"importance": 0.6, "effect": 0.2, "random": 0.2, "top": 0.4, "bottom": 0.2})
    assert [each.status for each in found] == ["clear", "clear", "null"]
    first, second, third = found
    assert first.text == (
        "More heads can be removed by importance (gradient of a gate) than at random within 1 point: 60 % against 20 % "
        "(difference of the shares .40 [.40, .40])."
    )
    assert second.text.startswith(
        "More heads can be removed from the top layer down than from the bottom layer up within 1"
    )
    assert third.text.startswith(
        "As many heads can be removed by the effect of each alone as at random within 1 point: 20 % "
    )


def test_wrong_12_where_no_head_can_go_either_way_nothing_was_tested() -> None:
    found = told({"importance": 0.0, "random": 0.0, "top": 0.0, "bottom": 0.0})
    assert [each.status for each in found] == ["untested", "untested"]
    assert [each.text for each in found] == [
        "It was not tested whether more heads can be removed by importance (gradient of a gate) than at random "
        "within 1 point: no head could be removed either way within 1 point.",
        "It was not tested whether more heads can be removed from the top layer down than from the bottom layer "
        "up within 1 point: no head could be removed from either end within 1 point.",
    ]


def test_a_model_that_is_no_better_than_its_twin_has_nothing_to_lose() -> None:
    (nothing,) = told({"importance": 0.6, "random": 0.2}, control=0.9)
    assert nothing.status in ("open", "null")
    assert "the twin with random weights" in nothing.text
    assert "More heads" not in nothing.text


def test_few_documents_are_too_few_to_test_anything() -> None:
    (few,) = told({"importance": 0.6, "random": 0.2}, documents=5)
    assert few.status == "untested"
    assert few.text.startswith("5 documents are too few to test whether the whole model does better than the twin")


def test_wrong_15_few_scored_documents_warn() -> None:
    splits = Splits(
        corpus_from(texts(20, 1), name="own", split="train"), corpus_from(texts(24, 2), name="own", split="dev")
    )
    settings: dict[str, Any] = {"targets": ["loss"], "by": ["top", "bottom"], "step": 3, "samples": 20}
    result = lamina.prune(tiny_masked(), splits, **settings)
    # Twelve documents are read, six are scored.
    assert result.provenance.warnings[-1].startswith("Small sample: 6 documents (fewer than 10)")
    assert all("in 6 documents." in each.note for each in result.findings), result.findings
    assert result.findings
