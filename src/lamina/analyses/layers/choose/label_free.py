"""Measures of a layer that need no labels, and the layer that each would pick.

Texts are vectors (the mean of their tokens); two halves of a text are two views of it. A rich spectrum, straight token
paths, low anisotropy and agreement with other models are said to mark good layers; docs/studies/choosing.md tests it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from lamina.activations.runtime import Runtime
from lamina.analyses.layers.choose.examples import LabelledExamples
from lamina.corpora import corpus_from
from lamina.models import Encoder

MEASURES: dict[str, bool] = {
    "effective rank": True,
    "prompt entropy": True,
    "curvature": False,
    "LiDAR": True,
    "DiME": True,
    "intrinsic dimension": True,
    "anisotropy": False,
    "mutual neighbours": True,
    "CKA": True,
}
"""Measure -> whether the layer with the highest value is picked, else the one with the lowest."""
_MOST_TEXTS = 400
_NEIGHBOURS = 10
_LEAST_TOKENS = 4
_SHRINKAGE = 1e-4


class TextViews(NamedTuple):
    """Vectors of texts of one model, by layer."""

    whole: Float[np.ndarray, "layer text width"]
    first: Float[np.ndarray, "layer text width"]
    """Of the first half of every text's tokens ..."""
    second: Float[np.ndarray, "layer text width"]
    """... and of the second."""
    entropy: Float[np.ndarray, " layer"]
    """Of the spectrum of a text's tokens, as a share of the most possible; the mean over texts."""
    curvature: Float[np.ndarray, " layer"]
    """Mean angle between the steps from token to token, in degrees."""


