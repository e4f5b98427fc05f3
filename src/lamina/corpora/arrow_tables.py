"""Tables as Parquet and Arrow files (Feather, streams, `save_to_disk` of `datasets`), read one batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lamina.corpora.delimited import Row, unique_names
from lamina.corpora.reading import Fault, Report
from lamina.errors import FormatError
from lamina.files.reading import open_regular, parse_json

if TYPE_CHECKING:
    import pyarrow

Make = Literal["Parquet", "Arrow file", "Arrow stream"]
_MAGIC: Mapping[bytes, Make] = {b"PAR1": "Parquet", b"ARROW1": "Arrow file"}
_STREAM = b"\xff\xff\xff\xff"
_BATCH = 1000
_PACKED = 1000
"""How many times smaller a column may be on disk; what is packed more tightly is made to fill the memory."""
_LARGE = 1 << 26
"""Bytes of text that are never too many."""
_EXPECTED = "a whole Parquet or Arrow file"


def make_of(path: Path) -> Make | None:
    """Which kind of Arrow table a file is, by its first bytes; None if it is none."""
    with open_regular(path) as file:
        start = file.read(8)
    if start[:4] == _STREAM:
        return "Arrow stream"
    return next((make for magic, make in _MAGIC.items() if start.startswith(magic)), None)


def schema_of(path: Path, make: Make) -> pyarrow.Schema:
    """The columns of a file and their types."""
    import pyarrow
    import pyarrow.parquet

    try:
        if make == "Parquet":
            with pyarrow.parquet.ParquetFile(path) as file:
                schema = file.schema_arrow
        else:
            with pyarrow.OSFile(str(path)) as source:
                schema = (_ipc(make)(source)).schema
        # Names are decoded only now, and may be no UTF-8.
        _ = schema.names
        return schema
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise FormatError(f"{path} cannot be read as {make}: {_first_line(error)}; expected {_EXPECTED}") from None


def rows_of(path: Path, make: Make, columns: Sequence[str] | None, report: Report) -> Iterator[Row]:
    """The rows of a file, with these columns (all if None)."""
    import pyarrow

    number = unpacked = 0
    most = max(_LARGE, _PACKED * path.stat().st_size)
    batches = _parquet(path, columns) if make == "Parquet" else _arrow(path, make)
    while True:
        try:
            batch = next(batches, None)
        except (pyarrow.ArrowException, OSError, ValueError, MemoryError) as error:
            report(Fault(path, number + 1, f"{make} that cannot be read ({_first_line(error)})", _EXPECTED))
            return
        if batch is None:
            return
        named = enumerate(unique_names(batch.schema.names))
        held = {name: batch.column(at) for at, name in named if columns is None or name in columns}
        for at in range(batch.num_rows):
            number += 1
            try:
                # One row at a time: a value that a dictionary holds once may occur in every row.
                values = {name: column[at].as_py() for name, column in held.items()}
            except (pyarrow.ArrowException, ValueError, OverflowError) as error:
                report(Fault(path, number, f"a cell that cannot be read ({_first_line(error)})", "text or numbers"))
                continue
            unpacked += sum(len(cell) for cell in values.values() if isinstance(cell, str))
            if unpacked > most:
                what = f"more than {most >> 20:,} MB of text in a file of {path.stat().st_size >> 10:,} KB"
                report(Fault(path, number, what, _EXPECTED))
                return
            yield Row(number, values)


def class_names(schema: pyarrow.Schema) -> dict[str, tuple[str, ...]]:
    """Column -> names of its classes, where `datasets` wrote them into the file."""
    found: dict[str, tuple[str, ...]] = {}
    with suppress(ValueError, LookupError, TypeError, AttributeError):
        features = parse_json((schema.metadata or {})[b"huggingface"].decode())["info"]["features"]
        found = {column: names for column, feature in features.items() if (names := _names_in(feature))}
    return found


def _names_in(feature: Any) -> tuple[str, ...]:
    """The names of the classes that a feature, or the items of a list, may have."""
    while isinstance(feature, list) or (isinstance(feature, dict) and "feature" in feature):
        feature = feature[0] if isinstance(feature, list) else feature["feature"]
    return tuple(map(str, feature["names"])) if feature.get("_type") == "ClassLabel" else ()


def fractions(schema: pyarrow.Schema) -> tuple[str, ...]:
    """The columns whose type is a number with a fraction."""
    import pyarrow

    return tuple(field.name for field in schema if pyarrow.types.is_floating(field.type))


def _parquet(path: Path, columns: Sequence[str] | None) -> Iterator[Any]:
    import pyarrow
    import pyarrow.parquet

    schema = pyarrow.parquet.read_schema(path)
    # Columns of the same name can only be told apart when all are read.
    columns = columns if len(set(schema.names)) == len(schema.names) else None
    strings = [field.name for field in schema if pyarrow.types.is_string(field.type)]
    with pyarrow.parquet.ParquetFile(path, read_dictionary=strings) as file:
        for number in range(file.num_row_groups):
            _refuse_bomb(file.metadata.row_group(number))
            yield from file.iter_batches(_BATCH, row_groups=[number], columns=columns, use_threads=False)


def _refuse_bomb(group: Any) -> None:
    for number in range(group.num_columns):
        column = group.column(number)
        unpacked, packed = column.total_uncompressed_size, max(column.total_compressed_size, 1)
        if unpacked > _LARGE and unpacked > _PACKED * packed:
            raise ValueError(f"{unpacked >> 20:,} MB of one column are packed into {packed >> 10:,} KB")


def _arrow(path: Path, make: Make) -> Iterator[Any]:
    import pyarrow

    with pyarrow.OSFile(str(path)) as source:
        reader = _ipc(make)(source)
        stream = reader if make == "Arrow stream" else map(reader.get_batch, range(reader.num_record_batches))
        for batch in stream:
            # The offsets within a file from outside may point anywhere.
            batch.validate(full=True)
            yield from (batch.slice(start, _BATCH) for start in range(0, batch.num_rows, _BATCH))


def _ipc(make: Make) -> Any:
    import pyarrow.ipc

    return pyarrow.ipc.open_stream if make == "Arrow stream" else pyarrow.ipc.open_file


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
