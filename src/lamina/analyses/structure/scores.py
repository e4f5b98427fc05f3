"""Scores of predicted distances and depths (UUAS, roots, Spearman correlations by length) and their contrasts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from lamina.analyses.heads.trees import spanning_trees
from lamina.analyses.structure.gold import GoldTree, smallest_tree
from lamina.stats.best import best_set
from lamina.stats.family import bootstrap_family
from lamina.stats.intervals import widened_intervals
from lamina.stats.ranks import rank_correlation
from lamina.stats.seeds import draws_over_seeds
from lamina.stats.units import Units

UUAS, ROOT_ACCURACY, DSPR, NSPR = MEASURES = ("uuas", "root", "dspr", "nspr")
SHORTEST, LONGEST = 5, 50
"""Lengths of sentences whose correlations count."""
MODEL, TWIN, PROJECTION, CHAIN, DECAY, CONTROL = OF = ("model", "twin", "projection", "chain", "decay", "control")
TESTED = (UUAS, ROOT_ACCURACY)
"""Measures that the model is compared by."""
BEST = ("measure", "layer", "value", "low", "high", "p_beaten", "among_best", "units")
"""Columns of `best.csv`."""
CONTRASTS = (
    *("measure", "layer", "against", "value", "other"),
    *("estimate", "low", "high", "p_adjusted", "units", "needed", "unit"),
)
"""Columns of `contrasts.csv`."""


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


class Score(NamedTuple):
    """A score and the same over resampled units; all scores of a split share the draws."""

    value: float
    draws: Float[np.ndarray, " sample"]


Scores = Mapping[tuple[str, int | None, str], Sequence[Score]]
"""Of what (`OF`), at which layer, by which measure -> one score per seed."""


class Intervals:
    """Bootstrap over documents; over sentences where all are of one document. All scores share the draws."""

    def __init__(self, trees: Sequence[GoldTree], *, samples: int, seed: int) -> None:
        documents = len({tree.unit for tree in trees}) > 1
        names = [tree.unit if documents else tree.key for tree in trees]
        self.units = Units.of(names, "document" if documents else "text")
        self._weights = self.units.weights(samples=samples, seed=seed).astype(float)

    def score(self, tally: Tally) -> Score:
        """The score, and its draws; NaN where nothing counts."""
        strata, stratum = np.unique(tally.strata, return_inverse=True)
        in_stratum = np.arange(len(strata)) == stratum[:, None]
        hits, of = (self.units.sums(np.where(in_stratum, part[:, None], 0.0)) for part in (tally.hits, tally.of))
        there = of.sum(0) > 0
        if not there.any():
            return Score(float("nan"), np.full(len(self._weights), np.nan))
        hits, of = hits[:, there], of[:, there]
        drawn, counts = self._weights @ hits, self._weights @ of
        known = counts > 0
        ratios = np.divide(drawn, counts, out=np.zeros_like(drawn), where=known)
        # A sample that drew no sentence of a length has no score for it.
        many = known.sum(1)
        draws = np.divide(ratios.sum(1), many, out=np.full(len(many), np.nan), where=many > 0)
        return Score(float((hits.sum(0) / of.sum(0)).mean()), draws)

    def estimate(self, tally: Tally) -> Estimate:
        """The score, and its interval."""
        return self.of(self.score(tally))

    def of(self, score: Score) -> Estimate:
        """A score with its interval."""
        low, high = widened_intervals(np.array(score.value), score.draws, len(self.units))
        return Estimate(score.value, float(low), float(high))


def pooled(by_seed: Sequence[Score]) -> Score:
    """The mean over seeds; from 5 on, seeds vary too."""
    values, draws = (np.array([score[part] for score in by_seed]) for part in (0, 1))
    return Score(float(values.mean()), draws_over_seeds(values, draws))


def best_rows(scores: Scores, units: Units) -> list[tuple[Any, ...]]:
    """Which layers of the model can be the best, by every measure; rows of `best.csv`.

    A layer without a score (its probe had not converged) is left out.
    """
    rows: list[tuple[Any, ...]] = []
    for measure in MEASURES:
        layers = {
            layer: pooled(by_seed) for (of, layer, by), by_seed in scores.items() if of == MODEL and by == measure
        }
        known = {layer: score for layer, score in layers.items() if np.isfinite(score.value)}
        if not known:
            continue
        values, draws = np.array([score.value for score in known.values()]), _columns(known.values())
        best_layers = best_set(values, draws, len(units))
        low, high = widened_intervals(values, draws, len(units))
        parts = zip(known, values, low, high, best_layers.p, best_layers.among, strict=True)
        rows += [
            (measure, layer, float(value), float(start), float(end), float(p), bool(inside), len(units))
            for layer, value, start, end, p, inside in parts
        ]
    return rows


def contrast_rows(scores: Scores, units: Units) -> list[tuple[Any, ...]]:
    """Every layer of the model minus all that is beside it, as one family; rows of `contrasts.csv`."""
    pairs = [
        (measure, layer, against, pooled(scores[MODEL, layer, measure]), pooled(beside))
        for measure in TESTED
        for layer in sorted(layer for of, layer, by in scores if of == MODEL and by == measure and layer is not None)
        for against in (CHAIN, DECAY, TWIN, PROJECTION, CONTROL)
        if (beside := _beside(scores, against, layer, measure)) is not None
    ]
    pairs = [pair for pair in pairs if np.isfinite([pair[3].value, pair[4].value]).all()]
    if not pairs:
        return []
    estimates = np.array([ours.value - other.value for *_, ours, other in pairs])
    draws = _columns([Score(0.0, ours.draws - other.draws) for *_, ours, other in pairs])
    tests = bootstrap_family(estimates, draws, len(units), bounds=(-1.0, 1.0)).columns()
    return [
        (*place, ours.value, other.value, *(float(column[number]) for column in tests.values()), units.kind)
        for number, (*place, ours, other) in enumerate(pairs)
    ]


def _beside(scores: Scores, against: str, layer: int, measure: str) -> Sequence[Score] | None:
    """Words in a row have no layer; averaged neighbours are of layer 0."""
    place = {CHAIN: None, DECAY: 0}.get(against, layer)
    return scores.get((against, place, measure))


def _columns(scores: Any) -> Float[np.ndarray, "sample score"]:
    return np.stack([score.draws for score in scores], 1)


def links_tally(distances: Sequence[np.ndarray], trees: Sequence[GoldTree]) -> list[Tally]:
    """Links found by minimum spanning trees; `distances` of a sentence are [probe, word, word]."""
    hits = [links_hit(of_sentence, tree) for of_sentence, tree in zip(distances, trees, strict=True)]
    of = np.array([len(tree.links) for tree in trees], float)
    return [Tally(row, of, np.zeros(len(trees), int)) for row in np.array(hits, float).T]


def links_hit(distances: Float[np.ndarray, "probe word word"], tree: GoldTree) -> Int[np.ndarray, " probe"]:
    """How many links of a sentence each probe's minimum spanning tree has, punctuation left out."""
    links, words = tree.links, tree.kept
    if not len(links):
        return np.zeros(len(distances), int)
    if tree.repaired:
        gold = set(map(tuple, links.tolist()))
        return np.array(
            [len(gold & set(map(tuple, smallest_tree(of_probe, words).tolist()))) for of_probe in distances]
        )
    via = spanning_trees(-distances[:, words[:, None], words])
    one, other = np.searchsorted(words, links).T
    return ((via[:, one] == other) | (via[:, other] == one)).sum(1)


