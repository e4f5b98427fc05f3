"""What the results of a cloze suite show, in sentences and in a small table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from lamina.analyses.behaviour.cloze_own import CHOICE
from lamina.analyses.behaviour.cloze_relations import OBJECTS
from lamina.analyses.behaviour.cloze_scores import ALL, CHANCE, MOST_FREQUENT, TWIN
from lamina.analyses.declaration import Overview
from lamina.analyses.legacy import finding, legacy_finding, status_of
from lamina.findings import Finding, cell, number, rows_of
from lamina.results import Result

_NEGATED, _AFFIRMED = "sensitivity_negative", "sensitivity_affirmative"


def findings_of(result: Result) -> Iterator[Finding]:
    """What a result shows, by the kind of suite."""
    rows = Rows(result)
    if rows.any(OBJECTS):
        yield from _of_facts(rows)
    elif rows.any("sensitivity"):
        yield from _of_diagnostics(rows)
    else:
        yield from _of_own(rows)


class Rows:
    """The rows of a result, found by part and measure."""

    def __init__(self, result: Result) -> None:
        self.model = str(result.provenance.model["name"])
        self._own = {(row.part, row.measure): row for row in rows_of(result.tables["cloze"])}
        self._beside = {(row.part, row.measure, row.baseline): row for row in rows_of(result.tables["baselines"])}
        self.names = {row.part: row.name for row in rows_of(result.tables["parts"])}

    @property
    def whole(self) -> str:
        """The part that stands for all."""
        return ALL if any(part == ALL for part, _ in self._own) else next(iter(self.names))

    def any(self, measure: str) -> bool:
        """Whether some part has this measure."""
        return any(own == measure for _, own in self._own)

    def get(self, part: str, measure: str) -> Any:
        """A row of `cloze`, or None."""
        return self._own.get((part, measure))

    def beside(self, part: str, measure: str, baseline: str) -> Any:
        """A row of `baselines`, or None."""
        return self._beside.get((part, measure, baseline))


def _told(row: Any) -> str:
    return number(row.value, row.low, row.high)


def _of_diagnostics(rows: Rows) -> Iterator[Finding]:
    for part in rows.names:
        if negated := rows.get(part, _NEGATED):
            yield _negation(rows, part, negated)
        elif own := rows.get(part, "sensitivity"):
            chance, at_5 = rows.beside(part, "sensitivity", CHANCE), rows.get(part, "accuracy_at_5")
            yield finding(
                f"{part}: the good completion is the likelier one in {{number}} of items (chance {{against}}); an "
                f"expected word is among the first 5 in {_told(at_5)}.",
                own.value, own.low, own.high, chance.value,
            )  # fmt: skip


def _negation(rows: Rows, part: str, negated: Any) -> Finding:
    """Whether the true word is preferred under negation."""
    affirmed, effect = rows.get(part, _AFFIRMED), rows.get(part, "negation_effect")
    status = status_of(negated.low, negated.high, 0.5)
    said = "undecided under negation"
    if status == "clear":
        said = "fails under negation" if negated.value < 0.5 else "passes under negation"
    elif status == "null":
        said = "at chance under negation"
    people = rows.get(part, "n400_agreement")
    as_people = f"; {_told(people)} of {people.n} items are as people's N400" if people is not None else ""
    return legacy_finding(
        f"{part}: {said}: the true word is likelier in {_told(negated)} of negative contexts (chance .50), in "
        f"{_told(affirmed)} of affirmative ones; negation moves the preference towards what is true by {_told(effect)} "
        f"bits{as_people}.",
        status, negated.value, negated.low, negated.high, 0.5,
    )  # fmt: skip


def _of_facts(rows: Rows) -> Iterator[Finding]:
    own, frequent = rows.get(rows.whole, OBJECTS), rows.beside(rows.whole, OBJECTS, MOST_FREQUENT)
    at_1 = rows.get(rows.whole, "precision_at_1")
    over = f" (mean over {len(rows.names)} relations)" if len(rows.names) > 1 else ""
    whole = "" if at_1 is None else f"; of the whole vocabulary, {_told(at_1)} of the objects of one piece come first"
    apart = (frequent.difference, frequent.diff_low, frequent.diff_high)
    yield legacy_finding(
        f"{rows.model} puts the right object first among its relation's objects for {_told(own)} of facts{over}; "
        f"always saying the most frequent one gives {_told(frequent)}, a difference of {number(*apart)}{whole}.",
        status_of(*apart[1:], 0.0), *apart, 0.0,
    )  # fmt: skip
    yield from _consistency(rows)
    yield from _pieces(rows)
    if frequency := rows.get(rows.whole, "frequency_correlation"):
        yield finding(
            "Rank correlation, within relations, of how many facts have an object with how often it is said right: "
            "{number} (no effect: {against}).",
            frequency.value, frequency.low, frequency.high, 0.0, negligible=0.05,
        )  # fmt: skip


def _consistency(rows: Rows) -> Iterator[Finding]:
    same, right = rows.get(rows.whole, "consistency"), rows.get(rows.whole, "consistent_and_right")
    if same is None:
        return
    twin, chance = (rows.beside(rows.whole, "consistency", name) for name in (TWIN, CHANCE))
    beside = twin or chance
    against = f"its twin with random weights: {_told(twin)}" if twin else f"chance: {number(chance.value)}"
    # The twin may have been asked fewer facts: the difference is on those that both were asked.
    apart = (beside.difference, beside.diff_low, beside.diff_high)
    yield legacy_finding(
        f"Two paraphrases of a question get the same object in {_told(same)} of pairs ({against}; paired difference "
        f"{number(*apart)}); all paraphrases get the right one for {_told(right)} of facts.",
        status_of(*apart[1:], 0.0), *apart, 0.0,
    )  # fmt: skip


def _pieces(rows: Rows) -> Iterator[Finding]:
    one, several = (rows.get(rows.whole, f"{OBJECTS}_{which}") for which in ("one_piece", "several_pieces"))
    if one is not None and several is not None:
        yield finding(
            f"Objects of one piece come first in {{number}} of {one.n:,} facts, objects of several pieces in "
            f"{{against}} of {several.n:,}.",
            one.value, one.low, one.high, several.value, (several.low, several.high),
        )  # fmt: skip


def _of_own(rows: Rows) -> Iterator[Finding]:
    for measure, said, baseline in (
        (CHOICE, "The answer is the likeliest candidate", CHANCE),
        ("accuracy_at_1", "The answer is the likeliest word", MOST_FREQUENT),
    ):
        own, other = rows.get(rows.whole, measure), rows.beside(rows.whole, measure, baseline)
        if own is not None:
            named = "chance" if baseline == CHANCE else "the most frequent answer of the other items"
            interval = None if baseline == CHANCE else (other.low, other.high)
            yield finding(
                f"{said} in {{number}} of {own.n:,} items; {named} gives {{against}}.",
                own.value, own.low, own.high, other.value, interval,
            )  # fmt: skip


_SHOWN = {
    OBJECTS: ("precision_at_1", "precision_at_10", OBJECTS, "consistency"),
    "sensitivity": ("accuracy_at_5", "sensitivity", _AFFIRMED, _NEGATED),
    "accuracy_at_1": ("accuracy_at_1", "accuracy_at_5", "accuracy_at_10", CHOICE),
}
"""The measure that tells the kind of suite -> the measures that the terminal shows."""
_FEW = 12
"""Parts that are shown with an interval."""
_HEADINGS = {
    "accuracy_at_1": "at 1", "accuracy_at_5": "at 5", "accuracy_at_10": "at 10", _AFFIRMED: "affirmed",
    _NEGATED: "negated", "precision_at_1": "P@1", "precision_at_10": "P@10", OBJECTS: "objects",
    CHANCE: "chance", MOST_FREQUENT: "most frequent",
}  # fmt: skip


def overview_of(result: Result) -> Iterable[Overview]:
    """One row per part, the measures that one looks at first, and the baselines of the main one."""
    rows = Rows(result)
    main = next(measure for measure in _SHOWN if rows.any(measure))
    shown = [measure for measure in _SHOWN[main] if rows.any(measure)]
    beside = CHANCE if main == "sensitivity" else MOST_FREQUENT
    parts = ([ALL] if rows.whole == ALL else []) + list(rows.names)
    few = len(parts) <= _FEW
    table: list[tuple[str | int, ...]] = []
    for part in parts:
        name = rows.names.get(part, part)
        # The terminal has room for one interval, and with many parts for none.
        cells = [
            "" if row is None else cell(row.value, row.low, row.high) if measure == main and few else cell(row.value)
            for measure in shown
            for row in (rows.get(part, measure),)
        ]
        other = rows.beside(part, main, beside)
        most = max((row.n for measure in shown if (row := rows.get(part, measure)) is not None), default=0)
        told = "" if other is None else cell(other.value)
        table.append((part if name == part else f"{part} ({name})", most, *cells, told))
    suite = str(result.tables["cloze"]["suite"].iloc[0])
    said = ("part", "items", *(_HEADINGS.get(each, each.replace("_", " ")) for each in shown), _HEADINGS[beside])
    yield Overview(f"{rows.model} on {suite}", said, table)
