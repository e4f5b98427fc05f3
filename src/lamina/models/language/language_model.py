"""A model with its language-model head."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from lamina import assets
from lamina.errors import ModelError
from lamina.models.contract import TOLERANCE, Encoder, apart
from lamina.models.running.anatomy import attention_by
from lamina.models.running.devices import is_spread
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.models.running.task_heads import (
    class_name,
    head_fingerprint,
    head_kind,
    head_of,
    load_with_head,
    random_model,
)
from lamina.models.running.tokens import token_id
from lamina.models.running.variants import with_positions_shifted
from lamina.types import Text

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Kind = Literal["causal", "masked"]

_KINDS: dict[str, Kind] = {"causal-LM": "causal", "masked-LM": "masked"}
_SEPARATOR = "<|endoftext|>"
"""What many vocabularies have between texts, whatever they call bos and eos."""
_TRIAL = Text("", ("The", "dog", "sees", "the", "cat"))


class LanguageModel:
    """A causal or masked language model: an encoder, and the head that makes words of its last layer.

    The head is whatever transformers runs after the body (a projection, a norm and a projection, a cap on the logits),
    with the body's weights where the two share some.
    """

    def __init__(self, encoder: HuggingFaceEncoder, whole: PreTrainedModel, kind: Kind) -> None:
        self.encoder, self.name = encoder, encoder.name
        self.kind: Kind = kind
        self.mask = token_id(encoder.tokenizer.mask_token_id) if kind == "masked" else None
        """Id of the mask token; None for a causal model."""
        if kind == "masked" and self.mask is None:
            raise ModelError(f"{self.name}: its tokenizer has no mask token, so no word can be hidden from it")
        self.start = _start(encoder) if kind == "causal" else None
        """Token put before a text so that its first word has a probability; None where the tokenizer puts one."""
        self._class, self._config = type(whole), whole.config
        self._head = head_of(whole, encoder)
        self._dtype = next((parameter.dtype for parameter in self._head.parameters()), encoder.model.dtype)
        self.vocabulary: int = self.logits(torch.zeros(1, encoder.width)).shape[-1]
        """Number of tokens that the head predicts."""

    def logits(self, states: Float[Tensor, "*places width"]) -> Float[Tensor, "*places token"]:
        """The head's logits for states of the last layer, as `Encoder.encode` gives them; on the model's device."""
        flat = states.reshape(1, -1, states.shape[-1]).to(self.encoder.device, self._dtype)
        # A gradient is wanted where translators of inner layers are trained.
        with torch.set_grad_enabled(torch.is_grad_enabled() and states.requires_grad):
            output = self._head(inputs_embeds=flat).logits[0]
        return output.float().reshape(*states.shape[:-1], -1)

    @property
    def fingerprint(self) -> str:
        """Changes whenever its answers could change: the encoder's fingerprint, and the weights of the head alone."""
        return head_fingerprint(self._head, self.encoder, self._class.__name__, self.start)

    def shifted(self, by: int) -> LanguageModel:
        """The same model whose texts begin `by` positions later (`with_positions_shifted`); its head is the same."""
        shifted = copy.copy(self)
        shifted.encoder = with_positions_shifted(self.encoder, by)
        return shifted

    def random_twin(self, seed: int = 0) -> LanguageModel:
        """The same architecture with new random weights, those of the head included."""
        return self.random_on(self.encoder.random_twin(seed), seed)

    def random_on(self, encoder: HuggingFaceEncoder, seed: int = 0) -> LanguageModel:
        """A head with new random weights on another encoder of the same shape."""
        fresh = random_model(self._class, self._config, self._dtype, seed)
        return LanguageModel(encoder, fresh, self.kind)

    def describe(self) -> dict[str, str]:
        """Its entry in provenance; `body` is the encoder's own fingerprint, by which results of both are found."""
        about = self.encoder.describe()
        head = {"fingerprint": self.fingerprint, "body": about["fingerprint"], "head": f"{self.kind} language model"}
        if self.start is not None:
            head["text_begins_with"] = str(self.encoder.tokenizer.convert_ids_to_tokens(self.start))
        return {**about, **head}


