"""Wrong answers: compared with right ones among questions that are alike, and predicted from a layer's vectors.

Probes are scored on documents that they were not trained on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from scipy.linalg import eigh
from scipy.special import expit

from lamina.corpora.questions.question import Question
from lamina.stats.family import bootstrap_family, permutation_family, random_signs
from lamina.stats.intervals import widened_intervals
from lamina.stats.seeds import draws_over_seeds
from lamina.stats.units import Units

CONTRAST = (
    *("model", "task", "layer", "measure", "seeds"),
    *(column for side in ("right", "wrong") for column in (side, f"{side}_low", f"{side}_high")),
    *("difference", "low", "high", "p_adjusted", "units", "needed", "unit"),
    *("matched", "within_document", "unmatched"),
)
"""Columns of `contrast.csv`."""
TOGETHER = "all"
"""What all tasks together are called: wrong answers of each beside right ones of the same."""
CONTRASTED = (
    "within_question",
    "within_support",
    "between_question_support",
    "question_nearer_support",
    "answer_apart",
    "answer_silhouette",
    "predicted_apart",
    "predicted_silhouette",
)
"""Measures that are compared. A layer's anisotropy is the same on both sides, so nothing is adjusted for it."""
_LENGTHS = (1, 2, 3, 5)
"""Longest answers, in words, of all bins but the last."""
_KINDS = re.compile(r"\b(how many|how much|how|who|whom|whose|what|which|when|where|why)\b", re.IGNORECASE)
_SAME = {"whom": "who", "whose": "who", "how much": "how many"}
_TOGETHER = 100
"""Resampled data sets weighed at a time: bounds memory, changes no number."""


def kind_of_question(question: str) -> str:
    """The first question word, or `other`.

    Example:
        >>> [kind_of_question(asked) for asked in ("In whose town?", "How many dogs bark?", "Is it red?")]
        ['who', 'how many', 'other']
    """
    match = _KINDS.search(question)
    word = match[1].lower() if match else "other"
    return _SAME.get(word, word)


def stratum_of(question: Question) -> str:
    """What matched questions have in common: the task, the question word and the length of the answer, in bins.

    Example:
        >>> from lamina.corpora.questions.question import make_question
        >>> stratum_of(make_question("q1", "Who barks?", "Big dogs bark.", [(0, 14)], [(0, 8)], {0}))
        '|who|2'
    """
    words = len(question.answers[0].split()) if question.answers else 0
    longest = next((str(most) for most in _LENGTHS if words <= most), "more")
    return f"{question.task}|{kind_of_question(question.question)}|{longest}"


def task_of(stratum: str) -> str:
    """The task that a stratum is of.

    Example:
        >>> task_of("qa1|where|1")
        'qa1'
    """
    return stratum.partition("|")[0]


class AnsweredQuestions(NamedTuple):
    """Questions that are known to be answered right or wrong, by one model."""

    values: Float[np.ndarray, "question layer measure"]
    """CONTRASTED; NaN where there is none."""
    right: Bool[np.ndarray, " question"]
    units: Sequence[str]
    """[question] The document."""
    strata: Sequence[str]
    """[question] See `stratum_of`."""


class _MatchedMeans(NamedTuple):
    """Means of right and of wrong answers over matched questions; the wrong ones decide which count."""

    right: Float[np.ndarray, "*sample kind"]
    wrong: Float[np.ndarray, "*sample kind"]


def contrast_table(
    model: str, by_seed: Sequence[AnsweredQuestions], *, samples: int, seed: int, unit: str = "document"
) -> pd.DataFrame:
    """The mean difference of right minus wrong answers, by layer and measure: of all tasks together, then of each task.

    Together, a wrong answer still counts only beside right ones of its own task. All layers and measures of all tasks
    together are one family; those of the single tasks are another one.
    """
    names = sorted({task_of(stratum) for answered in by_seed for stratum in answered.strata})
    together = [_TaskContrast(TOGETHER, by_seed, samples=samples, seed=seed)]
    single = [
        _TaskContrast(task, parts, samples=samples, seed=seed)
        for task in names
        # One task is all of them.
        if len(names) > 1 and (parts := [part for stratum in by_seed if (part := _of_task(stratum, task)) is not None])
    ]
    tables = [_tested(sides, model, unit) for sides in (together, single) if sides]
    return pd.concat(tables, ignore_index=True)[list(CONTRAST)]