def views_of(encoder: Encoder, examples: LabelledExamples, runtime: Runtime) -> TextViews:
    """Read the states of some texts from all over the examples once."""
    texts = list(examples.texts)
    texts = texts[:: max(1, len(texts) // _MOST_TEXTS)][:_MOST_TEXTS]
    stored = runtime.extract(encoder, corpus_from(texts, name="examples"))
    whole, first, second, entropy, curvature = [], [], [], [], []
    for index in range(len(stored)):
        states = stored.load(index).float().cpu().numpy().swapaxes(0, 1)
        half = max(1, states.shape[1] // 2)
        whole.append(states.mean(1))
        first.append(states[:, :half].mean(1))
        second.append(states[:, half:].mean(1) if states.shape[1] > 1 else states.mean(1))
        if states.shape[1] >= _LEAST_TOKENS:
            entropy.append([_entropy(layer @ layer.T) / np.log(layer.shape[0]) for layer in states])
            curvature.append(_turning(states))
    nothing = np.full(encoder.layers, np.nan)
    stacked = (np.stack(part, 1).astype(float) for part in (whole, first, second))
    means = (np.mean(part, 0) if part else nothing for part in (entropy, curvature))
    return TextViews(*stacked, *means)


def _turning(states: Float[np.ndarray, "layer token width"]) -> Float[np.ndarray, " layer"]:
    steps = np.diff(states, axis=1)
    steps = steps / np.linalg.norm(steps, axis=2, keepdims=True).clip(1e-12)
    cosines = (steps[:, 1:] * steps[:, :-1]).sum(2).clip(-1, 1)
    return np.degrees(np.arccos(cosines)).mean(1)


def _entropy(gram: Float[np.ndarray, "n n"]) -> float:
    """Of the eigenvalues as shares, in nats."""
    values = np.linalg.eigvalsh(gram.astype(float)).clip(0)
    shares = values / max(values.sum(), 1e-300)
    shares = shares[shares > 1e-12]
    return float(-(shares * np.log(shares)).sum())


def measure_layers(views: Mapping[str, TextViews]) -> pd.DataFrame:
    """Every measure of every layer of some models; the last two need at least two models.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> made = TextViews(*rng.normal(size=(3, 2, 30, 8)), np.zeros(2), np.array([90.0, 60.0]))
        >>> table = measure_layers({"m": made})
        >>> table[(table["measure"] == "curvature") & table["picks"]]["layer"].tolist()
        [1]
    """
    rows = []
    for model, one in views.items():
        columns = _alone(one)
        others = [other for name, other in views.items() if name != model]
        if others:
            columns |= _beside(one, others)
        for measure, values in columns.items():
            known = np.where(np.isfinite(values), values if MEASURES[measure] else -values, -np.inf)
            best = int(known.argmax()) if np.isfinite(known).any() else -1
            rows += [(model, layer, measure, float(value), layer == best) for layer, value in enumerate(values)]
    return pd.DataFrame(rows, columns=["model", "layer", "measure", "value", "picks"])


def _alone(views: TextViews) -> dict[str, np.ndarray]:
    columns: dict[str, list[float]] = {
        name: [] for name in ("effective rank", "LiDAR", "DiME", "intrinsic dimension", "anisotropy")
    }
    for whole, first, second in zip(views.whole, views.first, views.second, strict=True):
        centred = whole - whole.mean(0)
        columns["effective rank"].append(float(np.exp(_entropy(centred @ centred.T))))
        columns["LiDAR"].append(lidar(first, second))
        columns["DiME"].append(dime(first, second))
        columns["intrinsic dimension"].append(two_nn(whole))
        units = whole / np.linalg.norm(whole, axis=1, keepdims=True).clip(1e-12)
        count = len(units)
        columns["anisotropy"].append(float((np.square(units.sum(0)).sum() - count) / max(1, count * (count - 1))))
    arrays = {name: np.array(values) for name, values in columns.items()}
    return arrays | {"prompt entropy": views.entropy, "curvature": views.curvature}


def lidar(first: Float[np.ndarray, "text width"], second: Float[np.ndarray, "text width"]) -> float:
    """Effective rank of what tells texts apart, beside how far their two views are apart (Thilak et al. 2024)."""
    middle = (first + second) / 2
    between = middle - middle.mean(0)
    within = (first - second) / 2
    # In the span of the texts: no more directions than these.
    joined = np.concatenate([between, within])
    _, sizes, axes = np.linalg.svd(joined, full_matrices=False)
    directions = axes[sizes > 1e-7 * sizes[0]]
    a, b = between @ directions.T, within @ directions.T
    spread = b.T @ b / len(b)
    spread[np.diag_indices_from(spread)] += _SHRINKAGE * max(np.trace(spread) / len(spread), 1e-30)
    values, vectors = np.linalg.eigh(spread)
    whitened = a @ vectors / np.sqrt(values.clip(1e-30))
    return float(
        np.exp(_entropy(whitened @ whitened.T if len(whitened) < whitened.shape[1] else whitened.T @ whitened))
    )


def dime(first: Float[np.ndarray, "text width"], second: Float[np.ndarray, "text width"]) -> float:
    """Mutual information of the two views by matrix entropies, minus that of shuffled pairs (Skean et al. 2023)."""

    def normal(vectors: np.ndarray) -> np.ndarray:
        centred = vectors - vectors.mean(0)
        units = centred / np.linalg.norm(centred, axis=1, keepdims=True).clip(1e-12)
        return (units @ units.T) / len(units)

    one, other = normal(first), normal(second)
    count = len(one)
    shuffled = np.roll(np.arange(count), 1)
    joint, apart = (_entropy(one * matrix * count) for matrix in (other, other[np.ix_(shuffled, shuffled)]))
    return apart - joint


def two_nn(vectors: Float[np.ndarray, "text width"]) -> float:
    """Intrinsic dimension from the ratio of the distances to the two nearest neighbours (Facco et al. 2017)."""
    distances = _distances(np.unique(vectors, axis=0))
    if len(distances) < 5:
        return float("nan")
    nearest = np.sort(distances, 1)[:, :2]
    ratios = np.sort(nearest[:, 1] / nearest[:, 0].clip(1e-12))
    # The largest ratios are outliers.
    count = int(0.9 * len(ratios))
    logs = np.log(ratios[:count].clip(1 + 1e-12))
    chances = -np.log1p(-np.arange(1, count + 1) / len(ratios))
    return float((logs * chances).sum() / (logs**2).sum())


def _distances(vectors: np.ndarray) -> np.ndarray:
    squares = np.square(vectors).sum(1)
    distances = np.sqrt((squares[:, None] + squares - 2 * vectors @ vectors.T).clip(0))
    distances[np.diag_indices_from(distances)] = np.inf
    return distances


def _beside(views: TextViews, others: Sequence[TextViews]) -> dict[str, np.ndarray]:
    """Agreement with the layers of other models at the same relative depth, on the same texts."""
    depth = len(views.whole) - 1
    shared, alike = np.zeros(depth + 1), np.zeros(depth + 1)
    for layer, whole in enumerate(views.whole):
        for other in others:
            there = other.whole[round(layer / max(1, depth) * (len(other.whole) - 1))]
            shared[layer] += _mutual_neighbours(whole, there) / len(others)
            alike[layer] += linear_cka(whole, there) / len(others)
    return {"mutual neighbours": shared, "CKA": alike}


def _mutual_neighbours(one: np.ndarray, other: np.ndarray) -> float:
    """Share of nearest neighbours (by cosine) that two models agree on."""
    count = min(_NEIGHBOURS, len(one) - 1)
    sets = []
    for vectors in (one, other):
        units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12)
        cosines = units @ units.T
        cosines[np.diag_indices_from(cosines)] = -np.inf
        sets.append(np.argsort(-cosines, 1, kind="stable")[:, :count])
    return float(np.mean([len(np.intersect1d(a, b)) / count for a, b in zip(*sets, strict=True)]))


def linear_cka(one: Float[np.ndarray, "text width"], other: Float[np.ndarray, "text other"]) -> float:
    """Linear centred kernel alignment (Kornblith et al. 2019).

    Example:
        >>> vectors = np.random.default_rng(0).normal(size=(20, 3))
        >>> round(linear_cka(vectors, 2 * vectors), 6)
        1.0
    """
    one, other = one - one.mean(0), other - other.mean(0)
    size = np.linalg.norm(one @ one.T) * np.linalg.norm(other @ other.T)
    return float(np.square(one.T @ other).sum() / max(size, 1e-300))
