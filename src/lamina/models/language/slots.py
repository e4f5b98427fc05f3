"""Words for a gap in a text: masked words, the probability of each candidate, and the most likely tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lamina.errors import InputError
from lamina.models.contract import Tokens
from lamina.models.language.language_model import (
    TokenQueries,
    WrittenPassage,
    batched_logits,
    cut_passages,
    logprobs_of,
)
from lamina.models.running.batching import InputRow
from lamina.models.running.tokens import TokenizedText, token_id

if TYPE_CHECKING:
    from lamina.models.language.language_model import LanguageModel


class PassageWord(NamedTuple):
    """A part of a passage, which has a token."""

    passage: int
    part: int


class FirstTokens(NamedTuple):
    """How the parts of a passage begin."""

    ids: Int[np.ndarray, " part"]
    """Of the first token of each part; -1 for a part without a token."""
    sizes: Int[np.ndarray, " part"]
    """Tokens of each part."""


def first_tokens(model: LanguageModel, passages: Sequence[WrittenPassage]) -> list[FirstTokens]:
    """How the parts of each passage begin."""
    results = []
    for passage, cut in zip(passages, cut_passages(model, passages), strict=True):
        ids, parts = np.full(len(passage.spans), -1, np.int64), cut.tokens.words
        inside = np.flatnonzero(parts >= 0)[::-1]
        # Backwards, so that the first token of a part is written last.
        ids[parts[inside]] = cut.tokens.ids[inside]
        results.append(FirstTokens(ids, np.bincount(parts[inside], minlength=len(ids))))
    return results


def masked_words(
    model: LanguageModel, passages: Sequence[WrittenPassage], words: Sequence[PassageWord]
) -> TokenQueries:
    """Words that the model does not see: the rows to run, and the place of the state that predicts each word.

    `lens.layer_states` gives the states.
    """
    rows: list[InputRow] = []
    shared: dict[tuple[int, int], int] = {}
    owners, places, targets = [], [], []
    for word, (window, row, tokens) in zip(words, _words_in_windows(model, passages, words), strict=True):
        first = int(tokens[0])
        targets.append(int(row.ids[first]))
        if model.mask is not None:
            # Each word has a row of its own, without the word.
            owners.append(len(rows))
            places.append(first)
            rows.append(row._replace(ids=np.where(row.words == word.part, model.mask, row.ids)))
            continue
        owners.append(_shared(shared, rows, (word.passage, window), row))
        places.append(first - 1)
    return TokenQueries(rows, *(np.array(column, np.int64) for column in (owners, places, targets)))


def unmasked_words(
    model: LanguageModel, passages: Sequence[WrittenPassage], words: Sequence[PassageWord]
) -> TokenQueries:
    """The same words where the model sees them: the state at their last token."""
    rows: list[InputRow] = []
    shared: dict[tuple[int, int], int] = {}
    owners, places, targets = [], [], []
    for word, (window, row, tokens) in zip(words, _words_in_windows(model, passages, words), strict=True):
        owners.append(_shared(shared, rows, (word.passage, window), row))
        places.append(int(tokens[-1]))
        targets.append(int(row.ids[tokens[-1]]))
    return TokenQueries(rows, *(np.array(column, np.int64) for column in (owners, places, targets)))


class _WordInWindow(NamedTuple):
    """Where a word is."""

    window: int
    row: InputRow
    tokens: Int[np.ndarray, " token"]
    """Of that row, the word's own."""


def _words_in_windows(
    model: LanguageModel, passages: Sequence[WrittenPassage], words: Sequence[PassageWord]
) -> list[_WordInWindow]:
    """Each word in the window in which its first token has most context."""
    cuts = cut_passages(model, passages)
    windows = [model.encoder.rows(number, cut) for number, cut in enumerate(cuts)]
    placed = []
    for passage, part in words:
        first = int(np.argmax(cuts[passage].tokens.words == part))
        window, row = next(
            (window, candidate)
            for window, candidate in enumerate(windows[passage])
            if candidate.to.start <= first < candidate.to.stop
        )
        placed.append(_WordInWindow(window, row, np.flatnonzero(row.words == part)))
    return placed


def _shared(known: dict[tuple[int, int], int], rows: list[InputRow], key: tuple[int, int], row: InputRow) -> int:
    """The number of a row that several words are read from."""
    if key not in known:
        known[key] = len(rows)
        rows.append(row)
    return known[key]


