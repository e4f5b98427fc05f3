"""What probes predicted, target by target, as files beside a result; and ambiguous sentences among them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from jaxtyping import Bool, Float, Int, UInt8

from lamina.analyses.layers.probe.training import TaskRun
from lamina.corpora import Corpus
from lamina.errors import ResultError
from lamina.files.writing import fresh_path
from lamina.results import Result

UNSURE = 0.7
"""A target is ambiguous where even its best label's mean probability over layers is not above this."""
_READABLE = 20
"""Words of a sentence that is easy to show; longer ones come last."""


class TraceRow(NamedTuple):
    """One row of `traces.csv`."""

    text_id: str
    task: str
    seed: int
    span1: str
    """Words, as start:end."""
    span2: str
    """The same of the second span; empty where there is none."""
    label: str
    gold: bool | None
    """Whether the label holds; None where that is not known, as in a sentence the user typed."""
    layer: int
    """The last layer the probe may look at."""
    probability: float


def ambiguous_targets(probabilities: Float[np.ndarray, "layer target label"]) -> Bool[np.ndarray, " target"]:
    """Which targets are ambiguous by the paper's rule.

    Example:
        >>> ambiguous_targets(np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.9, 0.1], [0.8, 0.2]]])).tolist()
        [False, True]
    """
    return np.mean(probabilities, axis=0, dtype=np.float64).max(-1) <= UNSURE


class TaskBeliefs(NamedTuple):
    """What the probes of one task say of its scored targets. Texts are numbered as in the corpus."""

    task: str
    labels: Sequence[str]
    text: Int[np.ndarray, " target"]
    """Number of its text."""
    words: Int[np.ndarray, "target span 2"]
    """First word and one past the last, for each span."""
    gold: Bool[np.ndarray, "target label"]
    rated: Bool[np.ndarray, "target label"]
    """Which labels annotators were asked about."""
    by_seed: Mapping[int, Float[np.ndarray, "layer target label"]]
    """Seed -> probabilities under P(0)..P(L)."""

    @property
    def ambiguous(self) -> Bool[np.ndarray, " target"]:
        """Which targets are ambiguous, by the probes of all seeds together."""
        return ambiguous_targets(np.concatenate(list(self.by_seed.values())))


def traces_across(
    tasks: Sequence[TaskBeliefs], texts: Sequence[tuple[str, Sequence[str]]], most: int = 8
) -> list[TraceRow]:
    """The ambiguous targets of some texts of one corpus: those in which most tasks are in doubt come first.

    A text needs more than one ambiguous target, of whichever tasks. Texts of at most 20 words come before longer ones;
    then the number of tasks in doubt decides, then that of ambiguous targets. A task that none of the `most` texts
    shows adds the first text that does.

    Args:
        tasks: the tasks of one corpus; graded ones have no labels to doubt, and are left out.
        texts: id and words of every scored text.
        most: texts to show.

    Example:
        >>> beliefs = {0: np.full((2, 2, 2), 0.5)}
        >>> every, spans = np.ones((2, 2), bool), np.array([[[0, 1]], [[1, 2]]])
        >>> pos = TaskBeliefs("pos", ["X", "Y"], np.array([0, 1]), spans, every, every, beliefs)
        >>> dep = TaskBeliefs("dep", ["Z", "V"], np.array([1, 1]), spans, every, every, beliefs)
        >>> rows = traces_across([pos, dep], [("s1", ["Go", "!"]), ("s2", ["Dogs", "bark"])])
        >>> sorted({(row.text_id, row.task) for row in rows})
        [('s2', 'dep'), ('s2', 'pos')]
    """
    unsure = [beliefs.ambiguous for beliefs in tasks]
    doubts = np.array(
        [np.bincount(beliefs.text[mask], minlength=len(texts)) for beliefs, mask in zip(tasks, unsure, strict=True)]
    )
    rows = []
    for number in _texts_in_doubt(doubts, [len(words) for _, words in texts], most):
        for beliefs, mask in zip(tasks, unsure, strict=True):
            doubtful = np.flatnonzero(mask & (beliefs.text == number))
            for seed, probabilities in beliefs.by_seed.items():
                about = (
                    beliefs.task,
                    texts[number][0],
                    beliefs.words[doubtful],
                    probabilities[:, doubtful],
                    beliefs.labels,
                    beliefs.gold[doubtful],
                    seed,
                )
                rows += trace_rows(*about, rated=beliefs.rated[doubtful])
    return rows


