"""Scores of several models on the same items or texts, from saved predictions, resampled together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Bool, Float, Int

from lamina.analyses.layers.probe.statistics import expected_layer, means_by_unit
from lamina.comparison.tables import ModelResults, results_by_model
from lamina.errors import InputError, ResultError
from lamina.framework.declare import ComparedItems
from lamina.probes.bank import DecisionTally
from lamina.probes.edge import LayerCut
from lamina.results import Result
from lamina.stats.bootstrap import ratio_draws
from lamina.stats.family import Contrasts, bootstrap_family, sign_flip_strata
from lamina.stats.intervals import interval, share_interval, widening
from lamina.stats.seeds import ENOUGH_SEEDS, seed_shares, shared_by_seeds
from lamina.stats.units import UnitKind, Units
from lamina.tasks.task import Metric

ALL = "all"
"""In place of a group: the mean over groups."""
ITEMS = ("item", "group", "value")
"""The columns that every table of items begins with."""


class GroupMean(NamedTuple):
    """The mean of one model over the items of a group, with its 95 % interval over items."""

    group: str
    items: int
    model: str
    value: float
    low: float
    high: float


class GroupDifference(NamedTuple):
    """How far two models are apart on the items of a group: a - b, paired by item."""

    group: str
    items: int
    a: str
    b: str
    difference: float
    low: float
    """95 %, simultaneous over the family that `p_adjusted` is corrected for."""
    high: float
    p_adjusted: float
    """Two-sided, by flipped signs (a and b exchanged, item by item) and max-T over all groups and pairs of models; of
    the mean over groups, over pairs of models."""
    units: int
    """Items."""
    needed: int
    """0, or how many items a test would need at least."""


@dataclass(frozen=True, eq=False)
class SharedItems:
    """The answers of models to the items that all of them were given."""

    models: tuple[str, ...]
    table: pd.DataFrame
    """`group`, `item`, and one column per model: its number."""
    left_out: Mapping[str, int]

    @property
    def metric(self) -> str:
        """accuracy where items are right (1), wrong (0) or tied, otherwise mean."""
        return "accuracy" if np.isin(self._values(self.table), (0.0, 0.5, 1.0)).all() else "mean"

    def groups(self) -> Iterator[tuple[str, pd.DataFrame]]:
        """The items by group, in the order of the first model's result."""
        return ((str(name), rows) for name, rows in self.table.groupby("group", sort=False))

    def _values(self, rows: pd.DataFrame) -> Float[np.ndarray, "item model"]:
        return rows[list(range(len(self.models)))].to_numpy(float)

    def compare(self, *, samples: int, seed: int) -> tuple[list[GroupMean], list[GroupDifference]]:
        """Every model and every pair of models, over all groups and by group."""
        groups = [(name, self._values(rows)) for name, rows in self.groups()]
        means = self.draws(samples=samples, seed=seed)
        shares = self.metric == "accuracy"
        estimates = [row for group in means for row in group.estimates(self.models, shares=shares)]
        return estimates, differences([name for name, _ in groups], [values for _, values in groups], self.models)

    def draws(self, *, samples: int, seed: int) -> list[GroupDraws]:
        """Means of all models over all groups (where there are several) and by group, on the same draws of items."""
        # Items of two groups may have one name.
        means = [
            _means(name, [f"{name}\t{item}" for item in rows["item"]], self._values(rows), samples=samples, seed=seed)
            for name, rows in self.groups()
        ]
        return [_overall(means), *means] if len(means) > 1 else means

    def long(self) -> pd.DataFrame:
        """One row per item and model."""
        named = dict(enumerate(self.models))
        rows = self.table.melt(["item", "group"], list(named), "model", "value")
        return rows.assign(model=rows["model"].map(named))[["item", "group", "model", "value"]]