_BEFORE, _CANDIDATE, _AFTER = range(3)
"""The parts of a text with a gap."""
_STAND_IN = "the"
"""Fills a gap until it is masked."""
_SLOTS = 512
"""Gaps that are scored together."""


class Gap(NamedTuple):
    """A text with one gap: it reads `before`, a candidate, `after`, as written."""

    id: str
    before: str
    after: str = ""

    def filled(self, candidate: str) -> WrittenPassage:
        """The text with a candidate in the gap.

        Example:
            >>> Gap("1", "Paris is in ", ".").filled("France").text
            'Paris is in France.'
        """
        return WrittenPassage.regions(self.id, (self.before, candidate, self.after))


class FilledGap(NamedTuple):
    """One candidate in one gap."""

    logprob: float
    """Of the candidate: natural logarithm, summed over its tokens."""
    pieces: int
    """Tokens of the candidate."""
    whole: float
    """Of the candidate and all that follows it, where that was asked of a causal model; otherwise NaN."""


class TokenAnswer(NamedTuple):
    """One token that a model predicts."""

    piece: str
    id: int
    logprob: float


def fill_gaps(
    model: LanguageModel, slots: Sequence[Gap], candidates: Sequence[Sequence[str]], *, whole: bool = False
) -> Iterator[list[FilledGap]]:
    """The log-probabilities of the candidates of each gap, in the order given.

    A masked model reads as many masks as the candidate has tokens, all at once, and sees both sides. A causal model
    reads what stands before; with `whole`, what follows is asked of it too.

    Example:
        >>> model = language_model(lamina.load_encoder("smollm2"))  # doctest: +SKIP
        >>> next(fill_gaps(model, [Gap("1", "Paris is the capital of ", ".")], [["France", "Spain"]]))  # doctest: +SKIP
    """
    waiting = zip(slots, candidates, strict=True)
    while some := list(islice(waiting, _SLOTS)):
        yield from _fill(model, some, whole=whole)


def _fill(
    model: LanguageModel, queries: Sequence[tuple[Gap, Sequence[str]]], *, whole: bool
) -> Iterator[list[FilledGap]]:
    pairs = [(slot, candidate) for slot, candidates in queries for candidate in candidates]
    cuts = cut_passages(model, [slot.filled(candidate) for slot, candidate in pairs])
    rows = _SlotRows()
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
            predicted = np.arange(inside[0], stop)
            sizes.append((len(inside), len(predicted)))
            # The last token is asked for, never read.
            read = Tokens(cut.tokens.ids[: stop - 1], cut.tokens.words[: stop - 1])
            rows.add(_fitted(model, cut._replace(tokens=read, tail=0)), predicted - 1, cut.tokens.ids[predicted])
    logprobs = iter(np.split(logprobs_of(model, rows.wanted()), np.cumsum([predicted for _, predicted in sizes])[:-1]))
    counted = iter(sizes)
    both = model.kind == "causal" and whole
    for _, candidates in queries:
        filled_gaps = []
        for _ in candidates:
            values, (size, _) = next(logprobs), next(counted)
            filled_gaps.append(
                FilledGap(float(values[:size].sum()), size, float(values.sum()) if both else float("nan"))
            )
        yield filled_gaps


def top(model: LanguageModel, slots: Sequence[Gap], k: int = 10) -> Iterator[list[TokenAnswer]]:
    """The most likely tokens for each gap, best first; a causal model does not see what follows the gap."""
    for logprobs in token_logprobs(model, slots):
        best = logprobs.topk(min(k, len(logprobs)))
        ids = best.indices.tolist()
        names = [name.strip() for name in model.encoder.token_names(ids)]
        yield [TokenAnswer(*answer) for answer in zip(names, ids, best.values.tolist(), strict=True)]


def token_logprobs(model: LanguageModel, slots: Sequence[Gap]) -> Iterator[Float[Tensor, " token"]]:
    """The log-probability of every token of the vocabulary for each gap: one mask, or what comes next."""
    for first in range(0, len(slots), _SLOTS):
        some, rows = slots[first : first + _SLOTS], _SlotRows()
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
        results: list[Tensor] = [torch.empty(0)] * len(some)
        for numbers, logprobs in batched_logits(model, wanted, lambda logits, _: logits.log_softmax(1).cpu()):
            for number, values in zip(numbers.tolist(), logprobs, strict=True):
                results[number] = values
        yield from results


