"""Running analyses: passes over attention maps are shared, provenance and findings added, answers computed once.

A saved result of the same inputs is read; a run that was stopped continues.
"""

from __future__ import annotations

import inspect
import os
import re
import shutil
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace as replace_fields
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from lamina.activations import default_root
from lamina.assets import own_vectors
from lamina.corpora.caching import contents_sha256
from lamina.errors import LaminaError, ResultError
from lamina.files.writing import readable_write_errors, sweep, write_error
from lamina.framework.declare import Query, Tables
from lamina.framework.sample_size import sample_of, scored_corpora
from lamina.framework.settings import DeclaredSetting
from lamina.progress import in_one_line, say
from lamina.results import Provenance, Result
from lamina.results.folder import answer_key, question_of, read_head, refuse_other, work_folder


def run(query: Query, work: Path | None = None) -> Result:
    """Run one query."""
    return run_together([query], [work])[0]


def run_together(questions: Sequence[Query], works: Sequence[Path | None] | None = None) -> list[Result]:
    """Run several queries; those that watch the maps of the same model share one pass.

    An error of one ends all: callers that want to go on ask one at a time.
    """
    from lamina.framework.estimate import Foresight
    from lamina.framework.watch import watch_together

    foresight = Foresight()
    given: list[Any] = [
        _start(query, work) for query, work in zip(questions, works or [None] * len(questions), strict=True)
    ]
    # Generators wait for maps; all others have returned their tables.
    waiting: dict[int, Any] = {
        number: next(started) for number, started in enumerate(given) if inspect.isgenerator(started)
    }
    while waiting:
        seen = watch_together(list(waiting.values()))
        after = {}
        for number, skipped in zip(waiting, seen, strict=True):
            watcher: Generator[Any, Any, Tables] = given[number]
            try:
                after[number] = watcher.send(skipped)
            except StopIteration as end:
                given[number] = end.value
        waiting = after
    costs = foresight.learn(questions)
    return [_result(query, tables, cost) for query, tables, cost in zip(questions, given, costs, strict=True)]


def _start(query: Query, work: Path | None) -> Any:
    extra: dict[str, Any] = {}
    if query.analysis.wants("runtime"):
        extra["runtime"] = query.runtime
    if query.analysis.wants("work"):
        extra["work"] = work
    return query.analysis.function(*query.loaded.arguments, **query.settings, **extra)


def _result(query: Query, answer: Tables, cost: Mapping[str, float]) -> Result:
    from dataclasses import replace

    analysis, settings = query.analysis, query.settings
    _check_columns(query, answer)
    seeds = (
        answer.seeds if answer.seeds is not None else tuple(settings[name] for name in ("seed",) if name in settings)
    )
    counted = {**_left_out(query.loaded.arguments), **answer.skipped}
    skipped = {reason: int(count) for reason, count in counted.items() if count}
    model = {**query.loaded.model, **_unguarded(query.loaded.arguments), **answer.model}
    read = query.loaded.arguments if analysis.reads.sampled else ()
    sample = sample_of(read, {name: int(count) for name, count in answer.scored.items()})
    # An analysis that scores a part of its data counts the documents of that part itself.
    for unit, count in answer.data.get("scored_from", {}).items():
        sample = replace(sample, documents=count, unit=unit)
    data = {**query.loaded.data, **_texts_of(read), **answer.data, **sample.describe()}
    provenance = Provenance(model, data, query.parameters, seeds, skipped, warnings=sample.warnings(), cost=cost)
    about = {"version": analysis.version, "recorded_question": query.question, "parquet": _as_parquet(query, answer)}
    result = Result(analysis.name, answer.tables, provenance, answer.files, **about)
    return replace(result, findings=analysis.findings(result))


def _texts_of(read: Sequence[Any]) -> dict[str, int]:
    """How many texts were scored, of all corpora that were read; free once they have been read."""
    from lamina.corpora import Corpus

    sizes = [len(texts) for texts in scored_corpora(read) if isinstance(texts, Corpus)]
    return {"texts": sum(sizes)} if sizes else {}


