"""Faults planted in tiny architectures are found by their passports; sound ones raise no alarm."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch

from benchmarks import tiny_architectures
from benchmarks.tiny_architectures import Built
from lamina.models.checks.passports import Passport, examine, recognised
from lamina.models.loading import encoder_from
from lamina.models.running.huggingface import HuggingFaceEncoder

ENCODERS = (
    "albert",
    "bart",
    "bert",
    "deberta-v2",
    "distilbert",
    "electra",
    "megatron-bert",
    "modernbert",
    "mpnet",
    "roberta",
    "t5",
    "xlm-roberta",
    "xlnet",
)
SINGLE = ("bloom", "falcon", "gpt2", "gpt_neo", "gpt_neox", "gptj", "opt", "phi")
"""Decoders in which every head has its own keys and values; Falcon's share one, so that no order can be wrong."""
GROUPED = ("cohere", "gemma2", "gemma3", "gpt_oss", "granite", "llama", "mistral", "mixtral", "olmo2", "phi3", "qwen3")
EVERY = (*ENCODERS, *SINGLE, *GROUPED)
SOME = ("albert", "bert", "gpt2", "llama", "mpnet")
"""Where faults are planted that differ little from others."""


@cache
def built(name: str) -> Built:
    made = tiny_architectures.build(name)
    assert isinstance(made, Built), made
    return made


def fresh(name: str) -> HuggingFaceEncoder:
    made = encoder_from(*built(name), name=name)
    assert isinstance(made, HuggingFaceEncoder)
    return made


def examined(encoder: HuggingFaceEncoder) -> Passport:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return examine(encoder)


def failed(encoder: HuggingFaceEncoder) -> set[str]:
    return {check.name for check in examined(encoder).failed}


def altered(
    encoder: HuggingFaceEncoder, patch: pytest.MonkeyPatch, alter: Callable[[Any, dict[str, Any]], Any]
) -> None:
    """What the model hands out goes through `alter(output, inputs)` from now on."""
    forward = encoder.model.forward

    def altering(*given: Any, **named: Any) -> Any:
        return alter(forward(*given, **named), named)

    # The names of the inputs stay known.
    altering.__wrapped__ = forward  # pyright: ignore[reportFunctionMemberAccess]
    patch.setattr(encoder.model, "forward", altering)


def repeated_layer(out: Any, _named: Any) -> Any:
    if out.hidden_states is not None:
        out.hidden_states = (out.hidden_states[0], *out.hidden_states[:-1])
    return out


def early_layer(out: Any, _named: Any) -> Any:
    if out.hidden_states is not None:
        out.hidden_states = (*out.hidden_states[1:], out.hidden_states[-1] * 1.01)
    return out


def missing_layer(out: Any, _named: Any) -> Any:
    if out.hidden_states is not None:
        out.hidden_states = out.hidden_states[1:]
    return out


def moved_with_maps(out: Any, named: dict[str, Any]) -> Any:
    if named.get("output_attentions") and out.hidden_states is not None:
        out.hidden_states = tuple(layer * 1.05 for layer in out.hidden_states)
    return out


def turned_maps(out: Any, _named: Any) -> Any:
    if getattr(out, "attentions", None):
        out.attentions = (*out.attentions[1:], out.attentions[0])
    return out


def swapped_heads(out: Any, _named: Any) -> Any:
    if getattr(out, "attentions", None):
        out.attentions = tuple(maps.flip(1) for maps in out.attentions)
    return out


def heavy_rows(out: Any, _named: Any) -> Any:
    if getattr(out, "attentions", None):
        out.attentions = tuple(maps * 1.1 for maps in out.attentions)
    return out


def modules_of(encoder: HuggingFaceEncoder) -> set[Any]:
    return {sys.modules[type(module).__module__] for module in encoder.model.modules()}


def see_everything(encoder: HuggingFaceEncoder, patch: pytest.MonkeyPatch, only: str | None = None) -> None:
    """Masks of the model's own module let every token see every other one; with `only`, in one implementation."""
    for home in modules_of(encoder):
        for name in [name for name in vars(home) if name.startswith("create_") and name.endswith("causal_mask")]:
            patch.setattr(home, name, seeing(getattr(home, name), only))


def seeing(make_mask: Callable[..., Any], only: str | None) -> Callable[..., Any]:
    def everything(config: Any, inputs_embeds: torch.Tensor, **named: Any) -> Any:
        if only is not None and config._attn_implementation != only:
            return make_mask(config=config, inputs_embeds=inputs_embeds, **named)
        rows, size, _ = inputs_embeds.shape
        return torch.zeros(rows, 1, size, size)

    return everything


def tile(hidden: torch.Tensor, times: int) -> torch.Tensor:
    return hidden.repeat(1, times, 1, 1)


