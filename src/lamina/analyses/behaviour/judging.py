"""Suites judged by language models and by n-gram models: pairs of sentences and items of regions alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from lamina.analyses.behaviour.ngrams import NGrams
from lamina.analyses.behaviour.regions import counted, passages_of
from lamina.analyses.behaviour.verdicts import (
    SCORES,
    ScoredPairs,
    Verdicts,
    count_pairs,
    judge_regions,
    lower_words,
    score_pairs,
    unspelled,
)
from lamina.corpora import load_corpus
from lamina.corpora.minimal_pairs import Pair
from lamina.corpora.syntaxgym import RegionItem
from lamina.encoders.language_model import LanguageModel
from lamina.encoders.scoring import Masking, Scored, score
from lamina.progress import progress

Items = Sequence[Pair | RegionItem]
"""What a suite asks: all of one kind."""
DETAILS = ("good", "bad", "logprob_good", "logprob_bad", "pieces_good", "pieces_bad", "told")
"""What is kept of each item beside its verdict."""


class Judged(NamedTuple):
    """What one model makes of a suite."""

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

    def spread(self, numbers: Sequence[int], size: int) -> Judged:
        """As one of all items, where only those of these numbers were asked."""
        places = np.array(numbers, int)

        def wider(values: np.ndarray) -> np.ndarray:
            spread_out = np.full(size, np.nan)
            spread_out[places] = values
            return spread_out

        value, margin = self.verdicts
        verdicts = Verdicts(
            {name: wider(value[name]) for name in SCORES}, {name: wider(margin[name]) for name in SCORES}
        )
        # The twin's vocabulary is the model's, of which this is told already.
        return self._replace(verdicts=verdicts, unspelled=0)

    def verdicts_of(self, items: Int[np.ndarray, " kept"]) -> Verdicts:
        """Those of some items."""
        value, margin = self.verdicts
        return Verdicts({name: value[name][items] for name in SCORES}, {name: margin[name][items] for name in SCORES})

    def notes(self, name: str) -> dict[str, int]:
        """What provenance says of ties and of sentences that were scored differently -> how many."""
        value = self.verdicts.value["plain"]
        return {
            f"items tied for {name}, right in part": int(((value > 0) & (value < 1)).sum()),
            f"sentences longer than the limit of {name}, scored in overlapping windows": self.windowed,
            f"items with a word that {name} does not know, scored as its unknown word": self.unspelled,
        }


def sentences_of(items: Items) -> list[str]:
    """Every sentence, in order and as often as it is asked."""
    return [sentence for item in items for sentence in _sentences(item)]


def chances_of(items: Items) -> Float[np.ndarray, " item"]:
    """How often each item is right by chance: half for a pair."""
    return np.array([getattr(item, "chance", 0.5) for item in items])


def judge_by_model(model: LanguageModel, items: Items, masking: Masking = "piece") -> Judged:
    """What a language model makes of items."""
    pairs, regions = _by_kind(items)
    if pairs:
        judged = _of_pairs(pairs, score_pairs(model, pairs, masking=masking))
    else:
        passages = [passage for item in regions for passage in passages_of(item)]
        scored = []
        with progress(f"sentences scored by {model.name}", len(passages)) as advance:
            for sentence_scores in score(model, passages, masking=masking):
                scored.append(sentence_scores)
                advance()
        judged = _of_regions(regions, scored)
    unknown = unspelled(model, sentences_of(items))
    return judged._replace(unspelled=sum(any(sentence in unknown for sentence in _sentences(item)) for item in items))


def judge_by_counting(grams: NGrams, items: Items) -> Judged:
    """What an n-gram model of lower-cased words makes of items."""
    pairs, regions = _by_kind(items)
    if pairs:
        judged = _of_pairs(pairs, count_pairs(grams, pairs))
    else:
        judged = _of_regions(
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


def _by_kind(items: Items) -> tuple[list[Pair], list[RegionItem]]:
    return (
        [item for item in items if isinstance(item, Pair)],
        [item for item in items if isinstance(item, RegionItem)],
    )


def _sentences(item: Pair | RegionItem) -> tuple[str, ...]:
    if isinstance(item, Pair):
        return item.good, item.bad
    return tuple(item.text(condition) for condition in item.sentences)


def _of_pairs(pairs: Sequence[Pair], scored: ScoredPairs) -> Judged:
    details = pd.DataFrame(
        {
            "good": [pair.good for pair in pairs],
            "bad": [pair.bad for pair in pairs],
            "logprob_good": scored.good,
            "logprob_bad": scored.bad,
            "pieces_good": scored.pieces_good,
            "pieces_bad": scored.pieces_bad,
            "told": "",
        }
    )
    return Judged(scored.verdicts(), details, int((scored.pieces_good + scored.pieces_bad).sum()), scored.windowed)


def _of_regions(items: Sequence[RegionItem], scored: Sequence[Scored]) -> Judged:
    verdicts, surprisals = judge_regions(items, scored)
    details = pd.DataFrame(dict.fromkeys(DETAILS, np.nan), index=range(len(items)))
    details = details.assign(good="", bad="", told=surprisals)
    return Judged(
        verdicts, details, sum(sentence.pieces for sentence in scored), sum(sentence.windows > 1 for sentence in scored)
    )
