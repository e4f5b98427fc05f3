"""Attention limited to nearby words, by a mask that the model is called with: in training, and when it is probed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from lamina.errors import InputError, ModelError
from lamina.models.contract import SPECIAL
from lamina.models.running.batching import InputRow as EncoderRow
from lamina.models.running.devices import input_device
from lamina.models.running.huggingface import HuggingFaceEncoder

if TYPE_CHECKING:
    from transformers import PreTrainedModel

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