def masked_gaps(model: LanguageModel, slots: Sequence[Gap], masks: int) -> TokenQueries:
    """The input of a masked model with `masks` masks in each gap; all masks are queried, gap by gap."""
    rows = _SlotRows()
    for slot, cut in zip(slots, cut_passages(model, [_asking(model, slot) for slot in slots]), strict=True):
        inside = np.flatnonzero(cut.tokens.words == _CANDIDATE)
        _refuse_swallowed(slot, inside)
        hidden = (np.full(masks, model.mask), np.full(masks, _CANDIDATE))
        ids, parts = (
            np.concatenate([column[: inside[0]], filler, column[inside[-1] + 1 :]])
            for column, filler in zip((cut.tokens.ids, cut.tokens.words), hidden, strict=True)
        )
        places = inside[0] + np.arange(masks)
        rows.add(_fitted(model, cut._replace(tokens=Tokens(ids, parts))), places, np.zeros(masks, int))
    return rows.wanted()


def _asking(model: LanguageModel, slot: Gap) -> WrittenPassage:
    return slot.filled(_STAND_IN) if model.kind == "masked" else Gap(slot.id, slot.before).filled(_STAND_IN)


class _Fitted(NamedTuple):
    """What is read of a text with a gap, and how many tokens before the gap were left out."""

    ids: np.ndarray
    words: np.ndarray
    left_out: int
    head: int
    """Special tokens that are kept before what was left out."""


