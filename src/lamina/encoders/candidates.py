"""Candidates for a gap, rated together: how likely each is, and where it ranks in the whole vocabulary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lamina.encoders.passages import cut_passages
from lamina.encoders.scoring import each_logits
from lamina.encoders.slots import Slot, fill, masked_gaps, piece_logprobs

if TYPE_CHECKING:
    from lamina.encoders.language_model import LanguageModel

Spelling = Literal["sum", "mean"]
"""What candidates are compared by: the sum of their pieces' log-probabilities, or the mean."""
_CANDIDATE = 1
"""The part of a filled slot that is the candidate."""
_TOGETHER = 512
"""Slots that are rated together."""


class Rated(NamedTuple):
    """What a model makes of one gap."""

    logprobs: Float[np.ndarray, " candidate"]
    """Natural logarithms, summed over pieces; minus infinity for those that `rate_shared` saw to be beaten."""
    ids: Sequence[Int[np.ndarray, " piece"]]
    """The pieces of each candidate."""
    vocabulary: Float[Tensor, " piece"]
    """The log-probability of every piece of the vocabulary: of one mask, or of what comes next."""

    @property
    def pieces(self) -> Int[np.ndarray, " candidate"]:
        """How many pieces each candidate has."""
        return np.array([len(each) for each in self.ids], int)

    def rank(self, candidate: int, without: Sequence[int] = ()) -> int:
        """1 where no piece of the vocabulary is more likely than the candidate; those `without` are not counted.

        Example:
            >>> said = torch.tensor([0.5, 0.25, 0.125, 0.125]).log()
            >>> rated = Rated(said[1:3].numpy(), [np.array([1]), np.array([2])], said)
            >>> rated.rank(1), rated.rank(1, without=[0])
            (3, 2)
        """
        own = float(self.logprobs[candidate])
        ahead = int((self.vocabulary > own).sum())
        skipped = [int(self.ids[at][0]) for at in without if len(self.ids[at]) == 1]
        return 1 + ahead - int((self.vocabulary[skipped] > own).sum())

    def compared(self, spelling: Spelling) -> Float[np.ndarray, " candidate"]:
        """What candidates are compared by.

        Example:
            >>> rated = Rated(np.array([-3.0, -4.0]), [np.array([1]), np.array([2, 3])], torch.zeros(4))
            >>> rated.compared("sum").argmax().item(), rated.compared("mean").argmax().item()
            (0, 1)
        """
        return self.logprobs if spelling == "sum" else self.logprobs / self.pieces

    def top(self, model: LanguageModel, k: int) -> list[str]:
        """The most likely pieces, best first, as text."""
        best = self.vocabulary.topk(min(k, len(self.vocabulary))).indices.tolist()
        return [name.strip() for name in model.encoder.piece_names(best)]


def rate(model: LanguageModel, slots: Sequence[Slot], candidates: Sequence[Sequence[str]]) -> Iterator[Rated]:
    """Rate the candidates of each gap, in the order given.

    Example:
        >>> model = language_model(lamina.load_encoder("smollm2"))  # doctest: +SKIP
        >>> rated = next(rate(model, [Slot("1", "Paris is the capital of ", ".")], [["France"]]))  # doctest: +SKIP
        >>> rated.rank(0)  # doctest: +SKIP
        1
    """
    for first in range(0, len(slots), _TOGETHER):
        some, own = slots[first : first + _TOGETHER], candidates[first : first + _TOGETHER]
        filled = fill(model, some, own)
        for slot, words, vocabulary, scored in zip(some, own, piece_logprobs(model, some), filled, strict=True):
            yield _rated(vocabulary, _spelt(model, slot, words), np.array([each.logprob for each in scored]))