def _texts_in_doubt(doubts: Int[np.ndarray, "task text"], lengths: Sequence[int], most: int) -> list[int]:
    """The texts to show, by how many ambiguous targets of each task they have."""
    if not len(doubts):
        return []
    tasks, targets = (doubts > 0).sum(0), doubts.sum(0)
    candidates = np.flatnonzero(targets > 1).tolist()
    ordered = sorted(candidates, key=lambda text: (lengths[text] > _READABLE, -tasks[text], -targets[text], text))
    chosen = ordered[:most]
    for task_doubts in doubts:
        if not task_doubts[chosen].any():
            chosen += [text for text in ordered if task_doubts[text]][:1]
    return chosen


def trace_rows(
    task: str,
    text_id: str,
    words: Int[np.ndarray, "target span 2"],
    probabilities: Float[np.ndarray, "layer target label"],
    labels: Sequence[str],
    gold: Bool[np.ndarray, "target label"] | None,
    seed: int,
    *,
    rated: Bool[np.ndarray, "target label"] | None = None,
) -> list[TraceRow]:
    """For each target its gold labels and the wrong one with the highest mean probability over layers.

    Where the gold labels are not known, the two labels with the highest mean probability. A label that was not
    `rated` is neither right nor wrong, and is not shown.

    Example:
        >>> rows = trace_rows("pos", "s1", np.array([[[0, 1]]]), np.array([[[0.9, 0.4]], [[0.2, 0.7]]]),
        ...                   ["X", "Y"], np.array([[False, True]]), seed=0)
        >>> [(row.label, row.gold, row.layer, row.probability) for row in rows]
        [('Y', True, 0, 0.4), ('Y', True, 1, 0.7), ('X', False, 0, 0.9), ('X', False, 1, 0.2)]
    """
    rows = []
    for target, spans in enumerate(words):
        span_names = [f"{start}:{end}" for start, end in spans.tolist()]
        places = (text_id, task, seed, span_names[0], span_names[1] if len(span_names) > 1 else "")
        by_layer = probabilities[:, target]
        mask = None if rated is None else rated[target]
        for column, holds in _columns_of(by_layer, None if gold is None else gold[target], mask):
            series = np.round(by_layer[:, column].astype(np.float64), 5).tolist()
            rows += [
                TraceRow(*places, labels[column], holds, layer, probability) for layer, probability in enumerate(series)
            ]
    return rows


def _columns_of(
    probabilities: Float[np.ndarray, "layer label"], gold: np.ndarray | None, rated: np.ndarray | None
) -> list[tuple[int, bool | None]]:
    """The columns to show of one target, and whether each holds."""
    order = np.argsort(-np.mean(probabilities, axis=0, dtype=np.float64), kind="stable")
    if rated is not None:
        order = order[rated[order]]
    if gold is None:
        return [(column, None) for column in order[:2].tolist()]
    columns = np.concatenate([np.flatnonzero(gold), order[~gold[order]][:1]])
    return [(column, bool(gold[column])) for column in columns.tolist()]


WORDS = ("text_id", "position", "word")
"""Columns of `words.csv`."""


def words_table(texts: Iterable[tuple[str, Sequence[str]]]) -> pd.DataFrame:
    """Texts, as (id, words), one row per word: what a figure marks the traced spans in.

    Example:
        >>> words_table([("s1", ["Dogs", "bark"])]).to_dict("list")
        {'text_id': ['s1', 's1'], 'position': [0, 1], 'word': ['Dogs', 'bark']}
    """
    rows = [(text_id, position, word) for text_id, words in texts for position, word in enumerate(words)]
    return pd.DataFrame(rows, columns=list(WORDS))


_ROWS = 2**16
"""Of one row group: what is in memory at a time."""
_DICTIONARY = ["text_id", "doc", "words1", "words2", "gold.list.element", "tuning_seed", "seed", "probe", "layer"]
TEXTS = "texts.parquet"
"""The file with the words of all scored texts."""
_SPLIT = ["probabilities.list.element"]


class Predictions(NamedTuple):
    """A table of predictions, read back."""

    task: str
    labels: tuple[str, ...]
    """What each number of a row's `probabilities` is the probability of; `value` for a graded task."""
    table: pd.DataFrame
    """One row per scored target, seed and probe."""


