"""Options shared by several commands; each command sets its own defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

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
