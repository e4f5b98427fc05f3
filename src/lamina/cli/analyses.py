"""The commands of the analyses, generated from their declarations: arguments, options, dry run, answer, findings."""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
import tomllib
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from lamina import analyses
from lamina.cli.options import DEVICE_HELP, ENGINE_HELP, KEEP_HELP, TRUST_HELP, WORKERS_HELP
from lamina.errors import InputError
from lamina.files.reading import parse_json
from lamina.framework.requests import NONE
from lamina.lifeline import follow_starter
from lamina.results.provenance import COMMAND

if TYPE_CHECKING:
    from lamina.activations import Engine
    from lamina.activations.engines import EngineName
    from lamina.framework.declare import Analysis, Query
    from lamina.framework.inputs import Input
    from lamina.framework.settings import DeclaredSetting
    from lamina.results import Result


_OUT = typer.Option("--out", help="Output folder; by default one under results/ with the question's key in its name.")
_REPLACE = typer.Option("--replace", help="Overwrite a different result in that folder.")
_STORE = typer.Option("--store", help="Where activations are kept; by default LAMINA_STORE or lamina's cache.")
_DEVICE = typer.Option("--device", help=DEVICE_HELP)
_KEEP = typer.Option("--keep/--no-keep", help=KEEP_HELP)
_ENGINE = typer.Option("--engine", help=ENGINE_HELP)
_WORKERS = typer.Option("--workers", min=1, help=WORKERS_HELP)
_TRUST = typer.Option("--trust-remote-code", help=TRUST_HELP)
_DRY_RUN = typer.Option("--dry-run", help="Print the expected time, memory and disk space; compute nothing.")
_PLACES = (
    ("out", Path | None, None, _OUT),
    ("replace", bool, False, _REPLACE),
    ("store", Path | None, None, _STORE),
    ("device", str | None, None, _DEVICE),
    ("keep", bool | None, None, _KEEP),
    ("engine", Literal["gpus", "ray"] | None, None, _ENGINE),
    ("workers", int | None, None, _WORKERS),
    ("trust_remote_code", bool, False, _TRUST),
    ("dry_run", bool, False, _DRY_RUN),
)