def differences(
    groups: Sequence[str], values: Sequence[Float[np.ndarray, "_ model"]], models: Sequence[str]
) -> list[GroupDifference]:
    """Every pair of models over all groups (where there are several) and by group, paired by item.

    Two families: groups by pairs of models, and the means over groups of all pairs. Where two models differ by the same
    on every item, the interval is Clopper and Pearson's: how many other items may differ is a share.

    Example:
        >>> one, other = [1.0] * 8 + [0.0] * 2, [0.0] * 10
        >>> (row,) = differences(["agreement"], [np.array([one, other]).T], ["a", "b"])
        >>> row.difference, round(row.p_adjusted, 3)
        (0.8, 0.008)
    """
    scored = np.concatenate([matrix.ravel() for matrix in values])
    shares = bool(np.isin(scored, (0.0, 0.5, 1.0)).all())
    bounds = (-1.0, 1.0) if shares else (-np.inf, np.inf)
    pairs = list(combinations(models, 2))
    left, right = (list(side) for side in zip(*combinations(range(len(models)), 2), strict=True))
    apart = [matrix[:, left] - matrix[:, right] for matrix in values]
    within, overall = sign_flip_strata(apart, bounds=bounds)
    rows: list[GroupDifference] = []
    if len(groups) > 1:
        rows += (_row(ALL, sum(map(len, apart)), pair, overall, (column,)) for column, pair in enumerate(pairs))
    for number, (group, matrix) in enumerate(zip(groups, apart, strict=True)):
        for column, pair in enumerate(pairs):
            row = _row(group, len(matrix), pair, within, (number, column))
            if shares and np.ptp(matrix[:, column]) == 0:
                low, high = _share_apart(row.difference, len(matrix))
                row = row._replace(low=low, high=high)
            rows.append(row)
    return rows


def _row(group: str, items: int, pair: tuple[str, str], tests: Contrasts, index: tuple[int, ...]) -> GroupDifference:
    estimate, low, high, p, units, needed = (float(numbers[index]) for numbers in tests)
    return GroupDifference(group, items, *pair, estimate, low, high, p, int(units), int(needed))


def _share_apart(difference: float, items: int) -> tuple[float, float]:
    """The interval of a difference that is the same on every item.

    Example:
        >>> [round(end, 2) for end in _share_apart(0.0, 20)], [round(end, 2) for end in _share_apart(-1.0, 20)]
        ([-0.17, 0.17], [-1.0, -0.83])
    """
    if abs(difference) not in (0.0, 1.0):
        return difference, difference
    low, high = share_interval(round(abs(difference)) * items, items)
    if difference == 0:
        return -high, high
    return (low, high) if difference > 0 else (-high, -low)


@dataclass(frozen=True, eq=False)
class GroupDraws:
    """The means of all models over the items of one group, and the same of resampled items."""

    group: str
    items: int
    value: Float[np.ndarray, " model"]
    draws: Float[np.ndarray, "sample model"]

    def estimates(self, models: Sequence[str], *, shares: bool) -> Iterator[GroupMean]:
        """With a 95 % interval each."""
        for column, model in enumerate(models):
            value, (low, high) = float(self.value[column]), interval(self.draws[:, column])
            if shares:
                low, high = max(low, 0.0), min(high, 1.0)
            if shares and low == high and value in (0, 1):
                # Where all items came out alike, drawing them again shows no spread.
                low, high = share_interval(round(value) * self.items, self.items)
            yield GroupMean(self.group, self.items, model, value, low, high)


def _means(
    group: str, items: Sequence[str], values: Float[np.ndarray, "item model"], *, samples: int, seed: int
) -> GroupDraws:
    units = Units.of(items, "item")
    mean, counts = values.mean(0), units.sums(np.ones(len(items)))
    drawn = ratio_draws(units.sums(values), counts, units, samples=samples, seed=seed)
    return GroupDraws(group, len(items), mean, mean + (drawn - mean) * widening(len(units)))


def _overall(groups: Sequence[GroupDraws]) -> GroupDraws:
    """The mean over groups: every group counts as much as any other."""
    drawn = np.stack([group.draws for group in groups])
    # A group of which a draw has no item does not count in that draw.
    present = np.isfinite(drawn)
    draws = np.where(present, drawn, 0).sum(0) / np.maximum(present.sum(0), 1)
    return GroupDraws(
        ALL, sum(group.items for group in groups), np.mean([group.value for group in groups], axis=0), draws
    )