def rate_shared(
    model: LanguageModel,
    slots: Sequence[Slot],
    candidates: Sequence[str],
    *,
    kept: Sequence[int],
    spelling: Spelling = "sum",
) -> Iterator[Rated]:
    """Rate one list of candidates in gaps with the same surroundings: one pattern, several subjects.

    Candidates of one piece are read off one run per gap. A causal model needs a run for every other candidate; it is
    spared where the first piece is already less likely than the best candidate of one piece, since further pieces
    cannot make up for that. The candidate that `kept` names for each gap, by number, is always scored.
    """
    if not slots:
        return
    shared = _Shared(model, slots[0], candidates)
    for first in range(0, len(slots), _TOGETHER):
        some = slots[first : first + _TOGETHER]
        every = list(piece_logprobs(model, some))
        sums = np.full((len(some), len(candidates)), -np.inf)
        if model.kind == "masked":
            shared.fill_masked(some, sums)
        elif len(shared.several):
            own = zip(every, kept[first : first + _TOGETHER], strict=True)
            asked = [shared.unbeaten(vocabulary, at, spelling) for vocabulary, at in own]
            for at, scored in enumerate(_scored(model, some, candidates, asked)):
                sums[at, asked[at]] = scored
        for vocabulary, own in zip(every, sums, strict=True):
            own[shared.single] = vocabulary[shared.of_single].numpy()
            yield Rated(own, shared.ids, vocabulary)


class _Shared:
    """One list of candidates, spelt as in one gap."""

    def __init__(self, model: LanguageModel, slot: Slot, candidates: Sequence[str]) -> None:
        self._model = model
        self.ids = _spelt(model, slot, candidates)
        sizes = np.array([len(each) for each in self.ids])
        self.sizes = sizes
        self.single, self.several = np.flatnonzero(sizes == 1), np.flatnonzero(sizes > 1)
        self.of_single = torch.tensor([int(self.ids[at][0]) for at in self.single], dtype=torch.long)
        self._firsts = torch.tensor([int(self.ids[at][0]) for at in self.several], dtype=torch.long)

    def unbeaten(self, vocabulary: Float[Tensor, " piece"], kept: int, spelling: Spelling) -> np.ndarray:
        """The candidates of several pieces that may be more likely than all of one piece, and the one to keep."""
        best = float(vocabulary[self.of_single].max()) if len(self.single) else -np.inf
        bound = vocabulary[self._firsts].numpy() / (self.sizes[self.several] if spelling == "mean" else 1)
        return self.several[(bound >= best) | (self.several == kept)]

    def fill_masked(self, slots: Sequence[Slot], sums: Float[np.ndarray, "slot candidate"]) -> None:
        """Write in the candidates of several pieces: those of one length are read off the same masks."""
        for size in sorted(set(self.sizes[self.several].tolist())):
            own = np.flatnonzero(self.sizes == size)
            # [place, candidate]
            targets = torch.from_numpy(np.array([self.ids[at] for at in own]).T).to(self._model.encoder.device)

            def take(logits: Tensor, numbers: Tensor, size: int = size, targets: Tensor = targets) -> Tensor:
                return logits.gather(1, targets[numbers % size]) - logits.logsumexp(1, keepdim=True)

            found = np.zeros((len(slots), size, len(own)))
            for numbers, values in each_logits(self._model, masked_gaps(self._model, slots, size), take):
                at = numbers.cpu().numpy()
                found[at // size, at % size] = values.double().cpu().numpy()
            sums[:, own] = found.sum(1)


def _spelt(model: LanguageModel, slot: Slot, candidates: Sequence[str]) -> list[np.ndarray]:
    """The pieces of each candidate in a gap."""
    cuts = cut_passages(model, [slot.filled(candidate) for candidate in candidates])
    return [cut.tokens.ids[cut.tokens.words == _CANDIDATE] for cut in cuts]


def _scored(
    model: LanguageModel, slots: Sequence[Slot], candidates: Sequence[str], asked: Sequence[np.ndarray]
) -> Iterator[list[float]]:
    """Log-probabilities of the candidates that are asked for, for each slot."""
    lists = [[candidates[int(at)] for at in own] for own in asked]
    some = [slot for slot, own in zip(slots, lists, strict=True) if own]
    filled = fill(model, some, [own for own in lists if own])
    for own in lists:
        yield [each.logprob for each in next(filled)] if own else []


def _rated(vocabulary: Float[Tensor, " piece"], ids: Sequence[np.ndarray], several: np.ndarray) -> Rated:
    """`several` holds the log-probabilities of the candidates of more than one piece."""
    sums = several.astype(float)
    for at, each in enumerate(ids):
        if len(each) == 1:
            sums[at] = float(vocabulary[int(each[0])])
    return Rated(sums, ids, vocabulary)
