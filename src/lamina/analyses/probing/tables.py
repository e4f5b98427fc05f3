"""The tables of a probe result; their columns are a contract."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lamina.analyses.probing.breakdown import Part, break_down
from lamina.analyses.probing.outcomes import TaskRun, Whose
from lamina.analyses.probing.sentences import words_table
from lamina.analyses.probing.splits import Splits, divide
from lamina.analyses.probing.statistics import Draws, Resampling, bootstrap, interval
from lamina.analyses.probing.summary import Order, OrderTest, Summary, order, order_tests, summarise
from lamina.analyses.probing.traces import Trace, ambiguous_targets, ambiguous_texts, trace_rows


@dataclass(frozen=True, slots=True)
class Score:
    """One row of `scores.csv`."""

    model: str
    task: str
    probe: str
    """cumulative, layer or constant."""
    of: Whose
    layer: int | None
    """None for the constant answer."""
    seed: str
    """A number, with an interval over texts; or `all`: the mean over seeds, with one over seeds and texts together."""
    split: str
    metric: str
    count: int
    """Targets scored."""
    value: float
    low: float
    high: float


class Mixing(NamedTuple):
    """One row of `mixing.csv`: the weight of a layer in the cumulative probe that sees layers 0 to `upto`."""

    task: str
    seed: int
    upto: int
    layer: int
    weight: float
    gamma: float
    norm: float
    """Mean length of the layer's vectors, which weights are confounded with."""


class _Words(NamedTuple):
    """What tables need to know of the texts."""

    scored: list[tuple[str, tuple[str, ...]]]
    """Id and words."""
    learned: Counter[str]
    """How often each word, as written, occurs in the texts learned from."""

    @classmethod
    def of(cls, splits: Splits, seed: int) -> _Words:
        learn = set(divide(splits, seed=seed).learn)
        learned = Counter(word for number, text in enumerate(splits.train) if number in learn for word in text.words)
        return cls([(text.id, text.words) for text in splits.scored], learned)

    def frequency(self, run: TaskRun) -> np.ndarray:
        """[target] Of the last word of the first span."""
        last = zip(run.targets.text.tolist(), (run.targets.words[:, 0, 1] - 1).tolist(), strict=True)
        return np.array([self.learned[self.scored[text][1][word]] for text, word in last], np.int64)


def make_tables(
    runs: Sequence[TaskRun], splits: Splits, model: str, *, samples: int, seed: int
) -> dict[str, pd.DataFrame]:
    """Every table of the result, by name."""
    texts = Resampling(runs[0].targets.texts, samples, seed)
    drawn = bootstrap(runs, texts, seed)
    words = _Words.of(splits, seed)
    scores: list[Score] = []
    parts: list[Part] = []
    for run, draws in zip(runs, drawn, strict=True):
        scores += _scores(run, draws, texts, model, splits.scored.split)
        parts += break_down(run, words.frequency(run), texts, seed)
    summarised = [summarise(run, draws) for run, draws in zip(runs, drawn, strict=True)]
    places = [place for _, place in summarised]
    pairs = list(order(places))
    traces = [row for run in runs for row in _traces(run, words)]
    traced = {row.text_id for row in traces}
    return {
        "scores": _table(Score, scores).astype({"layer": "Int64"}),
        "mixing": _table(Mixing, [row for run in runs for row in _mixing(run)]),
        "summary": _table(Summary, [row for row, _ in summarised]),
        "order": _table(Order, pairs),
        "order_tests": _table(OrderTest, order_tests(pairs, places)),
        "traces": _table(Trace, traces),
        "words": words_table(text for text in words.scored if text[0] in traced),
        "breakdown": _table(Part, parts),
        "control": pd.DataFrame({"task": [run.task.name for run in runs], "share_seen": [run.seen for run in runs]}),
    }


def _table(kind: Any, rows: Sequence[Any]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(kind.__annotations__))


def _scores(run: TaskRun, drawn: Mapping[Whose, Draws], texts: Resampling, model: str, split: str) -> Iterator[Score]:
    count = int((run.targets.scored.any(1) | run.targets.unseen.any(1)).sum())
    about = (split, run.task.metric, count)
    constant = float(run.constant.f1()[0])
    spread = interval(texts.f1(run.constant)[:, 0])
    yield Score(model, run.task.name, "constant", "model", None, "all", *about, constant, *spread)
    for of, draws in drawn.items():
        own = [outcome for outcome in run.outcomes if outcome.of == of]
        seeds = [*(str(outcome.seed) for outcome in own), "all"]
        values = [*(counts.f1() for counts in draws.counts), draws.value]
        for seed, each, sampled in zip(seeds, values, [*draws.by_seed, draws.pooled], strict=True):
            for cut, value, samples in zip(own[0].cuts, each.tolist(), sampled.T, strict=True):
                place = (model, run.task.name, cut.probe, of, cut.layer, seed)
                yield Score(*place, *about, value, *interval(samples))


def _mixing(run: TaskRun) -> Iterator[Mixing]:
    for outcome in run.outcomes:
        if outcome.of != "model":
            continue
        for cut, weights, gamma in zip(outcome.cuts, outcome.weights.tolist(), outcome.gamma.tolist(), strict=False):
            for layer, (weight, norm) in enumerate(zip(weights, run.norms.tolist(), strict=True)):
                if layer <= cut.layer:
                    yield Mixing(run.task.name, outcome.seed, cut.layer, layer, weight, gamma, norm)


def _traces(run: TaskRun, words: _Words) -> Iterator[Trace]:
    """Of the ambiguous targets of some ambiguous texts; all seeds together say what is ambiguous."""
    targets = run.targets
    own = [(each.seed, each.probabilities) for each in run.outcomes if each.of == "model"]
    known = [(seed, kept) for seed, kept in own if kept is not None and len(kept) == len(run.norms)]
    if not known:
        return
    ambiguous = ambiguous_targets(np.concatenate([kept for _, kept in known]))
    for number in ambiguous_texts(targets.text, ambiguous, [len(text) for _, text in words.scored]):
        rows = np.flatnonzero(ambiguous & (targets.text == number))
        for seed, kept in known:
            yield from trace_rows(
                run.task.name,
                words.scored[number][0],
                targets.words[rows],
                kept[:, rows],
                targets.labels,
                targets.gold[rows],
                seed,
                rated=targets.rated[rows],
            )
