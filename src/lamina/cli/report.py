"""`lamina report`: all analyses of one model, or of several, on one page; `lamina reproduce`: those of a paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lamina.cli import terminal


def report(
    model: Annotated[
        list[str],
        typer.Argument(metavar="MODEL...", help=f"{terminal.MODEL_HELP} Several for a page that compares them."),
    ],
    corpus: terminal.CorpusOption = "ewt",
    split: terminal.SplitOption = "dev",
    out: Annotated[Path, typer.Option("--out", help="Output folder; results in it are reused.")] = Path("report"),
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help="Analyses or chapters to run, separated by commas or repeated; all by default."),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option("--without", help="Analyses or chapters to leave out, separated by commas or repeated."),
    ] = None,
    unit: terminal.UnitOption = "sentence",
    format: terminal.FormatOption = None,
    include: terminal.IncludeOption = None,
    exclude: terminal.ExcludeOption = None,
    skip_faulty: terminal.SkipFaultyOption = 0.0,
    split_from: terminal.SplitFromOption = None,
    annotation: terminal.AnnotationOption = None,
    limit: terminal.LimitOption = None,
    first: terminal.FirstOption = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Overwrite results in OUT of another model, corpus or other settings.")
    ] = False,
    single_file: Annotated[
        bool, typer.Option("--single-file", help="Put images and tables into the page; it then needs no other file.")
    ] = False,
    figure: Annotated[
        list[str] | None,
        typer.Option(
            "--figure",
            help="Write a figure to OUT/paper as PDF and SVG, as wide as a paper's column: overview, or an analysis "
            "and its chart, as in heads-arcs; separated by commas or repeated.",
        ),
    ] = None,
    store: terminal.StoreOption = None,
    device: terminal.DeviceOption = None,
    keep: terminal.KeepOption = None,
    engine: terminal.EngineOption = None,
    workers: terminal.WorkersOption = None,
    dtype: terminal.PrecisionOption = "float32",
    chat: terminal.ChatOption = False,
    trust_remote_code: terminal.TrustOption = False,
    dry_run: terminal.DryRunOption = False,
) -> None:
    """Run all analyses of a model and write one page to read, print or send.

    OUT/index.html needs no network; tables and still images are saved next to it (with --single-file, inside it). It
    appears after the first analysis and is rewritten after each; reload it to see more. A stopped run leaves it,
    and the same command goes on from there.

    Results in OUT for the same model, corpus and settings are reused. Run again with nothing changed, the command finds
    the page up to date within seconds, without loading the model.

    For the chapter on answering the model is fine-tuned on short stories; the CPU time is printed before. --without
    answering leaves the chapter out, and so does a --limit that leaves too few stories to learn from, unless the
    chapter is asked for with --only phases,token_map.

    Probing learns from the corpus's train split and scores SPLIT; without a train split or annotations it is left out,
    and the page says so.

    With several models, each is asked by itself (results in OUT/results/MODEL), and the page compares them: paired
    differences, and numbers by layer on relative depth. Trees, order, senses, antecedents and answering are compared
    too where --only names them (structure, order, senses, corefheads, finetune, phases), or where OUT/results/MODEL has
    their results.

    Example: `lamina report minilm --corpus ewt --out report`
    """
    files: dict[str, Any] = {"include": include, "exclude": exclude, "split_from": split_from}
    files = {name: value for name, value in files.items() if value is not None}
    files |= {"skip_faulty": skip_faulty} if skip_faulty else {}
    terminal.refuse_misspelt(model, corpus, split, format=format, annotation=annotation, **files)
    from lamina.report import choose, estimate_report, find_report, make_report, named_apart

    models = model[0] if len(model) == 1 else model
    wanted, unwanted = _named(only), _named(without)
    data = {"split": split, "unit": unit, "format": format, "annotation": annotation, "limit": limit} | files
    data |= {} if first is None else {"first": first}
    of_all: dict[str, Any] = data | {"dtype": dtype, "chat": chat} | ({"single_file": True} if single_file else {})
    apart = named_apart(unwanted)
    if not dry_run and not trust_remote_code:
        page = find_report(models, corpus, out, only=wanted, options=of_all | apart)
        if page is not None:
            print(page)
            _export(out, _named(figure))
            return
    choose(wanted, unwanted, several=len(model) > 1)

    from lamina.activations import Runtime
    from lamina.activations.runtime import engine_named

    runtime = Runtime(store, device, engine_named(engine, workers), trust_remote_code=trust_remote_code, keep=keep)
    if dry_run:
        print(estimate_report(models, corpus, only=wanted, options=of_all | apart, runtime=runtime))
        return
    named: dict[str, Any] = {"only": wanted, "without": unwanted}
    print(make_report(models, corpus, out, runtime=runtime, replace=replace, **named, **of_all))
    _export(out, _named(figure))


def _export(out: Path, names: list[str] | None) -> None:
    """Write and print the figures that are named."""
    if names:
        from lamina.report.page import export_figures

        for path in export_figures(out, names):
            print(path)


def _named(given: list[str] | None) -> list[str] | None:
    """Names separated by commas, of an option that may be repeated."""
    return [name.strip() for listed in given or () for name in listed.split(",") if name.strip()] or None


def reproduce(
    paper: Annotated[
        str | None, typer.Argument(metavar="[PAPER]", help="The paper's name; all names where it is left out.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", help="The model; by default the paper's where it is here, otherwise a stand-in."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="A folder with the papers' own data (OntoNotes, Penn Treebank ...)."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Output folder; by default reproductions/PAPER-MODEL.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help="Runs of the paper, separated by commas or repeated; all by default."),
    ] = None,
    small: Annotated[
        bool, typer.Option("--small", help="Smaller settings than the paper's, for a laptop; the page says so.")
    ] = False,
    any_edition: Annotated[
        bool, typer.Option("--any-edition", help="Run on data of another edition than the paper's.")
    ] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite other results in OUT.")] = False,
    store: terminal.StoreOption = None,
    device: terminal.DeviceOption = None,
    keep: terminal.KeepOption = None,
    dry_run: terminal.DryRunOption = False,
) -> None:
    """Run a paper's experiments with its settings, and write one page: its tables and figures, its numbers beside ours.

    The page says of every run whether model and data are the paper's own or stand in for them, and how to get what is
    missing. Results in OUT are reused; a stopped run leaves its page.

    Example: `lamina reproduce attention --model bert-base-uncased`
    """
    if paper is None:
        from lamina.reproduction.papers import get_paper, paper_names

        for name in paper_names():
            print(f"{name:<18} {get_paper(name).title} ({get_paper(name).cite})")
        return
    from lamina.reproduction.papers import get_paper

    get_paper(paper)
    if model is not None:
        terminal.refuse_misspelt([model], "ewt")
    from lamina.activations import Runtime
    from lamina.reproduction.running import estimate_paper, plan_paper, reproduce

    names = [name.strip() for listed in only or () for name in listed.split(",") if name.strip()]
    how: dict[str, Any] = {
        "small": small,
        "only": names or None,
        "any_edition": any_edition,
        "runtime": Runtime(store, device, keep=keep, described=dry_run),
    }
    if dry_run:
        plan = plan_paper(paper, model, data, **how)
        print(plan)
        for name, cost in estimate_paper(plan):
            print(f"\n{name}\n{cost}")
        return
    print(reproduce(paper, model, data, out, replace=replace, **how))
