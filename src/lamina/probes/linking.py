"""A bilinear probe that finds the word another word belongs to: a dependent's head, a mention's antecedent.

For a word and every other word of its text it gives one number, from the vectors of both; the highest is its answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

RANK = 32
"""Of the bilinear form."""
_RATE, _DECAY = 3e-3, 1e-2
_BATCH = 16
"""Texts of a step."""
_EPOCHS, _PATIENCE = 60, 4


class Linked(NamedTuple):
    """A text whose words are to be linked."""

    vectors: Float[np.ndarray, "word width"]
    links: tuple[tuple[int, frozenset[int]], ...]
    """Words, each with those it may be linked to."""


@dataclass(frozen=True)
class LinkingProbe:
    """A trained probe."""

    start: Float[Tensor, "width rank"]
    end: Float[Tensor, "width rank"]
    alone: Float[Tensor, " width"]
    """What makes a word one that others belong to, whichever they are."""
    middle: Float[Tensor, " width"]
    spread: Float[Tensor, " width"]
    converged: bool
    """Whether training stopped because held-out texts gained nothing any more."""

    def logits(
        self, vectors: Float[Tensor, "text word width"], words: Bool[Tensor, "text word"]
    ) -> Float[Tensor, "text word word"]:
        """From each word to each other; no word belongs to itself, or to padding (where `words` is false)."""
        device = vectors.device
        start, end, alone, middle, spread = (
            each.to(device) for each in (self.start, self.end, self.alone, self.middle, self.spread)
        )
        seen = (vectors.float() - middle) / spread
        scores = (seen @ start) @ (seen @ end).transpose(1, 2) + (seen @ alone)[:, None]
        barred = ~words[:, None] | torch.eye(words.shape[1], dtype=torch.bool, device=device)
        return scores.masked_fill(barred, -torch.inf)


def train(learn: Sequence[Linked], stop: Sequence[Linked], *, seed: int, device: torch.device | str) -> LinkingProbe:
    """Fit a probe; training stops when it finds no more links of `stop`, and the best state is kept.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> texts = [Linked(np.eye(4, dtype=np.float32)[rng.permutation(4)], ()) for _ in range(80)]
        >>> # Whoever has feature 0 belongs to whoever has feature 1.
        >>> links = [((int(t.vectors[:, 0].argmax()), frozenset({int(t.vectors[:, 1].argmax())})),) for t in texts]
        >>> texts = [t._replace(links=own) for t, own in zip(texts, links)]
        >>> probe = train(texts[:60], texts[60:], seed=0, device="cpu")
        >>> round(_share_found(probe, [_padded(texts[60:])]), 1)
        1.0
    """
    every = np.concatenate([text.vectors for text in learn]).astype(np.float64)
    middle, spread = every.mean(0), every.std(0)
    spread = np.where(spread > 1e-6 * max(float(spread.max()), 1e-30), spread, np.inf)
    width = every.shape[1]
    made = torch.Generator().manual_seed(seed)
    start, end = (torch.randn(width, RANK, generator=made) / (width * RANK) ** 0.5 for _ in range(2))
    fixed = [torch.from_numpy(each).float() for each in (middle, spread)]
    free = [each.to(device).requires_grad_() for each in (start, end, torch.zeros(width))]
    optimizer = torch.optim.AdamW(free, lr=_RATE, weight_decay=_DECAY)
    # Texts of similar length are in one batch.
    ordered = sorted(learn, key=lambda text: len(text.vectors))
    batches = [_padded(ordered[at : at + _BATCH], device) for at in range(0, len(ordered), _BATCH)]
    held_out = [_padded(stop[at : at + _BATCH], device) for at in range(0, len(stop), _BATCH)]
    rng = np.random.default_rng(seed)
    scale = [each.to(device) for each in fixed]
    probe = LinkingProbe(free[0], free[1], free[2], scale[0], scale[1], converged=False)
    best, kept, waited = -1.0, [each.detach().clone() for each in free], 0
    for _ in range(_EPOCHS):
        for at in rng.permutation(len(batches)):
            loss = _losses(probe, batches[at]).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        found = _share_found(probe, held_out)
        if found > best + 1e-4:
            best, kept, waited = found, [each.detach().clone() for each in free], 0
        else:
            waited += 1
        if waited == _PATIENCE:
            break
    return LinkingProbe(kept[0], kept[1], kept[2], scale[0], scale[1], converged=waited == _PATIENCE)


class _Batch(NamedTuple):
    """Texts, padded; and their links, one after the other."""

    vectors: Float[Tensor, "text word width"]
    words: Bool[Tensor, "text word"]
    text: Tensor
    start: Tensor
    right: Bool[Tensor, "link word"]


def _padded(texts: Sequence[Linked], device: torch.device | str = "cpu") -> _Batch:
    longest = max(len(text.vectors) for text in texts)
    vectors = np.zeros((len(texts), longest, texts[0].vectors.shape[1]), np.float32)
    words = np.zeros((len(texts), longest), bool)
    links = [(number, *link) for number, text in enumerate(texts) for link in text.links]
    right = np.zeros((len(links), longest), bool)
    for number, text in enumerate(texts):
        vectors[number, : len(text.vectors)] = text.vectors
        words[number, : len(text.vectors)] = True
    for at, (_, _, ends) in enumerate(links):
        right[at, list(ends)] = True
    owner, start = (np.array([link[part] for link in links], np.int64) for part in (0, 1))
    return _Batch(*(torch.from_numpy(each).to(device) for each in (vectors, words, owner, start, right)))


def _losses(probe: LinkingProbe, batch: _Batch) -> Float[Tensor, " link"]:
    logits = probe.logits(batch.vectors, batch.words)[batch.text, batch.start].log_softmax(-1)
    return -logits.masked_fill(~batch.right, -torch.inf).logsumexp(-1)


def _share_found(probe: LinkingProbe, batches: Sequence[_Batch]) -> float:
    found = total = 0
    with torch.no_grad():
        for batch in batches:
            answers = probe.logits(batch.vectors, batch.words)[batch.text, batch.start].argmax(-1)
            found += int(batch.right.gather(1, answers[:, None]).sum())
            total += len(answers)
    return found / max(total, 1)
