"""Answering questions: run the function, share passes over attention maps, add provenance and findings."""

from __future__ import annotations

import inspect
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from lamina.analyses.declaration import Asked, Tables
from lamina.errors import LaminaError
from lamina.results import Provenance, Result


def run(asked: Asked, work: Path | None = None) -> Result:
    """Answer one question."""
    return run_together([asked], [work])[0]


def run_together(questions: Sequence[Asked], works: Sequence[Path | None] | None = None) -> list[Result]:
    """Answer several questions; those that watch the maps of the same model share one pass.

    An error of one ends all: callers that want to go on ask one at a time.
    """
    from lamina.analyses.watching import watch_together

    given: list[Any] = [
        _start(asked, work) for asked, work in zip(questions, works or [None] * len(questions), strict=True)
    ]
    # Generators wait for maps; all others are answered already.
    waiting: dict[int, Any] = {at: next(each) for at, each in enumerate(given) if inspect.isgenerator(each)}
    while waiting:
        seen = watch_together(list(waiting.values()))
        after = {}
        for at, skipped in zip(waiting, seen, strict=True):
            watcher: Generator[Any, Any, Tables] = given[at]
            try:
                after[at] = watcher.send(skipped)
            except StopIteration as end:
                given[at] = end.value
        waiting = after
    return [_result(asked, tables) for asked, tables in zip(questions, given, strict=True)]


def _start(asked: Asked, work: Path | None) -> Any:
    extra: dict[str, Any] = {}
    if asked.analysis.wants("runtime"):
        extra["runtime"] = asked.runtime
    if asked.analysis.wants("work"):
        extra["work"] = work
    return asked.analysis.function(*asked.loaded.arguments, **asked.settings, **extra)


def _result(asked: Asked, made: Tables) -> Result:
    from dataclasses import replace

    analysis, settings = asked.analysis, asked.settings
    _check_columns(asked, made)
    seeds = made.seeds if made.seeds is not None else tuple(settings[name] for name in ("seed",) if name in settings)
    skipped = {reason: int(count) for reason, count in made.skipped.items() if count}
    provenance = Provenance(
        {**asked.loaded.model, **made.model}, {**asked.loaded.data, **made.data}, asked.parameters, seeds, skipped
    )
    result = Result(analysis.name, made.tables, provenance, made.files, version=analysis.version, asked=asked.question)
    return replace(result, findings=analysis.findings(result))


def _check_columns(asked: Asked, made: Tables) -> None:
    """The columns are a contract: what is declared is what comes."""
    declared = asked.analysis.tables
    missing = [name for name, table in declared.items() if name not in made.tables and not table.optional]
    unknown = [name for name in made.tables if name not in declared]
    if missing or unknown:
        raise LaminaError(
            f"{asked.analysis.name} declares the tables {', '.join(declared)} and made {', '.join(made.tables)}"
        )
    for name, table in made.tables.items():
        if tuple(table.columns) != declared[name].columns:
            raise LaminaError(
                f"{asked.analysis.name}: table {name} has the columns {', '.join(map(str, table.columns))}; declared "
                f"are {', '.join(declared[name].columns)}"
            )
