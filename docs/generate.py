"""Generate pages from the code: commands, catalogue, Python API. Run by mkdocs at each build."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import mkdocs_gen_files
import pandas as pd
import typer.main

import lamina
from lamina.assets import cards
from lamina.cli.main import app
from lamina.corpora.catalogue import CATALOGUE
from lamina.corpora.formats.catalogue import FORMATS
from lamina.framework.declare import Analysis
from lamina.framework.registry import all_analyses, get_analysis
from lamina.reproduction.papers import PublishedTable, get_paper
from lamina.reproduction.running import paper_table
from lamina.tasks import TASKS

_NOT_SHOWN = {"cli", "web", "__main__"}
"""The command line and the web app have their own pages."""
MARK = re.compile(r"<!-- analysis: (\w+) -->")
"""In a method page: put the head of this analysis here."""


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines) + "\n"


def _cell(value: object) -> str:
    return " ".join(str(value).replace("|", "\\|").split())


def command_pages() -> Iterator[str]:
    """The whole command tree, one section per command."""
    yield "# The command line\n\n`lamina COMMAND --help` prints the same.\n"
    yield from _command("lamina", typer.main.get_command(app))


def _command(path: str, command) -> Iterator[str]:
    yield f"## `{path}`\n\n{inspect.cleandoc(command.help or '')}\n"
    parameters = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    arguments = [each for each in parameters if each.param_type_name == "argument"]
    options = [each for each in parameters if each.param_type_name == "option"]
    if arguments:
        rows = [(f"`{(each.metavar or each.name).upper()}`", getattr(each, "help", "") or "") for each in arguments]
        yield table(("argument", "what"), rows)
    if options:
        yield table(("option", "default", "what"), [_option(each) for each in options])
    if hasattr(command, "list_commands"):
        for name in sorted(command.list_commands(None)):
            inner = command.get_command(None, name)
            yield from _command(f"{path} {name}", getattr(inner, "whole", inner))


def _option(option) -> tuple[str, str, str]:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    default = "" if option.default in (None, False) or callable(option.default) else f"`{option.default}`"
    return names, default, option.help or ""


def analyses_page() -> Iterator[str]:
    """Every analysis with its declaration."""
    yield "# The analyses\n\nEach is a command, a Python function, a request and (some) a chapter of the report.\n"
    yield "`lamina describe NAME` prints the same as JSON.\n"
    rows = [(f"[`{each.name}`](#{each.name})", each.title, each.question, each.chapter) for each in all_analyses()]
    yield table(("analysis", "title", "question", "chapter"), rows)
    for each in all_analyses():
        yield f"## {each.name}\n\n{head_of(each)}"


def head_of(each: Analysis) -> str:
    """What an analysis answers, how, from what, with which settings and tables."""
    inputs = ", ".join(given.name for given in each.reads.given)
    papers = f" After {'; '.join(each.cites)}." if each.cites else ""
    settings = [
        (f"`{name}`", "required" if one.required else f"`{one.default}`", one.about.help)
        for name, one in each.settings.items()
    ]
    tables = [(f"`{name}.{one.format}`", one.rows, ", ".join(one.columns)) for name, one in each.tables.items()]
    parts = [
        f"**{each.question}** {each.method}{papers}\n",
        f"`lamina.{each.name}({inputs}, **settings)`, version {each.version}.\n",
        f"`{each.example or 'lamina ' + each.name}`\n",
    ]
    if settings:
        parts.append(table(("setting", "default", "what"), settings))
    return "\n".join([*parts, table(("table", "rows", "columns"), tables)])


def method_page(path: Path) -> str:
    """A method page, with the declarations of its analyses inserted at `<!-- analysis: heads -->`."""
    text = path.read_text(encoding="utf-8")
    return MARK.sub(lambda found: head_of(get_analysis(found[1])), text)


def catalogue_page() -> Iterator[str]:
    """Models, vectors, corpora, test suites, formats and tasks, from the code."""
    yield "# The catalogue\n\nWhat lamina knows by name. `lamina assets show NAME` prints a whole card.\n"
    titles = (("model", "Models"), ("vectors", "Word vectors"), ("corpus", "Corpora"), ("suite", "Test suites"))
    for kind, title in titles:
        rows = [
            (f"`{card.name}`", card.what, card.licence, f"{card.size / 1e6:,.0f} MB", card.note)
            for card in cards().values()
            if card.kind == kind
        ]
        yield f"## {title}\n\n" + table(("name", "what", "licence", "size", "note"), rows)
    yield "## Annotations of each corpus\n\n" + table(
        ("corpus", "format", "label scheme", "annotations"),
        [(f"`{e.name}`", f"`{e.format}`", e.scheme, ", ".join(e.annotations) or "none") for e in CATALOGUE],
    )
    yield "## Formats\n\n" + table(
        ("`--format`", "what", "label scheme"), [(f"`{form.name}`", form.title, form.scheme) for form in FORMATS]
    )
    yield "## Tasks\n\n" + table(
        ("task", "asks for", "spans", "score", "annotation"),
        [(f"`{task.name}`", task.what, task.arity, task.scoring, f"`{task.annotation}`") for task in TASKS],
    )


def api_pages() -> Iterator[tuple[str, list[str]]]:
    """Page name -> the modules it shows: one page per folder, one for the modules outside folders."""
    beside = []
    for module in pkgutil.iter_modules(lamina.__path__):
        if module.name in _NOT_SHOWN:
            continue
        if not module.ispkg:
            beside.append(f"lamina.{module.name}")
            continue
        yield module.name, list(_modules(f"lamina.{module.name}", Path(lamina.__path__[0], module.name)))
    yield "lamina", beside


def _modules(package: str, folder: Path) -> Iterator[str]:
    """A package and all modules below it."""
    yield package
    for inner in pkgutil.iter_modules([str(folder)]):
        name = f"{package}.{inner.name}"
        if inner.ispkg:
            yield from _modules(name, folder / inner.name)
        else:
            yield name


def shown(module: str) -> str:
    """A module for mkdocstrings; for a package only what it defines itself, since the rest has its own module."""
    home = Path(lamina.__path__[0], *module.split(".")[1:], "__init__.py")
    if not home.exists():
        return f"::: {module}\n"
    body = ast.parse(home.read_text(encoding="utf-8")).body
    own = [node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name[0] != "_"]
    return f"::: {module}\n    options:\n      members: {own or 'false'}\n"


def write(path: str, parts: Iterable[str]) -> None:
    """One generated page."""
    with mkdocs_gen_files.open(path, "w") as file:
        file.write("\n".join(parts))


def reproduction_page() -> Iterator[str]:
    """What `lamina reproduce` wrote here: every `comparison.csv` in docs/reproductions, as the papers' tables."""
    yield "# Papers, run here\n\nWhat was run, on what, and why: [Reproducing papers](reproduction.md).\n"
    yield (
        "Each cell: published, ours with its 95 % interval where there is one, the difference. Models and most data "
        "stand in for the papers' own, so a difference is expected.\n"
    )
    for path in sorted((Path(__file__).parent / "reproductions").glob("*.csv")):
        name, _, model = path.stem.partition("-")
        paper, numbers = get_paper(name), pd.read_csv(path)
        yield f"## {name} with {model}\n\n{paper.title} ({paper.cite}). [All numbers](reproductions/{path.name})\n"
        for published in paper.tables:
            of_table = numbers[numbers["table"] == published.id]
            there = of_table[of_table["row"].isin(of_table.loc[of_table["ours"].notna(), "row"])]
            if len(there):
                yield _paper_table(published, there, f"reproductions/{path.stem}-{published.id}.svg")


