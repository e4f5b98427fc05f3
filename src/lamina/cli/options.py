"""Options shared by several commands; each command sets its own defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

CorpusOption = Annotated[
    str,
    typer.Option(
        "--corpus", help="A catalogue name (`lamina data list`) or the path of a file or folder.", show_default=True
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
    typer.Option("--format", help="Format of the file or folder; detected from its content by default."),
]
"""How to read a path; None by default."""

AnnotationOption = Annotated[
    str | None,
    typer.Option("--annotation", help="The name of the targets in edge-probing JSONL; `edges` by default."),
]
"""What targets without a name are called; None by default."""

LimitOption = Annotated[
    int | None,
    typer.Option("--limit", min=1, help="Take only the first N texts."),
]
"""Number of texts; None (all) by default."""

DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Print the number of texts and tokens and the expected time and disk space; compute nothing.",
    ),
]
"""Only estimate the cost; False by default."""

ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="An alias (`lamina assets list`), a Hugging Face id or a folder.")
]
"""Which model."""

OutOption = Annotated[Path | None, typer.Option("--out", help="Output folder; by default a folder under results/.")]
"""Where the result goes."""

StoreOption = Annotated[
    Path | None,
    typer.Option("--store", help="Where activations are kept; by default LAMINA_STORE or lamina's cache."),
]
"""Where activations are kept."""

DeviceOption = Annotated[
    str | None, typer.Option("--device", help="cpu, cuda or cuda:N; by default a GPU if there is one.")
]
"""Where the model runs."""

PrecisionOption = Annotated[
    Literal["float32", "bfloat16", "float16"], typer.Option("--dtype", help="What the model computes in.")
]
"""Precision of the model; "float32" by default."""
