"""The tables of a probe result; their columns are a contract."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Bool

from lamina.analyses.probing.checkpoints import TaskRun, Whose
from lamina.analyses.probing.statistics import (
    Draws,
    Order,
    OrderTest,
    Resampling,
    Summary,
    bootstrap,
    interval,
    order,
    order_tests,
    summarise,
)
from lamina.analyses.probing.trace import Trace, ambiguous_targets, ambiguous_texts, trace_rows, words_table
from lamina.corpora import Corpus
from lamina.corpora.learning import Splits, divide
from lamina.errors import ResultError
from lamina.files.writing import fresh_path
from lamina.probes.targets import Counts, Targets

if TYPE_CHECKING:
    import pandas


DISTANCES = {"0": 0, "1": 1, "2": 2, "3-5": 5, "6-10": 10, ">10": None}
"""Words between the spans: name of the group -> its largest distance."""
FREQUENCIES = {"0": 0, "1-4": 4, "5-19": 19, "20-99": 99, "100+": None}
"""Times the word occurs in the texts learned from."""
MACRO = "macro"
"""Macro-F1: the mean of the labels' F1, over labels that hold of some scored target."""


@dataclass(frozen=True, slots=True)
class Part:
    """One row of `breakdown.csv`; value and interval are pooled over seeds."""

    task: str
    by: str
    group: str
    layer: int
    """The last layer the cumulative probe may look at."""
    count: int
    """Targets of the group; for labels, those the label holds of."""
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class _Group:
    """Some decisions about some targets."""

    by: str
    name: str
    count: int
    counts: list[Counts]
    """One per seed."""


def break_down(run: TaskRun, frequency: np.ndarray, texts: Resampling, seed: int) -> Iterator[Part]:
    """By label, by distance between the spans, by frequency of the first span's last word in training.

    Args:
        run: the task's probes.
        frequency: [target] how often that word occurs in the texts learned from.
        texts: draws of the scored texts.
        seed: of the draws of seeds.
    """
    own = [outcome for outcome in run.outcomes if outcome.of == "model" and outcome.probabilities is not None]
    if not own:
        return
    layers = [cut.layer for cut in own[0].cuts if cut.probe == "cumulative"]
    said = [(np.asarray(outcome.probabilities) >= 0.5) & run.targets.scored for outcome in own]

    def scored(groups: Iterable[_Group]) -> Iterator[Part]:
        for group in groups:
            draws = Draws.of(group.counts, texts, np.random.default_rng(seed))
            for layer, value, drawn in zip(layers, draws.value.tolist(), draws.pooled.T, strict=True):
                yield Part(run.task.name, group.by, group.name, layer, group.count, value, *interval(drawn))

    labels = list(scored(_by_label(run.targets, said)))
    for label, count in zip(run.targets.unseen_labels, run.targets.unseen.sum(0).tolist(), strict=True):
        labels += [Part(run.task.name, "label", label, layer, count, 0.0, 0.0, 0.0) for layer in layers]
    yield from labels
    for layer in layers:
        own_layer = [part for part in labels if part.layer == layer]
        mean = float(np.mean([part.value for part in own_layer])) if own_layer else np.nan
        yield Part(run.task.name, MACRO, "all", layer, sum(part.count for part in own_layer), mean, np.nan, np.nan)
    yield from scored(_by_target(run.targets, said, frequency))


def _by_label(targets: Targets, said: list[np.ndarray]) -> Iterator[_Group]:
    gold = targets.gold & targets.scored
    for column in np.flatnonzero(gold.any(0)).tolist():
        holds = gold[:, column]
        counts = [_by_text(each[:, :, column] & holds, each[:, :, column], holds, targets) for each in said]
        yield _Group("label", targets.labels[column], int(holds.sum()), counts)


def _by_target(targets: Targets, said: list[np.ndarray], frequency: np.ndarray) -> Iterator[_Group]:
    holds = targets.gold & targets.scored
    asked = holds.sum(-1) + targets.unseen.sum(-1)
    sums = [((each & holds).sum(-1), each.sum(-1)) for each in said]
    for by, name, inside in _groups(targets, frequency):
        if inside.any():
            counts = [_by_text(right * inside, each * inside, asked * inside, targets) for right, each in sums]
            yield _Group(by, name, int(inside.sum()), counts)


def _groups(targets: Targets, frequency: np.ndarray) -> Iterator[tuple[str, str, Bool[np.ndarray, " target"]]]:
    if targets.arity == 2:
        first, second = targets.words[:, 0], targets.words[:, 1]
        between = np.maximum(second[:, 0] - first[:, 1], first[:, 0] - second[:, 1]).clip(min=0)
        yield from (("distance", *group) for group in _binned(between, DISTANCES))
    yield from (("frequency", *group) for group in _binned(frequency, FREQUENCIES))
    yield "seen", "seen", frequency > 0
    yield "seen", "unseen", frequency == 0