def _tested(sides: Sequence[_TaskContrast], model: str, unit: str) -> pd.DataFrame:
    """The rows of one family."""
    table = pd.concat([side.rows(model) for side in sides], ignore_index=True)
    draws = np.concatenate([side.draws for side in sides], axis=1)
    tests = bootstrap_family(table["difference"].to_numpy(float), draws, table["units"].to_numpy(float))
    table = table.assign(low=tests.low, high=tests.high, p_adjusted=tests.p, needed=tests.needed.astype(int), unit=unit)
    return table[table["difference"].notna()].reset_index(drop=True)


def _of_task(answered: AnsweredQuestions, task: str) -> AnsweredQuestions | None:
    """The questions of one task; None where its answers are all right or all wrong."""
    members = np.array([task_of(name) == task for name in answered.strata])
    if len(set(answered.right[members].tolist())) < 2:
        return None
    names = (
        [name for name, member in zip(part, members, strict=True) if member]
        for part in (answered.units, answered.strata)
    )
    return AnsweredQuestions(answered.values[members], answered.right[members], *names)


class _TaskContrast:
    """Right and wrong answers of one task (or of all), matched.

    Each wrongly answered question is compared with the mean of the rightly answered ones of its document and stratum;
    where its document has none, with those of its stratum in all documents; where there are none either, it is not
    matched. Intervals and tests resample documents, with everything that is matched to them.
    """

    def __init__(self, task: str, by_seed: Sequence[AnsweredQuestions], *, samples: int, seed: int) -> None:
        self._task, self._shape = task, by_seed[0].values.shape[1:]
        self._matches = [_AnswerMatching(matched) for matched in by_seed]
        whole = [match.means(np.ones((1, match.units))) for match in self._matches]
        drawn = [match.draws(samples, seed) for match in self._matches]
        self._sides = {}
        for side in ("right", "wrong"):
            values, draws = (np.stack([getattr(matched, side) for matched in some]) for some in (whole, drawn))
            self._sides[side] = values[:, 0].mean(0), draws_over_seeds(values[:, 0], draws)
        self.draws = self._sides["right"][1] - self._sides["wrong"][1]

    def rows(self, model: str) -> pd.DataFrame:
        """Rows of `contrast.csv`, not tested yet."""
        layers, measures = self._shape
        units = np.mean([match.documents for match in self._matches], axis=0).astype(int)
        columns: dict[str, object] = {
            "model": model,
            "task": self._task,
            "layer": np.repeat(np.arange(layers), measures),
            "measure": CONTRASTED * layers,
            "seeds": len(self._matches),
        }
        for side, (value, draws) in self._sides.items():
            low, high = widened_intervals(value, draws, units)
            columns |= {side: value, f"{side}_low": low, f"{side}_high": high}
        difference = self._sides["right"][0] - self._sides["wrong"][0]
        return pd.DataFrame(columns | {"difference": difference, "units": units, **_counts(self._matches)})


def _counts(matches: Sequence[_AnswerMatching]) -> dict[str, np.ndarray]:
    """How many wrongly answered questions were matched; of several seeds, the mean."""
    return {
        name: np.mean([getattr(match, name) for match in matches], axis=0).round().astype(int)
        for name in ("matched", "within_document", "unmatched")
    }


