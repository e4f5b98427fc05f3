"""Readable or used: what is planted is found, and verdicts follow from intervals."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import lamina
from lamina.analyses.cause import erasure as erase_effects
from lamina.analyses.cause.effects import Effect
from lamina.analyses.cause.erase import erase, findings_of
from lamina.analyses.cause.erasure import (
    CONCEPT,
    CONTROL,
    OPEN,
    RANDOM,
    UNKNOWN,
    UNUSED,
    USED,
    ErasureEffects,
    ErasureScores,
    LayerErasers,
    compare_layers,
    measure_target,
    variances_alike,
    verdict_of,
)
from lamina.corpora import corpus_from
from lamina.corpora.splits import Splits
from lamina.errors import CorpusError, TaskError
from lamina.framework.verify import check_findings
from lamina.models.interventions.interventions import Interventions
from lamina.models.language.language_model import language_model
from lamina.probes.erasers import Eraser
from lamina.results import Provenance, Result
from lamina.results.finding import Source, rows_of
from lamina.targets.choice import TargetData
from lamina.targets.loss import LossTarget
from lamina.targets.target import TargetScores
from lamina.types import Edge, Span, Text
from tests.language_models import tiny_masked
from tests.planted_language import agreement_pairs, planted, sentences


@lru_cache(maxsize=2)
def planted_tables(random: str = "variance") -> dict[str, pd.DataFrame]:
    splits = Splits(corpus_from(sentences(101, 1000), name="planted"), corpus_from(sentences(102, 100), name="planted"))
    asked = {
        "tasks": ["number", "kind"],
        "layers": [1],
        "targets": ["pairs"],
        "items": 200,
        "learn": 1000,
        "words": 100,
    }
    material = TargetData(splits, agreement_pairs(103, 200))
    return dict(erase.function(planted(0), material, **asked, samples=300, draws=5, random=random, twin=False).tables)


def test_erasing_number_destroys_agreement_and_a_distractor_does_not() -> None:
    table = planted_tables()["erase"].set_index(["task", "what"])
    number, kind = table.loc[("number", CONCEPT)], table.loc[("kind", CONCEPT)]
    assert number["baseline"] > 0.95
    assert number["value"] < 0.7
    assert number["verdict"] == USED
    assert kind["value"] > 0.95
    assert kind["verdict"] == UNUSED
    for what in (RANDOM, CONTROL):
        assert table.loc[("number", what), "value"] > 0.85


def test_both_are_readable_before_and_neither_after() -> None:
    table = planted_tables()["readable"].set_index("task")
    for task in ("number", "kind"):
        row = table.loc[task]
        assert row["before"] > 0.95
        assert row["after_low"] <= row["constant"] <= row["after_high"]
        assert row["known"]
        assert row["gone"]


def test_subspaces_have_one_dimension_and_agree_with_the_table_of_effects() -> None:
    tables = planted_tables()
    assert (tables["subspaces"]["rank"] == 1).all()
    assert tables["subspaces"]["what"].value_counts().to_dict() == {CONCEPT: 2, RANDOM: 10, CONTROL: 2}
    effects = tables["erase"].set_index(["task", "what"])["effect"]
    for row in tables["differences"].itertuples():
        own = float(effects.loc[(row.task, CONCEPT)]) - float(effects.loc[(row.task, row.against)])
        assert row.difference == pytest.approx(own, abs=1e-9)


def verdict(
    concept: tuple[float, float],
    random: tuple[float, float],
    control: tuple[float, float],
    variance: float = 0.17,
    **read: Any,
) -> str:
    """The verdict from intervals of harm to an accuracy."""

    def harming(ends: tuple[float, float]) -> Effect:
        middle = -sum(ends) / 2
        # Clear where the interval does not hold 0.
        return Effect(0.9, 0.9 + middle, middle, -ends[1], -ends[0], 0.5 if ends[0] <= 0 <= ends[1] else 0.001, 40)

    measured = ErasureEffects(
        1,
        {CONCEPT: 1, RANDOM: 1, CONTROL: 1},
        {CONCEPT: 0.17, RANDOM: variance, CONTROL: 0.1},
        {CONCEPT: harming(concept)},
        {RANDOM: harming(random), CONTROL: harming(control)},
        100,
    )
    ahead = SimpleNamespace(needed=0)
    readable: Any = SimpleNamespace(**{"known": True, "gone": True, "before": (0.9, 0.8, 1.0), "ahead": ahead, **read})
    return verdict_of(measured, readable, "pairs", -1)


@pytest.mark.parametrize(
    ("intervals", "read", "expected"),
    [
        (((0.2, 0.3), (0.1, 0.3), (0.1, 0.2)), {}, USED),
        (((0.2, 0.3), (0.1, 0.3), (-0.1, 0.2)), {}, OPEN),
        (((-0.01, 0.01), (-0.3, -0.1), (-0.1, 0.0)), {}, UNUSED),
        (((0.2, 0.3), (-0.01, 0.01), (-0.1, 0.01)), {}, UNUSED),
        (((0.2, 0.3), (-0.3, -0.1), (-0.3, -0.1)), {}, OPEN),
        (((-0.2, 0.3), (-0.2, 0.3), (-0.2, 0.3)), {}, OPEN),
        (((0.2, 0.3), (0.1, 0.3), (0.1, 0.2)), {"gone": False}, OPEN),
        (((0.2, 0.3), (0.1, 0.3), (0.1, 0.2)), {"known": False}, UNKNOWN),
        (((0.2, 0.3), (0.1, 0.3), (0.1, 0.2)), {"known": False, "before": (np.nan,) * 3}, OPEN),
        (((0.2, 0.3), (0.1, 0.3), (0.1, 0.2)), {"known": False, "ahead": SimpleNamespace(needed=6)}, OPEN),
        (((0.2, 0.3), (0.1, 0.3), (0.1, 0.2)), {"variance": 0.06}, OPEN),
        (((-0.01, 0.01), (-0.3, -0.1), (-0.1, 0.0)), {"variance": 0.06}, OPEN),
    ],
    ids=[
        "used",
        "as control",
        "nothing",
        "as random",
        "less than random",
        "wide",
        "not gone",
        "unknown",
        "no probe",
        "untested",
        "17 % and 6 %",
        "nothing, and 17 % and 6 %",
    ],
)
def test_verdicts(
    intervals: tuple[tuple[float, float], tuple[float, float], tuple[float, float]], read: dict[str, Any], expected: str
) -> None:
    assert verdict(*intervals, **read) == expected


def test_wrong_13_nothing_is_known_and_used_beside_subspaces_of_another_variance() -> None:
    # The concept took 17 % of the variance, random subspaces 6 %, and "known and used" was told.
    assert not variances_alike(0.17, 0.06)
    tables = planted_tables("rank")
    (row,) = rows_of(Source("differences", {"task": "number", "against": RANDOM}).rows(tables["differences"]))
    assert not variances_alike(row.variance, row.other_variance)
    (number,) = rows_of(Source("erase", {"task": "number", "what": CONCEPT}).rows(tables["erase"]))
    assert number.verdict == OPEN
    result = Result("erase", tables, Provenance({"name": "m"}, {"name": "c"}, {}))
    found = {each.claim: each for each in findings_of(result)}
    (about,) = (each for each in found.values() if "number" in each.claim)
    assert about.status == "untested"
    assert "of the variance at layer 1, random subspaces" in about.text


def test_what_was_compared_is_told_and_stands_in_the_tables() -> None:
    tables = planted_tables()
    result = Result("erase", tables, Provenance({"name": "m"}, {"name": "c"}, {}))
    used, unused = findings_of(result)
    assert used.status == "clear"
    assert used.text.startswith("Accuracy on minimal pairs needs number at layer 1, where it is readable: without it")
    assert used.contrast.startswith("layer 1: concept minus ")
    assert "of the variance at layer 1, random subspaces" in used.note
    assert unused.status == "null"
    assert "does not need kind at layer 1, where it is readable" in unused.text
    assert check_findings(replace(result, findings=(used, unused))) == []


def test_one_more_random_subspace_is_rarely_taken_for_a_concept() -> None:
    """The interval of the difference holds 0 about 95 % of the time where the concept is but another draw."""
    rng, found, times = np.random.default_rng(0), 0, 200
    counts, units = np.full(40, 10.0), tuple(map(str, range(40)))
    for _ in range(times):
        base = rng.normal(30, 3, 40)
        draws = [TargetScores(base + 10 * rng.normal(0, 0.1) + rng.normal(0, 0.5, 40), counts) for _ in range(6)]
        after = {CONCEPT: draws[:1], RANDOM: draws[1:], CONTROL: draws[1:2]}
        even = dict.fromkeys(after, 0.1)
        erased = ErasureScores(1, dict.fromkeys(after, 1), even, TargetScores(base, counts), after, units, 1)
        (measured,) = compare_layers([erased], samples=300, seed=0)
        difference = measured.differences[RANDOM]
        found += difference.low > 0 or difference.high < 0
    assert found / times < 0.08


def test_only_words_that_the_model_sees_are_erased() -> None:
    encoder = tiny_masked()
    texts = [Text(str(at), ("the", "lazy", "dog", "runs", "far", "away")) for at in range(3)]
    target, parts = LossTarget(language_model(encoder), texts), Interventions(encoder, heads=False)
    nothing = torch.zeros(encoder.width, dtype=torch.float64)
    away = Eraser(torch.eye(encoder.width).double(), torch.eye(encoder.width).double(), nothing, 1.0)
    special = erase_effects._special(encoder)
    assert encoder.tokenizer.mask_token_id in special
    assert encoder.tokenizer.unk_token_id not in special
    change = erase_effects._erasing(away, target.rows, special)
    clean = parts.clean(target.rows, [0, 1])
    changed = change(clean.states[1], clean)
    for at, number in enumerate(clean.rows):
        ids = target.rows[number].ids
        words = torch.from_numpy(~np.isin(ids, special))
        assert 0 < words.sum() < len(ids) - 2, "one is hidden at least"
        assert torch.equal(changed[at, : len(ids)][~words], clean.states[1][at, : len(ids)][~words])
        assert (changed[at, : len(ids)][words] == 0).all()
    everywhere = erase_effects._erasing(away, target.rows, None)(clean.states[1], clean)
    assert (everywhere == 0).all()
    erasers = [LayerErasers(layer, away, (away, away), away) for layer in (1, encoder.blocks)]
    found = compare_layers(measure_target(parts, target, erasers, tokens="all", what="loss"), samples=20, seed=0)
    assert [each.layer for each in found] == [1, encoder.blocks]
    assert found[0].differences[CONTROL].effect == pytest.approx(0, abs=1e-9)


def test_what_cannot_be_erased_is_said() -> None:
    words = ("the", "lazy", "dog", "runs")
    edges = {
        "pair": (Edge(("a",), Span(0, 1), Span(1, 2)),),
        "kind": tuple(Edge(("x" if at % 2 else "y",), Span(at, at + 1)) for at in range(4)),
    }
    texts = [Text(str(at), words, edges=edges, doc=str(at)) for at in range(8)]
    corpus = corpus_from(texts, name="own")
    splits = Splits(
        corpus, corpus_from([Text(f"d{at}", (*words, str(at)), edges=edges) for at in range(3)], name="own")
    )
    few = {"targets": ["loss"], "twin": False, "samples": 20}
    with pytest.raises(TaskError, match="pair: its targets are pairs of spans"):
        lamina.erase(tiny_masked(), splits, tasks=["pair"], **few)
    with pytest.raises(TaskError, match=r"too few targets to fit an eraser.*for states of 16 dimensions"):
        lamina.erase(tiny_masked(), splits, tasks=["kind"], **few)
    with pytest.raises(CorpusError, match="has no training texts to fit erasers on"):
        erase.function(tiny_masked(), TargetData(corpus), targets=["loss"])
