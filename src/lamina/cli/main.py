"""The command `lamina`: its sub-commands, and one-line errors."""

from __future__ import annotations

import errno
import os
import re
import sys

import typer
from safetensors import SafetensorError

from lamina.cli import analyses, assets, data, model, report, results, serve, store, verify
from lamina.errors import InputError, LaminaError
from lamina.files.writing import error_number

_INTERRUPTED = 130
"""Typer's exit code for Ctrl-C, which prints no message."""
_OUT_OF_MEMORY = re.compile(r"can't allocate memory|out of memory|Cannot allocate memory", re.IGNORECASE)
"""What torch says when memory runs out, on a CPU or a GPU."""

app = typer.Typer(
    name="lamina",
    cls=analyses.AnalysisGroup,
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
app.command()(report.report)
app.command()(serve.serve)
app.command()(analyses.describe)
app.command()(analyses.run)
app.command()(store.encode)
app.command()(verify.verify)
app.add_typer(results.app, name="results")
app.add_typer(data.app, name="data")
app.add_typer(model.app, name="model")
app.add_typer(assets.app, name="assets")
app.add_typer(store.app, name="store")


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
    """Run the command line; what a user or the machine can mend gives one line, not a traceback."""
    # Otherwise tokenizers warn on every run that a progress bar's thread forked them.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        app()
    except SystemExit as stop:
        if stop.code == _INTERRUPTED:
            raise KeyboardInterrupt from None
        raise
    except Exception as error:
        sentence = in_one_sentence(error)
        if sentence is None:
            raise
        print(f"lamina: {sentence}", file=sys.stderr)
        # As for a wrong option: 2 means that the request is wrong, 1 that it failed.
        raise SystemExit(2 if isinstance(error, InputError) else 1) from None


def in_one_sentence(error: Exception) -> str | None:
    """What to tell a user about an error that is not a bug in lamina; None for one that seems to be.

    Example:
        >>> in_one_sentence(PermissionError(13, "Permission denied", "results"))
        'results: Permission denied'
        >>> in_one_sentence(ZeroDivisionError())
    """
    if isinstance(error, LaminaError):
        return str(error)
    if isinstance(error, MemoryError) or _OUT_OF_MEMORY.search(str(error)):
        return (
            "not enough memory; finished work is kept. Ask for less at once (--limit, a smaller model), or close other "
            "programs, and run the same command again"
        )
    number = error_number(error)
    if number is None or not isinstance(error, OSError | RuntimeError | SafetensorError):
        return None
    if number in (errno.ENOSPC, errno.EDQUOT):
        return (
            "no space left on the disk; finished work is kept. Free some space (`lamina store gc` removes leftovers) "
            "and run the same command again"
        )
    named = f"{error.filename}: " if isinstance(error, OSError) and error.filename is not None else ""
    return f"{named}{os.strerror(number)}"
