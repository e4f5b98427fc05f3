"""Suites judged by language models and by n-gram models: pairs of sentences and items of regions alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from lamina.analyses.behaviour.inputs import NGrams
from lamina.corpora import load_corpus
from lamina.corpora.suites.minimal_pairs import MinimalPair
from lamina.corpora.suites.syntaxgym import (
    FormulaRegion,
    Key,
    Metric,
    RegionItem,
    degree,
    has_tie,
    margin,
    named_regions,
)
from lamina.corpora.tokenising import split_words, words_in
from lamina.models.contract import SPECIAL
from lamina.models.language.language_model import (
    LanguageModel,
    Masking,
    PassageScore,
    WrittenPassage,
    parts_at,
    score_passages,
)
from lamina.progress import progress
from lamina.targets.loss import right_or_wrong, written

# Suites of regions: which items' predictions hold for a model's surprisals.
#
# A region's surprisal is that of its tokens, in bits, summed (or by the suite's metric); an empty region has none, 0.
# Of masked models it is the pseudo-surprisal: each token given all others of the sentence, those after the region too.

_OF: Mapping[Metric, Callable[[np.ndarray], float]] = {
    "sum": np.sum,
    "mean": np.mean,
    "median": np.median,
    "range": np.ptp,
    "max": np.max,
    "min": np.min,
}


class RegionOutcome(NamedTuple):
    """How an item came out, by the suite's metric and per token."""

    plain: float
    """1 if all predictions hold, 0 if not; with ties, the share of ways to break them for which all hold."""
    per_token: float
    """The same with the mean over a region's tokens in place of the suite's metric."""
    margin: float
    """Bits by which the tightest prediction holds, by the suite's metric; negative if it does not."""
    margin_per_token: float
    tied: bool
    """Whether two amounts that are compared are equal."""
    surprisals: str
    """The surprisals that the predictions name, in bits."""


def passages_of(item: RegionItem) -> list[WrittenPassage]:
    """One per condition. Its parts are words, not regions: with `masking="word"` the rest of a word is masked.

    Example:
        >>> item = RegionItem("1", "", "", "own", {"good": {1: "Big dogs", 2: "bark"}}, (), "sum", 0.5)
        >>> passages_of(item)
        [WrittenPassage(id='own/1/good', text='Big dogs bark', spans=((0, 3), (4, 8), (9, 13)))]
    """
    return [WrittenPassage.typed(f"{item.item}/{condition}", item.text(condition)) for condition in item.sentences]


def judge_item(item: RegionItem, scored: Sequence[PassageScore]) -> RegionOutcome | None:
    """Whether an item's predictions hold, given its passages' scores in order; None where a surprisal is missing.

    One is missing if the tokenizer makes no token of a region in which something is written, or if a metric other than
    the sum applies to an empty region.

    Example:
        >>> from lamina.corpora.suites.syntaxgym import parse
        >>> sentences = {"good": {1: "Dogs", 2: "bark"}, "bad": {1: "Dogs", 2: "barks"}}
        >>> item = RegionItem("1", "", "", "own", sentences, (parse("(2;%good%) < (2;%bad%)"),), "sum", 0.5)
        >>> scores = [[-1.0, -2.0], [-1.0, -3.0]]
        >>> outcome = judge_item(item, [PassageScore("", np.array(each), np.array([0, 1]), 2) for each in scores])
        >>> outcome.plain, round(outcome.margin, 2), outcome.surprisals
        (1.0, 1.44, '(2;%good%) 2.89, (2;%bad%) 4.33')
    """
    plain: dict[Key, float] = {}
    per_piece: dict[Key, float] = {}
    for condition, sentence_scores in zip(item.sentences, scored, strict=True):
        regions = _bits(item.sentences[condition], sentence_scores)
        plain |= _surprisals(condition, regions, item)
        per_piece |= _per_piece(condition, regions)
    named = named_regions(item.predictions)
    if any(math.isnan(plain[key]) for key in named):
        return None
    return RegionOutcome(
        degree(item.predictions, plain),
        degree(item.predictions, per_piece),
        margin(item.predictions, plain),
        margin(item.predictions, per_piece),
        has_tie(item.predictions, plain),
        ", ".join(f"{FormulaRegion(number, condition)} {plain[condition, number]:.2f}" for condition, number in named),
    )


def counted(model: NGrams, passage: WrittenPassage, *, lower: bool = False) -> PassageScore:
    """A passage's words scored by an n-gram model, as a language model scores its tokens.

    Example:
        >>> model = NGrams.of([["dogs", "bark"]], order=2)
        >>> counted(model, WrittenPassage.typed("1", "Dogs bark."), lower=True).spans.tolist()
        [0, 1, 1]
    """
    split = split_words(passage.text)
    words = [word.lower() for word in split.words] if lower else list(split.words)
    parts = parts_at(passage, [start for start, _ in split.offsets])
    return PassageScore(passage.id, model.logprobs(words), parts, len(passage.spans))


