"""Gradient of a model's own loss with respect to attention: one backward pass per text."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cross_entropy

from lamina.errors import ModelError
from lamina.models.contract import SPECIAL, Encoder, Tokens
from lamina.models.running.devices import refuse_spread
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.models.running.task_heads import Kind, class_name, head_kind, load_with_head
from lamina.models.running.tokens import token_id
from lamina.types import Text

_OTHERWISE = "leave out --gradients"
MASKED = 0.15
"""Share of word tokens replaced by the mask token; at least one per text."""

HOW: dict[Kind, str] = {
    "masked-LM": f"masked-LM loss; {MASKED:.0%} of the words' tokens, drawn per text, replaced by the mask",
    "causal-LM": "causal-LM loss: every token after the first, given those before it",
    "sequence-classification": "cross-entropy of the fine-tuned head with its own most likely class",
    "token-classification": "cross-entropy of the fine-tuned head with its own most likely class of every word's token",
    "question-answering": "cross-entropy of the fine-tuned head with its own most likely start and end",
}
"""Description for provenance."""


class AttentionGradients(NamedTuple):
    """The gradient of the loss on one text."""

    tokens: Tokens
    """The model's input: masked tokens have the mask's id."""
    loss: float
    weights: Float[Tensor, "block head token token"]
    """With respect to the attention from (row) to (column); includes positions that a decoder may not attend to."""


class HeadLoss:
    """A model with its trained head, and that head's loss.

    For a classification head, the label is its own most likely answer: what would change that answer? An untrained
    head has random weights and would give random gradients, so such models are refused.
    """

    def __init__(self, encoder: Encoder, *, seed: int = 0) -> None:
        if not isinstance(encoder, HuggingFaceEncoder):
            raise ModelError(f"{encoder.name} is not a transformers model, so it has no loss of its own")
        refuse_spread(encoder.model, encoder.name, "gradients need it on one")
        self.kind: Kind = _check_head(encoder)
        self._encoder = encoder
        self._model: Any = load_with_head(encoder, otherwise=_OTHERWISE, attn_implementation="eager")
        self._model.to(encoder.model.device)
        self._seed = seed
        self._mask = token_id(encoder.tokenizer.mask_token_id)
        if self.kind == "masked-LM" and self._mask is None:
            raise ModelError(f"{encoder.name}: its tokenizer has no mask token, so there is no masked-LM loss")
        if self.kind.endswith("classification") and (self._model.config.num_labels or 0) < 2:
            raise ModelError(f"{encoder.name}: its head gives a single number, not classes to choose an answer from")

    def __call__(self, text: Text) -> AttentionGradients | None:
        """The gradients on a text that fits the model; None if there is nothing to predict (a single token)."""
        tokens, types, *_ = self._encoder.word_tokenizer(text)
        chosen = self._predicted(text, tokens)
        if not len(chosen):
            return None
        fed = tokens.ids.copy()
        if self.kind == "masked-LM":
            fed[chosen] = self._mask
        with torch.enable_grad():
            out = self._model(**self._inputs(fed, types), output_attentions=True)
            loss = self._loss(out, tokens, chosen)
            gradients = torch.autograd.grad(loss, out.attentions)
        return AttentionGradients(tokens._replace(ids=fed), loss.item(), torch.cat(gradients).float().cpu())

    def _inputs(self, ids: np.ndarray, types: np.ndarray) -> dict[str, Tensor]:
        device = self._model.device
        inputs = {"input_ids": torch.from_numpy(ids).long()[None].to(device)}
        if getattr(self._model.config, "type_vocab_size", 0) > 1:
            inputs["token_type_ids"] = torch.from_numpy(types).long()[None].to(device)
        return inputs

    def _predicted(self, text: Text, tokens: Tokens) -> np.ndarray:
        """The tokens that the head has to predict; all of them for a head with one answer per text."""
        if self.kind == "causal-LM":
            return np.arange(1, len(tokens.ids))
        inside = np.flatnonzero(tokens.words != SPECIAL)
        if self.kind != "masked-LM":
            return inside
        return masked_tokens(text.id, inside, self._seed)

    def _loss(self, out: Any, tokens: Tokens, chosen: np.ndarray) -> Tensor:
        if self.kind == "question-answering":
            return _loss_of_likeliest(out.start_logits) + _loss_of_likeliest(out.end_logits)
        if self.kind == "sequence-classification":
            return _loss_of_likeliest(out.logits)
        places = torch.from_numpy(chosen).to(out.logits.device)
        if self.kind == "token-classification":
            return _loss_of_likeliest(out.logits[0, places])
        expected = torch.from_numpy(tokens.ids[chosen]).long().to(out.logits.device)
        return cross_entropy(out.logits[0, places - 1 if self.kind == "causal-LM" else places], expected)


def masked_tokens(text: str, tokens: np.ndarray, seed: int) -> np.ndarray:
    """The tokens of a text that are masked at once: a share of `MASKED`, at least one.

    Seeded by the text's id, so that neither its position in the corpus nor its batch matters.

    Example:
        >>> len(masked_tokens("s1", np.arange(1, 21), seed=0))
        3
    """
    name = int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "little")
    rng = np.random.default_rng([seed, name])
    return np.sort(rng.choice(tokens, max(1, round(MASKED * len(tokens))), replace=False))


def _loss_of_likeliest(logits: Float[Tensor, "place answer"]) -> Tensor:
    return cross_entropy(logits, logits.argmax(-1))


def _check_head(encoder: HuggingFaceEncoder) -> Kind:
    kind = head_kind(encoder)
    if kind is None:
        raise ModelError(
            f"{encoder.name} was saved as {class_name(encoder) or 'a bare model'}, without a head whose loss lamina "
            f"knows; use a checkpoint with its language-modelling or fine-tuned head, or {_OTHERWISE}"
        )
    return kind
