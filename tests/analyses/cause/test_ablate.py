"""Effects of parts taken away, against the same model with its weights changed by hand, and planted truths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

import lamina
from benchmarks.planted import ablated
from lamina.analyses.cause.ablate_effects import EFFECTS, Ablated, effect_rows
from lamina.analyses.cause.ablate_findings import tell_findings
from lamina.analyses.cause.ablate_parts import DRAWS, Part, planned
from lamina.analyses.cause.targets import Scores, Target
from lamina.corpora import corpus_from
from lamina.encoders.edits import Edit
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.interventions import Interventions
from lamina.encoders.language_model import language_model
from lamina.errors import InputError
from lamina.results import Provenance, Result
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
    """Nats per piece of all texts, by the model with its head."""
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
    drawn = [each for each in planned(parts, **asked, seed=0) if each.component == "random"]
    again = [each for each in planned(parts, **asked, seed=0) if each.component == "random"]
    other = [each for each in planned(parts, **asked, seed=1) if each.component == "random"]
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

    def score(self, kept: np.ndarray) -> Scores:
        raise NotImplementedError

    def loss(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Tensor:
        raise NotImplementedError


def test_p_is_corrected_over_all_parts_of_a_target_and_a_how() -> None:
    target, one = Counted(60), np.ones(60)
    broken = {("head", 0): 20, ("head", 1): 8, ("head", 2): 0, ("block", None): 30}
    parts, after = [], []
    for (component, head), wrong in broken.items():
        parts.append(Part(component, 0, head, "zero" if component == "block" else "mean", (Edit(),)))
        after.append(Scores(np.where(np.arange(60) < wrong, 0.0, 1.0), one))
    made = Ablated(target, tuple(parts), Scores(one, one), tuple(after), None)
    table = pd.DataFrame(effect_rows([made]), columns=list(EFFECTS))
    single = [effect.p for effect in made.effects()]
    assert table["effect"].tolist() == pytest.approx([-20 / 60, -8 / 60, 0, -0.5])
    # Three heads by their mean are one family, and the block is another.
    assert table["p_adjusted"].tolist() == pytest.approx([3 * single[0], 2 * single[1], 1.0, single[3]])
    assert single[1] == pytest.approx(2 / 2**8, rel=0.35), "all eight pairs on one side"
    assert table["layer"].tolist() == [1] * 4
    assert table["head"].tolist()[:3] == [1, 2, 3]


def test_the_planted_head_comes_first() -> None:
    found = ablated(0, pairs=60)
    assert found.head == copying_head(planted(0))
    assert found.effect < -0.15
    assert found.smallest_p < 0.001


def test_no_head_matters_to_agreement_where_none_was_learned() -> None:
    assert ablated(0, dependent=False, pairs=60).smallest_p > 0.05


def told(*rows: tuple[Any, ...]) -> list[Any]:
    table = pd.DataFrame(list(rows), columns=list(EFFECTS))
    return list(tell_findings(Result("ablate", {"effects": table}, Provenance({"name": "m"}, {"name": "c"}, {}))))


def test_findings_compare_with_the_random_component_and_trust_only_corrected_tests() -> None:
    random = ("random", 2, None, "mean", "loss", 3.0, 3.01, 0.01, 0.0, 0.02, 1.0)
    head = ("head", 2, 3, "mean", "loss", 3.0, 3.4, 0.4, 0.3, 0.5, 0.001)
    better = ("head", 1, 1, "mean", "loss", 3.0, 2.9, -0.1, -0.2, -0.05, 0.01)
    (found,) = told(head, better, random)
    assert found.status == "clear"
    assert "head 2-3 hands on its mean: from 3.00 by +.400 [.300, .500] nats per piece, p = .001" in found.text
    assert "a random component of its size in that layer: +.010 [.000, .020]" in found.text
    assert "1 of 2 heads make it worse when they are gone, 1 better" in found.text
    (unsure,) = told((*head[:-1], 0.2), random)
    assert unsure.status == "open"
    (nothing,) = told((*head[:6], 3.001, 0.001, -0.01, 0.012, 0.9), random)
    assert nothing.status == "null"
    assert nothing.text.startswith("No single head can be shown to matter to the loss; the most when head 2-3")
    (less,) = told(head, ("random", 2, None, "mean", "loss", 3.0, 4.0, 1.0, 0.9, 1.1, 0.001))
    assert less.status == "open", "a random component of its size does more"
    (pairs,) = told(("block", 4, None, "zero", "pairs", 0.9, 0.6, -0.3, -0.4, -0.2, 1e-5))
    assert "Accuracy on minimal pairs suffers most when layer 4 is skipped: from .90 by -.300" in pairs.text


def test_what_cannot_be_taken_away_is_told() -> None:
    for settings, sentence in (
        ({"heads": ["9-1"]}, "has no head 9-1"),
        ({"heads": ["first"]}, "--head first: name a head as LAYER-HEAD, both counted from 1"),
        ({"heads": ["1-1"], "component": ["block"]}, "--head 1-1 names a head, and --component block leaves heads out"),
        ({"component": []}, "nothing is to be taken away"),
    ):
        with pytest.raises(InputError if "has no" not in sentence else lamina.errors.ModelError, match=sentence):
            lamina.ablate(tiny_causal(), CORPUS, **FEW, **settings)
