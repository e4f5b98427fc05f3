"""Run analyses: call the function, share passes over attention maps, add provenance and findings."""

from __future__ import annotations

import inspect
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from lamina.errors import LaminaError
from lamina.framework.declare import Query, Tables
from lamina.framework.sample_size import sample_of
from lamina.results import Provenance, Result


def run(query: Query, work: Path | None = None) -> Result:
    """Run one query."""
    return run_together([query], [work])[0]


def run_together(questions: Sequence[Query], works: Sequence[Path | None] | None = None) -> list[Result]:
    """Run several queries; those that watch the maps of the same model share one pass.

    An error of one ends all: callers that want to go on ask one at a time.
    """
    from lamina.framework.watch import watch_together

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
    return [_result(query, tables) for query, tables in zip(questions, given, strict=True)]


def _start(query: Query, work: Path | None) -> Any:
    extra: dict[str, Any] = {}
    if query.analysis.wants("runtime"):
        extra["runtime"] = query.runtime
    if query.analysis.wants("work"):
        extra["work"] = work
    return query.analysis.function(*query.loaded.arguments, **query.settings, **extra)


def _result(query: Query, answer: Tables) -> Result:
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
    data = {**query.loaded.data, **answer.data, **sample.describe()}
    provenance = Provenance(model, data, query.parameters, seeds, skipped, warnings=sample.warnings())
    about = {"version": analysis.version, "recorded_question": query.question, "parquet": _as_parquet(query, answer)}
    result = Result(analysis.name, answer.tables, provenance, answer.files, **about)
    return replace(result, findings=analysis.findings(result))


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