class _AnswerMatching:
    """Sums over cells: the questions of one document and stratum."""

    def __init__(self, answered: AnsweredQuestions) -> None:
        self._documents = Units.of(answered.units, "document")
        names, unit = self._documents.names, np.array(self._documents.owner)
        kinds, stratum = np.unique(np.asarray(answered.strata, str), return_inverse=True)
        self.units, self._strata = len(names), len(kinds)
        cells, cell = np.unique(stratum * len(names) + unit, return_inverse=True)
        self._unit, self._stratum = cells % len(names), cells // len(names)
        values = answered.values.reshape(len(answered.right), -1).astype(float)
        there = np.isfinite(values)
        values = np.where(there, values, 0.0)
        self._right, self._rights = (_sums(array, cell, answered.right, len(cells)) for array in (values, there))
        self._wrong, self._wrongs = (_sums(array, cell, ~answered.right, len(cells)) for array in (values, there))
        pooled = np.zeros((self._strata, values.shape[1]))
        np.add.at(pooled, self._stratum, self._rights)
        inside, anywhere = self._rights > 0, pooled[self._stratum] > 0
        self._inside, self._outside = inside, anywhere & ~inside
        self.within_document = np.where(inside, self._wrongs, 0).sum(0)
        self.matched = np.where(anywhere, self._wrongs, 0).sum(0)
        self.unmatched = self._wrongs.sum(0) - self.matched
        self.documents = self._count_documents(anywhere & (self._wrongs > 0))

    def _count_documents(self, used: Bool[np.ndarray, "cell kind"]) -> np.ndarray:
        """Documents with a wrongly answered question that is matched: what the difference varies over."""
        matched = np.zeros((self.units, used.shape[1]), bool)
        np.logical_or.at(matched, self._unit, used)
        return matched.sum(0)

    def draws(self, samples: int, seed: int) -> _MatchedMeans:
        """Over resampled documents."""
        weights = self._documents.weights(samples=samples, seed=seed).astype(float)
        parts = [self.means(weights[start : start + _TOGETHER]) for start in range(0, samples, _TOGETHER)]
        return _MatchedMeans(*(np.concatenate(side) for side in zip(*parts, strict=True)))

    def means(self, weights: Float[np.ndarray, "sample unit"]) -> _MatchedMeans:
        """Over matched wrong answers, and over the right answers they are matched with."""
        by_cell = weights[:, self._unit]
        used = np.where(self._inside | self._outside, self._wrongs, 0)
        share = np.divide(self._wrongs, self._rights, out=np.zeros_like(self._right), where=self._inside)
        right = by_cell @ (share * self._right)
        for stratum in np.unique(self._stratum[self._outside.any(1)]):
            cells = self._stratum == stratum
            top, bottom = by_cell[:, cells] @ self._right[cells], by_cell[:, cells] @ self._rights[cells]
            count = by_cell[:, cells] @ np.where(self._outside[cells], self._wrongs[cells], 0)
            # A sample that drew none of the right answers has nothing to compare with.
            pool = np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom > 0)
            right = right + np.where(count > 0, count * pool, 0.0)
        wrong = by_cell @ np.where(self._inside | self._outside, self._wrong, 0)
        total = by_cell @ used
        with np.errstate(invalid="ignore", divide="ignore"):
            return _MatchedMeans(right / total, wrong / total)


def _sums(values: np.ndarray, cell: np.ndarray, chosen: np.ndarray, cells: int) -> Float[np.ndarray, "cell kind"]:
    sums = np.zeros((cells, values.shape[1]))
    np.add.at(sums, cell[chosen], values[chosen].astype(float))
    return sums


AXES = 32
"""Principal axes that features are reduced to, fitted to the documents learned from."""
FOLDS = 5
_WEAK = 1e-3
"""Penalty of intercept and confidence: only so that there is a solution where they tell all."""
_ROUNDS = 50
_MOST_LIKELY = 1 - 1e-4
"""A confidence counts as at most this, so that its log-odds are finite."""


class AnswerCases(NamedTuple):
    """Questions whose answers are known to be right or wrong."""

    vectors: Float[np.ndarray, "case layer feature"]
    wrong: Bool[np.ndarray, " case"]
    documents: np.ndarray
    """[case] Names or numbers: what varies as a whole."""
    confidence: Float[np.ndarray, " case"]
    length: Float[np.ndarray, " case"]
    tasks: np.ndarray | None = None
    """[case] Names or numbers: only questions of one task are compared; None where all are of one."""


