"""Attention limited to k words: nothing from further away reaches a word through one block."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoModelForTokenClassification

from lamina.analyses.finetune import finetune
from lamina.errors import InputError, ModelError
from lamina.training.attention import Sight, make_sight, visible
from lamina.training.objective import Row
from lamina.training.reading import Sets

WORDS = np.array([-1, 0, 0, 1, 2, 3, 3, 4, 5, -1])


def influence(model, sight: Sight) -> np.ndarray:
    """[token, token] How much the first one's logits change with the second one's embedding."""
    ids = torch.arange(5, 15).unsqueeze(0)
    row = Row(0, ids[0].numpy(), np.zeros(10, int), WORDS)
    embedded = model.get_input_embeddings()(ids).detach().requires_grad_()
    logits = model(inputs_embeds=embedded, attention_mask=sight([row], 10)).logits[0]
    grads = [torch.autograd.grad(logits[at].sum(), embedded, retain_graph=True)[0][0] for at in range(10)]
    return torch.stack(grads).abs().sum(-1).numpy() > 1e-9


@pytest.mark.parametrize("architecture", ["bert", "roberta", "llama", "gpt2", "distilbert", "electra"])
@pytest.mark.parametrize("reach", [0, 2])
def test_one_block_sees_what_the_window_shows_and_no_more(model_folder, architecture: str, reach: int) -> None:
    causal = architecture in ("llama", "gpt2")
    model = AutoModelForTokenClassification.from_pretrained(model_folder(architecture), num_hidden_layers=1).eval()
    sight = make_sight(model, reach, causal=causal)

    assert np.array_equal(influence(model, sight), visible(WORDS, reach, causal=causal))


def test_blocks_widen_the_view_by_as_much_again(model_folder) -> None:
    model = AutoModelForTokenClassification.from_pretrained(model_folder("bert")).eval()
    far = influence(model, make_sight(model, 1, causal=False))

    for at, word in enumerate(WORDS):
        for other, there in enumerate(WORDS):
            if word >= 0 and there >= 0:
                # Three blocks: three words away, and nothing comes back through the special tokens.
                assert far[at, other] == (abs(word - there) <= 3)
    assert not far[0, 1:-1].any()


@pytest.mark.parametrize("architecture", ["mpnet", "albert"])
def test_models_take_their_mask_in_the_form_they_obey(model_folder, architecture: str) -> None:
    model = AutoModelForTokenClassification.from_pretrained(model_folder(architecture)).eval()
    sight = make_sight(model, 0, causal=False)
    first = []
    for changed in (5, 6):
        row = Row(0, np.array([1, changed]), np.zeros(2, int), np.array([0, 1]))
        first.append(model(input_ids=torch.from_numpy(row.ids[None]), attention_mask=sight([row], 2)).logits[0, 0])
    assert torch.allclose(first[0], first[1], atol=1e-5)


def test_a_model_that_ignores_the_mask_is_refused(model_folder, monkeypatch) -> None:
    model = AutoModelForTokenClassification.from_pretrained(model_folder("bert")).eval()
    forward = model.base_model.forward
    monkeypatch.setattr(model.base_model, "forward", lambda input_ids, attention_mask: forward(input_ids=input_ids))
    with pytest.raises(ModelError, match="ignores a custom attention mask"):
        make_sight(model, 1, causal=False)


def test_padding_neither_sees_nor_is_seen() -> None:
    seen = Sight(1, causal=False, form="seen")([Row(0, np.zeros(3), np.zeros(3), np.array([-1, 0, -1]))], 5)
    assert seen.shape == (1, 1, 5, 5)
    assert not seen[0, 0, :3, 3:].any()
    assert seen[0, 0, 3:].int().tolist() == [[0, 0, 0, 1, 0], [0, 0, 0, 0, 1]]


def test_a_negative_window_is_refused(encoder) -> None:
    with pytest.raises(InputError, match="0 words or more"):
        make_sight(encoder("bert").model, -1, causal=False)


def test_tagging_learns_through_a_window(model_folder, tmp_path, toy_texts) -> None:
    sets = Sets("toy", toy_texts(16, 1), toy_texts(8, 2), toy_texts(8, 3))
    settings = {"max_steps": 30, "epochs": 99, "batch": 16, "lr": 2e-2, "device": "cpu"}
    asked = {"task": "pos", "attention_window": 0, "out": tmp_path / "out"}
    result = finetune(str(model_folder("bert")), sets, **asked, **settings)

    # A word's tag is its first letter: no neighbour is needed.
    assert result.tables["scores"]["value"].item() > 0.8
    assert result.provenance.parameters["attention_window"] == 0
