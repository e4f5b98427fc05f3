"""`lamina results`: list, show and remove saved results; `lamina verify`: compare them with checksums and tables."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from lamina.cli import terminal
from lamina.errors import DamagedError, InputError
from lamina.files.checking import FileProblem, read_json
from lamina.files.writing import left_behind, sweep

if TYPE_CHECKING:
    from lamina.results.result import Result


PARTS = ("store", "results", "assets")

What = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[WHAT]...",
        help="`store`, `results`, `assets`, or folders with results; everything by default (results in ./results and "
        "./report).",
    ),
]


class _VerifyProblem(NamedTuple):
    """Something that is damaged or of no use."""

    what: str
    """What is wrong, and what to do."""
    drop: Callable[[], object] | None
    """Deletes it; None for what lamina cannot make again by itself."""
    leftover: bool = False
    """Not damaged: a killed process left it."""
    wrong_finding: bool = False
    """Not damaged: a finding, or words of a chart, that the tables do not support."""

    @property
    def kind(self) -> str:
        """What is wrong, in a word or two."""
        return "left over" if self.leftover else "not supported" if self.wrong_finding else "damaged"


class _VerifiedPart(NamedTuple):
    """What was found in one part of what lamina keeps."""

    summary: str
    problems: list[_VerifyProblem]


def verify(
    what: What = None,
    store: terminal.StoreOption = None,
    drop: Annotated[
        bool,
        typer.Option(
            "--drop",
            help="Delete leftovers, and damaged files that lamina makes again by itself: shards, indexes, probing "
            "runs, caches, assets. Results are never deleted.",
        ),
    ] = False,
) -> None:
    """Compare everything that lamina keeps with its checksums, and the findings of results with their tables.

    Says what to do; exit code 1 if anything is damaged or not supported.

    Example: `lamina verify results`
    """
    from lamina.progress import progress

    damaged = False
    with progress("verifying") as advance:
        for part in _parts(what or [], store):
            for problem in part.problems:
                deleted = ""
                if drop and problem.drop:
                    problem.drop()
                    deleted = ", deleted"
                print(f"{problem.kind}{deleted}: {problem.what}")
                if not problem.leftover and not deleted:
                    damaged = True
            print(part.summary)
            advance()
    if damaged:
        raise typer.Exit(1)


def _parts(what: list[str], store: Path | None) -> Iterator[_VerifiedPart]:
    from lamina.results.index import usual_folders

    folders = [Path(name) for name in what if name not in PARTS]
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"there is no folder {folder}; give {', '.join(PARTS)}, or a folder with results")
    if not what or "store" in what:
        yield _stores(store)
        yield _runs(store)
    if not what or "results" in what:
        folders += usual_folders()
    if folders:
        yield _results(folders)
    if not what or "assets" in what:
        yield _assets()
        yield _caches()


def _stores(root: Path | None) -> _VerifiedPart:
    from lamina.activations import default_root, problems, stores

    listed = stores(root)
    if not listed:
        return _VerifiedPart(f"store: nothing in {root or default_root()}", [])
    by_store = [(store, problem) for store in listed for problem in _of_no_living_process(problems(store))]
    problems_found = []
    for store, problem in by_store:
        if problem.leftover:
            problems_found.append(_VerifyProblem(problem.what, store.sweep, leftover=True))
        elif problem.path.suffix in _SHARD:
            again = "`lamina encode ... --repair` encodes its texts again"
            problems_found.append(_VerifyProblem(f"{problem.what}; {again}", partial(store.drop, [problem.path])))
        else:
            problems_found.append(
                _VerifyProblem(f"{problem.what}; `lamina encode` with its model writes it again", None)
            )
    damaged = [problem.path.suffix for _, problem in by_store if not problem.leftover]
    shards = sum(len(store.shards) for store in listed)
    intact = [f"{shards - damaged.count(suffix):,} of {shards:,} {name}" for suffix, name in _SHARD.items()]
    return _VerifiedPart(f"store: {', '.join(intact)} intact", problems_found)


_SHARD = {".safetensors": "shards", ".arrow": "indexes"}


def _runs(root: Path | None) -> _VerifiedPart:
    from lamina.analyses.layers.probe.training import problems

    problems_found = [
        _VerifyProblem(problem.what, partial(sweep, problem.path.parent), leftover=True)
        if problem.leftover
        else _VerifyProblem(
            f"{problem.what}; the next `lamina probe` computes it again", partial(_delete, problem.path)
        )
        for problem in _of_no_living_process(problems(root))
    ]
    damaged = sum(not problem.leftover for problem in problems_found)
    return _VerifiedPart(
        f"probing runs: {damaged:,} damaged files" if damaged else "probing runs: intact", problems_found
    )


def _results(roots: Iterable[Path]) -> _VerifiedPart:
    from lamina.results.folder import leftovers
    from lamina.results.result import check_result

    roots = list(dict.fromkeys(roots))
    folders = [folder for root in roots for folder in _below(root)]
    results = [folder for folder in folders if (folder / "result.json").exists()]
    damaged = {folder: problems for folder in results if (problems := check_result(folder))}
    wrong = {
        folder: wrong_findings
        for folder in results
        if folder not in damaged and (wrong_findings := _unsupported_findings(folder))
    }
    problems_found = [_VerifyProblem(what, None) for problems in damaged.values() for what in problems]
    problems_found += [
        _VerifyProblem(what, None, wrong_finding=True) for wrong_findings in wrong.values() for what in wrong_findings
    ]
    for folder in folders:
        for path, _ in left_behind(folder):
            problems_found.append(
                _VerifyProblem(f"{path} was left by a run that was stopped", partial(sweep, folder), leftover=True)
            )
    for work in (work for root in roots for work in leftovers(root)):
        unfinished = f"{work.path} ({work.size / 1e6:,.1f} MB) is unfinished work; the same command continues it"
        problems_found.append(_VerifyProblem(unfinished, None, leftover=True))
    where = ", ".join(map(str, roots))
    if not results:
        return _VerifiedPart(f"results: none in {where}", problems_found)
    return _VerifiedPart(
        f"results: {len(results) - len(damaged) - len(wrong):,} of {len(results):,} intact in {where}", problems_found
    )


def _unsupported_findings(folder: Path) -> list[str]:
    """Findings and words of charts that the tables do not support; results of other versions are not checked."""
    from lamina.framework.registry import get_analysis, names
    from lamina.framework.verify import check_findings, check_words
    from lamina.results import Result

    result = Result.load(folder)
    if result.analysis not in names() or result.version != get_analysis(result.analysis).version:
        return []
    return [
        f"{folder}: {problem}"
        for problem in [*check_findings(result), *check_words(result, saved_words(folder, result))]
    ]


def saved_words(folder: Path, result: Result) -> dict[str, str]:
    """What captions say of this result, and the words in saved charts; how to read a chart is the same for all."""
    from lamina.figures import captions_for, captions_of, words_of

    readings = captions_of(result.analysis)
    texts = {f"{name} caption": caption.removeprefix(readings[name]) for name, caption in captions_for(result).items()}
    for path in sorted(folder.glob("*.vl.json")):
        chart = path.name.removesuffix(".vl.json")
        texts |= {f"{chart} {place}": text for place, text in words_of(read_json(path)).items()}
    return texts


def _assets() -> _VerifiedPart:
    from lamina import assets

    cached = [name for name in assets.cards() if (assets.cache_dir() / "assets" / name).is_dir()]
    broken = {name: files for name in cached if (files := assets.damaged(name, now=True))}
    problems_found = [
        _VerifyProblem(
            f"{files[0]} is damaged; `lamina assets get {name}` fetches {name} again", partial(assets.remove, name)
        )
        for name, files in broken.items()
    ]
    record = assets.cache_dir() / "hub_hashes.json"
    try:
        if record.exists():
            read_json(record)
    except DamagedError as error:
        problems_found.append(_VerifyProblem(f"{error}; delete it to accept the next downloads from the hub", None))
    return _VerifiedPart(f"assets: {len(cached) - len(broken):,} of {len(cached):,} intact", problems_found)


def _caches() -> _VerifiedPart:
    from lamina.corpora.caching import caches, damaged_caches
    from lamina.files.checking import cache_dir
    from lamina.models.weights.quantised import conversions, damaged_conversions

    # What lamina remembers: passports of models, hashes of files, estimates.
    remembered = [*sorted(cache_dir().glob("passports/**/*.json")), *sorted(cache_dir().glob("estimates/*.json"))]
    remembered += [path for path in [cache_dir() / "hashes.json"] if path.exists()]
    total = len(caches()) + len(conversions()) + len(remembered)
    damaged = [*damaged_caches(), *damaged_conversions(), *filter(_is_damaged, remembered)]
    problems_found = [
        _VerifyProblem(f"{path} is damaged; it is made again when needed", partial(_delete, path)) for path in damaged
    ]
    return _VerifiedPart(
        f"parsed corpora, converted models, passports, hashes: {total - len(problems_found):,} of {total:,} intact",
        problems_found,
    )


def _is_damaged(path: Path) -> bool:
    try:
        read_json(path)
    except (OSError, InputError, DamagedError):
        return True
    return False


def _below(root: Path) -> Iterator[Path]:
    """A folder and all folders below it that are not hidden."""
    for folder, inner, _ in os.walk(root):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        yield Path(folder)


def _of_no_living_process(problems: Iterable[FileProblem]) -> Iterator[FileProblem]:
    """Without the hidden files that a living process is about to finish."""
    for problem in problems:
        hidden = problem.leftover and problem.path.name.startswith(".")
        if not hidden or any(path == problem.path for path, _ in left_behind(problem.path.parent)):
            yield problem


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


results_app = typer.Typer(no_args_is_help=True, help="List, show and remove saved results.")

Folders = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[FOLDER]...", help="Folders to search; ./results and ./report by default."),
]


@results_app.command("ls")
def list_results(folders: Folders = None) -> None:
    """List results: analysis, version, model, data, texts, date, size, folder.

    A result on fewer texts than another one of the same analysis, model and data is partial: pages show the other one.

    Example: `lamina results ls results`
    """
    from rich.console import Console
    from rich.table import Table

    from lamina.results.folder import folder_size, leftovers
    from lamina.results.index import ResultIndex, partial, texts_seen, usual_folders

    looked_into = tuple(folders or usual_folders())
    index = ResultIndex(looked_into)
    entries = index.entries()
    for passed in index.passed_over():
        print(f"lamina: {passed.name} is not listed: {passed.why}", file=sys.stderr)
    for left in (passed for folder in looked_into for passed in leftovers(folder)):
        print(
            f"lamina: {left.path} ({left.size / 1e6:,.1f} MB) is of a run that was stopped; the command that makes "
            f"{left.target.name} continues it, or delete it",
            file=sys.stderr,
        )
    if not entries:
        print(f"no results in {', '.join(map(str, looked_into))}")
        return
    smaller = partial(entries)
    table = Table("analysis", "version", "model", "data", "texts", "made", "MB", "folder")
    for entry in entries:
        size = folder_size(entry.folder) / 1e6
        created = entry.created[:16].replace("T", " ")
        data = entry.corpus.get("name", "")
        version = str(entry.head.get("version", 0))
        count = texts_seen(entry.corpus)
        texts = ("" if count is None else f"{count:,}") + (" (partial)" if entry.id in smaller else "")
        table.add_row(
            entry.analysis, version, entry.model, data, texts.strip(), created, f"{size:,.1f}", str(entry.folder)
        )
    # In a pipe there is no terminal width: one line per result.
    Console(markup=False, width=None if sys.stdout.isatty() else 300).print(table)


@results_app.command()
def show(folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A result's folder.")]) -> None:
    """Show one result: findings, settings, tables, what was left out, and the command that made it.

    Example: `lamina results show results/geometry`
    """
    from lamina.results import Result
    from lamina.results.index import sample_in_words

    result = Result.load(folder)
    about = result.provenance
    print(f"{result.analysis} (version {result.version}): {about.model.get('name')} on {about.corpus.get('name')}")
    for finding in result.findings:
        print(f"  {finding.status:<6} {finding.text}")
    for warning in about.warnings:
        print(f"warning: {warning}")
    print(sample_in_words(about.corpus, {}))
    print("settings")
    for name, value in about.parameters.items():
        print(f"  {name} = {json.dumps(value, default=str)}")
    print("tables")
    for name, table in result.tables.items():
        suffix = "parquet" if name in result.parquet else "csv"
        print(f"  {name}.{suffix}  {len(table):,} rows: {', '.join(map(str, table.columns))}")
    for reason, count in about.skipped.items():
        print(f"{count:,} {reason}")
    for name, why in result.undrawn.items():
        print(f"{name} not drawn: {why}")
    print(f"made {about.created} by `{about.command}`")


@results_app.command()
def draw(folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A result's folder.")]) -> None:
    """Draw the charts of a saved result again; tables, findings and provenance stay as they are.

    Example: `lamina results draw results/geometry`
    """
    from lamina.results.result import draw_again

    undrawn = draw_again(folder)
    for name, why in undrawn.items():
        print(f"lamina: {name} not drawn: {why}", file=sys.stderr)
    print(folder)
    if undrawn:
        raise typer.Exit(1)


@results_app.command()
def rm(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Folders of results to remove.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove results; a folder that is not a result is never removed.

    Example: `lamina results rm results/geometry --yes`
    """
    from lamina.files.writing import remove_folder
    from lamina.results.folder import read_head

    heads = {folder: read_head(folder) for folder in folders}
    for folder, head in heads.items():
        if not yes and not typer.confirm(f"remove {folder} ({head.get('analysis')})?"):
            continue
        remove_folder(folder)
        print(f"removed {folder}")