def _bits(regions: Mapping[int, str], scored: PassageScore) -> dict[int, np.ndarray]:
    """Region -> the surprisals of its tokens, in bits. Regions are whole words: spaces are all that is between them."""
    words = np.repeat(list(regions), [len(content.split()) for content in regions.values()])
    # A token that belongs to no word has no region.
    of_piece = np.where(scored.spans == SPECIAL, -1, words[scored.spans])
    bits = -scored.logprobs / math.log(2)
    return {number: bits[of_piece == number] for number in regions}


def _surprisals(condition: str, regions: Mapping[int, np.ndarray], item: RegionItem) -> dict[Key, float]:
    """Condition and region -> surprisal; NaN where there is none. A sentence has that of all its regions."""
    surprisals: dict[Key, float] = {}
    for number, bits in regions.items():
        empty = 0.0 if item.metric == "sum" and not item.sentences[condition][number] else math.nan
        surprisals[condition, number] = float(_OF[item.metric](bits)) if len(bits) else empty
    return {**surprisals, (condition, None): sum(surprisals.values())}


def _per_piece(condition: str, regions: Mapping[int, np.ndarray]) -> dict[Key, float]:
    """The same per token; 0 for an empty region. A sentence has the mean over all its tokens."""
    means: dict[Key, float] = {
        (condition, number): float(bits.mean()) if len(bits) else 0.0 for number, bits in regions.items()
    }
    every = np.concatenate([*regions.values()])
    return {**means, (condition, None): float(every.mean()) if len(every) else 0.0}


# Verdicts of a language model on the items of a suite: right, wrong or tied, and by how much.

Score = Literal["plain", "per_token"]
SCORES: tuple[Score, ...] = ("plain", "per_token")
"""Log-probability of the whole sentence, and the same divided by the number of its tokens (or words)."""


class Verdicts(NamedTuple):
    """Right (1), wrong (0) or tied (0.5), and the margin, which is above 0 where the item is right."""

    value: Mapping[Score, Float[np.ndarray, " item"]]
    """NaN for an item that cannot be scored."""
    margin: Mapping[Score, Float[np.ndarray, " item"]]


class ScoredPairs(NamedTuple):
    """How likely a model finds the two sentences of every pair."""

    good: Float[np.ndarray, " pair"]
    """Natural logarithm of the probability; of a masked model the pseudo-log-likelihood."""
    bad: Float[np.ndarray, " pair"]
    pieces_good: Int[np.ndarray, " pair"]
    """Tokens of a model, words of an n-gram model."""
    pieces_bad: Int[np.ndarray, " pair"]
    windowed: int = 0
    """Sentences longer than the model's limit."""

    def verdicts(self) -> Verdicts:
        """Right where the good sentence is the likelier one.

        Example:
            >>> good, bad = np.array([-9.0, -4.0, -6.0]), np.array([-8.0, -4.0, -7.0])
            >>> scored = ScoredPairs(good, bad, np.array([4, 2, 3]), np.array([2, 2, 3]))
            >>> {name: value.tolist() for name, value in scored.verdicts().value.items()}
            {'plain': [0.0, 0.5, 1.0], 'per_token': [1.0, 0.5, 1.0]}
        """
        scored = (self.pieces_good > 0) & (self.pieces_bad > 0)
        # Where a sentence has no token, nothing is compared.
        pieces = [np.where(scored, count, 1) for count in (self.pieces_good, self.pieces_bad)]
        margin: dict[Score, np.ndarray] = {
            "plain": self.good - self.bad,
            "per_token": self.good / pieces[0] - self.bad / pieces[1],
        }
        margin = {name: np.where(scored, values, np.nan) for name, values in margin.items()}
        return Verdicts({name: right_or_wrong(values) for name, values in margin.items()}, margin)


def score_pairs(model: LanguageModel, pairs: Sequence[MinimalPair], *, masking: Masking = "piece") -> ScoredPairs:
    """How likely a language model finds the sentences of pairs; one that occurs several times is scored once.

    Example:
        >>> from lamina.corpora.suites.minimal_pairs import pairs_from
        >>> model = language_model(lamina.load_encoder("smollm2"))  # doctest: +SKIP
        >>> scored = score_pairs(model, pairs_from([("Dogs bark.", "Dogs barks.")]).pairs)  # doctest: +SKIP
        >>> scored.verdicts().value["plain"]  # doctest: +SKIP
        array([1.])
    """
    numbers: dict[str, int] = {}
    for pair in pairs:
        for sentence in (pair.good, pair.bad):
            numbers.setdefault(sentence, len(numbers))
    totals, pieces = np.empty(len(numbers)), np.empty(len(numbers), int)
    windowed = 0
    with progress(f"sentences scored by {model.name}", len(numbers)) as advance:
        for number, scored in enumerate(score_passages(model, map(written, numbers), masking=masking)):
            totals[number], pieces[number] = scored.total, scored.pieces
            windowed += scored.windows > 1
            advance()
    return _of_pairs(pairs, numbers, totals, pieces)._replace(windowed=windowed)