def share_wrongly(encoder: HuggingFaceEncoder, patch: pytest.MonkeyPatch, *, everywhere: bool) -> None:
    """Heads of keys and values are tiled where neighbours should share them."""
    from transformers.integrations import sdpa_attention

    homes = [home for home in modules_of(encoder) if hasattr(home, "repeat_kv")]
    assert homes
    for home in [*homes, *([sdpa_attention] if everywhere else [])]:
        patch.setattr(home, "repeat_kv", tile)
    if everywhere:
        patch.setattr(sdpa_attention, "use_gqa_in_sdpa", lambda *_given: False)


@pytest.mark.parametrize("name", EVERY)
def test_a_sound_model_raises_no_alarm(name):
    encoder, start = fresh(name), time.process_time()
    passport = examined(encoder)
    # Of computing: a busy machine takes longer.
    assert time.process_time() - start < 5
    assert [(check.name, check.message) for check in passport.failed] == []
    assert passport.causal == (name not in ENCODERS)
    assert passport.maps == (0, 1)
    assert (passport.sink is not None) == (name == "gpt_oss")
    assert encoder.model.config._attn_implementation == fresh(name).model.config._attn_implementation


@pytest.mark.parametrize("name", EVERY)
def test_layers_that_are_repeated_early_or_missing_are_found(name, monkeypatch):
    for fault in (repeated_layer, *((early_layer, missing_layer) if name in SOME else ())):
        encoder = fresh(name)
        with monkeypatch.context() as patch:
            altered(encoder, patch, fault)
            assert examined(encoder).refuses("states"), fault.__name__


@pytest.mark.parametrize("name", SOME)
def test_a_swapped_checkpoint_is_found(name):
    encoder, other = fresh(name), tiny_architectures.build(name, seed=8)
    kept = examined(encoder)
    assert isinstance(other, Built)
    wrong = encoder_from(*other, name=name)
    assert isinstance(wrong, HuggingFaceEncoder)
    own = {key: weight.clone() for key, weight in encoder.model.state_dict().items()}
    assert recognised(kept, encoder)
    try:
        encoder.model.load_state_dict(wrong.model.state_dict())
        assert "weights" in failed(encoder)
        assert not recognised(kept, encoder)
    finally:
        encoder.model.load_state_dict(own)


@pytest.mark.parametrize("name", EVERY)
def test_maps_that_are_not_those_of_the_states_are_found(name, monkeypatch):
    # XLNet multiplies by bare matrices: its maps of one block cannot be told from others of the same block.
    others = () if name == "xlnet" else (turned_maps, swapped_heads)
    for fault in (*((moved_with_maps, heavy_rows) if name in SOME else (moved_with_maps,)), *others):
        encoder = fresh(name)
        with monkeypatch.context() as patch:
            altered(encoder, patch, fault)
            assert examined(encoder).refuses("maps"), fault.__name__


@pytest.mark.parametrize("name", ENCODERS)
def test_a_dropped_mask_is_found(name, monkeypatch):
    encoder = fresh(name)
    with monkeypatch.context() as patch:
        patch.setattr(encoder, "_mask", lambda rows, inside: torch.ones_like(inside))
        assert "padding" in failed(encoder)
    forward = encoder.model.forward

    def blind(*given: Any, **named: Any) -> Any:
        return forward(*given, **{**named, "attention_mask": torch.ones_like(named["input_ids"])})

    blind.__wrapped__ = forward  # pyright: ignore[reportFunctionMemberAccess]
    with monkeypatch.context() as patch:
        patch.setattr(encoder.model, "forward", blind)
        assert "padding" in failed(encoder)
        # Found before it is examined, it is said, and texts of different lengths do not share a batch.
        wary = examined(fresh(name))
        assert "padding" in {check.name for check in wary.failed}
        assert wary.refuses("states") is None


@pytest.mark.parametrize("name", [name for name in (*SINGLE, *GROUPED) if name != "gpt_neo"])
def test_looking_ahead_is_found(name, monkeypatch):
    encoder = fresh(name)
    with monkeypatch.context() as patch:
        see_everything(encoder, patch)
        assert "causal" in failed(encoder)
        # Also in a model that looked ahead from the beginning.
        assert not fresh(name).causal
        assert "causal" in failed(fresh(name))
    if encoder.model.config._attn_implementation != "eager":
        with monkeypatch.context() as patch:
            see_everything(encoder, patch, only="eager")
            found = examined(encoder)
            assert found.refuses("maps")
            assert found.refuses("states") is None


@pytest.mark.parametrize("name", GROUPED)
def test_heads_that_share_the_wrong_values_are_found(name, monkeypatch):
    for everywhere in (False, True):
        encoder = fresh(name)
        with monkeypatch.context() as patch:
            share_wrongly(encoder, patch, everywhere=everywhere)
            found = examined(encoder)
        assert found.refuses("maps")
        assert found.refuses("states")
