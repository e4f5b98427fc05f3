"""The head that a model was saved with: which kind it is, and the model together with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from lamina.encoders.huggingface import HuggingFaceEncoder, has_weights_of
from lamina.encoders.quiet import quiet_transformers
from lamina.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Kind = Literal["masked-LM", "causal-LM", "sequence-classification", "token-classification", "question-answering"]

_HEADS: dict[str, tuple[Kind, str]] = {
    "ForMaskedLM": ("masked-LM", "AutoModelForMaskedLM"),
    "ForPreTraining": ("masked-LM", "AutoModelForMaskedLM"),
    "ForCausalLM": ("causal-LM", "AutoModelForCausalLM"),
    "LMHeadModel": ("causal-LM", "AutoModelForCausalLM"),
    "ForSequenceClassification": ("sequence-classification", "AutoModelForSequenceClassification"),
    "ForTokenClassification": ("token-classification", "AutoModelForTokenClassification"),
    "ForQuestionAnswering": ("question-answering", "AutoModelForQuestionAnswering"),
}
"""Suffix of a checkpoint's class name -> its kind, and the class that loads it with its head."""


def head_kind(encoder: HuggingFaceEncoder) -> Kind | None:
    """The head that a model was saved with, or has in memory, by the name of its class; None if it is not known."""
    found = _named_head(class_name(encoder))
    return None if found is None else found[0]


def class_name(encoder: HuggingFaceEncoder) -> str:
    """The class that a model was saved as, or has in memory; empty if that is not known."""
    if encoder.whole is not None:
        return type(encoder.whole).__name__
    (architecture, *_) = encoder.model.config.architectures or ("",)
    return architecture


def _named_head(architecture: str) -> tuple[Kind, str] | None:
    return next((head for ending, head in _HEADS.items() if architecture.endswith(ending)), None)


def load_with_head(encoder: HuggingFaceEncoder, *, otherwise: str, **settings: Any) -> PreTrainedModel:
    """The checkpoint of an encoder once more, with its head, where the encoder runs.

    Args:
        encoder: of a model whose `head_kind` is known.
        otherwise: what a user can do without it; the end of an error message.
        settings: of `from_pretrained`.
    """
    import transformers

    found = _named_head(class_name(encoder))
    if found is None:
        raise ModelError(f"{encoder.name} was saved without a head that lamina knows; {otherwise}")
    source = encoder.model.name_or_path
    try:
        with quiet_transformers():
            model, info = getattr(transformers, found[1]).from_pretrained(
                source,
                revision=getattr(encoder.model.config, "_commit_hash", None),
                dtype=encoder.model.dtype,
                output_loading_info=True,
                trust_remote_code=False,
                **settings,
            )
    except Exception as error:
        # As in loading: every library that reads a part of the folder can fail in its own way.
        reason = str(error).strip().partition("\n")[0]
        raise ModelError(f"{encoder.name} cannot be loaded with its head ({reason}); {otherwise}") from error
    absent = sorted(info["missing_keys"])
    if absent:
        raise ModelError(
            f"{encoder.name}: {len(absent)} weights of its head are not in the checkpoint (first: {absent[0]}), so it "
            f"would be a random head; use a checkpoint with its head, or {otherwise}"
        )
    if not has_weights_of(model, encoder):
        raise ModelError(
            f"{encoder.name} is not the checkpoint at {source} any more (changed in memory, or with an adapter added), "
            f"so the head there is not its own; save it with its head first, or {otherwise}"
        )
    return model.eval()
