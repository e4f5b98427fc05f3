"""Options that mean the same in every command; defaults are given where they are used."""

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
    typer.Option(
        "--split", help="train, dev, test or all; a split that the corpus lacks is made by document and recorded."
    ),
]
"""Which part of the corpus."""

UnitOption = Annotated[
    str,
    typer.Option("--unit", help="What becomes one text: sentence, document, or window:N (at most N words)."),
]
"""What is encoded at once; "sentence" by default."""

FormatOption = Annotated[
    str | None,
    typer.Option("--format", help="The format of a file or folder; told from its content where not given."),
]
"""How to read a path; None by default."""

LimitOption = Annotated[
    int | None,
    typer.Option("--limit", min=1, help="Take only the first N texts."),
]
"""How many texts; None (all) by default."""

DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Say how many texts and tokens there are and what time and disk to expect; compute nothing.",
    ),
]
"""Look before the leap; False by default."""

ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="An alias (`lamina assets list`), a Hugging Face id or a folder.")
]
"""Which model."""

OutOption = Annotated[
    Path | None, typer.Option("--out", help="The folder to write; a folder under results/ where not given.")
]
"""Where the result goes."""

StoreOption = Annotated[
    Path | None,
    typer.Option("--store", help="Where activations are kept; LAMINA_STORE or lamina's cache where not given."),
]
"""Where activations are kept."""

DeviceOption = Annotated[
    str | None, typer.Option("--device", help="cpu, cuda or cuda:N; a GPU where there is one by default.")
]
"""Where the model runs."""

PrecisionOption = Annotated[
    Literal["float32", "bfloat16", "float16"], typer.Option("--dtype", help="What the model computes in.")
]
"""How precisely the model computes."""
