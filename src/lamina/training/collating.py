"""Rows put side by side: padded, masked, labelled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from lamina.encoders.pieces import token_id
from lamina.training.attention import Sight
from lamina.training.objective import Batch, Objective, Row

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


class Collator:
    """Makes a batch of rows, as wide as its longest."""

    def __init__(
        self,
        objective: Objective,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerFast,
        sight: Sight | None = None,
    ) -> None:
        self._objective = objective
        self._pad = token_id(tokenizer.pad_token_id) or 0
        self._takes_types = (getattr(model.config, "type_vocab_size", 0) or 0) > 1
        self._sight = sight

    def __call__(self, rows: Sequence[Row]) -> Batch:
        width = max(len(row.ids) for row in rows)
        ids = torch.full((len(rows), width), self._pad)
        mask, types = torch.zeros_like(ids), torch.zeros_like(ids)
        for b, row in enumerate(rows):
            size = len(row.ids)
            ids[b, :size] = torch.from_numpy(row.ids)
            types[b, :size] = torch.from_numpy(row.types)
            mask[b, :size] = 1
        batch = {"input_ids": ids, "attention_mask": mask if self._sight is None else self._sight(rows, width)}
        if self._takes_types:
            batch["token_type_ids"] = types
        return self._objective.label(batch, rows)
