"""The commands of the analyses, generated from their declarations; `lamina describe` and `lamina run`."""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from lamina.cli.terminal import DEVICE_HELP, ENGINE_HELP, KEEP_HELP, TRUST_HELP, WORKERS_HELP
from lamina.errors import InputError
from lamina.files.reading import parse_json
from lamina.framework.inputs import Input
from lamina.framework.outline import CHAPTERS, Outline, outline, shown_chapter
from lamina.framework.registry import all_analyses, get_analysis, names
from lamina.framework.requests import NONE
from lamina.framework.settings import DeclaredSetting, Group
from lamina.lifeline import follow_starter
from lamina.progress import say
from lamina.results.result import COMMAND

if TYPE_CHECKING:
    from lamina.activations import Engine
    from lamina.activations.runtime import EngineName
    from lamina.framework.declare import Query
    from lamina.results import Result

_MOST_USED = 5
"""Options of a command that its help shows first."""
_PANELS: dict[Group | None, str] = {
    None: "What is measured",
    "data": "Data",
    "training": "Training",
    "statistics": "Statistics",
    "machine": "Where it runs",
}
"""Headings of the other options, in the order of the help."""


def _machine(*flags: str, **keywords: Any) -> Any:
    """An option under the last heading."""
    return typer.Option(*flags, rich_help_panel=_PANELS["machine"], **keywords)


_OUT = typer.Option("--out", help="Output folder; by default one under results/ with the question's key in its name.")
_STORE_HELP = "Folder of stored activations; by default LAMINA_STORE or lamina's cache."
_PLACES = (
    (
        "dry_run",
        bool,
        False,
        _machine("--dry-run", help="Print the expected time, memory and disk space; run nothing."),
    ),
    ("replace", bool, False, _machine("--replace", help="Overwrite a different result in the output folder.")),
    ("store", Path | None, None, _machine("--store", help=_STORE_HELP)),
    ("device", str | None, None, _machine("--device", help=DEVICE_HELP)),
    ("keep", bool | None, None, _machine("--keep/--no-keep", help=KEEP_HELP)),
    ("engine", Literal["gpus", "ray"] | None, None, _machine("--engine", help=ENGINE_HELP)),
    ("workers", int | None, None, _machine("--workers", min=1, help=WORKERS_HELP)),
    ("trust_remote_code", bool, False, _machine("--trust-remote-code", help=TRUST_HELP)),
)
"""Options of every analysis that say where it runs: parameter, type, default, option."""


