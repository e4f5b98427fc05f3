"""Log-probabilities of a text under a language model: by token, word and region, for causal and masked models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lamina.models.contract import SPECIAL, Tokens
from lamina.models.running.batching import InputRow, is_out_of_memory
from lamina.models.running.tokens import TokenizedText, token_id
from lamina.types import Text

if TYPE_CHECKING:
    from lamina.models.language.language_model import LanguageModel


# Texts as they are written, and the tokens of their words and regions.


class WrittenPassage(NamedTuple):
    """A text as it is written, and the parts of it (words, regions) whose probabilities are wanted."""

    id: str
    text: str
    spans: tuple[tuple[int, int], ...]
    """First character and one past the last of each part, in order; a part may be empty."""

    @classmethod
    def of(cls, text: Text) -> WrittenPassage:
        """The words of a corpus's text as it is written; joined by spaces where the corpus does not say how.

        Example:
            >>> WrittenPassage.of(Text("s1", ("Dogs", "bark", ".")))
            WrittenPassage(id='s1', text='Dogs bark .', spans=((0, 4), (5, 9), (10, 11)))
        """
        glued = {0, *text.glued}
        return cls.regions(text.id, [word if number in glued else f" {word}" for number, word in enumerate(text.words)])

    @classmethod
    def typed(cls, id: str, sentence: str) -> WrittenPassage:
        """A sentence as it was typed; its parts are the words between white space.

        Example:
            >>> WrittenPassage.typed("s1", "Dogs bark.").spans
            ((0, 4), (5, 10))
        """
        words = sentence.split()
        starts, position = [], 0
        for word in words:
            position = sentence.index(word, position)
            starts.append(position)
            position += len(word)
        return cls(id, sentence, tuple((start, start + len(word)) for start, word in zip(starts, words, strict=True)))

    @classmethod
    def regions(cls, id: str, regions: Sequence[str]) -> WrittenPassage:
        """Parts written one after the other; the space before a part belongs to it, but is not counted in.

        Example:
            >>> WrittenPassage.regions("s1", ["The dog", "", " barks", "."]).spans
            ((0, 7), (7, 7), (8, 13), (13, 14))
        """
        ends = list(accumulate(map(len, regions)))
        spans = tuple((end - len(region.lstrip()), end) for end, region in zip(ends, regions, strict=True))
        return cls(id, "".join(regions), spans)


def cut_passages(model: LanguageModel, passages: Sequence[WrittenPassage]) -> list[TokenizedText]:
    """Passages cut into tokens by the model's tokenizer as it cuts the whole text, each token with its part.

    A token belongs to the part in which its first character that is no space lies; `SPECIAL` where that is none.
    """
    encoder = model.encoder
    before, after = encoder.word_tokenizer.around
    if model.start is not None:
        before = (model.start,)
    if model.kind == "causal":
        # What closes a text changes nothing before it.
        after = ()
    encodings = encoder.tokenizer.backend_tokenizer.encode_batch(
        [passage.text for passage in passages], add_special_tokens=False
    )
    cuts = []
    for passage, encoding in zip(passages, encodings, strict=True):
        ids = np.array([*before, *encoding.ids, *after], np.int64)
        parts = np.full(len(ids), SPECIAL, np.int32)
        parts[len(before) : len(ids) - len(after)] = parts_at(passage, [start for start, _ in encoding.offsets])
        cuts.append(TokenizedText(Tokens(ids, parts), np.zeros(len(ids), np.int8), len(before), len(after)))
    return cuts


def parts_at(passage: WrittenPassage, starts: Sequence[int]) -> np.ndarray:
    """[token] The part that each token belongs to, given the character at which it starts.

    Example:
        >>> parts_at(WrittenPassage.typed("s1", "Dogs bark."), [0, 4, 9]).tolist()
        [0, 1, 1]
    """
    text = passage.text
    of_character = np.full(len(text) + 1, SPECIAL, np.int32)
    for part, (start, stop) in enumerate(passage.spans):
        of_character[start:stop] = part
    written = np.array([not character.isspace() for character in text] + [True])
    # The next character that is no space, at or after each.
    following = np.minimum.accumulate(np.where(written, np.arange(len(text) + 1), len(text))[::-1])[::-1]
    return of_character[following[np.asarray(starts, int)]] if len(starts) else np.zeros(0, np.int32)


Masking = Literal["piece", "word"]
"""What a masked model does not see when it predicts a token: that token, or the later tokens of its word too."""

_LOGITS = {"cpu": 2**23, "cuda": 2**28}
"""Numbers that the head makes at a time, on a CPU and on a GPU."""
_TOGETHER = {"cpu": 2**17, "cuda": 2**21}
"""Tokens that are sorted by length together."""
_MOST_PASSAGES = 1024


class PassageScore(NamedTuple):
    """The log-probability of a passage, token by token; special tokens are left out."""

    id: str
    logprobs: Float[np.ndarray, " token"]
    """Natural logarithms; of a masked model each given all that is not hidden."""
    spans: np.ndarray
    """[token] The part of the passage that it belongs to; SPECIAL where that is none."""
    parts: int
    """Parts of the passage."""
    windows: int = 1
    """Overlapping windows in which it was read; more than 1 if it is longer than the model's limit."""
    unknown: int = 0
    """Tokens that are the token for what the vocabulary lacks."""

    @property
    def total(self) -> float:
        """Of the whole passage; of a masked model its pseudo-log-likelihood."""
        return float(self.logprobs.sum())

    @property
    def pieces(self) -> int:
        """Tokens of the passage."""
        return len(self.logprobs)

    @property
    def by_span(self) -> Float[np.ndarray, " part"]:
        """Sums over the tokens of each part; NaN for a part without tokens.

        Example:
            >>> PassageScore("s1", np.array([-1.0, -2.0, -0.5]), np.array([0, 0, 2]), 3).by_span.tolist()
            [-3.0, nan, -0.5]
        """
        inside = self.spans != SPECIAL
        sums = np.bincount(self.spans[inside], self.logprobs[inside], minlength=self.parts)
        sums[np.bincount(self.spans[inside], minlength=self.parts) == 0] = np.nan
        return sums


