"""Can it be predicted from an early layer that the final answer will be wrong?"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from lamina.analyses.questions.intervals import Spread, over_seeds
from lamina.analyses.questions.predicting import Cases, Prediction, Predictor, p_of
from lamina.stats.family import holm

_GAINS = ("gain_auc", "gain_log_loss")
FAILURE = (
    *("model", "layer", "feature", "count", "documents", "tasks", "seeds"),
    *("auc", "low", "high", "p", "p_adjusted"),
    *(column for gain in _GAINS for column in (gain, f"{gain}_low", f"{gain}_high")),
    *("p_gain", "p_gain_holm"),
    *(
        column
        for lead in ("over_twin", "gain_over_twin")
        for column in (lead, f"{lead}_low", f"{lead}_high", f"p_{lead}", f"p_{lead}_holm")
    ),
)
"""Columns of `failure.csv`; `layer` is empty for what has none."""
VECTORS, CONFIDENCE, LENGTH = "vectors", "confidence", "length"


def failure_table(models: Mapping[str, Sequence[Cases]], *, samples: int, seed: int) -> pd.DataFrame:
    """How well each layer's vectors predict wrong answers, alone and added to the model's confidence.

    Args:
        models: name -> the cases, one set per fine-tuning seed. The first is the model; the second, where there is
            one, its twin, whose vectors are of the same questions, to be predicted from their words alone.
        samples: resampled documents, and draws of the tests.
        seed: of both.

    Questions are compared within their task. A seed whose answers are all right or all wrong is left out; there are no
    rows where that is true of all of them, or where there is only one document.
    """
    every = [Predictor(cases, samples=samples, seed=seed) for cases in next(iter(models.values()))]
    kept = [number for number, each in enumerate(every) if each.possible]
    if not kept:
        return pd.DataFrame(columns=list(FAILURE)).astype({"layer": "Int64"})
    predictors = [every[number] for number in kept]
    (name, own), *others = [(each, [cases[number] for number in kept]) for each, cases in models.items()]
    rows = list(_without_layer(name, own, predictors))
    beside = [_layers(cases, predictors) for _, cases in others]
    layers = _layers(own, predictors)
    rows += _by_layer(name, layers, own, predictors, beside[0] if beside else None)
    for (other, cases), predicted in zip(others, beside, strict=True):
        rows += _by_layer(other, predicted, cases, predictors, None)
    return pd.DataFrame(rows, columns=list(FAILURE)).astype({"layer": "Int64"})


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
    model: str, layers: list[_Layer], cases: Sequence[Cases], predictors: Sequence[Predictor], twin: list[_Layer] | None
) -> Iterator[tuple]:
    alone = [_p([each.alone for each in layer]) for layer in layers]
    added = [_p([each.added for each in layer]) for layer in layers]
    corrected, gain_corrected = holm(alone), holm(added)
    ahead = _ahead(layers, twin, predictors)
    for at, layer in enumerate(layers):
        found = _spread(layer, predictors)
        yield (
            *(model, at, VECTORS, *_size(cases, predictors)),
            *_auc(found),
            *(alone[at], float(corrected[at])),
            *_gains(found),
            *(added[at], float(gain_corrected[at]), *ahead[at]),
        )


def _without_layer(model: str, cases: Sequence[Cases], predictors: Sequence[Predictor]) -> Iterator[tuple]:
    """Confidence, and the length of the question; nothing is gained by adding confidence to itself."""
    for feature in (CONFIDENCE, LENGTH):
        values = [each.confidence if feature == CONFIDENCE else each.length for each in cases]
        judged = [predictor.judge(each[:, None]) for each, predictor in zip(values, predictors, strict=True)]
        if feature == CONFIDENCE:
            judged = [_of_confidence(each, predictor) for each, predictor in zip(judged, predictors, strict=True)]
        found = _spread(judged, predictors)
        gains = (np.nan,) * 7
        if feature == LENGTH:
            gains = (*_gains(found), _p([each.added for each in judged]))
        start = (model, pd.NA, feature, *_size(cases, predictors))
        yield *start, *_auc(found), _p([each.alone for each in judged]), np.nan, *gains, *(np.nan,) * 11


def _of_confidence(judged: Prediction, predictor: Predictor) -> Prediction:
    """The AUC of the very model that vectors are added to."""
    value, draws = predictor.auc_of_confidence
    measured, drawn = judged.measured.copy(), judged.draws.copy()
    measured[0], drawn[:, 0] = value, draws
    return judged._replace(measured=measured, draws=drawn)


def _spread(layer: _Layer, predictors: Sequence[Predictor]) -> Spread:
    values, draws = np.stack([each.measured for each in layer]), np.stack([each.draws for each in layer])
    return over_seeds(values, draws, predictors[0].units)


def _ahead(layers: list[_Layer], twin: list[_Layer] | None, predictors: Sequence[Predictor]) -> list[tuple[float, ...]]:
    """By how much the AUC, and its gain, is above the twin's, on the same resampled documents; layer by layer.

    Tests are two-sided and paired, corrected over layers.
    """
    if twin is None:
        return [(np.nan,) * 10] * len(layers)
    found = []
    for own, other in zip(layers, twin, strict=True):
        gaps = np.stack([one.measured[:2] - two.measured[:2] for one, two in zip(own, other, strict=True)])
        draws = np.stack([one.draws[:, :2] - two.draws[:, :2] for one, two in zip(own, other, strict=True)])
        found.append(over_seeds(gaps, draws, predictors[0].units))
    corrected = [holm([float(each.p[at]) for each in found]) for at in (0, 1)]
    return [
        tuple(float(each) for at in (0, 1) for each in (*(part[at] for part in spread), corrected[at][layer]))
        for layer, spread in enumerate(found)
    ]


def _p(by_seed: list[np.ndarray]) -> float:
    """Of the mean over seeds: documents are turned around alike for all of them."""
    return p_of(np.mean(by_seed, axis=0))


def _size(cases: Sequence[Cases], predictors: Sequence[Predictor]) -> tuple[int, int, int, int]:
    return len(cases[0].wrong), predictors[0].units, predictors[0].tasks, len(cases)


def _auc(found: Spread) -> tuple[float, float, float]:
    return float(found.value[0]), max(0.0, float(found.low[0])), min(1.0, float(found.high[0]))


def _gains(found: Spread) -> tuple[float, ...]:
    return tuple(float(part[at]) for at in (1, 2) for part in (found.value, found.low, found.high))
