"""The words of a corpus, what models make of them in bits, and means over words with intervals over documents."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from lamina.analyses.behaviour.ngrams import NGrams
from lamina.encoders import Encoder
from lamina.encoders.language_model import LanguageModel
from lamina.encoders.passages import Passage, cut_passages
from lamina.encoders.scoring import Masking, score
from lamina.progress import progress
from lamina.stats.bootstrap import StreamedBootstrap
from lamina.stats.intervals import interval
from lamina.stats.units import Units, unit_of
from lamina.types import Text

WORDS, PIECES = -2, -1
"""What a mean is taken over: the columns of sums that count them."""
_LONGEST = 12
"""From this length on, words are one band."""


class Scores(NamedTuple):
    """What one model says of all words."""

    bits: Float[np.ndarray, " word"]
    """Surprisal; NaN for a word without a piece of its own, and for one that the vocabulary cannot spell."""
    pieces: Int[np.ndarray, " word"] | None
    """How many there are; None for models of whole words."""
    windowed: int = 0
    """Texts longer than the model's limit."""


class Words:
    """The words of all texts, one after the other; `own` is what the model says of them."""

    def __init__(self, texts: Sequence[Text], scores: Scores, counts: Mapping[str, int]) -> None:
        self.texts, self.kept = texts, np.isfinite(scores.bits)
        self.starts = np.cumsum([0, *(len(text.words) for text in texts)])
        there = np.ones(len(scores.bits), bool) if scores.pieces is None else scores.pieces > 0
        there[self.starts[:-1]] = True
        self.owner = np.maximum.accumulate(np.where(there, np.arange(len(there)), 0))
        """The word itself; the last one before it with a piece where it has none of its own (cannot: can, not)."""
        self.shared = int((~there).sum())
        self.forms = [word for text in texts for word in text.words]
        self.length = np.array([len(word) for word in self.forms])
        self.frequency = np.array([counts.get(word.lower(), 0) for word in self.forms])
        self.spelled = self.kept & np.array([any(map(str.isalpha, word)) for word in self.forms])
        """Those with a letter: neither punctuation nor numbers."""
        self.spelled[self.owner[~there]] = False
        unit = unit_of(texts)
        self.unit: Literal["document", "text"] = unit.by
        """What varies ..."""
        self.units = [unit.of(text) for text in texts]
        """... and its name, by text."""

    @property
    def text(self) -> Int[np.ndarray, " word"]:
        """The number of each word's text."""
        return np.repeat(np.arange(len(self.texts)), np.diff(self.starts))

    @cached_property
    def bands(self) -> dict[tuple[str, str], Int[np.ndarray, " own"]]:
        """What words are grouped by and the group's name -> the numbers of its words."""
        bands = {("frequency", name): self._within(self.frequency, *ends) for name, ends in _decades(self.frequency)}
        for size in range(1, _LONGEST):
            bands["length", str(size)] = self._within(self.length, size, size)
        bands["length", f"{_LONGEST}+"] = self._within(self.length, _LONGEST, np.inf)
        tags: dict[str, list[int]] = {}
        for start, text in zip(self.starts, self.texts, strict=False):
            for edge in text.edges.get("pos", ()):
                if len(edge.span) == 1 and edge.labels and self.kept[start + edge.span.start]:
                    tags.setdefault(edge.labels[0], []).append(int(start) + edge.span.start)
        bands |= {("pos", tag): np.array(tags[tag]) for tag in sorted(tags)}
        return {band: words for band, words in bands.items() if len(words)}

    def _within(self, values: np.ndarray, low: float, high: float) -> Int[np.ndarray, " own"]:
        return np.flatnonzero(self.spelled & (values >= low) & (values <= high))


def _decades(frequency: Int[np.ndarray, " word"]) -> Iterator[tuple[str, tuple[float, float]]]:
    """Bands of counts by powers of ten: their names, and the lowest and highest count.

    Example:
        >>> [name for name, _ in _decades(np.array([0, 12, 3000]))]
        ['0', '1-9', '10-99', '100-999', '1,000-9,999']
    """
    yield "0", (0, 0)
    low = 1
    while low <= frequency.max(initial=0):
        yield f"{low:,}-{10 * low - 1:,}", (low, 10 * low - 1)
        low *= 10


