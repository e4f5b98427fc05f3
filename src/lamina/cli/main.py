"""The command `lamina`: its sub-commands, and one-line errors."""

from __future__ import annotations

import os
import sys

import typer

from lamina.cli import analyses, apply, data, machine, model, report, results, serve, study
from lamina.cli.terminal import in_one_sentence
from lamina.errors import InputError

_INTERRUPTED = 130
"""Typer's exit code for Ctrl-C, which prints no message."""
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
app.command()(report.reproduce)
app.command()(serve.serve)
app.command()(analyses.describe)
app.command()(analyses.cite)
app.command()(analyses.run)
app.command()(model.pretrain)
app.command()(apply.apply)
app.command()(machine.encode)
app.command()(results.verify)
app.command()(machine.doctor)
app.command()(study.bundle)
app.command("open")(study.open_bundle)
app.command()(study.push)
app.add_typer(study.app, name="study")
app.add_typer(study.atlas_app, name="atlas")
app.add_typer(results.results_app, name="results")
app.add_typer(data.app, name="data")
app.add_typer(model.app, name="model")
app.add_typer(machine.assets_app, name="assets")
app.add_typer(machine.store_app, name="store")


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Show lamina's version, of a checkout its commit, and exit."),
) -> None:
    if version:
        from importlib.metadata import version as installed

        from lamina.results.result import source_revision

        commit = source_revision()
        print(f"lamina {installed('lamina')}" + f" (commit {commit})" * bool(commit))
    elif context.invoked_subcommand is None:
        print(context.get_help())


def main() -> None:
    """Run the command line; errors that a user can mend give one line, not a traceback."""
    # Otherwise tokenizers warn on every run that a progress bar's thread forked them.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        app()
    except SystemExit as stop:
        if stop.code == _INTERRUPTED:
            raise KeyboardInterrupt from None
        raise
    except BaseException as error:
        sentence = in_one_sentence(error)
        if sentence is None:
            raise
        print(f"lamina: {sentence}", file=sys.stderr)
        # As for a wrong option: 2 means that the request is wrong, 1 that it failed.
        raise SystemExit(2 if isinstance(error, InputError) else 1) from None