def mixed_tasks(wrong: Bool[np.ndarray, " case"], tasks: np.ndarray) -> Bool[np.ndarray, " case"]:
    """Which cases belong to a task with right answers as well as wrong ones.

    Example:
        >>> mixed_tasks(np.array([True, False, True]), np.array(["qa1", "qa1", "qa15"])).tolist()
        [True, True, False]
    """
    both = [task for task in np.unique(tasks) if 0 < wrong[tasks == task].sum() < (tasks == task).sum()]
    return np.isin(tasks, both)


class FailurePrediction(NamedTuple):
    """How well features predict wrong answers, alone and beyond the model's confidence."""

    measured: Float[np.ndarray, " measure"]
    """AUC of the features; AUC and log loss (nats per question) gained where they are added to the confidence."""
    draws: Float[np.ndarray, "sample measure"]
    """The same over resampled documents."""
    alone: Float[np.ndarray, " sample_and_one"]
    """The test statistic, first as observed, then with documents' residuals turned around."""
    added: Float[np.ndarray, " sample_and_one"]
    """The same beyond the confidence."""


class FailurePredictor:
    """Judges any features of the same cases: all share folds, resampled documents and turned signs."""

    def __init__(self, cases: AnswerCases, *, samples: int, seed: int) -> None:
        self._wrong = cases.wrong.astype(float)
        documents = Units.of([str(document) for document in cases.documents], "document")
        self._units, self.units = np.array(documents.owner, int), len(documents)
        tasks = np.zeros(len(cases.wrong), int) if cases.tasks is None else cases.tasks
        named, self._task = np.unique(tasks, return_inverse=True)
        self.tasks = len(named)
        self._confidence = cases.confidence
        self._folds = _folds(self._units, self.units) if self.units > 1 else np.zeros(len(self._units), int)
        self._weights = documents.weights(samples=samples, seed=seed).astype(float)[:, self._units]
        self._signs = random_signs(self.units, samples=samples, seed=seed).T

    @property
    def possible(self) -> bool:
        """Whether there are two documents, and right answers as well as wrong ones."""
        return self.units > 1 and 0 < int(self._wrong.sum()) < len(self._wrong)

    def judge(self, features: Float[np.ndarray, "case feature"]) -> FailurePrediction:
        """Learn from some documents, predict the others."""
        nothing, sure = self._nothing, self._sure
        alone, both = np.zeros_like(self._wrong), np.zeros_like(self._wrong)
        tests = _ScoreTest(nothing, self._wrong, self._turned), _ScoreTest(sure, self._wrong, self._turned)
        for fold in range(self._folds.max() + 1):
            scored = self._folds == fold
            axes = principal_axes(features[~scored].astype(float), features.astype(float), AXES)
            for base, predicted, test in zip((nothing, sure), (alone, both), tests, strict=True):
                predicted[scored] = _fitted(base, axes, self._wrong, ~scored)
                test.predict(axes, scored)
        auc, aucs = self._auc(alone)
        more, mores = self._auc(both)
        confident, confidents = self.auc_of_confidence
        loss, losses = self._mean(log_loss(self._said_by_confidence, self._wrong) - log_loss(both, self._wrong))
        return FailurePrediction(
            np.array([auc, more - confident, loss]),
            np.stack([aucs, mores - confidents, losses], axis=1),
            tests[0].statistic(),
            tests[1].statistic(),
        )

    @cached_property
    def auc_of_confidence(self) -> tuple[float, np.ndarray]:
        """What the features have to add to."""
        return self._auc(self._said_by_confidence)

    @cached_property
    def _said_by_confidence(self) -> np.ndarray:
        predicted = np.zeros_like(self._wrong)
        nothing = np.zeros((len(predicted), 0))
        for fold in range(self._folds.max() + 1):
            scored = self._folds == fold
            predicted[scored] = _fitted(self._sure, nothing, self._wrong, ~scored)
        return predicted

    @cached_property
    def _nothing(self) -> np.ndarray:
        """An intercept per task."""
        return (self._task[:, None] == np.arange(self.tasks)).astype(float)

    @cached_property
    def _sure(self) -> np.ndarray:
        """Log-odds of the confidence and their square: otherwise a bend in it would count as a gain of the vectors."""
        odds = log_odds(self._confidence)
        odds = (odds - odds.mean()) / max(float(odds.std()), 1e-9)
        return np.hstack([self._nothing, odds[:, None], odds[:, None] ** 2])

    @cached_property
    def _turned(self) -> np.ndarray:
        return self._signs[self._units]

    def _auc(self, predicted: np.ndarray) -> tuple[float, np.ndarray]:
        """Only questions of one fold and task are compared: models of different folds have different intercepts."""
        top, bottom = np.zeros(len(self._weights) + 1), np.zeros(len(self._weights) + 1)
        weights = np.vstack([np.ones(len(predicted)), self._weights])
        for fold, task in product(range(self._folds.max() + 1), range(self.tasks)):
            scored = (self._folds == fold) & (self._task == task)
            won, pairs = ordered_pairs(predicted[scored], self._wrong[scored] > 0, weights[:, scored])
            top, bottom = top + won, bottom + pairs
        aucs = np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom > 0)
        return float(aucs[0]), aucs[1:]

    def _mean(self, values: np.ndarray) -> tuple[float, np.ndarray]:
        size = self._weights.sum(1)
        drawn = np.divide(self._weights @ values, size, out=np.full_like(size, np.nan), where=size > 0)
        return float(values.mean()), drawn


