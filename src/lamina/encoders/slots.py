"""Words for a gap in a text: how likely each candidate is, and what a model would say itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lamina.encoders.contract import Tokens
from lamina.encoders.passages import Passage, cut_passages
from lamina.encoders.pieces import Cut, token_id
from lamina.encoders.rows import Row
from lamina.encoders.scoring import Wanted, each_logits, logprobs_of
from lamina.errors import InputError

if TYPE_CHECKING:
    from lamina.encoders.language_model import LanguageModel

_BEFORE, _CANDIDATE, _AFTER = range(3)
"""The parts of a text with a gap."""
_STAND_IN = "the"
"""What stands in a gap until it is hidden."""
_SLOTS = 512
"""Gaps that are asked together."""


class Slot(NamedTuple):
    """A text with one gap: it reads `before`, a candidate, `after`, as written."""

    id: str
    before: str
    after: str = ""

    def filled(self, candidate: str) -> Passage:
        """The text with a candidate in the gap.

        Example:
            >>> Slot("1", "Paris is in ", ".").filled("France").text
            'Paris is in France.'
        """
        return Passage.regions(self.id, (self.before, candidate, self.after))


class Filled(NamedTuple):
    """One candidate in one gap."""

    logprob: float
    """Of the candidate: natural logarithm, summed over its pieces."""
    pieces: int
    """Pieces of the candidate."""
    whole: float
    """Of the candidate and all that follows it, where that was asked of a causal model; otherwise NaN."""


class Answer(NamedTuple):
    """One piece that a model would say."""

    piece: str
    id: int
    logprob: float


def fill(
    model: LanguageModel, slots: Sequence[Slot], candidates: Sequence[Sequence[str]], *, whole: bool = False
) -> Iterator[list[Filled]]:
    """How likely the candidates of each gap are, in the order given.

    A masked model reads as many masks as the candidate has pieces, all at once, and sees both sides. A causal model
    reads what stands before; with `whole`, what follows is asked of it too.

    Example:
        >>> model = language_model(lamina.load_encoder("smollm2"))  # doctest: +SKIP
        >>> next(fill(model, [Slot("1", "Paris is the capital of ", ".")], [["France", "Spain"]]))  # doctest: +SKIP
    """
    waiting = zip(slots, candidates, strict=True)
    while some := list(islice(waiting, _SLOTS)):
        yield from _fill(model, some, whole=whole)


def _fill(model: LanguageModel, asked: Sequence[tuple[Slot, Sequence[str]]], *, whole: bool) -> Iterator[list[Filled]]:
    pairs = [(slot, candidate) for slot, candidates in asked for candidate in candidates]
    cuts = cut_passages(model, [slot.filled(candidate) for slot, candidate in pairs])
    rows = _Rows()
    sizes: list[tuple[int, int]] = []
    for (slot, candidate), cut in zip(pairs, cuts, strict=True):
        _refuse_unspelt(model, slot, candidate, cut)
        inside = np.flatnonzero(cut.tokens.words == _CANDIDATE)
        if model.kind == "masked":
            ids = cut.tokens.ids.copy()
            ids[inside] = model.mask
            sizes.append((len(inside), len(inside)))
            rows.add(_fitted(model, cut._replace(tokens=Tokens(ids, cut.tokens.words))), inside, cut.tokens.ids[inside])
        else:
            stop = len(cut.tokens.ids) if whole else inside[-1] + 1
            told = np.arange(inside[0], stop)
            sizes.append((len(inside), len(told)))
            # The last piece is asked for, never read.
            read = Tokens(cut.tokens.ids[: stop - 1], cut.tokens.words[: stop - 1])
            rows.add(_fitted(model, cut._replace(tokens=read, tail=0)), told - 1, cut.tokens.ids[told])
    found = iter(np.split(logprobs_of(model, rows.wanted()), np.cumsum([told for _, told in sizes])[:-1]))
    counted = iter(sizes)
    both = model.kind == "causal" and whole
    for _, candidates in asked:
        made = []
        for _ in candidates:
            values, (own, _) = next(found), next(counted)
            made.append(Filled(float(values[:own].sum()), own, float(values.sum()) if both else float("nan")))
        yield made


def top(model: LanguageModel, slots: Sequence[Slot], k: int = 10) -> Iterator[list[Answer]]:
    """The most likely pieces for each gap, best first; a causal model does not see what follows the gap."""
    for logprobs in piece_logprobs(model, slots):
        best = logprobs.topk(min(k, len(logprobs)))
        ids = best.indices.tolist()
        said = [name.strip() for name in model.encoder.piece_names(ids)]
        yield [Answer(*each) for each in zip(said, ids, best.values.tolist(), strict=True)]


def piece_logprobs(model: LanguageModel, slots: Sequence[Slot]) -> Iterator[Float[Tensor, " piece"]]:
    """The log-probability of every piece of the vocabulary for each gap: one mask, or what comes next."""
    for first in range(0, len(slots), _SLOTS):
        some, rows = slots[first : first + _SLOTS], _Rows()
        for slot, cut in zip(some, cut_passages(model, [_asking(model, slot) for slot in some]), strict=True):
            inside = np.flatnonzero(cut.tokens.words == _CANDIDATE)
            _refuse_swallowed(slot, inside)
            if model.kind == "masked":
                ids = np.delete(cut.tokens.ids, inside[1:])
                ids[inside[0]] = model.mask
                parts = np.delete(cut.tokens.words, inside[1:])
                place = inside[:1]
                read = cut._replace(tokens=Tokens(ids, parts))
            else:
                read = cut._replace(tokens=Tokens(cut.tokens.ids[: inside[0]], cut.tokens.words[: inside[0]]), tail=0)
                place = inside[:1] - 1
            rows.add(_fitted(model, read), place, np.zeros(1, int))
        wanted = rows.wanted()
        made: list[Tensor] = [torch.empty(0)] * len(some)
        for pieces, logprobs in each_logits(model, wanted, lambda logits, _: logits.log_softmax(1).cpu()):
            for number, values in zip(pieces.tolist(), logprobs, strict=True):
                made[number] = values
        yield from made


def masked_gaps(model: LanguageModel, slots: Sequence[Slot], masks: int) -> Wanted:
    """What a masked model reads to fill each gap with so many pieces; asked for are all masks, gap by gap."""
    rows = _Rows()
    for slot, cut in zip(slots, cut_passages(model, [_asking(model, slot) for slot in slots]), strict=True):
        inside = np.flatnonzero(cut.tokens.words == _CANDIDATE)
        _refuse_swallowed(slot, inside)
        hidden = (np.full(masks, model.mask), np.full(masks, _CANDIDATE))
        ids, parts = (
            np.concatenate([each[: inside[0]], own, each[inside[-1] + 1 :]])
            for each, own in zip((cut.tokens.ids, cut.tokens.words), hidden, strict=True)
        )
        places = inside[0] + np.arange(masks)
        rows.add(_fitted(model, cut._replace(tokens=Tokens(ids, parts))), places, np.zeros(masks, int))
    return rows.wanted()


def _asking(model: LanguageModel, slot: Slot) -> Passage:
    return slot.filled(_STAND_IN) if model.kind == "masked" else Slot(slot.id, slot.before).filled(_STAND_IN)


class _Fitted(NamedTuple):
    """What is read of a text with a gap, and how many tokens before the gap were left out."""

    ids: np.ndarray
    words: np.ndarray
    left_out: int
    kept_head: int
    """Special tokens that are kept before what was left out."""


def _fitted(model: LanguageModel, cut: Cut) -> _Fitted:
    """A text that fits the model: where it is too long, as much as possible on both sides of the gap."""
    ids, words = cut.tokens.ids, cut.tokens.words
    room = model.encoder.limit - cut.head - cut.tail
    size = len(ids) - cut.head - cut.tail
    if size <= room:
        return _Fitted(ids, words, 0, cut.head)
    gap = np.flatnonzero(words == _CANDIDATE)
    middle = (int(gap[0]) if len(gap) else len(ids)) - cut.head
    first = size - room if model.kind == "causal" else min(max(0, middle - room // 2), size - room)
    kept = np.r_[: cut.head, cut.head + first : cut.head + first + room, len(ids) - cut.tail : len(ids)]
    return _Fitted(ids[kept], words[kept], first, cut.head)


class _Rows:
    """Rows that are asked for pieces; equal rows are read once."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._known: dict[bytes, int] = {}
        self._asked: list[tuple[int, np.ndarray, np.ndarray]] = []

    def add(self, read: _Fitted, places: np.ndarray, targets: np.ndarray) -> None:
        """Ask for pieces at places of the text, counted before anything was left out."""
        key = read.ids.tobytes()
        if key not in self._known:
            self._known[key] = len(self._rows)
            whole = slice(0, len(read.ids))
            types = np.zeros(len(read.ids), np.int8)
            self._rows.append(Row(len(self._rows), read.ids, types, read.words, whole, whole))
        self._asked.append((self._known[key], places - read.left_out, targets))

    def wanted(self) -> Wanted:
        """All of them."""
        owners = np.concatenate([np.full(len(places), row) for row, places, _ in self._asked])
        places, targets = (np.concatenate([each[part] for each in self._asked]) for part in (1, 2))
        return Wanted(self._rows, owners.astype(np.int64), places.astype(np.int64), targets.astype(np.int64))


