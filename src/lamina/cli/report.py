"""`lamina report`: every question asked of one model and one corpus, on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.options import CorpusOption, DryRunOption, FormatOption, LimitOption, SplitOption, UnitOption


def report(
    model: Annotated[str, typer.Argument(help="An alias, a Hugging Face id or a folder.")],
    corpus: CorpusOption = "ewt",
    split: SplitOption = "dev",
    out: Annotated[Path, typer.Option("--out", help="The folder to write; its results are reused.")] = Path("report"),
    only: Annotated[
        str | None, typer.Option("--only", help="Analyses to run, separated by commas: geometry. All by default.")
    ] = None,
    unit: UnitOption = "sentence",
    format: FormatOption = None,
    limit: LimitOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Ask every question of a model and write one page to read, print or send.

    The page needs no network and no other file. Answers already in OUT for the same model, corpus and settings
    are reused, so a second run takes seconds.

    Example: `lamina report minilm --corpus ewt --out report`
    """
    from lamina.corpora import load_corpus
    from lamina.encoders import load_encoder
    from lamina.report import choose, make_report, plan_report

    names = choose([name.strip() for name in only.split(",") if name.strip()] if only else None)
    texts = load_corpus(corpus, split=split, unit=unit, format=format, limit=limit)
    encoder = load_encoder(model)
    if dry_run:
        print(plan_report(encoder, texts, out, only=names))
    else:
        print(make_report(encoder, texts, out, only=names))