def write_predictions(run: TaskRun, scored: Corpus, folder: Path) -> Path:
    """Write `<task>.predictions.parquet`: target by target what the model's probes of every seed say.

    Gold labels are all that hold, those that training never saw among them.
    """
    path = folder / f"{run.task.name}.predictions.parquet"
    targets = _targets(run, scored)
    schema = _schema(run, targets, scored.name)
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
    arrays["scored"] = _scored(run)
    order = ["text_id", "doc", "start1", "end1", "words1", "start2", "end2", "words2", "gold", "unseen", "scored"]
    if run.targets.values is not None:
        arrays["value"] = pa.array(run.targets.values, pa.float64())
        order.append("value")
    return pa.table({name: arrays[name] for name in order})


def _scored(run: TaskRun) -> pa.Array:
    """Which labels' decisions count, target by target; null where all do that the task scores."""
    rated = run.targets.rated
    kind = pa.list_(pa.bool_())
    if rated.all():
        return pa.nulls(len(rated), kind)
    return pa.array([None if row.all() else row.tolist() for row in rated], kind)


def _schema(run: TaskRun, targets: pa.Table, corpus: str) -> pa.Schema:
    labels = run.targets.labels
    header = {"task": run.task.name, "labels": labels, "corpus": corpus, "unscored": sorted(run.task.unscored)}
    about = {"lamina": json.dumps(header)}
    probe_fields = [
        # Null where one model was probed.
        pa.field("tuning_seed", pa.int32()),
        pa.field("seed", pa.int32()),
        pa.field("probe", pa.string()),
        pa.field("layer", pa.int32()),
        pa.field("probabilities", pa.list_(pa.float32(), len(labels))),
    ]
    return pa.schema([*targets.schema, *probe_fields], about)


def _tables(run: TaskRun, targets: pa.Table, schema: pa.Schema) -> Iterator[pa.Table]:
    for outcome in run.outcomes:
        if outcome.of != "model" or outcome.predicted is None:
            continue
        for cut, predicted in zip(outcome.cuts, outcome.predicted, strict=True):
            for start in range(0, len(targets), _ROWS):
                rows = targets.slice(start, _ROWS)
                flat = pa.array(predicted[start : start + _ROWS].astype(np.float32).ravel())
                places = (outcome.tuned, outcome.seed, cut.layer)
                tuned, seed, layer = (pa.array([number] * len(rows), pa.int32()) for number in places)
                about = [tuned, seed, pa.array([cut.probe] * len(rows), pa.string()), layer]
                probabilities = pa.FixedSizeListArray.from_arrays(flat, predicted.shape[1])
                columns = [chunk.combine_chunks() for chunk in rows.columns]
                yield pa.table([*columns, *about, probabilities], schema=schema)


def write_texts(corpora: Sequence[Corpus], folder: Path) -> Path:
    """Write `texts.parquet`: `corpus,text_id,doc,words` of every scored text."""
    texts = [(corpus.name, text) for corpus in corpora for text in corpus]
    columns = {
        "corpus": pa.array([name for name, _ in texts], pa.string()),
        "text_id": pa.array([text.id for _, text in texts], pa.string()),
        "doc": pa.array([text.doc for _, text in texts], pa.string()),
        "words": pa.array([list(text.words) for _, text in texts], pa.list_(pa.string())),
    }
    path = folder / TEXTS
    with fresh_path(path) as fresh:
        pq.write_table(pa.table(columns), fresh, compression="zstd")
    return path


# Predictions of saved probes for every scored target, layer by layer, read from `TASK.predictions.parquet`.

SUFFIX = ".predictions.parquet"
_PLACES = ("start1", "end1", "start2", "end2")


@dataclass(frozen=True, eq=False)
class SavedTargets:
    """Some scored targets of one task, in the order of the file."""

    texts: tuple[str, ...]
    """Ids of the texts that have targets."""
    text: Int[np.ndarray, " target"]
    """Number of its text in `texts`."""
    words: Int[np.ndarray, "target span 2"]
    """First word and one past the last, for each span."""
    gold: Bool[np.ndarray, "target label"]
    """Which of the labels that probes know hold."""
    rated: Bool[np.ndarray, "target label"]
    """Which labels annotators were asked about."""
    unseen: Int[np.ndarray, " target"]
    """Number of labels that hold and that training never saw: no probe can be right."""
    documents: tuple[str, ...] = ()
    """The document of each text; none where the file does not say."""

    def __len__(self) -> int:
        return len(self.text)