def _refuse_unspelt(model: LanguageModel, slot: Slot, candidate: str, cut: Cut) -> None:
    if not candidate.strip():
        raise InputError(f"{slot.id}: a candidate for {slot.before.strip()} ___{slot.after} is empty")
    inside = cut.tokens.ids[cut.tokens.words == _CANDIDATE]
    unknown = token_id(model.encoder.tokenizer.unk_token_id)
    if not len(inside) or (unknown is not None and (inside == unknown).any()):
        raise InputError(
            f"{slot.id}: the vocabulary of {model.name} cannot spell {candidate!r}; leave that candidate out"
        )


def _refuse_swallowed(slot: Slot, inside: np.ndarray) -> None:
    if not len(inside):
        raise InputError(f"{slot.id}: the gap of {slot.before} ___ {slot.after} cannot be told from what is around it")


def cannot_spell(model: LanguageModel, candidates: Sequence[str]) -> list[str]:
    """Which of these words a vocabulary has no pieces for."""
    unknown = token_id(model.encoder.tokenizer.unk_token_id)
    made = model.encoder.tokenizer.backend_tokenizer.encode_batch(
        [f" {candidate}" for candidate in candidates], add_special_tokens=False
    )
    return [
        candidate
        for candidate, each in zip(candidates, made, strict=True)
        if not each.ids or (unknown is not None and unknown in each.ids)
    ]