def models_with_items(results: Sequence[Result]) -> list[ModelResults]:
    """The results by model; an InputError where a model has two results on the same items."""
    models = results_by_model(results)
    for model in models:
        suites = [str(result.provenance.corpus.get("fingerprint", "")) for result in model.results]
        if len({*suites}) < len(suites):
            about = model.results[0].provenance
            raise InputError(
                f"{about.model.get('name')} was asked {about.corpus.get('name')} twice; name one of these results when "
                "several models are compared"
            )
    return models


def shared_items(models: Sequence[ModelResults], declared: ComparedItems) -> SharedItems:
    """The items that all models were asked and answered; those of some models alone are counted."""
    several = len(models[0].results) > 1
    tables = [_items(model, declared, several=several) for model in models]
    joined = pd.concat(tables, axis="columns", join="outer", sort=False, keys=range(len(models)))
    # In the order of the first model.
    order = [*tables[0].index, *joined.index.difference(tables[0].index)]
    joined = joined.loc[order]
    whole = joined.dropna().reset_index()
    if whole.empty:
        names = " and ".join(
            f"{model.name} on {model.results[0].provenance.corpus.get('name', '?')}" for model in models
        )
        analysis = models[0].results[0].analysis
        raise InputError(f"{names} have no item in common; run `lamina {analysis}` of all models on the same --suite")
    lost = {
        f"items of {model.name} that not all models answered": int(table.notna().sum() - len(whole))
        for model, table in zip(models, tables, strict=True)
    }
    left_out = {reason: count for reason, count in lost.items() if count}
    return SharedItems(tuple(model.name for model in models), whole, left_out)


def _items(model: ModelResults, declared: ComparedItems, *, several: bool) -> pd.Series:
    """[group, item] -> value, of all results of a model."""
    group_column, item_column = declared.keys
    parts = []
    for result in model.results:
        suite = result.provenance.corpus.get("name", "")
        table = result.tables.get(declared.table)
        if table is None or not {*declared.keys, declared.value} <= {*table.columns}:
            raise InputError(f"{model.name} on {suite}: the result has no items; make it again with this version")
        values = pd.to_numeric(table[declared.value], errors="coerce").astype(float)
        groups = table[group_column].map(lambda group, suite=suite: f"{group} ({suite})" if several else str(group))
        items = [groups, table[item_column].map(str)]
        series = pd.Series(values.to_numpy(), index=pd.MultiIndex.from_arrays(items, names=["group", "item"]))
        if series.index.has_duplicates:
            group, item = series.index[series.index.duplicated()][0]
            raise InputError(
                f"{model.name} on {suite}: the item {item!r} of {group} occurs twice; make the result again"
            )
        parts.append(series)
    return pd.concat(parts)


_ROWS = 2**16
"""Predictions in memory at a time."""
_CHUNK = 128
"""Samples weighed at a time: bounds memory, changes no number."""
_ABOUT = ("tuning_seed", "seed", "probe", "layer")
"""Whose prediction it is; older files know no fine-tuning seeds."""
_PLACES = ("start1", "end1", "start2", "end2")


class ScoreEstimate(NamedTuple):
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class ProbeAnswers:
    """What the probes of one model said about the targets of one task, added up text by text."""

    task: str
    corpus: str
    """Its name; empty where the file does not say."""
    texts: tuple[str, ...]
    """Ids of the texts that have targets, sorted."""
    documents: tuple[str, ...]
    """The document of each text; its id where that is not known."""
    targets: str
    """A hash of all targets and their gold labels: equal where the same was asked."""
    cuts: tuple[LayerCut, ...]
    """What each probe saw; cumulative ones first, by layer."""
    seeds: tuple[DecisionTally, ...]
    """One per seed of the probes, and per fine-tuning seed where there are several; members are the probes."""
    units: tuple[int, ...]
    """What varies, for each of them: the fine-tuning seed where there are several, else the seed of the probes."""

    @property
    def sampled(self) -> Units:
        """What is resampled: documents, or texts where all are of one document."""
        several = len({*self.documents}) > 1 and self.documents != self.texts
        return Units.of(self.documents if several else self.texts, "document" if several else "text")

    def value(self) -> Float[np.ndarray, " member"]:
        """The score of every probe, the mean over seeds."""
        return np.mean([tally.value() for tally in self.seeds], axis=0)