class AnalysisGroup(TyperGroup):
    """Hand-written commands, and one per analysis, loaded on demand."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The hand-written commands, then the analyses by chapter."""
        by_chapter: dict[str, list[str]] = {card.name: [] for card in CHAPTERS}
        for name in names():
            # One analysis of another package that cannot be loaded does not hide the others.
            with suppress(InputError):
                analysis = outline(name)
                by_chapter[shown_chapter(analysis.chapter)].append(analysis.command)
        return [*super().list_commands(ctx), *chain.from_iterable(by_chapter.values())]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A hand-written command, or that of an analysis; underscores stand for hyphens."""
        written = super().get_command(ctx, cmd_name)
        name = cmd_name.replace("-", "_")
        return written if written is not None or name not in names() else AnalysisCommand(outline(name))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """See `TyperGroup`; a misspelt name is compared with all analyses, not only with hand-written commands."""
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            close = get_close_matches(args[0], self.list_commands(ctx), n=2, cutoff=0.7)
            meant = f" Did you mean {' or '.join(close)}?" if close else ""
            ctx.fail(f"No such command {args[0]!r}.{meant}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """See `TyperGroup`; a wrong option is answered with options that resemble it, not merely share letters."""
        try:
            return super().invoke(ctx)
        except Exception as problem:
            error: Any = problem  # of the parser that Typer brings along, whose classes it does not make public
            if isinstance(getattr(error, "message", None), str):
                error.message = error.message.replace("Value error, ", "")
            if hasattr(error, "option_name") and hasattr(error, "possibilities"):
                known = [name for option in error.ctx.command.params for name in option.opts] if error.ctx else []
                error.possibilities = similar_options(error.option_name, known)
            raise


_SIMILAR = 0.75
"""Share of letters, in order, that a misspelt option has in common with the option that was meant."""


def similar_options(typed: str, known: Sequence[str]) -> list[str]:
    """The options that a misspelt one may mean, without the dashes that all begin with.

    Example:
        >>> similar_options("--splitt", ["--split", "--limit"]), similar_options("--layers", ["--lr", "--replace"])
        (['--split'], [])
        >>> similar_options("--text", ["--texts", "--context"])
        ['--texts']
    """
    names = {name.lstrip("-"): name for name in known if name.startswith("--")}
    return [names[name] for name in get_close_matches(typed.lstrip("-").lower(), names, n=2, cutoff=_SIMILAR)]


class AnalysisCommand(TyperCommand):
    """The command of an analysis; its options are put together when it is used."""

    def __init__(self, analysis: Outline) -> None:
        chapter = next(card for card in CHAPTERS if card.name == shown_chapter(analysis.chapter))
        super().__init__(
            analysis.command,
            help=analysis.headline,
            rich_markup_mode="markdown",
            rich_help_panel=f"{chapter.title}: {chapter.question}",
        )
        self._outline = analysis

    @cached_property
    def whole(self) -> Any:
        """The command with all its options."""
        app = typer.Typer(rich_markup_mode="markdown", pretty_exceptions_enable=False, add_completion=False)
        app.command(self.name, help=_help(self._outline))(_function(self._outline))
        command = typer.main.get_command(app)
        command.context_settings = {"help_option_names": ["-h", "--help"]}
        return command

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """The context of the whole command; `choose --evaluate-label-free` is about many tasks, with other options."""
        if self.name == "choose" and EVALUATION in args:
            return evaluation_command().make_context(info_name, args, parent=parent, **extra)
        return self.whole.make_context(info_name, args, parent=parent, **extra)


EVALUATION = "--evaluate-label-free"


def evaluation_command() -> Any:
    """The command that `lamina choose --evaluate-label-free` is."""
    from lamina.cli.apply import evaluate_label_free

    app = typer.Typer(rich_markup_mode="markdown", pretty_exceptions_enable=False, add_completion=False)
    app.command(context_settings={"help_option_names": ["-h", "--help"]})(evaluate_label_free)
    return typer.main.get_command(app)


def answer(query: Query, out: Path | None, *, replace: bool) -> tuple[Path, Result]:
    """Run an analysis and save the result; the default folder's name has the question's key."""
    from lamina.framework.run import ask, default_folder

    folder = out or default_folder(query)
    return folder, ask(query, folder, replace=replace)


def print_result(result: Result, folder: Path) -> None:
    """Print the first numbers, the findings, what was left out, and the folder."""
    from lamina.cli.terminal import TextTable, print_table

    for part in get_analysis(result.analysis).overview(result):
        if isinstance(part, str):
            print(part)
        else:
            print_table(part.title, TextTable(part.columns, part.rows), ())
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


def _help(analysis: Outline) -> str:
    """What it does, what it answers and an example; settings, tables and columns are left to `lamina describe`."""
    parts = [analysis.summary, analysis.question]
    if analysis.example:
        parts.append(f"Example: `{analysis.example}`")
    parts.append(f"Tables and their columns: `lamina describe {analysis.command}`")
    return "\n\n".join(parts)


def _function(analysis: Outline) -> Callable[..., None]:
    """A function with the signature that Typer reads."""
    declared = {setting.name: setting for setting in (*analysis.options, *analysis.settings)}

    def command(**values: Any) -> None:
        places = {name: values.pop(name) for name in ("out", *(name for name, *_ in _PLACES))}
        settings = {name: _value(setting, values[name]) for name, setting in declared.items()}
        inputs = {
            given.name: list(values[given.name]) if given.many else values[given.name] for given in analysis.inputs
        }
        analysis.refuse_misspelt(inputs, settings)
        say(f"starting {analysis.command}")
        where = {name: places[name] for name in ("store", "device", "keep", "trust_remote_code")}
        where["engine"] = _engine(analysis, places["engine"], places["workers"])
        whole = get_analysis(analysis.name)
        if places["dry_run"]:
            print(whole.estimate(**inputs, **settings, **where))
            return
        folder, result = answer(whole.ask(**inputs, **settings, **where), places["out"], replace=places["replace"])
        print_result(result, folder)

    parameters = [*(_argument(given) for given in analysis.inputs if given.option is None), *_options(analysis)]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__name__ = analysis.name
    return command


def _options(analysis: Outline) -> Iterator[inspect.Parameter]:
    """The most used options first; the rest by heading."""
    limit = [setting for setting in analysis.options if setting.name == "limit"]
    room = _MOST_USED - 1 - len(limit) - sum(given.option is not None for given in analysis.inputs)
    leading = [setting for setting in analysis.settings if setting.about.group is None or setting.required][:room]
    yield from (_named_input(given) for given in analysis.inputs if given.option is not None)
    yield from (_option(setting, None) for setting in (*leading, *limit))
    yield _parameter("out", Annotated[Path | None, _OUT], None)
    first = {setting.name for setting in (*leading, *limit)}
    others = [(setting, setting.about.group) for setting in analysis.settings]
    others += [(setting, setting.about.group or "data") for setting in analysis.options]
    for group, panel in _PANELS.items():
        yield from (_option(setting, panel) for setting, of in others if of == group and setting.name not in first)
    for name, kind, default, option in _PLACES:
        yield _parameter(name, Annotated[kind, option], default)


def _engine(analysis: Outline, name: EngineName | None, workers: int | None) -> Engine | None:
    """The engine of `--engine` and `--workers`; an analysis that stores no states has none."""
    if name is None and workers is None:
        return None
    from lamina.activations.runtime import engine_named

    if not analysis.encodes:
        raise InputError(f"{analysis.command} stores no states, so there is nothing to share out; leave --engine out")
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


def _option(setting: DeclaredSetting, panel: str | None) -> inspect.Parameter:
    """A list option can be repeated; numbers and choices may also be separated by commas."""
    about, default = setting.about, setting.default
    keywords: dict[str, Any] = {"help": about.help, "metavar": about.metavar, "rich_help_panel": panel}
    if setting.many:
        several = " Repeat for several." if setting.text else " Separate several by commas."
        none = f" Use `{NONE}` to disable." if default else ""
        listed = ", ".join(map(str, default or ())) or None
        keywords |= {"help": about.help + several + none, "show_default": listed or False}
        return _parameter(setting.name, Annotated[list[str] | None, typer.Option(setting.option, **keywords)], None)
    optional = type(None) in get_args(setting.type)
    if setting.item is bool:
        flags = setting.option if default is False else f"{setting.option}/--no-{setting.option[2:]}"
        option = typer.Option(flags, help=about.help, rich_help_panel=panel)
        return _parameter(setting.name, Annotated[bool, option], default)
    if setting.item in (int, float):
        keywords |= {"min": about.min, "max": about.max}
    elif optional and default is not None:
        keywords["help"] = f"{about.help} Use `{NONE}` to disable."
    kind = setting.item if setting.item in (int, float) or setting.choices else str
    option = typer.Option(setting.option, **keywords)
    return _parameter(setting.name, Annotated[kind | None if optional else kind, option], default)


def _value(setting: DeclaredSetting, typed: Any) -> Any:
    """What was typed, converted to the type of the setting."""
    if not setting.many:
        return None if typed == NONE and type(None) in get_args(setting.type) else typed
    if typed is None:
        return setting.default
    if list(typed) == [NONE]:
        return ()
    if setting.text:
        return list(typed)
    parts = [part.strip() for word in typed for part in str(word).split(",") if part.strip()]
    if setting.choices:
        return parts
    try:
        return [setting.item(part) for part in parts]
    except ValueError:
        kind = "whole numbers" if setting.item is int else "numbers"
        raise InputError(f"{setting.option} takes {kind} separated by commas; got {', '.join(typed)}") from None


def describe(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="An analysis; all of them by default.")] = None,
) -> None:
    """Print an analysis's inputs, settings, tables and version as JSON; settings are a JSON schema.

    Example: `lamina describe heads`
    """
    described = [analysis.describe() for analysis in all_analyses()] if name is None else get_analysis(name).describe()
    print(json.dumps(described, indent=2, default=str))


def cite(
    what: Annotated[
        list[str], typer.Argument(metavar="WHAT...", help="Analyses by name, or folders with results or reports.")
    ],
) -> None:
    """Print BibTeX entries of the papers behind analyses and results, and of lamina.

    Example: `lamina cite probe heads`
    """
    cited = dict.fromkeys(name for words in what for name in _analyses_of(words))
    entries = dict.fromkeys(chain.from_iterable(get_analysis(name).bibtex().split("\n\n") for name in cited))
    print("\n\n".join(entries))


def _analyses_of(words: str) -> list[str]:
    """The analysis of this name, or those whose results are in this folder."""
    from lamina.results.index import ResultIndex

    name = words.replace("-", "_")
    if name in names():
        return [name]
    if not Path(words).is_dir():
        raise InputError(f"{words} is neither an analysis (see `lamina --help`) nor a folder with results")
    known = [entry.analysis for entry in ResultIndex((Path(words),)).entries() if entry.analysis in names()]
    if not known:
        raise InputError(f"there is no result in {words}")
    return known


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

    written = read_request(_read_table(request))
    wanted = dataclasses.replace(written, out=out or written.out, replace=replace or written.replace)
    if dry_run:
        cost = wanted.estimate()
        print(json.dumps(dataclasses.asdict(cost)) if as_json else cost)
        return
    query = wanted.ask()
    token = COMMAND.set(wanted.command)
    try:
        folder, result = answer(query, wanted.out, replace=wanted.replace)
    finally:
        COMMAND.reset(token)
    print_result(result, folder)


def _read_table(path: Path) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        return parse_json(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except ValueError as error:
        raise InputError(f"{path} is neither TOML nor JSON: {error}") from None
    except RecursionError:
        raise InputError(f"{path} is nested too deeply; a request is a table with a few entries") from None
