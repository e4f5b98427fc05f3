"""Scores of several models on the same texts: saved predictions added up text by text, resampled together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Bool, Float, Int

from lamina.analyses.layers.probe.statistics import expected_layer, means_by_unit
from lamina.errors import ResultError
from lamina.probes.edge import LayerCut
from lamina.probes.tallies import DecisionTally
from lamina.stats.family import Contrasts, bootstrap_family
from lamina.stats.intervals import interval, widening
from lamina.stats.seeds import ENOUGH_SEEDS, seed_shares, shared_by_seeds
from lamina.stats.units import UnitKind, Units
from lamina.tasks.task import Metric

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
        return np.mean([each.value() for each in self.seeds], axis=0)


def read_answers(path: Path, metric: Metric) -> ProbeAnswers:
    """Add up `TASK.predictions.parquet` for a metric: f1, macro_f1 or r2.

    A label is said where its probability is at least 0.5. Gold labels that training never saw count as missed; labels
    that the task does not score, or that annotators did not rate, do not count.

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
        asked = _hash_targets(file, index, labels.unscored)
    about = (head["task"], str(head.get("corpus") or ""))
    return ProbeAnswers(*about, index.texts, index.documents, asked, index.cuts, tuple(seeds), index.units)


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
        found = [((row.get("tuning_seed"), row["seed"]), LayerCut(row["probe"], row["layer"])) for row in times]
        if len({row["count_all"] for row in times}) > 1:
            raise ValueError("probes have different numbers of targets")
        self.targets: int = times[0]["count_all"] if times else 0
        # All or none of them have a fine-tuning seed.
        self.seeds = sorted({seeds for seeds, _ in found}, key=lambda seeds: (seeds[0] or 0, seeds[1]))
        tuned = len({seeds[0] for seeds in self.seeds}) > 1
        self.units: tuple[int, ...] = tuple(seeds[0] if tuned else seeds[1] for seeds in self.seeds)
        # `cumulative` comes before `layer` in the alphabet too.
        self.cuts: tuple[LayerCut, ...] = tuple(sorted({cut for _, cut in found}))
        if len(found) != len(self.seeds) * len(self.cuts):
            raise ValueError("seeds have different probes")
        self._member: dict[tuple[Any, ...], tuple[int, int]] = {
            (*seeds, *cut): (number, member)
            for number, seeds in enumerate(self.seeds)
            for member, cut in enumerate(self.cuts)
        }

    def text_of(self, rows: pa.RecordBatch) -> Int[np.ndarray, " row"]:
        """The number of each row's text."""
        ids: Any = rows["text_id"].dictionary_encode()
        numbers = np.array([self._text[each] for each in ids.dictionary.to_pylist()], np.int64)
        return numbers[ids.indices.to_numpy()]

    def groups(self, file: pq.ParquetFile, columns: Sequence[str]) -> Iterator[tuple[int, int, pa.RecordBatch]]:
        """Number of the seed, number of the probe, and some of its rows."""
        older = [None] * (len(_ABOUT) - len(self._about))
        for batch in file.iter_batches(_ROWS, columns=["text_id", *self._about, *columns]):
            about = [batch[name] for name in self._about]
            # Rows of one probe of one seed stand together.
            codes = [each.dictionary_encode("encode").indices.to_numpy() for each in about]
            changes = np.flatnonzero(np.any([np.diff(each) != 0 for each in codes], axis=0)) + 1
            for start, end in pairwise([0, *changes.tolist(), len(batch)]):
                probe = (*older, *(each[start].as_py() for each in about))
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
    """Number of the seed and of the probe, then of some rows the text, what is said and what is gold, as scored."""
    named = [name for name in ("gold", "unseen", "scored") if name in file.schema_arrow.names]
    for seed, member, rows in index.groups(file, [*named, "probabilities"]):
        scored = labels.scored(rows)
        said = (_numbers(rows) >= 0.5) & scored
        yield seed, member, index.text_of(rows), said, labels.gold(rows) & scored, rows


def _add_labels(file: pq.ParquetFile, index: PredictionIndex, labels: PredictedLabels) -> list[DecisionTally]:
    """Decisions per text."""
    texts = len(index.texts)
    sums = np.zeros((len(index.seeds), 3, len(index.cuts), texts))
    for seed, member, text, said, gold, rows in _decided(file, index, labels):
        missed = rows["unseen"].to_numpy() if "unseen" in rows.schema.names else 0
        parts = ((said & gold).sum(1), said.sum(1), gold.sum(1) + missed)
        sums[seed, :, member] += [np.bincount(text, part, texts) for part in parts]
    return [DecisionTally("f1", own) for own in sums]


