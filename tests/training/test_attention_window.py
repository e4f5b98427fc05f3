"""Attention limited to k words: nothing from further away reaches a word through one block."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoModelForTokenClassification

from lamina.analyses.answering.finetune import finetune
from lamina.errors import InputError, ModelError
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.testing import check_encoder
from lamina.training.heads import Sight, WindowedEncoder, make_sight, visible
from lamina.training.objective import TrainingRow
from lamina.training.reading import Sets
from lamina.types import Text

WORDS = np.array([-1, 0, 0, 1, 2, 3, 3, 4, 5, -1])


def influence(model, sight: Sight) -> np.ndarray:
    """[token, token] How much the first one's logits change with the second one's embedding."""
    ids = torch.arange(5, 15).unsqueeze(0)
    row = TrainingRow(0, ids[0].numpy(), np.zeros(10, int), WORDS)
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
        row = TrainingRow(0, np.array([1, changed]), np.zeros(2, int), np.array([0, 1]))
        first.append(model(input_ids=torch.from_numpy(row.ids[None]), attention_mask=sight([row], 2)).logits[0, 0])
    assert torch.allclose(first[0], first[1], atol=1e-5)


def test_a_model_that_ignores_the_mask_is_refused(model_folder, monkeypatch) -> None:
    model = AutoModelForTokenClassification.from_pretrained(model_folder("bert")).eval()
    forward = model.base_model.forward
    monkeypatch.setattr(model.base_model, "forward", lambda input_ids, attention_mask: forward(input_ids=input_ids))
    with pytest.raises(ModelError, match="ignores a custom attention mask"):
        make_sight(model, 1, causal=False)


def test_padding_neither_sees_nor_is_seen() -> None:
    seen = Sight(1, causal=False, form="seen")([TrainingRow(0, np.zeros(3), np.zeros(3), np.array([-1, 0, -1]))], 5)
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


@pytest.mark.parametrize("architecture", ["bert", "gpt2", "mpnet"])
def test_an_encoder_through_a_window_keeps_the_contract(encoder, architecture: str) -> None:
    base = encoder(architecture)
    near = WindowedEncoder(base, 1)
    check_encoder(near)
    assert near.fingerprint not in (base.fingerprint, WindowedEncoder(base, 2).fingerprint)
    assert near.name == f"{base.name} (window 1)"


def by_word(encoder: HuggingFaceEncoder, text: Text) -> list[torch.Tensor]:
    made = next(encoder.encode([text]))
    return [made.states[torch.from_numpy(made.tokens.words == word)].mean(0) for word in range(len(text.words))]


def test_an_encoder_through_a_window_sees_what_training_showed(encoder) -> None:
    base = encoder("bert")
    text = Text("a", ("the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog"))
    near = next(WindowedEncoder(base, 1).encode([text])).states
    row = TrainingRow(0, *base.word_tokenizer(text)[0][:1], np.zeros(0), base.tokenize(text).words)
    mask = make_sight(base.model, 1, causal=False)([row], len(row.ids))
    with torch.no_grad():
        expected = base.model(torch.from_numpy(row.ids[None]).long(), attention_mask=mask).last_hidden_state[0]
    assert torch.allclose(near[:, -1], expected, atol=1e-5)
    # Three blocks of one word each: a word that is four words away changes nothing.
    # Of as many pieces: all words see the separator, which would move otherwise.
    others = (replace(text, words=(*text.words[:7], word)) for word in text.words[:7])
    far = next(each for each in others if len(base.tokenize(each).ids) == len(base.tokenize(text).ids))
    changed = [
        word
        for word, (one, other) in enumerate(
            zip(*(by_word(WindowedEncoder(base, 1), each) for each in (text, far)), strict=True)
        )
        if not torch.allclose(one, other, atol=1e-5)
    ]
    assert changed == [4, 5, 6, 7]
    whole = next(WindowedEncoder(base, 50).encode([text])).states
    assert not torch.allclose(near, whole, atol=1e-3)


def test_attention_through_a_window_is_none_outside_it(encoder) -> None:
    base = encoder("bert")
    text = Text("a", ("the", "quick", "brown", "fox", "jumps"))
    made = next(WindowedEncoder(base, 1).encode([text], ("maps",)))
    seen = torch.from_numpy(visible(made.tokens.words, 1))
    assert float(made.maps[..., ~seen].abs().max()) < 1e-6
    assert torch.allclose(made.maps.sum(-1), torch.ones(()), atol=1e-4)