def scored_by(model: LanguageModel, texts: Sequence[Text], masking: Masking) -> Scores:
    """What a language model says of the words of these texts."""
    bits, pieces, windowed = [], [], 0
    with progress(f"surprisal by {model.name}", len(texts)) as advance:
        for scored in score(model, map(Passage.of, texts), masking=masking):
            bits.append(scored.by_span / -math.log(2))
            pieces.append(np.bincount(scored.spans[scored.spans >= 0], minlength=scored.parts))
            windowed += scored.windows > 1
            advance()
    surprisals = np.concatenate(bits)
    surprisals[_unspelled(model, texts)] = np.nan
    return Scores(surprisals, np.concatenate(pieces), windowed)


def _unspelled(model: LanguageModel, texts: Sequence[Text]) -> list[int]:
    """Words of which the tokenizer makes unknown tokens: the model has a probability for these, not for the word."""
    unknown = model.encoder.tokenizer.unk_token_id
    numbers, start = [], 0
    for text in texts:
        tokens = cut_passages(model, [Passage.of(text)])[0].tokens
        numbers += [start + int(word) for word in set(tokens.words[tokens.ids == unknown]) if word >= 0]
        start += len(text.words)
    return numbers


def counted_by(grams: NGrams, words: Words, fold: bool) -> Scores:
    """What an n-gram model says of the same words; what the model tells together is told together."""
    bits = np.concatenate([grams.logprobs(read_words(text, fold)) for text in words.texts]) / -math.log(2)
    merged = np.bincount(words.owner, bits, minlength=len(bits))
    return Scores(np.where(words.kept, merged, np.nan), None)


def read_words(text: Text, fold: bool) -> tuple[str, ...]:
    """The words as n-gram models read them."""
    return tuple(word.lower() for word in text.words) if fold else text.words


def folds_case(encoder: Encoder) -> bool:
    """Whether the model cannot tell upper from lower case; then n-gram models need not either."""
    upper, lower = (encoder.tokenize(Text("", (word,))).ids for word in ("The", "the"))
    return np.array_equal(upper, lower)


class Sums:
    """Sums over words, and over the words of resampled documents, of all models at once."""

    def __init__(self, speakers: Mapping[str, Scores], words: Words, samples: int, seed: int) -> None:
        self.names, self.bands = list(speakers), words.bands
        pieces = next(scores.pieces for scores in speakers.values() if scores.pieces is not None)
        bits = np.column_stack([scores.bits for scores in speakers.values()])
        groups = [np.flatnonzero(words.kept), *self.bands.values()]
        columns = [*bits.T, np.ones(len(bits)), pieces]
        sums = StreamedBootstrap(len(groups) * len(columns), samples=samples, seed=seed)
        # [text, group, what is summed]
        sums_by_text = np.zeros((len(words.texts), len(groups), len(columns)))
        for group, numbers in enumerate(groups):
            for column, values in enumerate(columns):
                sums_by_text[:, group, column] = np.bincount(
                    words.text[numbers], values[numbers], minlength=len(words.texts)
                )
        sums.add_all(torch.from_numpy(sums_by_text.reshape(len(sums_by_text), -1)), words.units)
        shape = (len(groups), len(columns))
        self.by_unit = Units.of(words.units, words.unit).sums(sums_by_text[:, 0])
        """[unit, model] Bits in all words of a document; the columns `WORDS` and `PIECES` count them."""
        self._sums = np.concatenate([sums.value[None], sums.samples]).reshape(-1, *shape)

    def bits(self, name: str, band: tuple[str, str] | None = None, *, by: int = WORDS) -> Drawn:
        """Mean surprisal per word, or per piece, of one model on all words or those of one band."""
        sums = self._sums[:, 0 if band is None else 1 + list(self.bands).index(band)]
        there = sums[:, by]
        mean = np.divide(sums[:, self.names.index(name)], there, out=np.full(len(sums), np.nan), where=there > 0)
        return Drawn(mean)


class Drawn(NamedTuple):
    """A number, and the same number of every bootstrap sample."""

    all: Float[np.ndarray, " sample"]
    """The number itself comes first."""

    def interval(self) -> tuple[float, float, float]:
        """The number and its 95 % interval."""
        return float(self.all[0]), *interval(self.all[1:])