class TokenQueries(NamedTuple):
    """Tokens whose probability is queried, and the rows that the model reads for them."""

    rows: list[InputRow]
    row: np.ndarray
    """[token] The row that predicts it ..."""
    place: np.ndarray
    """[token] ... the place in that row whose state the head reads ..."""
    target: np.ndarray
    """[token] ... and the id of the token."""


def score_passages(
    model: LanguageModel, passages: Iterable[WrittenPassage], *, masking: Masking = "piece"
) -> Iterator[PassageScore]:
    """The log-probability of each passage, in the order given.

    Causal models read a passage once, after a token that begins a text. Masked models read it once for each of its
    tokens, which is hidden (Salazar et al. 2020), with `masking="word"` together with the later tokens of its word
    (Kauf & Ivanova 2023). Passages longer than the model's limit are read in overlapping windows, and each token is
    scored where it has most context.

    Example:
        >>> model = language_model(lamina.load_encoder("smollm2"))  # doctest: +SKIP
        >>> next(score_passages(model, [WrittenPassage.typed("1", "Dogs bark.")])).total  # doctest: +SKIP
        -21.6
    """
    # The passages are read as needed: a few at first, to see how long they are.
    waiting, many = iter(passages), 64
    while chunk := list(islice(waiting, many)):
        cuts = cut_passages(model, chunk)
        yield from _score_chunk(model, chunk, cuts, masking)
        tokens = max(1, sum(_cost(model, cut) for cut in cuts))
        many = min(_MOST_PASSAGES * 16, max(1, len(chunk) * _TOGETHER[_device(model)] // tokens))


def _device(model: LanguageModel) -> str:
    return "cpu" if model.encoder.device.type == "cpu" else "cuda"


def _cost(model: LanguageModel, cut: TokenizedText) -> int:
    size = len(cut.tokens.ids)
    return size if model.kind == "causal" else size * min(size, model.encoder.limit)


def _score_chunk(
    model: LanguageModel, passages: Sequence[WrittenPassage], cuts: Sequence[TokenizedText], masking: Masking
) -> Iterator[PassageScore]:
    rows, wanted = query_every_token(model, cuts, masking)
    logprobs = logprobs_of(model, wanted)
    unknown, start = token_id(model.encoder.tokenizer.unk_token_id), 0
    for passage, cut, text_rows in zip(passages, cuts, rows, strict=True):
        size = len(cut.tokens.ids) - cut.head - cut.tail
        parts = cut.tokens.words[cut.head : cut.head + size]
        yield PassageScore(
            passage.id,
            logprobs[start : start + size],
            parts,
            len(passage.spans),
            len(text_rows),
            int((cut.tokens.ids == unknown).sum()),
        )
        start += size


def query_every_token(
    model: LanguageModel, cuts: Sequence[TokenizedText], masking: Masking = "piece"
) -> tuple[list[list[InputRow]], TokenQueries]:
    """The rows of each text, and queries of all tokens that are not special, text after text."""
    rows = [model.encoder.rows(number, cut) for number, cut in enumerate(cuts)]
    return rows, _causal(rows, cuts) if model.kind == "causal" else _masked(model, rows, cuts, masking)


def queried_tokens(row: InputRow, cut: TokenizedText) -> np.ndarray:
    """The tokens of a row that are queried: those used from it that are not special, in order."""
    tokens = np.arange(row.keep.start, row.keep.stop)
    there = np.arange(row.to.start, row.to.stop)
    return tokens[(there >= cut.head) & (there < len(cut.tokens.ids) - cut.tail)]


def _causal(rows: Sequence[Sequence[InputRow]], cuts: Sequence[TokenizedText]) -> TokenQueries:
    every: list[InputRow] = []
    places, targets, owners = [], [], []
    for cut, text_rows in zip(cuts, rows, strict=True):
        for row in text_rows:
            queried = queried_tokens(row, cut)
            places.append(queried - 1)
            targets.append(row.ids[queried])
            owners.append(np.full(len(queried), len(every)))
            every.append(row)
    return TokenQueries(every, *(np.concatenate(column).astype(np.int64) for column in (owners, places, targets)))


def _masked(
    model: LanguageModel, rows: Sequence[Sequence[InputRow]], cuts: Sequence[TokenizedText], masking: Masking
) -> TokenQueries:
    """One row per token; the same hidden words in the same sentence (as in a pair) are read once."""
    every: list[InputRow] = []
    known: dict[bytes, int] = {}
    owners, places, targets = [], [], []
    for cut, text_rows in zip(cuts, rows, strict=True):
        for row in text_rows:
            queried = queried_tokens(row, cut)
            places.append(queried)
            targets.append(row.ids[queried])
            for ids in _hidden(row, queried, model.mask or 0, masking):
                number = known.setdefault(ids.tobytes(), len(every))
                if number == len(every):
                    every.append(row._replace(ids=ids))
                owners.append(number)
    columns = (np.concatenate(column).astype(np.int64) for column in (places, targets))
    return TokenQueries(every, np.array(owners, np.int64), *columns)


def _hidden(row: InputRow, queried: np.ndarray, mask: int, masking: Masking) -> np.ndarray:
    """[query, token] The row once for each token, with that token hidden."""
    ids = np.repeat(row.ids[None], len(queried), 0)
    hide = np.arange(len(row.ids)) == queried[:, None]
    if masking == "word":
        same = (row.words == row.words[queried][:, None]) & (row.words != SPECIAL)
        hide |= same & (np.arange(len(row.ids)) > queried[:, None])
    ids[hide] = mask
    return ids


def logprobs_of(model: LanguageModel, wanted: TokenQueries) -> Float[np.ndarray, " token"]:
    """The log-probability of each token that is asked for."""
    logprobs = np.empty(len(wanted.target), np.float64)

    def take(logits: Tensor, numbers: Tensor) -> Tensor:
        targets = torch.from_numpy(wanted.target).to(logits.device)[numbers]
        return logits.gather(1, targets[:, None])[:, 0] - logits.logsumexp(1)

    batches = list(batched_logits(model, wanted, take))
    for numbers, values in batches:
        logprobs[numbers.cpu().numpy()] = values.double().cpu().numpy()
    return logprobs


def batched_logits(
    model: LanguageModel, wanted: TokenQueries, take: Callable[[Tensor, Tensor], Tensor]
) -> Iterator[tuple[Tensor, Tensor]]:
    """What `take` makes of the logits [some tokens, vocabulary], given the numbers of these tokens; with the numbers.

    Rows run in batches of similar length, and the head on no other states than those asked for.
    """
    order = np.argsort(wanted.row, kind="stable")
    bounds = np.searchsorted(wanted.row[order], np.arange(len(wanted.rows) + 1))
    most = max(1, _LOGITS[_device(model)] // model.vocabulary)
    first = order[np.minimum(bounds[:-1], max(0, len(order) - 1))] if len(order) else order
    place = _only_places(wanted, first) if model.kind == "masked" else None
    for batch, last in _last_layers(model, wanted.rows, place):
        queries = np.concatenate([order[bounds[row] : bounds[row + 1]] for row in batch])
        if not len(queries):
            continue
        inside = np.repeat(np.arange(len(batch)), [bounds[row + 1] - bounds[row] for row in batch])
        places = wanted.place[queries] if place is None else np.zeros(len(queries), np.int64)
        states = last[torch.from_numpy(inside), torch.from_numpy(places)]
        numbers = torch.from_numpy(queries).to(last.device)
        for part, some in zip(states.split(most), numbers.split(most), strict=True):
            yield some, take(model.logits(part), some)


def _only_places(wanted: TokenQueries, first: np.ndarray) -> Int[np.ndarray, " row"] | None:
    """The place of each row, where each is asked at one place alone (a mask); otherwise None.

    `first` is the number of the first token that is asked of each row.
    """
    place = wanted.place[first] if len(wanted.place) else wanted.place
    queried = np.zeros(len(wanted.rows), bool)
    queried[wanted.row] = True
    return place if queried.all() and (place[wanted.row] == wanted.place).all() else None


def _last_layers(
    model: LanguageModel, rows: Sequence[InputRow], place: Int[np.ndarray, " row"] | None
) -> Iterator[tuple[list[int], Tensor]]:
    """The last layer [row, token, width] of batches of rows, with their numbers; smaller ones if memory runs out.

    With `place`, of one token per row.
    """
    encoder = model.encoder
    waiting = encoder.row_groups([len(row.ids) for row in rows])[::-1]
    while waiting:
        batch = waiting.pop()
        places = None if place is None else torch.from_numpy(place[batch])
        try:
            last = encoder.last([rows[row] for row in batch], places)
        except RuntimeError as error:
            if len(batch) == 1 or not is_out_of_memory(error):
                raise
            half = len(batch) // 2
            waiting += [batch[half:], batch[:half]]
            continue
        yield batch, last
