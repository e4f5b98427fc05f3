"""Verify findings: derive them again from the saved tables, and look up every number of every sentence."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from lamina.framework.sample_size import LEAST_DOCUMENTS, LEAST_TARGETS
from lamina.results import Result
from lamina.results.finding import Finding
from lamina.stats.seeds import ENOUGH_SEEDS
from lamina.stats.status import SURE, status_of

_HEAD = re.compile(r"(?<![\w.-])(\d+)-(\d+)(?![\w-])")
_NUMBER = re.compile(r"(?<![\w.\-])(-?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?)( ?%)?(?![\w-])")
_PLAIN = re.compile(r"-?\d+(?:\.\d+)?")
_LIMIT = re.compile(r"fewer than (\d+)")
_CLOSE = 1e-6
_PLACES = ("layer", "head")
"""Columns of numbers that name a thing; missing where a row is of something else."""


def check_findings(result: Result) -> list[str]:
    """Statements in the findings and remarks of a result that its tables do not support, one sentence each.

    Example:
        >>> import lamina
        >>> from lamina.testing import TinyEncoder
        >>> texts = [["Dogs", "bark"], ["Cats", "do", "not"]]
        >>> check_findings(lamina.geometry(TinyEncoder(), texts, samples=10))
        []
    """
    from lamina.framework.registry import get_analysis

    wrong = [
        f"{result.analysis}: {problem} ({finding.text!r})"
        for finding in result.findings
        for problem in [*check_finding(finding, result.tables), *check_note(finding, result)]
    ]
    derived = {finding.text: finding for finding in get_analysis(result.analysis).findings(result)}
    saved = {finding.text: finding for finding in result.findings}
    missing = {text: finding for text, finding in derived.items() if text not in saved}
    for text in (text for text in saved if text not in derived):
        today = next((other for other, finding in missing.items() if _same_test(finding, saved[text])), None)
        if today is None:
            wrong.append(f"{result.analysis}: not derived from its tables: {text!r}")
        else:
            del missing[today]
            wrong.append(f"{result.analysis}: its tables are worded otherwise today: {text!r} is {today!r}")
    wrong += [f"{result.analysis}: missing among its findings: {text!r}" for text in missing]
    return wrong


def _same_test(one: Finding, other: Finding) -> bool:
    """Whether two findings rest on the same contrast of the same tables, in whatever words."""
    return _test_of(one) == _test_of(other)


def _test_of(finding: Finding) -> tuple[Any, ...]:
    # An open end is saved as nothing.
    numbers = (
        None if value is None or not math.isfinite(value) else round(value, 9)
        for value in (finding.estimate, finding.low, finding.high, finding.p)
    )
    return finding.status, *numbers, finding.n, finding.unit, [(part.table, {**part.where}) for part in finding.source]


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
    cells.add(_settings_and_sample(result))
    cells.add(number for table in result.tables.values() for number in _derived(table))
    # Levels, the seeds that an interval needs, shares of a half and places at either end need no source.
    cells.add([0, 0.05, 0.5, 1, 2, 5, 95, 100])
    return [
        f"{result.analysis}, {name}: {token} stands in none of its tables"
        for name, text in texts.items()
        for token in cells.unknown(text, counts=_fewer_than(text, result.tables.values()))
    ]


def _settings_and_sample(result: Result) -> Iterator[float]:
    about = result.provenance
    yield from _numbers_in([about.parameters, about.corpus, about.skipped])
    # Below the first two a sample is called small, below the third seeds give no interval; from the last one on
    # clusters are called stable.
    yield from (LEAST_TARGETS, LEAST_DOCUMENTS, ENOUGH_SEEDS, 0.8)


def _derived(table: pd.DataFrame) -> Iterator[float]:
    """What words may add up: rows of each name, sums of counts, and what both axes of a plane explain together.

    Of a long-form table also how many things its keys name, of all seeds or of one: targets, or heads (a layer and a
    head). And the numbers within its reasons, parts of which charts repeat.
    """
    keys = [name for name in table.columns if not pd.api.types.is_float_dtype(table[name]) or name in _PLACES]
    named = [keys[:length] for length in range(2, len(keys))] + [list(_PLACES)] * (set(_PLACES) <= set(keys))
    if "seed" in keys:
        named += [[name for name in some if name != "seed"] for some in named]
    for reason in table["reason"].dropna().unique() if "reason" in table else ():
        yield from (float(token) for token in _PLAIN.findall(str(reason)))
    yield from (float(len(table[some].dropna(how="all").drop_duplicates())) for some in named)
    for name in table.columns:
        column = table[name]
        if pd.api.types.is_bool_dtype(column) or not pd.api.types.is_numeric_dtype(column):
            yield from map(float, column.value_counts())
        elif pd.api.types.is_integer_dtype(column):
            yield float(column.sum())
    for across in (str(name) for name in table.columns if str(name).endswith("_x")):
        up = f"{across.removesuffix('_x')}_y"
        if up in table and pd.api.types.is_numeric_dtype(table[across]):
            yield from map(float, (table[across] + table[up]).dropna())


def _fewer_than(text: str, tables: Iterable[pd.DataFrame]) -> list[float]:
    """The limit a text names, as in "fewer than 20 words (25)", and how many rows have counts below it."""
    limits = [int(limit) for limit in _LIMIT.findall(text)]
    counted = [table["count"] for table in tables if "count" in table]
    below = [float((counts < limit).sum()) for limit in limits for counts in counted]
    return [*map(float, limits), *below] if counted else []


def check_note(finding: Finding, result: Result) -> Iterator[str]:
    """Numbers in the remark behind a sentence that stand neither in its rows nor in settings or sample."""
    rows = [source.rows(result.tables[source.table]) for source in finding.source if source.table in result.tables]
    cells = _Cells(finding, rows)
    cells.add(_settings_and_sample(result))
    for name in {source.table for source in finding.source if source.table in result.tables}:
        cells.add(_family_counts(result.tables[name]))
    yield from (f"{token} in its remark stands in none of its rows" for token in cells.unknown(finding.note))


def _family_counts(table: pd.DataFrame) -> Iterator[float]:
    """What a remark counts of the family a finding was picked from: its members, and how many of them are clear."""
    yield from (0.0, float(len(table)), *(float(table[name].nunique()) for name in table.columns))
    yield from _derived(table)
    if "p_adjusted" not in table:
        return
    keys = [name for name in table.columns if not pd.api.types.is_float_dtype(table[name])]
    tested = table["p_adjusted"].notna() | (table["needed"] > 0 if "needed" in table else False)
    for counted in (table["p_adjusted"] < SURE, tested):
        yield float(counted.sum())
        for name in keys:
            yield from map(float, counted.groupby(table[name]).sum())
    yield from (float(len(table[[*pair]].drop_duplicates())) for pair in combinations(keys, 2))


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


def check_finding(finding: Finding, tables: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """What is wrong with one finding."""
    missing = [source.table for source in finding.source if source.table not in tables]
    if missing:
        yield f"it names the table {missing[0]}, which the result does not have"
        return
    rows = [source.rows(tables[source.table]) for source in finding.source]
    if any(part.empty for part in rows):
        yield "it names rows that are not there"
        return
    cells = _Cells(finding, rows)
    if finding.contrast:
        ends = [value for value in (finding.estimate, finding.low, finding.high, finding.p) if value is not None]
        yield from (f"{value:.6g} stands in none of its rows" for value in ends if not cells.exactly(value))
        if finding.status != _status(finding):
            yield f"its status is {finding.status}, its contrast is {_status(finding)}"
    elif finding.status != "untested":
        yield "it names no contrast"
    yield from (f"{token} stands in none of its rows" for token in cells.unknown(finding.claim))


def _status(finding: Finding) -> str:
    values = (math.nan if value is None else value for value in (finding.low, finding.high, finding.p))
    return status_of(*values, needed=finding.needed, margin=finding.margin)


class _Cells:
    """The numbers and names that a sentence may use."""

    def __init__(self, finding: Finding, rows: Iterable[pd.DataFrame]) -> None:
        self._names: set[str] = set()
        self._heads: set[tuple[int, int]] = set()
        cells: list[float] = []
        counts: list[float] = [finding.n, finding.needed]
        for part in rows:
            counts.append(len(part))
            for name in part.columns:
                column = part[name]
                if pd.api.types.is_numeric_dtype(column):
                    cells += column.dropna().unique().astype(float).tolist()
                else:
                    texts = {str(value) for value in column.dropna().unique()}
                    self._names.update(texts)
                    cells += [float(text) for text in texts if _PLAIN.fullmatch(text)]
                counts.append(column.nunique())
            for layer in (name for name in part.columns if name == "layer" or name.startswith("layer_")):
                head = layer.replace("layer", "head")
                if head in part:
                    pairs = part[[layer, head]].dropna()
                    self._heads.update((int(one), int(other)) for one, other in pairs.itertuples(index=False))
        # A number written as text is no name, and a comma alone would take numbers apart.
        self._names = {name for name in self._names if re.search(r"\w", name) and not _PLAIN.fullmatch(name)}
        self._cells = [value for value in cells if math.isfinite(value)]
        estimates = [value for value in (finding.estimate, finding.low, finding.high) if value is not None]
        self._sizes = np.abs([*self._cells, *counts, *(value for value in estimates if math.isfinite(value))])

    def add(self, numbers: Iterable[float]) -> None:
        """Further numbers that a sentence may use."""
        self._sizes = np.append(self._sizes, np.abs([*numbers]))

    def exactly(self, value: float) -> bool:
        """Whether a cell holds this number; a sentence may state an effect with the other sign."""
        return not math.isfinite(value) or any(
            abs(abs(cell) - abs(value)) <= _CLOSE * max(1, abs(cell)) for cell in self._cells
        )

    def unknown(self, claim: str, counts: Sequence[float] = ()) -> Iterator[str]:
        """The numbers of a claim that no cell has, nor `counts`."""
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
            if not scaled and value not in counts:
                yield f"{token}{percent}"

    def _rounded(self, value: float, digits: int) -> bool:
        return bool((np.abs(self._sizes - abs(value)) <= 0.5 * 10.0**-digits + 1e-9).any())
