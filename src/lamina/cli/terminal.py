"""What commands share: options, and what they print: tables, and errors in one sentence."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer
from safetensors import SafetensorError

from lamina.errors import LaminaError
from lamina.files.writing import error_number
from lamina.framework.inputs import FILES, FIRST, LIMIT, SPLIT_FROM

CorpusOption = Annotated[
    str,
    typer.Option(
        "--corpus",
        help="A catalogue name (`lamina data list`), the path of a file or folder, or hf:OWNER/NAME.",
        show_default=True,
    ),
]
"""Which texts; "ewt" by default."""

SplitOption = Annotated[
    str,
    typer.Option("--split", help="train, dev, test or all; a missing split is made by document and recorded."),
]
"""Which part of the corpus."""

UnitOption = Annotated[
    str,
    typer.Option("--unit", help="What becomes one text: sentence, document, or window:N (at most N words)."),
]
"""What becomes one text; "sentence" by default."""

FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="Format of the file or folder, detected by default; table:text=COLUMN,label=COLUMN for columns.",
    ),
]
"""How to read a path; None by default."""

AnnotationOption = Annotated[
    str | None,
    typer.Option("--annotation", help="A name for the only annotation of the data, or OLD=NEW,... for some of them."),
]
"""What targets without a name are called; None by default."""

LimitOption = Annotated[
    int | None,
    typer.Option("--limit", min=1, help=str(LIMIT.about.help)),
]
"""Number of texts that are drawn; None (all) by default."""

IncludeOption = Annotated[str | None, typer.Option("--include", help=str(FILES[0].about.help), metavar="PATTERN,...")]
"""Patterns of the files of a folder that are read; None (all) by default."""

ExcludeOption = Annotated[str | None, typer.Option("--exclude", help=str(FILES[1].about.help), metavar="PATTERN,...")]
"""Patterns of the files of a folder that are left out; None by default."""

SkipFaultyOption = Annotated[float, typer.Option("--skip-faulty", min=0, max=0.99, help=str(FILES[2].about.help))]
"""Share of texts with a fault that may be left out; 0 by default."""

SplitFromOption = Annotated[str | None, typer.Option("--split-from", help=str(SPLIT_FROM.about.help))]
"""A split to divide into train, dev and test; None by default."""

FirstOption = Annotated[int | None, typer.Option("--first", min=1, help=str(FIRST.about.help))]
"""Number of first texts; None (all) by default."""

DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Print the number of texts and tokens and the expected time and disk space; compute nothing.",
    ),
]
"""Only estimate the cost; False by default."""

MODEL_HELP = (
    "An alias (`lamina assets list`), a Hugging Face id (`@REVISION` after it if wanted), a folder or a GGUF file; "
    "`:decoder` after it for the decoder of an encoder-decoder."
)
ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)]
"""Which model."""

OutOption = Annotated[Path | None, typer.Option("--out", help="Output folder; by default a folder under results/.")]
"""Where the result goes."""

StoreOption = Annotated[
    Path | None,
    typer.Option("--store", help="Folder of stored activations; by default LAMINA_STORE or lamina's cache."),
]
"""Folder of stored activations."""

DEVICE_HELP = (
    "cpu, cuda or cuda:N; by default a GPU if there is one. Use auto for a model that does not fit one card: it is "
    "spread over all cards, memory and disk."
)
DeviceOption = Annotated[str | None, typer.Option("--device", help=DEVICE_HELP)]
"""Where the model runs."""

KEEP_HELP = (
    "Store hidden states for later runs; by default on a CPU. Otherwise they stay on the GPU or in memory if they fit. "
    "Never changes a result."
)
KeepOption = Annotated[bool | None, typer.Option("--keep/--no-keep", help=KEEP_HELP)]
"""Whether states are stored; None (on a CPU, yes; on a GPU, no) by default."""

ENGINE_HELP = (
    "Encode with several processes: gpus (one per GPU of this machine) or ray (workers of a Ray cluster, or of this "
    "machine). Never changes a result."
)
EngineOption = Annotated[Literal["gpus", "ray"] | None, typer.Option("--engine", help=ENGINE_HELP)]
"""Which processes encode; None (this one) by default."""

WORKERS_HELP = "Number of processes of --engine; by default one per GPU, or one per four CPUs of a Ray cluster."
WorkersOption = Annotated[int | None, typer.Option("--workers", min=1, help=WORKERS_HELP)]
"""How many processes encode."""

PrecisionOption = Annotated[
    Literal["float32", "bfloat16", "float16", "int8"], typer.Option("--dtype", help="Precision of the model.")
]
"""Precision of the model; "float32" by default."""

StatePrecisionOption = Annotated[
    Literal["float16", "bfloat16", "float32"] | None,
    typer.Option(
        "--precision",
        help="Precision of a new store: by default float16, or bfloat16 for a model that runs in it.",
    ),
]
"""Precision of stored states; None by default."""

ChatOption = Annotated[
    bool,
    typer.Option("--chat", help="Put each text as the user's message into the chat template of the model's tokenizer."),
]
"""Whether texts are read as messages; False by default."""

TRUST_HELP = (
    "Allow code that comes with the model to run on this machine, with all your rights; a warning names whose code "
    "it is."
)
TrustOption = Annotated[bool, typer.Option("--trust-remote-code", help=TRUST_HELP)]
"""Whether a model may bring its own code; False by default."""


_OUT_OF_MEMORY = re.compile(r"can't allocate memory|out of memory|Cannot allocate memory", re.IGNORECASE)
"""Messages of torch when memory runs out, on a CPU or a GPU."""

Cell = str | int


class TextTable(NamedTuple):
    """Columns and rows."""

    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]]


def refuse_misspelt(models: Sequence[str], corpus: str, split: str | None = None, **how: Any) -> None:
    """Raise an error for a name that no model or corpus can have, before torch is imported, which takes seconds.

    With a `split`, small files are read too, as `how` says.
    """
    from lamina.assets import refuse_misspelt_model
    from lamina.corpora.loading import refuse_faulty, refuse_unknown

    for model in models:
        refuse_misspelt_model(model)
    refuse_unknown(corpus)
    if split is not None:
        refuse_faulty(corpus, split, **how)


def print_table(title: str, table: TextTable, notes: Sequence[str]) -> None:
    """Print the table, with the notes below it."""
    from rich.console import Console
    from rich.table import Table as RichTable

    drawn = RichTable(title=title)
    for number, column in enumerate(table.columns):
        numeric = any(isinstance(row[number], int) for row in table.rows)
        drawn.add_column(column, justify="right" if numeric else "left", no_wrap=not number)
    for row in table.rows:
        drawn.add_row(*(f"{cell:,}" if isinstance(cell, int) else cell for cell in row))
    # Labels may contain brackets, which are not markup.
    console = Console(markup=False, emoji=False, highlight=False)
    console.print(drawn)
    for note in notes:
        console.print(f"made: {note}")


def in_one_sentence(error: BaseException) -> str | None:
    """What to tell a user about an error that is not a bug in lamina; None for one that seems to be.

    Example:
        >>> in_one_sentence(PermissionError(13, "Permission denied", "results"))
        'results: Permission denied'
        >>> in_one_sentence(ZeroDivisionError())
    """
    if isinstance(error, LaminaError):
        return str(error)
    if type(error).__name__ == "PanicException":
        # Of a library in Rust; Python knows it as no ordinary exception.
        reason = " ".join(str(error).strip().splitlines()[:1])
        return (
            f"the library that reads the model's tokenizer failed ({reason}); take another tokenizer, or another model"
        )
    if isinstance(error, MemoryError) or _OUT_OF_MEMORY.search(str(error)):
        return (
            "not enough memory; finished work is saved. Ask for less (--limit, a smaller model), or close other "
            "programs, and run the same command again"
        )
    number = error_number(error)
    if number is None or not isinstance(error, OSError | RuntimeError | SafetensorError):
        return None
    if number in (errno.ENOSPC, errno.EDQUOT):
        return (
            "no space left on the disk; finished work is saved. Free some space (`lamina store gc` removes leftovers) "
            "and run the same command again"
        )
    named = f"{error.filename}: " if isinstance(error, OSError) and error.filename is not None else ""
    return f"{named}{os.strerror(number)}"
