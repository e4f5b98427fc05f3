"""`lamina store`: what is kept of models' activations, whether it is sound, and making room."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.options import StoreOption

app = typer.Typer(no_args_is_help=True, help="List, verify and clean up stored activations.")


@app.command("ls")
def list_stores(store: StoreOption = None) -> None:
    """List the stores: encoder, precision, texts, shards, size, folder."""
    from rich.console import Console
    from rich.table import Table

    from lamina.activations import default_root, stores

    found = stores(store)
    if not found:
        print(f"no activations stored in {store or default_root()}; `lamina encode MODEL --corpus NAME` stores some")
        return
    table = Table("encoder", "kept", "layers", "width", "texts", "shards", "MB", "folder")
    for each in found:
        head = each.head
        size = sum(shard.stat().st_size for shard in each.shards) / 1e6
        numbers = (head["layers"], head["width"], f"{len(each):,}", len(each.shards), f"{size:,.0f}")
        table.add_row(head["encoder"], head["kept"], *map(str, numbers), str(each.folder))
    # A pipe has no width to fit into: there, one store is one line.
    Console(markup=False, width=None if sys.stdout.isatty() else 300).print(table)


@app.command()
def verify(
    store: StoreOption = None,
    drop: Annotated[
        bool, typer.Option("--drop", help="Delete damaged shards, so that the next run encodes their texts again.")
    ] = False,
) -> None:
    """Read every shard and compare its checksum; name the damaged ones. Exit code 1 if there are any."""
    from lamina.activations import stores
    from lamina.progress import progress

    damaged: list[Path] = []
    checked = 0
    with progress("verifying stores") as advance:
        for each in stores(store):
            checked += len(each.shards)
            bad = each.damaged()
            if drop:
                each.drop(bad)
            damaged += bad
            advance()
    for shard in damaged:
        print(f"damaged{', dropped' if drop else ''}: {shard}")
    print(f"{checked - len(damaged):,} of {checked:,} shards are sound")
    if damaged and not drop:
        print("`lamina encode ... --repair` encodes their texts again; `lamina store verify --drop` deletes them")
        raise typer.Exit(1)


@app.command()
def gc(
    store: StoreOption = None,
    older_than: Annotated[
        int | None,
        typer.Option(
            "--older-than", min=0, help="Also delete whole stores and probing runs not written for so many days."
        ),
    ] = None,
) -> None:
    """Delete what interrupted runs left behind and, with --older-than, stores and probing runs no longer written to.

    A kept probing run is what `lamina probe` answers from when it is asked the same again, or goes on from when it was
    stopped. Results that were saved with `--out` have files of their own.
    """
    import shutil
    import time

    from lamina.activations import stores
    from lamina.analyses.probing.keeping import clean_runs

    before = None if older_than is None else time.time() - older_than * 86400
    freed = 0
    for each in stores(store):
        # Looked at before sweeping, and without the lock: taking that is not writing.
        newest = max(path.stat().st_mtime for path in each.folder.iterdir() if path.name != "lock")
        freed += each.sweep()
        if before is not None and newest <= before:
            freed += sum(path.stat().st_size for path in each.folder.iterdir())
            shutil.rmtree(each.folder)
            print(f"deleted {each.folder}")
    for folder, size, gone in clean_runs(store, before):
        freed += size
        if gone and size:
            print(f"deleted {folder}")
    print(f"freed {freed / 1e6:,.1f} MB")
