"""Every architecture of transformers that can be built tiny, examined: `python -m benchmarks.architectures` writes the
page of the documentation; with names, only prints their rows."""

from __future__ import annotations

import multiprocessing
import re
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

import torch
import transformers

from benchmarks import tiny_architectures
from lamina.errors import ModelError
from lamina.models.checks.passports import NEEDS, PASSPORT_VERSION, examine
from lamina.models.loading import encoder_from

PAGE = Path(__file__).parent.parent / "docs" / "methods" / "architectures.md"
_PATIENCE = 120
"""Seconds for one architecture."""

_NOT_EXAMINED = {
    "does not read words": "does not read words",
    "is not a transformers model of its own": "has no part that reads words and can be run alone",
    "cannot be run on words alone": "does not run on words alone once it is built tiny",
    "the tokenizer is not the one of this model": "has a vocabulary of its own that the tiny tokenizer does not fit",
}
"""What an error says -> why an architecture was not examined."""

Status = Literal["works", "partly refused", "refused", "not examined"]


class Row(NamedTuple):
    """What was found of one architecture."""

    name: str
    """Its model type in transformers."""
    body: str
    """The class that computes it; empty where none was built."""
    status: Status
    sees: str
    """What a token sees: before, all; empty where it was not examined."""
    maps: str
    """Blocks with attention maps, of all."""
    said: str
    """What is refused and why; what else a reader should know."""


def row_of(name: str) -> Row:
    """Build an architecture tiny and examine it."""
    try:
        with _at_most(_PATIENCE):
            return _examined(name)
    except TimeoutError:
        return Row(name, "", "not examined", "", "", f"takes longer than {_PATIENCE} s")


def _examined(name: str) -> Row:
    built = tiny_architectures.build(name)
    if isinstance(built, str):
        return Row(name, "", "not examined", "", "", _plain(built))
    try:
        encoder = encoder_from(built.model, built.tokenizer, name=name)
        passport = examine(encoder)
    except TimeoutError:
        raise
    except ModelError as error:
        said = _plain(str(error))
        # Not the architecture's fault, or not a model of words: there is nothing to examine.
        why = next((why for sign, why in _NOT_EXAMINED.items() if sign in said), None)
        if why is not None:
            return Row(name, "", "not examined", "", "", why)
        return Row(name, type(built.model).__name__, "refused", "", "", said.removeprefix(f"{name} "))
    except Exception as error:
        # As when an analysis loads it: without a verdict it is refused.
        reason = f"cannot be examined ({type(error).__name__}: {_plain(str(error))})"
        return Row(name, type(built.model).__name__, "refused", "", "", reason)
    refused = {need: why for need in NEEDS if (why := passport.refuses(need)) is not None}
    status: Status = "refused" if "states" in refused else "partly refused" if refused else "works"
    by_reason: dict[str, list[str]] = {}
    for need, why in refused.items():
        by_reason.setdefault(why, []).append(need)
    said = [f"{', '.join(needs)}: {_plain(why)}" for why, needs in by_reason.items()]
    noted = [_plain(check.message) for check in passport.failed if not check.needed_by]
    sink = [f"sink: {passport.sink}"] if passport.sink else []
    sees = "before" if passport.causal else "all"
    maps = f"{len(passport.maps)} of {encoder.blocks}"
    return Row(name, passport.architecture, status, sees, maps, "; ".join([*said, *noted, *sink]))


def page(rows: Iterable[Row]) -> str:
    """The page of the documentation."""
    rows = sorted(rows, key=lambda row: row.name)
    by_status: dict[Status, list[Row]] = {status: [row for row in rows if row.status == status] for status in _HEADINGS}
    counted = ", ".join(f"{len(found)} {_COUNTED[status]}" for status, found in by_status.items())
    lines: list[str] = [
        "# Architectures",
        "",
        "<!-- Written by `python -m benchmarks.architectures`; do not edit. -->",
        "",
        version_line(),
        "",
        f"Of {len(rows)} architectures: {counted}. Each was built with a few tiny blocks and random weights, and "
        "examined as `lamina model check` examines a model; what a check means is said in "
        "[Models](models.md). A trained model of an architecture that works is examined again when it is first used.",
        "",
    ]
    for status, found in by_status.items():
        lines += [f"## {_HEADINGS[status][0]}", "", _HEADINGS[status][1], "", *_table(status, found), ""]
    return "\n".join(lines)


def version_line() -> str:
    """What the page was made with."""
    return f"transformers {transformers.__version__}, checks of version {PASSPORT_VERSION}."


_HEADINGS: dict[Status, tuple[str, str]] = {
    "works": ("What works", "All that lamina measures. Tokens see all others, or those before them."),
    "partly refused": ("What works in part", "What is refused, and why; all else works."),
    "refused": ("What is refused", "No analysis takes these; lamina says why."),
    "not examined": ("What was not examined", "Models that do not read words, and those that cannot be built tiny."),
}


_COUNTED: dict[Status, str] = {
    "works": "work",
    "partly refused": "work in part",
    "refused": "are refused",
    "not examined": "were not examined",
}


def _table(status: Status, rows: Sequence[Row]) -> Iterator[str]:
    if status == "not examined":
        by_reason: dict[str, list[str]] = {}
        for row in rows:
            by_reason.setdefault(row.said, []).append(f"`{row.name}`")
        for reason, names in sorted(by_reason.items(), key=lambda pair: -len(pair[1])):
            yield f"- {reason}: {', '.join(names)}"
        return
    yield "| model type | class | sees | blocks with maps | said |"
    yield "| --- | --- | --- | --- | --- |"
    yield from map(line_of, rows)


def line_of(row: Row) -> str:
    """One line of a table."""
    cells = (f"`{row.name}`", f"`{row.body}`", row.sees, row.maps, row.said)
    return "|" + "".join(f" {cell.replace('|', ' ')} |" if cell else " |" for cell in cells)


def _plain(text: str) -> str:
    """In one line, without what differs from run to run."""
    return re.sub(r" at 0x[0-9a-f]+", "", " ".join(text.split())).rstrip(".").replace("<", "(").replace(">", ")")


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _begin() -> None:
    """What every process starts with: one thread, and no log lines."""
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)


def main() -> None:
    """All architectures, or those named; one process per core."""
    rows = []
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(mp_context=spawned, initializer=_begin) as pool:
        for row in pool.map(row_of, sys.argv[1:] or tiny_architectures.names()):
            rows.append(row)
            print(*row, sep="\t", flush=True)
    if not sys.argv[1:]:
        PAGE.write_text(page(rows), encoding="utf-8")
        print(PAGE)


if __name__ == "__main__":
    main()