def _paper_table(published: PublishedTable, numbers: pd.DataFrame, image: str) -> str:
    drawn = paper_table(published, numbers)
    rows = [
        (row.name, *(", ".join(filter(None, (cell.published, cell.ours, cell.difference))) for cell in row.cells))
        for row in drawn.rows
    ]
    parts = [f"### {published.title}\n\nPublished: {published.model}. {published.source}.\n"]
    parts += [table(("", *drawn.columns), rows), f"{drawn.summary}\n"]
    if drawn.figure is not None:
        with mkdocs_gen_files.open(image, "w") as file:
            file.write(drawn.figure.svg)
        parts.append(f"![{published.title}: published and ours]({image})\n")
    return "\n".join(parts)


def check_formats_page() -> None:
    """Stop the build if the hand-written page on formats is out of date."""
    page = (Path(__file__).parent / "formats.md").read_text(encoding="utf-8")
    names = {form.name for form in FORMATS} | {name for entry in CATALOGUE for name in entry.annotations}
    missing = sorted(name for name in names if f"`{name}`" not in page)
    if missing:
        raise SystemExit(f"docs/formats.md does not mention: {', '.join(missing)}")


check_formats_page()
write("reference/cli.md", command_pages())
write("reference/analyses.md", analyses_page())
for page in sorted((Path(__file__).parent / "methods").glob("*.md")):
    write(f"methods/{page.name}", [method_page(page)])
write("reference/catalogue.md", catalogue_page())
write("reproductions.md", reproduction_page())
for name, modules in api_pages():
    title = "Shared names" if name == "lamina" else name.capitalize()
    write(f"reference/api/{name}.md", [f"# {title}\n", *map(shown, modules)])