def _add_by_label(file: pq.ParquetFile, index: PredictionIndex, labels: PredictedLabels) -> list[DecisionTally]:
    """Decisions per text and label, labels unseen in training last."""
    unseen = PredictedLabels(_unseen(file, labels), frozenset())
    shape = (3, len(index.cuts), len(index.texts), len(labels.names) + len(unseen.names))
    # Single precision saves memory and counts exactly up to 16 million.
    sums = [np.zeros(shape, np.float32) for _ in index.seeds]
    for seed, member, text, said, gold, rows in _decided(file, index, labels):
        every = np.hstack([gold, unseen.gold(rows)])
        for into, part in zip(sums[seed], (said & gold, said, every), strict=True):
            row, column = np.nonzero(part)
            np.add.at(into[member], (text[row], column), 1)
    return [DecisionTally("macro_f1", own) for own in sums]


def _unseen(file: pq.ParquetFile, labels: PredictedLabels) -> tuple[str, ...]:
    """Scored gold labels that no probe can predict."""
    found: set[str] = set()
    for batch in file.iter_batches(_ROWS, columns=["gold"]):
        found.update(batch["gold"].flatten().unique().to_pylist())
    return tuple(sorted(found - {*labels.names} - labels.unscored))


def _add_values(file: pq.ParquetFile, index: PredictionIndex) -> list[DecisionTally]:
    """Sums of graded values, of predicted ones and of their products, per text."""
    texts = len(index.texts)
    sums = np.zeros((len(index.seeds), 6, len(index.cuts), texts))
    for seed, member, rows in index.groups(file, ["value", "probabilities"]):
        text, gold, said = index.text_of(rows), rows["value"].to_numpy(), _numbers(rows)[:, 0].astype(float)
        parts = (np.ones_like(gold), gold, gold**2, said, said**2, said * gold)
        sums[seed, :, member] += [np.bincount(text, part, texts) for part in parts]
    return [DecisionTally("r2", own) for own in sums]


def _hash_targets(file: pq.ParquetFile, index: PredictionIndex, unscored: frozenset[str]) -> str:
    """Of what was asked and what is right: text, words, gold labels or value, labels that do not count."""
    asked = [name for name in (*_PLACES, "gold", "value") if name in file.schema_arrow.names]
    lines: list[str] = []
    for seed, member, rows in index.groups(file, asked):
        if (seed, member) == (0, 0):
            columns = [rows[name].to_pylist() for name in ("text_id", *asked)]
            lines += (json.dumps([sorted(each) if isinstance(each, list) else each for each in row])
                      for row in zip(*columns, strict=True))  # fmt: skip
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
        own = self.by_seed[:, member]
        return float(own.mean()), self.drawn[:, member] + self.shares @ (own - own.mean())

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
        value, each = float(expected_layer(curves.mean(0))), expected_layer(curves)
        if not self.enough:
            return value, each, None
        gains = curves[:, -1] - curves[:, 0]
        moments = np.diff(curves, axis=1) @ np.arange(1, curves.shape[1])
        apart = (moments - value * gains) / gains.mean()
        return value, each, expected_layer(self.drawn[:, : curves.shape[1]]) + self.shares @ apart

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
    if any(each.targets != answers[0].targets for each in answers):
        raise ValueError("these models were asked different things")
    # Results of older versions do not name the documents.
    units = next((each for each in answers if each.documents != each.texts), answers[0]).sampled
    weights, wider = units.weights(samples=samples, seed=seed), widening(len(units))
    found = []
    for number, each in enumerate(answers):
        values = means_by_unit(np.stack([own.value() for own in each.seeds]), each.units)
        shares = seed_shares(len(values), samples, np.random.default_rng([seed, number]))
        by_seed = means_by_unit(np.stack([_scores(own, units, weights) for own in each.seeds]), each.units)
        drawn = shared_by_seeds(by_seed) if len(values) >= ENOUGH_SEEDS else by_seed.mean(0)
        drawn = values.mean(0) + (drawn - values.mean(0)) * wider
        # A draw of no document at all, which only a handful of them can give, has no score.
        drawn[~weights.any(1)] = np.nan
        found.append(SampledScores(each, values, drawn, shares, len(units), units.kind))
    return found


def _scores(
    tally: DecisionTally, units: Units, weights: Float[np.ndarray, "sample unit"]
) -> Float[np.ndarray, "sample member"]:
    sums = np.moveaxis(units.sums(np.moveaxis(tally.sums, 2, 0)), 0, 2)
    summed = DecisionTally(tally.metric, sums)
    chunks = range(0, len(weights), _CHUNK)
    return np.concatenate([summed.value(weights[at : at + _CHUNK].astype(float)) for at in chunks])


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
    estimates = np.array([each.estimate for each in differences])
    draws = np.stack([each.draws for each in differences], axis=1)
    # Draws are spread for few units already.
    counts = np.array([each.units for each in differences], float)
    return bootstrap_family(estimates, draws, counts, least=least, widen=False)