def count_pairs(grams: NGrams, pairs: Sequence[MinimalPair]) -> ScoredPairs:
    """How likely an n-gram model of lower-cased words finds the sentences of pairs.

    Example:
        >>> from lamina.corpora.suites.minimal_pairs import pairs_from
        >>> grams = NGrams.of([["dogs", "bark", "."], ["cats", "sleep", "."]], order=2)
        >>> count_pairs(grams, pairs_from([("Dogs bark.", "Dogs sleep.")]).pairs).verdicts().value["plain"]
        array([1.])
    """
    numbers: dict[str, int] = {}
    for pair in pairs:
        for sentence in (pair.good, pair.bad):
            numbers.setdefault(sentence, len(numbers))
    words = [lower_words(sentence) for sentence in numbers]
    totals = np.array([grams.total(sentence) for sentence in words])
    return _of_pairs(pairs, numbers, totals, np.array([len(sentence) for sentence in words], int))


def judge_regions(items: Sequence[RegionItem], scored: Iterable[PassageScore]) -> tuple[Verdicts, list[str]]:
    """Whether the predictions of items hold, given the scores of their passages one after the other.

    The second part is what the surprisals were, in words; margins are in bits.
    """
    waiting = iter(scored)
    outcomes = [judge_item(item, list(islice(waiting, len(item.sentences)))) for item in items]
    missing = RegionOutcome(np.nan, np.nan, np.nan, np.nan, False, "")
    known = [missing if outcome is None else outcome for outcome in outcomes]
    value: dict[Score, np.ndarray] = {name: np.array([getattr(outcome, name) for outcome in known]) for name in SCORES}
    margin: dict[Score, np.ndarray] = {
        "plain": np.array([outcome.margin for outcome in known]),
        "per_token": np.array([outcome.margin_per_token for outcome in known]),
    }
    return Verdicts(value, margin), [outcome.surprisals for outcome in known]


def lower_words(sentence: str) -> list[str]:
    """The words of a sentence as n-gram models of suites read them.

    Example:
        >>> lower_words("Dogs don't bark.")
        ['dogs', 'do', "n't", 'bark', '.']
    """
    return [word.lower() for word in words_in(sentence)]


def unspelled(model: LanguageModel, sentences: Iterable[str]) -> set[str]:
    """The sentences of which the tokenizer turns some part into its unknown token."""
    tokenizer = model.encoder.tokenizer
    unknown = tokenizer.unk_token_id
    given = list(dict.fromkeys(sentences))
    encodings = tokenizer.backend_tokenizer.encode_batch(given, add_special_tokens=False)
    return {sentence for sentence, encoding in zip(given, encodings, strict=True) if unknown in encoding.ids}


def _of_pairs(
    pairs: Sequence[MinimalPair], numbers: Mapping[str, int], totals: np.ndarray, pieces: np.ndarray
) -> ScoredPairs:
    good, bad = (np.array([numbers[getattr(pair, one)] for pair in pairs], int) for one in ("good", "bad"))
    return ScoredPairs(totals[good], totals[bad], pieces[good], pieces[bad])


Items = Sequence[MinimalPair | RegionItem]
"""The items of a suite, all of one kind."""
DETAILS = ("good", "bad", "logprob_good", "logprob_bad", "pieces_good", "pieces_bad", "surprisals")
"""Columns of each item besides its verdict."""


