"""Derives the findings of a saved result again, and looks for every number of every sentence in the rows it names."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pandas as pd

from lamina.results import Result
from lamina.results.finding import Finding
from lamina.stats.status import status_of

_HEAD = re.compile(r"(?<![\w.-])(\d+)-(\d+)(?![\w-])")
_NUMBER = re.compile(r"(?<![\w.\-])(-?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?)( %)?(?![\w-])")
_CLOSE = 1e-6


def check_findings(result: Result) -> list[str]:
    """Everything in a result's findings that its tables do not bear out, each in one sentence.

    Example:
        >>> import lamina
        >>> from lamina.testing import TinyEncoder
        >>> texts = [["Dogs", "bark"], ["Cats", "do", "not"]]
        >>> check_findings(lamina.geometry(TinyEncoder(), texts, samples=10))
        []
    """
    from lamina.framework.registry import get_analysis

    wrong = [
        f"{result.analysis}: {problem} ({found.text!r})"
        for found in result.findings
        for problem in _problems(found, result.tables)
    ]
    derived = [found.text for found in get_analysis(result.analysis).findings(result)]
    saved = [found.text for found in result.findings]
    wrong += [f"{result.analysis}: not derived from its tables: {text!r}" for text in saved if text not in derived]
    wrong += [f"{result.analysis}: missing among its findings: {text!r}" for text in derived if text not in saved]
    return wrong


def check_words(result: Result, texts: Mapping[str, str]) -> list[str]:
    """Numbers in titles, captions and remarks that stand nowhere in a result's tables, settings or sample.

    Example:
        >>> from lamina.results import Provenance
        >>> table = pd.DataFrame({"layer": [0, 1], "value": [0.31, 0.874]})
        >>> result = Result("demo", {"scores": table}, Provenance({}, {}, {"samples": 500}))
        >>> check_words(result, {"title": "Layer 1 reads it best (.87)", "caption": "500 samples, .42 at layer 0"})
        ['demo, caption: .42 stands in none of its tables']
    """
    nothing = Finding("", "", "untested")
    cells = _Cells(nothing, result.tables.values())
    cells.add(_numbers_in([result.provenance.parameters, result.provenance.corpus, result.provenance.skipped]))
    # Levels, shares of a half and places at either end need no source.
    cells.add([0, 0.05, 0.5, 1, 2, 95, 100])
    return [
        f"{result.analysis}, {name}: {token} stands in none of its tables"
        for name, text in texts.items()
        for token in cells.unknown(text)
    ]


def _numbers_in(value: Any) -> Iterator[float]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _numbers_in(inner)
    elif isinstance(value, list | tuple):
        yield float(len(value))
        for inner in value:
            yield from _numbers_in(inner)
    elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        yield float(value)


def _problems(found: Finding, tables: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """What is wrong with one finding."""
    missing = [source.table for source in found.source if source.table not in tables]
    if missing:
        yield f"it names the table {missing[0]}, which the result does not have"
        return
    rows = [source.rows(tables[source.table]) for source in found.source]
    if any(part.empty for part in rows):
        yield "it names rows that are not there"
        return
    cells = _Cells(found, rows)
    if found.contrast:
        ends = [value for value in (found.estimate, found.low, found.high, found.p) if value is not None]
        yield from (f"{value:.6g} stands in none of its rows" for value in ends if not cells.exactly(value))
        if found.status != _status(found):
            yield f"its status is {found.status}, its contrast is {_status(found)}"
    elif found.status != "untested":
        yield "it names no contrast"
    yield from (f"{token} stands in none of its rows" for token in cells.unknown(found.claim))


def _status(found: Finding) -> str:
    values = (math.nan if value is None else value for value in (found.low, found.high, found.p))
    return status_of(*values, needed=found.needed, margin=found.margin)


class _Cells:
    """The numbers and names that a sentence may use."""

    def __init__(self, found: Finding, rows: Iterable[pd.DataFrame]) -> None:
        self._names: set[str] = set()
        self._heads: set[tuple[int, int]] = set()
        cells: list[float] = []
        counts: list[float] = [found.n, found.needed]
        for part in rows:
            counts.append(len(part))
            for name in part.columns:
                column = part[name]
                if pd.api.types.is_numeric_dtype(column):
                    cells += [float(value) for value in column.dropna().unique()]
                else:
                    texts = {str(value) for value in column.dropna().unique()}
                    self._names.update(texts)
                    cells += [float(text) for text in texts if re.fullmatch(r"-?\d+(\.\d+)?", text)]
                counts.append(column.nunique())
            for layer in (name for name in part.columns if name == "layer" or name.startswith("layer_")):
                head = layer.replace("layer", "head")
                if head in part:
                    pairs = part[[layer, head]].dropna()
                    self._heads.update((int(one), int(other)) for one, other in pairs.itertuples(index=False))
        # Without letters it is a number written as text, and no name.
        self._names = {name for name in self._names if any(letter.isalpha() for letter in name)}
        self._cells = [value for value in cells if math.isfinite(value)]
        told = [value for value in (found.estimate, found.low, found.high) if value is not None]
        self._numbers = [*self._cells, *counts, *(value for value in told if math.isfinite(value))]

    def add(self, numbers: Iterable[float]) -> None:
        """Further numbers that a sentence may use."""
        self._numbers += numbers

    def exactly(self, value: float) -> bool:
        """Whether a cell holds this number; effects may be told with the other sign."""
        return not math.isfinite(value) or any(
            abs(abs(cell) - abs(value)) <= _CLOSE * max(1, abs(cell)) for cell in self._cells
        )

    def unknown(self, claim: str) -> Iterator[str]:
        """The numbers of a claim that no cell has."""
        text = claim
        for name in sorted(self._names, key=len, reverse=True):
            text = text.replace(name, " ")
        for layer, head in _HEAD.findall(text):
            if (int(layer), int(head)) not in self._heads:
                yield f"{layer}-{head}"
        for token, percent in _NUMBER.findall(_HEAD.sub(" ", text)):
            if not token.strip("-"):
                continue
            value = float(token.replace(",", ""))
            digits = len(token.partition(".")[2])
            scaled = self._rounded(value, digits) or (bool(percent) and self._rounded(value / 100, digits + 2))
            if not scaled:
                yield f"{token}{percent}"

    def _rounded(self, value: float, digits: int) -> bool:
        return any(abs(abs(cell) - abs(value)) <= 0.5 * 10.0**-digits + 1e-9 for cell in self._numbers)
