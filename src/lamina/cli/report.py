"""`lamina report`: all analyses of one model on one corpus, on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lamina.cli import options


def report(
    model: options.ModelArgument,
    corpus: options.CorpusOption = "ewt",
    split: options.SplitOption = "dev",
    out: Annotated[Path, typer.Option("--out", help="Output folder; results in it are reused.")] = Path("report"),
    only: Annotated[
        str | None, typer.Option("--only", help="Analyses to run, separated by commas; all by default.")
    ] = None,
    unit: options.UnitOption = "sentence",
    format: options.FormatOption = None,
    annotation: options.AnnotationOption = None,
    limit: options.LimitOption = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Overwrite results in OUT of another model, corpus or other settings.")
    ] = False,
    store: options.StoreOption = None,
    device: options.DeviceOption = None,
    dtype: options.PrecisionOption = "float32",
    chat: options.ChatOption = False,
    trust_remote_code: options.TrustOption = False,
    dry_run: options.DryRunOption = False,
) -> None:
    """Run all analyses of a model and write one page to read, print or send.

    The page needs no network and no other file. Results in OUT for the same model, corpus and settings are reused, so
    a second run takes seconds.

    Probing learns from the corpus's train split and scores SPLIT; without a train split or annotations it is left out,
    and the page says so.

    Example: `lamina report minilm --corpus ewt --out report`
    """
    from lamina.report import choose, estimate_report, make_report

    wanted = [name.strip() for name in only.split(",") if name.strip()] if only else None
    choose(wanted)

    from lamina.activations import Runtime

    runtime = Runtime(store, device, trust_remote_code=trust_remote_code)
    data = {"split": split, "unit": unit, "format": format, "annotation": annotation, "limit": limit}
    if dry_run:
        print(
            estimate_report(model, corpus, only=wanted, options=data | {"dtype": dtype, "chat": chat}, runtime=runtime)
        )
        return
    print(
        make_report(model, corpus, out, only=wanted, dtype=dtype, chat=chat, runtime=runtime, replace=replace, **data)
    )
