"""Running a model with its head over rows, without learning: on the selection set, on the scored set, on questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from lamina.encoders.batching import bucket
from lamina.training.collating import Collator
from lamina.training.objective import Item, Objective, Outcome, Row

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_OUTPUTS = ("logits", "start_logits", "end_logits")


def predict(model: PreTrainedModel, objective: Objective, rows: Sequence[Row], collator: Collator) -> list[Any]:
    """What the objective reads of each row, in their order; batches hold rows of similar length."""
    device = model.device
    budget = 2048 if device.type == "cpu" else 32768
    said: list[Any] = [None] * len(rows)
    training = model.training
    model.eval()
    for group in bucket([len(row.ids) for row in rows], budget):
        chosen = [rows[i] for i in group]
        batch = collator(chosen)
        with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=mixes(device)):
            out = model(**{name: tensor.to(device) for name, tensor in batch.items()})
        found = {name: out[name] for name in _OUTPUTS if name in out}
        for b, (i, row) in enumerate(zip(group, chosen, strict=True)):
            own = {name: tensor[b] for name, tensor in batch.items()}
            said[i] = objective.read(row, {name: tensor[b] for name, tensor in found.items()}, own)
    model.train(training)
    return said


def judge(
    model: PreTrainedModel, objective: Objective, items: Sequence[Item], rows: Sequence[Row], collator: Collator
) -> list[Outcome]:
    """How each text was done; `rows` are those of the texts, in order."""
    told: list[list[Any]] = [[] for _ in items]
    for row, said in zip(rows, predict(model, objective, rows, collator), strict=True):
        told[row.item].append(said)
    return [objective.judge(item, said) for item, said in zip(items, told, strict=True)]


def rows_of(objective: Objective, items: Sequence[Item]) -> list[Row]:
    """The rows of all texts."""
    return [row for number, item in enumerate(items) for row in objective.rows(number, item)]


def mixes(device: torch.device) -> bool:
    """Whether to compute in mixed precision: on a GPU that has bfloat16, never on a CPU."""
    return device.type == "cuda" and torch.cuda.is_bf16_supported()
