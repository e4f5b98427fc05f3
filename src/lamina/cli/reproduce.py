"""`lamina reproduce`: a paper's experiments, run again, with its numbers beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lamina.cli import terminal


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

    runtime = Runtime(store, device, keep=keep)
    if dry_run:
        plan = plan_paper(paper, model, data, small=small, any_edition=any_edition, runtime=runtime)
        print(plan)
        for name, cost in estimate_paper(plan):
            print(f"\n{name}\n{cost}")
        return
    names = [name.strip() for listed in only or () for name in listed.split(",") if name.strip()]
    how: dict[str, Any] = {
        "small": small,
        "only": names or None,
        "any_edition": any_edition,
        "replace": replace,
        "runtime": runtime,
    }
    print(reproduce(paper, model, data, out, **how))
