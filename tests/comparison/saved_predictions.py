"""Writes a table of predictions by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

LABELS = ("A", "B", "C", "D")


def write_predictions(path: Path, rows: list[dict], **head: Any) -> Path:
    """A file of predictions, as `lamina probe` writes it."""
    about = {"task": path.name.partition(".")[0], "labels": list(LABELS), "corpus": "ewt"} | head
    width = len(about["labels"])
    types = {"seed": pa.int32(), "layer": pa.int32(), "unseen": pa.int32(), "gold": pa.list_(pa.string()),
             "scored": pa.list_(pa.bool_()), "probabilities": pa.list_(pa.float32(), width),
             "value": pa.float64()}  # fmt: skip
    names = list(rows[0]) if rows else ["text_id", "gold", "unseen", "seed", "probe", "layer", "probabilities"]
    schema = pa.schema([(name, types.get(name, pa.int32() if name[-1] in "12" else pa.string())) for name in names])
    table = pa.Table.from_pylist(rows, schema.with_metadata({"lamina": json.dumps(about)}))
    # Groups of rows do not end where a probe's rows do, and each has its own dictionaries.
    pq.write_table(table, path, row_group_size=500)
    return path