def read_answers(path: Path, metric: Metric) -> ProbeAnswers:
    """Add up `TASK.predictions.parquet` for a metric: f1, macro_f1 or r2.

    A label is predicted where its probability is at least 0.5. Gold labels that training never saw count as
    missed; labels that the task does not score, or that annotators did not rate, do not count.

    Example:
        >>> read_answers(Path("results/probe/pos.predictions.parquet"), "f1").value()  # doctest: +SKIP
    """
    with _reading(path):
        file = pq.ParquetFile(path)
        head: dict[str, Any] = json.loads((file.schema_arrow.metadata or {})[b"lamina"])
        index = PredictionIndex(file)
        labels = PredictedLabels(tuple(head["labels"]), frozenset(head.get("unscored") or ()))
        if metric == "r2":
            seeds = _add_values(file, index)
        elif metric == "macro_f1":
            seeds = _add_by_label(file, index, labels)
        else:
            seeds = _add_labels(file, index, labels)
        targets = _hash_targets(file, index, labels.unscored)
    about = (head["task"], str(head.get("corpus") or ""))
    return ProbeAnswers(*about, index.texts, index.documents, targets, index.cuts, tuple(seeds), index.units)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, KeyError, ValueError, TypeError, pa.ArrowException) as error:
        raise ResultError(f"{path} holds no predictions that can be read ({error}); probe again") from error


class PredictionIndex:
    """Which texts, seeds and probes a file of predictions has, and where their sums belong."""

    def __init__(self, file: pq.ParquetFile) -> None:
        self._about = [name for name in _ABOUT if name in file.schema_arrow.names]
        named = [name for name in ("text_id", "doc") if name in file.schema_arrow.names]
        table = file.read(columns=[*named, *self._about])
        of_text = table.group_by(named).aggregate([]).to_pylist()
        documents = {row["text_id"]: row.get("doc") or row["text_id"] for row in of_text}
        self.texts: tuple[str, ...] = tuple(sorted(documents))
        self.documents: tuple[str, ...] = tuple(documents[text] for text in self.texts)
        self._text = {text: number for number, text in enumerate(self.texts)}
        times = table.group_by(self._about).aggregate([([], "count_all")]).to_pylist()
        probes = [((row.get("tuning_seed"), row["seed"]), LayerCut(row["probe"], row["layer"])) for row in times]
        if len({row["count_all"] for row in times}) > 1:
            raise ValueError("probes have different numbers of targets")
        self.targets: int = times[0]["count_all"] if times else 0
        # All or none of them have a fine-tuning seed.
        self.seeds = sorted({seeds for seeds, _ in probes}, key=lambda seeds: (seeds[0] or 0, seeds[1]))
        tuned = len({seeds[0] for seeds in self.seeds}) > 1
        self.units: tuple[int, ...] = tuple(seeds[0] if tuned else seeds[1] for seeds in self.seeds)
        # `cumulative` comes before `layer` in the alphabet too.
        self.cuts: tuple[LayerCut, ...] = tuple(sorted({cut for _, cut in probes}))
        if len(probes) != len(self.seeds) * len(self.cuts):
            raise ValueError("seeds have different probes")
        self._member: dict[tuple[Any, ...], tuple[int, int]] = {
            (*seeds, *cut): (number, member)
            for number, seeds in enumerate(self.seeds)
            for member, cut in enumerate(self.cuts)
        }

    def text_of(self, rows: pa.RecordBatch) -> Int[np.ndarray, " row"]:
        """The number of each row's text."""
        ids: Any = rows["text_id"].dictionary_encode()
        numbers = np.array([self._text[text] for text in ids.dictionary.to_pylist()], np.int64)
        return numbers[ids.indices.to_numpy()]

    def groups(self, file: pq.ParquetFile, columns: Sequence[str]) -> Iterator[tuple[int, int, pa.RecordBatch]]:
        """Number of the seed, number of the probe, and some of its rows."""
        older = [None] * (len(_ABOUT) - len(self._about))
        for batch in file.iter_batches(_ROWS, columns=["text_id", *self._about, *columns]):
            about = [batch[name] for name in self._about]
            # Rows of one probe of one seed stand together.
            codes = [column.dictionary_encode("encode").indices.to_numpy() for column in about]
            changes = np.flatnonzero(np.any([np.diff(codes_of_column) != 0 for codes_of_column in codes], axis=0)) + 1
            for start, end in pairwise([0, *changes.tolist(), len(batch)]):
                probe = (*older, *(column[start].as_py() for column in about))
                yield *self._member[probe], batch.slice(start, end - start)


