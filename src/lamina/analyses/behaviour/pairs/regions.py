"""Suites of regions: which items' predictions hold for a model's surprisals.

A region's surprisal is that of its tokens, in bits, summed (or by the suite's metric); an empty region has none, 0.
Of masked models it is the pseudo-surprisal: each token given all others of the sentence, those after the region too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lamina.analyses.behaviour.ngrams import NGrams
from lamina.corpora.suites.formulas import FormulaRegion, Key, degree, has_tie, margin, named_regions
from lamina.corpora.suites.syntaxgym import Metric, RegionItem
from lamina.corpora.tokenising import split_words
from lamina.models.contract import SPECIAL
from lamina.models.language.scoring import PassageScore, WrittenPassage, parts_at

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
        [Passage(id='own/1/good', text='Big dogs bark', spans=((0, 3), (4, 8), (9, 13)))]
    """
    return [WrittenPassage.typed(f"{item.item}/{condition}", item.text(condition)) for condition in item.sentences]


def judge_item(item: RegionItem, scored: Sequence[PassageScore]) -> RegionOutcome | None:
    """Whether an item's predictions hold, given its passages' scores in order; None where a surprisal is missing.

    One is missing if the tokenizer makes no token of a region in which something is written, or if a metric other than
    the sum applies to an empty region.

    Example:
        >>> from lamina.corpora.suites.formulas import parse
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
