"""Files of a suite: where they are, and the rows of those that are tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

from lamina.corpora.reading import head_lines, raise_fault
from lamina.corpora.tables.files import (
    DelimitedLayout,
    TableRow,
    arrow_kind,
    arrow_rows,
    delimited_rows,
    is_lines,
    json_rows,
    layout_of,
    list_of,
    unique_names,
)
from lamina.errors import CorpusError, FormatError, LaminaError
from lamina.files.checking import sha256_of
from lamina.files.reading import check_regular

_SUFFIXES = (".jsonl", ".ndjson", ".json", ".tsv", ".csv", ".tab", ".parquet")
"""Of files that hold items; others in a folder are notes."""


def suite_root(name_or_path: str | Path) -> Path:
    """The file or folder of a suite given by name or path."""
    from lamina import assets

    if is_named(name_or_path):
        return assets.locate(str(name_or_path))
    path = Path(name_or_path).expanduser()
    refuse_unknown_suite(str(name_or_path))
    if not path.is_dir():
        check_regular(path)
    return path


def refuse_unknown_suite(name: str, more: Sequence[str] = ()) -> None:
    """Raise a CorpusError for what is neither a suite's name (or one of `more`) nor a path.

    Example:
        >>> refuse_unknown_suite("blinp")
        Traceback (most recent call last):
        lamina.errors.CorpusError: there is no suite, file or folder 'blinp'; did you mean blimp? ...
    """
    from lamina import assets

    known = sorted({*more, *(name for name, card in assets.cards().items() if card.kind == "suite")})
    if name in known or Path(name).expanduser().exists():
        return
    close = get_close_matches(name, known, n=1)
    meant = f"did you mean {close[0]}? Suites" if close else "suites"
    raise CorpusError(f"there is no suite, file or folder {name!r}; {meant} by name: {', '.join(known)}")


def is_named(name_or_path: str | Path) -> bool:
    """Whether it is a suite of the catalogue."""
    from lamina import assets

    card = assets.cards().get(str(name_or_path))
    return card is not None and card.kind == "suite"


def table_files(root: Path) -> list[Path]:
    """The tables of a suite, by name: the file itself, or those in a folder that are not hidden."""
    if not root.is_dir():
        return [root]
    tables = sorted(
        path
        for path in root.rglob("*")
        if path.suffix.lower() in _SUFFIXES
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(root).parts)
    )
    if not tables:
        raise CorpusError(f"{root} has no table in it ({', '.join(_SUFFIXES)})")
    return tables


def table_rows(path: Path, expected: str, *, header: bool = True) -> Iterable[TableRow]:
    """The rows of a table of any kind, the first line naming the columns where they are not named in each row.

    Without a `header`, columns of a TSV or CSV file are named by their numbers.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "own.tsv"
        >>> _ = path.write_text("text\\tanswer\\nDogs ___.\\tbark\\n")
        >>> [row.values for row in table_rows(path, "a table")]
        [{'text': 'Dogs ___.', 'answer': 'bark'}]
    """
    if not any(line.strip() for line in head_lines(path)):
        raise FormatError(f"{path} is empty; expected TSV, CSV or JSONL with {expected}")
    make = arrow_kind(path)
    if make is not None:
        return arrow_rows(path, make, None, raise_fault)
    if (where := list_of(path)) is not None:
        return json_rows(path, where, raise_fault)
    if is_lines(path):
        return json_rows(path, None, raise_fault)
    layout = layout_of(path, header=header) or (_layout_by_name(path) if header else None)
    if layout is None:
        raise FormatError(f"{path} is not a table; expected TSV, CSV or JSONL with {expected}")
    return delimited_rows(path, layout, raise_fault)


def _layout_by_name(path: Path) -> DelimitedLayout | None:
    """That of a .tsv or .csv file whose rows are uneven, so that the row at fault is named and not the file."""
    delimiter = {".tsv": "\t", ".csv": ","}.get(path.suffix.lower())
    first = next((line for line in head_lines(path, 1 << 16) if line.strip()), "")
    if delimiter is None or delimiter not in first:
        return None
    names = [name.strip().strip('"') for name in first.split(delimiter)]
    return DelimitedLayout(delimiter, delimiter == ",", unique_names(names), True, (), False)


def first_row(path: Path) -> TableRow:
    """The first row of a table; one without columns where there is none."""
    try:
        return next(iter(table_rows(path, "")), TableRow(0, {}))
    except LaminaError:
        return TableRow(0, {})


def hashes_of(root: Path, files: Iterable[Path]) -> dict[str, str]:
    """File name -> sha256."""
    return {path.relative_to(root).as_posix() if root.is_dir() else path.name: sha256_of(path) for path in files}
