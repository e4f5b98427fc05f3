"""`lamina data get`: fetch or derive corpora by name, or all those of a suite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from lamina.assets import Card


def get(
    names: Annotated[
        list[str],
        typer.Argument(help="Names from `lamina data list`, or a suite of tasks: pipeline or qa."),
    ],
) -> None:
    """Get corpora, or those of a suite: size, licence and origin first, then what is missing, then counts."""
    from lamina import assets
    from lamina.errors import AssetError, LaminaError
    from lamina.progress import say

    wanted = _cards(names)
    for card in wanted:
        for line in _about(card, assets.held(card.name)):
            typer.echo(line)
    typer.echo("")
    failed: list[str] = []
    for card in wanted:
        try:
            folder = assets.locate(card.name)
        except LaminaError as error:
            if len(wanted) == 1:
                raise
            # The others may still be had.
            say(str(error))
            failed.append(card.name)
            continue
        typer.echo(f"{card.name}: {folder}")
        for line in _held(card, folder):
            typer.echo(f"  {line}")
    if failed:
        raise AssetError(f"{len(failed)} of {len(wanted)} corpora could not be had: {', '.join(failed)}")


def _cards(names: list[str]) -> list[Card]:
    """The cards of the names, those of suites included, each once."""
    from lamina import assets
    from lamina.corpora.stories import STORIES
    from lamina.errors import CorpusError

    known = assets.cards()
    wanted: dict[str, Card] = {}
    for name in names:
        if name == STORIES:
            typer.echo(f"{STORIES} is generated and needs no download")
            continue
        corpora = (name,) if name in known else _suite(name)
        for each in corpora:
            wanted[each] = assets.find(each)
        if wanted[corpora[-1]].kind == "model":
            raise CorpusError(f"{name} is a model, not a corpus; get it with `lamina assets get {name}`")
    return list(wanted.values())


def _suite(name: str) -> tuple[str, ...]:
    """The corpora of a suite; an error with close names if there is none."""
    from difflib import get_close_matches

    from lamina import assets
    from lamina.analyses.probing.suites import SUITES
    from lamina.errors import CorpusError

    if name in SUITES:
        return tuple(dict.fromkeys(SUITES[name].corpora.values()))
    close = get_close_matches(name, [*SUITES, *assets.cards()], n=3)
    hint = f"; did you mean {' or '.join(close)}?" if close else "."
    raise CorpusError(
        f"there is no corpus or suite {name!r}{hint} Corpora: `lamina data list`; suites: {', '.join(SUITES)}"
    )


def _about(card: Card, here: Path | None) -> Iterator[str]:
    """What there is to know before it is fetched."""
    from lamina.assets.recipes.recipe import Recipe

    state = "on this machine" if here else "to be fetched" if card.sources else "lamina has no source of it"
    yield f"{typer.style(card.name, bold=True)}  {card.size / 1e6:.1f} MB, {card.licence}  ({state})"
    yield f"  {card.what}"
    recipe = next((source for source in card.sources if isinstance(source, Recipe)), None)
    if recipe is None:
        yield f"  from {card.origin}"
        return
    for origin in recipe.origins:
        how = ", out of the archive of the whole repository" if origin.archive else ""
        yield f"  from {origin.page}: {len(origin.files):,} files, {origin.size / 1e6:.1f} MB{how}"


def _held(card: Card, folder: Path) -> Iterator[str]:
    """What the folder holds: the counts of a derived corpus, else the number and size of the files."""
    from lamina import assets
    from lamina.assets.recipes.recipe import counts_in

    if assets.is_cached(card.name) and (counts := counts_in(folder)):
        yield from counts
        return
    files = {path for member in card.members for path in folder.glob(member) if path.is_file()}
    yield f"{len(files):,} files, {sum(path.stat().st_size for path in files) / 1e6:.1f} MB"
