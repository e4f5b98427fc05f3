"""A saved model without some parts gives the states of the model with these parts ablated by hooks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from benchmarks.tiny_architectures import build
from lamina.errors import ModelError
from lamina.files.checking import read_json
from lamina.models import load_encoder
from lamina.models.interventions.interventions import Interventions
from lamina.models.interventions.pruned import PRUNED, RemovedParts, removed_stay_zero, save_pruned
from lamina.models.language.language_model import language_model
from lamina.models.loading import encoder_from
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.training.running import RetrainingPlan, train_on
from lamina.types import Text
from tests.language_models import HEADS, save, tiny_language_model

TEXTS = [Text("a", ("the", "dogs", "barked", "and", "the", "cat", "ran", ".")), Text("b", ("who", "did", "?"))]
HEADS_GONE = RemovedParts(heads=frozenset({(0, 1), (1, 0), (1, 1)}))


def loaded(folder: Path) -> HuggingFaceEncoder:
    encoder = load_encoder(str(folder), device="cpu")
    assert isinstance(encoder, HuggingFaceEncoder)
    return encoder


def last_states(parts: Interventions, removed: RemovedParts) -> list[torch.Tensor]:
    """Of each text, the last layer while parts are ablated."""
    encoder = parts.encoder
    rows = [row for at, text in enumerate(TEXTS) for row in encoder.rows(at, encoder.word_tokenizer(text))]
    found: dict[int, torch.Tensor] = {}
    for made in parts.run(rows, [removed.edit(parts)]):
        if made.edit is not None:
            for at, row in enumerate(made.rows):
                found[row] = made.states[encoder.blocks][at, : len(rows[row].ids)]
    return [found[at] for at in range(len(TEXTS))]


@pytest.mark.parametrize(
    "removed", [HEADS_GONE, RemovedParts(blocks=frozenset({0})), RemovedParts(blocks=frozenset({1, 2}))]
)
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_states_and_head_of_the_saved_model(name: str, removed: RemovedParts, tmp_path: Path) -> None:
    parts = Interventions(loaded(save(tiny_language_model(name), tmp_path / "whole")))
    save_pruned(parts, removed, tmp_path / "pruned")
    again = loaded(tmp_path / "pruned")
    wanted = last_states(parts, removed)
    for text, states in zip(again.encode(TEXTS), wanted, strict=True):
        torch.testing.assert_close(torch.as_tensor(text.states)[:, -1], states, atol=1e-5, rtol=1e-5)
    # The head reads them as it did before, and transformers finds every weight.
    mine, others = (language_model(each).logits(wanted[0]) for each in (again, parts.encoder))
    torch.testing.assert_close(mine, others)
    auto = getattr(transformers, HEADS[name])
    model, info = auto.from_pretrained(tmp_path / "pruned", output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert model.config.num_hidden_layers == 3 - len(removed.blocks)
    said = read_json(tmp_path / "pruned" / PRUNED)
    assert said["heads_removed"] + said["blocks_removed"] == removed.names
    assert said["base"]["fingerprint"] == parts.encoder.fingerprint


@pytest.mark.parametrize("name", ["t5", "gemma2"])
def test_what_only_the_first_block_has_or_a_list_says_of_each(name: str, tmp_path: Path) -> None:
    # T5's first block has the relative positions of all; Gemma's config says what each block attends to.
    built = build(name)
    assert not isinstance(built, str)
    encoder = encoder_from(built.model, built.tokenizer, name=name)
    assert isinstance(encoder, HuggingFaceEncoder)
    parts = Interventions(encoder)
    removed = RemovedParts(blocks=frozenset({0}))
    again = save_pruned(parts, removed, tmp_path / "pruned")
    for text, states in zip(again.encode(TEXTS), last_states(parts, removed), strict=True):
        torch.testing.assert_close(torch.as_tensor(text.states)[:, -1], states, atol=1e-5, rtol=1e-5)
    assert again.blocks == encoder.blocks - 1


def test_what_cannot_be_saved_is_told_in_words(tmp_path: Path) -> None:
    shared = Interventions(tiny_language_model("albert"))
    for removed in (RemovedParts(heads=frozenset({(0, 1)})), RemovedParts(blocks=frozenset({1}))):
        with pytest.raises(ModelError, match="its blocks share their weights, so none of them can be saved"):
            save_pruned(shared, removed, tmp_path / "none")
    with pytest.raises(ModelError, match="without any block cannot be saved"):
        save_pruned(shared, RemovedParts(blocks=frozenset(range(3))), tmp_path / "none")
    assert not (tmp_path / "none").exists()
    built = build("modernbert")
    assert not isinstance(built, str)
    parts = Interventions(encoder_from(built.model, built.tokenizer, name="modernbert"))
    with pytest.raises(ModelError, match="the saved model does not give the same states"):
        # Its first block has no norm of its own.
        save_pruned(parts, RemovedParts(blocks=frozenset({0})), tmp_path / "none")
    assert not (tmp_path / "none").exists()
    # Where every block loses the same head, one module can lose it.
    everywhere = RemovedParts(heads=frozenset((block, 1) for block in range(3)))
    assert save_pruned(shared, everywhere, tmp_path / "some").blocks == 3


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_removed_heads_stay_removed_while_the_rest_learns(name: str, tmp_path: Path) -> None:
    encoder = save_pruned(Interventions(tiny_language_model(name)), HEADS_GONE, tmp_path / "pruned")
    parts = Interventions(encoder)
    weights: list[Any] = [parts.out(block).weight for block in range(3)]
    before = [each.clone() for each in weights]
    row = encoder.rows(0, encoder.word_tokenizer(TEXTS[0]))

    def loss_of(rows: Sequence[int]) -> torch.Tensor:
        return encoder.model(**encoder.inputs(row * len(rows))).last_hidden_state.square().mean((1, 2))

    with removed_stay_zero(parts, HEADS_GONE.heads):
        train_on(encoder.model, loss_of, 4, RetrainingPlan(3, batch=2, lr=1e-2), what="tiny")
    for block, heads in HEADS_GONE.by_block.items():
        assert not torch.equal(weights[block], before[block]) or len(heads) == 2, "the rest has learned"
        by_head = (weights[block] if name == "gpt2" else weights[block].T).unflatten(0, (2, -1))
        assert all(not by_head[head].any() for head in heads)
    assert not any(each.requires_grad for each in encoder.model.parameters())