class AnalysisGroup(TyperGroup):
    """Hand-written commands, and one per analysis, loaded on demand."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The hand-written commands, then the analyses, each in their own order."""
        return [*super().list_commands(ctx), *analyses.names()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A hand-written command, or that of an analysis."""
        own = super().get_command(ctx, cmd_name)
        return own if own is not None or cmd_name not in analyses.names() else AnalysisCommand(cmd_name)


class AnalysisCommand(TyperCommand):
    """The command of an analysis; its one-line help is available without loading it."""

    def __init__(self, name: str) -> None:
        super().__init__(name, help=analyses.first_lines()[name], rich_markup_mode="markdown")

    @cached_property
    def whole(self) -> Any:
        """The command with all its options."""
        app = typer.Typer(rich_markup_mode="markdown", pretty_exceptions_enable=False, add_completion=False)
        declared = analyses.get_analysis(str(self.name))
        app.command(self.name, help=_help(declared))(_function(declared))
        command = typer.main.get_command(app)
        command.context_settings = {"help_option_names": ["-h", "--help"]}
        return command

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the whole command."""
        return self.whole.make_context(info_name, args, parent=parent, **extra)


def answer(asked: Query, out: Path | None, *, replace: bool) -> tuple[Path, Result]:
    """Run an analysis, save the result and print its findings; the default folder's name has the question's key."""
    from lamina.framework.cache import ask, default_folder

    folder = out or default_folder(asked)
    return folder, ask(asked, folder, replace=replace)


def print_result(result: Result, folder: Path) -> None:
    """Print the first numbers, the findings, what was left out, and the folder."""
    from lamina.cli.tables import TextTable, print_table

    for shown in analyses.get_analysis(result.analysis).overview(result):
        if isinstance(shown, str):
            print(shown)
        else:
            print_table(shown.title, TextTable(shown.columns, shown.rows), ())
    for finding in result.findings:
        print(f"{finding.status:<6} {finding.text}")
    for warning in result.provenance.warnings:
        print(f"warning: {warning}")
    for reason, count in result.provenance.skipped.items():
        if count:
            print(f"{count:,} {reason}")
    for name, why in result.undrawn.items():
        print(f"warning: {name} not drawn ({why}); `lamina results draw {folder}` tries again")
    print(folder)


def _help(declared: Analysis) -> str:
    """The first paragraph of the description, the question, the tables and an example."""
    first = inspect.cleandoc(declared.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    tables = "".join(
        f"- `{name}.{table.kept}`: {table.rows} Columns: {', '.join(table.columns)}.\n"
        for name, table in declared.tables.items()
    )
    parts = [first, declared.question, f"Writes tables, charts, findings and provenance:\n\n{tables}"]
    if declared.example:
        parts.append(f"Example: `{declared.example}`")
    return "\n\n".join(parts)


def _function(declared: Analysis) -> Callable[..., None]:
    """A function with the signature that Typer reads."""
    inputs = declared.reads.given
    lists = {each.name: each for each in (*declared.options, *declared.settings.values())}

    def command(**given: Any) -> None:
        places = {name: given.pop(name) for name, *_ in _PLACES}
        values = {name: _value(lists[name], value) for name, value in given.items() if name in lists}
        named = {each.name: given[each.name] for each in inputs}
        if len(inputs) == 1 and inputs[0].many:
            named = {inputs[0].name: list(named[inputs[0].name])}
        where = {name: places[name] for name in ("store", "device", "keep", "trust_remote_code")}
        where["engine"] = _engine(declared, places["engine"], places["workers"])
        asked = declared.ask(**named, **values, **where)
        if places["dry_run"]:
            from lamina.framework.estimate import estimate

            print(estimate(asked))
            return
        folder, result = answer(asked, places["out"], replace=places["replace"])
        print_result(result, folder)

    parameters = [
        *(_argument(each) for each in inputs if each.option is None),
        *(_named_input(each) for each in inputs if each.option is not None),
        *(_option(each) for each in (*declared.options, *declared.settings.values())),
        *(_parameter(name, Annotated[kind, how], default) for name, kind, default, how in _PLACES),
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    command.__name__ = declared.name
    return command


def _engine(declared: Analysis, name: EngineName | None, workers: int | None) -> Engine | None:
    """The engine that is asked for; an analysis that encodes nothing has none."""
    if name is None and workers is None:
        return None
    from lamina.activations.engines import engine_named

    if not declared.wants("runtime"):
        raise InputError(f"{declared.name} stores no states, so there is nothing to share out; leave --engine out")
    return engine_named(name, workers)


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _argument(given: Input) -> inspect.Parameter:
    kind = list[str] if given.many else str
    if given.default is not inspect.Parameter.empty:
        kind |= None
    about = typer.Argument(metavar=given.metavar or given.name.upper(), help=given.help)
    return _parameter(given.name, Annotated[kind, about], given.default)


def _named_input(given: Input) -> inspect.Parameter:
    return _parameter(given.name, Annotated[str, typer.Option(given.option, help=given.help)], given.default)


def _option(setting: DeclaredSetting) -> inspect.Parameter:
    """A list option can be repeated; numbers and choices may also be separated by commas."""
    about, default = setting.about, setting.default
    how: dict[str, Any] = {"help": about.help, "metavar": about.metavar}
    if setting.many:
        said = " Repeat for several." if setting.text else " Separate several by commas."
        none = f" Use `{NONE}` to disable." if default else ""
        shown = ", ".join(map(str, default or ())) or None
        how |= {"help": about.help + said + none, "show_default": shown or False}
        return _parameter(setting.name, Annotated[list[str] | None, typer.Option(setting.option, **how)], None)
    optional = type(None) in get_args(setting.type)
    if setting.item is bool:
        names = setting.option if default is False else f"{setting.option}/--no-{setting.option[2:]}"
        return _parameter(setting.name, Annotated[bool, typer.Option(names, help=about.help)], default)
    if setting.item in (int, float):
        how |= {"min": about.min, "max": about.max}
    elif optional and default is not None:
        how["help"] = f"{about.help} Use `{NONE}` to disable."
    kind = setting.item if setting.item in (int, float) or setting.choices else str
    return _parameter(
        setting.name, Annotated[kind | None if optional else kind, typer.Option(setting.option, **how)], default
    )


def _value(setting: DeclaredSetting, given: Any) -> Any:
    """The typed value, converted to the type of the setting."""
    if not setting.many:
        return None if given == NONE and type(None) in get_args(setting.type) else given
    if given is None:
        return setting.default
    if list(given) == [NONE]:
        return ()
    if setting.text:
        return list(given)
    parts = [part.strip() for each in given for part in str(each).split(",") if part.strip()]
    if setting.choices:
        return parts
    try:
        return [setting.item(part) for part in parts]
    except ValueError:
        kind = "whole numbers" if setting.item is int else "numbers"
        raise InputError(f"{setting.option} takes {kind} separated by commas; got {', '.join(given)}") from None


# `lamina describe` and `lamina run`: analyses and requests as data.


def describe(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="An analysis; all of them by default.")] = None,
) -> None:
    """Print an analysis's inputs, settings, tables and version as JSON; settings are a JSON schema.

    Example: `lamina describe heads`
    """
    from lamina.framework.registry import all_analyses, get_analysis

    shown = [each.describe() for each in all_analyses()] if name is None else get_analysis(name).describe()
    print(json.dumps(shown, indent=2, default=str))


def run(
    request: Annotated[
        Path,
        typer.Argument(metavar="REQUEST", help="A TOML or JSON file with an analysis, its inputs and settings."),
    ],
    out: Annotated[Path | None, typer.Option("--out", help="Output folder; by default the one in the request.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite a different result.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the expected cost; compute nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --dry-run: print the cost as JSON.")] = False,
) -> None:
    """Run the analysis in a request file: the same as the analysis's own command.

    A request has `analysis`, its inputs by name (`model`, `data`, ...) and, optionally, `settings`, `out`, `store`,
    `device` and `keep`. Data is a name or path, or a table with `name` and the data options (`split`, `limit`, ...).

    Example: `lamina run request.toml`
    """
    # Jobs of the web app are started this way, and end with their server.
    follow_starter()
    from lamina.framework.requests import read_request

    said = read_request(_table(request))
    wanted = dataclasses.replace(said, out=out or said.out, replace=replace or said.replace)
    asked = wanted.ask()
    if dry_run:
        from lamina.framework.estimate import estimate

        cost = estimate(asked)
        print(json.dumps(dataclasses.asdict(cost)) if as_json else cost)
        return
    told = COMMAND.set(wanted.command)
    try:
        folder, result = answer(asked, wanted.out, replace=wanted.replace)
    finally:
        COMMAND.reset(told)
    print_result(result, folder)


def _table(path: Path) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        table = parse_json(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except ValueError as error:
        raise InputError(f"{path} is neither TOML nor JSON: {error}") from None
    except RecursionError:
        raise InputError(f"{path} is nested too deeply; a request is a table with a few entries") from None
    return table
