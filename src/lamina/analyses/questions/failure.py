"""Can it be predicted from an early layer that the final answer will be wrong?"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from lamina.analyses.questions.predicting import Cases, Prediction, Predictor
from lamina.stats.family import bootstrap_family, permutation_family
from lamina.stats.intervals import widened_intervals
from lamina.stats.seeds import draws_over_seeds

_MEASURED = ("auc", "gain_auc", "gain_log_loss")
FAILURE = (
    *("model", "layer", "feature", "count", "documents", "tasks", "seeds"),
    *("auc", "low", "high"),
    *(column for gain in _MEASURED[1:] for column in (gain, f"{gain}_low", f"{gain}_high")),
)
"""Columns of `failure.csv`; `layer` is empty for what has none."""
FAILURE_CONTRASTS = (
    *("contrast", "layer", "value", "other"),
    *("estimate", "low", "high", "p_adjusted", "units", "needed", "unit"),
)
"""Columns of `failure_contrasts.csv`."""
CHANCE, OVER_TWIN, OVER_CONFIDENCE = "auc over chance", "auc over twin", "auc over confidence"
ADDED, ADDED_OVER_TWIN = "added to confidence", "added over twin"
VECTORS, CONFIDENCE, LENGTH = "vectors", "confidence", "length"
_BOUNDS = {CHANCE: (-0.5, 0.5), OVER_TWIN: (-1.0, 1.0), OVER_CONFIDENCE: (-1.0, 1.0)}


class Failure(NamedTuple):
    """Rows of both tables."""

    failure: pd.DataFrame
    contrasts: pd.DataFrame


def failure_table(models: Mapping[str, Sequence[Cases]], *, samples: int, seed: int, unit: str = "document") -> Failure:
    """How well each layer's vectors predict wrong answers, alone and added to the model's confidence.

    Args:
        models: name -> the cases, one set per fine-tuning seed. The first is the model; the second, where there is
            one, its twin, whose vectors are of the same questions, to be predicted from their words alone.
        samples: resampled documents, and draws of the tests.
        seed: of both.
        unit: what a document is called.

    Questions are compared within their task. A seed whose answers are all right or all wrong is left out; there are no
    rows where that is true of all of them, or where there is only one document.
    """
    every = [Predictor(cases, samples=samples, seed=seed) for cases in next(iter(models.values()))]
    kept = [number for number, each in enumerate(every) if each.possible]
    if not kept:
        return Failure(*(_table((), columns) for columns in (FAILURE, FAILURE_CONTRASTS)))
    predictors = [every[number] for number in kept]
    (name, own), *others = [(each, [cases[number] for number in kept]) for each, cases in models.items()]
    layers = _layers(own, predictors)
    rows = [*_without_layer(name, own, predictors), *_by_layer(name, layers, own, predictors)]
    beside = None
    for other, cases in others:
        beside = _layers(cases, predictors)
        rows += _by_layer(other, beside, cases, predictors)
    contrasts = _contrasts(layers, beside, [each.auc_of_confidence for each in predictors], predictors[0].units, unit)
    return Failure(_table(rows, FAILURE), _table(contrasts, FAILURE_CONTRASTS))


def _table(rows: Iterable[tuple], columns: Sequence[str]) -> pd.DataFrame:
    return pd.DataFrame([*rows], columns=list(columns)).astype({"layer": "Int64"})


def time_layer(features: int, cases: int, documents: int, *, samples: int, seed: int) -> float:
    """Seconds that one layer takes, timed on random vectors; 0 where there would be no rows."""
    draw = np.random.default_rng(seed)
    numbers = np.arange(cases) * documents // cases
    vectors = draw.normal(size=(cases, 1, features)).astype(np.float32)
    made = Cases(vectors, draw.random(cases) < 0.5, numbers, draw.random(cases), draw.random(cases))
    predictor = Predictor(made, samples=samples, seed=seed)
    if not predictor.possible:
        return 0.0
    start = time.perf_counter()
    predictor.judge(vectors[:, 0])
    return time.perf_counter() - start


_Layer = list[Prediction]
"""One layer (or feature), by seed."""


def _layers(cases: Sequence[Cases], predictors: Sequence[Predictor]) -> list[_Layer]:
    return [
        [predictor.judge(each.vectors[:, layer]) for each, predictor in zip(cases, predictors, strict=True)]
        for layer in range(cases[0].vectors.shape[1])
    ]


def _by_layer(
    model: str, layers: list[_Layer], cases: Sequence[Cases], predictors: Sequence[Predictor]
) -> Iterator[tuple]:
    for at, layer in enumerate(layers):
        yield (model, at, VECTORS, *_size(cases, predictors), *_measured(layer, predictors[0].units))


def _without_layer(model: str, cases: Sequence[Cases], predictors: Sequence[Predictor]) -> Iterator[tuple]:
    """Confidence, and the length of the question."""
    for feature in (CONFIDENCE, LENGTH):
        values = [each.confidence if feature == CONFIDENCE else each.length for each in cases]
        judged = [predictor.judge(each[:, None]) for each, predictor in zip(values, predictors, strict=True)]
        if feature == CONFIDENCE:
            judged = [_of_confidence(each, predictor) for each, predictor in zip(judged, predictors, strict=True)]
        measured = _measured(judged, predictors[0].units)
        # Nothing is gained by adding confidence to itself.
        gains = measured[3:] if feature == LENGTH else (np.nan,) * 6
        yield model, pd.NA, feature, *_size(cases, predictors), *measured[:3], *gains


def _of_confidence(judged: Prediction, predictor: Predictor) -> Prediction:
    """The AUC of the very model that vectors are added to."""
    value, draws = predictor.auc_of_confidence
    measured, drawn = judged.measured.copy(), judged.draws.copy()
    measured[0], drawn[:, 0] = value, draws
    return judged._replace(measured=measured, draws=drawn)


def _measured(layer: _Layer, units: int) -> tuple[float, ...]:
    """AUC and gains, mean over seeds, each with its interval."""
    value, draws = _pooled([(each.measured, each.draws) for each in layer])
    low, high = widened_intervals(value, draws, units)
    low[0], high[0] = max(0.0, low[0]), min(1.0, high[0])
    return tuple(float(each) for at in range(len(_MEASURED)) for each in (value[at], low[at], high[at]))


def _pooled(by_seed: Sequence[tuple[Any, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Mean over seeds of values and of draws; from 5 on, seeds vary too."""
    values, draws = (np.stack([np.asarray(each[part], float) for each in by_seed]) for part in (0, 1))
    return np.asarray(values.mean(0)), draws_over_seeds(values, draws)


