"""The folder of a saved result: its head, its tables (CSV or Parquet), its damage, and what may replace it."""

from __future__ import annotations

import csv
import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from io import BytesIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lamina.errors import DamagedError, InputError, ResultError
from lamina.files.checking import changed_files, read_json
from lamina.files.reading import read_regular
from lamina.files.writing import recover

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa


FORMAT = 4
"""Format of result folders; raised when an older lamina could not read a newer folder."""
HEAD = "result.json"
WITH_CONTRASTS = 4
"""From this format on, findings name the contrast that was tested."""
_READABLE = (1, 2, 3, FORMAT)
"""Format 1 had neither findings nor versions; before format 3, every table was CSV."""
LARGEST_HEAD = 2 * 1024**2
"""Most bytes of a `result.json`; those of real results have a few thousand."""
RENAMED = {"said": "probe_vs_lens"}
"""Older name of an analysis whose saved results are not read any more -> its name today."""
_NOT_A_NAME = re.compile(r"[/\\\0]|^\.{0,2}$")
_OLDER_SAVE = re.compile(r"[a-z0-9_]{8}")
"""End of the name of the hidden folder in which older versions of lamina saved, and which a kill left behind."""
_SETTLED = 10.0
"""Seconds after which an older version of lamina is not between its two renames any more."""
_ABANDONED = 86_400.0
"""Seconds after which an older version of lamina does not write there any more."""


def question_key(analysis: str, model: str, data: str, parameters: Mapping[str, Any]) -> str:
    """A hash of the question: the analysis, its inputs and its settings, but not its version.

    Example:
        >>> one, same = ({"b": 1, "a": 2}, {"a": 2, "b": 1})
        >>> question_key("geometry", "m", "c", one) == question_key("geometry", "m", "c", same)
        True
    """
    question = [analysis, model, data, dict(parameters)]
    return hashlib.sha256(json.dumps(question, sort_keys=True, default=str).encode()).hexdigest()


def read_head(folder: Path) -> dict[str, Any]:
    """The `result.json` of a result folder, checked for damage, its format and the names in it."""
    path = folder / HEAD
    if not path.exists():
        # Moved aside, perhaps, by a process that is replacing it or was killed.
        put_back(folder)
    try:
        if path.stat().st_size > LARGEST_HEAD:
            raise ResultError(f"{path} has {path.stat().st_size:,} bytes, too many for a result; make the result again")
        head = read_json(path)
    except FileNotFoundError:
        raise ResultError(f"{folder} is not a result folder: it has no {HEAD}") from None
    except ResultError:
        raise
    except (OSError, InputError, ValueError, DamagedError) as error:
        raise ResultError(f"{path} cannot be read ({error}); make the result again") from error
    if head.get("format") not in _READABLE:
        raise ResultError(
            f"{path} has format {head.get('format')}, this lamina reads up to {FORMAT}; {how_to_remake(head)}, "
            "or update lamina"
        )
    renamed = RENAMED.get(str(head.get("analysis")))
    if renamed is not None:
        raise ResultError(
            f"{path} is of `{head['analysis']}`, which is `{renamed}` today, with other names of columns; "
            f"{how_to_remake(head)}"
        )
    for part, kind in (("tables", dict), ("parquet", list), ("files", list), ("hashes", dict)):
        names = head.get(part, kind())
        if not isinstance(names, kind):
            raise ResultError(f"{path} does not list its {part}; {how_to_remake(head)}")
        refuse_names(names, path, nested=part in ("files", "hashes"))
    return head


def check_listed(folder: Path) -> None:
    """Raise a DamagedError if a file of a result is not as it was saved; a folder without a list of hashes is fine.

    The folder is a result, or one that lies in a result (the model of one seed).
    """
    put_back(folder)
    home, start = (folder, "") if (folder / HEAD).exists() else (folder.parent, f"{folder.name}/")
    if not (home / HEAD).exists():
        return
    try:
        head = read_head(home)
    except ResultError:
        return
    listed = {name: file for name, file in head.get("hashes", {}).items() if name.startswith(start)}
    changed = changed_files(home, listed)
    if changed:
        raise DamagedError(f"{changed[0]} is missing or damaged; {how_to_remake(head)}")


