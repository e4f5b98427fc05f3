"""The model that is trained: the head of its task, and attention limited to nearby words."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from lamina.errors import InputError, ModelError
from lamina.models.contract import SPECIAL
from lamina.models.interventions.pruned import layer_weights, set_weights, weights_of
from lamina.models.running.batching import InputRow as EncoderRow
from lamina.models.running.devices import input_device, refuse_spread
from lamina.models.running.huggingface import HuggingFaceEncoder, has_weights_of
from lamina.models.running.tokens import token_id
from lamina.models.weights.hub import quiet_transformers
from lamina.training.objective import Objective
from lamina.training.settings import TrainingPlan

if TYPE_CHECKING:
    from pathlib import Path

    from transformers import PreTrainedModel, PreTrainedTokenizerFast


def with_padding(tokenizer: PreTrainedTokenizerFast) -> PreTrainedTokenizerFast:
    """The tokenizer, with a padding token: decoders often have none and use their end of text."""
    if token_id(tokenizer.pad_token_id) is None:
        spare = tokenizer.eos_token or tokenizer.unk_token
        if spare is None:
            raise ModelError(f"{tokenizer.name_or_path}: its tokenizer has neither a padding nor an end token")
        tokenizer.pad_token = spare
    return tokenizer


def source_of(encoder: HuggingFaceEncoder) -> str:
    """Where an encoder was loaded from."""
    source = encoder.model.name_or_path
    if not source:
        raise ModelError(f"{encoder.name} was not loaded from a folder, so it gets no head; name a model or a folder")
    return source


def load_with_head(encoder: HuggingFaceEncoder, objective: Objective, *, seed: int) -> PreTrainedModel:
    """The encoder's model with the objective's head, its fresh weights drawn with `seed`."""
    import torch

    refuse_spread(encoder.model, encoder.name, "fine-tuning needs it on one")
    settings: dict[str, Any] = {}
    if objective.labels:
        numbered = dict(enumerate(objective.labels))
        settings = {"id2label": numbered, "label2id": {label: number for number, label in numbered.items()}}
    if objective.head == "SequenceClassification":
        settings["problem_type"] = "single_label_classification"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = _load(source_of(encoder), objective.head, encoder.name, settings | _commit(encoder))
    _take_body(model, encoder)
    model.config.pad_token_id = token_id(with_padding(encoder.tokenizer).pad_token_id)
    return model


def _take_body(model: PreTrainedModel, encoder: HuggingFaceEncoder) -> None:
    """Copy the encoder's weights below the head.

    transformers alone is not enough: where a head keeps the body under another name than the checkpoint does (Llama's
    span head), it initialises a random body without a warning.
    """
    body = model.base_model
    if body is model or type(body) is not type(encoder.model):
        raise ModelError(f"{encoder.name}: {type(model).__name__} is not built on {type(encoder.model).__name__}")
    missing, unexpected = body.load_state_dict(encoder.model.state_dict(), strict=False)
    absent = [key for key in (*missing, *unexpected) if not key.startswith("pooler")]
    if absent:
        raise ModelError(f"{encoder.name}: {type(model).__name__} has no place for {absent[0]}")


def reload(folder: Path, head: str) -> PreTrainedModel:
    """What fine-tuning saved, head and all."""
    return _load(str(folder), head, folder.name, {}).eval()


_CLASSES = "SequenceClassification"


def load_class_head(encoder: HuggingFaceEncoder) -> PreTrainedModel | None:
    """The encoder's model with the class head that it was saved with; None where it has none.

    Read once more from where the encoder came from: an encoder does without the pooler, which this head reads.
    """
    source, classes = encoder.model.name_or_path, encoder.model.config.architectures or ()
    if not source or not any(f"For{_CLASSES}" in name for name in classes):
        return None
    settings = {"output_loading_info": True, "dtype": encoder.model.dtype, **_commit(encoder)}
    model, info = _load(source, _CLASSES, encoder.name, settings)
    # A head that is not in the checkpoint is random; a model changed in memory since is another one.
    unchanged = has_weights_of(model, encoder) and not info["missing_keys"]
    return model.eval().requires_grad_(False) if unchanged else None


def _commit(encoder: HuggingFaceEncoder) -> dict[str, Any]:
    """The revision that an encoder of the hub was loaded at."""
    commit = getattr(encoder.model.config, "_commit_hash", None)
    return {} if commit is None else {"revision": commit}


def _load(source: str, head: str, name: str, settings: dict[str, Any]) -> Any:
    import torch
    import transformers

    auto = getattr(transformers, f"AutoModelFor{head}")
    # A head with other classes is re-initialised; the body was checked when the encoder was loaded.
    fixed = {"dtype": torch.float32, "ignore_mismatched_sizes": True, "trust_remote_code": False}
    try:
        with quiet_transformers():
            return auto.from_pretrained(source, **(fixed | settings))
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ModelError(f"{name} cannot be given a head for {head} ({reason}); take another architecture") from error


# Layers that are frozen or re-initialised when a model is fine-tuned.


def refuse_layers(encoder: HuggingFaceEncoder, *, freeze: int | None, reset: int) -> None:
    """Raise an InputError for layers that the model does not have, or that could never learn."""
    if freeze is not None and freeze > encoder.blocks:
        raise InputError(f"freeze: {encoder.name} has the layers 0 to {encoder.blocks}; got {freeze}")
    if reset > encoder.blocks:
        raise InputError(f"reset: {encoder.name} has {encoder.blocks} blocks; got {reset}")
    if reset and freeze is not None and freeze > encoder.blocks - reset:
        raise InputError(
            f"freeze and reset: layer {freeze} would be re-initialised and could not learn; with --reset {reset}, "
            f"freeze at most {encoder.blocks - reset}"
        )


def prepare_layers(model: PreTrainedModel, encoder: HuggingFaceEncoder, plan: TrainingPlan) -> None:
    """Freeze and re-initialise the layers of a plan, in a model with a head that was made from the encoder.

    New weights are those of the encoder's random twin with the plan's seed. The head, and a pooler that it reads, are
    always trained.
    """
    if plan.freeze is None and not plan.reset:
        return
    layers = layer_weights(encoder)
    if plan.reset:
        names = [name for layer in layers[-plan.reset :] for name in layer]
        set_weights(model, weights_of(encoder.random_twin(plan.init), names))
    for name in [name for layer in layers[: 0 if plan.freeze is None else plan.freeze + 1] for name in layer]:
        model.base_model.get_parameter(name).requires_grad_(False)


def layers_in_words(plan: TrainingPlan, encoder: HuggingFaceEncoder) -> str:
    """What a plan does with layers, to be added to its other settings; nothing where all are trained as they are."""
    frozen = "" if plan.freeze is None else f", layers 0 to {plan.freeze} frozen"
    return frozen + (f", layers from {encoder.blocks - plan.reset + 1} on re-initialised" if plan.reset else "")


MaskForm = Literal["seen", "added", "flat"]
"""How a model takes a custom mask: true where seen; 0 where seen and very negative elsewhere; without heads."""
_FORMS: tuple[MaskForm, ...] = ("seen", "added", "flat")


@runtime_checkable
class WordRow(Protocol):
    """A row of a batch, of training or of an encoder."""

    @property
    def ids(self) -> np.ndarray: ...

    @property
    def words(self) -> np.ndarray:
        """[token] The word of each token; SPECIAL for special tokens."""
        ...


class Sight:
    """What each token may look at: words at most `reach` words away, its own word, and special tokens.

    Special tokens see only special tokens, so that nothing from further away comes back through them. Each block
    widens what a word sees by `reach` words, as in the paper.
    """

    def __init__(self, reach: int, *, causal: bool, form: MaskForm) -> None:
        self.reach, self.causal = reach, causal
        self.form: MaskForm = form

    def __call__(self, rows: Sequence[WordRow], width: int) -> Tensor:
        seen = np.zeros((len(rows), width, width), bool)
        # Padding looks at itself: a row of attention over nothing is not a number.
        seen[:] = np.eye(width, dtype=bool)
        for b, row in enumerate(rows):
            size = len(row.ids)
            seen[b, :size, :size] = visible(row.words, self.reach, causal=self.causal)
        return _formed(torch.from_numpy(seen), self.form)


def visible(words: np.ndarray, reach: int, *, causal: bool = False) -> np.ndarray:
    """[token, token] Whether the first may look at the second.

    Example:
        >>> visible(np.array([-1, 0, 1, 2, -1]), 1).astype(int).tolist()
        [[1, 0, 0, 0, 1], [1, 1, 1, 0, 1], [1, 1, 1, 1, 1], [1, 0, 1, 1, 1], [1, 0, 0, 0, 1]]
    """
    special = words == SPECIAL
    near = np.abs(words[:, None] - words[None, :]) <= reach
    seen = (near & ~special[:, None] & ~special[None, :]) | special[None, :]
    return np.tril(seen) if causal else seen


def _formed(seen: Tensor, form: MaskForm) -> Tensor:
    if form == "flat":
        return seen.long()
    if form == "seen":
        return seen.unsqueeze(1)
    return torch.where(seen, 0.0, torch.finfo(torch.float32).min).unsqueeze(1)


def make_sight(model: PreTrainedModel, reach: int, *, causal: bool) -> Sight:
    """The mask in the form that this model obeys; found by trying, since a model that ignores it says nothing."""
    if reach < 0:
        raise InputError(f"an attention window is 0 words or more; got {reach}")
    for form in _FORMS:
        if _obeys(model, form, causal=causal):
            return Sight(reach, causal=causal, form=form)
    raise ModelError(
        f"{type(model).__name__} ignores a custom attention mask, so its attention cannot be limited; "
        "leave out --attention-window, or take a model of another architecture"
    )


def _obeys(model: PreTrainedModel, form: MaskForm, *, causal: bool) -> bool:
    """Whether words that see only themselves do not change with others, and a full mask changes nothing."""
    device = input_device(model)
    ids = torch.tensor([[1, 2, 3], [1, 2, 4]], device=device)
    alone = torch.eye(3, dtype=torch.bool, device=device).expand(2, -1, -1)
    whole = torch.ones_like(alone).tril() if causal else torch.ones_like(alone)
    body = model.base_model
    training = body.training
    body.eval()
    try:
        with torch.no_grad():
            limited = body(input_ids=ids, attention_mask=_formed(alone, form)).last_hidden_state
            full = body(input_ids=ids, attention_mask=_formed(whole, form)).last_hidden_state
            plain = body(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    except (RuntimeError, ValueError, TypeError, IndexError):
        return False
    finally:
        body.train(training)
    apart = (limited[0, :2] - limited[1, :2]).abs().max()
    return bool(apart < 1e-5) and bool(torch.allclose(full, plain, atol=1e-4)) and not torch.equal(limited, plain)


class WindowedEncoder(HuggingFaceEncoder):
    """An encoder whose words see at most `reach` words to each side in every block: as it was fine-tuned."""

    def __init__(self, base: HuggingFaceEncoder, reach: int) -> None:
        super().__init__(
            base.model,
            base.tokenizer,
            name=f"{base.name} (window {reach})",
            limit=base.limit,
            reading=base.reading,
        )
        self._base, self._reach = base, reach
        self._sights: dict[str, Sight] = {}

    @property
    def fingerprint(self) -> str:
        """See `Encoder.fingerprint`."""
        return hashlib.sha256(f"{self._base.fingerprint} window {self._reach}".encode()).hexdigest()

    def random_twin(self, seed: int = 0, *, keep_embeddings: bool = False) -> WindowedEncoder:
        """See `Encoder.random_twin`."""
        return WindowedEncoder(self._base.random_twin(seed, keep_embeddings=keep_embeddings), self._reach)

    def with_one_segment(self) -> WindowedEncoder:
        """See `Encoder.with_one_segment`."""
        return WindowedEncoder(self._base.with_one_segment(), self._reach)

    def _mask(self, rows: Sequence[EncoderRow], inside: Tensor) -> Tensor:
        # Implementations of attention take masks in different forms.
        how = str(self.model.config._attn_implementation)
        if how not in self._sights:
            self._sights[how] = make_sight(self.model, self._reach, causal=self.causal)
        return self._sights[how](rows, inside.shape[1])
