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
    single_file: Annotated[
        bool, typer.Option("--single-file", help="Put images and tables into the page; it then needs no other file.")
    ] = False,
    store: options.StoreOption = None,
    device: options.DeviceOption = None,
    keep: options.KeepOption = None,
    engine: options.EngineOption = None,
    workers: options.WorkersOption = None,
    dtype: options.PrecisionOption = "float32",
    chat: options.ChatOption = False,
    trust_remote_code: options.TrustOption = False,
    dry_run: options.DryRunOption = False,
) -> None:
    """Run all analyses of a model and write one page to read, print or send.

    OUT/index.html needs no network; tables and still images lie beside it (with --single-file, inside it). It is there
    after the first analysis and is written again after each: reload it to see more. A run that is stopped leaves it,
    and the same command goes on from there.

    Results in OUT for the same model, corpus and settings are reused. Run again with nothing changed, the command finds
    the page up to date within seconds, without loading the model.

    Probing learns from the corpus's train split and scores SPLIT; without a train split or annotations it is left out,
    and the page says so.

    Example: `lamina report minilm --corpus ewt --out report`
    """
    from lamina.report import choose, estimate_report, find_report, make_report

    wanted = [name.strip() for name in only.split(",") if name.strip()] if only else None
    data = {"split": split, "unit": unit, "format": format, "annotation": annotation, "limit": limit}
    of_all = data | {"dtype": dtype, "chat": chat} | ({"single_file": True} if single_file else {})
    if not dry_run and not trust_remote_code:
        page = find_report(model, corpus, out, only=wanted, options=of_all)
        if page is not None:
            print(page)
            return
    choose(wanted)

    from lamina.activations import Runtime
    from lamina.activations.engines import engine_named

    runtime = Runtime(store, device, engine_named(engine, workers), trust_remote_code=trust_remote_code, keep=keep)
    if dry_run:
        print(estimate_report(model, corpus, only=wanted, options=of_all, runtime=runtime))
        return
    print(make_report(model, corpus, out, only=wanted, runtime=runtime, replace=replace, **of_all))