def is_as_saved(folder: Path, name: str) -> bool:
    """Whether a file of a result is as it was saved, as far as can be known: older results have no hashes."""
    try:
        listed = read_head(folder).get("hashes", {})
    except ResultError:
        return False
    return not listed or not changed_files(folder, {name: listed.get(name)})


class Leftover(NamedTuple):
    """What a run that was stopped left beside its result."""

    path: Path
    target: Path
    """The result."""
    size: int
    """In bytes."""


def work_folder(target: Path, key: str) -> Path:
    """A hidden folder beside a result, for work that the same command continues."""
    return target.with_name(f".{target.name}.work-{key[:12]}")


def leftovers(root: Path) -> list[Leftover]:
    """The work folders of runs that were stopped, in a folder and below; the same command continues them."""
    return sorted(_works(root))


def _works(root: Path) -> Iterator[Leftover]:
    for folder, inner, _ in os.walk(root):
        works = {name: match for name in inner if (match := _WORK.fullmatch(name))}
        inner[:] = [name for name in inner if not name.startswith(".")]
        for name, match in works.items():
            path = Path(folder) / name
            yield Leftover(path, path.with_name(match["target"]), folder_size(path))


_WORK = re.compile(r"\.(?P<target>.+)\.work-[0-9a-f]{12}")


