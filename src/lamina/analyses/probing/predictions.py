"""What was predicted: every scored target with the probability of every label, as one Parquet table a task."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lamina.analyses.probing.outcomes import TaskRun
from lamina.corpora import Corpus
from lamina.errors import ResultError

if TYPE_CHECKING:
    import pandas

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
    """One row a scored target, seed and cumulative probe."""


def write_predictions(run: TaskRun, scored: Corpus, folder: Path) -> Path:
    """Write `<task>.predictions.parquet`: target by target what the model's cumulative probes of every seed say.

    Gold labels are all that hold, those that training never saw among them.
    """
    path = folder / f"{run.task.name}.predictions.parquet"
    targets = _targets(run, scored)
    schema = _schema(run, targets)
    fresh = path.with_suffix(".tmp")
    settings: dict[str, Any] = {"use_dictionary": _DICTIONARY, "use_byte_stream_split": _SPLIT}
    with pq.ParquetWriter(fresh, schema, compression="zstd", **settings) as writer:
        for table in _tables(run, targets, schema):
            writer.write_table(table, row_group_size=_ROWS)
    fresh.replace(path)
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
