"""`lamina results`: list, show and remove saved results."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="List, show and remove saved results.")

Folders = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[FOLDER]...", help="Folders to search; ./results and ./report by default."),
]


@app.command("ls")
def list_results(folders: Folders = None) -> None:
    """List results: analysis, version, model, data, texts, date, size, folder.

    A result on fewer texts than another one of the same analysis, model and data is partial: pages show the other one.

    Example: `lamina results ls results`
    """
    from rich.console import Console
    from rich.table import Table

    from lamina.results.folder import folder_size, leftovers
    from lamina.results.index import ResultIndex, partial, texts_seen, usual_folders

    looked_into = tuple(folders or usual_folders())
    index = ResultIndex(looked_into)
    entries = index.entries()
    for passed in index.passed_over():
        print(f"lamina: {passed.name} is not listed: {passed.why}", file=sys.stderr)
    for left in (passed for folder in looked_into for passed in leftovers(folder)):
        print(
            f"lamina: {left.path} ({left.size / 1e6:,.1f} MB) is of a run that was stopped; the command that makes "
            f"{left.target.name} continues it, or delete it",
            file=sys.stderr,
        )
    if not entries:
        print(f"no results in {', '.join(map(str, looked_into))}")
        return
    smaller = partial(entries)
    table = Table("analysis", "version", "model", "data", "texts", "made", "MB", "folder")
    for entry in entries:
        size = folder_size(entry.folder) / 1e6
        created = entry.created[:16].replace("T", " ")
        data = entry.corpus.get("name", "")
        version = str(entry.head.get("version", 0))
        count = texts_seen(entry.corpus)
        texts = ("" if count is None else f"{count:,}") + (" (partial)" if entry.id in smaller else "")
        table.add_row(
            entry.analysis, version, entry.model, data, texts.strip(), created, f"{size:,.1f}", str(entry.folder)
        )
    # In a pipe there is no terminal width: one line per result.
    Console(markup=False, width=None if sys.stdout.isatty() else 300).print(table)


@app.command()
def show(folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A result's folder.")]) -> None:
    """Show one result: findings, settings, tables, what was left out, and the command that made it.

    Example: `lamina results show results/geometry`
    """
    from lamina.results import Result
    from lamina.results.index import sample_in_words

    result = Result.load(folder)
    about = result.provenance
    print(f"{result.analysis} (version {result.version}): {about.model.get('name')} on {about.corpus.get('name')}")
    for finding in result.findings:
        print(f"  {finding.status:<6} {finding.text}")
    for warning in about.warnings:
        print(f"warning: {warning}")
    print(sample_in_words(about.corpus, {}))
    print("settings")
    for name, value in about.parameters.items():
        print(f"  {name} = {json.dumps(value, default=str)}")
    print("tables")
    for name, table in result.tables.items():
        suffix = "parquet" if name in result.parquet else "csv"
        print(f"  {name}.{suffix}  {len(table):,} rows: {', '.join(map(str, table.columns))}")
    for reason, count in about.skipped.items():
        print(f"{count:,} {reason}")
    for name, why in result.undrawn.items():
        print(f"{name} not drawn: {why}")
    print(f"made {about.created} by `{about.command}`")


@app.command()
def draw(folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A result's folder.")]) -> None:
    """Draw the charts of a saved result again; tables, findings and provenance stay as they are.

    Example: `lamina results draw results/geometry`
    """
    from lamina.results.result import draw_again

    undrawn = draw_again(folder)
    for name, why in undrawn.items():
        print(f"lamina: {name} not drawn: {why}", file=sys.stderr)
    print(folder)
    if undrawn:
        raise typer.Exit(1)


@app.command()
def rm(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Folders of results to remove.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove results; a folder that is not a result is never removed.

    Example: `lamina results rm results/geometry --yes`
    """
    from lamina.files.writing import remove_folder
    from lamina.results.folder import read_head

    heads = {folder: read_head(folder) for folder in folders}
    for folder, head in heads.items():
        if not yes and not typer.confirm(f"remove {folder} ({head.get('analysis')})?"):
            continue
        remove_folder(folder)
        print(f"removed {folder}")
