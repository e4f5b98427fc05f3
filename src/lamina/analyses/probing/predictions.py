"""What probes predicted, target by target, as files that come with a result."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from lamina.analyses.probing.checkpoints import TaskRun
from lamina.corpora import Corpus
from lamina.errors import ResultError
from lamina.files.writing import fresh_path

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
    told = {"task": run.task.name, "labels": labels, "corpus": corpus, "unscored": sorted(run.task.unscored)}
    about = {"lamina": json.dumps(told)}
    own = [
        # Null where one model was probed.
        pa.field("tuning_seed", pa.int32()),
        pa.field("seed", pa.int32()),
        pa.field("probe", pa.string()),
        pa.field("layer", pa.int32()),
        pa.field("probabilities", pa.list_(pa.float32(), len(labels))),
    ]
    return pa.schema([*targets.schema, *own], about)


def _tables(run: TaskRun, targets: pa.Table, schema: pa.Schema) -> Iterator[pa.Table]:
    for outcome in run.outcomes:
        if outcome.of != "model" or outcome.predicted is None:
            continue
        for cut, said in zip(outcome.cuts, outcome.predicted, strict=True):
            for at in range(0, len(targets), _ROWS):
                rows = targets.slice(at, _ROWS)
                flat = pa.array(said[at : at + _ROWS].astype(np.float32).ravel())
                places = (outcome.tuned, outcome.seed, cut.layer)
                tuned, seed, layer = (pa.array([number] * len(rows), pa.int32()) for number in places)
                about = [tuned, seed, pa.array([cut.probe] * len(rows), pa.string()), layer]
                probabilities = pa.FixedSizeListArray.from_arrays(flat, said.shape[1])
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
