"""`lamina report`: every question asked of one model and one corpus, on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.encode import expected
from lamina.cli.options import (
    CorpusOption,
    DeviceOption,
    DryRunOption,
    FormatOption,
    LimitOption,
    ModelArgument,
    SplitOption,
    StoreOption,
    UnitOption,
)


def report(
    model: ModelArgument,
    corpus: CorpusOption = "ewt",
    split: SplitOption = "dev",
    out: Annotated[Path, typer.Option("--out", help="The folder to write; results in it are reused.")] = Path("report"),
    only: Annotated[
        str | None, typer.Option("--only", help="Analyses to run, separated by commas; all by default.")
    ] = None,
    unit: UnitOption = "sentence",
    format: FormatOption = None,
    limit: LimitOption = None,
    store: StoreOption = None,
    device: DeviceOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Ask every question of a model and write one page to read, print or send.

    The page needs no network and no other file. Answers already in OUT for the same model, corpus and settings are
    reused, so a second run takes seconds. Analyses: geometry.

    Example: `lamina report minilm --corpus ewt --out report`
    """
    from lamina.report import choose, make_report

    names = choose([name.strip() for name in only.split(",") if name.strip()] if only else None)

    from lamina.activations import estimate
    from lamina.corpora import load_corpus
    from lamina.encoders import load_encoder

    texts = load_corpus(corpus, split=split, unit=unit, format=format, limit=limit)
    encoder = load_encoder(model, device=device)
    if dry_run:
        print(expected(estimate(encoder, texts, root=store), passes=1 + (encoder.blocks > 0)))
        return
    print(make_report(encoder, texts, out, only=names, root=store))