def _as_parquet(query: Query, answer: Tables) -> tuple[str, ...]:
    return tuple(name for name in answer.tables if query.analysis.tables[name].format == "parquet")


def _left_out(arguments: Sequence[Any]) -> dict[str, int]:
    """What readers left out or changed: known only after the texts have been read."""
    from lamina.corpora import Corpus, Splits

    read = (data for data in arguments if isinstance(data, Corpus | Splits))
    return {reason: count for data in read for reason, count in data.left_out().items()}


def _unguarded(arguments: Sequence[Any]) -> dict[str, Any]:
    """Provenance of models that may have been trained on the texts, which cannot be checked."""
    from lamina.models import Encoder
    from lamina.training.provenance import folder_of, unguarded

    given = [argument for one in arguments for argument in (one if isinstance(one, list | tuple) else (one,))]
    folders = [
        folder for argument in given if isinstance(argument, Encoder) and (folder := folder_of(argument)) is not None
    ]
    warnings = [warning for folder in folders if (warning := unguarded(folder)) is not None]
    return {"unguarded": warnings} if warnings else {}


def _check_columns(query: Query, answer: Tables) -> None:
    """Raise a LaminaError unless tables and columns are those declared."""
    declared = query.analysis.tables
    missing = [name for name, table in declared.items() if name not in answer.tables and not table.optional]
    unknown = [name for name in answer.tables if name not in declared]
    if missing or unknown:
        raise LaminaError(
            f"{query.analysis.name} declares the tables {', '.join(declared)} and made {', '.join(answer.tables)}"
        )
    for name, table in answer.tables.items():
        if tuple(table.columns) != declared[name].columns:
            raise LaminaError(
                f"{query.analysis.name}: table {name} has the columns {', '.join(map(str, table.columns))}; declared "
                f"are {', '.join(declared[name].columns)}"
            )


def ask(query: Query, folder: Path, *, replace: bool = False) -> Result:
    """The result saved in `folder` if it answers this query; otherwise the answer is computed and saved there."""
    return ask_together([query], [folder], replace=replace)[0]


def ask_together(questions: Sequence[Query], folders: Sequence[Path], *, replace: bool = False) -> list[Result]:
    """Several queries at once: those not answered yet share passes over attention maps."""
    answered = {
        number: saved(query, folder) for number, (query, folder) in enumerate(zip(questions, folders, strict=True))
    }
    missing = [number for number, result in answered.items() if result is None]
    for number in answered.keys() - set(missing):
        # Left where a run was stopped after its result was saved and before its work was removed.
        shutil.rmtree(_work_place(questions[number], folders[number]), ignore_errors=True)
    for number in missing:
        # Refused before the work, not after it.
        refuse_other(folders[number], questions[number].question, replace=replace)
        _say_outdated(questions[number], folders[number])
    works = [_work_folder(questions[number], folders[number]) for number in missing]
    try:
        names = ", ".join(questions[number].analysis.name.replace("_", "-") for number in missing)
        with in_one_line(names) if missing else nullcontext():
            answers = run_together([questions[number] for number in missing], works) if missing else []
    finally:
        # A query that is refused leaves no empty folder behind.
        _remove_empty(works)
    for number, work, answer in zip(missing, works, answers, strict=True):
        answer.save(folders[number], replace=replace)
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)
        undrawn = read_head(folders[number])["undrawn"]
        answered[number] = Result.load(folders[number]) if answer.files else replace_fields(answer, undrawn=undrawn)
    return [result for result in answered.values() if result is not None]


def saved(query: Query, folder: Path) -> Result | None:
    """The answer in `folder`, if it answers this query and was made by this version of the analysis; else None."""
    try:
        same = read_head(folder).get("key") == answer_key(query.question, query.analysis.version)
        return Result.load(folder) if same else None
    except ResultError:
        return None


def default_folder(query: Query, root: Path = Path("results")) -> Path:
    """The folder of a result by default: its name ends with a short key of the question."""
    parts = [query.analysis.name, *query.loaded.names, query.question[:8]]
    return root / "-".join(filter(None, map(safe_name, parts)))