def _contrasts(
    layers: list[_Layer],
    twin: list[_Layer] | None,
    confidence: Sequence[tuple[float, np.ndarray]],
    units: int,
    unit: str,
) -> list[tuple[Any, ...]]:
    """Every claim about failures with a contrast of its own; the layers of one contrast are a family."""
    own = _drawn(layers)
    beside = None if twin is None else _drawn(twin)
    sure, drawn = _pooled(confidence)
    flipped = [
        np.stack([np.mean([getattr(each, name) for each in layer], axis=0) for layer in layers], 1)
        for name in ("alone", "added")
    ]
    half = Drawn(np.full((len(layers), 3), 0.5), np.full((1, len(layers), 3), 0.5))
    nothing = Drawn(np.zeros((len(layers), 3)), np.zeros((1, len(layers), 3)))
    confident = Drawn(np.full((len(layers), 3), float(sure)), np.broadcast_to(drawn[:, None, None], own.draws.shape))
    rows = contrast_rows(CHANCE, own, half, 0, units, unit, flipped=flipped[0])
    rows += contrast_rows(OVER_CONFIDENCE, own, confident, 0, units, unit)
    rows += contrast_rows(ADDED, own, nothing, 2, units, unit, flipped=flipped[1])
    if beside is not None:
        rows += contrast_rows(OVER_TWIN, own, beside, 0, units, unit)
        rows += contrast_rows(ADDED_OVER_TWIN, own, beside, 2, units, unit)
    return rows


class Drawn(NamedTuple):
    """What the layers of a model measured (AUC, gain in AUC, gain in log loss), and over resampled documents."""

    values: Float[np.ndarray, "layer measure"]
    draws: Float[np.ndarray, "sample layer measure"]


def _drawn(layers: list[_Layer]) -> Drawn:
    pooled = [_pooled([(each.measured, each.draws) for each in layer]) for layer in layers]
    return Drawn(np.stack([value for value, _ in pooled]), np.stack([draws for _, draws in pooled], 1))


def contrast_rows(
    name: str,
    own: Drawn,
    other: Drawn,
    at: int,
    units: int,
    unit: str,
    *,
    flipped: Float[np.ndarray, "sample_and_one layer"] | None = None,
) -> list[tuple[Any, ...]]:
    """One measure of all layers minus another, as one family: rows of `failure_contrasts.csv`.

    Two-sided, by resampled documents. Where there are statistics with documents turned around (`flipped`, the first of
    them as observed), p is from these, one-sided: above chance, or more than the confidence knows; features that lose
    have a p of 1.
    """
    estimates = own.values[:, at] - other.values[:, at]
    found = bootstrap_family(
        estimates, own.draws[:, :, at] - other.draws[:, :, at], units, bounds=_BOUNDS.get(name, (-np.inf, np.inf))
    )
    p = found.p
    if flipped is not None:
        tested = np.where(estimates > 0, permutation_family(flipped[0], flipped[1:]), 1.0)
        p = np.where(found.needed > 0, np.nan, tested)
    columns = (own.values[:, at], other.values[:, at], *found[:3], p, found.units, found.needed)
    numbers = zip(*(column.tolist() for column in columns), strict=True)
    return [(name, layer, *row, unit) for layer, row in enumerate(numbers)]


def _size(cases: Sequence[Cases], predictors: Sequence[Predictor]) -> tuple[int, int, int, int]:
    return len(cases[0].wrong), predictors[0].units, predictors[0].tasks, len(cases)
