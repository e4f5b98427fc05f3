"""Answering questions: run the function, share passes over attention maps, add provenance and findings."""

from __future__ import annotations

import inspect
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from lamina.errors import LaminaError
from lamina.framework.declare import Query, Tables
from lamina.framework.sample_size import sample_of
from lamina.results import Provenance, Result


def run(asked: Query, work: Path | None = None) -> Result:
    """Answer one question."""
    return run_together([asked], [work])[0]


def run_together(questions: Sequence[Query], works: Sequence[Path | None] | None = None) -> list[Result]:
    """Answer several questions; those that watch the maps of the same model share one pass.

    An error of one ends all: callers that want to go on ask one at a time.
    """
    from lamina.framework.watch import watch_together

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


def _start(asked: Query, work: Path | None) -> Any:
    extra: dict[str, Any] = {}
    if asked.analysis.wants("runtime"):
        extra["runtime"] = asked.runtime
    if asked.analysis.wants("work"):
        extra["work"] = work
    return asked.analysis.function(*asked.loaded.arguments, **asked.settings, **extra)


def _result(asked: Query, made: Tables) -> Result:
    from dataclasses import replace

    analysis, settings = asked.analysis, asked.settings
    _check_columns(asked, made)
    seeds = made.seeds if made.seeds is not None else tuple(settings[name] for name in ("seed",) if name in settings)
    counted = {**_left_out(asked.loaded.arguments), **made.skipped}
    skipped = {reason: int(count) for reason, count in counted.items() if count}
    model = {**asked.loaded.model, **_unguarded(asked.loaded.arguments), **made.model}
    read = asked.loaded.arguments if analysis.reads.sampled else ()
    sample = sample_of(read, {name: int(count) for name, count in made.scored.items()})
    # An analysis that scores a part of what it read says itself how little that is.
    for unit, count in made.data.get("scored_from", {}).items():
        sample = replace(sample, documents=count, unit=unit)
    data = {**asked.loaded.data, **made.data, **sample.describe()}
    provenance = Provenance(model, data, asked.parameters, seeds, skipped, warnings=sample.warnings())
    about = {"version": analysis.version, "asked": asked.question, "parquet": _as_parquet(asked, made)}
    result = Result(analysis.name, made.tables, provenance, made.files, **about)
    return replace(result, findings=analysis.findings(result))


def _as_parquet(asked: Query, made: Tables) -> tuple[str, ...]:
    return tuple(name for name in made.tables if asked.analysis.tables[name].format == "parquet")


def _left_out(arguments: Sequence[Any]) -> dict[str, int]:
    """What the readers of the texts left out or changed; known now that the texts have been read."""
    from lamina.corpora import Corpus, Splits

    read = (each for each in arguments if isinstance(each, Corpus | Splits))
    return {reason: count for each in read for reason, count in each.left_out().items()}


def _unguarded(arguments: Sequence[Any]) -> dict[str, Any]:
    """What provenance says of models that may have been trained on the texts without our knowing."""
    from lamina.models import Encoder
    from lamina.training.provenance import folder_of, unguarded

    given = [each for one in arguments for each in (one if isinstance(one, list | tuple) else (one,))]
    folders = [folder for each in given if isinstance(each, Encoder) and (folder := folder_of(each)) is not None]
    said = [warning for folder in folders if (warning := unguarded(folder)) is not None]
    return {"unguarded": said} if said else {}


def _check_columns(asked: Query, made: Tables) -> None:
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
