"""The masked language model: 15 % of the tokens are hidden and predicted from the rest."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lamina.errors import ModelError
from lamina.models.contract import SPECIAL
from lamina.models.running.tokens import WordTokenizer, token_id
from lamina.training.objective import IGNORED, Batch, Item, Objective, Sum, TextOutcome, TrainingRow, text_of, unit_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SHARE = 0.15
"""Of the tokens, those to predict."""
_HIDDEN, _OTHER = 0.8, 0.1
"""Of those: replaced by the mask, by any token; the rest stays as it is (Devlin et al. 2019)."""


class MaskedObjective(Objective):
    """Loss (nats per hidden token) and accuracy on hidden tokens."""

    head = "MaskedLM"
    metric = "loss"
    greater = False

    def __init__(
        self, word_tokenizer: WordTokenizer, length: int, tokenizer: PreTrainedTokenizerFast, seed: int
    ) -> None:
        super().__init__(word_tokenizer, length)
        mask = token_id(tokenizer.mask_token_id)
        if mask is None:
            raise ModelError("its tokenizer has no mask token, so there is no masked language model to train")
        self._mask = mask
        special = set(tokenizer.all_special_ids)
        self._others = torch.tensor([id for id in sorted(tokenizer.get_vocab().values()) if id not in special])
        self._seed = seed

    def rows(self, number: int, item: Item) -> list[TrainingRow]:
        """See `Objective.rows`; a longer text becomes several rows, nothing is cut away."""
        tokens, types, head, tail = self.word_tokenizer(text_of(item))
        size = len(tokens.ids)
        room = max(1, self.length - head - tail)
        rows = []
        for start in range(head, size - tail, room):
            keep = np.r_[0:head, start : min(start + room, size - tail), size - tail : size]
            rows.append(TrainingRow(number, tokens.ids[keep], np.array(types, np.int8)[keep], tokens.words[keep]))
        return rows

    def label(self, batch: Batch, rows: Sequence[TrainingRow]) -> Batch:
        """See `Objective.label`.

        What is hidden depends on the seed and on the rows that meet in a batch, not on how many batches came before:
        it is another in every epoch, and the same after a restart.
        """
        ids = batch["input_ids"]
        words = torch.full_like(ids, SPECIAL)
        for b, row in enumerate(rows):
            words[b, : len(row.ids)] = torch.from_numpy(row.words)
        draw = torch.Generator().manual_seed(_seed_of(self._seed, ids))
        chosen = (torch.rand(ids.shape, generator=draw) < SHARE) & (words != SPECIAL)
        if not chosen.any():
            # A loss over nothing is not a number.
            chosen.view(-1)[int((words != SPECIAL).view(-1).int().argmax())] = True
        fate = torch.rand(ids.shape, generator=draw)
        other = self._others[torch.randint(len(self._others), ids.shape, generator=draw)]
        seen = torch.where(chosen & (fate < _HIDDEN), torch.full_like(ids, self._mask), ids)
        seen = torch.where(chosen & (fate >= _HIDDEN) & (fate < _HIDDEN + _OTHER), other.to(ids.dtype), seen)
        return batch | {"input_ids": seen, "labels": torch.where(chosen, ids, torch.full_like(ids, IGNORED))}

    def read(
        self, rows: Sequence[TrainingRow], outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]
    ) -> list[tuple[float, int, int]]:
        """Loss, hits and number of hidden tokens."""
        hidden = batch["labels"] != IGNORED
        logits, gold = outputs["logits"][hidden].float(), batch["labels"][hidden]
        loss = torch.nn.functional.cross_entropy(logits, gold, reduction="none")
        by_piece = torch.stack([hidden.nonzero()[:, 0].float(), loss, (logits.argmax(-1) == gold).float()])
        owner, losses, hits = by_piece.double().cpu().numpy()
        added = [np.bincount(owner.astype(int), weights, len(rows)) for weights in (losses, hits, np.ones_like(hits))]
        return [(float(loss), int(hit), int(count)) for loss, hit, count in zip(*added, strict=True)]

    def judge(self, item: Item, predictions: Sequence[Any]) -> TextOutcome:
        """See `Objective.judge`."""
        loss, hits, count = (sum(part) for part in zip(*predictions, strict=True))
        return TextOutcome(
            unit_of(text_of(item)), {"loss": Sum(loss, count, count), "accuracy": Sum(hits, count, count)}
        )

    def guess(self, train: Sequence[Item], scored: Sequence[Item]) -> Iterator[TextOutcome]:
        """See `Objective.guess`; every token has its probability in training, unseen ones counted once."""
        seen = Counter(token for item in train for token in self._tokens(item))
        size = sum(seen.values()) + len(self._others)
        most = max(sorted(seen), key=seen.__getitem__)
        for item in scored:
            tokens = self._tokens(item)
            loss = -float(np.log([(seen[token] + 1) / size for token in tokens]).sum())
            count = len(tokens)
            sums = {"loss": Sum(loss, count, count), "accuracy": Sum(tokens.count(most), count, count)}
            yield TextOutcome(unit_of(text_of(item)), sums)

    def _tokens(self, item: Item) -> list[int]:
        return [int(id) for row in self.rows(0, item) for id, word in zip(row.ids, row.words, strict=True) if word >= 0]


def _seed_of(seed: int, ids: Tensor) -> int:
    digest = hashlib.sha256(f"{seed} {tuple(ids.shape)} ".encode() + ids.numpy().tobytes()).digest()
    return int.from_bytes(digest[:7], "big")
