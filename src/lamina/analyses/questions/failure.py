"""Can it be predicted from an early layer that the final answer will be wrong?"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from lamina.analyses.probing.statistics import holm

FAILURE = ("model", "layer", "feature", "count", "auc", "low", "high", "p", "p_holm")
"""Columns of `failure.csv`; `layer` is empty for what has none."""
VECTORS, CONFIDENCE, LENGTH = "vectors", "confidence", "length"
_FOLDS = 5
_AXES = 32
"""Principal axes the vectors are reduced to, fitted to the training questions."""


class Cases(NamedTuple):
    """Questions whose answers are known to be right or wrong."""

    vectors: Float[np.ndarray, "case layer feature"]
    wrong: Bool[np.ndarray, " case"]
    documents: Int[np.ndarray, " case"]
    """Numbered."""
    confidence: Float[np.ndarray, " case"]
    length: Float[np.ndarray, " case"]


class _Score(NamedTuple):
    auc: float
    spread: np.ndarray
    p: float


def failure_rows(model: str, cases: Cases, *, samples: int, seed: int) -> Iterator[tuple]:
    """How well each layer's vectors, the model's confidence and the question's length predict wrong answers.

    Each is a logistic regression, trained on some documents and scored on others; the AUC compares only questions
    scored together. Rows `vectors - ...` are differences of AUC. There are no rows where there is only one document, or
    all answers are right or all wrong.
    """
    folds = _folds(cases.documents)
    if folds is None or not 0 < cases.wrong.sum() < len(cases.wrong):
        return
    tester = _Tester(cases, folds, samples, seed)
    beside = {
        CONFIDENCE: tester.score(cases.confidence[:, None]),
        LENGTH: tester.score(cases.length[:, None]),
    }
    layers = [tester.score(cases.vectors[:, layer]) for layer in range(cases.vectors.shape[1])]
    count = len(cases.wrong)
    for name, score in beside.items():
        yield model, pd.NA, name, count, *_told(score), score.p, np.nan
    yield from _by_layer(model, VECTORS, layers, count)
    for name, other in beside.items():
        gaps = [_difference(score, other) for score in layers]
        yield from _by_layer(model, f"{VECTORS} - {name}", gaps, count)


def time_layer(features: int, cases: int, documents: int, *, samples: int, seed: int) -> float:
    """Seconds that one layer takes, timed on random vectors; 0 where there would be no rows."""
    draw = np.random.default_rng(seed)
    numbers = np.arange(cases) * documents // cases
    folds = _folds(numbers)
    if folds is None:
        return 0.0
    vectors = draw.normal(size=(cases, 1, features)).astype(np.float32)
    made = Cases(vectors, draw.random(cases) < 0.5, numbers, draw.random(cases), draw.random(cases))
    tester = _Tester(made, folds, samples, seed)
    start = time.perf_counter()
    tester.score(vectors[:, 0])
    return time.perf_counter() - start


def _by_layer(model: str, feature: str, scores: Sequence[_Score], count: int) -> Iterator[tuple]:
    corrected = holm([score.p for score in scores])
    for layer, (score, p) in enumerate(zip(scores, corrected, strict=True)):
        yield model, layer, feature, count, *_told(score), score.p, float(p)


def _told(score: _Score) -> tuple[float, float, float]:
    low, high = np.nanquantile(score.spread, [0.025, 0.975])
    return score.auc, float(low), float(high)


def _difference(one: _Score, other: _Score) -> _Score:
    """Of two scores on the same resampled documents; p is two-sided, from the resampled differences."""
    spread = one.spread - other.spread
    real = spread[np.isfinite(spread)]
    tail = min((real <= 0).sum(), (real >= 0).sum())
    return _Score(one.auc - other.auc, spread, min(1.0, 2 * (1 + tail) / (1 + len(real))))


def _folds(documents: Int[np.ndarray, " case"]) -> list[np.ndarray] | None:
    from sklearn.model_selection import GroupKFold

    kinds = len(np.unique(documents))
    if kinds < 2:
        return None
    parts = GroupKFold(min(_FOLDS, kinds)).split(documents, groups=documents)
    return [scored for _, scored in parts]


class _Tester:
    """Cross-fitted AUCs that share folds, resampled documents and permutations."""

    def __init__(self, cases: Cases, folds: list[np.ndarray], samples: int, seed: int) -> None:
        self._wrong, self._folds, self._samples, self._seed = cases.wrong, folds, samples, seed
        self._fold = np.zeros(len(cases.wrong), int)
        for number, scored in enumerate(folds):
            self._fold[scored] = number
        draw = np.random.default_rng(seed)
        _, self._documents = np.unique(cases.documents, return_inverse=True)
        self._weights = draw.poisson(1.0, (samples, self._documents.max() + 1)).astype(float)

    def score(self, features: Float[np.ndarray, "case feature"]) -> _Score:
        said = np.zeros(len(self._wrong))
        for scored in self._folds:
            learned = np.setdiff1d(np.arange(len(said)), scored)
            if 0 < self._wrong[learned].sum() < len(learned):
                model = _model(features.shape[1], len(learned))
                said[scored] = model.fit(features[learned], self._wrong[learned]).decision_function(features[scored])
        wins, pairs = self._compared(said)
        value = _ratio(wins.sum(), pairs.sum())
        w = self._weights
        spread = np.array([_ratio(each @ wins @ each, each @ pairs @ each) for each in w])
        return _Score(float(value), spread, self._p(said, float(value)))

    def _compared(self, said: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By document of the wrong and of the right answer: pairs of one fold, and those in the right order."""
        size = self._weights.shape[1]
        wins, pairs = np.zeros((size, size)), np.zeros((size, size))
        for scored in self._folds:
            wrong, right = scored[self._wrong[scored]], scored[~self._wrong[scored]]
            gaps = said[wrong][:, None] - said[right]
            where = (self._documents[wrong][:, None], self._documents[right][None, :])
            np.add.at(wins, where, (gaps > 0) + 0.5 * (gaps == 0))
            np.add.at(pairs, where, 1.0)
        return wins, pairs

    def _p(self, said: np.ndarray, value: float) -> float:
        """The share of permutations of right and wrong, within folds, that do as well."""
        from scipy.stats import rankdata

        draw = np.random.default_rng([self._seed, 1])
        top, bottom = np.zeros(self._samples), 0.0
        for scored in self._folds:
            wrong = int(self._wrong[scored].sum())
            right = len(scored) - wrong
            ranks = rankdata(said[scored])
            # The rank sum of as many questions drawn at random, as pairs won.
            drawn = np.stack([draw.permutation(ranks)[:wrong].sum() for _ in range(self._samples)])
            top += drawn - wrong * (wrong + 1) / 2
            bottom += wrong * right
        if not bottom:
            return 1.0
        return float((1 + (top / bottom >= value - 1e-12).sum()) / (1 + self._samples))


def _ratio(top: float, bottom: float) -> float:
    return top / bottom if bottom > 0 else np.nan


def _model(features: int, cases: int):
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    axes = min(_AXES, features, cases)
    steps = [PCA(axes, svd_solver="full")] if axes > 1 else []
    return make_pipeline(*steps, StandardScaler(), LogisticRegression(class_weight="balanced", max_iter=1000))
