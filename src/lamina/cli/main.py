"""The command `lamina`: its sub-commands, and one-line errors."""

from __future__ import annotations

import os
import sys

import typer

from lamina.cli import assets, data, encode, report, requests, results, serve, store
from lamina.cli.analyses import AnalysisGroup
from lamina.errors import InputError, LaminaError

_INTERRUPTED = 130
"""Typer's exit code for Ctrl-C, which prints no message."""

app = typer.Typer(
    name="lamina",
    cls=AnalysisGroup,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""See what every layer and every head of a transformer knows, with numbers you can trust.

    Choose a **model** and a **corpus**. lamina encodes the corpus once, stores the activations, runs every analysis
    on them, and gives you tables, charts and a report.

    A first look, on a laptop: `lamina report minilm --corpus ewt --out report`

    A **model** is an alias (`lamina assets list`), a Hugging Face id or a folder.
    A **corpus** is a catalogue name (`lamina data list`), a file or a folder.
    """,
)
app.add_typer(assets.app, name="assets")
app.add_typer(data.app, name="data")
app.add_typer(store.app, name="store")
app.add_typer(results.app, name="results")
app.command()(encode.encode)
app.command()(report.report)
app.command()(serve.serve)
app.command()(requests.run)
app.command()(requests.describe)


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
    """Run the command line; a user's mistake gives one line, not a traceback."""
    # Otherwise tokenizers warn on every run that a progress bar's thread forked them.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        app()
    except LaminaError as error:
        print(f"lamina: {error}", file=sys.stderr)
        # As for a wrong option: 2 means that the request is wrong, 1 that it failed.
        raise SystemExit(2 if isinstance(error, InputError) else 1) from None
    except OSError as error:
        if error.filename is None:
            raise
        # An unreadable file, an unwritable folder: for the user to fix, not a bug.
        print(f"lamina: {error.filename}: {error.strerror}", file=sys.stderr)
        raise SystemExit(1) from None
    except SystemExit as stop:
        if stop.code == _INTERRUPTED:
            print("lamina: stopped; finished work is kept, run the same command to continue", file=sys.stderr)
        raise