def language_model(encoder: Encoder) -> LanguageModel:
    """An encoder's model with its language-model head, loaded once; a ModelError in words where it has none.

    Example:
        >>> model = language_model(lamina.load_encoder("smollm2"))  # doctest: +SKIP
        >>> model.kind, model.vocabulary  # doctest: +SKIP
        ('causal', 49152)
    """
    if not isinstance(encoder, HuggingFaceEncoder):
        raise ModelError(f"{encoder.name} has no language-model head; {_speakers()}")
    if encoder.language_model is None:
        encoder.language_model = _with_head(encoder)
    return encoder.language_model


def has_language_model(encoder: Encoder) -> bool:
    """Whether an encoder was saved with a language-model head, or has one in memory; nothing is loaded."""
    if not isinstance(encoder, HuggingFaceEncoder) or encoder.reading.chat:
        return False
    return head_kind(encoder) in _KINDS and not _is_sentence_encoder(encoder)


def _with_head(encoder: HuggingFaceEncoder) -> LanguageModel:
    if encoder.reading.chat:
        raise ModelError(f"{encoder.name}: what a language model says is asked of plain text; leave out --chat")
    kind = _KINDS.get(head_kind(encoder) or "")
    if kind is None or _is_sentence_encoder(encoder):
        raise ModelError(f"{encoder.name} {_without_head(encoder)}; {_speakers()}")
    whole = encoder.whole
    if whole is None:
        whole = load_with_head(encoder, otherwise="name another model")
    model = LanguageModel(encoder, whole, kind)
    _check_head(model, whole)
    return model


def _without_head(encoder: HuggingFaceEncoder) -> str:
    if _is_sentence_encoder(encoder):
        return "is a sentence encoder: it has no language-model head"
    saved = class_name(encoder)
    return f"was saved as {saved}: it has no language-model head" if saved else "has no language-model head"


def _is_sentence_encoder(encoder: HuggingFaceEncoder) -> bool:
    """Whether it was saved by sentence-transformers, which keep the name of the class they began with, not its head."""
    return encoder.whole is None and (Path(str(encoder.model.name_or_path)) / "modules.json").is_file()


def _speakers() -> str:
    """Which models have a head, as the end of an error message."""
    names = ", ".join(card.name for card in assets.cards().values() if card.kind == "model" and card.speaks)
    return f"these have: {names}, and any checkpoint that was saved with its head, such as gpt2 or bert-base-uncased"


def _start(encoder: HuggingFaceEncoder) -> int | None:
    """The token that begins a text, where the tokenizer puts none: that which separates texts in training.

    Of a model tuned for chats, bos and eos may be the marks of a turn, after which no plain text follows: with
    `<|im_start|>` before them, smollm2 passes .50 of SyntaxGym's items, with `<|endoftext|>` .63.
    """
    if encoder.word_tokenizer.around[0]:
        return None
    tokenizer = encoder.tokenizer
    named = (tokenizer.bos_token, tokenizer.eos_token, _SEPARATOR, tokenizer.pad_token)
    known = tokenizer.get_vocab()
    candidates = [str(token) for token in named if token is not None and str(token) in known]
    if not candidates:
        raise ModelError(
            f"{encoder.name}: its tokenizer has no token that begins a text, so the first word has no probability"
        )
    turns = str(tokenizer.chat_template or "")
    return known[next((token for token in candidates if token not in turns), candidates[0])]


def _check_head(model: LanguageModel, whole: Any) -> None:
    """Body and head, run separately, must give the model's own logits."""
    encoder = model.encoder
    if is_spread(encoder.model) or is_spread(whole):
        return
    inputs = encoder.inputs(encoder.rows(0, encoder.word_tokenizer(_TRIAL)))
    with torch.no_grad(), attention_by(encoder.model, None):
        apart_run = model.logits(encoder.model(**inputs).last_hidden_state)
        together = whole.to(encoder.device)(**inputs).logits
    if apart(apart_run, together.float()) > TOLERANCE[encoder.model.dtype]:
        raise ModelError(
            f"{model.name} ({type(whole).__name__}): its head reads more than its last layer, so lamina cannot ask it"
        )