class _ScoreTest:
    """The score test of a penalised logistic regression beyond a smaller one, cross-fitted.

    The residuals of the smaller model, weighed by what the larger one adds for documents it has not learned from: 0 on
    average where features say nothing more. For the null, each document's residuals are turned around by a random
    sign, and both models are fitted again (in one Newton step, so that a thousand fits are one product). This keeps
    any dependence within a document, and any variance: a wild cluster bootstrap (Cameron, Gelbach and Miller 2008).
    """

    def __init__(self, base: np.ndarray, wrong: np.ndarray, signs: np.ndarray) -> None:
        probability = expit(base @ logistic_weights(base, wrong, np.full(base.shape[1], _WEAK)))
        self._base, self._variance = base, probability * (1 - probability)
        residuals = (wrong - probability)[:, None] * np.hstack([np.ones((len(wrong), 1)), signs])
        everywhere = np.ones(len(wrong), bool)
        self._residuals = residuals - self._variance[:, None] * (base @ self._step(base, everywhere, residuals))
        self._added = np.zeros_like(residuals)

    def predict(self, axes: np.ndarray, scored: Bool[np.ndarray, " case"]) -> None:
        """What the features add for the scored cases, learned from all others."""
        both = np.hstack([self._base, axes])
        larger = both[scored] @ self._step(both, ~scored, self._residuals)
        self._added[scored] = larger - self._base[scored] @ self._step(self._base, ~scored, self._residuals)

    def _step(self, design: np.ndarray, learned: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        rows = design[learned]
        curvature = (rows * self._variance[learned, None]).T @ rows + np.diag(self._penalty(design.shape[1]))
        return np.linalg.solve(curvature, rows.T @ residuals[learned])

    def _penalty(self, columns: int) -> np.ndarray:
        return _penalty(self._base.shape[1], columns - self._base.shape[1])

    def statistic(self) -> Float[np.ndarray, " sample_and_one"]:
        """As observed, and for every draw of signs; it does not depend on the scale of what is added."""
        scale = np.sqrt((self._variance[:, None] * self._added**2).sum(0))
        product = (self._residuals * self._added).sum(0)
        return np.divide(product, scale, out=np.zeros_like(product), where=scale > 1e-12)


def log_odds(confidence: Float[np.ndarray, " case"]) -> Float[np.ndarray, " case"]:
    """The log-odds of probabilities, kept finite.

    Example:
        >>> log_odds(np.array([0.5, 1.0])).round(1).tolist()
        [0.0, 9.2]
    """
    clipped = np.clip(confidence, 1 - _MOST_LIKELY, _MOST_LIKELY)
    return np.log(clipped / (1 - clipped))


def log_loss(predicted: Float[np.ndarray, " case"], wrong: Float[np.ndarray, " case"]) -> Float[np.ndarray, " case"]:
    """The negative log probability of what happened, from predicted log-odds.

    Example:
        >>> log_loss(np.array([0.0, 2.0]), np.array([1.0, 0.0])).round(3).tolist()
        [0.693, 2.127]
    """
    return np.logaddexp(0, predicted) - wrong * predicted


def ordered_pairs(
    predicted: Float[np.ndarray, " case"], wrong: Bool[np.ndarray, " case"], weights: Float[np.ndarray, "sample case"]
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of a wrong and a right answer in the right order (ties count half), and all pairs, by weighted sample.

    Example:
        >>> won, pairs = ordered_pairs(np.array([1.0, 2.0, 3.0]), np.array([False, True, False]), np.ones((1, 3)))
        >>> won.tolist(), pairs.tolist()
        ([1.0], [2.0])
    """
    order = np.argsort(predicted, kind="stable")
    values = predicted[order]
    right = np.where(wrong[order], 0.0, weights[:, order])
    below = np.hstack([np.zeros((len(weights), 1)), np.cumsum(right, axis=1)])
    first, last = np.searchsorted(values, values, "left"), np.searchsorted(values, values, "right")
    beaten = (below[:, first] + below[:, last]) / 2
    failed = np.where(wrong[order], weights[:, order], 0.0)
    return (failed * beaten).sum(1), failed.sum(1) * below[:, -1]


def principal_axes(
    learned: Float[np.ndarray, "case feature"], all_: Float[np.ndarray, "any feature"], most: int
) -> Float[np.ndarray, "any axis"]:
    """Where cases lie on the principal axes of those learned from, each axis at variance 1.

    Example:
        >>> points = np.array([[0.0, 0.0], [2.0, 0.0], [4.0, 0.0]])
        >>> np.abs(principal_axes(points, points, 32)).round(2).tolist()
        [[1.22], [0.0], [1.22]]
    """
    mean = learned.mean(0)
    centred = learned - mean
    cases, features = centred.shape
    size = min(most, cases, features)
    # The smaller of the two products has the same eigenvalues.
    by_feature = features <= cases
    product = centred.T @ centred if by_feature else centred @ centred.T
    values, vectors = eigh(product, subset_by_index=(len(product) - size, len(product) - 1))
    nonzero = values > 1e-10 * max(float(values.max()), 1e-300)
    values, vectors = values[nonzero], vectors[:, nonzero]
    basis = vectors if by_feature else centred.T @ vectors / np.sqrt(values)
    return (all_ - mean) @ basis / np.sqrt(values / cases)


def _folds(units: Int[np.ndarray, " case"], count: int) -> Int[np.ndarray, " case"]:
    from sklearn.model_selection import GroupKFold

    folds = np.zeros(len(units), int)
    for number, (_, scored) in enumerate(GroupKFold(min(FOLDS, count)).split(units, groups=units)):
        folds[scored] = number
    return folds


def _fitted(base: np.ndarray, axes: np.ndarray, wrong: np.ndarray, learned: np.ndarray) -> np.ndarray:
    """Log-odds of the other cases."""
    design = np.hstack([base, axes])
    return design[~learned] @ logistic_weights(design[learned], wrong[learned], _penalty(base.shape[1], axes.shape[1]))


def _penalty(base: int, axes: int) -> np.ndarray:
    """All axes together are expected to move the log-odds by about 1: nothing is tuned, so nothing has to be nested."""
    return np.r_[np.full(base, _WEAK), np.full(axes, float(axes))]


def logistic_weights(design: np.ndarray, wrong: np.ndarray, penalty: np.ndarray) -> np.ndarray:
    """Penalised logistic regression by Newton's method, its steps halved until the loss falls."""

    def loss(weights: np.ndarray) -> float:
        return float(log_loss(design @ weights, wrong).sum() + penalty @ weights**2 / 2)

    weights = np.zeros(design.shape[1])
    current = loss(weights)
    for _ in range(_ROUNDS):
        probability = expit(design @ weights)
        gradient = design.T @ (wrong - probability) - penalty * weights
        step = np.linalg.solve(
            (design * (probability * (1 - probability))[:, None]).T @ design + np.diag(penalty), gradient
        )
        while (after := loss(weights + step)) > current + 1e-12 and np.abs(step).max() > 1e-8:
            step = step / 2
        weights, before, current = weights + step, current, after
        if before - current < 1e-9 * (1 + before):
            break
    return weights


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


class FailureTables(NamedTuple):
    """Rows of both tables."""

    failure: pd.DataFrame
    contrasts: pd.DataFrame


def failure_table(
    models: Mapping[str, Sequence[AnswerCases]], *, samples: int, seed: int, unit: str = "document"
) -> FailureTables:
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
    every = [FailurePredictor(cases, samples=samples, seed=seed) for cases in next(iter(models.values()))]
    usable = [number for number, predictor in enumerate(every) if predictor.possible]
    if not usable:
        return FailureTables(*(_table((), columns) for columns in (FAILURE, FAILURE_CONTRASTS)))
    predictors = [every[number] for number in usable]
    (name, model_cases), *others = [
        (predictor, [cases[number] for number in usable]) for predictor, cases in models.items()
    ]
    layers = _layers(model_cases, predictors)
    rows = [*_without_layer(name, model_cases, predictors), *_by_layer(name, layers, model_cases, predictors)]
    beside = None
    for other, cases in others:
        beside = _layers(cases, predictors)
        rows += _by_layer(other, beside, cases, predictors)
    contrasts = _contrasts(
        layers, beside, [predictor.auc_of_confidence for predictor in predictors], predictors[0].units, unit
    )
    return FailureTables(_table(rows, FAILURE), _table(contrasts, FAILURE_CONTRASTS))


def _table(rows: Iterable[tuple], columns: Sequence[str]) -> pd.DataFrame:
    return pd.DataFrame([*rows], columns=list(columns)).astype({"layer": "Int64"})


_Layer = list[FailurePrediction]
"""One layer (or feature), by seed."""


def _layers(cases: Sequence[AnswerCases], predictors: Sequence[FailurePredictor]) -> list[_Layer]:
    return [
        [predictor.judge(by_seed.vectors[:, layer]) for by_seed, predictor in zip(cases, predictors, strict=True)]
        for layer in range(cases[0].vectors.shape[1])
    ]


def _by_layer(
    model: str, layers: list[_Layer], cases: Sequence[AnswerCases], predictors: Sequence[FailurePredictor]
) -> Iterator[tuple]:
    for number, layer in enumerate(layers):
        yield (model, number, VECTORS, *_size(cases, predictors), *_measured(layer, predictors[0].units))


def _without_layer(model: str, cases: Sequence[AnswerCases], predictors: Sequence[FailurePredictor]) -> Iterator[tuple]:
    """Confidence, and the length of the question."""
    for feature in (CONFIDENCE, LENGTH):
        values = [case.confidence if feature == CONFIDENCE else case.length for case in cases]
        judged = [predictor.judge(case[:, None]) for case, predictor in zip(values, predictors, strict=True)]
        if feature == CONFIDENCE:
            judged = [_of_confidence(case, predictor) for case, predictor in zip(judged, predictors, strict=True)]
        measured = _measured(judged, predictors[0].units)
        # Nothing is gained by adding confidence to itself.
        gains = measured[3:] if feature == LENGTH else (np.nan,) * 6
        yield model, pd.NA, feature, *_size(cases, predictors), *measured[:3], *gains


def _of_confidence(judged: FailurePrediction, predictor: FailurePredictor) -> FailurePrediction:
    """The AUC of the very model that vectors are added to."""
    value, draws = predictor.auc_of_confidence
    measured, drawn = judged.measured.copy(), judged.draws.copy()
    measured[0], drawn[:, 0] = value, draws
    return judged._replace(measured=measured, draws=drawn)


def _measured(layer: _Layer, units: int) -> tuple[float, ...]:
    """AUC and gains, mean over seeds, each with its interval."""
    value, draws = _pooled([(prediction.measured, prediction.draws) for prediction in layer])
    low, high = widened_intervals(value, draws, units)
    low[0], high[0] = max(0.0, low[0]), min(1.0, high[0])
    return tuple(
        float(prediction) for index in range(len(_MEASURED)) for prediction in (value[index], low[index], high[index])
    )


def _pooled(by_seed: Sequence[tuple[Any, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Mean over seeds of values and of draws; from 5 on, seeds vary too."""
    values, draws = (np.stack([np.asarray(pair[part], float) for pair in by_seed]) for part in (0, 1))
    return np.asarray(values.mean(0)), draws_over_seeds(values, draws)


def _contrasts(
    layers: list[_Layer],
    twin: list[_Layer] | None,
    confidence: Sequence[tuple[float, np.ndarray]],
    units: int,
    unit: str,
) -> list[tuple[Any, ...]]:
    """Every claim about failures with a contrast of its own; the layers of one contrast are a family."""
    model = _layer_measures(layers)
    beside = None if twin is None else _layer_measures(twin)
    sure, drawn = _pooled(confidence)
    flipped = [
        np.stack([np.mean([getattr(prediction, name) for prediction in layer], axis=0) for layer in layers], 1)
        for name in ("alone", "added")
    ]
    half = LayerMeasures(np.full((len(layers), 3), 0.5), np.full((1, len(layers), 3), 0.5))
    nothing = LayerMeasures(np.zeros((len(layers), 3)), np.zeros((1, len(layers), 3)))
    confident = LayerMeasures(
        np.full((len(layers), 3), float(sure)), np.broadcast_to(drawn[:, None, None], model.draws.shape)
    )
    rows = contrast_rows(CHANCE, model, half, 0, units, unit, flipped=flipped[0])
    rows += contrast_rows(OVER_CONFIDENCE, model, confident, 0, units, unit)
    rows += contrast_rows(ADDED, model, nothing, 2, units, unit, flipped=flipped[1])
    if beside is not None:
        rows += contrast_rows(OVER_TWIN, model, beside, 0, units, unit)
        rows += contrast_rows(ADDED_OVER_TWIN, model, beside, 2, units, unit)
    return rows


class LayerMeasures(NamedTuple):
    """What the layers of a model measured (AUC, gain in AUC, gain in log loss), and over resampled documents."""

    values: Float[np.ndarray, "layer measure"]
    draws: Float[np.ndarray, "sample layer measure"]


def _layer_measures(layers: list[_Layer]) -> LayerMeasures:
    pooled = [_pooled([(prediction.measured, prediction.draws) for prediction in layer]) for layer in layers]
    return LayerMeasures(np.stack([value for value, _ in pooled]), np.stack([draws for _, draws in pooled], 1))


def contrast_rows(
    name: str,
    model: LayerMeasures,
    other: LayerMeasures,
    measure: int,
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
    estimates = model.values[:, measure] - other.values[:, measure]
    tests = bootstrap_family(
        estimates,
        model.draws[:, :, measure] - other.draws[:, :, measure],
        units,
        bounds=_BOUNDS.get(name, (-np.inf, np.inf)),
    )
    p = tests.p
    if flipped is not None:
        tested = np.where(estimates > 0, permutation_family(flipped[0], flipped[1:]), 1.0)
        p = np.where(tests.needed > 0, np.nan, tested)
    columns = (model.values[:, measure], other.values[:, measure], *tests[:3], p, tests.units, tests.needed)
    numbers = zip(*(column.tolist() for column in columns), strict=True)
    return [(name, layer, *row, unit) for layer, row in enumerate(numbers)]


def _size(cases: Sequence[AnswerCases], predictors: Sequence[FailurePredictor]) -> tuple[int, int, int, int]:
    return len(cases[0].wrong), predictors[0].units, predictors[0].tasks, len(cases)