def _fitted(model: LanguageModel, cut: TokenizedText) -> _Fitted:
    """A text that fits the model: where it is too long, as much as possible on both sides of the gap."""
    ids, words = cut.tokens.ids, cut.tokens.words
    room = model.encoder.limit - cut.head - cut.tail
    size = len(ids) - cut.head - cut.tail
    if size <= room:
        return _Fitted(ids, words, 0, cut.head)
    gap = np.flatnonzero(words == _CANDIDATE)
    middle = (int(gap[0]) if len(gap) else len(ids)) - cut.head
    first = size - room if model.kind == "causal" else min(max(0, middle - room // 2), size - room)
    tokens = np.r_[: cut.head, cut.head + first : cut.head + first + room, len(ids) - cut.tail : len(ids)]
    return _Fitted(ids[tokens], words[tokens], first, cut.head)


class _SlotRows:
    """Rows with queried tokens; equal rows are read once."""

    def __init__(self) -> None:
        self._rows: list[InputRow] = []
        self._known: dict[bytes, int] = {}
        self._queries: list[tuple[int, np.ndarray, np.ndarray]] = []

    def add(self, read: _Fitted, places: np.ndarray, targets: np.ndarray) -> None:
        """Ask for tokens at places of the text, counted before anything was left out."""
        key = read.ids.tobytes()
        if key not in self._known:
            self._known[key] = len(self._rows)
            whole = slice(0, len(read.ids))
            types = np.zeros(len(read.ids), np.int8)
            self._rows.append(InputRow(len(self._rows), read.ids, types, read.words, whole, whole))
        self._queries.append((self._known[key], places - read.left_out, targets))

    def wanted(self) -> TokenQueries:
        """All of them."""
        owners = np.concatenate([np.full(len(places), row) for row, places, _ in self._queries])
        places, targets = (np.concatenate([query[part] for query in self._queries]) for part in (1, 2))
        return TokenQueries(self._rows, owners.astype(np.int64), places.astype(np.int64), targets.astype(np.int64))


def _refuse_unspelt(model: LanguageModel, slot: Gap, candidate: str, cut: TokenizedText) -> None:
    if not candidate.strip():
        raise InputError(f"{slot.id}: a candidate for {slot.before.strip()} ___{slot.after} is empty")
    inside = cut.tokens.ids[cut.tokens.words == _CANDIDATE]
    unknown = token_id(model.encoder.tokenizer.unk_token_id)
    if not len(inside) or (unknown is not None and (inside == unknown).any()):
        raise InputError(
            f"{slot.id}: the vocabulary of {model.name} cannot spell {candidate!r}; leave that candidate out"
        )


def _refuse_swallowed(slot: Gap, inside: np.ndarray) -> None:
    if not len(inside):
        raise InputError(f"{slot.id}: the gap of {slot.before} ___ {slot.after} has no tokens of its own")


def cannot_spell(model: LanguageModel, candidates: Sequence[str]) -> list[str]:
    """Which of these words a vocabulary has no tokens for."""
    unknown = token_id(model.encoder.tokenizer.unk_token_id)
    encodings = model.encoder.tokenizer.backend_tokenizer.encode_batch(
        [f" {candidate}" for candidate in candidates], add_special_tokens=False
    )
    return [
        candidate
        for candidate, encoding in zip(candidates, encodings, strict=True)
        if not encoding.ids or (unknown is not None and unknown in encoding.ids)
    ]


# Candidates for a gap, rated together: the probability of each, and its rank in the whole vocabulary.

Spelling = Literal["sum", "mean"]
"""What candidates are compared by: the sum of their tokens' log-probabilities, or the mean."""
_CANDIDATE_NAME = 1
"""The part of a filled slot that is the candidate."""
_TOGETHER = 512
"""Slots that are rated together."""


class RatedCandidates(NamedTuple):
    """The ratings of the candidates for one gap."""

    logprobs: Float[np.ndarray, " candidate"]
    """Natural logarithms, summed over tokens; minus infinity for candidates that `rate_shared` ruled out."""
    ids: Sequence[Int[np.ndarray, " token"]]
    """The tokens of each candidate."""
    vocabulary: Float[Tensor, " token"]
    """The log-probability of every token of the vocabulary: of one mask, or of what comes next."""

    @property
    def pieces(self) -> Int[np.ndarray, " candidate"]:
        """How many tokens each candidate has."""
        return np.array([len(tokens) for tokens in self.ids], int)

    def rank(self, candidate: int, without: Sequence[int] = ()) -> int:
        """1 where no token of the vocabulary is more likely than the candidate; those `without` are not counted.

        Example:
            >>> said = torch.tensor([0.5, 0.25, 0.125, 0.125]).log()
            >>> rated = RatedCandidates(said[1:3].numpy(), [np.array([1]), np.array([2])], said)
            >>> rated.rank(1), rated.rank(1, without=[0])
            (3, 2)
        """
        logprob = float(self.logprobs[candidate])
        ahead = int((self.vocabulary > logprob).sum())
        skipped = [int(self.ids[number][0]) for number in without if len(self.ids[number]) == 1]
        return 1 + ahead - int((self.vocabulary[skipped] > logprob).sum())

    def compared(self, spelling: Spelling) -> Float[np.ndarray, " candidate"]:
        """What candidates are compared by.

        Example:
            >>> rated = RatedCandidates(np.array([-3.0, -4.0]), [np.array([1]), np.array([2, 3])], torch.zeros(4))
            >>> rated.compared("sum").argmax().item(), rated.compared("mean").argmax().item()
            (0, 1)
        """
        return self.logprobs if spelling == "sum" else self.logprobs / self.pieces

    def top(self, model: LanguageModel, k: int) -> list[str]:
        """The most likely tokens, best first, as text."""
        best = self.vocabulary.topk(min(k, len(self.vocabulary))).indices.tolist()
        return [name.strip() for name in model.encoder.token_names(best)]


def rate(model: LanguageModel, slots: Sequence[Gap], candidates: Sequence[Sequence[str]]) -> Iterator[RatedCandidates]:
    """Rate the candidates of each gap, in the order given.

    Example:
        >>> model = language_model(lamina.load_encoder("smollm2"))  # doctest: +SKIP
        >>> rated = next(rate(model, [Gap("1", "Paris is the capital of ", ".")], [["France"]]))  # doctest: +SKIP
        >>> rated.rank(0)  # doctest: +SKIP
        1
    """
    for first in range(0, len(slots), _TOGETHER):
        some, lists = slots[first : first + _TOGETHER], candidates[first : first + _TOGETHER]
        filled = fill_gaps(model, some, lists)
        for slot, words, vocabulary, scored in zip(some, lists, token_logprobs(model, some), filled, strict=True):
            yield _rated(
                vocabulary, _spelt(model, slot, words), np.array([filled_gap.logprob for filled_gap in scored])
            )


def rate_shared(
    model: LanguageModel,
    slots: Sequence[Gap],
    candidates: Sequence[str],
    *,
    always_scored: Sequence[int],
    spelling: Spelling = "sum",
) -> Iterator[RatedCandidates]:
    """Rate one list of candidates in gaps with the same surroundings: one pattern, several subjects.

    Candidates of one token are read off one run per gap. A causal model needs a run for every other candidate; it is
    spared where the first token is already less likely than the best candidate of one token, since further tokens
    cannot make up for that. The candidate that `kept` names for each gap, by number, is always scored.
    """
    if not slots:
        return
    shared = _SharedCandidates(model, slots[0], candidates)
    for first in range(0, len(slots), _TOGETHER):
        some = slots[first : first + _TOGETHER]
        every = list(token_logprobs(model, some))
        sums = np.full((len(some), len(candidates)), -np.inf)
        if model.kind == "masked":
            shared.fill_masked(some, sums)
        elif len(shared.several):
            values = zip(every, always_scored[first : first + _TOGETHER], strict=True)
            numbers = [shared.unbeaten(vocabulary, number, spelling) for vocabulary, number in values]
            for number, scored in enumerate(_scored(model, some, candidates, numbers)):
                sums[number, numbers[number]] = scored
        for vocabulary, values in zip(every, sums, strict=True):
            values[shared.single] = vocabulary[shared.of_single].numpy()
            yield RatedCandidates(values, shared.ids, vocabulary)


class _SharedCandidates:
    """One list of candidates, spelt as in one gap."""

    def __init__(self, model: LanguageModel, slot: Gap, candidates: Sequence[str]) -> None:
        self._model = model
        self.ids = _spelt(model, slot, candidates)
        sizes = np.array([len(tokens) for tokens in self.ids])
        self.sizes = sizes
        self.single, self.several = np.flatnonzero(sizes == 1), np.flatnonzero(sizes > 1)
        self.of_single = torch.tensor([int(self.ids[number][0]) for number in self.single], dtype=torch.long)
        self._firsts = torch.tensor([int(self.ids[number][0]) for number in self.several], dtype=torch.long)

    def unbeaten(self, vocabulary: Float[Tensor, " token"], always_scored: int, spelling: Spelling) -> np.ndarray:
        """The candidates of several tokens that may be more likely than all of one token, and the one to keep."""
        best = float(vocabulary[self.of_single].max()) if len(self.single) else -np.inf
        bound = vocabulary[self._firsts].numpy() / (self.sizes[self.several] if spelling == "mean" else 1)
        return self.several[(bound >= best) | (self.several == always_scored)]

    def fill_masked(self, slots: Sequence[Gap], sums: Float[np.ndarray, "slot candidate"]) -> None:
        """Write in the candidates of several tokens: those of one length are read off the same masks."""
        for size in sorted(set(self.sizes[self.several].tolist())):
            candidates = np.flatnonzero(self.sizes == size)
            # [place, candidate]
            targets = torch.from_numpy(np.array([self.ids[place] for place in candidates]).T).to(
                self._model.encoder.device
            )

            def take(logits: Tensor, numbers: Tensor, size: int = size, targets: Tensor = targets) -> Tensor:
                return logits.gather(1, targets[numbers % size]) - logits.logsumexp(1, keepdim=True)

            logprobs = np.zeros((len(slots), size, len(candidates)))
            for numbers, values in batched_logits(self._model, masked_gaps(self._model, slots, size), take):
                place = numbers.cpu().numpy()
                logprobs[place // size, place % size] = values.double().cpu().numpy()
            sums[:, candidates] = logprobs.sum(1)


def _spelt(model: LanguageModel, slot: Gap, candidates: Sequence[str]) -> list[np.ndarray]:
    """The tokens of each candidate in a gap."""
    cuts = cut_passages(model, [slot.filled(candidate) for candidate in candidates])
    return [cut.tokens.ids[cut.tokens.words == _CANDIDATE_NAME] for cut in cuts]


def _scored(
    model: LanguageModel, slots: Sequence[Gap], candidates: Sequence[str], numbers: Sequence[np.ndarray]
) -> Iterator[list[float]]:
    """Log-probabilities of the candidates that are asked for, for each slot."""
    lists = [[candidates[int(number)] for number in chosen] for chosen in numbers]
    some = [slot for slot, chosen in zip(slots, lists, strict=True) if chosen]
    filled = fill_gaps(model, some, [chosen for chosen in lists if chosen])
    for chosen in lists:
        yield [gap.logprob for gap in next(filled)] if chosen else []


def _rated(vocabulary: Float[Tensor, " token"], ids: Sequence[np.ndarray], several: np.ndarray) -> RatedCandidates:
    """`several` holds the log-probabilities of the candidates of more than one token."""
    sums = several.astype(float)
    for number, tokens in enumerate(ids):
        if len(tokens) == 1:
            sums[number] = float(vocabulary[int(tokens[0])])
    return RatedCandidates(sums, ids, vocabulary)
