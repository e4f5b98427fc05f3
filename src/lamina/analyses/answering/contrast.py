"""Right against wrong answers, compared among questions that are alike."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from lamina.corpora.questions.question import Question
from lamina.stats.family import bootstrap_family
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
