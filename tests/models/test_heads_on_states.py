"""Heads of fine-tuned models, run apart from their bodies."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

from lamina.errors import ModelError
from lamina.models.loading import encoder_from
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.models.running.task_heads import OUTPUTS, head_on_states
from lamina.types import Text
from tests.models.tiny_models import ARCHITECTURES

KINDS: dict[str, Any] = {
    "TokenClassification": "token-classification",
    "SequenceClassification": "sequence-classification",
    "QuestionAnswering": "question-answering",
}


def tuned(architecture: str, head: str) -> HuggingFaceEncoder:
    tiny = ARCHITECTURES[architecture]
    tokenizer = tiny.make_tokenizer()
    config = tiny.make_config(len(tokenizer))
    config.num_labels = 2
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model = getattr(transformers, f"AutoModelFor{head}").from_config(config)
        for weight in model.parameters():
            weight.data += 0.3 * torch.randn_like(weight)
    encoder = encoder_from(model, tokenizer, name="tuned")
    assert isinstance(encoder, HuggingFaceEncoder)
    return encoder


@pytest.mark.parametrize(
    ("architecture", "head"),
    [
        ("albert", "SequenceClassification"),
        ("deberta-v2", "SequenceClassification"),
        ("llama", "SequenceClassification"),
        ("distilbert", "TokenClassification"),
        ("llama", "QuestionAnswering"),
    ],
)
def test_heads_on_padded_states_say_what_the_model_says_of_each_text(architecture: str, head: str) -> None:
    encoder = tuned(architecture, head)
    own = head_on_states(encoder, KINDS[head])
    texts = [Text("", ("the", "dog", "runs", "far", "away")), Text("", ("a", "cat"))]
    rows = [encoder.rows(at, encoder.word_tokenizer(text))[0] for at, text in enumerate(texts)]
    made = own(rows, encoder.last(rows))
    whole: Any = encoder.whole
    if encoder.pooler is not None:
        whole.base_model.register_module("pooler", encoder.pooler)
    for at, row in enumerate(rows):
        with torch.no_grad():
            said = whole(torch.from_numpy(row.ids).long()[None])
        for name, each in zip(OUTPUTS[own.kind], made, strict=True):
            found = each[at] if head == "SequenceClassification" else each[at, : len(row.ids)]
            torch.testing.assert_close(found, said[name][0], atol=1e-4, rtol=1e-4)


def test_a_head_with_other_weights_has_another_fingerprint_and_the_twin_a_random_head() -> None:
    encoder = tuned("bert", "SequenceClassification")
    head = head_on_states(encoder, "sequence-classification")
    before = head.fingerprint
    assert before != encoder.fingerprint
    encoder.head_on_states = None
    whole: Any = encoder.whole
    with torch.no_grad():
        whole.classifier.weight += 1
    assert head_on_states(encoder, "sequence-classification").fingerprint != before
    twin = encoder.random_twin(0)
    assert head.on(twin, 0).fingerprint == head.on(twin, 0).fingerprint != head.on(twin, 1).fingerprint


class OddForTokenClassification(transformers.BertForTokenClassification):
    """Its head reads the first block."""

    def forward(self, input_ids: Any = None, attention_mask: Any = None, **named: Any) -> Any:  # pyright: ignore
        made = self.bert(input_ids, attention_mask, inputs_embeds=named.get("inputs_embeds"), output_hidden_states=True)
        return {"logits": self.classifier((made.hidden_states or [0, made[0]])[1])}


def test_a_head_that_reads_more_than_the_last_layer_is_refused() -> None:
    tiny = ARCHITECTURES["bert"]
    tokenizer = tiny.make_tokenizer()
    encoder = encoder_from(OddForTokenClassification(tiny.make_config(len(tokenizer))), tokenizer, name="odd")
    assert isinstance(encoder, HuggingFaceEncoder)
    with pytest.raises(ModelError, match=r"its head reads more than its last layer.*probe:TASK@LAYER"):
        head_on_states(encoder, "token-classification")


def test_a_model_without_such_a_head_is_told_what_it_was_saved_as() -> None:
    with pytest.raises(ModelError, match="saved as BertForTokenClassification: it has no head for question-answering"):
        head_on_states(tuned("bert", "TokenClassification"), "question-answering")