@dataclass(frozen=True, eq=False)
class ProbeDecisions:
    """What the probes P(0)..P(L) of every seed decided about every target of one task."""

    task: str
    corpus: str
    seeds: tuple[int, ...]
    targets: SavedTargets
    labels_given: UInt8[np.ndarray, "seed layer target byte"]
    """The labels decided for, one bit per label: two decisions are the same if all bytes are."""
    right: Bool[np.ndarray, "seed layer target"]
    """Whether the decision is exactly the gold labels."""


class SavedPredictions:
    """One task's file of predictions: what it is about is read at once, the numbers when they are asked for.

    Where models of several fine-tuning seeds were probed, it is about the first: a decision is one model's.

    Example:
        >>> saved = SavedPredictions(Path("results/probe/pos.predictions.parquet"), "ewt")  # doctest: +SKIP
        >>> saved.decisions().right.shape  # doctest: +SKIP
        (2, 7, 25147)
    """

    def __init__(self, path: Path, corpus: str) -> None:
        """`corpus` is the name to use where the file does not name its corpus."""
        self._path = path
        with self._reading():
            self._rows = ds.dataset(path)
            head: Mapping[str, Any] = json.loads((self._rows.schema.metadata or {})[b"lamina"])
            self.task: str = head["task"]
            self.labels: tuple[str, ...] = tuple(head["labels"])
            self.corpus: str = head.get("corpus") or corpus
            self._tuned = self._first_model()
            cuts = self._table(["seed", "layer"]).group_by(["seed", "layer"]).aggregate([]).to_pydict()
            self.seeds: tuple[int, ...] = tuple(sorted(set(cuts["seed"])))
            layers = sorted(set(cuts["layer"]))
            whole = len(cuts["seed"]) == len(self.seeds) * len(layers) and layers == list(range(len(layers)))
            self.layers: int = len(layers) if whole and len(layers) > 1 else 0
            """Layers that P(l) was trained for, from 0 on; 0 where there are not all of them."""

    @property
    def reason(self) -> str:
        """Why there are no decisions to follow from layer to layer; empty where there are."""
        if "value" in self._rows.schema.names:
            return "graded values, nothing to decide between"
        return "" if self.layers else "no probes P(0)..P(L)"

    def targets(self, texts: Sequence[str] | None = None) -> SavedTargets:
        """The targets of these texts, or all."""
        optional = [name for name in ("doc", "unseen", "scored") if name in self._rows.schema.names]
        with self._reading():
            table = self._table(["text_id", *_PLACES, "gold", *optional], *self._first(), texts=texts)
            ids = table["text_id"].combine_chunks().dictionary_encode()
            places = [table[name] for name in _PLACES if table[name].null_count < len(table)]
            spans = [
                np.stack([place.to_numpy() for place in pair], axis=-1)
                for pair in zip(places[::2], places[1::2], strict=True)
            ]
            gold = self._gold(table["gold"].combine_chunks())
            rated = np.ones_like(gold)
            if "scored" in optional:
                some = table["scored"].combine_chunks()
                listed = some.is_valid().to_numpy(zero_copy_only=False)
                rated[listed] = some.flatten().to_numpy(zero_copy_only=False).reshape(-1, len(self.labels))
            unseen = table["unseen"].to_numpy() if "unseen" in optional else np.zeros(len(table), np.int32)
            of_text = (
                dict(zip(table["text_id"].to_pylist(), table["doc"].to_pylist(), strict=True))
                if "doc" in optional
                else {}
            )
        words = np.stack(spans, axis=1).astype(np.int64) if spans else np.zeros((0, 1, 2), np.int64)
        names = tuple(ids.dictionary.to_pylist())
        documents = tuple(of_text[name] or name for name in names) if of_text else ()
        return SavedTargets(names, ids.indices.to_numpy(), words, gold, rated, unseen, documents)

    def probabilities(
        self, seed: int, layer: int, texts: Sequence[str] | None = None
    ) -> Float[np.ndarray, "target label"]:
        """Of every label under P(layer), for the targets of these texts, or of all."""
        with self._reading():
            column = self._table(["probabilities"], seed, layer, texts=texts)["probabilities"]
            return column.combine_chunks().flatten().to_numpy().reshape(-1, len(self.labels))

    def decisions(self) -> ProbeDecisions:
        """The decisions about every target; one layer of one seed is in memory at a time."""
        targets = self.targets()
        gold = targets.gold & targets.rated
        # Where every target has one label, a probe says the one it finds most probable.
        single = len(self.labels) > 1 and bool(targets.rated.all() and (gold.sum(1) + targets.unseen == 1).all())
        width = -(-len(self.labels) // 8)
        shape = (len(self.seeds), self.layers, len(targets))
        labels_given, right = np.empty((*shape, width), np.uint8), np.empty(shape, bool)
        for row, seed in enumerate(self.seeds):
            for layer in range(self.layers):
                probabilities = self.probabilities(seed, layer)
                if len(probabilities) != len(targets):
                    raise ResultError(f"{self._path} has not the same targets at every layer; probe again")
                chosen = _strongest(probabilities) if single else (probabilities >= 0.5) & targets.rated
                labels_given[row, layer] = np.packbits(chosen, axis=1)
                right[row, layer] = (chosen == gold).all(1) & (targets.unseen == 0)
        return ProbeDecisions(self.task, self.corpus, self.seeds, targets, labels_given, right)

    def _first(self) -> tuple[int, int]:
        return self.seeds[0], 0

    def _first_model(self) -> int | None:
        """The first fine-tuning seed; None where one model was probed, and in older results."""
        if "tuning_seed" not in self._rows.schema.names:
            return None
        seeds = self._rows.to_table(columns=["tuning_seed"])["tuning_seed"].unique().drop_null().to_pylist()
        return min(seeds, default=None)

    def _table(
        self,
        columns: list[str],
        seed: int | None = None,
        layer: int | None = None,
        *,
        texts: Sequence[str] | None = None,
    ) -> pa.Table:
        """Rows of the cumulative probes; what is filtered by seed and layer is skipped without being read."""
        selection = ds.scalar(True)
        # Older results have no other probes.
        if "probe" in self._rows.schema.names:
            selection &= ds.field("probe") == "cumulative"
        if self._tuned is not None:
            selection &= ds.field("tuning_seed") == self._tuned
        if seed is not None:
            selection &= (ds.field("seed") == seed) & (ds.field("layer") == layer)
        if texts is not None:
            selection &= ds.field("text_id").isin(list(texts))
        return self._rows.to_table(columns=columns, filter=selection)

    def _gold(self, lists: pa.ListArray) -> Bool[np.ndarray, "target label"]:
        """Which labels each list names."""
        holds = np.zeros((len(lists), len(self.labels)), bool)
        named = lists.flatten().dictionary_encode()
        place = {label: column for column, label in enumerate(self.labels)}
        columns = np.array([place.get(label, -1) for label in named.dictionary.to_pylist()], np.int64)[named.indices]
        rows = np.repeat(np.arange(len(lists)), lists.value_lengths().to_numpy())
        holds[rows[columns >= 0], columns[columns >= 0]] = True
        return holds

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (OSError, KeyError, ValueError, pa.ArrowException) as error:
            raise ResultError(f"{self._path} holds no predictions that can be read ({error}); probe again") from error


def _strongest(probabilities: Float[np.ndarray, "target label"]) -> Bool[np.ndarray, "target label"]:
    chosen = np.zeros(probabilities.shape, bool)
    chosen[np.arange(len(probabilities)), probabilities.argmax(1)] = True
    return chosen


def saved_predictions(probed: Result) -> list[SavedPredictions]:
    """The predictions of every task of a probing result."""
    corpus = str(probed.provenance.corpus.get("name", ""))
    return [SavedPredictions(path, corpus) for name, path in probed.files.items() if name.endswith(SUFFIX)]


def saved_words(probed: Result) -> dict[tuple[str, str], tuple[str, ...]]:
    """(Corpus, text id) -> the words of every scored text."""
    if TEXTS not in probed.files:
        raise ResultError("the result does not hold its texts: it was made by an older lamina; probe again")
    path = probed.files[TEXTS]
    try:
        table = ds.dataset(path).to_table(columns=["corpus", "text_id", "words"]).to_pydict()
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise ResultError(f"{path} holds no texts that can be read ({error}); probe again") from error
    keys = zip(table["corpus"], table["text_id"], strict=True)
    return {key: tuple(words) for key, words in zip(keys, table["words"], strict=True)}
