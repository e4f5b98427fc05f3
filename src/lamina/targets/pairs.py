"""Which sentence of a minimal pair a language model finds likelier, while its parts are changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lamina.corpora.suites.minimal_pairs import MinimalPair
from lamina.corpora.tokenising import split_words
from lamina.errors import CorpusError
from lamina.models.language.language_model import (
    LanguageModel,
    TokenQueries,
    WrittenPassage,
    cut_passages,
    query_every_token,
)
from lamina.models.running.batching import InputRow
from lamina.models.running.huggingface import HuggingFaceEncoder
from lamina.targets.loss import TokenSums, language_model_on
from lamina.targets.target import PAIRS, Target, TargetScores

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
