"""`lamina assets`: list, fetch and remove models, corpora and vectors."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from lamina.errors import AssetError

if TYPE_CHECKING:
    from lamina.assets import Card

_MOST_HASHES = 12
"""Hashes shown per source."""

app = typer.Typer(no_args_is_help=True, help="List, fetch and remove the models, corpora and vectors known by name.")


def complete_name(incomplete: str) -> list[str]:
    from lamina import assets

    return [name for name in assets.cards() if name.startswith(incomplete)]


Name = Annotated[str, typer.Argument(help="A name from `lamina assets list`.", autocompletion=complete_name)]


@app.command("list")
def list_assets() -> None:
    """List every asset: its kind, size, licence, and whether this machine has it."""
    from rich.console import Console
    from rich.table import Table

    from lamina import assets

    table = Table(box=None, pad_edge=False)
    for heading in ("name", "kind", "size", "here"):
        table.add_column(heading, no_wrap=True)
    table.add_column("what")
    table.add_column("licence", max_width=20 if sys.stdout.isatty() else None)
    for card in assets.cards().values():
        table.add_row(card.name, card.kind, _size(card.size), _state(card), card.what, card.licence)
    # In a pipe there is no terminal width: one line per asset.
    Console(width=None if sys.stdout.isatty() else 300).print(table)


@app.command()
def get(names: Annotated[list[str], typer.Argument(help="One or more names.", autocompletion=complete_name)]) -> None:
    """Fetch assets if needed, and print their folders."""
    from lamina import assets

    for card in [assets.find(name) for name in names]:
        print(f"{card.name}\t{assets.locate(card.name)}")


@app.command()
def show(name: Name) -> None:
    """Show an asset's card: what it is, licence, files, sources and hashes."""
    from lamina import assets
    from lamina.assets.recipes import CorpusRecipe

    card = assets.find(name)
    lines = [
        ("name", card.name),
        ("kind", card.kind),
        ("what", card.what),
        ("licence", card.licence),
        ("origin", card.origin),
        ("size", _size(card.size)),
        ("here", str(assets.local_folder(name) or _state(card))),
        ("files", ", ".join(card.members)),
        ("note", card.note),
    ]
    for source in card.sources:
        lines.append(("source", source.place))
        # The files of a repository are named by git; there may be hundreds.
        kind, hashes = ("git blob", source.blobs) if isinstance(source, CorpusRecipe) else ("sha256", source.hashes)
        lines += [(kind, f"{digest}  {what}") for what, digest in islice(hashes.items(), _MOST_HASHES)]
        if len(hashes) > _MOST_HASHES:
            lines.append((kind, f"and {len(hashes) - _MOST_HASHES:,} more"))
    for label, text in lines:
        if text:
            print(f"{label:<8} {text}")


@app.command()
def path(name: Name) -> None:
    """Print only the folder of an asset; does not fetch it."""
    from lamina import assets

    folder = assets.local_folder(name)
    if folder is None:
        broken = assets.damaged(name)
        if broken:
            raise AssetError(f"{broken[0]} is damaged: fetch it again with `lamina assets get {name}`")
        card = assets.find(name)
        how = f"fetch it with `lamina assets get {name}`" if card.sources else card.note
        raise AssetError(f"{name} is not on this machine: {how}")
    print(folder)


@app.command()
def remove(name: Name) -> None:
    """Delete an asset from the cache; LAMINA_DATA is never touched."""
    from lamina import assets

    print(f"{name} removed from the cache" if assets.remove(name) else f"{name} is not in the cache")


def _state(card: Card) -> str:
    from lamina import assets

    if assets.is_cached(card.name):
        return "cached"
    if assets.local_folder(card.name):
        return "local"
    return "damaged" if assets.damaged(card.name) else "no"


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
