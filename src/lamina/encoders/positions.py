"""The same text further on: position ids shifted by some places, for models that take them."""

from __future__ import annotations

import copy
import hashlib
import inspect
from collections.abc import Sequence
from typing import Any

import torch

from lamina.encoders.contract import Encoder
from lamina.encoders.huggingface import HuggingFaceEncoder
from lamina.encoders.language_model import LanguageModel
from lamina.encoders.rows import Row
from lamina.errors import ModelError

_LEAST = 16
"""Positions that must be left for a text."""


def with_positions_shifted(encoder: Encoder, by: int) -> HuggingFaceEncoder:
    """The same encoder, whose texts begin `by` positions further on; a ModelError in words where that is impossible.

    Models with absolute positions have as many fewer places for a text. Rotary positions are relative: such a model
    should not notice.

    Example:
        >>> encoder = with_positions_shifted(lamina.load_encoder("minilm"), 100)  # doctest: +SKIP
        >>> encoder.limit  # doctest: +SKIP
        412
    """
    if not isinstance(encoder, HuggingFaceEncoder):
        raise ModelError(f"{encoder.name} has no positions to shift")
    if "position_ids" not in inspect.signature(encoder.model.forward).parameters:
        kind = type(encoder.model).__name__
        raise ModelError(f"{encoder.name} ({kind}) takes no position ids, so none can be shifted")
    if by < 0 or encoder.limit - by < _LEAST:
        raise ModelError(
            f"{encoder.name} has {encoder.limit} positions: shifted by {by}, fewer than {_LEAST} are left for a text"
        )
    return ShiftedEncoder(encoder, by)


def with_model_shifted(model: LanguageModel, by: int) -> LanguageModel:
    """A language model that reads through `with_positions_shifted`; its head is the same."""
    shifted = copy.copy(model)
    shifted.encoder = with_positions_shifted(model.encoder, by)
    return shifted


class ShiftedEncoder(HuggingFaceEncoder):
    """An encoder whose texts do not begin at the model's first position."""

    def __init__(self, base: HuggingFaceEncoder, by: int) -> None:
        super().__init__(
            base.model,
            base.tokenizer,
            name=base.name,
            limit=base.limit - by,
            tokens_per_batch=base.batch_size.tokens if base.batch_size.settled else None,
            span_model=base.span_model,
            reading=base.reading,
        )
        self.whole, self.origin = base.whole, base.origin
        self._base, self._by = base, by
        self._first = _first_position(base)

    @property
    def fingerprint(self) -> str:
        """See `Encoder.fingerprint`."""
        return hashlib.sha256(f"{self._base.fingerprint} positions {self._by}".encode()).hexdigest()

    def inputs(self, rows: Sequence[Row]) -> dict[str, Any]:
        """See `HuggingFaceEncoder.inputs`."""
        inputs = super().inputs(rows)
        size = inputs["input_ids"].shape
        places = torch.arange(size[1], device=inputs["input_ids"].device) + self._first + self._by
        return inputs | {"position_ids": places.expand(size)}

    def random_twin(self, seed: int = 0, *, keep_embeddings: bool = False) -> ShiftedEncoder:
        """See `Encoder.random_twin`."""
        return ShiftedEncoder(self._base.random_twin(seed, keep_embeddings=keep_embeddings), self._by)

    def with_one_segment(self) -> ShiftedEncoder:
        """See `Encoder.with_one_segment`."""
        return ShiftedEncoder(self._base.with_one_segment(), self._by)


def _first_position(encoder: HuggingFaceEncoder) -> int:
    """Where the model's own positions begin: RoBERTa's and MPNet's after that of padding."""
    for name, module in encoder.model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, torch.nn.Embedding):
            return 0 if module.padding_idx is None else module.padding_idx + 1
    return 0
