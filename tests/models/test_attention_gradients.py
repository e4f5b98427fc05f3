"""Gradients of a model's own loss: against finite differences, for every head with a loss, refused otherwise."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import lamina
from lamina.analyses.heads.attention import GradientMeter, attention
from lamina.analyses.heads.surface import MEASURES
from lamina.corpora import corpus_from
from lamina.errors import ModelError
from lamina.models import SPECIAL, Tokens
from lamina.models.interventions.edited_runs import AttentionGradients, HeadLoss
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.testing import SAMPLE_TEXTS, TinyEncoder
from lamina.types import Span, Text

TEXT = Text("t", ("The", "quick", "fox", "jumps", ",", "the", "dog", "barked", "."))
HEADS = {
    "masked": ("bert", "AutoModelForMaskedLM"),
    "causal": ("llama", "AutoModelForCausalLM"),
    "gpt2": ("gpt2", "AutoModelForCausalLM"),
    "classes": ("bert", "AutoModelForSequenceClassification"),
    "tags": ("roberta", "AutoModelForTokenClassification"),
    "spans": ("bert", "AutoModelForQuestionAnswering"),
}


@pytest.fixture(scope="module")
def with_head(model_folder: Callable[[str], Path], tmp_path_factory) -> Callable[..., HuggingFaceEncoder]:
    def make(name: str, **settings: int) -> HuggingFaceEncoder:
        architecture, loader = HEADS[name]
        folder = tmp_path_factory.mktemp("heads") / name
        shutil.copytree(model_folder(architecture), folder)
        config = transformers.AutoConfig.from_pretrained(folder, **settings)
        torch.manual_seed(1)
        model = getattr(transformers, loader).from_config(config)
        for weight in model.parameters():
            weight.data += 0.1 * torch.randn_like(weight)
        model.save_pretrained(folder)
        encoder = lamina.load_encoder(str(folder), device="cpu")
        assert isinstance(encoder, HuggingFaceEncoder)
        return encoder

    return make


@pytest.mark.parametrize("name", ["masked", "causal", "spans"])
def test_gradients_are_those_of_finite_differences(name: str, with_head, monkeypatch: pytest.MonkeyPatch):
    loss = HeadLoss(with_head(name))
    loss._model.double()
    found = loss(TEXT)
    assert found is not None
    assert found.weights.shape == (3, 2, len(found.tokens.ids), len(found.tokens.ids))
    softmax = torch.nn.functional.softmax

    def nudged(place: tuple[int, int, int, int], step: float) -> float:
        block, *cell = place
        calls = iter(range(100))

        def shifted(scores: torch.Tensor, *args, **settings) -> torch.Tensor:
            # Attention is the one softmax over four axes, called once a block.
            weights = softmax(scores, *args, **settings)
            if weights.dim() == 4 and next(calls) == block:
                weights = weights.clone()
                weights[0, *cell] += step
            return weights

        with monkeypatch.context() as patch:
            patch.setattr(torch.nn.functional, "softmax", shifted)
            changed = loss(TEXT)
        assert changed is not None
        return changed.loss

    for place in [(0, 0, 3, 1), (1, 1, 5, 2), (2, 0, 4, 4), (0, 1, 6, 0)]:
        slope = (nudged(place, 5e-3) - nudged(place, -5e-3)) / 1e-2
        # Llama's norms and softmax stay in single precision whatever the model is in.
        assert found.weights[place].item() == pytest.approx(slope, rel=1e-2, abs=5e-5)
    assert found.weights.abs().max() > 1e-3


@pytest.mark.parametrize("name", HEADS)
def test_every_kind_of_head_has_gradients(name: str, with_head):
    corpus = corpus_from([TEXT, Text("q", ("who", "ran", "?", "the", "dog"), (Span(0, 3), Span(3, 5)))], name="own")
    result = attention(with_head(name), corpus, gradients=True, samples=10)
    table = result.tables["gradients"]
    assert table.columns.tolist() == ["layer", "head", "target", "value", "low", "high"]
    targets = {"first", "punctuation", "other"} | ({"separator"} if name != "gpt2" else set())
    assert set(table["target"]) == targets
    assert len(table) == 3 * 2 * len(targets)
    # What the head does not read, the last block's attention may not change.
    assert (table["value"] >= 0).all()
    assert (table.loc[table["layer"] == 1, "value"] > 0).all()
    assert "loss" in result.provenance.model


def test_masks_are_seeded_by_text_and_cover_words_only(with_head):
    encoder = with_head("masked")
    mask = encoder.tokenizer.mask_token_id
    first, again, other = (HeadLoss(encoder, seed=seed)(TEXT) for seed in (0, 0, 1))
    assert first is not None
    assert again is not None
    assert other is not None
    plain = encoder.tokenize(TEXT)
    masked = first.tokens.ids == mask
    assert masked.sum() == round(0.15 * (plain.words >= 0).sum())
    assert (plain.words[masked] >= 0).all()
    assert np.array_equal(first.tokens.ids, again.tokens.ids)
    assert not np.array_equal(first.tokens.ids, other.tokens.ids)


def test_a_decoder_has_no_weights_for_what_comes_later():
    encoder = TinyEncoder(blocks=1, heads=1)
    encoder.causal = True
    meter = GradientMeter(encoder)
    weights = torch.tensor([[1.0, 9, 9], [-2, 3, 9], [-4, 5, 6]])[None, None]
    meter.update(TEXT, AttentionGradients(Tokens(np.array([7, 8, 9]), np.array([0, 1, 2])), 0.0, weights))
    values = dict(zip(*(meter.table()[column] for column in ("target", "value")), strict=True))
    assert values["first"] == pytest.approx((1 + 2 + 4) / 3)
    assert values["other"] == pytest.approx((3 + 5 + 6) / 3)
    assert set(values) == {"first", "other"}, "what no text has is left out"


def test_wrong_16_the_first_special_token_is_a_sink_of_its_own_and_no_other_token():
    encoder = TinyEncoder(blocks=1, heads=1)
    meter = GradientMeter(encoder)
    # [CLS] word word [SEP]
    weights = torch.tensor([[8.0, 1, 2, 4]]).expand(4, 4)[None, None]
    tokens = Tokens(np.array([1, 8, 9, 2]), np.array([SPECIAL, 0, 1, SPECIAL]))
    meter.update(TEXT, AttentionGradients(tokens, 0.0, weights))
    values = dict(zip(*(meter.table()[column] for column in ("target", "value")), strict=True))
    assert values == {"first": 8.0, "separator": 4.0, "other": 1.5}
    layers = meter.layers().set_index("kind")
    assert layers.loc["first", "beside"] == layers.loc["separator", "beside"] == 1.5
    assert layers.loc["first", "difference"] == 6.5


def test_one_token_has_nothing_to_predict_and_is_counted(with_head):
    result = attention(with_head("gpt2"), corpus_from([Text("a", ("a",)), TEXT], name="own"), gradients=True, samples=5)
    assert result.provenance.skipped["texts with nothing to predict, without gradients"] == 1
    assert "no special token was prepended" in result.provenance.model["first_token"]


def test_a_model_without_its_head_is_refused_never_run_on_a_random_one(tiny_encoder, with_head, tmp_path: Path):
    with pytest.raises(ModelError, match="without a head"):
        HeadLoss(tiny_encoder("bert"))
    with pytest.raises(ModelError, match="a single number"):
        HeadLoss(with_head("classes", num_labels=1))
    # A checkpoint that says it has a head, but does not hold its weights.
    bare = tiny_encoder("bert")
    bare.model.save_pretrained(tmp_path)
    bare.tokenizer.save_pretrained(tmp_path)
    config = transformers.AutoConfig.from_pretrained(tmp_path)
    config.architectures = ["BertForMaskedLM"]
    config.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="would be a random head"):
        HeadLoss(lamina.load_encoder(str(tmp_path), device="cpu"))


def test_every_architecture_is_measured(architecture: str, tiny_encoder, tiny):
    result = attention(tiny_encoder(architecture), corpus_from(list(SAMPLE_TEXTS), name="own"), samples=10)
    table = result.tables["surface"]
    # A decoder cannot see the next token, and gpt2 has no separators: there is nothing to measure of them.
    causal, lone = tiny(architecture).causal, architecture == "gpt2"
    absent = [name for name in MEASURES if (causal and name == "to_next") or (lone and "separator" in name)]
    assert list(dict.fromkeys(table["measure"])) == [name for name in MEASURES if name not in absent]
    assert len(table) == 3 * 2 * (len(MEASURES) - len(absent))
    assert table["value"].notna().all()
    shares = table[~table["measure"].str.startswith("entropy")]
    assert shares["value"].between(0, 1 + 1e-5).all()
    if causal:
        assert (table.loc[table["measure"] == "entropy_first", "value"] < 1e-6).all()