class SuiteJudgements(NamedTuple):
    """Verdicts of one model on a suite."""

    verdicts: Verdicts
    details: pd.DataFrame
    pieces: int
    """In all sentences that were scored."""
    windowed: int = 0
    """Sentences longer than the model's limit."""
    unspelled: int = 0
    """Items with a sentence that the vocabulary cannot spell."""

    def scored(self) -> Bool[np.ndarray, " item"]:
        """Which items have a verdict."""
        return np.isfinite(self.verdicts.value["plain"])

    def spread(self, numbers: Sequence[int], size: int) -> SuiteJudgements:
        """Verdicts on all items, NaN for those without these numbers."""
        places = np.array(numbers, int)

        def wider(values: np.ndarray) -> np.ndarray:
            spread_out = np.full(size, np.nan)
            spread_out[places] = values
            return spread_out

        value, margin = self.verdicts
        verdicts = Verdicts(
            {name: wider(value[name]) for name in SCORES}, {name: wider(margin[name]) for name in SCORES}
        )
        # The twin's vocabulary is the model's, whose unknown words are counted already.
        return self._replace(verdicts=verdicts, unspelled=0)

    def verdicts_of(self, items: Int[np.ndarray, " item"]) -> Verdicts:
        """Those of some items."""
        value, margin = self.verdicts
        return Verdicts({name: value[name][items] for name in SCORES}, {name: margin[name][items] for name in SCORES})

    def notes(self, name: str) -> dict[str, int]:
        """Counts for provenance: ties, and sentences that were scored differently."""
        value = self.verdicts.value["plain"]
        return {
            f"items tied for {name}, right in part": int(((value > 0) & (value < 1)).sum()),
            f"sentences longer than the limit of {name}, scored in overlapping windows": self.windowed,
            f"items with a word that {name} does not know, scored as its unknown word": self.unspelled,
        }


def sentences_of(items: Items) -> list[str]:
    """Every sentence, in order and as often as it is scored."""
    return [sentence for item in items for sentence in _sentences(item)]


def chances_of(items: Items) -> Float[np.ndarray, " item"]:
    """How often each item is right by chance: half for a pair."""
    return np.array([getattr(item, "chance", 0.5) for item in items])


def judge_by_model(model: LanguageModel, items: Items, masking: Masking = "piece") -> SuiteJudgements:
    """Verdicts of a language model on items."""
    pairs, regions = _by_kind(items)
    if pairs:
        judged = _judged_pairs(pairs, score_pairs(model, pairs, masking=masking))
    else:
        passages = [passage for item in regions for passage in passages_of(item)]
        scored = []
        with progress(f"sentences scored by {model.name}", len(passages)) as advance:
            for sentence_scores in score_passages(model, passages, masking=masking):
                scored.append(sentence_scores)
                advance()
        judged = _judged_regions(regions, scored)
    unknown = unspelled(model, sentences_of(items))
    return judged._replace(unspelled=sum(any(sentence in unknown for sentence in _sentences(item)) for item in items))


def judge_by_counting(grams: NGrams, items: Items) -> SuiteJudgements:
    """Verdicts of an n-gram model of lower-cased words on items."""
    pairs, regions = _by_kind(items)
    if pairs:
        judged = _judged_pairs(pairs, count_pairs(grams, pairs))
    else:
        judged = _judged_regions(
            regions, [counted(grams, passage, lower=True) for item in regions for passage in passages_of(item)]
        )
    unknown = [
        any(not grams.knows(word) for sentence in _sentences(item) for word in lower_words(sentence)) for item in items
    ]
    return judged._replace(unspelled=sum(unknown))


def n_grams_of(corpus: str, order: int, items: Items) -> tuple[NGrams, int]:
    """An n-gram model of a corpus's training texts; those that are sentences of the suite are left out and counted."""
    tested = {tuple(lower_words(sentence)) for sentence in sentences_of(items)}
    texts = [tuple(word.lower() for word in text.words) for text in load_corpus(corpus, "train")]
    learned = [words for words in texts if words not in tested]
    return NGrams.of(learned, order), len(texts) - len(learned)


def _by_kind(items: Items) -> tuple[list[MinimalPair], list[RegionItem]]:
    return (
        [item for item in items if isinstance(item, MinimalPair)],
        [item for item in items if isinstance(item, RegionItem)],
    )


def _sentences(item: MinimalPair | RegionItem) -> tuple[str, ...]:
    if isinstance(item, MinimalPair):
        return item.good, item.bad
    return tuple(item.text(condition) for condition in item.sentences)


def _judged_pairs(pairs: Sequence[MinimalPair], scored: ScoredPairs) -> SuiteJudgements:
    details = pd.DataFrame(
        {
            "good": [pair.good for pair in pairs],
            "bad": [pair.bad for pair in pairs],
            "logprob_good": scored.good,
            "logprob_bad": scored.bad,
            "pieces_good": scored.pieces_good,
            "pieces_bad": scored.pieces_bad,
            "surprisals": "",
        }
    )
    return SuiteJudgements(
        scored.verdicts(), details, int((scored.pieces_good + scored.pieces_bad).sum()), scored.windowed
    )


def _judged_regions(items: Sequence[RegionItem], scored: Sequence[PassageScore]) -> SuiteJudgements:
    verdicts, surprisals = judge_regions(items, scored)
    details = pd.DataFrame(dict.fromkeys(DETAILS, np.nan), index=range(len(items)))
    details = details.assign(good="", bad="", surprisals=surprisals)
    return SuiteJudgements(
        verdicts, details, sum(sentence.pieces for sentence in scored), sum(sentence.windows > 1 for sentence in scored)
    )
