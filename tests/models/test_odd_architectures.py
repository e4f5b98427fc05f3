"""Architectures that transformers hands out oddly: right, or refused in words."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from benchmarks import tiny_architectures
from benchmarks.tiny_architectures import Built
from lamina.errors import ModelError
from lamina.models.checks.passports import Passport, examine, recognised
from lamina.models.loading import encoder_from
from lamina.models.running.anatomy import watch_blocks
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.models.static import StaticEncoder
from lamina.testing import SAMPLE_TEXTS, TinyEncoder, check_encoder
from lamina.types import Text

TEXT = Text("t", ("the", "quick", "fox", "barked", "at", "the", "lazy", "dogs"))


@cache
def encoder(name: str) -> HuggingFaceEncoder:
    built = tiny_architectures.build(name)
    assert isinstance(built, Built), built
    made = encoder_from(*built, name=name)
    assert isinstance(made, HuggingFaceEncoder)
    return made


@cache
def passport(name: str) -> Passport:
    return examine(encoder(name))


def test_falcons_maps_look_back_and_belong_to_its_states():
    # Asked for maps as transformers takes it, Falcon adds a mask of true and false to its scores, and looks ahead.
    with torch.no_grad():
        ids = torch.from_numpy(encoder("falcon").tokenize(TEXT).ids).long()[None]
        plain = encoder("falcon").model(input_ids=ids, output_attentions=True)
    assert plain.attentions[0].triu(1).max() > 0.01
    (made,) = encoder("falcon").encode([TEXT], ("states", "maps"))
    assert made.maps is not None
    assert made.maps.triu(1).max() == 0
    assert passport("falcon").failed == ()


def test_the_missing_attention_of_gpt_oss_is_its_sinks():
    (made,) = encoder("gpt_oss").encode([TEXT], ("maps",))
    assert made.maps is not None
    first: torch.nn.Module = encoder("gpt_oss").model.get_submodule("layers.0.self_attn")
    sums = made.maps[0].sum(-1)
    assert sums.max() < 1
    # The first token sees itself and the sink alone: the odds of the sink are exp(sink - logit).
    logit = torch.log(sums[:, 0] / (1 - sums[:, 0])) + first.sinks.detach()
    (again,) = encoder("gpt_oss").encode([Text("u", TEXT.words[:3])], ("maps",))
    assert again.maps is not None
    other = again.maps[0].sum(-1)[:, 0]
    torch.testing.assert_close(torch.log(other / (1 - other)) + first.sinks.detach(), logit, rtol=1e-4, atol=1e-4)
    assert "a learned sink per head" in str(passport("gpt_oss").sink)
    assert passport("gpt_oss").failed == ()


def test_rows_that_lack_more_than_the_sinks_take_are_refused(monkeypatch):
    made = encoder("gpt_oss")
    forward = made.model.forward

    def leaking(*given, **named):
        out = forward(*given, **named)
        if out.attentions:
            out.attentions = tuple(maps * 0.9 for maps in out.attentions)
        return out

    leaking.__wrapped__ = forward
    monkeypatch.setattr(made.model, "forward", leaking)
    assert examine(made).refuses("maps")


def test_the_text_part_of_a_multimodal_model_is_taken():
    made = encoder("gemma3")
    assert type(made.model).__name__ == "Gemma3TextModel"
    assert passport("gemma3").failed == ()


def test_maps_are_those_of_the_blocks_that_attend():
    made = encoder("qwen3_next")
    assert (made.blocks, made.map_blocks) == (2, (1,))
    (found,) = made.encode([TEXT], ("states", "maps"))
    assert found.maps is not None
    assert found.maps.shape[:2] == (1, made.heads)
    refused = passport("qwen3_next").refuses("maps")
    assert refused is not None
    assert "only block 2 of 2 attends" in refused
    assert passport("qwen3_next").refuses("states") is None


def test_the_layers_of_mamba_are_what_its_blocks_read():
    made = encoder("mamba")
    (found,) = made.encode([TEXT])
    assert found.states is not None
    assert made.heads == 0
    with torch.no_grad():
        inputs = {"input_ids": torch.from_numpy(found.tokens.ids).long()[None]}
        watched = watch_blocks(made.model, inputs)
        # The first of transformers' own layers is not the embedding layer's output, but that of block 1.
        assert torch.equal(watched.hidden[0], watched.reads[1].given)
        embedded = made.model.get_input_embeddings()(inputs["input_ids"])[0]
    torch.testing.assert_close(found.states[:, 0], embedded)
    torch.testing.assert_close(found.states[:, 1], watched.reads[1].given[0])
    with pytest.raises(ModelError, match=r"mamba .* has no attention maps: none of its blocks"):
        list(made.encode([TEXT], ("maps",)))
    assert passport("mamba").refuses("states") is None
    assert [check.name for check in passport("mamba").failed] == ["layer order"]


def test_texts_of_models_without_masks_are_not_padded():
    check_encoder(encoder("fnet"))
    assert not encoder("fnet").anatomy.pads


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("funnel", "do not hold one vector per token"),
        ("lxmert", "cannot be run on words alone"),
        ("gemma4_vision", "does not read words, but pixel_values"),
    ],
)
def test_what_cannot_be_taken_is_refused_in_words(name, said):
    with pytest.raises(ModelError, match=said):
        encoder(name)


def test_a_tokenizer_of_another_model_is_refused():
    built = tiny_architectures.build("bert", vocab_size=64)
    assert isinstance(built, Built), built
    with pytest.raises(ModelError, match="tokenizer is not the one of this model"):
        encoder_from(*built, name="bert")


def test_an_encoder_of_any_kind_has_a_passport():
    tiny = examine(TinyEncoder())
    assert tiny.failed == ()
    assert Passport.of(tiny.describe()) == tiny
    static = StaticEncoder(["dogs", "bark"], torch.eye(2).numpy(), name="two")
    assert examine(static).failed == ()
    assert examine(encoder("bert").lexical()).failed == ()
    assert recognised(tiny, TinyEncoder())


def test_states_do_not_depend_on_what_was_asked_before():
    made = encoder("llama")
    own = made.model.config._attn_implementation
    (before,) = made.encode(SAMPLE_TEXTS[:1])
    (both,) = made.encode(SAMPLE_TEXTS[:1], ("states", "maps", "norms"))
    (after,) = made.encode(SAMPLE_TEXTS[:1])
    assert own == made.model.config._attn_implementation == "sdpa"
    assert before.states is not None
    assert torch.equal(before.states, both.states)
    assert torch.equal(before.states, after.states)


def test_numbers_that_mean_nothing_are_found():
    dead = TinyEncoder(scale=float("nan"))
    assert "not finite" in str(examine(dead).refuses("states"))
    still = TinyEncoder(scale=0.0)
    assert examine(still).refuses("maps")


def test_what_a_check_is_not_needed_by_is_not_refused():
    found = passport("convbert")
    assert [check.name for check in found.failed] == ["padding"]
    assert all(found.refuses(need) is None for need in ("states", "maps", "windows"))
