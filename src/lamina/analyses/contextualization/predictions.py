"""What every probe said of every scored occurrence, as a Parquet file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lamina.analyses.contextualization.answers import Answers
from lamina.analyses.contextualization.words_in_context import WordsInContext
from lamina.files.writing import fresh_path

if TYPE_CHECKING:
    import pyarrow

NAME = "occurrences.parquet"
"""In a result folder."""


def write_predictions(path: Path, data: WordsInContext, split: str, answers: Iterable[Answers]) -> None:
    """One row per occurrence of the split's words, row of vectors and seed, one block of rows after the other.

    Columns: `text_id,start,end,word,classes,representation,layer,context,seed,said`; `classes` are the true ones,
    `said` those whose probe said yes.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    items = data.of(split)
    columns = _about(data, items)
    schema = pa.schema(
        [
            *((name, column.type) for name, column in columns.items()),
            ("representation", pa.string()), ("layer", pa.int32()), ("context", pa.string()), ("seed", pa.int32()),
            ("said", pa.list_(pa.string())),
        ],
        metadata={"lamina": json.dumps({"classes": data.classes, "split": split})},
    )  # fmt: skip
    with fresh_path(path) as fresh, pq.ParquetWriter(fresh, schema, compression="zstd") as writer:
        for of_layer in answers:
            about = {"representation": of_layer.representation, "layer": of_layer.layer, "context": of_layer.context}
            constant = [
                pa.array([value] * len(items), schema.field(name).type)
                for name, value in {**about, "seed": of_layer.seed}.items()
            ]
            predicted = _names(of_layer.said[items], data.classes)
            writer.write_table(pa.table([*columns.values(), *constant, predicted], schema=schema))


def _about(data: WordsInContext, items: np.ndarray) -> dict[str, pyarrow.Array]:
    """What is the same for all probes."""
    import pyarrow as pa

    wanted = np.unique(data.text[items])
    used = set(wanted.tolist())
    ids = [text.id for number, text in enumerate(data.texts) if number in used]
    spelled = pa.array([word.encode("utf-8", "replace").decode() for word in data.words], pa.string())
    named = pa.array([name.encode("utf-8", "replace").decode() for name in ids], pa.string())
    return {
        "text_id": named.take(pa.array(np.searchsorted(wanted, data.text[items]))),
        "start": pa.array(data.spans[items, 0], pa.int32()),
        "end": pa.array(data.spans[items, 1], pa.int32()),
        "word": spelled.take(pa.array(data.word[items])),
        "classes": _names(data.gold[items], data.classes),
    }


def _names(holds: np.ndarray, classes: tuple[str, ...]) -> pyarrow.Array:
    """[item] The names of the classes that hold."""
    import pyarrow as pa

    rows, labels = np.nonzero(holds)
    starts = np.searchsorted(rows, np.arange(len(holds) + 1))
    names = pa.array(classes, pa.string()).take(pa.array(labels))
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), names)
