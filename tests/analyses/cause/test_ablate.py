"""Effects of ablated parts, against the same model with its weights changed by hand, and planted truths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

import lamina
from benchmarks.planted import ablated
from lamina.analyses.cause.ablate import (
    AGREEMENT,
    CONTRASTS,
    EFFECTS,
    AblationScores,
    contrast_rows,
    effect_rows,
    findings_of,
)
from lamina.analyses.cause.effects import DRAWS, AblatedPart, plan_ablations
from lamina.corpora import corpus_from
from lamina.errors import InputError
from lamina.framework.verify import check_findings
from lamina.models.interventions.edited_runs import Edit
from lamina.models.interventions.interventions import Interventions
from lamina.models.language.language_model import language_model
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.results import Provenance, Result
from lamina.results.finding import Finding
from lamina.targets.target import Target, TargetScores
from lamina.types import Text
from tests.language_models import tiny_causal
from tests.planted_language import copying_head, planted

WORDS = ("the", "dog", "sees", "a", "cat", "and", "runs", "far", "away")


def texts(many: int) -> list[Text]:
    rng = np.random.default_rng(0)
    return [Text(f"s{at}", tuple(map(str, rng.choice(WORDS, 4 + at % 4))), doc=f"d{at}") for at in range(many)]


CORPUS = corpus_from(texts(8), name="own", split="dev")
FEW: dict[str, Any] = {"targets": ["loss"], "items": 8, "samples": 20, "twin": False}


def loss_by_hand(encoder: HuggingFaceEncoder) -> float:
    """Nats per token of all texts, by the model with its head."""
    model: Any = encoder.whole
    losses = []
    for text in texts(8):
        ids = [language_model(encoder).start, *encoder.tokenizer(" ".join(text.words))["input_ids"]]
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, :-1].log_softmax(-1)
        losses += [-float(each[piece]) for each, piece in zip(logits, ids[1:], strict=True)]
    return float(np.mean(losses))


def effects(encoder: HuggingFaceEncoder, **settings: Any) -> pd.DataFrame:
    table = lamina.ablate(encoder, CORPUS, **{**FEW, **settings}).tables["effects"]
    return table.assign(head=table["head"].fillna(0).astype(int)).set_index(["component", "layer", "head", "how"])


def test_zeros_are_zero_weights_and_a_skipped_block_is_a_model_without_it() -> None:
    encoder = tiny_causal()
    table = effects(encoder, how=["zero"])
    model: Any = encoder.whole
    assert table["baseline"].iloc[0] == pytest.approx(loss_by_hand(encoder), abs=1e-5)
    without = tiny_causal()
    size = without.width // without.heads
    with torch.no_grad():
        without.whole.transformer.h[1].attn.c_proj.weight[size : 2 * size] = 0  # type: ignore[union-attr]
    assert table.loc[("head", 2, 2, "zero"), "value"] == pytest.approx(loss_by_hand(without), abs=1e-5)
    shorter = tiny_causal()
    whole: Any = shorter.whole
    whole.transformer.h = torch.nn.ModuleList([each for at, each in enumerate(whole.transformer.h) if at])
    assert table.loc[("block", 1, 0, "zero"), "value"] == pytest.approx(loss_by_hand(shorter), abs=1e-5)
    assert len(table.loc["random"]) == len(model.transformer.h)


def test_a_head_that_always_says_the_same_matters_to_zeros_and_not_to_the_mean() -> None:
    encoder = tiny_causal()
    size, width = encoder.width // encoder.heads, encoder.width
    model: Any = encoder.model
    attention = model.h[0].attn.c_attn
    with torch.no_grad():
        attention.weight[:, 2 * width : 2 * width + size] = 0
        attention.bias[2 * width : 2 * width + size] = 2.0
    table = effects(encoder, component=["head"], how=["zero", "mean"], heads=["1-1"])
    size_of: Any = table["effect"].abs()
    assert size_of["head", 1, 1, "mean"] < 1e-5
    assert size_of["head", 1, 1, "zero"] > 1e-3
    assert set(table.index.get_level_values("head")) == {0, 1}, "the head that was named, and random components"


def test_random_components_are_as_large_as_a_head_and_drawn_by_seed() -> None:
    parts = Interventions(tiny_causal())
    asked: dict[str, Any] = {"components": ["head"], "hows": ["zero"], "heads": parts.heads, "means": {}}
    drawn = [each for each in plan_ablations(parts, **asked, seed=0) if each.component == "random"]
    again = [each for each in plan_ablations(parts, **asked, seed=0) if each.component == "random"]
    other = [each for each in plan_ablations(parts, **asked, seed=1) if each.component == "random"]
    assert len(drawn) == parts.encoder.blocks
    for part, same, different in zip(drawn, again, other, strict=True):
        units = [edit.mixed[part.block].where for edit in part.edits]
        assert [int(each.sum()) for each in units] == [parts.size] * DRAWS
        assert all(map(torch.equal, units, [edit.mixed[part.block].where for edit in same.edits]))
        assert not all(map(torch.equal, units, [edit.mixed[part.block].where for edit in different.edits]))


class Counted(Target):
    """Scores that are given."""

    name, skipped = "pairs", Counter()
    rows: Sequence[Any] = ()
    layers = (0,)

    def __init__(self, items: int) -> None:
        self.items = self.units = tuple(f"i{at:03}" for at in range(items))

    def read(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> np.ndarray:
        raise NotImplementedError

    def score(self, kept: np.ndarray) -> TargetScores:
        raise NotImplementedError

    def loss(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Tensor:
        raise NotImplementedError


def taken_away(target: Target, broken: Mapping[tuple[str, int | None], int]) -> AblationScores:
    """Parts without which the first so many items are wrong."""
    many = len(target.items)
    parts, after = [], []
    for (component, head), wrong in broken.items():
        parts.append(AblatedPart(component, 0, head, "zero" if component == "block" else "mean", (Edit(),)))
        after.append(TargetScores(np.where(np.arange(many) < wrong, 0.0, 1.0), np.ones(many)))
    return AblationScores(target, tuple(parts), TargetScores(np.ones(many), np.ones(many)), tuple(after), None)


DRAWN: dict[str, Any] = {"samples": 200, "seed": 0}


def tables_of(made: AblationScores) -> dict[str, pd.DataFrame]:
    return {
        "effects": pd.DataFrame(effect_rows([made], **DRAWN), columns=list(EFFECTS)),
        "contrasts": pd.DataFrame(contrast_rows([made], **DRAWN), columns=list(CONTRASTS)),
    }


def told(tables: Mapping[str, pd.DataFrame]) -> list[Finding]:
    result = Result("ablate", tables, Provenance({"name": "m"}, {"name": "c"}, {}))
    found = list(findings_of(result))
    wrong = check_findings(replace(result, findings=tuple(found)))
    assert wrong == []
    return found


def test_heads_blocks_and_random_components_are_families_of_their_own() -> None:
    broken = {("head", 0): 20, ("head", 1): 8, ("head", 2): 0, ("random", None): 2, ("block", None): 30}
    table = tables_of(taken_away(Counted(60), broken))["effects"]
    assert table["effect"].tolist() == pytest.approx([-20 / 60, -8 / 60, 0, -2 / 60, -0.5])
    assert table["layer"].tolist() == [1] * 5
    assert table["head"].tolist()[:3] == [1, 2, 3]
    heads, blocks = table[table["component"] == "head"], table[table["component"] == "block"]
    # Without a correction 8 of 8 on one side have 2 / 2 ** 8; three heads together have little more.
    assert heads["p_adjusted"].iloc[0] < 0.002
    assert 0.005 < heads["p_adjusted"].iloc[1] < 0.03
    assert blocks["p_adjusted"].iloc[0] < 0.002
    assert table["worse"].tolist() == [True, True, False, False, True]
    assert heads["among_best"].tolist() == [True, False, False]
    assert (table["units"] == 60).all()
    assert (table["needed"] == 0).all()


def test_wrong_3_too_few_documents_for_any_head_are_untested_and_say_how_many_are_needed() -> None:
    # 0.044 [0.017, 0.071], p = .357 on 8 documents of 100 heads: nothing said that no head could have been found.
    few: dict[tuple[str, int | None], int] = {("head", head): 5 if head == 7 else 0 for head in range(100)} | {
        ("random", None): 0
    }
    found, *_ = told(tables_of(taken_away(Counted(5), few)))
    assert found.status == "untested"
    assert found.text == (
        "5 pairs are too few to test whether any head matters to accuracy on minimal pairs more than a random "
        "component of its size; at least 6 are needed."
    )
    # Eight can succeed, however many heads are tried.
    enough, *_ = told(tables_of(taken_away(Counted(8), {**few, ("head", 7): 8})))
    assert enough.status == "clear"
    assert enough.p is not None
    assert enough.p == pytest.approx(2 / 2**8)


def test_a_head_is_compared_with_a_random_component_in_pairs() -> None:
    tables = tables_of(taken_away(Counted(60), {("head", 0): 24, ("head", 1): 2, ("random", None): 6}))
    row = tables["contrasts"].iloc[0]
    assert (row["against"], row["difference"]) == ("random", pytest.approx(-18 / 60))
    found, *_ = told(tables)
    assert found.status == "clear"
    assert found.contrast == "head 1-1 minus random component"
    assert found.text.startswith(
        "1 of 2 heads matters to accuracy on minimal pairs more than random components of their size; without head 1-1 "
        "it is .600, without a random component .900 (head 1-1 minus random component -.300 ["
    )
    # What a random component does as well is no sign of a head.
    same, *_ = told(tables_of(taken_away(Counted(60), {("head", 0): 24, ("head", 1): 2, ("random", None): 24})))
    assert same.status == "clear"
    assert "is better without head 1-2" in same.text
    alike: dict[tuple[str, int | None], int] = {("head", 0): 24, ("head", 1): 24, ("random", None): 24}
    few, *_ = told(tables_of(taken_away(Counted(60), alike)))
    assert few.status == "open", "of 60 pairs without a change, more than the margin may change unseen"
    equal, *_ = told(tables_of(taken_away(Counted(200), alike)))
    assert equal.status == "null"
    assert equal.text.startswith("No head matters to accuracy on minimal pairs more than a random component")


def blocks(*wrong: int) -> AblationScores:
    """Layers without which the first so many of 60 pairs are wrong."""
    one = np.ones(60)
    after = [TargetScores(np.where(np.arange(60) < many, 0.0, 1.0), one) for many in wrong]
    parts = [AblatedPart("block", at, None, "zero", (Edit(),)) for at in range(len(wrong))]
    return AblationScores(Counted(60), tuple(parts), TargetScores(one, one), tuple(after), None)


def test_the_layer_that_matters_most_is_one_that_no_other_can_be_above() -> None:
    matter, most = told(tables_of(blocks(30, 2, 0)))
    assert matter.text.startswith("1 of 3 layers matters to accuracy on minimal pairs when skipped; without layer 1")
    assert most.status == "clear"
    assert most.contrast == "layer 1 minus layer 2"
    assert most.text.startswith(
        "Accuracy on minimal pairs is lowest when layer 1 is skipped: without layer 1 it is .500, without layer 2 .967"
    )
    _, several = told(tables_of(blocks(30, 28, 0)))
    assert several.text.startswith("Accuracy on minimal pairs is lowest when one of layers 1 and 2 is skipped")
    _, unsure = told(tables_of(blocks(30, 29)))
    assert unsure.status == "open"


def test_wrong_12_a_rank_correlation_is_told_as_what_was_tested() -> None:
    # "Importance by gradient orders the heads as their effects do with a rank correlation of -.18" was told.
    columns = (*AGREEMENT,)
    row = ("loss", "mean", "model", "layer-normalised", -0.18, -0.57, 0.24, 0.4, 60, 0, 0.5, 72)
    tables = {**{name: table.head(0) for name, table in tables_of(blocks(1, 0)).items()}}
    (found,) = told({**tables, "agreement": pd.DataFrame([row], columns=list(columns))})
    assert found.status == "open"
    assert found.text == (
        "It is not known whether gradient importance predicts the effect of ablating a head on the loss (rank "
        "correlation -.18 [-.57, .24])."
    )
    (clear,) = told(
        {**tables, "agreement": pd.DataFrame([(*row[:4], 0.6, 0.4, 0.75, 0.001, *row[8:])], columns=columns)}
    )
    assert clear.text.startswith("Gradient importance predicts the effect of ablating a head on the loss (")


def test_wrong_15_few_documents_are_warned_of() -> None:
    result = lamina.ablate(tiny_causal(), CORPUS, **FEW)
    assert any("8 documents (fewer than 10)" in warning for warning in result.provenance.warnings)
    assert check_findings(result) == []


def test_the_planted_head_comes_first() -> None:
    found = ablated(0, pairs=60)
    assert found.head == copying_head(planted(0))
    assert found.effect < -0.15
    assert found.smallest_p < 0.001


def test_no_head_matters_to_agreement_where_none_was_learned() -> None:
    assert ablated(0, dependent=False, pairs=60).smallest_p > 0.05


def test_what_cannot_be_taken_away_is_told() -> None:
    for settings, sentence in (
        ({"heads": ["9-1"]}, "has no head 9-1"),
        ({"heads": ["first"]}, "--head first: name a head as LAYER-HEAD, both counted from 1"),
        ({"heads": ["1-1"], "component": ["block"]}, "--head 1-1 names a head, and --component block leaves heads out"),
        ({"component": []}, "nothing to ablate"),
    ):
        with pytest.raises(InputError if "has no" not in sentence else lamina.errors.ModelError, match=sentence):
            lamina.ablate(tiny_causal(), CORPUS, **FEW, **settings)
