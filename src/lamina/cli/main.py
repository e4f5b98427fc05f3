"""The command `lamina`: its sub-commands, and errors said in one line."""

from __future__ import annotations

import os
import sys

import typer

from lamina.cli import (
    assets,
    attention,
    compare,
    contextualize,
    corefheads,
    data,
    diff,
    encode,
    finetune,
    geometry,
    headmap,
    heads,
    look,
    neighbours,
    parse,
    phases,
    probe,
    report,
    serve,
    store,
    trace,
)
from lamina.errors import InputError, LaminaError

_INTERRUPTED = 130
"""What Typer makes of Ctrl-C, without a word."""

app = typer.Typer(
    name="lamina",
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""See what every layer and every head of a transformer knows, with numbers you can trust.

    Name a **model** and a **corpus**. lamina encodes the corpus once, keeps the activations, asks every question
    of what it kept, and answers with tables, charts and a report.

    A first look, on a laptop: `lamina report minilm --corpus ewt --out report`

    A **model** is an alias (`lamina assets list`), a Hugging Face id or a folder.
    A **corpus** is a catalogue name (`lamina data list`), a file or a folder.
    """,
)
app.add_typer(assets.app, name="assets")
app.add_typer(data.app, name="data")
app.add_typer(store.app, name="store")
app.command()(encode.encode)
app.command()(geometry.geometry)
app.command()(probe.probe)
app.command()(trace.trace)
app.command()(compare.compare)
app.command()(diff.diff)
app.command()(attention.attention)
app.command()(heads.heads)
app.command()(corefheads.corefheads)
app.command()(parse.parse)
app.command()(headmap.headmap)
app.command()(look.look)
app.command()(contextualize.contextualize)
app.command()(neighbours.neighbours)
app.command()(finetune.finetune)
app.command()(phases.phases)
app.command()(report.report)
app.command()(serve.serve)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Show lamina's version and exit."),
) -> None:
    if version:
        from importlib.metadata import version as installed

        print(f"lamina {installed('lamina')}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


def main() -> None:
    """Run the command line; a user's mistake ends in one line, not in a traceback."""
    # Tokenizers forked by a progress bar's thread would otherwise warn on every run.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        app()
    except LaminaError as error:
        print(f"lamina: {error}", file=sys.stderr)
        # As for a wrong option: 2 says that what was asked is wrong, 1 that it could not be done.
        raise SystemExit(2 if isinstance(error, InputError) else 1) from None
    except OSError as error:
        if error.filename is None:
            raise
        # A file that may not be read, a folder that may not be written: the user's to mend, not ours.
        print(f"lamina: {error.filename}: {error.strerror}", file=sys.stderr)
        raise SystemExit(1) from None
    except SystemExit as stop:
        if stop.code == _INTERRUPTED:
            print("lamina: stopped; finished work is kept, run the same command to continue", file=sys.stderr)
        raise
