"""`lamina store`: list and clean up stored activations."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from lamina.cli import options

if TYPE_CHECKING:
    from lamina.activations import ActivationStore

app = typer.Typer(no_args_is_help=True, help="List and clean up stored activations.")


@app.command("ls")
def list_stores(store: options.StoreOption = None) -> None:
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
        head = _head(each)
        if head is None:
            continue
        size = sum(shard.stat().st_size for shard in each.shards) / 1e6
        numbers = (head["layers"], head["width"], f"{len(each):,}", len(each.shards), f"{size:,.0f}")
        table.add_row(head["encoder"], head["kept"], *map(str, numbers), str(each.folder))
    # In a pipe there is no terminal width: one line per store.
    Console(markup=False, width=None if sys.stdout.isatty() else 300).print(table)


@app.command()
def gc(
    store: options.StoreOption = None,
    older_than: Annotated[
        int | None,
        typer.Option(
            "--older-than", min=0, help="Also delete whole stores and probing runs not written to for this many days."
        ),
    ] = None,
) -> None:
    """Delete leftovers of interrupted runs and, with --older-than, stores and probing runs no longer written to.

    `lamina probe` uses a stored probing run to answer the same request again, or to continue a stopped run. Results
    saved with `--out` do not depend on it.
    """
    import shutil
    import time

    from lamina.activations import stores
    from lamina.analyses.kept_runs import clean_runs
    from lamina.files.writing import told

    before = None if older_than is None else time.time() - older_than * 86400
    freed = 0
    for each in stores(store):
        if _head(each) is None:
            continue
        # Checked before sweeping and without the lock, since taking the lock is not writing.
        newest = max(path.stat().st_mtime for path in each.folder.iterdir() if path.name != "lock")
        freed += each.sweep()
        if before is not None and newest <= before:
            freed += sum(path.stat().st_size for path in each.folder.iterdir())
            with told(each.folder):
                shutil.rmtree(each.folder)
            print(f"deleted {each.folder}")
    for folder, size, gone in clean_runs(store, before):
        freed += size
        if gone and size:
            print(f"deleted {folder}")
    print(f"freed {freed / 1e6:,.1f} MB")


def _head(store: ActivationStore) -> dict | None:
    """The head of a store; one that cannot be read is named and passed over."""
    from lamina.errors import DamagedError, StoreError

    try:
        return store.head
    except (DamagedError, StoreError) as error:
        print(f"passed over: {error}")
        return None