@dataclass(frozen=True)
class PredictedLabels:
    """The labels that probes predict."""

    names: tuple[str, ...]
    unscored: frozenset[str]

    def gold(self, rows: pa.RecordBatch) -> Bool[np.ndarray, "row label"]:
        """Which labels hold."""
        lists: Any = rows["gold"]
        named = lists.flatten().dictionary_encode()
        place = {label: column for column, label in enumerate(self.names)}
        columns = np.array([place.get(label, -1) for label in named.dictionary.to_pylist()], np.int64)
        column = columns[named.indices.to_numpy()]
        row = np.repeat(np.arange(len(lists)), lists.value_lengths().fill_null(0).to_numpy())
        holds = np.zeros((len(lists), len(self.names)), bool)
        holds[row[column >= 0], column[column >= 0]] = True
        return holds

    def scored(self, rows: pa.RecordBatch) -> Bool[np.ndarray, "row label"]:
        """Which decisions count."""
        counted = np.ones((len(rows), len(self.names)), bool)
        if "scored" in rows.schema.names:
            lists: Any = rows["scored"]
            given = ~lists.is_null().to_numpy(zero_copy_only=False)
            flat = lists.flatten().to_numpy(zero_copy_only=False).astype(bool)
            counted[given] = flat.reshape(-1, len(self.names))
        counted[:, [label in self.unscored for label in self.names]] = False
        return counted


def _numbers(rows: pa.RecordBatch) -> Float[np.ndarray, "row number"]:
    return rows["probabilities"].flatten().to_numpy(zero_copy_only=False).reshape(len(rows), -1)


def _decided(
    file: pq.ParquetFile, index: PredictionIndex, labels: PredictedLabels
) -> Iterator[tuple[int, int, np.ndarray, np.ndarray, np.ndarray, pa.RecordBatch]]:
    """Number of the seed and of the probe, then of some rows the text, the predicted and the gold labels, as scored."""
    named = [name for name in ("gold", "unseen", "scored") if name in file.schema_arrow.names]
    for seed, member, rows in index.groups(file, [*named, "probabilities"]):
        scored = labels.scored(rows)
        predicted = (_numbers(rows) >= 0.5) & scored
        yield seed, member, index.text_of(rows), predicted, labels.gold(rows) & scored, rows


def _add_labels(file: pq.ParquetFile, index: PredictionIndex, labels: PredictedLabels) -> list[DecisionTally]:
    """Decisions per text."""
    texts = len(index.texts)
    sums = np.zeros((len(index.seeds), 3, len(index.cuts), texts))
    for seed, member, text, predicted, gold, rows in _decided(file, index, labels):
        missed = rows["unseen"].to_numpy() if "unseen" in rows.schema.names else 0
        parts = ((predicted & gold).sum(1), predicted.sum(1), gold.sum(1) + missed)
        sums[seed, :, member] += [np.bincount(text, part, texts) for part in parts]
    return [DecisionTally("f1", seed_sums) for seed_sums in sums]


def _add_by_label(file: pq.ParquetFile, index: PredictionIndex, labels: PredictedLabels) -> list[DecisionTally]:
    """Decisions per text and label, labels unseen in training last."""
    unseen = PredictedLabels(_unseen(file, labels), frozenset())
    shape = (3, len(index.cuts), len(index.texts), len(labels.names) + len(unseen.names))
    # Single precision saves memory and counts exactly up to 16 million.
    sums = [np.zeros(shape, np.float32) for _ in index.seeds]
    for seed, member, text, predicted, gold, rows in _decided(file, index, labels):
        every = np.hstack([gold, unseen.gold(rows)])
        for into, part in zip(sums[seed], (predicted & gold, predicted, every), strict=True):
            row, column = np.nonzero(part)
            np.add.at(into[member], (text[row], column), 1)
    return [DecisionTally("macro_f1", seed_sums) for seed_sums in sums]


