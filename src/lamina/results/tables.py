"""The tables of a saved result: CSV, which anyone can open, or Parquet where there is one row per item."""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Mapping
from io import BytesIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamina.errors import ResultError
from lamina.files.reading import read_regular

if TYPE_CHECKING:
    import pandas

_TEXT = ("str", "string", "object")
_LARGE, _PACKED, _MOST = 2**28, 100, 2**31
"""Bytes that a Parquet table may unpack to: a few hundred megabytes, or this many times its size, but never more."""
_BATCH = 8192
"""Rows that are unpacked at once."""
_DTYPES = re.compile(rf"{'|'.join(_TEXT)}|category|bool|boolean|[Uu]?[Ii]nt(8|16|32|64)|[Ff]loat(16|32|64)")
"""What a column can be read back as."""


def table_file(name: str, head: Mapping[str, Any]) -> str:
    """The file of a table, as `result.json` says how it is kept.

    Example:
        >>> head = {"tables": {"pairs": {}, "items": {}}, "parquet": ["items"]}
        >>> table_file("pairs", head), table_file("items", head)
        ('pairs.csv', 'items.parquet')
    """
    return f"{name}.parquet" if name in head.get("parquet", ()) else f"{name}.csv"


def write_table(table: pandas.DataFrame, path: Path) -> dict[str, str]:
    """Write a table in the format of the file's suffix; returns its columns and what they are read back as."""
    names = [str(column) for column in table.columns]
    if len({*names}) < len(names):
        raise ResultError(f"two columns of the table {path.stem!r} have the same name; rename one of {names}")
    types = map(str, table.dtypes)
    dtypes = {name: dtype if _DTYPES.fullmatch(dtype) else "str" for name, dtype in zip(names, types, strict=True)}
    if path.suffix == ".parquet":
        _write_parquet(table.set_axis(names, axis="columns"), dtypes, path)
    else:
        table.to_csv(path, index=False, header=names)
    return dtypes


def read_table(folder: Path, name: str, head: Mapping[str, Any]) -> pandas.DataFrame:
    """A table of a result, compared with its hash; a ValueError says what is wrong with it."""
    file, dtypes, listed = table_file(name, head), head["tables"][name], head.get("hashes", {})
    content = read_regular(folder / file)
    if file in listed and hashlib.sha256(content).hexdigest() != listed[file]["sha256"]:
        raise ValueError(f"{file} is damaged")
    odd = [f"{dtype!r} of {column!r}" for column, dtype in dtypes.items() if not _DTYPES.fullmatch(dtype)]
    if odd:
        raise ValueError(f"{file}: the type {odd[0]} is unknown")
    return (_read_parquet if file.endswith(".parquet") else _read_csv)(file, content, dtypes)


def _read_csv(file: str, content: bytes, dtypes: Mapping[str, str]) -> pandas.DataFrame:
    import pandas as pd

    columns = next(csv.reader(StringIO(content.decode("utf-8"), newline="")), [])
    _expect_columns(file, columns, dtypes)
    # An empty cell is a missing number, but for labels an empty string; 'NA' and 'None' are ordinary labels.
    numbers = {column: [""] for column, dtype in dtypes.items() if dtype not in _TEXT}
    table = pd.read_csv(
        BytesIO(content), dtype=dict(dtypes), header=0, names=columns, keep_default_na=False, na_values=numbers
    )
    if not isinstance(table.index, pd.RangeIndex):
        # pandas makes an index of what it has no column for.
        raise ValueError(f"{file} has rows of more than {len(columns)} cells")
    return table


def _write_parquet(table: pandas.DataFrame, dtypes: Mapping[str, str], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    # As in CSV: a missing label is an empty string.
    plain = {
        column: table[column].astype(object).where(table[column].notna(), "").map(str)
        if dtype in _TEXT
        else table[column]
        for column, dtype in dtypes.items()
    }
    # pandas' own description of the index and the types is left out: `result.json` has the types.
    pq.write_table(pa.table({name: pa.Array.from_pandas(column) for name, column in plain.items()}), path)


def _read_parquet(file: str, content: bytes, dtypes: Mapping[str, str]) -> pandas.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    most = min(_MOST, max(_LARGE, _PACKED * len(content)))
    batches: list[pa.RecordBatch] = []
    try:
        with pq.ParquetFile(pa.BufferReader(content)) as stored_file:
            schema = stored_file.schema_arrow
            for batch in stored_file.iter_batches(_BATCH, use_threads=False):
                batches.append(batch)
                most -= batch.nbytes
                if most < 0:
                    raise ValueError(f"{file} unpacks to far more than its {len(content) >> 10:,} KB")
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{file} is not a Parquet table ({error})") from error
    stored = pa.Table.from_batches(batches, schema)
    _expect_columns(file, stored.column_names, dtypes)
    return stored.to_pandas(ignore_metadata=True).astype(dict(dtypes))


def _expect_columns(file: str, columns: list[str], dtypes: Mapping[str, str]) -> None:
    if columns != [*dtypes]:
        raise ValueError(f"{file} has the columns {', '.join(columns)} instead of {', '.join(dtypes)}")