def folder_size(folder: Path) -> int:
    """Bytes of all files in a folder and below."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def refuse_foreign(target: Path) -> None:
    """Raise an error if the folder holds anything but a result, since saving replaces the folder."""
    if "\0" in str(target):
        raise ResultError(f"{str(target)!r} cannot be the name of a folder; give another")
    if target.exists() and not target.is_dir():
        raise ResultError(f"{target} is a file; give a folder")
    if Path.cwd().is_relative_to(target.resolve()):
        raise ResultError(f"{target} is the current folder or one above it; give a folder below it")
    if target.is_dir() and any(target.iterdir()) and not (target / HEAD).exists():
        raise ResultError(f"{target} holds something other than a result; give a new or empty folder")


def refuse_other(target: Path, question: str, *, replace: bool = False) -> None:
    """Raise an error if the folder holds a result of another model, data or settings, unless `replace` is set."""
    refuse_foreign(target)
    refuse_unwritable(target)
    if replace or not (target / HEAD).exists():
        return
    try:
        head = read_head(target)
    except ResultError as error:
        raise ResultError(f"{error}; to overwrite it, use --replace (replace=True)") from None
    if question_of(head) != question:
        model, corpus = (_about(head, name).get("name", "?") for name in ("model", "corpus"))
        raise ResultError(
            f"{target} holds another result ({head.get('analysis')}: {model} on {corpus}, or with other settings); "
            "give another folder, or use --replace (replace=True) to overwrite it"
        )


def refuse_unwritable(target: Path) -> None:
    """Raise an error where no folder can be written: known before the work, not after it."""
    there = next((path for path in (target, *target.absolute().parents) if path.exists()), Path("/"))
    try:
        if not there.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(there))
        # Permissions alone do not tell: some file systems take no files from anybody.
        with tempfile.TemporaryDirectory(dir=there, prefix=".lamina-"):
            pass
    except OSError as error:
        raise ResultError(f"cannot write to {target}: {there}: {error.strerror}; choose another folder") from error


def refuse_unwritable_file(target: Path) -> None:
    """Raise an error where no file can be written: known before the work, not after it."""
    if target.is_dir():
        raise ResultError(f"{target} is a folder; name a file in it")
    refuse_unwritable(target.parent)


def answer_key(question: str, version: int) -> str:
    """The key of an answer: the question and the version of the analysis."""
    return hashlib.sha256(f"{question} {version}".encode()).hexdigest()


def question_of(head: Mapping[str, Any]) -> str:
    """The question of a saved result; format 1 did not record it."""
    if head.get("question"):
        return str(head["question"])
    model, corpus = (str(_about(head, name).get("fingerprint", "")) for name in ("model", "corpus"))
    return question_key(str(head.get("analysis")), model, corpus, _about(head, "parameters"))


def how_to_remake(head: Mapping[str, Any]) -> str:
    """What to do about an unusable result."""
    provenance = head.get("provenance")
    command = provenance.get("command") if isinstance(provenance, dict) else None
    renamed = RENAMED.get(str(head.get("analysis")))
    if command and renamed is not None:
        command = str(command).replace(f"lamina {head['analysis']} ", f"lamina {renamed.replace('_', '-')} ", 1)
    return f"make it again with `{command}`" if command else "make it again"


def _about(head: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    """A part of the provenance; empty if there is none."""
    provenance = head.get("provenance")
    table = provenance.get(part) if isinstance(provenance, dict) else None
    return table if isinstance(table, dict) else {}


def state_of(folder: Path) -> tuple[int, int, int] | None:
    """Changes whenever the result in a folder is replaced."""
    try:
        state = (folder / HEAD).stat()
    except OSError:
        return None
    return state.st_ino, state.st_mtime_ns, state.st_size


def refuse_names(names: Iterable[Any], where: Path, *, nested: bool = False) -> None:
    """Raise an error for anything but plain names of what lies in the folder itself; `nested`: or in one below it."""
    for name in names:
        parts = name.split("/") if isinstance(name, str) and nested else [name]
        plain = all(isinstance(part, str) and not _NOT_A_NAME.search(part) and part != HEAD for part in parts)
        if not plain or len(parts) > 2:
            raise ResultError(f"{where}: {name!r} cannot be the name of a table or file of a result; use a plain name")


def put_back(target: Path) -> None:
    """Put back a result that a killed process had moved aside, and sweep what it left; also of older versions."""
    with suppress(OSError, ValueError):
        target = Path(os.path.realpath(target))
        recover(target)
        for holder in target.parent.iterdir():
            start, _, end = holder.name.rpartition(".")
            if start == f".{target.name}" and _OLDER_SAVE.fullmatch(end):
                _put_back_older(target, holder)


def _put_back_older(target: Path, holder: Path) -> None:
    age = time.time() - max(path.stat().st_mtime for path in (holder, *holder.iterdir()))
    if not target.exists() and (holder / "old" / HEAD).is_file() and age > _SETTLED:
        (holder / "old").rename(target)
    if target.exists() and {path.name for path in holder.iterdir()} <= {"old", "new"} and age > _ABANDONED:
        shutil.rmtree(holder, ignore_errors=True)


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
            too_large = ValueError(f"{file} unpacks to far more than its {len(content) >> 10:,} KB")
            # What the file says, before any of it is unpacked; then what there is.
            groups = range(stored_file.metadata.num_row_groups)
            if sum(stored_file.metadata.row_group(group).total_byte_size for group in groups) > most:
                raise too_large
            for batch in stored_file.iter_batches(_BATCH, use_threads=False):
                most -= sum(map(_whole_bytes, batch.columns))
                if most < 0:
                    raise too_large
                batches.append(batch)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{file} is not a Parquet table ({error})") from error
    stored = pa.Table.from_batches(batches, schema)
    _expect_columns(file, stored.column_names, dtypes)
    return stored.to_pandas(ignore_metadata=True).astype(dict(dtypes))


def _whole_bytes(column: pa.Array) -> int:
    """Bytes of a column with every value written out, as a CSV has it."""
    import pyarrow as pa
    from pyarrow.compute import call_function

    if not isinstance(column, pa.DictionaryArray):
        return column.nbytes
    values = column.dictionary
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return column.nbytes + values.nbytes * len(column)
    lengths = call_function("binary_length", [values]).to_numpy(zero_copy_only=False)
    return column.nbytes + int(lengths[column.indices.drop_null().to_numpy(zero_copy_only=False)].sum())


def _expect_columns(file: str, columns: list[str], dtypes: Mapping[str, str]) -> None:
    if columns != [*dtypes]:
        raise ValueError(f"{file} has the columns {', '.join(columns)} instead of {', '.join(dtypes)}")
