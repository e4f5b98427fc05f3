"""Measures of a layer that need no labels, and the layer that each would pick.

Texts are vectors (the mean of their tokens); two halves of a text are two views of it. A rich spectrum, straight token
paths, low anisotropy and agreement with other models are said to mark good layers; docs/studies/choosing.md tests it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from lamina.activations.runtime import Runtime
from lamina.analyses.layers.choose.cells import compare_answers, cross_validate, metric_of, pooled_vectors
from lamina.analyses.layers.choose.examples import LabelledExamples, by_hash, find_examples, surface_vectors
from lamina.corpora import Corpus, corpus_from
from lamina.models import Encoder
from lamina.results.finding import Finding, Source, finding
from lamina.stats.family import sign_flip_family
from lamina.stats.intervals import widened_intervals
from lamina.stats.status import Contrast
from lamina.stats.units import Units

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


# What picking a layer costs, on many tasks: by a measure, by habit, by a few labels.

HABITS = ("last layer", "two thirds of the depth", "random layer")
FEW_LABELS = 200
BY_LABELS = f"{FEW_LABELS} labels"
_PENALTIES = (1e-1, 1e-2, 1e-3)
_FEW_PENALTIES = _PENALTIES[:2]
"""Few labels want strong ones."""
_WORDS = "words and characters"


@dataclass(frozen=True)
class LayerScores:
    """Scores of one task by layer of one model, and the layer that each measure picks; one line of a file.

    Example:
        >>> scores = LayerScores("trec", "ques", "m", "accuracy", 300, (0, 1), (0.5, 0.75), {"curvature": 0})
        >>> scores.regret(0), scores.regret_of("random layer")
        (0.25, 0.125)
    """

    corpus: str
    task: str
    model: str
    metric: str
    examples: int
    layers: tuple[int, ...]
    scores: tuple[float, ...]
    """Cross-validated with all labels."""
    picks: dict[str, int]
    """Measure -> layer."""
    few: tuple[tuple[float, ...], ...] = ()
    """Cross-validated with few labels, of every draw."""

    def regret(self, layer: int) -> float:
        """What is lost beside the best layer."""
        return float(max(self.scores) - self.scores[self.layers.index(layer)])

    def regret_of(self, rule: str) -> float:
        """Of a habit, a measure or of choosing by few labels; NaN where it picks nothing."""
        if rule == HABITS[2]:
            return float(max(self.scores) - np.mean(self.scores))
        if rule in HABITS:
            wanted = self.layers[-1] * (1.0 if rule == HABITS[0] else 2 / 3)
            return self.regret(min(self.layers, key=lambda layer: abs(layer - wanted)))
        if rule in self.picks:
            return self.regret(self.picks[rule])
        if rule != BY_LABELS:
            return float("nan")
        chosen = [self.layers[int(np.nanargmax(scores))] for scores in self.few]
        return float(np.mean([self.regret(layer) for layer in chosen])) if chosen else float("nan")


def score_layers(
    encoders: Sequence[Encoder],
    corpus: Corpus,
    task: str,
    *,
    examples: int,
    depths: int | None,
    draws: int,
    runtime: Runtime,
) -> list[LayerScores]:
    """Every layer of every model on one task, and the words alone; raises a TaskError where nothing can be scored.

    Args:
        encoders: the models.
        corpus: the texts.
        task: an annotation or a task.
        examples: most labelled targets.
        depths: most layers of a model, at equal distances; all of them where None.
        draws: how often a layer is also chosen by `FEW_LABELS` labels, in whole documents.
        runtime: where models run.
    """
    labelled = find_examples(corpus, task, most=examples, seed=0)
    metric = metric_of(labelled, "accuracy")
    rows = [_few_rows(labelled, draw) for draw in range(draws if len(labelled) > FEW_LABELS else 0)]
    few = [labelled.some(some, number) for number, some in enumerate(rows)]

    def score(of: LabelledExamples, answers: np.ndarray) -> float:
        return float(metric.value(metric.sums(of, answers).sum(0)))

    def scores_of(vectors: torch.Tensor) -> tuple[float, list[float]]:
        parts = [
            score(some, compare_answers(vectors[torch.from_numpy(chosen)], some, _FEW_PENALTIES))
            for chosen, some in zip(rows, few, strict=True)
        ]
        return score(labelled, cross_validate(vectors, labelled, metric, _PENALTIES).answers), parts

    views = {encoder.name: views_of(encoder, labelled, runtime) for encoder in encoders}
    measured = measure_layers(views)
    scores: list[LayerScores] = []
    for encoder in encoders:
        pooled = pooled_vectors(encoder, labelled, ("mean",), runtime)
        last = pooled.layers - 1
        layers = sorted({round(place) for place in np.linspace(0, last, min(depths or last + 1, last + 1))})
        scored = [scores_of(pooled.of(pooled.poolings[0], layer)) for layer in layers]
        here = measured[(measured["model"] == encoder.name) & measured["layer"].isin(layers)]
        by_measure = {str(name): _picked(some, str(name)) for name, some in here.groupby("measure", sort=False)}
        picks = {name: layer for name, layer in by_measure.items() if layer is not None}
        scores.append(
            LayerScores(
                corpus.name, labelled.task.name, encoder.name, metric.name, len(labelled), tuple(layers),
                tuple(whole for whole, _ in scored), picks,
                tuple(zip(*(parts for _, parts in scored), strict=True)),
            )
        )  # fmt: skip
    words = cross_validate(torch.from_numpy(surface_vectors(labelled)), labelled, metric, _PENALTIES)
    alone = score(labelled, words.answers)
    surface = LayerScores(corpus.name, labelled.task.name, _WORDS, metric.name, len(labelled), (0,), (alone,), {})
    return [*scores, surface]


def _picked(rows: pd.DataFrame, measure: str) -> int | None:
    known = rows.dropna(subset="value")
    if known.empty:
        return None
    values = known["value"].to_numpy()
    return int(known["layer"].to_numpy()[values.argmax() if MEASURES[measure] else values.argmin()])


def _few_rows(examples: LabelledExamples, draw: int) -> np.ndarray:
    """About `FEW_LABELS` examples, in whole documents."""
    owner, names = np.array(examples.units.owner), examples.units.names
    place = {name: number for number, name in enumerate(by_hash(names, 1000 + draw))}
    order = np.argsort(np.array([place[name] for name in names])[owner], kind="stable")
    return np.sort(order[:FEW_LABELS])


def regrets_by_rule(cells: Sequence[LayerScores], samples: int = 2000, seed: int = 0) -> pd.DataFrame:
    """The mean regret of every rule over tasks, and each measure's beside every habit's, in pairs of tasks.

    Models of a task are averaged first: tasks are what varies. All measures beside all habits are one family.

    Example:
        >>> cells = [LayerScores("c", str(n), "m", "accuracy", 300, (0, 1), (0.5, 0.75), {"DiME": 1}) for n in range(8)]
        >>> table = regrets_by_rule(cells).set_index("rule")
        >>> [float(table.loc[rule, "regret"]) for rule in ("DiME", "last layer", "random layer")]
        [0.0, 0.0, 0.125]
    """
    cells = [one for one in cells if len(one.layers) > 1]
    tasks = sorted({(one.corpus, one.task) for one in cells})
    rules = [name for name in MEASURES if any(name in one.picks for one in cells)]
    rules += [BY_LABELS] if any(one.few for one in cells) else []
    table = np.full((len(tasks), len(rules) + len(HABITS)), np.nan)
    for column, rule in enumerate((*rules, *HABITS)):
        for row, task in enumerate(tasks):
            values = [one.regret_of(rule) for one in cells if (one.corpus, one.task) == task]
            if np.isfinite(values).any():
                table[row, column] = np.nanmean(values)
    units = Units.of((f"{corpus} {task}" for corpus, task in tasks), "item")
    weights = units.weights(samples=samples, seed=seed)
    known = np.isfinite(table)
    with np.errstate(invalid="ignore"):
        means = np.nanmean(table, 0)
        drawn = weights @ np.where(known, table, 0) / (weights @ known)
    low, high = widened_intervals(means, drawn, known.sum(0))
    frame = pd.DataFrame({"rule": [*rules, *HABITS], "tasks": known.sum(0), "regret": means, "low": low, "high": high})
    frame["median"] = np.nanmedian(table, 0)
    both = known[:, : len(rules), None] & known[:, None, len(rules) :]
    ahead = np.where(both, table[:, : len(rules), None] - table[:, None, len(rules) :], 0)
    tests = sign_flip_family(ahead, both.astype(float), bounds=(-1.0, 1.0), seed=seed)
    for place, habit in enumerate(HABITS):
        for name, values in (
            ("", tests.estimate),
            (" low", tests.low),
            (" high", tests.high),
            (" p_adjusted", tests.p),
        ):
            column = np.full(len(frame), np.nan)
            column[: len(rules)] = values[:, place]
            frame[f"beside {habit}{name}"] = column
    return frame


def regret_findings(table: pd.DataFrame) -> list[Finding]:
    """Every measure beside two thirds of the depth, and the best measure beside the other habits."""
    findings = []
    rules = table[~table["rule"].isin(HABITS)]
    for habit in HABITS:
        taken = {HABITS[0]: "the last layer", HABITS[2]: "a random layer"}.get(habit, habit)
        some = rules if habit == HABITS[1] else rules.nsmallest(1, "regret")
        for row in some.to_dict("records"):
            name = f"choosing by {row['rule']}"
            estimate, low, high, p = (row[f"beside {habit}{part}"] for part in ("", " low", " high", " p_adjusted"))
            test = Contrast(estimate, low, high, p, row["tasks"])
            more = "more" if test.estimate > 0 else "less"
            findings.append(
                finding(
                    claim=f"{name[0].upper()}{name[1:]} costs {more} than taking {taken}",
                    whether=f"{name} costs {more} than taking {taken}",
                    absent=f"{name[0].upper()}{name[1:]} costs as much as taking {taken}",
                    contrast="difference",
                    test=test,
                    source=Source("regret", {"rule": row["rule"]}),
                    unit="task",
                )
            )
    return findings
