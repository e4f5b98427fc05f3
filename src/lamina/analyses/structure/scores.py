"""Scores of predicted distances and depths: UUAS, root accuracy, Spearman correlations by length, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import rankdata

from lamina.analyses.attention_maps.parse_probes import spanning_trees
from lamina.analyses.structure.gold import GoldTree, smallest_tree
from lamina.stats.units import weights_of

UUAS, ROOT_ACCURACY, DSPR, NSPR = MEASURES = ("uuas", "root", "dspr", "nspr")
SHORTEST, LONGEST = 5, 50
"""Lengths of sentences whose correlations count."""
_FEWEST = 10
"""Documents that are resampled; with fewer, sentences are."""


class Tally(NamedTuple):
    """What every sentence adds to a score: the mean over strata of ratios of sums."""

    hits: Float[np.ndarray, " sentence"]
    of: Float[np.ndarray, " sentence"]
    strata: Int[np.ndarray, " sentence"]
    """Lengths, where they are averaged first; 0 otherwise."""


class Estimate(NamedTuple):
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float


NOTHING = Estimate(float("nan"), float("nan"), float("nan"))


class Intervals:
    """Bootstrap over documents, or over sentences where documents are few; all scores share the draws."""

    def __init__(self, trees: Sequence[GoldTree], *, samples: int, seed: int) -> None:
        # A part of the texts may be of a few documents, which hardly show how documents vary.
        few = len({tree.unit for tree in trees}) < _FEWEST
        names = [tree.key if few else tree.unit for tree in trees]
        units = list(dict.fromkeys(names))
        place = {unit: at for at, unit in enumerate(units)}
        self._unit = np.array([place[name] for name in names])
        self._weights = np.stack([weights_of(unit, samples=samples, seed=seed) for unit in units], 1)

    def estimate(self, tally: Tally) -> Estimate:
        """The score, and its interval."""
        counted = np.flatnonzero(tally.of > 0)
        if not len(counted):
            return NOTHING
        strata, stratum = np.unique(tally.strata[counted], return_inverse=True)
        sums = np.zeros((2, self._weights.shape[1], len(strata)))
        np.add.at(sums[0], (self._unit[counted], stratum), tally.hits[counted])
        np.add.at(sums[1], (self._unit[counted], stratum), tally.of[counted])
        value = float((sums[0].sum(0) / sums[1].sum(0)).mean())
        drawn, counts = self._weights @ sums[0], self._weights @ sums[1]
        with np.errstate(invalid="ignore", divide="ignore"):
            ratios = np.where(counts > 0, drawn / counts, np.nan)
        some = ratios[~np.isnan(ratios).all(1)]
        if not len(some):
            return Estimate(value, float("nan"), float("nan"))
        low, high = np.quantile(np.nanmean(some, 1), [0.025, 0.975])
        return Estimate(value, float(low), float(high))


def links_tally(distances: Sequence[np.ndarray], trees: Sequence[GoldTree]) -> list[Tally]:
    """Links found by minimum spanning trees; `distances` of a sentence are [probe, word, word]."""
    hits = [links_hit(each, tree) for each, tree in zip(distances, trees, strict=True)]
    of = np.array([len(tree.links) for tree in trees], float)
    return [Tally(row, of, np.zeros(len(trees), int)) for row in np.array(hits, float).T]


def links_hit(distances: Float[np.ndarray, "probe word word"], tree: GoldTree) -> Int[np.ndarray, " probe"]:
    """How many links of a sentence each probe's minimum spanning tree has, punctuation left out."""
    links, kept = tree.links, tree.kept
    if not len(links):
        return np.zeros(len(distances), int)
    if tree.repaired:
        gold = set(map(tuple, links.tolist()))
        return np.array([len(gold & set(map(tuple, smallest_tree(each, kept).tolist()))) for each in distances])
    via = spanning_trees(-distances[:, kept[:, None], kept])
    one, other = np.searchsorted(kept, links).T
    return ((via[:, one] == other) | (via[:, other] == one)).sum(1)


def root_tally(depths: Sequence[np.ndarray], trees: Sequence[GoldTree], *, faithful: bool) -> list[Tally]:
    """Roots found: the word that is least deep, punctuation left out; `depths` of a sentence are [probe, word].

    Sentences with one word that is not punctuation, or none, or with punctuation as root, do not count; they do in the
    released code.
    """
    hits, of = [], []
    for each, tree in zip(depths, trees, strict=True):
        kept = tree.kept
        counted = faithful or (len(kept) > 1 and not tree.punctuation[tree.root])
        # The released code takes the least deep of all words where there is nothing but punctuation.
        among = kept if len(kept) else np.arange(len(tree))
        hits.append((among[each[:, among].argmin(1)] == tree.root) * counted)
        of.append(float(counted))
    return [Tally(row, np.array(of), np.zeros(len(trees), int)) for row in np.array(hits, float).T]


def distance_correlations(distances: Sequence[np.ndarray], trees: Sequence[GoldTree]) -> list[Tally]:
    """Spearman's correlation of each word's distances to all words, by length of the sentence."""
    sums = [_row_correlations(each, tree.distances).sum(-1) if _counts(tree) else np.zeros(len(each))
            for each, tree in zip(distances, trees, strict=True)]  # fmt: skip
    of = np.array([float(len(tree)) if _counts(tree) else 0.0 for tree in trees])
    sizes = np.array([len(tree) for tree in trees])
    return [Tally(row, of, sizes) for row in np.array(sums).T]


def depth_correlations(depths: Sequence[np.ndarray], trees: Sequence[GoldTree]) -> list[Tally]:
    """Spearman's correlation of the depths of a sentence's words, by length of the sentence."""
    sums = [_row_correlations(each[:, None], tree.depths[None])[:, 0] if _counts(tree) else np.zeros(len(each))
            for each, tree in zip(depths, trees, strict=True)]  # fmt: skip
    of = np.array([float(_counts(tree)) for tree in trees])
    sizes = np.array([len(tree) for tree in trees])
    return [Tally(row, of, sizes) for row in np.array(sums).T]


def _counts(tree: GoldTree) -> bool:
    return SHORTEST <= len(tree) <= LONGEST


def _row_correlations(
    predicted: Float[np.ndarray, "probe row word"], gold: Int[np.ndarray, "row word"]
) -> Float[np.ndarray, "probe row"]:
    """Spearman's correlation of each row; 0 where a prediction is the same for all words, which tells nothing."""
    one, other = rankdata(predicted, axis=-1), rankdata(gold, axis=-1)[None]
    one, other = (each - each.mean(-1, keepdims=True) for each in (one, other))
    size = np.sqrt((one**2).sum(-1) * (other**2).sum(-1))
    return (one * other).sum(-1) / np.where(size > 0, size, 1)