def contents_of(declared: Mapping[str, DeclaredSetting], settings: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Hashes of the files that settings name; empty if they name none."""
    named = [
        name
        for setting, about in declared.items()
        if about.about.file
        for name in _listed(settings[setting])
        if isinstance(name, str)
    ]
    files = {name: own_vectors(name) or Path(name) for name in named}
    hashes = {name: contents_sha256(path) for name, path in files.items() if path.exists()}
    return {"contents": hashes} if hashes else {}


def _say_outdated(query: Query, folder: Path) -> None:
    try:
        head = read_head(folder)
    except ResultError:
        return
    if question_of(head) == query.question:
        old, new = head.get("version", 0), query.analysis.version
        if old > new:
            raise ResultError(
                f"{folder} was made by a newer lamina ({query.analysis.name} version {old}, here {new}); update "
                "lamina, or name another folder"
            )
        older = f"is of an older version of {query.analysis.name} ({old}, now {new})"
        say(f"{folder} {older if old < new else 'is damaged'} and is replaced")


def _work_folder(query: Query, folder: Path) -> Path | None:
    """A hidden folder beside the result, deleted when it is saved: a run that was stopped continues from it."""
    if not query.analysis.wants("work"):
        return None
    work = _work_place(query, folder)
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ResultError(str(write_error(work, error.errno))) from error
    return work


def _work_place(query: Query, folder: Path) -> Path:
    return work_folder(folder, answer_key(query.question, query.analysis.version))


def _remove_empty(works: Sequence[Path | None]) -> None:
    for work in works:
        if work is not None and work.is_dir() and not any(work.iterdir()):
            work.rmdir()


def safe_name(part: str) -> str:
    """The part with other characters than ASCII letters, digits, dots, dashes and underscores replaced.

    Example:
        >>> safe_name("meta/llama 3")
        'meta_llama_3'
    """
    return re.sub(r"[^A-Za-z0-9._-]", "_", str(part))


def _listed(value: str | Sequence[str] | None) -> Sequence[str]:
    return [value] if isinstance(value, str) else value or ()


# Folders of unfinished runs.

_LOCK = "lock"


@contextmanager
def run_folder(key: str, root: str | os.PathLike[str] | None) -> Iterator[Path]:
    """The folder of a run, for one process at a time; a second process waits, then finds the files of the first."""
    folder = _under(root) / key[:32]
    lock = FileLock(folder / _LOCK)
    with readable_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        sweep(folder)
        yield folder
    finally:
        lock.release()
        if [path.name for path in folder.iterdir()] == [_LOCK]:
            # The run wrote nothing.
            shutil.rmtree(folder, ignore_errors=True)


def clean_runs(root: str | os.PathLike[str] | None, before: float | None) -> Iterator[tuple[Path, int, bool]]:
    """Delete what stopped runs left: (folder, bytes freed, whether the whole folder was deleted); running ones stay.

    Half-written files go in any case, whole runs where nothing was written since `before` (seconds since 1970). A
    folder where nothing has to go need not be writable.
    """
    for folder in run_folders(root):
        # Read before the lock is taken, since taking it changes the folder.
        files = [path for path in folder.iterdir() if path.name != _LOCK]
        newest = max((path.stat().st_mtime for path in files), default=0.0)
        old = not files or (before is not None and newest <= before)
        gone = files if old else [path for path in files if path.suffix == ".tmp"]
        if not old and not gone:
            continue
        try:
            with readable_write_errors(folder), FileLock(folder / _LOCK, timeout=0):
                freed = sum(path.stat().st_size for path in gone)
                for path in gone:
                    path.unlink()
                if old:
                    shutil.rmtree(folder)
        except Timeout:
            continue
        yield folder, freed, old


def run_folders(root: str | os.PathLike[str] | None) -> list[Path]:
    """The folders of all stored runs."""
    return sorted(path for path in _under(root).glob("*") if path.is_dir())


def _under(root: str | os.PathLike[str] | None) -> Path:
    return Path(default_root() if root is None else root) / "probes"
