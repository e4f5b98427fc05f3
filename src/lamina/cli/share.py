"""Sharing: `lamina bundle`, `lamina open`, `lamina push`, and `lamina atlas`, a site of studies."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from lamina.cli import terminal

atlas_app = typer.Typer(no_args_is_help=True, help="A static site of studies, whose cells can be run again.")


def bundle(
    result: Annotated[Path, typer.Argument(metavar="RESULT", help="A result's folder.")],
    out: Annotated[Path | None, typer.Option("--out", help="The file; by default NAME.lamina.")] = None,
) -> None:
    """Pack a result into one file that others can open: checked, and without code.

    Example: `lamina bundle results/probe --out probe.lamina`
    """
    from lamina.studies.sharing import bundle

    print(bundle(result, out))


def open_bundle(
    path: Annotated[Path, typer.Argument(metavar="BUNDLE", help="A file that `lamina bundle` wrote.")],
    out: Annotated[Path | None, typer.Option("--out", help="The folder; by default results/NAME.")] = None,
) -> None:
    """Unpack a bundle into a result's folder; every file is compared with its hash, and nothing in it is run.

    Example: `lamina open probe.lamina --out results/probe`
    """
    from lamina.results import Result
    from lamina.studies.sharing import open_bundle

    folder = open_bundle(path, out)
    for finding in Result.load(folder).findings:
        print(f"{finding.status:<6} {finding.text}")
    print(folder)


def push(
    what: Annotated[Path, typer.Argument(metavar="WHAT", help="The folder of a result, a saved probe or a study.")],
    repo: Annotated[str, typer.Argument(metavar="hf:OWNER/NAME", help="A repository of the hub.")],
    eval_results: Annotated[
        str | None,
        typer.Option(
            "--eval-results",
            metavar="DATASET",
            help="Send the scores alone, for the model page of OWNER/NAME, as a pull request; DATASET is the hub's.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before sending.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be sent; send nothing.")] = False,
) -> None:
    """Send a result, a saved probe or a study to the Hugging Face hub, with a card made from its provenance.

    What will be sent is shown first, and nothing is sent without a yes. New repositories are private.

    Example: `lamina push results/probe hf:me/minilm-probe --dry-run`
    """
    from lamina.studies.sharing import send, shipment_of

    shipment = shipment_of(what, repo, eval_results=eval_results)
    print(shipment)
    if dry_run:
        for name, part in shipment.files.items():
            if isinstance(part, str):
                print(f"\n{name}:\n{part}")
        return
    if not yes and not typer.confirm("send it?"):
        print("nothing was sent")
        return
    print(send(shipment))


@atlas_app.command()
def build(
    studies: Annotated[list[Path], typer.Argument(metavar="STUDY...", help="Folders of studies.")],
    out: Annotated[Path, typer.Option("--out", help="The folder of the site.")] = Path("site"),
    title: Annotated[str, typer.Option("--title", help="Its title.")] = "Atlas",
) -> None:
    """Build a static site: a page per model, task, measure and cell; every cell has its request and its tables.

    Example: `lamina atlas build studies/pipeline --out site`
    """
    from lamina.studies.atlas import build_atlas

    print(build_atlas(studies, out, title=title))


@atlas_app.command()
def verify(
    site: Annotated[Path, typer.Argument(metavar="SITE", help="The folder of a site.")],
    cells: Annotated[int, typer.Option("--cells", min=1, help="Number of cells, drawn at random.")] = 20,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Random seed of the draw.")] = 0,
    store: terminal.StoreOption = None,
    device: terminal.DeviceOption = None,
) -> None:
    """Run a random sample of an atlas's cells again, and say how many numbers lie inside their intervals.

    Exit status 1 where a number lies outside, or a cell could not be run.

    Example: `lamina atlas verify site --cells 20`
    """
    from lamina.activations import Runtime
    from lamina.studies.atlas import verify_atlas

    checks = verify_atlas(site, cells, seed=seed, runtime=Runtime(store, device))
    for check in checks:
        print(check)
    done = [check for check in checks if not check.fault]
    inside, known = sum(check.inside for check in done), sum(check.numbers for check in done)
    print(f"{len(done)} of {len(checks)} cells were run again: {inside:,} of {known:,} numbers lie inside their "
          "intervals")  # fmt: skip
    wrong = [check for check in checks if check.fault or check.inside < check.numbers]
    if wrong:
        print(f"{len(wrong)} cells differ or could not be run", file=sys.stderr)
        raise typer.Exit(1)