def _binned(values: np.ndarray, bins: dict[str, int | None]) -> Iterator[tuple[str, np.ndarray]]:
    below = -1
    for name, most in bins.items():
        largest = np.iinfo(np.int64).max if most is None else most
        yield name, (values > below) & (values <= largest)
        below = largest


def _by_text(right: np.ndarray, said: np.ndarray, gold: np.ndarray, targets: Targets) -> Counts:
    counts = Counts.none(len(said), targets.texts)
    some = np.flatnonzero(said.any(0) | (gold > 0))
    for into, part in ((counts.right, right), (counts.said, said)):
        np.add.at(into.T, targets.text[some], part[:, some].T)
    np.add.at(counts.gold.T, targets.text[some], gold[some, None])
    return counts


_ROWS = 2**16
"""Of one row group: what is in memory at a time."""
_DICTIONARY = ["text_id", "doc", "words1", "words2", "gold.list.element", "seed", "layer"]
_SPLIT = ["probabilities.list.element"]


class Predictions(NamedTuple):
    """A table of predictions, read back."""

    task: str
    labels: tuple[str, ...]
    """What each number of a row's `probabilities` is the probability of."""
    table: pandas.DataFrame
    """One row per scored target, seed and cumulative probe."""


def write_predictions(run: TaskRun, scored: Corpus, folder: Path) -> Path:
    """Write `<task>.predictions.parquet`: target by target what the model's cumulative probes of every seed say.

    Gold labels are all that hold, those that training never saw among them.
    """
    path = folder / f"{run.task.name}.predictions.parquet"
    targets = _targets(run, scored)
    schema = _schema(run, targets)
    settings: dict[str, Any] = {"use_dictionary": _DICTIONARY, "use_byte_stream_split": _SPLIT}
    with fresh_path(path) as fresh, pq.ParquetWriter(fresh, schema, compression="zstd", **settings) as writer:
        for table in _tables(run, targets, schema):
            writer.write_table(table, row_group_size=_ROWS)
    return path


def read_predictions(path: Path) -> Predictions:
    """Read back what `write_predictions` wrote."""
    try:
        table = pq.read_table(path)
        head = json.loads((table.schema.metadata or {})[b"lamina"])
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise ResultError(f"{path} holds no predictions that can be read ({error}); probe again") from error
    return Predictions(head["task"], tuple(head["labels"]), table.to_pandas())


def _targets(run: TaskRun, scored: Corpus) -> pa.Table:
    """All that does not depend on who predicts."""
    arity = run.targets.arity
    columns: dict[str, list] = {name: [] for name in ("text_id", "doc", "words1", "words2", "gold")}
    for text in scored:
        for edge in run.task.targets(text):
            columns["text_id"].append(text.id)
            columns["doc"].append(text.doc)
            for name, span in (("words1", edge.span), ("words2", edge.other)):
                columns[name].append(None if span is None else " ".join(text.words[span.start : span.end]))
            columns["gold"].append(list(edge.labels))
    types = {name: pa.string() for name in columns} | {"gold": pa.list_(pa.string())}
    arrays = {name: pa.array(values, types[name]) for name, values in columns.items()}
    for span in (1, 2):
        for side, place in (("start", 0), ("end", 1)):
            numbers = run.targets.words[:, span - 1, place] if span <= arity else [None] * len(run.targets)
            arrays[f"{side}{span}"] = pa.array(numbers, pa.int32())
    arrays["unseen"] = pa.array(run.targets.unseen.sum(1), pa.int32())
    order = ["text_id", "doc", "start1", "end1", "words1", "start2", "end2", "words2", "gold", "unseen"]
    return pa.table({name: arrays[name] for name in order})


def _schema(run: TaskRun, targets: pa.Table) -> pa.Schema:
    labels = run.targets.labels
    about = {"lamina": json.dumps({"task": run.task.name, "labels": labels})}
    own = [
        pa.field("seed", pa.int32()),
        pa.field("layer", pa.int32()),
        pa.field("probabilities", pa.list_(pa.float32(), len(labels))),
    ]
    return pa.schema([*targets.schema, *own], about)


def _tables(run: TaskRun, targets: pa.Table, schema: pa.Schema) -> Iterator[pa.Table]:
    for outcome in run.outcomes:
        if outcome.of != "model" or outcome.probabilities is None:
            continue
        for cut, said in zip(outcome.cuts, outcome.probabilities, strict=False):
            for at in range(0, len(targets), _ROWS):
                rows = targets.slice(at, _ROWS)
                flat = pa.array(said[at : at + _ROWS].astype(np.float32).ravel())
                about = [pa.array(np.full(len(rows), number, np.int32)) for number in (outcome.seed, cut.layer)]
                probabilities = pa.FixedSizeListArray.from_arrays(flat, said.shape[1])
                columns = [chunk.combine_chunks() for chunk in rows.columns]
                yield pa.table([*columns, *about, probabilities], schema=schema)


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
