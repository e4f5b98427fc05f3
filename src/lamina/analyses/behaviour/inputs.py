"""What analyses of behaviour read: a model with a language-model head, texts or a test suite, and n-gram baselines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np
from jaxtyping import Float, Int

from lamina.errors import CorpusError, InputError
from lamina.framework.inputs import (
    MODEL,
    MODEL_OPTIONS,
    Input,
    LoadedInputs,
    Reads,
    Texts,
    TrainedTexts,
    as_corpus,
    as_encoder,
    as_splits,
    describe_models,
    kind_of,
    model_and,
    part_of,
    short_name,
    whole,
)
from lamina.framework.settings import DeclaredSetting, Setting
from lamina.targets.target import PROBE

if TYPE_CHECKING:
    from lamina.activations.runtime import Runtime
    from lamina.corpora import Corpus
    from lamina.corpora.splits import Splits
    from lamina.models import Encoder


_START = 0
"""The number of what precedes the first word of a text."""
_FALLBACK = (0.5, 1.0, 1.5)
"""Discounts of texts too small to estimate them from, as in KenLM."""


class _NGramLevel(NamedTuple):
    """The n-grams of one length."""

    keys: Int[np.ndarray, " gram"]
    """Number of the context, times the number of symbols, plus the last word; in order."""
    discounted: Float[np.ndarray, " gram"]
    """Its share of the context's count, less the discount."""
    rest: Float[np.ndarray, " context"]
    """The share left to shorter contexts; 1 where nothing follows the context."""

    def find(self, keys: Int[np.ndarray, " gram"]) -> Int[np.ndarray, " gram"]:
        """The number of each n-gram; -1 for those that do not occur."""
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, place, -1)


class NGrams:
    """An n-gram model of words, smoothed by interpolated Kneser-Ney.

    Example:
        >>> model = NGrams.of([["the", "cat", "sat"], ["the", "dog", "sat"]], order=2)
        >>> model.logprobs(["the", "cat"]).round(2).tolist()
        [-0.51, -1.05]
        >>> model.knows("cat"), model.knows("cow"), bool(model.total(["the", "cow"]) > -10)
        (True, False, True)
    """

    def __init__(self, order: int, numbers: Mapping[str, int], levels: Sequence[_NGramLevel]) -> None:
        """Use `NGrams.of`."""
        self.order = order
        self._numbers = numbers
        self._levels = levels
        self._symbols = len(numbers) + 2  # known words, the start, the unknown word

    @classmethod
    def of(cls, texts: Iterable[Sequence[str]], order: int = 3) -> NGrams:
        """The model of these texts' words, taken as they are given; an order of 1 knows frequencies alone."""
        if order < 1:
            raise InputError(f"the order of an n-gram model is at least 1 (words alone); got {order}")
        numbers: dict[str, int] = {}
        read: list[int] = []
        for words in texts:
            read.append(_START)
            read.extend(numbers.setdefault(word, len(numbers) + 1) for word in words)
        if not numbers:
            raise CorpusError("an n-gram model needs at least one word to learn from; the training texts have none")
        return cls(order, numbers, _levels(np.array(read), len(numbers) + 2, order))

    @property
    def name(self) -> str:
        """What tables call it: unigram, bigram, 3-gram."""
        return {1: "unigram", 2: "bigram"}.get(self.order, f"{self.order}-gram")

    @property
    def vocabulary(self) -> int:
        """How many words it knows."""
        return len(self._numbers)

    def knows(self, word: str) -> bool:
        """Whether the word occurs in the training texts."""
        return word in self._numbers

    def logprobs(self, words: Sequence[str]) -> Float[np.ndarray, " word"]:
        """The natural logarithm of each word's probability after the words before it, from the start of the text."""
        unknown = self._symbols - 1
        read = np.array([_START, *(self._numbers.get(word, unknown) for word in words)])
        chance = np.full(len(read), 1 / (len(self._numbers) + 1))
        # The n-gram before each word, one word longer at every level.
        context = np.zeros(len(read), dtype=np.int64)
        for level in self._levels:
            seen = context >= 0
            gram = np.where(seen, level.find(context * self._symbols + read), -1)
            rest = np.where(seen, level.rest[context], 1.0)
            chance = np.where(gram >= 0, level.discounted[gram], 0.0) + rest * chance
            # The n-gram that ends in one word is the context of the next; nothing precedes the start.
            context = np.concatenate([[-1], gram[:-1]])
        return np.log(chance[1:])

    def total(self, words: Sequence[str]) -> float:
        """The logarithm of the probability of a whole text.

        Example:
            >>> model = NGrams.of([["the", "cat", "sat"], ["the", "dog", "sat"]], order=2)
            >>> model.total(["the", "cat", "sat"]) > model.total(["sat", "cat", "the"])
            True
        """
        return float(self.logprobs(words).sum())


