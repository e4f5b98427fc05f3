"""What is chosen from: every layer and pooling of a model, its cross-validated score, and what it costs."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from lamina.activations.runtime import Runtime
from lamina.analyses.layers.choose.examples import LabelledExamples, by_hash
from lamina.corpora import corpus_from
from lamina.models import Encoder
from lamina.probes.linear_grid import GRID_PENALTIES, GridFit, GridLoss, GridMembers, Standardised, fit_grid
from lamina.probes.streams import find_targets
from lamina.probes.text_probe import pooled_states
from lamina.progress import progress
from lamina.types import Text

Pooling = Literal["mean", "first", "last", "max", "attention"]
POOLINGS: tuple[Pooling, ...] = ("mean", "first", "last", "max")
"""Those that need no attention maps."""
_MOST_HELD = 2**30
"""Bytes of pooled vectors that are held in memory; more are on disk, one layer read at a time."""
_TIMED = 64
"""Texts whose encoding is timed."""
_LEAST_SHARE = 0.05
"""Of the time of all blocks, what layer 0 is counted as."""


class Cell(NamedTuple):
    """One thing that can be chosen."""

    model: str
    layer: int | None
    """None for what is read off the words."""
    pooling: str


SURFACE = Cell("words and characters", None, "counts")
"""The surface baseline: no model."""


# Vectors of every layer and pooling.


class PooledVectors:
    """Vectors of every example, by pooling and layer; on disk where they are many."""

    def __init__(self, poolings: Sequence[str], layers: int, examples: int, width: int) -> None:
        self.poolings, self.layers, self.width = tuple(poolings), layers, width
        shape = (len(poolings), layers, examples, width)
        if 4 * int(np.prod(shape)) <= _MOST_HELD:
            self._vectors: np.ndarray = np.empty(shape, np.float32)
        else:
            # Without a name: the file is gone with the process, however that ends.
            with tempfile.TemporaryFile() as file:
                self._vectors = np.memmap(file, np.float32, "w+", shape=shape)

    def put(self, pooling: int, example: int, vectors: Float[np.ndarray, "layer width"]) -> None:
        """The vectors of one example."""
        self._vectors[pooling, :, example] = vectors

    def of(self, pooling: str, layer: int) -> Float[torch.Tensor, "example width"]:
        """All examples at one layer."""
        return torch.from_numpy(np.array(self._vectors[self.poolings.index(pooling), layer]))

    def items(self) -> Iterator[tuple[str, int]]:
        """(pooling, layer)."""
        return ((pooling, layer) for layer in range(self.layers) for pooling in self.poolings)


def pooled_vectors(
    encoder: Encoder, examples: LabelledExamples, poolings: Sequence[Pooling], runtime: Runtime
) -> PooledVectors:
    """The vectors of all examples; those of pairs are side by side. Whole texts have their special tokens, too."""
    texts = list(examples.texts)
    source = _activations(encoder, texts, runtime, maps="attention" in poolings)
    tokens = encoder.tokenize_all(texts)
    targets = find_targets(examples.task, texts, tokens, () if examples.graded else examples.labels)
    places = targets.tokens.copy()
    if examples.what == "whole texts":
        sizes = np.array([len(one.ids) for one in tokens])
        places[:, 0, 0], places[:, 0, 1] = 0, sizes[targets.text]
    lengths = places[..., 1] - places[..., 0]
    # Of a single token all poolings are the same vector.
    used = tuple(poolings) if (lengths > 1).any() else tuple(poolings)[:1]
    vectors = PooledVectors(used, encoder.layers, len(targets), encoder.width * targets.arity)
    rows = np.split(np.arange(len(targets)), np.searchsorted(targets.text, np.arange(1, len(texts))))
    with progress(f"pooling states of {encoder.name}", len(texts)) as advance:
        for number, (states, maps) in enumerate(source):
            for example in rows[number].tolist():
                for place, pooling in enumerate(used):
                    sides = [pooled_states(states, maps, pooling, *span) for span in places[example].tolist()]
                    vectors.put(place, example, np.concatenate(sides, 1))
            advance()
    return vectors


StatesAndMaps = tuple[np.ndarray, np.ndarray | None]


def _activations(encoder: Encoder, texts: Sequence[Text], runtime: Runtime, *, maps: bool) -> Iterator[StatesAndMaps]:
    """[token, layer, width] of every text, and the attention that each token gets by block, [block, token]."""
    if not maps:
        stored = runtime.extract(encoder, corpus_from(list(texts), name="examples"))
        for index in range(len(stored)):
            yield stored.load(index).float().cpu().numpy(), None
        return
    encoder.refuse(("maps",))
    for one in encoder.encode(texts, ("states", "maps")):
        got = None if one.maps is None else one.maps.float().mean((1, 2)).cpu().numpy()
        if one.states is not None:
            yield one.states.float().cpu().numpy(), got


# Scores.


@dataclass(frozen=True)
class ChoiceMetric:
    """A score that follows from sums over examples.

    Example:
        >>> hits = ChoiceMetric("accuracy")
        >>> float(hits.value(np.array([[3.0, 4.0]]))[0])
        0.75
    """

    name: Literal["accuracy", "macro_f1", "f1", "r2"]

    def sums(self, examples: LabelledExamples, answers: Float[np.ndarray, "example label"]) -> np.ndarray:
        """[example, sum] What is added up; `answers` are logits, of graded targets the predicted value."""
        gold = examples.gold
        if self.name == "r2":
            value = gold[:, 0]
            return np.stack([np.square(value - answers[:, 0]), value, value**2, np.ones(len(value))], 1)
        if self.name == "accuracy":
            right = answers.argmax(1) == gold.argmax(1)
            return np.stack([right.astype(float), np.ones(len(right))], 1)
        labels = np.eye(gold.shape[1])
        predicted = labels[answers.argmax(1)] if examples.single else (answers > 0) & examples.rated
        both, decided = 2 * predicted * gold * examples.rated, predicted + gold * examples.rated
        if self.name == "f1":
            return np.stack([both.sum(1), decided.sum(1)], 1)
        return np.concatenate([both, decided, gold], 1)

    def value(self, sums: Float[np.ndarray, "*kind sum"]) -> np.ndarray:
        """The score of summed sums; NaN where nothing is counted."""
        with np.errstate(invalid="ignore", divide="ignore"):
            if self.name == "r2":
                error, total, squares, count = np.moveaxis(sums, -1, 0)
                return 1 - error / (squares - total**2 / count)
            if self.name == "macro_f1":
                both, decided, gold = np.split(sums, 3, -1)
                scores = np.where(gold > 0, both / np.where(decided > 0, decided, 1), np.nan)
                return np.nanmean(np.where(np.isfinite(scores), scores, np.nan), -1)
            return sums[..., 0] / np.where(sums[..., 1] > 0, sums[..., 1], np.nan)


def metric_of(examples: LabelledExamples, requested: str | None) -> ChoiceMetric:
    """R2 of values, F1 where targets have several labels, else accuracy or what was requested."""
    if examples.graded:
        return ChoiceMetric("r2")
    if not examples.single:
        return ChoiceMetric("macro_f1" if requested == "macro_f1" else "f1")
    return ChoiceMetric("macro_f1" if requested == "macro_f1" else "accuracy")


@dataclass(frozen=True, eq=False)
class CellScore:
    """How well one cell does; nothing that is scored was learned from or chosen by."""

    answers: Float[np.ndarray, "example label"]
    """Out of fold; the penalty of each fold was chosen on the other folds."""
    inner: Float[np.ndarray, " fold"]
    """The score within the other folds, by which a cell may be chosen for this fold."""
    penalty: float
    """For a probe that learns from all folds."""
    converged: bool


def cross_validate(
    vectors: Float[torch.Tensor, "example width"],
    examples: LabelledExamples,
    metric: ChoiceMetric,
    penalties: Sequence[float] = GRID_PENALTIES,
) -> CellScore:
    """Nested cross-validation by document: probes of all folds, pairs of folds and penalties are fitted together.

    A pair of folds is left out for each choice within the other folds: the probe that learned from neither scores both.
    """
    folds, count = examples.folds, len(penalties)
    pairs = list(combinations(range(folds), 2))
    sets = np.ones((folds + len(pairs), folds), bool)
    sets[np.arange(folds), np.arange(folds)] = False
    for number, pair in enumerate(pairs):
        sets[folds + number, list(pair)] = False
    members = GridMembers.crossed(sets, penalties)
    fit, known = fit_examples(vectors, examples, examples.fold, members)
    rows = [np.flatnonzero(examples.fold == fold) for fold in range(folds)]
    outer = [_answers(fit, known, rows[fold], range(fold * count, (fold + 1) * count)) for fold in range(folds)]
    inner: dict[tuple[int, int], np.ndarray] = {}
    for number, (one, other) in enumerate(pairs):
        those = range((folds + number) * count, (folds + number + 1) * count)
        # Of the choice for fold `one`, the answers about fold `other`, and the other way round.
        inner[one, other] = _answers(fit, known, rows[other], those)
        inner[other, one] = _answers(fit, known, rows[one], those)
    answers = np.zeros((len(examples), examples.gold.shape[1]))
    scores = np.zeros(folds)
    used = []
    for fold in range(folds):
        others = [other for other in range(folds) if other != fold]
        losses = sum(_losses(examples, rows[other], inner[fold, other]) for other in others)
        best = int(np.argmin(losses))
        used.append(fold * count + best)
        answers[rows[fold]] = outer[fold][best]
        whole = np.zeros_like(answers)
        for other in others:
            whole[rows[other]] = inner[fold, other][best]
        scores[fold] = metric.value(metric.sums(examples, whole)[examples.fold != fold].sum(0))
    losses = sum(_losses(examples, rows[fold], outer[fold]) for fold in range(folds))
    penalty = float(penalties[int(np.argmin(losses))])
    return CellScore(answers, scores, penalty, bool(fit.converged[used].all()))


def compare_answers(
    vectors: Float[torch.Tensor, "example width"], examples: LabelledExamples, penalties: Sequence[float]
) -> Float[np.ndarray, "example label"]:
    """Out-of-fold answers with the penalty whose answers are best: for choosing a layer, not for what it scores.

    A third of the fits of `cross_validate`: the penalty is chosen by all folds at once.
    """
    folds, count = examples.folds, len(penalties)
    fit, known = fit_examples(
        vectors, examples, examples.fold, GridMembers.crossed(~np.eye(folds, dtype=bool), penalties)
    )
    rows = [np.flatnonzero(examples.fold == fold) for fold in range(folds)]
    parts = [_answers(fit, known, rows[fold], range(fold * count, (fold + 1) * count)) for fold in range(folds)]
    best = int(np.argmin(sum(_losses(examples, rows[fold], parts[fold]) for fold in range(folds))))
    answers = np.zeros((len(examples), examples.gold.shape[1]))
    for fold in range(folds):
        answers[rows[fold]] = parts[fold][best]
    return answers


def loss_of_examples(examples: LabelledExamples) -> GridLoss:
    """What probes of these examples minimise."""
    return "ridge" if examples.graded else "softmax" if examples.single else "logistic"


def fit_examples(
    vectors: Float[torch.Tensor, "example width"],
    examples: LabelledExamples,
    blocks: Int[np.ndarray, " example"],
    members: GridMembers,
) -> tuple[GridFit, Standardised]:
    """Probes of these examples, and their standardised vectors."""
    known = Standardised.of(vectors)
    loss = loss_of_examples(examples)
    rated = None if loss != "logistic" or examples.rated.all() else examples.rated
    return fit_grid(known.vectors, examples.gold, blocks, members, loss=loss, rated=rated), known


def _answers(fit: GridFit, known: Standardised, rows: np.ndarray, members: range) -> np.ndarray:
    """[member, example, label]"""
    return fit.logits(known.vectors[torch.from_numpy(rows)], members).double().cpu().numpy()


def _losses(examples: LabelledExamples, rows: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """[member] Summed over examples: what tells penalties apart where scores are alike."""
    gold = examples.gold[rows]
    if examples.graded:
        return np.square(answers - gold).sum((1, 2))
    if examples.single:
        top = answers.max(2, keepdims=True)
        likely = answers - top - np.log(np.exp(answers - top).sum(2, keepdims=True))
        return -(likely * gold).sum((1, 2))
    return ((np.logaddexp(0, answers) - answers * gold) * examples.rated[rows]).sum((1, 2))


# How many labels are enough.

_SIZES = (25, 50, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600)
_PART = 5
"""One label in five chooses the penalty, which is then used with all of them."""


class LearningPoint(NamedTuple):
    """Out-of-fold answers of probes that learned from some labels."""

    labels: int
    answers: Float[np.ndarray, "example label"]


def learning_curve(
    vectors: Float[torch.Tensor, "example width"], examples: LabelledExamples, seed: int
) -> list[LearningPoint]:
    """One point per number of labels, in the same folds; whole documents, drawn in one order by hash."""
    folds, penalties = examples.folds, GRID_PENALTIES
    smallest = min(int((examples.fold != fold).sum()) for fold in range(folds))
    sizes = [size for size in _SIZES if size < 0.75 * smallest]
    if not sizes:
        return []
    step = _steps(examples, sizes, seed)
    chooses = np.array([number % _PART == _PART - 1 for number in _order(examples, seed)])
    blocks = (examples.fold * (len(sizes) + 1) + step) * 2 + chooses
    total = folds * (len(sizes) + 1) * 2
    fold_of, step_of, choosing = (
        np.arange(total) // (2 * (len(sizes) + 1)),
        np.arange(total) // 2 % (len(sizes) + 1),
        np.arange(total) % 2,
    )
    sets, keys = [], []
    for number in range(len(sizes)):
        for fold in range(folds):
            inside = (fold_of != fold) & (step_of <= number)
            sets += [inside & (choosing == 0), inside]
            keys.append((number, fold))
    fit, known = fit_examples(vectors, examples, blocks, GridMembers.crossed(np.array(sets), penalties))
    points = []
    for number, size in enumerate(sizes):
        answers = np.zeros((len(examples), examples.gold.shape[1]))
        for fold in range(folds):
            place = 2 * keys.index((number, fold)) * len(penalties)
            judged = np.flatnonzero((examples.fold != fold) & (step <= number) & chooses)
            losses = _losses(examples, judged, _answers(fit, known, judged, range(place, place + len(penalties))))
            best = place + len(penalties) + int(np.argmin(losses))
            rows = np.flatnonzero(examples.fold == fold)
            answers[rows] = _answers(fit, known, rows, range(best, best + 1))[0]
        points.append(LearningPoint(size, answers))
    return points


def _order(examples: LabelledExamples, seed: int) -> Int[np.ndarray, " example"]:
    """The place of every example among all, whole documents in an order by hash."""
    units = examples.units
    place = {name: number for number, name in enumerate(by_hash(units.names, seed + 1))}
    of_unit = np.array([place[name] for name in units.names])[np.array(units.owner)]
    order = np.empty(len(of_unit), int)
    order[np.argsort(of_unit, kind="stable")] = np.arange(len(of_unit))
    return order


def _steps(examples: LabelledExamples, sizes: Sequence[int], seed: int) -> Int[np.ndarray, " example"]:
    """The first size that has an example, in each of the sets that folds learn from; an example is in all or none."""
    order = _order(examples, seed)
    share = order * (examples.folds - 1) / examples.folds
    return np.searchsorted(np.array(sizes), share, side="right")


# What a cell costs.


class EncodingSpeed(NamedTuple):
    """Of one model on this machine."""

    seconds: float
    """Of a text through all blocks."""

    def at(self, layer: int, layers: int) -> float:
        """Seconds per 1,000 texts up to a layer: in proportion to its depth."""
        return 1000 * self.seconds * max(_LEAST_SHARE, layer / max(1, layers - 1))


def time_encoding(encoder: Encoder, texts: Sequence[Text]) -> EncodingSpeed:
    """Encode some texts from all over the corpus, after a warm-up."""
    some = list(texts)[:: max(1, len(texts) // _TIMED)][:_TIMED]
    for _ in encoder.encode(some[:4]):
        pass
    start = time.perf_counter()
    for _ in encoder.encode(some, ordered=False):
        pass
    return EncodingSpeed((time.perf_counter() - start) / len(some))