def _unseen(file: pq.ParquetFile, labels: PredictedLabels) -> tuple[str, ...]:
    """Scored gold labels that no probe can predict."""
    gold_labels: set[str] = set()
    for batch in file.iter_batches(_ROWS, columns=["gold"]):
        gold_labels.update(batch["gold"].flatten().unique().to_pylist())
    return tuple(sorted(gold_labels - {*labels.names} - labels.unscored))


def _add_values(file: pq.ParquetFile, index: PredictionIndex) -> list[DecisionTally]:
    """Sums of graded values, of predicted ones and of their products, per text."""
    texts = len(index.texts)
    sums = np.zeros((len(index.seeds), 6, len(index.cuts), texts))
    for seed, member, rows in index.groups(file, ["value", "probabilities"]):
        text, gold, predicted = index.text_of(rows), rows["value"].to_numpy(), _numbers(rows)[:, 0].astype(float)
        parts = (np.ones_like(gold), gold, gold**2, predicted, predicted**2, predicted * gold)
        sums[seed, :, member] += [np.bincount(text, part, texts) for part in parts]
    return [DecisionTally("r2", seed_sums) for seed_sums in sums]


def _hash_targets(file: pq.ParquetFile, index: PredictionIndex, unscored: frozenset[str]) -> str:
    """Of what was asked and what is right: text, words, gold labels or value, labels that do not count."""
    names = [name for name in (*_PLACES, "gold", "value") if name in file.schema_arrow.names]
    lines: list[str] = []
    for seed, member, rows in index.groups(file, names):
        if (seed, member) == (0, 0):
            columns = [rows[name].to_pylist() for name in ("text_id", *names)]
            lines += (
                json.dumps([sorted(value) if isinstance(value, list) else value for value in row])
                for row in zip(*columns, strict=True)
            )
            if len(lines) == index.targets:
                break
    return hashlib.sha256("\n".join([*sorted(unscored), *sorted(lines)]).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class SampledScores:
    """The scores of one model's probes at one task, and the same scores on resampled documents."""

    answers: ProbeAnswers
    by_seed: Float[np.ndarray, "unit member"]
    """The score of every probe, by what varies beside documents (see `Answers.units`)."""
    drawn: Float[np.ndarray, "sample member"]
    """The mean over seeds on resampled documents; wider than a bootstrap's draws where documents are few."""
    shares: Float[np.ndarray, "sample unit"]
    """What each draw adds of every seed's distance from the mean over seeds (`seed_shares`)."""
    count: int
    """How many documents (or texts) were resampled."""
    kind: UnitKind
    """What was resampled."""

    @property
    def value(self) -> Float[np.ndarray, " member"]:
        """The score of every probe, the mean over seeds."""
        return self.by_seed.mean(0)

    @property
    def enough(self) -> bool:
        """Whether there are enough seeds for an interval over them."""
        return len(self.by_seed) >= ENOUGH_SEEDS

    @property
    def draws(self) -> Float[np.ndarray, "sample member"]:
        """Of `value`: documents vary, and from 5 seeds on the seeds too."""
        return self.drawn + self.shares @ (self.by_seed - self.value)

    def at(self, cut: LayerCut) -> tuple[float, Float[np.ndarray, " sample"]]:
        """The score of one probe, and its draws."""
        member = self.answers.cuts.index(cut)
        scores = self.by_seed[:, member]
        return float(scores.mean()), self.drawn[:, member] + self.shares @ (scores - scores.mean())

    @property
    def last(self) -> int | None:
        """L, of the probes P(0)..P(L); None where there are not all of them."""
        layers = [cut.layer for cut in self.answers.cuts if cut.probe == "cumulative"]
        return layers[-1] if len(layers) > 1 and layers == [*range(len(layers))] else None

    def gain(self) -> tuple[float, float]:
        """The 95 % interval of P(L) - P(0)."""
        draws = self.draws
        return interval(draws[:, self.last or 0] - draws[:, 0])

    def expected_layers(self) -> tuple[float, Float[np.ndarray, " unit"], Float[np.ndarray, " sample"] | None]:
        """The expected layer, that of every seed, and draws over documents and seeds; none with few seeds.

        It is a ratio of means, the moment of the gains over the gain; seeds vary by their distances from that ratio.
        """
        curves = self.by_seed[:, : (self.last or 0) + 1]
        value, layers = float(expected_layer(curves.mean(0))), expected_layer(curves)
        if not self.enough:
            return value, layers, None
        gains = curves[:, -1] - curves[:, 0]
        moments = np.diff(curves, axis=1) @ np.arange(1, curves.shape[1])
        apart = (moments - value * gains) / gains.mean()
        return value, layers, expected_layer(self.drawn[:, : curves.shape[1]]) + self.shares @ apart

    def over_seeds(self, values: Float[np.ndarray, " unit"]) -> Float[np.ndarray, " sample"] | None:
        """Draws of a number that each seed has one of, which no resampling of documents can move; None with few."""
        if len(values) < ENOUGH_SEEDS or len(values) != self.shares.shape[1]:
            return None
        return values.mean() + self.shares @ (values - values.mean())


def resample(answers: Sequence[ProbeAnswers], *, samples: int, seed: int) -> list[SampledScores]:
    """The scores of several models at one task, on the same draws of the same documents.

    A document's weight in a draw follows from its name (`Units`). Draws are spread as `widening` says, which matters
    with few documents. With 5 seeds or more, those of each model vary too (`seed_shares`), independently of the
    others': probes of different models have nothing in common but a number. Where a model was fine-tuned with several
    seeds, those are what varies.
    """
    if any(model.targets != answers[0].targets for model in answers):
        raise ValueError("these models were asked different things")
    # Results of older versions do not name the documents.
    units = next((model for model in answers if model.documents != model.texts), answers[0]).sampled
    weights, wider = units.weights(samples=samples, seed=seed), widening(len(units))
    sampled = []
    for number, model in enumerate(answers):
        values = means_by_unit(np.stack([tally.value() for tally in model.seeds]), model.units)
        shares = seed_shares(len(values), samples, np.random.default_rng([seed, number]))
        by_seed = means_by_unit(np.stack([_scores(tally, units, weights) for tally in model.seeds]), model.units)
        drawn = shared_by_seeds(by_seed) if len(values) >= ENOUGH_SEEDS else by_seed.mean(0)
        drawn = values.mean(0) + (drawn - values.mean(0)) * wider
        # A draw of no document at all, which only a handful of them can give, has no score.
        drawn[~weights.any(1)] = np.nan
        sampled.append(SampledScores(model, values, drawn, shares, len(units), units.kind))
    return sampled


def _scores(
    tally: DecisionTally, units: Units, weights: Float[np.ndarray, "sample unit"]
) -> Float[np.ndarray, "sample member"]:
    sums = np.moveaxis(units.sums(np.moveaxis(tally.sums, 2, 0)), 0, 2)
    summed = DecisionTally(tally.metric, sums)
    chunks = range(0, len(weights), _CHUNK)
    return np.concatenate([summed.value(weights[start : start + _CHUNK].astype(float)) for start in chunks])


class DrawnDifference(NamedTuple):
    """A difference of two numbers whose draws belong together."""

    estimate: float
    draws: Float[np.ndarray, " sample"]
    units: int
    """How many units were resampled; of numbers that vary over seeds alone, how many seeds."""


def difference_family(differences: Sequence[DrawnDifference], *, least: int) -> Contrasts:
    """All differences from which a claim may be picked, corrected together; `least` units are needed.

    Example:
        >>> draws = np.random.default_rng(0).normal(0, 1, 1000)
        >>> differences = [DrawnDifference(mean, mean + draws, 30) for mean in (5.0, 0.5)]
        >>> tests = difference_family(differences, least=6)
        >>> tests.p.round(2).tolist()
        [0.0, 0.61]
    """
    estimates = np.array([difference.estimate for difference in differences])
    draws = np.stack([difference.draws for difference in differences], axis=1)
    # Draws are spread for few units already.
    counts = np.array([difference.units for difference in differences], float)
    return bootstrap_family(estimates, draws, counts, least=least, widen=False)