def _levels(read: Int[np.ndarray, " token"], symbols: int, order: int) -> list[_NGramLevel]:
    """The n-grams of each length up to `order`, of texts that follow each other, each after its start."""
    starts = read == _START
    keys, grams = np.unique(read, return_inverse=True)
    grams_by_length = [_PlacedNGrams(keys, grams, starts)]
    for _ in range(1, order):
        grams_by_length.append(grams_by_length[-1].longer(read, symbols))
    levels = []
    for length, current in enumerate(grams_by_length):
        counts = current.occurrences() if length == order - 1 else grams_by_length[length + 1].preceding(current)
        levels.append(
            _smoothed(current.keys, counts, symbols, contexts=len(grams_by_length[length - 1].keys) if length else 1)
        )
    return levels


class _PlacedNGrams(NamedTuple):
    """The n-grams of one length, and where they are."""

    keys: Int[np.ndarray, " gram"]
    numbers: Int[np.ndarray, " token"]
    """The number of the n-gram that ends at each token; -1 where the text is still too short."""
    first: Int[np.ndarray, " token"]
    """Whether that n-gram begins with the start of the text."""

    def longer(self, read: Int[np.ndarray, " token"], symbols: int) -> _PlacedNGrams:
        """The n-grams that are one token longer."""
        before = np.concatenate([[-1], self.numbers[:-1]])
        there = (before >= 0) & (read != _START)
        keys, inverse = np.unique(before[there] * symbols + read[there], return_inverse=True)
        numbers = np.full(len(read), -1)
        numbers[there] = inverse
        return _PlacedNGrams(keys, numbers, np.concatenate([[False], self.first[:-1]]) & there)

    def occurrences(self) -> Int[np.ndarray, " gram"]:
        """How often each occurs."""
        return np.bincount(self.numbers[self.numbers >= 0], minlength=len(self.keys))

    def preceding(self, shorter: _PlacedNGrams) -> Int[np.ndarray, " gram"]:
        """How many different tokens precede each of the n-grams that are one token shorter.

        Nothing precedes the start of a text: n-grams that begin there count as often as they occur.
        """
        there = self.numbers >= 0
        suffix = np.empty(len(self.keys), dtype=np.int64)
        suffix[self.numbers[there]] = shorter.numbers[there]
        counts = np.bincount(suffix, minlength=len(shorter.keys))
        begin = shorter.first & (shorter.numbers >= 0)
        counts[shorter.numbers[begin]] = 0
        return counts + np.bincount(shorter.numbers[begin], minlength=len(shorter.keys))


def _smoothed(
    keys: Int[np.ndarray, " gram"], counts: Int[np.ndarray, " gram"], symbols: int, contexts: int
) -> _NGramLevel:
    """Counts as shares of their context, discounted; what the discounts free is left to shorter contexts."""
    # The start of a text is a context, never predicted.
    counts = np.where(keys % symbols == _START, 0, counts)
    discount = np.array([0.0, *_discounts(counts)])[np.minimum(counts, 3)]
    context = keys // symbols
    totals = np.bincount(context, weights=counts, minlength=contexts)
    freed = np.bincount(context, weights=discount, minlength=contexts)
    rest = np.divide(freed, totals, out=np.ones(contexts), where=totals > 0)
    return _NGramLevel(keys, (counts - discount) / np.maximum(totals, 1)[context], rest)


def _discounts(counts: Int[np.ndarray, " gram"]) -> tuple[float, float, float]:
    """What is taken off counts of 1, of 2 and of more (Chen and Goodman 1998)."""
    once, twice, thrice, four = (int((counts == times).sum()) for times in (1, 2, 3, 4))
    if not (once and twice and thrice and four):
        return _FALLBACK
    share = once / (once + 2 * twice)
    discounts = (1 - 2 * share * twice / once, 2 - 3 * share * thrice / twice, 3 - 4 * share * four / thrice)
    return discounts if all(0 <= discount <= most for most, discount in enumerate(discounts, start=1)) else _FALLBACK


MOST_SPOKEN = 100
"""Texts of a report that are scored word by word, within the report's time."""


class SuiteData(Protocol):
    """What a suite's reader gives."""

    @property
    def name(self) -> str:
        """For tables."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever an item changes."""
        ...

    def describe(self) -> dict[str, Any]:
        """Its entry in provenance, with `name` and `fingerprint`."""
        ...


def speaking(encoder: Encoder) -> dict[str, Any]:
    """Provenance of a model with its language-model head; a ModelError if it has none."""
    from lamina.models.language.language_model import language_model

    model = language_model(encoder)
    return {**describe_models((encoder,)), **model.describe()}


def texts_to_score(data: Any, options: Mapping[str, Any], targets: Sequence[str] | None, split: str) -> Splits | Corpus:
    """Texts to score, with training texts for probes; without these if there are none and no probe is a target."""
    try:
        splits = as_splits(data, whole(options))
    except CorpusError:
        if any(target.startswith(PROBE) for target in targets or ()):
            raise
        return as_corpus(data, options, split)
    return replace(splits, scored=part_of(splits.scored, options))


