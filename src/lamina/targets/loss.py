"""What a language model finds likely while its parts are changed: texts token by token, sentences of minimal pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from lamina.corpora.suites.minimal_pairs import MinimalPair
from lamina.corpora.tokenising import split_words
from lamina.errors import CorpusError
from lamina.models.contract import Tokens
from lamina.models.interventions.edited_runs import masked_tokens
from lamina.models.language.language_model import (
    LanguageModel,
    TokenQueries,
    WrittenPassage,
    cut_passages,
    language_model,
    queried_tokens,
    query_every_token,
)
from lamina.models.running.batching import InputRow
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.models.running.tokens import TokenizedText
from lamina.stats.units import unit_of
from lamina.targets.target import LOSS, PAIRS, Target, TargetScores
from lamina.types import Text

WINDOWED = "texts longer than the model's limit, read in overlapping windows"
_LOGITS = {"cpu": 2**23, "cuda": 2**28}
"""Numbers that the head makes at a time, on a CPU and on a GPU."""


@dataclass(frozen=True, eq=False)
class TokenSums:
    """Tokens that a language model is asked for, and the sums that they are parts of."""

    wanted: TokenQueries
    column: Int[np.ndarray, " piece"]
    """Of what is kept of a row, the sum that each token belongs to: a row may be read for two sentences."""
    _cache: dict[str, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def columns(self) -> int:
        """Sums that are kept of a row."""
        return int(self.column.max(initial=0)) + 1

    @cached_property
    def _of_row(self) -> list[np.ndarray]:
        """The numbers of the tokens that are asked of each row."""
        order = np.argsort(self.wanted.row, kind="stable")
        return np.split(order, np.searchsorted(self.wanted.row[order], np.arange(1, len(self.wanted.rows))))

    @cached_property
    def places(self) -> list[Int[np.ndarray, " place"]]:
        """The tokens of each row whose last layer says what is asked of it."""
        return [np.unique(self.wanted.place[tokens]) for tokens in self._of_row]

    def counts(self, rows: Sequence[int]) -> Int[np.ndarray, " row"]:
        """Tokens that are asked of some rows."""
        return np.array([len(self._of_row[row]) for row in rows])

    def logprobs(
        self, model: LanguageModel, rows: Sequence[int], last: Float[Tensor, "row token width"]
    ) -> Float[Tensor, "row column"]:
        """Log-probabilities of some rows' tokens, summed, given their last layer; gradients go through it."""
        owner, place, target, column = self._laid(tuple(rows), last.device)
        most = max(1, _LOGITS["cpu" if last.device.type == "cpu" else "cuda"] // model.vocabulary)
        logprobs = []
        for states, pieces in zip(last[owner, place].split(most), target.split(most), strict=True):
            logits = model.logits(states)
            logprobs.append(logits.gather(1, pieces[:, None])[:, 0] - logits.logsumexp(1))
        sums = torch.zeros(len(rows) * self.columns, dtype=torch.float64, device=last.device)
        sums = sums.index_add(0, owner * self.columns + column, torch.cat(logprobs).double())
        return sums.reshape(len(rows), self.columns)

    def _laid(self, rows: tuple[int, ...], device: torch.device) -> tuple[Tensor, ...]:
        """Row within the batch, place, token and sum of all that is asked of some rows, on a device.

        Kept until other rows are asked: a batch is read again under every change.
        """
        if self._cache.get("rows") != (rows, device):
            every = np.concatenate([self._of_row[row] for row in rows])
            owner = np.repeat(np.arange(len(rows)), self.counts(rows))
            parts = (owner, self.wanted.place[every], self.wanted.target[every], self.column[every])
            self._cache["laid"] = tuple(torch.from_numpy(part).to(device) for part in parts)
            self._cache["rows"] = (rows, device)
        return self._cache["laid"]


class LossTarget(Target):
    """Minus the log-probability per token, in nats, of texts as they are written.

    A causal model reads a text once and is asked for every token. From a masked model, 15 % of the tokens are hidden at
    once, as in its training, drawn by the text's id.
    """

    name = LOSS
    lower_is_better = True

    def __init__(self, model: LanguageModel, texts: Sequence[Text], *, seed: int = 0) -> None:
        cuts = cut_passages(model, [WrittenPassage.of(text) for text in texts])
        read = [number for number, cut in enumerate(cuts) if len(cut.tokens.ids) > cut.head + cut.tail]
        if not read:
            raise CorpusError("no text has a token that the language model could be asked for")
        self._model, self._texts, self._seed = model, texts, seed
        names = [texts[number].id for number in read]
        self._spoken, owners = _token_sums(model, names, [cuts[number] for number in read], seed)
        self.owners = np.array(owners)
        self.rows, self.layers = self._spoken.wanted.rows, (model.encoder.blocks,)
        self.places = self._spoken.places
        unit = unit_of(texts)
        self.items, self.units = tuple(names), tuple(unit.of(texts[number]) for number in read)
        windowed = sum(len(cuts[number].tokens.ids) > model.encoder.limit for number in read)
        self.skipped = +Counter({"texts without tokens": len(texts) - len(read), WINDOWED: windowed})
        # Every token equally likely.
        self.chance = float(np.log(model.vocabulary))
        self._counts = np.bincount(self.owners, self._spoken.counts(range(len(self.rows))), len(names))

    def read(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Float[np.ndarray, "row kept"]:
        """See `Target.read`: minus the log-probability of the row's tokens."""
        with torch.no_grad():
            return -self._spoken.logprobs(self._model, rows, states[self.layers[0]]).cpu().numpy()

    def score(self, values: Float[np.ndarray, "row kept"]) -> TargetScores:
        """See `Target.score`; an item is a text."""
        return TargetScores(np.bincount(self.owners, values[:, 0], len(self.items)), self._counts)

    def loss(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Float[Tensor, " row"]:
        """See `Target.loss`: the mean over a row's tokens."""
        sums = self._spoken.logprobs(self._model, rows, states[self.layers[0]])[:, 0]
        return -sums / torch.from_numpy(self._spoken.counts(rows)).clamp_min(1).to(sums)

    def of(self, encoder: HuggingFaceEncoder) -> LossTarget:
        """See `Target.of`."""
        return LossTarget(language_model_on(encoder, self._model, self._seed), self._texts, seed=self._seed)


def language_model_on(encoder: HuggingFaceEncoder, model: LanguageModel, seed: int) -> LanguageModel:
    """Another encoder of a model's shape with a language-model head: its own in memory, or a random one."""
    if encoder.language_model is not None or encoder.whole is not None:
        return language_model(encoder)
    return model.random_on(encoder, seed)


def _token_sums(
    model: LanguageModel, names: Sequence[str], cuts: Sequence[TokenizedText], seed: int
) -> tuple[TokenSums, list[int]]:
    """The tokens that are asked for, and the text of each row."""
    if model.mask is None:
        rows, wanted = query_every_token(model, cuts)
        owners = [number for number, windows in enumerate(rows) for _ in windows]
        return TokenSums(wanted, np.zeros(len(wanted.row), np.int64)), owners
    every: list[InputRow] = []
    owners, at_row, places, targets = [], [], [], []
    for number, (name, cut) in enumerate(zip(names, cuts, strict=True)):
        ids = cut.tokens.ids
        chosen = masked_tokens(name, np.arange(cut.head, len(ids) - cut.tail), seed)
        hidden = np.where(np.isin(np.arange(len(ids)), chosen), model.mask, ids)
        for row in model.encoder.rows(number, cut._replace(tokens=Tokens(hidden, cut.tokens.words))):
            # Each hidden token is asked of the window in which it has most context.
            place = queried_tokens(row, cut)
            there = place + row.to.start - row.keep.start
            queried = np.isin(there, chosen)
            if not queried.any():
                continue
            at_row.append(np.full(int(queried.sum()), len(every)))
            places.append(place[queried])
            targets.append(ids[there[queried]])
            every.append(row)
            owners.append(number)
    wanted = TokenQueries(every, *(np.concatenate(parts).astype(np.int64) for parts in (at_row, places, targets)))
    return TokenSums(wanted, np.zeros(len(wanted.row), np.int64)), owners


TIE = 1e-5
"""Log-probabilities closer than this are equal: models are computed no more exactly."""


_GOOD, _BAD = 0, 1


class PairsTarget(Target):
    """The share of minimal pairs whose good sentence is likelier; one half for a pair that is tied.

    Sentences are scored as `lamina pairs` does: by the log-probability of the whole sentence, of a masked model the sum
    over tokens that are hidden one at a time, each in a row of its own.
    """

    name = PAIRS
    chance = 0.5

    def __init__(self, model: LanguageModel, pairs: Sequence[MinimalPair], *, seed: int = 0) -> None:
        """`seed` is of the twin's head; nothing is drawn for the model itself."""
        self._model, self._pairs, self._seed = model, pairs, seed
        scored, owners = self._ask()
        self.items = self.units = tuple(pair.item for pair in scored)
        self.owners = np.array(owners)
        self.rows, self.layers = self._spoken.wanted.rows, (model.encoder.blocks,)
        self.places = self._spoken.places
        self.skipped = +Counter({"pairs with a sentence without tokens": len(pairs) - len(scored), **self._windowed})

    def _ask(self) -> tuple[list[MinimalPair], list[int]]:
        """The pairs that can be asked, and the pair of each row."""
        model = self._model
        sentences = [WrittenPassage(pair.item, side, ()) for pair in self._pairs for side in (pair.good, pair.bad)]
        cuts = cut_passages(model, sentences)
        sizes = [len(cut.tokens.ids) - cut.head - cut.tail for cut in cuts]
        rows: list[InputRow] = []
        scored: list[MinimalPair] = []
        owners: list[int] = []
        parts: list[tuple[np.ndarray, ...]] = []
        windowed = 0
        for number, pair in enumerate(self._pairs):
            both, (good, bad) = cuts[2 * number : 2 * number + 2], sizes[2 * number : 2 * number + 2]
            if not good or not bad:
                continue
            # Of a masked model, the two share the row in which the token that tells them apart is hidden.
            windows, wanted = query_every_token(model, both)
            windowed += sum(len(windows_of_sentence) > 1 for windows_of_sentence in windows)
            parts.append((wanted.row + len(rows), wanted.place, wanted.target, np.repeat([_GOOD, _BAD], [good, bad])))
            rows += wanted.rows
            owners += [len(scored)] * len(wanted.rows)
            scored.append(pair)
        if not scored:
            raise CorpusError(
                "no minimal pair has two sentences with tokens that the language model could be asked for"
            )
        row, place, target, column = (np.concatenate(columns).astype(np.int64) for columns in zip(*parts, strict=True))
        self._spoken = TokenSums(TokenQueries(rows, row, place, target), column)
        self._windowed = {"sentences longer than the model's limit, scored in overlapping windows": windowed}
        return scored, owners

    def read(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Float[np.ndarray, "row kept"]:
        """See `Target.read`: log-probability of the row's tokens of the good and of the bad sentence."""
        with torch.no_grad():
            return self._spoken.logprobs(self._model, rows, states[self.layers[0]]).cpu().numpy()

    def score(self, values: Float[np.ndarray, "row kept"]) -> TargetScores:
        """See `Target.score`; an item is a pair."""
        margin = np.bincount(self.owners, values[:, _GOOD] - values[:, _BAD], len(self.items))
        return TargetScores(right_or_wrong(margin), np.ones(len(self.items)))

    def loss(self, rows: Sequence[int], states: Mapping[int, Tensor]) -> Float[Tensor, " row"]:
        """See `Target.loss`: how much likelier the bad sentence is, as far as the row tells."""
        good, bad = self._spoken.logprobs(self._model, rows, states[self.layers[0]]).unbind(1)
        return bad - good

    def of(self, encoder: HuggingFaceEncoder) -> PairsTarget:
        """See `Target.of`."""
        return PairsTarget(language_model_on(encoder, self._model, self._seed), self._pairs, seed=self._seed)


def right_or_wrong(margin: Float[np.ndarray, " item"]) -> Float[np.ndarray, " item"]:
    """1 for a margin above 0, 0 for one below, a half for a tie; NaN stays."""
    value = np.where(np.abs(margin) < TIE, 0.5, (margin > 0).astype(float))
    return np.where(np.isnan(margin), np.nan, value)


def written(sentence: str) -> WrittenPassage:
    """A sentence as it is written; its parts are words, with punctuation apart.

    Example:
        >>> written("Dogs bark.").spans
        ((0, 4), (5, 9), (9, 10))
    """
    return WrittenPassage(sentence, sentence, split_words(sentence).offsets)