def root_tally(depths: Sequence[np.ndarray], trees: Sequence[GoldTree], *, faithful: bool) -> list[Tally]:
    """Roots found: the word that is least deep, punctuation left out; `depths` of a sentence are [probe, word].

    Sentences with one word that is not punctuation, or none, or with punctuation as root, do not count; they do in the
    released code.
    """
    hits, of = [], []
    for of_sentence, tree in zip(depths, trees, strict=True):
        words = tree.kept
        counted = faithful or (len(words) > 1 and not tree.punctuation[tree.root])
        # The released code takes the least deep of all words where there is nothing but punctuation.
        among = words if len(words) else np.arange(len(tree))
        hits.append((among[of_sentence[:, among].argmin(1)] == tree.root) * counted)
        of.append(float(counted))
    return [Tally(row, np.array(of), np.zeros(len(trees), int)) for row in np.array(hits, float).T]


def distance_correlations(distances: Sequence[np.ndarray], trees: Sequence[GoldTree]) -> list[Tally]:
    """Spearman's correlation of each word's distances to all words, by length of the sentence."""
    sums = [
        _row_correlations(values, tree.distances).sum(-1) if _counts(tree) else np.zeros(len(values))
        for values, tree in zip(distances, trees, strict=True)
    ]
    of = np.array([float(len(tree)) if _counts(tree) else 0.0 for tree in trees])
    sizes = np.array([len(tree) for tree in trees])
    return [Tally(row, of, sizes) for row in np.array(sums).T]


def depth_correlations(depths: Sequence[np.ndarray], trees: Sequence[GoldTree]) -> list[Tally]:
    """Spearman's correlation of the depths of a sentence's words, by length of the sentence."""
    sums = [
        _row_correlations(values[:, None], tree.depths[None])[:, 0] if _counts(tree) else np.zeros(len(values))
        for values, tree in zip(depths, trees, strict=True)
    ]
    of = np.array([float(_counts(tree)) for tree in trees])
    sizes = np.array([len(tree) for tree in trees])
    return [Tally(row, of, sizes) for row in np.array(sums).T]


def _counts(tree: GoldTree) -> bool:
    return SHORTEST <= len(tree) <= LONGEST


def _row_correlations(
    predicted: Float[np.ndarray, "probe row word"], gold: Int[np.ndarray, "row word"]
) -> Float[np.ndarray, "probe row"]:
    """Spearman's correlation of each row; 0 where a prediction is the same for all words, which tells nothing."""
    return np.nan_to_num(rank_correlation(predicted, np.broadcast_to(gold, predicted.shape)))