@dataclass(frozen=True)
class SpokenTexts(Texts):
    """A language model and texts."""

    speaks: ClassVar[bool] = True

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`; a model without a head is refused before texts are read."""
        encoder = as_encoder(given["model"], options, runtime)
        model = speaking(encoder)
        loaded = super().load({**given, "model": encoder}, options, settings, runtime)
        return replace(loaded, model=model, names=(short_name(given["model"], encoder), *loaded.names[1:]))

    def in_report(self, encoder: Encoder, texts: Corpus, train: Corpus | None) -> dict[str, Any] | None:
        """In a report: only models with a language-model head."""
        from lamina.models.language.language_model import has_language_model

        return super().in_report(encoder, texts, train) if has_language_model(encoder) else None


@dataclass(frozen=True)
class SpokenSplits(TrainedTexts):
    """A language model, all training texts for the baselines, and the texts to score (up to the limit)."""

    speaks: ClassVar[bool] = True

    @property
    def options(self) -> tuple[DeclaredSetting, ...]:
        """See `Reads.options`."""
        text = f"What is scored: dev, test, or all; of all, baselines learn from the training texts of {self.default}."
        return (DeclaredSetting("split", str, self.split, Setting(text)), *super().options[1:])

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`; a model without a head is refused before texts are read."""
        encoder = as_encoder(given["model"], options, runtime)
        model = speaking(encoder)
        read_whole, every = whole(options), options["split"] == "all"
        splits = self._all(given["data"], read_whole) if every else as_splits(given["data"], read_whole)
        splits = self._prepared(splits, given["data"], options)
        splits = replace(splits, scored=part_of(splits.scored, options))
        return replace(model_and(encoder, splits, given["model"]), model=model)

    def _prepared(self, splits: Splits, data: Any, options: Mapping[str, Any]) -> Splits:
        """What was read, before a part of it is taken."""
        return splits

    def _all(self, data: Any, options: Mapping[str, Any]) -> Splits:
        from lamina.corpora import load_corpus
        from lamina.corpora.splits import Splits

        scored = as_corpus(data, options, "all")
        if scored.name == self.default:
            raise CorpusError(f"baselines learn from the training texts of {self.default}; score its dev or test")
        return Splits(load_corpus(self.default, "train"), scored)

    def in_report(self, encoder: Encoder, texts: Corpus, train: Corpus | None) -> dict[str, Any] | None:
        """In a report: only models with a head, and some texts, since masked models read a text once per token."""
        from lamina.models.language.language_model import has_language_model

        if not has_language_model(encoder):
            return None
        return super().in_report(encoder, texts if train is None else texts.take(MOST_SPOKEN), train)


@dataclass(frozen=True)
class SpokenSuite(Reads):
    """A language model and a test suite; the analysis's function gets the encoder and what `read` gives."""

    read: Callable[[str | Path, Mapping[str, Any]], SuiteData] = field(kw_only=True)
    """Name or path, and the data options -> the suite."""
    known: tuple[str, ...] = field(kw_only=True)
    """Names of suites that can be given."""
    more: tuple[DeclaredSetting, ...] = ()
    """Further data options."""
    sampled: ClassVar[bool] = False
    speaks: ClassVar[bool] = True

    @property
    def inputs(self) -> tuple[Input, ...]:  # type: ignore[override]
        """See `Reads.inputs`; the first known suite is the default."""
        text = f"A test suite: {', '.join(self.known)}, or the path of a file or folder."
        return (MODEL, Input("suite", text, default=self.known[0], option="--suite", kind="suite", named=self.known))

    @property
    def options(self) -> tuple[DeclaredSetting, ...]:
        """See `Reads.options`."""
        return (*self.more, *MODEL_OPTIONS)

    def load(
        self, given: Mapping[str, Any], options: Mapping[str, Any], settings: Mapping[str, Any], runtime: Runtime
    ) -> LoadedInputs:
        """See `Reads.load`; a model without a head is refused before a named suite is read."""
        suite = given["suite"]
        if isinstance(suite, str | Path) and Path(suite).exists():
            # A user's file may have faults: report them before the model is loaded.
            suite = self.read(suite, options)
        encoder = as_encoder(given["model"], options, runtime)
        model = speaking(encoder)
        if isinstance(suite, str | Path):
            suite = self.read(suite, options)
        elif not hasattr(suite, "describe"):
            raise InputError(f"a suite is a name or a path; got {kind_of(suite)}")
        return LoadedInputs(
            (encoder, suite), model, suite.describe(), (short_name(given["model"], encoder), Path(suite.name).stem)
        )

    def in_report(self, encoder: Encoder, texts: Corpus, train: Corpus | None) -> dict[str, Any] | None:
        """In a report: only models with a head, if the suite is on this machine."""
        from lamina import assets
        from lamina.models.language.language_model import has_language_model

        name = self.known[0]
        if not has_language_model(encoder) or (name in assets.cards() and not assets.local_folder(name)):
            return None
        return {"model": encoder, "suite": name}
